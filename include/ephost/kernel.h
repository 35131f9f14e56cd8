#ifndef EPHOST_KERNEL_H_
#define EPHOST_KERNEL_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct OrtKernelImpl {
  uint32_t ort_version_supported;
  uint32_t flags;
  EPHOST_SINCE(24)
  OrtStatus*(ORT_API_CALL* Compute)(OrtKernelImpl* this_ptr, OrtKernelContext* context);
  void(ORT_API_CALL* Release)(OrtKernelImpl* this_ptr);
  OrtStatus*(ORT_API_CALL* PrePackWeight)(OrtKernelImpl* this_ptr, const OrtValue* tensor, int input_index, OrtAllocator* allocator, OrtSharedPrePackedWeightCache* prepacked_weight_cache, bool* is_packed);
  OrtStatus*(ORT_API_CALL* SetSharedPrePackedWeight)(OrtKernelImpl* this_ptr, const void* const* buffer_data_ptrs, const size_t* buffer_data_sizes, size_t num_buffers, int input_index);
};

struct OrtLoopKernelHelper {
  uint32_t ort_version_supported;
  EPHOST_SINCE(24)
  void(ORT_API_CALL* Release)(OrtLoopKernelHelper* this_ptr);
  OrtStatus*(ORT_API_CALL* ConcatOutput)(OrtLoopKernelHelper* this_ptr, void* stream_handle, const OrtValue* const* per_iteration_outputs, size_t num_per_iteration_outputs, void* output, size_t output_size_in_bytes);
};

struct OrtScanKernelHelper {
  uint32_t ort_version_supported;
  EPHOST_SINCE(24)
  void(ORT_API_CALL* Release)(OrtScanKernelHelper* this_ptr);
  OrtStatus*(ORT_API_CALL* Transpose)(OrtScanKernelHelper* this_ptr, const size_t* permutation, size_t num_permutation_elems, const OrtValue* input, OrtSyncStream* stream, OrtValue* output);
};

#ifdef __cplusplus
}
#endif

#endif
