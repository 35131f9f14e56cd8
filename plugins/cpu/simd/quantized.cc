// What is done to 8-bit integers around their products; those are in quantized_products.cc.
#include "cpu/simd/quantized.h"

#include <type_traits>

#include "cpu/simd/simd.h"
#include "cpu/simd/to_bytes.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

template <typename T>
inline void widen(const T* x, int64_t n, int16_t* out) {
  int64_t i = 0;
#ifdef __AVX2__
  const auto eight = [&](int64_t at) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x + at));
    const __m128i wide = std::is_signed_v<T> ? _mm_cvtepi8_epi16(bytes) : _mm_cvtepu8_epi16(bytes);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + at), wide);
  };
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    const __m256i wide = std::is_signed_v<T> ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), wide);
  }
  if (n >= 8) {
    if (i + 8 <= n) {
      eight(i);
      i += 8;
    }
    if (i < n) eight(n - 8);  // Some of them once more.
    return;
  }
#endif
  for (; i < n; ++i) out[i] = x[i];
}
void widen_unsigned(const uint8_t* x, int64_t n, int16_t* out) { widen(x, n, out); }
void widen_signed(const int8_t* x, int64_t n, int16_t* out) { widen(x, n, out); }

template <typename T>
inline int32_t total(const T* x, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}
int32_t total_bytes(const uint8_t* x, int64_t n) { return total(x, n); }
int32_t total_wide(const int16_t* x, int64_t n) { return total(x, n); }

// Rounds to the nearest, ties to even: exact below 2^22.
inline float rounded(float x) { return (x + 12582912.0f) - 12582912.0f; }

inline int32_t limited(float x, float low, float high) {
  x = x > low ? x : low;  // Not a number becomes the lower limit, as in onnxruntime.
  x = x < high ? x : high;
  return static_cast<int32_t>(rounded(x));
}

void range(const float* x, int64_t n, float* low, float* high) {
  float least = 0, most = 0;
  int64_t i = 0;
#ifdef __AVX2__
  // Several of each, so that one does not wait for the other.
  constexpr int kSeveral = 4;
  __m256 down[kSeveral], up[kSeveral];
  for (int k = 0; k < kSeveral; ++k) down[k] = up[k] = _mm256_setzero_ps();
  for (; i + 8 * kSeveral <= n; i += 8 * kSeveral) {
#pragma GCC unroll 4
    for (int k = 0; k < kSeveral; ++k) {
      // The second one where the first is not a number.
      const __m256 numbers = _mm256_loadu_ps(x + i + 8 * k);
      down[k] = _mm256_min_ps(numbers, down[k]);
      up[k] = _mm256_max_ps(numbers, up[k]);
    }
  }
  float ends[2][8];
  for (int k = 1; k < kSeveral; ++k) {
    down[0] = _mm256_min_ps(down[0], down[k]);
    up[0] = _mm256_max_ps(up[0], up[k]);
  }
  _mm256_storeu_ps(ends[0], down[0]);
  _mm256_storeu_ps(ends[1], up[0]);
  for (int k = 0; k < 8; ++k) {
    least = ends[0][k] < least ? ends[0][k] : least;
    most = ends[1][k] > most ? ends[1][k] : most;
  }
#endif
  for (; i < n; ++i) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  *low = least;
  *high = most;
}

void quantize(const float* x, int64_t n, float scale, int zero, int low, int high, uint8_t* y) {
  const float most = static_cast<float>(high - zero), least = static_cast<float>(low - zero);
  int64_t i = 0;
#ifdef __AVX2__
  const __m256 step = _mm256_set1_ps(scale), large = _mm256_set1_ps(most), small = _mm256_set1_ps(least);
  const __m256i offset = _mm256_set1_epi16(static_cast<int16_t>(zero));
  const auto eight = [&](int64_t at) {
    // What is not a number becomes the lower limit.
    const __m256 value = _mm256_div_ps(_mm256_loadu_ps(x + at), step);
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(value, small), large));
  };
  const auto sixteen = [&](int64_t at) {
    return _mm256_add_epi16(_mm256_packs_epi32(eight(at), eight(at + 8)), offset);
  };
  // Packing goes by halves of registers: their fours come in this order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (; i + 32 <= n; i += 32) {
    const __m256i first = sixteen(i), second = sixteen(i + 16);
    const __m256i bytes = low < 0 ? _mm256_packs_epi16(first, second) : _mm256_packus_epi16(first, second);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), _mm256_permutevar8x32_epi32(bytes, order));
  }
