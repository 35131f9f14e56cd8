/* The host's own heap. Everything that the C half allocates comes through here (the CPU allocator's blocks
 * ask host_allocation_fails), so that a test can make any one allocation fail and walk the error path behind
 * it. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "python.h"

/* Allocations left until one fails; negative: none will. The first look is relaxed: a test sets it and
 * allocates in one thread, or orders its threads itself. */
static atomic_llong allocations_left = -1;

void ephost_fail_allocation_after(int64_t count) { atomic_store(&allocations_left, count < 0 ? -1 : count); }

bool host_allocation_fails(void) {
  if (atomic_load_explicit(&allocations_left, memory_order_relaxed) < 0) return false;
  return atomic_fetch_sub(&allocations_left, 1) == 0; /* goes on to -1: only this one fails */
}

void* host_malloc(size_t nbytes) { return host_allocation_fails() ? NULL : malloc(nbytes > 0 ? nbytes : 1); }

void* host_calloc(size_t count, size_t size) {
  if (host_allocation_fails()) return NULL;
  return count > 0 && size > 0 ? calloc(count, size) : calloc(1, 1);
}

void* host_realloc(void* block, size_t nbytes) {
  return host_allocation_fails() ? NULL : realloc(block, nbytes > 0 ? nbytes : 1);
}

void host_free(void* block) { free(block); }

void* host_memdup(const void* data, size_t nbytes) {
  void* copy = host_malloc(nbytes);
  if (copy != NULL && nbytes > 0) memcpy(copy, data, nbytes);
  return copy;
}

char* host_strdup(const char* text) { return host_memdup(text, strlen(text) + 1); }
