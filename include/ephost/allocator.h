/* Allocators: a plugin's, the host's and an application's all have this form. */
#ifndef EPHOST_ALLOCATOR_H_
#define EPHOST_ALLOCATOR_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of one kind. The implementer fills the struct and owns it; whoever gets one uses it through the
   members and gives it back to where it came from. All members may be called from several threads at once. */
struct OrtAllocator {
  /* The API version the implementer was compiled with: later members are not read. */
  uint32_t version;

  /* At least `size` bytes, aligned as its memory info says; NULL when there is no memory. Size 0 may give
     NULL. */
  void* (ORT_API_CALL* Alloc)(struct OrtAllocator* this_, size_t size);

  /* Takes what this allocator gave; NULL does nothing. Must not be handed memory of another allocator. */
  void (ORT_API_CALL* Free)(struct OrtAllocator* this_, void* p);

  /* Where the memory is; belongs to the allocator, never NULL. */
  const struct OrtMemoryInfo* (ORT_API_CALL* Info)(const struct OrtAllocator* this_);

  EPHOST_SINCE(18)

  /* Like Alloc, for memory held for long (weights), so that an arena need not be grown for it. NULL: the host
     calls Alloc. */
  void* (ORT_API_CALL* Reserve)(struct OrtAllocator* this_, size_t size);

  EPHOST_SINCE(23)

  /* Statistics by name, in a new object that the caller releases. NULL when the allocator keeps none. */
  OrtStatus* (ORT_API_CALL* GetStats)(const struct OrtAllocator* this_, OrtKeyValuePairs** out);

  /* Like Alloc, for use by work on `stream` only until it is freed, so the memory may be reused in that
     stream's order. NULL when the allocator knows no streams; the host then calls Alloc. */
  void* (ORT_API_CALL* AllocOnStream)(struct OrtAllocator* this_, size_t size, OrtSyncStream* stream);

  EPHOST_SINCE(25)

  /* Gives unused memory back to the system. NULL when there is nothing to give back. */
  OrtStatus* (ORT_API_CALL* Shrink)(struct OrtAllocator* this_);
};

#ifdef __cplusplus
}
#endif

#endif
