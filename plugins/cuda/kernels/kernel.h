/* What the kernels are written with.
 *
 * KERNEL(name, parameters...) { body } defines a kernel without barriers and shuffles, and
 * COOPERATIVE_KERNEL(name, threads, parameters...) one that may have them, for blocks of at most so many
 * threads. Names have C linkage, so the host finds kernels by them. Tests define EPHOST_EMULATE and give
 * these words other meanings, to run the same source on a CPU.
 *
 * Arithmetic is in float32 whatever the elements are. */
#ifndef EPHOST_CUDA_KERNEL_H_
#define EPHOST_CUDA_KERNEL_H_

#ifdef EPHOST_EMULATE
#include "emulate.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(256) name(__VA_ARGS__)
#define COOPERATIVE_KERNEL(name, threads, ...) \
  extern "C" __global__ void __launch_bounds__(threads) name(__VA_ARGS__)
#define SHARED __shared__
#define DEVICE __device__ __forceinline__
#define CONSTANT __grid_constant__ const
#endif

#include <cstdint>
#include <cstring>

#include "arguments.h"

namespace ephost::cuda {

typedef __half half_t;
typedef __nv_bfloat16 bf16_t;

DEVICE float to_float(float x) { return x; }
DEVICE float to_float(half_t x) { return __half2float(x); }
DEVICE float to_float(bf16_t x) { return __bfloat162float(x); }
template <typename T>
DEVICE T from_float(float x);
template <>
DEVICE float from_float<float>(float x) {
  return x;
}
template <>
DEVICE half_t from_float<half_t>(float x) {
  return __float2half_rn(x);
}
template <>
DEVICE bf16_t from_float<bf16_t>(float x) {
  return __float2bfloat16_rn(x);
}

/* Elements that one access of 16 bytes moves. */
template <typename T>
struct Vector {
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
};

/* What one access moves: 16 bytes, or 8. */
template <int kBytes>
struct Bits {
  typedef uint4 type;
};
template <>
struct Bits<8> {
  typedef uint2 type;
};

template <typename T, int kWidth>
DEVICE void load(const T* from, float (&to)[kWidth]) {
  constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  if constexpr (kBytes == 16 || kBytes == 8) {
    const auto bits = *reinterpret_cast<const typename Bits<kBytes>::type*>(from);
    T elements[kWidth];
    memcpy(static_cast<void*>(elements), &bits, kBytes);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = to_float(elements[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = to_float(from[i]);
  }
}

template <typename T, int kWidth>
DEVICE void store(T* to, const float (&from)[kWidth]) {
  constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  if constexpr (kBytes == 16 || kBytes == 8) {
    T elements[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) elements[i] = from_float<T>(from[i]);
    typename Bits<kBytes>::type bits;
    memcpy(&bits, static_cast<const void*>(elements), kBytes);
    *reinterpret_cast<typename Bits<kBytes>::type*>(to) = bits;
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = from_float<T>(from[i]);
  }
}

DEVICE uint32_t divide(uint32_t n, const Divider& by) {
  const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(n) * by.multiplier) >> 32);
  return (high + n) >> by.shift;
}

/* This thread's number in the grid. */
DEVICE uint32_t thread_number() { return blockIdx.x * blockDim.x + threadIdx.x; }

}  // namespace ephost::cuda

#endif
