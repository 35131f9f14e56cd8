// Products of matrices of 8-bit integers; see quantized.h for their two forms.
#include "cpu/simd/quantized.h"

#include <stddef.h>
#include <string.h>
#include "cpu/simd/simd.h"
#include "cpu/simd/to_bytes.h"

#include <type_traits>
#ifdef __AVX2__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include "cpu/simd/arm_dots.h"
#endif

#if !defined(__AVX512VNNI__) && !defined(__aarch64__)  // Nothing is too much for these.
#define EPHOST_BYTES_SATURATE
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

#ifdef __AVX512VNNI__

// One register for the sums of a row, whose four (or two) products an instruction adds without saturating.
// There are two of each, for every second step: one alone would wait for the step before.
template <int rows>
struct Sums {
  __m512i at[2][rows];

  explicit Sums(const int32_t* start) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      at[0][r] = _mm512_loadu_si512(start);
      at[1][r] = _mm512_setzero_si512();
    }
  }
  __m512i total(int r) const { return _mm512_add_epi32(at[0][r], at[1][r]); }
  void store(int32_t* sums, int64_t stride) const {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) _mm512_storeu_si512(sums + r * stride, total(r));
  }
  void store(const ToBytes& to, uint8_t* y, int64_t y_stride) const {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const __m512i all = total(r);
      __m256i halves[2];
      __builtin_memcpy(halves, &all, sizeof all);
      to.store(halves[0], halves[1], y + r * y_stride);
    }
  }
};

// Written as instructions, since GCC moves sums around otherwise.
inline void add(__m512i& sums, __m512i four, __m512i b) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(four), "v"(b));
}
inline __m512i four_of(const uint8_t* a) {
  int32_t four;
  __builtin_memcpy(&four, a, sizeof four);
  return _mm512_set1_epi32(four);
}
inline void add(__m512i& sums, const uint8_t* a, __m512i b) { add(sums, four_of(a), b); }
// The weights from memory, where no other row wants them.
using Weights = int8_t[4 * kColumns];
inline void add(__m512i& sums, __m512i four, const Weights& b) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(four), "m"(b));
}
inline void add(__m512i& sums, const int16_t* a, __m512i b) {
  int32_t two;
  __builtin_memcpy(&two, a, sizeof two);
  asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(_mm512_set1_epi32(two)), "v"(b));
}

// `steps` times as many k's as four bytes hold.
template <int rows, typename Element>
inline Sums<rows> multiply(const Element* a, int64_t stride, const void* weights, int64_t steps,
                           const int32_t* start) {
  constexpr int64_t kStep = 4 / sizeof(Element);
  Sums<rows> sums(start);
  const char* b = static_cast<const char*>(weights);
  int64_t p = 0;
  for (; p + 2 <= steps; p += 2, a += 2 * kStep, b += 2 * sizeof(__m512i)) {
    const __m512i b0 = _mm512_loadu_si512(b), b1 = _mm512_loadu_si512(b + sizeof b0);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      add(sums.at[0][r], a + r * stride, b0);
      add(sums.at[1][r], a + r * stride + kStep, b1);
    }
  }
  if (p < steps) {
    const __m512i b0 = _mm512_loadu_si512(b);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) add(sums.at[0][r], a + r * stride, b0);
  }
  return sums;
}

template <int rows>
inline Sums<rows> tile(const uint8_t* a, int64_t stride, const Quantized::Panel& b, const int32_t* start) {
  return multiply<rows>(a, stride, b.weights, b.fours, start);
}
template <int rows>
inline Sums<rows> tile(const int16_t* a, int64_t stride, const Quantized::WidePanel& b,
                       const int32_t* start) {
  return multiply<rows>(a, stride, b.weights, b.pairs, start);
}

// Rows by two panels: what is loaded of a row serves both, since loading takes longer than multiplying.
template <int rows>
inline void pair_tile(const uint8_t* a, int64_t stride, const Quantized::Panel& first,
                      const Quantized::Panel& second, const int32_t* start, int32_t* sums,
                      int64_t sums_stride) {
  static_assert(rows % 3 == 0);
  __m512i at[2][rows];
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    at[0][r] = _mm512_loadu_si512(start);
    at[1][r] = _mm512_loadu_si512(start + kColumns);
  }
  // Every third row's address, from which the others are one addition within the instruction.
  const uint8_t* from[rows / 3];
  for (int r = 0; r < rows / 3; ++r) from[r] = a + 3 * r * stride;
  const int8_t *b = first.weights, *const end = b + first.fours * 4 * kColumns;
  const ptrdiff_t other = second.weights - first.weights;
  for (int64_t at_k = 0; b != end; b += 4 * kColumns, at_k += 4) {
    const __m512i b0 = _mm512_loadu_si512(b), b1 = _mm512_loadu_si512(b + other);
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
      const __m512i four = four_of(from[r / 3] + r % 3 * stride + at_k);
      add(at[0][r], four, b0);
      add(at[1][r], four, b1);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    _mm512_storeu_si512(sums + r * sums_stride, at[0][r]);
    _mm512_storeu_si512(sums + r * sums_stride + kColumns, at[1][r]);
  }
}

