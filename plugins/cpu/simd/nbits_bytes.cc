// Products of rows of bytes with weights of four and of eight bits. See nbits.h. Sums within a block are
// exact.
#include "cpu/simd/nbits.h"
#include "cpu/simd/nbits_rows.h"
#include "cpu/simd/vectors.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include "cpu/simd/arm_dots.h"
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

constexpr int64_t kPanel = NBits::kPanel, kStep = NBits::kStep;
constexpr int kRows = 4;
static_assert(kStep % kLanes == 0);

#if defined(__AVX2__) || defined(__aarch64__)

// Four rows of a panel, 64 bytes, are so many registers.
#if defined(__aarch64__)
using Integers = int32x4_t;
using Floats = float32x4_t;
inline Floats as_floats(Integers x) { return vcvtq_f32_s32(x); }
inline Floats load_floats(const float* from) { return vld1q_f32(from); }
inline Floats all(float x) { return vdupq_n_f32(x); }
inline void store_floats(float* to, Floats x) { vst1q_f32(to, x); }
#elif defined(__AVX512BW__)
using Integers = __m512i;
using Floats = __m512;
inline Integers load_bytes(const void* from) { return _mm512_loadu_si512(from); }
inline Integers fours(const int8_t* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return _mm512_set1_epi32(four);
}
inline Integers low(Integers x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
inline Integers high(Integers x) { return low(_mm512_srli_epi16(x, 4)); }
inline Integers add32(Integers x, Integers y) { return _mm512_add_epi32(x, y); }
inline Floats as_floats(Integers x) { return _mm512_cvtepi32_ps(x); }
inline Floats load_floats(const float* from) { return _mm512_loadu_ps(from); }
inline Floats all(float x) { return _mm512_set1_ps(x); }
inline void store_floats(float* to, Floats x) { _mm512_storeu_ps(to, x); }
#ifndef __AVX512VNNI__
inline Integers pairs(Integers w, Integers x) { return _mm512_maddubs_epi16(w, x); }
inline Integers add16(Integers x, Integers y) { return _mm512_add_epi16(x, y); }
inline Integers widened(Integers x) { return _mm512_madd_epi16(x, _mm512_set1_epi16(1)); }
// Bytes of a code c and of an input x: (c - 128) * x, without the sign of the first factor.
inline Integers centred(Integers c) { return _mm512_xor_si512(c, _mm512_set1_epi8(-128)); }
inline Integers size(Integers x) { return _mm512_abs_epi8(x); }
inline Integers signs(Integers x, Integers of) {
  return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(of), _mm512_setzero_si512(), x);
}
#endif
#else
using Integers = __m256i;
using Floats = __m256;
inline Integers load_bytes(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline Integers fours(const int8_t* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof four);
  return _mm256_set1_epi32(four);
}
inline Integers low(Integers x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
inline Integers high(Integers x) { return low(_mm256_srli_epi16(x, 4)); }
inline Integers pairs(Integers w, Integers x) { return _mm256_maddubs_epi16(w, x); }
inline Integers add16(Integers x, Integers y) { return _mm256_add_epi16(x, y); }
inline Integers add32(Integers x, Integers y) { return _mm256_add_epi32(x, y); }
inline Integers widened(Integers x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }
inline Integers centred(Integers c) { return _mm256_xor_si256(c, _mm256_set1_epi8(-128)); }
inline Integers size(Integers x) { return _mm256_abs_epi8(x); }
inline Integers signs(Integers x, Integers of) { return _mm256_sign_epi8(x, of); }
inline Floats as_floats(Integers x) { return _mm256_cvtepi32_ps(x); }
inline Floats load_floats(const float* from) { return _mm256_loadu_ps(from); }
inline Floats all(float x) { return _mm256_set1_ps(x); }
inline void store_floats(float* to, Floats x) { _mm256_storeu_ps(to, x); }
#endif

constexpr int kParts = 64 / sizeof(Integers);
constexpr int64_t kWide = sizeof(Floats) / sizeof(float);

// The exact sums of a block's products, where codes count as code - kCentre.
#if defined(__aarch64__)

template <int kBits, int kCount>
struct Dots {
  static constexpr float kCentre = kBits == 4 ? 0 : 128;
  static void add(const uint8_t*& codes, const int8_t* a, int64_t a_row, int64_t rows,
                  Integers (&sums)[kCount][kParts]) {
    for (int64_t p = 0; p < rows; p += kBits == 4 ? kStep : 4, codes += 64) {
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) {
        const uint8x16_t both = vld1q_u8(codes + i * 16);
        const int8x16_t w = vreinterpretq_s8_u8(kBits == 4 ? vandq_u8(both, vdupq_n_u8(15))
                                                           : veorq_u8(both, vdupq_n_u8(128)));
#pragma GCC unroll 8
        for (int r = 0; r < kCount; ++r) {
          const int8_t* x = a + r * a_row + p;
          sums[r][i] = dots(sums[r][i], w, fours(x));
          if constexpr (kBits == 4) {
            sums[r][i] = dots(sums[r][i], vreinterpretq_s8_u8(vshrq_n_u8(both, 4)), fours(x + 4));
          }
        }
      }
    }
  }
};

