#include "kernel.h"

/* Sets `count` words. */
KERNEL(fill_u32, uint32_t* out, uint32_t value, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    out[i] = value;
  }
}
