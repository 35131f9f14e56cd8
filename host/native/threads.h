/* The thread pool of a session. */
#ifndef EPHOST_NATIVE_THREADS_H_
#define EPHOST_NATIVE_THREADS_H_

#include <stddef.h>

#include "abi.h"

typedef struct ThreadPool ThreadPool;
/* counts the caller: 1 starts none; 0 takes the machine's cores */
ThreadPool* ephost_thread_pool_new(int threads);
void ephost_thread_pool_free(ThreadPool* pool);
/* Calls fn(context, i) for each i < total, on the pool's threads and the caller's, in at most `batches`
 * pieces (0: as many as there are threads); returns when all are done. Nested calls run in the calling
 * thread. What `fn` throws is the status, and indices that nobody has begun with are left out. */
OrtStatus* thread_pool_parallel_for(ThreadPool* pool, void (*fn)(void*, size_t), size_t total, size_t batches,
                                    void* context);

#endif
