// Preloaded under the sanitizers (.ci/sanitize): sends the reports of GCC's libubsan where
// EPHOST_UBSAN_REPORTS says. Its log_path does not do that beside libasan: both define the function that sets
// the path, and libubsan calls libasan's.
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((constructor)) static void send_reports(void) {
  const char* path = getenv("EPHOST_UBSAN_REPORTS");
  void* library = dlopen("libubsan.so.1", RTLD_NOW);
  void (*set_path)(const char*) = NULL;
  if (library != NULL) *(void**)&set_path = dlsym(library, "__sanitizer_set_report_path");
  if (path != NULL && set_path != NULL) set_path(path);
}