#elif defined(__AVX512VNNI__)

// Four products of codes without a sign and signed bytes are added at once, and nothing saturates.
template <int kBits, int kCount>
struct Dots {
  static constexpr float kCentre = 0;
  static void add(const uint8_t*& codes, const int8_t* a, int64_t a_row, int64_t rows,
                  Integers (&sums)[kCount][kParts]) {
    Integers others[kCount];  // Two sums of each row, since each addition waits for the one before.
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) others[r] = Integers{};
    for (int64_t p = 0; p < rows; p += kStep, codes += 64 * kBits / 4) {
      const Integers both = load_bytes(codes);
      const Integers w = kBits == 4 ? low(both) : both;
      const Integers next = kBits == 4 ? high(both) : load_bytes(codes + 64);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], w, fours(a + r * a_row + p));
        others[r] = _mm512_dpbusd_epi32(others[r], next, fours(a + r * a_row + p + 4));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) sums[r][0] = add32(sums[r][0], others[r]);
  }
};

#else

template <int kBits, int kCount>
struct Dots;

// Two products of a code of four bits and a byte are at most 2 * 15 * 127: eight such pairs fit into 16 bits.
template <int kCount>
struct Dots<4, kCount> {
  static constexpr float kCentre = 0;
  static void add(const uint8_t*& codes, const int8_t* a, int64_t a_row, int64_t rows,
                  Integers (&sums)[kCount][kParts]) {
    for (int64_t first = 0; first < rows; first += 4 * kStep) {
      const int64_t last = first + 4 * kStep < rows ? first + 4 * kStep : rows;
      Integers part[kCount][kParts];
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
        for (int i = 0; i < kParts; ++i) part[r][i] = Integers{};
      }
      for (int64_t p = first; p < last; p += kStep, codes += 64) {
        Integers w[kParts];
#pragma GCC unroll 2
        for (int i = 0; i < kParts; ++i) w[i] = load_bytes(codes + i * sizeof(Integers));
#pragma GCC unroll 8
        for (int r = 0; r < kCount; ++r) {
          const Integers x = fours(a + r * a_row + p), y = fours(a + r * a_row + p + 4);
#pragma GCC unroll 2
          for (int i = 0; i < kParts; ++i) {
            part[r][i] = add16(part[r][i], add16(pairs(low(w[i]), x), pairs(high(w[i]), y)));
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
        for (int i = 0; i < kParts; ++i) sums[r][i] = add32(sums[r][i], widened(part[r][i]));
      }
    }
  }
};

// Of eight bits, codes are made signed: their sizes are at most 128, and two products at most 2 * 128 * 127.
template <int kCount>
struct Dots<8, kCount> {
  static constexpr float kCentre = 128;
  static void add(const uint8_t*& codes, const int8_t* a, int64_t a_row, int64_t rows,
                  Integers (&sums)[kCount][kParts]) {
    for (int64_t p = 0; p < rows; p += 4, codes += 64) {
#pragma GCC unroll 2
      for (int i = 0; i < kParts; ++i) {
        const Integers w = centred(load_bytes(codes + i * sizeof(Integers))), sizes = size(w);
#pragma GCC unroll 8
        for (int r = 0; r < kCount; ++r) {
          const Integers x = fours(a + r * a_row + p);
          sums[r][i] = add32(sums[r][i], widened(pairs(sizes, signs(x, w))));
        }
      }
    }
  }
};

#endif

template <int kBits, int kCount>
void tile(const NBits::Bytes& g, int64_t row) {
  using Sums = Dots<kBits, kCount>;
  const int64_t blocks = (g.k + g.block - 1) / g.block;
  const int8_t* a = g.a + row * g.a_row;
  const float *a_scales = g.a_scales + row * blocks, *a_sums = g.a_sums + row * blocks;
  Floats sums[kCount][kParts];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < kParts; ++i) sums[r][i] = Floats{};
  }
  const uint8_t* codes = g.codes;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t start = block * g.block;
    const int64_t rows = start + g.block < g.a_row ? g.block : g.a_row - start;
    Integers dots[kCount][kParts];
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kParts; ++i) dots[r][i] = Integers{};
    }
    Sums::add(codes, a + start, g.a_row, rows, dots);
