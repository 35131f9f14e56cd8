// Products of 8-bit integers, and what is done to their sums.
#include "simd/quantized.h"

#include "simd/simd.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

#ifdef __AVX2__

// Pairs of 16-bit products are added in 32 bits, which cannot overflow: vpmaddubsw, which would take 8-bit
// factors as they are, saturates its sums at 16 bits.
template <int rows>
inline void tile(const int16_t* a, int64_t stride, const int8_t* b, int64_t pairs, int32_t* sums) {
  // Unrolled by order: only so does GCC keep the sums in registers, which all 16 are needed for.
  __m256i low[rows], high[rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    low[r] = high[r] = _mm256_setzero_si256();
  }
  for (int64_t p = 0; p < pairs; ++p) {
    const __m256i b0 = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + p * 32)));
    const __m256i b1 =
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + p * 32 + 16)));
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      int32_t pair;
      __builtin_memcpy(&pair, a + r * stride + p * 2, sizeof pair);
      __m256i both = _mm256_set1_epi32(pair), products;
      // low += madd(both, b0), high += madd(both, b1). As instructions, since there is no register to spare: GCC mixes
      // the rows, and then moves sums around.
      asm("vpmaddwd %4, %2, %3\n\t"
          "vpaddd %3, %0, %0\n\t"
          "vpmaddwd %5, %2, %2\n\t"
          "vpaddd %2, %1, %1"
          : "+x"(low[r]), "+x"(high[r]), "+x"(both), "=&x"(products)
          : "x"(b0), "x"(b1));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * kColumns), low[r]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * kColumns + 8), high[r]);
  }
}

#else

template <int rows>
inline void tile(const int16_t* a, int64_t stride, const int8_t* b, int64_t pairs, int32_t* sums) {
  for (int r = 0; r < rows; ++r) {
    int32_t row[kColumns] = {};
    for (int64_t p = 0; p < pairs; ++p) {
      const int32_t first = a[r * stride + p * 2], second = a[r * stride + p * 2 + 1];
      for (int c = 0; c < kColumns; ++c) {
        row[c] += first * b[p * 32 + c * 2] + second * b[p * 32 + c * 2 + 1];
      }
    }
    for (int c = 0; c < kColumns; ++c) sums[r * kColumns + c] = row[c];
  }
}

#endif

void product(const int16_t* a, int64_t stride, int rows, const int8_t* b, int64_t pairs, int32_t* sums) {
  switch (rows) {
    case 1:
      tile<1>(a, stride, b, pairs, sums);
      break;
    case 2:
      tile<2>(a, stride, b, pairs, sums);
      break;
    case 3:
      tile<3>(a, stride, b, pairs, sums);
      break;
    case 4:
      tile<4>(a, stride, b, pairs, sums);
      break;
    case 5:
      tile<5>(a, stride, b, pairs, sums);
      break;
    default:
      tile<6>(a, stride, b, pairs, sums);
      break;
  }
}

int32_t widen_unsigned(const uint8_t* x, int64_t n, int zero, int16_t* out) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<int16_t>(x[i] - zero);
    sum += out[i];
  }
  return sum;
}

int32_t widen_signed(const int8_t* x, int64_t n, int zero, int16_t* out) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<int16_t>(x[i] - zero);
    sum += out[i];
  }
  return sum;
}

void interleave(const uint8_t* first, const uint8_t* second, uint8_t flip, int8_t* out) {
  for (int i = 0; i < kColumns; ++i) {
    out[2 * i] = static_cast<int8_t>(first[i] ^ flip);
    out[2 * i + 1] = static_cast<int8_t>(second[i] ^ flip);
  }
}

// Rounds to the nearest, ties to even: exact below 2^22.
inline float rounded(float x) { return (x + 12582912.0f) - 12582912.0f; }

inline int32_t limited(float x, float low, float high) {
  x = x < high ? x : high;
  x = x > low ? x : low;  // Not a number becomes the upper limit.
  return static_cast<int32_t>(rounded(x));
}

void quantize(const float* x, int64_t n, float scale, int zero, int low, int high, uint8_t* y) {
  const float most = static_cast<float>(high - zero), least = static_cast<float>(low - zero);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<uint8_t>(limited(x[i] / scale, least, most) + zero);
  }
}

void to_int8(int32_t* sums, int64_t n, const float* scale, int step, int zero, int low, int high,
             uint8_t* y) {
  const float most = static_cast<float>(high - zero), least = static_cast<float>(low - zero);
  if (step == 0) {
    const float one = scale[0];
    for (int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<uint8_t>(limited(static_cast<float>(sums[i]) * one, least, most) + zero);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<uint8_t>(limited(static_cast<float>(sums[i]) * scale[i], least, most) + zero);
  }
}

void subtract(int32_t* sums, int64_t n, const int32_t* zeros, int step, int32_t row) {
  if (step == 0) {
    const int32_t one = zeros[0] * row;
    for (int64_t i = 0; i < n; ++i) sums[i] -= one;
    return;
  }
  for (int64_t i = 0; i < n; ++i) sums[i] -= zeros[i] * row;
}

void to_float(const int32_t* sums, int64_t n, float a_scale, const float* b_scale, int step,
              const float* bias, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<float>(sums[i]) * (a_scale * b_scale[step * i]) + (bias == nullptr ? 0 : bias[i]);
  }
}

}  // namespace

void fill_quantized(Quantized* table) {
  table->product = product;
  table->widen_unsigned = widen_unsigned;
  table->widen_signed = widen_signed;
  table->interleave = interleave;
  table->quantize = quantize;
  table->to_int8 = to_int8;
  table->subtract = subtract;
  table->to_float = to_float;
}

}  // namespace ephost::cpu::EPHOST_ISA