// The same of few rows, for which reading the weights takes longest: sums of every second step are apart, so
// that one does not wait for the other.
template <int rows>
inline void few_by_pair(const uint8_t* a, int64_t stride, const Quantized::Panel& first,
                        const Quantized::Panel& second, const int32_t* start, int32_t* sums,
                        int64_t sums_stride) {
  __m512i at[2][2][rows];  // [panel][step]
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    at[0][0][r] = _mm512_loadu_si512(start);
    at[1][0][r] = _mm512_loadu_si512(start + kColumns);
    at[0][1][r] = at[1][1][r] = _mm512_setzero_si512();
  }
  const auto step = [&](int64_t p, int odd) __attribute__((always_inline)) {
    const Weights& b0 = *reinterpret_cast<const Weights*>(first.weights + p * 4 * kColumns);
    const Weights& b1 = *reinterpret_cast<const Weights*>(second.weights + p * 4 * kColumns);
    if constexpr (rows == 1) {
      const __m512i four = four_of(a + 4 * p);
      add(at[0][odd][0], four, b0);
      add(at[1][odd][0], four, b1);
    } else {
      const __m512i w0 = _mm512_loadu_si512(b0), w1 = _mm512_loadu_si512(b1);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const __m512i four = four_of(a + r * stride + 4 * p);
        add(at[0][odd][r], four, w0);
        add(at[1][odd][r], four, w1);
      }
    }
  };
  int64_t p = 0;
  for (; p + 2 <= first.fours; p += 2) {
    step(p, 0);
    step(p + 1, 1);
  }
  if (p < first.fours) step(p, 0);
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
    for (int panel = 0; panel < 2; ++panel) {
      _mm512_storeu_si512(sums + r * sums_stride + panel * kColumns,
                          _mm512_add_epi32(at[panel][0][r], at[panel][1][r]));
    }
  }
}

#elif defined(__AVX2__)

// Sums of rows and kColumns columns. Loops over rows are unrolled by order: only so does GCC keep all of it
// in registers.
template <int rows>
struct Sums {
  __m256i low[rows], high[rows];

  explicit Sums(const int32_t* start) {
    const __m256i* from = reinterpret_cast<const __m256i*>(start);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      low[r] = _mm256_loadu_si256(from);
      high[r] = _mm256_loadu_si256(from + 1);
    }
  }
  void store(int32_t* sums, int64_t stride) const {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * stride), low[r]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + r * stride + 8), high[r]);
    }
  }
  void store(const ToBytes& to, uint8_t* y, int64_t y_stride) const {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) to.store(low[r], high[r], y + r * y_stride);
  }
};

using Half = int8_t[32];  // Four k's of half of the columns.

// Both inner loops are written as instructions, since there is no register to spare: GCC mixes the rows, and
// then moves sums around.

// Adds the products of four k's. `a` is that of the first row, `b` four rows of weights.
template <int rows>
inline void add(Sums<rows>& sums, const uint8_t* a, int64_t stride, const int8_t* b, __m256i ones) {
  const Half &low = *reinterpret_cast<const Half*>(b), &high = *reinterpret_cast<const Half*>(b + sizeof low);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    const uint8_t(&from)[4] = *reinterpret_cast<const uint8_t(*)[4]>(a + r * stride);
    __m256i x, products;
    // x = `from`, everywhere; sums += madd(maddubs(x, b), 1)
    asm("vpbroadcastd %4, %2\n\t"
        "vpmaddubsw %5, %2, %3\n\t"
        "vpmaddubsw %6, %2, %2\n\t"
        "vpmaddwd %7, %3, %3\n\t"
        "vpmaddwd %7, %2, %2\n\t"
        "vpaddd %3, %0, %0\n\t"
        "vpaddd %2, %1, %1"
        : "+x"(sums.low[r]), "+x"(sums.high[r]), "=&x"(x), "=&x"(products)
        : "m"(from), "m"(low), "m"(high), "x"(ones));
  }
}

