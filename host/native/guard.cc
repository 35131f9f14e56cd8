/* The one way into a plugin: each call goes through a function here that catches what it throws.
 *
 * Compiled as C++, but linked to no C++ runtime (exceptions.c has what it takes), and so without anything of
 * C++'s library. Where there is no C++ compiler it is compiled as C, and catches nothing. A call that does
 * not throw costs no more than going through another function. guards.inc, generated from the headers, has
 * one function for each function pointer that a plugin fills. */
#include "exceptions.h"

#ifdef EPHOST_CATCHES
#define GUARD_TRY try
#define GUARD_CATCH catch (...)
#else
#define GUARD_TRY
#define GUARD_CATCH if (0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Where a worker process, which its plugin may end at any time, leaves what it has called last. */
static uint32_t* noted;

#if defined(__GNUC__)
#define NOTE(number) (void)(noted != NULL && (__atomic_store_n(noted, (number), __ATOMIC_RELAXED), 0))
#else
#define NOTE(number) (void)(noted != NULL && (*(volatile uint32_t*)noted = (number)))
#endif

void note_calls_in(uint32_t* place) { noted = place; }

uint32_t noted_call(void) { return noted != NULL ? *(volatile uint32_t*)noted : 0; }

#include "guards.inc"

OrtStatus* guard_indices(void (*fn)(void*, size_t), void* context, size_t begin, size_t end) {
  GUARD_TRY {
    for (size_t i = begin; i < end; ++i) fn(context, i);
  }
  GUARD_CATCH { return exception_status("a function given to KernelContext_ParallelFor"); }
  return NULL;
}

void* guard_open(void* (*open)(const char*, int), const char* path, int flags, char* thrown, size_t size) {
  thrown[0] = '\0';
  NOTE(CALL_OPEN);
  GUARD_TRY { return open(path, flags); }
  GUARD_CATCH { exception_text(thrown, size); }
  return NULL;
}

void guard_close(int (*close)(void*), void* library, char* thrown, size_t size) {
  thrown[0] = '\0';
  NOTE(CALL_CLOSE);
  GUARD_TRY { (void)close(library); }
  GUARD_CATCH { exception_text(thrown, size); }
}

#ifdef __cplusplus
}
#endif
