/* Making what memory.cc implements, for sessions too. */
#ifndef EPHOST_CUDA_MEMORY_H_
#define EPHOST_CUDA_MEMORY_H_

#include "factory.h"

namespace ephost_cuda {

/* An allocator of the memory that `info` names; limit 0: it shares the device's pool. */
OrtAllocator* make_allocator(const Factory& factory, const OrtMemoryInfo* info, size_t limit);
/* The pool behind an allocator of ours. */
Pool* pool_of(OrtAllocator* allocator);
/* A stream; `theirs` is one that the user brought, or NULL. */
OrtSyncStreamImpl* make_stream(const Factory& factory, Device& device, CUstream theirs);

}  // namespace ephost_cuda

#endif
