// Products of signed bytes, four by four, on aarch64: with `dotprod` one instruction, without it six, and the
// same sums.
#ifndef EPHOST_CPU_SIMD_ARM_DOTS_H_
#define EPHOST_CPU_SIMD_ARM_DOTS_H_

#include <arm_neon.h>

#include <cstdint>

namespace ephost::cpu::EPHOST_ISA {
namespace {

// Four bytes from anywhere, four times.
inline int8x16_t fours(const void* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

// sums[i] + the sum over k of x[4 * i + k] * y[4 * i + k]
inline int32x4_t dots(int32x4_t sums, int8x16_t x, int8x16_t y) {
#ifdef __ARM_FEATURE_DOTPROD
  return vdotq_s32(sums, x, y);
#else
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y)));
  const int32x4_t high = vpaddlq_s16(vmull_high_s8(x, y));
  return vaddq_s32(sums, vpaddq_s32(low, high));
#endif
}

}  // namespace
}  // namespace ephost::cpu::EPHOST_ISA

#endif
