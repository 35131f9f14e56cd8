/* What the host allocates for itself. */
#ifndef EPHOST_NATIVE_HEAP_H_
#define EPHOST_NATIVE_HEAP_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the host allocates for itself goes through these, so that tests can make any one of them fail. They
 * give NULL without memory; a size of 0 gives a block to free like any other. */
void* host_malloc(size_t nbytes);
void* host_calloc(size_t count, size_t size); /* NULL too when the product overflows */
void* host_realloc(void* block, size_t nbytes);
void host_free(void* block); /* NULL is fine */
void* host_memdup(const void* data, size_t nbytes);
char* host_strdup(const char* text);
bool host_allocation_fails(void); /* for an allocation that goes elsewhere: true when it is the one to fail */
void ephost_fail_allocation_after(int64_t count); /* `count` more succeed, the next fails, later ones succeed;
                                                     negative: none fails */

#endif
