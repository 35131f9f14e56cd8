// Preloaded under the address and undefined behaviour sanitizers (.ci/sanitize).
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <unistd.h>

// The sanitizer's.
void __sanitizer_set_death_callback(void (*callback)(void));
int __lsan_do_recoverable_leak_check(void);

static int exit_status;

static void exit_as_asked(void) { _exit(exit_status); }

// Looks for leaks as libasan would at exit, whose own check ends a process with LSAN_OPTIONS=exitcode where
// it cannot stop all threads (one ends at that moment): a test that expects another status of the process
// failed then.
static void look_for_leaks(int status, void* unused) {
  (void)unused;
  exit_status = status;
  __sanitizer_set_death_callback(exit_as_asked);
  __lsan_do_recoverable_leak_check();
}

__attribute__((constructor)) static void start(void) {
  on_exit(look_for_leaks, NULL);  // the first one registered is the last one called
}
