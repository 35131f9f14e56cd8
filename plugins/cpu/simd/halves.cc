// Conversions between float32 and floats of 16 bits.
#include "cpu/simd/simd.h"

#include "cpu/simd/formulas.h"
#include "cpu/simd/independent.h"
#ifdef __F16C__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

void half_to_float(const void* const* in, void* out, int64_t n, const float*) {
  const uint16_t* x = static_cast<const uint16_t*>(in[0]);
  float* y = static_cast<float*>(out);
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  }
#endif
#ifdef __aarch64__
  for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + i))));
#endif
  for (; i < n; ++i) {
    // Moved to float's place, the exponent is too small by 112. One multiplication puts that right, for
    // subnormal numbers as well.
    const uint32_t rest = x[i] & 0x7fffu, sign = static_cast<uint32_t>(x[i] & 0x8000u) << 16;
    const uint32_t scaled = to_bits(from_bits(rest << 13) * 0x1p112f);
    y[i] = from_bits(sign | (rest >= 0x7c00u ? scaled | 0x7f800000u : scaled));
  }
}

void float_to_half(const void* const* in, void* out, int64_t n, const float*) {
  const float* x = static_cast<const float*>(in[0]);
  uint16_t* y = static_cast<uint16_t*>(out);
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
#ifdef __aarch64__
  for (; i + 4 <= n; i += 4) vst1_u16(y + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
#endif
  for (; i < n; ++i) {
    const uint32_t bits = to_bits(x[i]), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    // Adding 0.5 shifts and rounds what is too small for a normal number.
    const uint32_t small = to_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x1ffu);
    y[i] = static_cast<uint16_t>(sign | (magnitude > 0x7f800000u    ? nan
                                         : magnitude >= 0x477ff000u ? 0x7c00u
                                         : magnitude < 0x38800000u  ? small
                                                                    : normal));
  }
}

void bfloat16_to_float(const void* const* in, void* out, int64_t n, const float*) {
  const uint16_t* x = static_cast<const uint16_t*>(in[0]);
  float* y = static_cast<float*>(out);
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = from_bits(static_cast<uint32_t>(x[i]) << 16);
}

void float_to_bfloat16(const void* const* in, void* out, int64_t n, const float*) {
  const float* x = static_cast<const float*>(in[0]);
  uint16_t* y = static_cast<uint16_t*>(out);
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = to_bits(x[i]);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, nan = bits >> 16 | 0x40u;
    y[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

}  // namespace

void fill_halves(Simd* table) {
  table->half_to_float = half_to_float;
  table->float_to_half = float_to_half;
  table->bfloat16_to_float = bfloat16_to_float;
  table->float_to_bfloat16 = float_to_bfloat16;
}

}  // namespace ephost::cpu::EPHOST_ISA
