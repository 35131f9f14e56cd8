// The convolution of bytes by Winograd's method, see int8_winograd.h.
#include "cpu/simd/winograd_int8.h"

#include "cpu/simd/simd.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {

#ifdef __AVX512VNNI__

// Products of bytes are as quick without it.
void fill_winograd8(Winograd8* table) { *table = {}; }

#else

namespace {

// Unsigned, since arithmetic wraps around. The compiler makes of them what the instruction set has.
typedef uint16_t Shorts __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint32_t Words __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint8_t Bytes __attribute__((vector_size(16), aligned(1), may_alias));
typedef int8_t SignedBytes __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t SignedShorts __attribute__((vector_size(32), aligned(2), may_alias));

constexpr int kLanes = 16;  // Of Shorts.

inline Shorts widen_unsigned(const void* from) {
  return __builtin_convertvector(*static_cast<const Bytes*>(from), Shorts);
}
inline Shorts widen_signed(const void* from) {
  return reinterpret_cast<Shorts>(
      __builtin_convertvector(*static_cast<const SignedBytes*>(from), SignedShorts));
}

// One line of a tile of the input.
inline void input_line(Shorts d0, Shorts d1, Shorts d2, Shorts d3, Shorts d4, Shorts d5, Shorts* v,
                       int64_t step) {
  const Shorts even = (d2 << 2) - d4, odd = (d1 << 2) - d3;
  const Shorts near = d4 - d2, half = d3 - d1, far = half + half;
  v[0] = ((d0 - d2) << 2) + near;
  v[step] = even + odd;
  v[2 * step] = even - odd;
  v[3 * step] = near + far;
  v[4 * step] = near - far;
  v[5 * step] = (d5 - d3) - (far + far);
}

template <bool is_signed>
inline void input(const uint8_t* const* from, int64_t channels, int zero, int16_t* to, int64_t step) {
  // Only of the second line of B is the sum not 0, but 6: the zero point is in one of the points, 36 times.
  const Shorts zeros = Shorts{} + static_cast<uint16_t>(36 * zero);
  Shorts lines[kWinogradPoints];
  for (int64_t c = 0; c < channels; c += kLanes) {
    if (c + kLanes > channels) c = channels - kLanes;  // Some of them once more.
    for (int j = 0; j < kWinogradSide; ++j) {
      Shorts d[kWinogradSide];
#pragma GCC unroll 6
      for (int i = 0; i < kWinogradSide; ++i) {
        const uint8_t* pixel = from[i * kWinogradSide + j] + c;
        d[i] = is_signed ? widen_signed(pixel) : widen_unsigned(pixel);
      }
      input_line(d[0], d[1], d[2], d[3], d[4], d[5], lines + j, kWinogradSide);
    }
    for (int i = 0; i < kWinogradSide; ++i) {
      const Shorts* d = lines + i * kWinogradSide;
      Shorts v[kWinogradSide];
      input_line(d[0], d[1], d[2], d[3], d[4], d[5], v, 1);
      if (i == 1) v[1] -= zeros;
#pragma GCC unroll 6
      for (int j = 0; j < kWinogradSide; ++j) {
        *reinterpret_cast<Shorts*>(to + (i * kWinogradSide + j) * step + c) = v[j];
      }
    }
  }
}
void input_unsigned(const uint8_t* const* from, int64_t channels, int zero, int16_t* to, int64_t step) {
  input<false>(from, channels, zero, to, step);
}
void input_signed(const uint8_t* const* from, int64_t channels, int zero, int16_t* to, int64_t step) {
  input<true>(from, channels, zero, to, step);
}

// One line of a kernel; the numbers at `to` are `step` apart.
inline void weights_line(Shorts g0, Shorts g1, Shorts g2, int16_t* to, int64_t step) {
  const auto put = [=](int point, Shorts value) { *reinterpret_cast<Shorts*>(to + point * step) = value; };
  const Shorts ends = g0 + g2, outer = g0 + (g2 << 2), twice = g1 + g1;
  put(0, g0 * 6);
  put(1, (ends + g1) << 2);
  put(2, (ends - g1) << 2);
  put(3, outer + twice);
  put(4, outer - twice);
  put(5, g2 * 12);
}

template <int group>
inline void weights(const int8_t* panel, int64_t pairs, const int16_t* zeros, int16_t* to, int64_t step) {
  constexpr int kPair = 2 * kColumns;
  for (int64_t half = 0; half < 2 * pairs; ++half) {
    const int64_t column = half % 2 * kLanes, at = half / 2 * kPair + column;
    const int8_t* const taps = panel + half / 2 * 9 * kPair + column;
    const Shorts zero = zeros == nullptr ? Shorts{} : *reinterpret_cast<const Shorts*>(zeros + column);
    const auto load = [&](int i, int j) { return widen_signed(taps + (i * 3 + j) * kPair) - zero; };
    Shorts first[3], second[3];
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      if constexpr (group == 0) {
        first[j] = load(0, j) * 6;
        second[j] = load(2, j) * 12;
      } else if constexpr (group == 1) {
        const Shorts ends = load(0, j) + load(2, j), middle = load(1, j);
        first[j] = (ends + middle) << 2;
        second[j] = (ends - middle) << 2;
      } else {
        const Shorts outer = load(0, j) + (load(2, j) << 2), middle = load(1, j), twice = middle + middle;
        first[j] = outer + twice;
        second[j] = outer - twice;
      }
    }
    weights_line(first[0], first[1], first[2], to + at, step);
    weights_line(second[0], second[1], second[2], to + kWinogradSide * step + at, step);
  }
}
void weights_of(const int8_t* panel, int64_t pairs, const int16_t* zeros, int group, int16_t* to,
                int64_t step) {
  if (group == 0) weights<0>(panel, pairs, zeros, to, step);
  if (group == 1) weights<1>(panel, pairs, zeros, to, step);
  if (group == 2) weights<2>(panel, pairs, zeros, to, step);
}

