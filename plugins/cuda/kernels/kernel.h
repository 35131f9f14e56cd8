/* What the kernels are written with.
 *
 * KERNEL(name, parameters...) { body } defines a kernel without barriers and shuffles, and
 * COOPERATIVE_KERNEL(name, threads, parameters...) one that may have them, for blocks of at most so many
 * threads. Names have C linkage, so the host finds kernels by them. Tests define EPHOST_EMULATE and give
 * these words other meanings, to run the same source on a CPU. */
#ifndef EPHOST_CUDA_KERNEL_H_
#define EPHOST_CUDA_KERNEL_H_

#ifdef EPHOST_EMULATE
#include "emulate.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__)
#define COOPERATIVE_KERNEL(name, threads, ...) \
  extern "C" __global__ void __launch_bounds__(threads) name(__VA_ARGS__)
#define SHARED __shared__
#define DEVICE __device__ __forceinline__
#endif

#include <cstdint>

typedef __half half_t;
typedef __nv_bfloat16 bf16_t;

#endif
