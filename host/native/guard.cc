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

/* Where a worker process, which its plugin may end at any time, leaves what it has called last. The end of
 * the worker takes it away, while its other threads may still make calls: each reads it once. Relaxed: the
 * page was mapped before any of them was told to call, and the handler of a fatal signal reads what its own
 * thread wrote there, or another one since. */
#if defined(__GNUC__)
static uint32_t* noted;
#define NOTED() __atomic_load_n(&noted, __ATOMIC_RELAXED)
#define WRITE_NOTE(place, number) __atomic_store_n(place, number, __ATOMIC_RELAXED)
#else
static uint32_t* volatile noted;
#define NOTED() noted
#define WRITE_NOTE(place, number) (void)(*(volatile uint32_t*)(place) = (number))
#endif

static inline void note(uint32_t number) {
  uint32_t* place = NOTED();
  if (place != NULL) WRITE_NOTE(place, number);
}

void note_calls_in(uint32_t* place) {
#if defined(__GNUC__)
  __atomic_store_n(&noted, place, __ATOMIC_RELAXED);
#else
  noted = place;
#endif
}

uint32_t noted_call(void) {
  uint32_t* place = NOTED();
  return place != NULL ? *(volatile uint32_t*)place : 0;
}

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
  note(CALL_OPEN);
  GUARD_TRY { return open(path, flags); }
  GUARD_CATCH { exception_text(thrown, size); }
  return NULL;
}

void guard_close(int (*close)(void*), void* library, char* thrown, size_t size) {
  thrown[0] = '\0';
  note(CALL_CLOSE);
  GUARD_TRY { (void)close(library); }
  GUARD_CATCH { exception_text(thrown, size); }
}

#ifdef __cplusplus
}
#endif