// The same of half of the columns, at some places.
template <int rows>
inline void add_rests(__m256i (&sums)[rows], const uint8_t* a, int64_t stride, const int8_t* b,
                      const int32_t* places, int64_t n, __m256i ones) {
  for (int64_t p = 0; p < n; ++p) {
    const __m256i weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + p * sizeof(Half)));
    const uint8_t* const from = a + 4 * places[p];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, from + r * stride, sizeof four);
      const __m256i products = _mm256_maddubs_epi16(_mm256_set1_epi32(four), weights);
      sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(products, ones));
    }
  }
}

template <int rows>
inline Sums<rows> tile(const uint8_t* a, int64_t stride, const Quantized::Panel& b, const int32_t* start) {
  Sums<rows> sums(start);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t p = 0; p < b.fours; ++p) add(sums, a + 4 * p, stride, b.weights + p * 4 * kColumns, ones);
  add_rests(sums.low, a, stride, b.rest, b.places, b.rests[0], ones);
  add_rests(sums.high, a, stride, b.rest + b.rests[0] * static_cast<int64_t>(sizeof(Half)),
            b.places + b.rests[0], b.rests[1], ones);
  return sums;
}

template <int rows>
inline Sums<rows> tile(const int16_t* a, int64_t stride, const Quantized::WidePanel& b,
                       const int32_t* start) {
  Sums<rows> sums(start);
  for (int64_t p = 0; p < b.pairs; ++p) {
    const __m256i* weights = reinterpret_cast<const __m256i*>(b.weights + p * 2 * kColumns);
    const __m256i b0 = _mm256_loadu_si256(weights), b1 = _mm256_loadu_si256(weights + 1);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const int16_t(&from)[2] = *reinterpret_cast<const int16_t(*)[2]>(a + r * stride + p * 2);
      __m256i x, products;
      asm("vpbroadcastd %4, %2\n\t"
          "vpmaddwd %5, %2, %3\n\t"
          "vpaddd %3, %0, %0\n\t"
          "vpmaddwd %6, %2, %2\n\t"
          "vpaddd %2, %1, %1"
          : "+x"(sums.low[r]), "+x"(sums.high[r]), "=&x"(x), "=&x"(products)
          : "m"(from), "x"(b0), "x"(b1));
    }
  }
  return sums;
}

#else

struct ToBytes {
  explicit ToBytes(const Quantized::Bytes& to) : as(to) {}
  const Quantized::Bytes& as;
};

#ifdef __aarch64__

// Sums of rows and kColumns columns: 24 of the 32 registers for six rows.
constexpr int kParts = kColumns / 4;
template <int rows>
struct Sums {
  int32x4_t at[rows][kParts];

  explicit Sums(const int32_t* start) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) at[r][i] = vld1q_s32(start + 4 * i);
    }
  }
  void store(int32_t* sums, int64_t stride) const {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) vst1q_s32(sums + r * stride + 4 * i, at[r][i]);
    }
  }
  void store(const ToBytes& to, uint8_t* y, int64_t y_stride) const {
    int32_t sums[rows * kColumns];
    store(sums, kColumns);
    to_bytes(sums, kColumns, rows, kColumns, to.as, y, y_stride);
  }
};

// Where the processor multiplies signed bytes by signed ones only, elements count as element - 128, and 128
// of all weights are in what sums start with.
template <int rows>
inline Sums<rows> tile(const uint8_t* a, int64_t stride, const Quantized::Panel& b, const int32_t* start) {
#ifdef __ARM_FEATURE_MATMUL_INT8
  Sums<rows> sums(start);
#else
  const int32_t none[kColumns] = {};
  Sums<1> all(none);
  for (int64_t p = 0; p < b.fours; ++p) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      all.at[0][i] = dots(all.at[0][i], vdupq_n_s8(1), vld1q_s8(b.weights + (p * kParts + i) * 16));
    }
  }
  int32_t first[kColumns];
  for (int i = 0; i < kParts; ++i) {
    vst1q_s32(first + 4 * i, vaddq_s32(vld1q_s32(start + 4 * i), vshlq_n_s32(all.at[0][i], 7)));
  }
  Sums<rows> sums(first);
#endif
  for (int64_t p = 0; p < b.fours; ++p) {
    int8x16_t w[kParts];
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) w[i] = vld1q_s8(b.weights + (p * kParts + i) * 16);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const uint8x16_t x = vreinterpretq_u8_s8(fours(a + r * stride + 4 * p));
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) {
#ifdef __ARM_FEATURE_MATMUL_INT8
        sums.at[r][i] = vusdotq_s32(sums.at[r][i], x, w[i]);
#else
        sums.at[r][i] = dots(sums.at[r][i], vreinterpretq_s8_u8(veorq_u8(x, vdupq_n_u8(128))), w[i]);
#endif
      }
    }
  }
  return sums;
}

