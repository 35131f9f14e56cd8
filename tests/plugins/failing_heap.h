/* Compiled into a plugin with -include: the allocation whose number EPHOST_FAIL_ALLOCATION gives fails, once.
   The count starts again whenever the variable changes. */
#include <stdlib.h>
#include <string.h>

/* Weak, so that all files of a plugin share one count. */
__attribute__((weak, visibility("hidden"))) char failing_now[16];
__attribute__((weak, visibility("hidden"))) long allocations_left = -1;

static inline int allocation_fails(void) {
  const char* wanted = getenv("EPHOST_FAIL_ALLOCATION");
  if (wanted == NULL) {
    return 0;
  }
  if (strcmp(failing_now, wanted) != 0) {
    strncpy(failing_now, wanted, sizeof failing_now - 1);
    allocations_left = strtol(wanted, NULL, 10);
  }
  return allocations_left >= 0 && allocations_left-- == 0;
}

static inline void* heap_malloc(size_t size) { return allocation_fails() ? NULL : malloc(size); }
static inline void* heap_calloc(size_t n, size_t size) { return allocation_fails() ? NULL : calloc(n, size); }
static inline void* heap_realloc(void* old, size_t size) {
  return allocation_fails() ? NULL : realloc(old, size);
}

#define malloc heap_malloc
#define calloc heap_calloc
#define realloc heap_realloc
