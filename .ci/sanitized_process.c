// Preloaded under the address and undefined behaviour sanitizers (.ci/sanitize).
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

// libasan's.
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

// Sends the reports of GCC's libubsan where EPHOST_UBSAN_REPORTS says. Its log_path does not do that beside
// libasan: both define the function that sets the path, and libubsan calls libasan's.
static void send_reports(void) {
  const char* path = getenv("EPHOST_UBSAN_REPORTS");
  void* library = dlopen("libubsan.so.1", RTLD_NOW);
  void (*set_path)(const char*) = NULL;
  if (library != NULL) *(void**)&set_path = dlsym(library, "__sanitizer_set_report_path");
  if (path != NULL && set_path != NULL) set_path(path);
}

__attribute__((constructor)) static void start(void) {
  send_reports();
  on_exit(look_for_leaks, NULL);  // the first one registered is the last one called
}
