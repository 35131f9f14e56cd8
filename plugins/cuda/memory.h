/* Making what memory.cc implements, for sessions too. */
#ifndef EPHOST_CUDA_MEMORY_H_
#define EPHOST_CUDA_MEMORY_H_

#include "cuda/factory.h"

namespace ephost::cuda {

/* An allocator of the memory that `info` names: of `pool`, which must outlive it; or, where that is NULL, of
 * a pool of its own if there is a limit, else of the device's. */
OrtAllocator* make_allocator(const Factory& factory, const OrtMemoryInfo* info, size_t limit,
                             Pool* pool = nullptr);
/* A stream; `theirs` is one that the user brought, or NULL. */
OrtSyncStreamImpl* make_stream(const Factory& factory, Device& device, CUstream theirs);

}  // namespace ephost::cuda

#endif