#pragma GCC unroll 2
    for (int i = 0; i < kParts; ++i) {
      const int64_t at = block * kPanel + i * kWide;
      const Floats scales = load_floats(g.scales + at);
      const Floats zeros =
          (g.zeros == nullptr ? all(g.zero) : load_floats(g.zeros + at)) - all(Sums::kCentre);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const int64_t of = r * blocks + block;
        sums[r][i] += (as_floats(dots[r][i]) - zeros * all(a_sums[of])) * (scales * all(a_scales[of]));
      }
    }
  }
  for (int r = 0; r < kCount; ++r) {
    float all_sums[kPanel];
    for (int i = 0; i < kParts; ++i) store_floats(all_sums + i * kWide, sums[r][i]);
    put_row(g, row + r, all_sums);
  }
}

#else

template <int kBits, int kCount>
void tile(const NBits::Bytes& g, int64_t row) {
  const int64_t blocks = (g.k + g.block - 1) / g.block;
  for (int64_t r = row; r < row + kCount; ++r) {
    float sums[kPanel] = {};
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t start = block * g.block, end = start + g.block < g.a_row ? start + g.block : g.a_row;
      const int8_t* a = g.a + r * g.a_row;
      int32_t dots[kPanel] = {};
      for (int64_t p = start; p < end; ++p) {
        const uint8_t* codes = g.codes + (kBits == 4 ? p / 8 : p / 4) * 64 + p % 4;
        for (int64_t j = 0; j < kPanel; ++j) {
          const int byte = codes[j * 4];
          dots[j] += a[p] * (kBits == 8 ? byte : p % 8 < 4 ? byte & 15 : byte >> 4);
        }
      }
      const float scale = g.a_scales[r * blocks + block], sum = g.a_sums[r * blocks + block];
      for (int64_t j = 0; j < kPanel; ++j) {
        const float zero = g.zeros == nullptr ? g.zero : g.zeros[block * kPanel + j];
        const float dot = static_cast<float>(dots[j]) - zero * sum;
        sums[j] += dot * (g.scales[block * kPanel + j] * scale);
      }
    }
    put_row(g, r, sums);
  }
}

#endif

template <int kBits>
void product(const NBits::Bytes& g) {
  using Tile = void (*)(const NBits::Bytes&, int64_t);
  constexpr Tile kTiles[kRows] = {tile<kBits, 1>, tile<kBits, 2>, tile<kBits, 3>, tile<kBits, 4>};
  for (int64_t row = 0; row < g.m;) {
    const int64_t rows = g.m - row < kRows ? g.m - row : kRows;
    kTiles[rows - 1](g, row);
    row += rows;
  }
}

// Numbers of this size are whole: to add it rounds to the nearest, ties to even, and leaves the result in the
// low bits.
constexpr float kWhole = 12582912;
typedef int32_t Words __attribute__((vector_size(32)));
typedef int8_t Lane __attribute__((vector_size(8)));
typedef int8_t UnalignedLane __attribute__((vector_size(8), aligned(1), may_alias));

// A block, kLanes elements at a time; `count` is a multiple of them.
void quantize_block(const float* x, int64_t count, int8_t* bytes, float* scale, float* sum) {
  Vector most{}, other{};
  for (int64_t p = 0; p < count; p += kLanes) {
    const Vector all = load(x + p), size = all < 0 ? -all : all;
    most = size > most ? size : most;
    other += all * 0;  // Not a number unless all are finite.
  }
  float greatest = 0, check = 0;
  for (int i = 0; i < kLanes; ++i) {
    greatest = most[i] > greatest ? most[i] : greatest;
    check += other[i];
  }
  const float factor = greatest > 0 ? 127 / greatest : 0;
  Words total{};
  for (int64_t p = 0; p < count; p += kLanes) {
    const Vector whole = load(x + p) * factor + kWhole;
    Words words;
    __builtin_memcpy(&words, &whole, sizeof words);
    words = words << 24 >> 24;
    total += words;
    *reinterpret_cast<UnalignedLane*>(bytes + p) = __builtin_convertvector(words, Lane);
  }
  int32_t of_all = 0;
  for (int i = 0; i < kLanes; ++i) of_all += total[i];
  *scale = greatest / 127 + check;
  *sum = static_cast<float>(of_all);
}

void quantize(const float* x, int64_t k, int64_t block, int8_t* bytes, float* scales, float* sums) {
  for (int64_t start = 0; start < k; start += block, ++scales, ++sums) {
    const int64_t count = start + block < k ? block : k - start;
    if (count % kLanes == 0) {
      quantize_block(x + start, count, bytes + start, scales, sums);
      continue;
    }
    float last[NBits::kMostBlock];
    const int64_t padded = (count + kStep - 1) / kStep * kStep;
    for (int64_t p = 0; p < padded; ++p) last[p] = p < count ? x[start + p] : 0;
    quantize_block(last, padded, bytes + start, scales, sums);
  }
}

}  // namespace

void fill_nbits_bytes(NBits* table) {
  table->byte_product = [](const NBits::Bytes& g) { g.bits == 4 ? product<4>(g) : product<8>(g); };
  table->quantize = quantize;
}

}  // namespace ephost::cpu::EPHOST_ISA
