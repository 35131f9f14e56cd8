// How the sums of a product become bytes; for quantized.cc and quantized_products.cc.
#ifndef EPHOST_CPU_SIMD_TO_BYTES_H_
#define EPHOST_CPU_SIMD_TO_BYTES_H_

#include "cpu/simd/quantized.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {

// Quantized::to_bytes.
void to_bytes(const int32_t* sums, int64_t stride, int rows, int64_t n, const Quantized::Bytes& as,
              uint8_t* y, int64_t y_stride);

#ifdef __AVX2__

// For kColumns columns, whose scales stay in registers.
class ToBytes {
 public:
  explicit ToBytes(const Quantized::Bytes& as)
      : is_signed_(as.low < 0), zero_(_mm256_set1_epi16(static_cast<int16_t>(as.zero))) {
    for (int half = 0; half < 2; ++half) {
      scale_[half] = as.step == 0 ? _mm256_set1_ps(as.scale[0]) : _mm256_loadu_ps(as.scale + 8 * half);
    }
  }
  // Of one row.
  void store(__m256i low, __m256i high, uint8_t* y) const {
    const __m256i both = _mm256_packs_epi32(rounded(low, 0), rounded(high, 1));
    const __m256i moved = _mm256_adds_epi16(both, zero_);
    const __m256i bytes = is_signed_ ? _mm256_packs_epi16(moved, moved) : _mm256_packus_epi16(moved, moved);
    // Fours of columns lie as 0, 2, 0, 2 and 1, 3, 1, 3.
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y),
                     _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
  }

 private:
  // What is too large for an integer stays large, and packing limits all.
  __m256i rounded(__m256i sums, int half) const {
    const __m256 all = _mm256_cvtepi32_ps(sums);
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_mul_ps(all, scale_[half]), _mm256_set1_ps(1e9f)));
  }

  bool is_signed_;
  __m256i zero_;
  __m256 scale_[2];
};

#endif

}  // namespace ephost::cpu::EPHOST_ISA

#endif
