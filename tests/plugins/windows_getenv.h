/* getenv for plugins of tests on Windows, where build_plugin includes it before all else: what Python sets in
 * os.environ the process then has, but not this library's C library, which copied all variables when it
 * began. */
#ifndef EPHOST_TESTS_WINDOWS_GETENV_H_
#define EPHOST_TESTS_WINDOWS_GETENV_H_

#include <stdlib.h>
#include <windows.h>

/* Of the last few that were asked for, so that two can be held beside each other. */
static inline const char* windows_getenv(const char* name) {
  static __thread char values[8][32768];
  static __thread unsigned at;
  char* value = values[at++ % 8];
  const DWORD length = GetEnvironmentVariableA(name, value, sizeof values[0]);
  return length > 0 && length < sizeof values[0] ? value : NULL;
}
#define getenv windows_getenv

#endif