template <int rows>
inline Sums<rows> tile(const int16_t* a, int64_t stride, const Quantized::WidePanel& b,
                       const int32_t* start) {
  Sums<rows> sums(start);
  for (int64_t p = 0; p < b.pairs; ++p) {
    // Of eight columns each: the first k's, and the second ones.
    const int16x8x2_t low = vld2q_s16(b.weights + p * 2 * kColumns);
    const int16x8x2_t high = vld2q_s16(b.weights + p * 2 * kColumns + kColumns);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) {
        const int16x8_t x = vdupq_n_s16(a[r * stride + p * 2 + k]);
        int32x4_t(&at)[kParts] = sums.at[r];
        at[0] = vmlal_s16(at[0], vget_low_s16(low.val[k]), vget_low_s16(x));
        at[1] = vmlal_high_s16(at[1], low.val[k], x);
        at[2] = vmlal_s16(at[2], vget_low_s16(high.val[k]), vget_low_s16(x));
        at[3] = vmlal_high_s16(at[3], high.val[k], x);
      }
    }
  }
  return sums;
}

#else

// A bias may be any number: sums wrap, as those of vectors do.
inline void add_wrapping(int32_t* sum, int32_t product) {
  *sum = static_cast<int32_t>(static_cast<uint32_t>(*sum) + static_cast<uint32_t>(product));
}

template <int rows>
struct Sums {
  int32_t at[rows][kColumns];

  explicit Sums(const int32_t* start) {
    for (int r = 0; r < rows; ++r) __builtin_memcpy(at[r], start, sizeof at[r]);
  }
  void store(int32_t* sums, int64_t stride) const {
    for (int r = 0; r < rows; ++r) __builtin_memcpy(sums + r * stride, at[r], sizeof at[r]);
  }
  void store(const ToBytes& to, uint8_t* y, int64_t y_stride) const {
    to_bytes(at[0], kColumns, rows, kColumns, to.as, y, y_stride);
  }
};

template <int rows>
inline Sums<rows> tile(const uint8_t* a, int64_t stride, const Quantized::Panel& b, const int32_t* start) {
  Sums<rows> sums(start);
  for (int r = 0; r < rows; ++r) {
    const auto add = [&](const uint8_t* x, const int8_t* w, int first, int columns) {
      for (int c = 0; c < columns; ++c) {
        for (int k = 0; k < 4; ++k) add_wrapping(&sums.at[r][first + c], x[k] * w[c * 4 + k]);
      }
    };
    const uint8_t* row = a + r * stride;
    for (int64_t p = 0; p < b.fours; ++p) add(row + 4 * p, b.weights + p * 4 * kColumns, 0, kColumns);
    for (int64_t p = 0; p < b.rests[0] + b.rests[1]; ++p) {
      const int first = p < b.rests[0] ? 0 : kColumns / 2;
      add(row + 4 * b.places[p], b.rest + p * 2 * kColumns, first, kColumns / 2);
    }
  }
  return sums;
}

template <int rows>
inline Sums<rows> tile(const int16_t* a, int64_t stride, const Quantized::WidePanel& b,
                       const int32_t* start) {
  Sums<rows> sums(start);
  for (int r = 0; r < rows; ++r) {
    for (int64_t p = 0; p < b.pairs; ++p) {
      const int32_t first = a[r * stride + p * 2], second = a[r * stride + p * 2 + 1];
      const int16_t* w = b.weights + p * 2 * kColumns;
      for (int c = 0; c < kColumns; ++c) {
        add_wrapping(&sums.at[r][c], first * w[c * 2] + second * w[c * 2 + 1]);
      }
    }
  }
  return sums;
}

#endif
#endif

// Calls store(sums, row) for the sums of all rows, as many at a time as registers hold.
template <typename Element, typename Panel, typename Store>
inline void for_tiles(const Element* a, int64_t stride, int64_t rows, const Panel& b, const int32_t* start,
                      const Store& store) {
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    store(tile<kRows>(a + row * stride, stride, b, start), row);
  }
  a += row * stride;
  switch (rows - row) {
    case 1:
      return store(tile<1>(a, stride, b, start), row);
    case 2:
      return store(tile<2>(a, stride, b, start), row);
    case 3:
      return store(tile<3>(a, stride, b, start), row);
    case 4:
      return store(tile<4>(a, stride, b, start), row);
    case 5:
      return store(tile<5>(a, stride, b, start), row);
    default:
      return;
  }
}