#endif
  for (; i < n; ++i) {
    y[i] = static_cast<uint8_t>(limited(x[i] / scale, least, most) + zero);
  }
}

}  // namespace

void to_bytes(const int32_t* sums, int64_t stride, int rows, int64_t n, const Quantized::Bytes& as,
              uint8_t* y, int64_t y_stride) {
#ifdef __AVX2__
  if (n == kColumns) {
    const ToBytes to(as);
    for (int r = 0; r < rows; ++r) {
      const __m256i* row = reinterpret_cast<const __m256i*>(sums + r * stride);
      to.store(_mm256_loadu_si256(row), _mm256_loadu_si256(row + 1), y + r * y_stride);
    }
    return;
  }
#endif
  const float most = static_cast<float>(as.high - as.zero), least = static_cast<float>(as.low - as.zero);
#ifdef __AVX2__
  const __m256 large = _mm256_set1_ps(1e9f), one = _mm256_set1_ps(as.scale[0]);
  const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(as.zero));
#endif
  for (int r = 0; r < rows; ++r) {
    const int32_t* row = sums + r * stride;
    uint8_t* to = y + r * y_stride;
    int64_t i = 0;
#ifdef __AVX2__
    // Sums of eight columns as rounded numbers. What is too large for an integer stays large, and packing
    // limits all.
    const auto eight = [&](int64_t at) {
      const __m256i sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + at));
      const __m256 scale = as.step == 0 ? one : _mm256_loadu_ps(as.scale + at);
      return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale), large));
    };
    for (; i + 8 <= n; i += 8) {
      const bool more = i + 16 <= n;
      const __m256i first = eight(i), second = more ? eight(i + 8) : first;
      const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xd8);
      const __m256i moved = _mm256_adds_epi16(both, zero);
      const __m128i low = _mm256_castsi256_si128(moved), high = _mm256_extracti128_si256(moved, 1);
      const __m128i bytes = as.low < 0 ? _mm_packs_epi16(low, high) : _mm_packus_epi16(low, high);
      if (more) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bytes);
        i += 8;
      } else {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i), bytes);
      }
    }
#endif
    for (; i < n; ++i) {
      const float value = static_cast<float>(row[i]) * as.scale[as.step * i];
      to[i] = static_cast<uint8_t>(limited(value, least, most) + as.zero);
    }
  }
}

namespace {

// Sums of 32 bits wrap, as those of the products do.
inline int32_t less(int32_t sum, int32_t zero, int32_t row) {
  return static_cast<int32_t>(static_cast<uint32_t>(sum) -
                              static_cast<uint32_t>(zero) * static_cast<uint32_t>(row));
}

void subtract(int32_t* sums, int64_t n, const int32_t* zeros, int step, int32_t row) {
  if (step == 0) {
    const int32_t zero = zeros[0];
    for (int64_t i = 0; i < n; ++i) sums[i] = less(sums[i], zero, row);
    return;
  }
  for (int64_t i = 0; i < n; ++i) sums[i] = less(sums[i], zeros[i], row);
}

void to_float(const int32_t* sums, int64_t n, float a_scale, const float* b_scale, int step,
              const float* bias, float* y) {
  // One loop for each case: only so are they done in vectors.
  if (step == 0) {
    const float scale = a_scale * b_scale[0];
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(sums[i]) * scale;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(sums[i]) * (a_scale * b_scale[i]);
  }
  if (bias != nullptr) {
    for (int64_t i = 0; i < n; ++i) y[i] += bias[i];
  }
}

}  // namespace

void fill_quantized(Quantized* table) {
  table->widen_unsigned = widen_unsigned;
  table->widen_signed = widen_signed;
  table->total_bytes = total_bytes;
  table->total_wide = total_wide;
  table->range = range;
  table->quantize = quantize;
  table->to_bytes = to_bytes;
  table->subtract = subtract;
  table->to_float = to_float;
}

}  // namespace ephost::cpu::EPHOST_ISA
