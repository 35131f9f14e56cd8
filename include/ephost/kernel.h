/* Kernels that a plugin implements, and helpers for the host's control flow. */
#ifndef EPHOST_KERNEL_H_
#define EPHOST_KERNEL_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel: computes one node of one session. The EP makes it in an OrtKernelCreateFunc, as the head of a
   struct of its own, and zeroes it first. */
struct OrtKernelImpl {
  /* The API version the EP was compiled with: later members are not read. */
  uint32_t ort_version_supported;

  /* The host's own; 0 in a kernel that an EP makes. */
  uint32_t flags;

  EPHOST_SINCE(24)

  /* Computes the node: ask the context for inputs, allocate outputs through it. Several threads may be in it
     at once, unless the EP said that it cannot. On error the outputs are ignored. */
  OrtStatus* (ORT_API_CALL* Compute)(OrtKernelImpl* this_ptr, OrtKernelContext* context);

  /* Frees the kernel, called once, after all calls of Compute. */
  void (ORT_API_CALL* Release)(OrtKernelImpl* this_ptr);

  /* Offered each constant input once, before the first Compute. To keep an own form of it, set *is_packed
     (false otherwise): the host may then free the original, and Compute finds input_index missing.
     `allocator` gives memory for it, which the kernel keeps; with a prepacked_weight_cache (may be NULL) it
     must store the buffers there instead, which then own them. NULL: nothing is packed. */
  OrtStatus* (ORT_API_CALL* PrePackWeight)(OrtKernelImpl* this_ptr, const OrtValue* tensor, int input_index,
      OrtAllocator* allocator, OrtSharedPrePackedWeightCache* prepacked_weight_cache, bool* is_packed);

  /* Lends buffers that this or an equal kernel stored in the cache; valid while the kernel lives. NULL unless
     PrePackWeight stores. */
  OrtStatus* (ORT_API_CALL* SetSharedPrePackedWeight)(OrtKernelImpl* this_ptr,
      const void* const* buffer_data_ptrs, const size_t* buffer_data_sizes, size_t num_buffers,
      int input_index);
};

/* What the host's Loop kernel needs from an EP whose memory it cannot touch. Belongs to the EP until given to
   CreateLoopKernel, which takes it over if it succeeds. */
struct OrtLoopKernelHelper {
  /* The API version the EP was compiled with. */
  uint32_t ort_version_supported;

  EPHOST_SINCE(24)

  /* Frees it, called once. */
  void (ORT_API_CALL* Release)(OrtLoopKernelHelper* this_ptr);

  /* Joins one output of all iterations (same type and shape each) along a new first axis into `output`.
     stream_handle is the device's own stream, or NULL. */
  OrtStatus* (ORT_API_CALL* ConcatOutput)(OrtLoopKernelHelper* this_ptr, void* stream_handle,
      const OrtValue* const* per_iteration_outputs, size_t num_per_iteration_outputs, void* output,
      size_t output_size_in_bytes);
};

/* The same for the host's Scan kernel and CreateScanKernel. */
struct OrtScanKernelHelper {
  /* The API version the EP was compiled with. */
  uint32_t ort_version_supported;

  EPHOST_SINCE(24)

  /* Frees it, called once. */
  void (ORT_API_CALL* Release)(OrtScanKernelHelper* this_ptr);

  /* Permutes the axes of `input` into the preallocated `output`; stream may be NULL. */
  OrtStatus* (ORT_API_CALL* Transpose)(OrtScanKernelHelper* this_ptr, const size_t* permutation,
                                       size_t num_permutation_elems, const OrtValue* input,
                                       OrtSyncStream* stream, OrtValue* output);
};

#ifdef __cplusplus
}
#endif

#endif