template <typename Element, typename Panel>
void product(const Element* a, int64_t stride, int64_t rows, const Panel& b, const int32_t* start,
             int32_t* sums) {
  for_tiles(a, stride, rows, b, start,
            [&](const auto& tile, int64_t row) { tile.store(sums + row * kColumns, kColumns); });
}

void pair_product(const uint8_t* a, int64_t stride, int64_t rows, const Quantized::Panel& first,
                  const Quantized::Panel& second, const int32_t* start, int32_t* sums, int64_t sums_stride) {
  int64_t row = 0;
#ifdef __AVX512VNNI__
  const auto tiles = [&](auto tall) {
    constexpr int kTall = decltype(tall)::value;
    for (; row + kTall <= rows; row += kTall) {
      pair_tile<kTall>(a + row * stride, stride, first, second, start, sums + row * sums_stride, sums_stride);
    }
  };
  tiles(std::integral_constant<int, 2 * kRows>());
  tiles(std::integral_constant<int, kRows>());
  const auto few = [&](auto left) {
    few_by_pair<decltype(left)::value>(a + row * stride, stride, first, second, start,
                                       sums + row * sums_stride, sums_stride);
  };
  switch (rows - row) {
    case 1:
      return few(std::integral_constant<int, 1>());
    case 2:
      return few(std::integral_constant<int, 2>());
    default:
      break;
  }
#endif
  for (int half = 0; half < 2; ++half) {
    for_tiles(a + row * stride, stride, rows - row, half == 0 ? first : second, start + half * kColumns,
              [&](const auto& tile, int64_t at) {
                tile.store(sums + (row + at) * sums_stride + half * kColumns, sums_stride);
              });
  }
}

template <typename Element, typename Panel>
void product_to_bytes(const Element* a, int64_t stride, int64_t rows, const Panel& b, const int32_t* start,
                      const Quantized::Bytes& as, uint8_t* y, int64_t y_stride) {
  const ToBytes to(as);
  for_tiles(a, stride, rows, b, start,
            [&](const auto& tile, int64_t row) { tile.store(to, y + row * y_stride, y_stride); });
}

int settle(int8_t* fours, int32_t* sums, [[maybe_unused]] int8_t* rest) {
  // Neighbours are added within numbers of twice their size, so that vectors need not be taken apart.
  int16_t pairs[2 * kColumns];
  memcpy(pairs, fours, sizeof(pairs));
  for (int i = 0; i < 2 * kColumns; ++i) {
    pairs[i] = static_cast<int16_t>(static_cast<int8_t>(pairs[i]) + (pairs[i] >> 8));
  }
  int32_t columns[kColumns];
  memcpy(columns, pairs, sizeof(columns));
  for (int c = 0; c < kColumns; ++c) sums[c] += static_cast<int16_t>(columns[c]) + (columns[c] >> 16);
#ifdef EPHOST_BYTES_SATURATE
  // 128 of the largest unsigned byte are less than the largest, and the lowest, 16-bit number. Only of one
  // sign can two be more.
  constexpr int kMost = 128;
  int halves = 0;
  for (int half = 0; half < 2; ++half) {
    int16_t over = 0;
    for (int i = half * kColumns; i < (half + 1) * kColumns; ++i) {
      over |= static_cast<int16_t>(pairs[i] > kMost) | static_cast<int16_t>(pairs[i] < -kMost);
    }
    halves |= over << half;
  }
  if (halves == 0) return 0;
  // The first has all that is too much.
  for (int i = 0; i < 2 * kColumns; ++i) {
    const int more = pairs[i] > kMost ? pairs[i] - kMost : pairs[i] < -kMost ? pairs[i] + kMost : 0;
    fours[2 * i] = static_cast<int8_t>(fours[2 * i] - more);
    rest[2 * i] = static_cast<int8_t>(more);
    rest[2 * i + 1] = 0;
  }
  return halves;
#else
  return 0;
#endif
}

}  // namespace

void fill_quantized_products(Quantized* table) {
  table->product = product<uint8_t, Quantized::Panel>;
  table->pair_product = pair_product;
#ifdef __AVX512VNNI__
  table->pairs = true;
#else
  table->pairs = false;
#endif
  table->wide_product = product<int16_t, Quantized::WidePanel>;
  table->product_to_bytes = product_to_bytes<uint8_t, Quantized::Panel>;
  table->wide_product_to_bytes = product_to_bytes<int16_t, Quantized::WidePanel>;
  table->settle = settle;
#ifdef EPHOST_BYTES_SATURATE
  table->settles = true;
#else
  table->settles = false;
#endif
}

}  // namespace ephost::cpu::EPHOST_ISA
