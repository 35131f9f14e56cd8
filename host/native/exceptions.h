/* What a plugin throws, where the host has called it: see exceptions.c. */
#ifndef EPHOST_NATIVE_EXCEPTIONS_H_
#define EPHOST_NATIVE_EXCEPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guards.h"

#ifdef __cplusplus
#define GUARD_NOEXCEPT noexcept
extern "C" {
#else
#define GUARD_NOEXCEPT
#endif

/* ---- for guard.cc, inside of a catch: `function` is who threw ---- */

OrtStatus* exception_status(const char* function) GUARD_NOEXCEPT; /* ORT_RUNTIME_EXCEPTION: who threw what */
/* Keeps that status for this thread, until outcome() or ephost_take_thrown() gives it; the first one stays.
 */
void exception_keep(const char* function) GUARD_NOEXCEPT;
void exception_log(const char* function) GUARD_NOEXCEPT; /* tells it as an error: of what only releases */
/* The same of a function that the plugin left NULL, with ORT_EP_FAIL. */
OrtStatus* missing_status(const char* function) GUARD_NOEXCEPT;
void missing_keep(const char* function) GUARD_NOEXCEPT;
void exception_text(char* text, size_t size) GUARD_NOEXCEPT;

/* ---- for the host ---- */

/* What came of a step: the status, or in its place what a function without one has thrown since. */
OrtStatus* outcome(OrtStatus* status) GUARD_NOEXCEPT;

/* ---- in guard.cc ---- */

/* From here on each call into a plugin leaves its number (ephost_call_name) there. NULL: not any more. */
void note_calls_in(uint32_t* place);
uint32_t noted_call(void); /* the last one; 0: none */

/* fn(context, i) for each index; what it throws comes back as a status, and the rest is left out. */
OrtStatus* guard_indices(void (*fn)(void*, size_t), void* context, size_t begin, size_t end);
/* dlopen and dlclose, whose functions are said not to throw, with what a library's static constructors and
 * destructors throw as a text; "": nothing. */
void* guard_open(void* (*open)(const char*, int), const char* path, int flags, char* thrown, size_t size);
void guard_close(int (*close)(void*), void* library, char* thrown, size_t size);

#ifdef __cplusplus
}
#endif

#endif
