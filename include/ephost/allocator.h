#ifndef EPHOST_ALLOCATOR_H_
#define EPHOST_ALLOCATOR_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct OrtAllocator {
  uint32_t version;
  void*(ORT_API_CALL* Alloc)(struct OrtAllocator* this_, size_t size);
  void(ORT_API_CALL* Free)(struct OrtAllocator* this_, void* p);
  const struct OrtMemoryInfo*(ORT_API_CALL* Info)(const struct OrtAllocator* this_);
  EPHOST_SINCE(18)
  void*(ORT_API_CALL* Reserve)(struct OrtAllocator* this_, size_t size);
  EPHOST_SINCE(23)
  OrtStatus*(ORT_API_CALL* GetStats)(const struct OrtAllocator* this_, OrtKeyValuePairs** out);
  void*(ORT_API_CALL* AllocOnStream)(struct OrtAllocator* this_, size_t size, OrtSyncStream* stream);
  EPHOST_SINCE(25)
  OrtStatus*(ORT_API_CALL* Shrink)(struct OrtAllocator* this_);
};

#ifdef __cplusplus
}
#endif

#endif