// See `tile` in quantized.cc, of which this differs by weights that are wide already.
template <int rows>
inline void tile(const int16_t* a, int64_t stride, const int16_t* b, int64_t pairs, int32_t* sums) {
#ifdef __AVX2__
  __m256i low[rows], high[rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    low[r] = high[r] = _mm256_setzero_si256();
  }
  for (int64_t p = 0; p < pairs; ++p) {
    const __m256i b0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + p * 32));
    const __m256i b1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + p * 32 + 16));
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      int32_t pair;
      __builtin_memcpy(&pair, a + r * stride + p * 2, sizeof pair);
      __m256i both = _mm256_set1_epi32(pair), products;
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
#else
  for (int r = 0; r < rows; ++r) {
    uint32_t row[kColumns] = {};
    for (int64_t p = 0; p < pairs; ++p) {
      const int32_t first = a[r * stride + p * 2], second = a[r * stride + p * 2 + 1];
      for (int c = 0; c < kColumns; ++c) {
        row[c] += static_cast<uint32_t>(first * b[p * 32 + c * 2] + second * b[p * 32 + c * 2 + 1]);
      }
    }
    for (int c = 0; c < kColumns; ++c) sums[r * kColumns + c] = static_cast<int32_t>(row[c]);
  }
#endif
}

void products(const int16_t* rows, int64_t rows_step, int64_t count, const int16_t* weights,
              int64_t weights_step, int64_t pairs, int group, int32_t* sums, int64_t sums_step) {
  constexpr int kLines[kWinogradGroups][2] = {{0, 5}, {1, 2}, {3, 4}};
  const int64_t stride = 2 * pairs;
  for (int p = 0; p < kWinogradGroupPoints; ++p) {
    const int point = kLines[group][p / kWinogradSide] * kWinogradSide + p % kWinogradSide;
    const int16_t *a = rows + point * rows_step, *b = weights + p * weights_step;
    int32_t* to = sums + point * sums_step;
    int64_t left = count;
    for (; left >= kRows; left -= kRows, a += kRows * stride, to += kRows * kColumns) {
      tile<kRows>(a, stride, b, pairs, to);
    }
    switch (left) {
      case 1:
        tile<1>(a, stride, b, pairs, to);
        break;
      case 2:
        tile<2>(a, stride, b, pairs, to);
        break;
      case 3:
        tile<3>(a, stride, b, pairs, to);
        break;
      case 4:
        tile<4>(a, stride, b, pairs, to);
        break;
      case 5:
        tile<5>(a, stride, b, pairs, to);
        break;
      default:
        break;
    }
  }
}

// One line of a tile of the output.
inline void output_line(const Words* m, int64_t from, Words* y, int64_t to) {
  const Words m1 = m[from], m2 = m[2 * from], m3 = m[3 * from], m4 = m[4 * from];
  const Words sum = m1 + m2, less = m1 - m2, far = m3 + m4, far_less = m3 - m4;
  const Words last = (far_less << 2) + m[5 * from];
  y[0] = m[0] + sum + far;
  y[to] = less + far_less + far_less;
  y[2 * to] = sum + (far << 2);
  y[3 * to] = less + last + last;
}

void output(const int32_t* sums, int64_t step, const int32_t* bias, int32_t* to, int64_t line) {
  constexpr uint32_t kInverse = 954437177;  // 9 times that is 1 modulo 2^32.
  static_assert(kInverse * 9 == 1);
  typedef int32_t Signed __attribute__((vector_size(32), aligned(4), may_alias));
  for (int half = 0; half < kColumns; half += 8) {
    const Signed start = *reinterpret_cast<const Signed*>(bias + half);
    Words columns[kWinogradTile * kWinogradSide];
    for (int j = 0; j < kWinogradSide; ++j) {
      Words m[kWinogradSide];
#pragma GCC unroll 6
      for (int i = 0; i < kWinogradSide; ++i) {
        m[i] = *reinterpret_cast<const Words*>(sums + (i * kWinogradSide + j) * step + half);
      }
      output_line(m, 1, columns + j, kWinogradSide);
    }
    for (int i = 0; i < kWinogradTile; ++i) {
      Words y[kWinogradTile];
      output_line(columns + i * kWinogradSide, 1, y, 1);
#pragma GCC unroll 4
      for (int j = 0; j < kWinogradTile; ++j) {
        *reinterpret_cast<Signed*>(to + i * line + j * kColumns + half) =
            (reinterpret_cast<Signed>(y[j] * kInverse) >> 6) + start;
      }
    }
  }
}

}  // namespace

void fill_winograd8(Winograd8* table) {
  table->input_unsigned = input_unsigned;
  table->input_signed = input_signed;
  table->weights = weights_of;
  table->products = products;
  table->output = output;
}

#endif

}  // namespace ephost::cpu::EPHOST_ISA
