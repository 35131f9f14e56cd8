// Products of float32 with weights of four and of eight bits. See nbits.h.
#include "cpu/simd/nbits.h"
#include "cpu/simd/nbits_rows.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

constexpr int64_t kPanel = NBits::kPanel;
constexpr int kRows = 4;

// A number of each column of a panel is so many registers.
#ifdef __AVX512F__
constexpr int64_t kLanes = 16;
#else
constexpr int64_t kLanes = 8;
#endif
constexpr int kParts = kPanel / kLanes;
constexpr int kBytes = kLanes * 4;
typedef float Floats __attribute__((vector_size(kBytes)));
typedef float UnalignedFloats __attribute__((vector_size(kBytes), aligned(4), may_alias));
typedef int32_t Words __attribute__((vector_size(kBytes)));
typedef int32_t UnalignedWords __attribute__((vector_size(kBytes), aligned(1), may_alias));

inline Floats load(const float* from) { return *reinterpret_cast<const UnalignedFloats*>(from); }
inline void store(float* to, Floats x) { *reinterpret_cast<UnalignedFloats*>(to) = x; }
inline Words load_words(const uint8_t* from) { return *reinterpret_cast<const UnalignedWords*>(from); }

// The code of row `row` in a word of the rows that lie together: eight of four bits, or four of eight.
template <int kBits>
inline Floats code(Words word, int row) {
  if constexpr (kBits == 8) {
    return __builtin_convertvector(word >> 8 * row & 255, Floats);
  }
  word >>= row < 4 ? 8 * row : 8 * (row - 4) + 4;
#ifdef __AVX512F__
  // What is above the four bits does not matter to the permutation.
  const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return static_cast<Floats>(_mm512_permutexvar_ps(reinterpret_cast<__m512i>(word), numbers));
#else
  return __builtin_convertvector(word & 15, Floats);
#endif
}

inline Floats zeros_of(const NBits::Panel& g, int64_t block, int part) {
  return g.zeros == nullptr ? Floats{} + g.zero : load(g.zeros + block * kPanel + part * kLanes);
}

// Sums are those of the codes; what the zero points take off them is in the sums of the rows.
template <int kBits, int kCount>
void tile(const NBits::Floats& g, int64_t row) {
  constexpr int kTogether = 32 / kBits;
  const int64_t blocks = (g.k + g.block - 1) / g.block;
  const float *a = g.a + row * g.a_row, *a_sums = g.a_sums + row * blocks;
  Floats sums[kCount][kParts];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < kParts; ++i) sums[r][i] = Floats{};
  }
  const uint8_t* codes = g.codes;
  for (int64_t start = 0, block = 0; start < g.k; start += g.block, ++block) {
    const int64_t end = start + g.block < g.k ? start + g.block : g.k;
    Floats dots[kCount][kParts];
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kParts; ++i) dots[r][i] = Floats{};
    }
    const auto add = [&](int64_t p, int rows) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int t = 0; t < rows; ++t) {
#pragma GCC unroll 2
        for (int i = 0; i < kParts; ++i) {
          const Floats weights = code<kBits>(load_words(codes + i * kBytes), t);
#pragma GCC unroll 8
          for (int r = 0; r < kCount; ++r) dots[r][i] += weights * a[r * g.a_row + p + t];
        }
      }
      codes += 64;
    };
    int64_t p = start;
    for (; p + kTogether <= end; p += kTogether) add(p, kTogether);
    if (p < end) add(p, static_cast<int>(end - p));
#pragma GCC unroll 2
    for (int i = 0; i < kParts; ++i) {
      const Floats scales = load(g.scales + block * kPanel + i * kLanes), zeros = zeros_of(g, block, i);
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        sums[r][i] += (dots[r][i] - zeros * a_sums[r * blocks + block]) * scales;
      }
    }
  }
  for (int r = 0; r < kCount; ++r) {
    float all[kPanel];
    for (int i = 0; i < kParts; ++i) store(all + i * kLanes, sums[r][i]);
    put_row(g, row + r, all);
  }
}

template <int kBits>
void product(const NBits::Floats& g) {
  using Tile = void (*)(const NBits::Floats&, int64_t);
  constexpr Tile kTiles[kRows] = {tile<kBits, 1>, tile<kBits, 2>, tile<kBits, 3>, tile<kBits, 4>};
  for (int64_t row = 0; row < g.m;) {
    const int64_t rows = g.m - row < kRows ? g.m - row : kRows;
    kTiles[rows - 1](g, row);
    row += rows;
  }
}

template <int kBits>
void unpack(const NBits::Panel& g, int64_t first, int64_t last, float* to, int64_t step) {
  constexpr int kTogether = 32 / kBits;
  for (int64_t p = first; p < last;) {
    const int64_t block = p / g.block, end = (block + 1) * g.block < last ? (block + 1) * g.block : last;
    for (; p < end; p += kTogether, to += kTogether * step) {
      for (int i = 0; i < kParts; ++i) {
        const Floats zeros = zeros_of(g, block, i), scales = load(g.scales + block * kPanel + i * kLanes);
        const Words words = load_words(g.codes + p / kTogether * 64 + i * kBytes);
#pragma GCC unroll 8
        for (int t = 0; t < kTogether; ++t) {
          if (p + t < end) store(to + t * step + i * kLanes, (code<kBits>(words, t) - zeros) * scales);
        }
      }
    }
  }
}

void sum_blocks(const float* x, int64_t k, int64_t block, float* sums) {
  for (int64_t start = 0; start < k; start += block, ++sums) {
    const int64_t end = start + block < k ? start + block : k;
    Floats total{};
    int64_t p = start;
    for (; p + kLanes <= end; p += kLanes) total += load(x + p);
    float sum = 0;
    for (int i = 0; i < kLanes; ++i) sum += total[i];
    for (; p < end; ++p) sum += x[p];
    *sums = sum;
  }
}

}  // namespace

void fill_nbits_floats(NBits* table) {
  table->product = [](const NBits::Floats& g) { g.bits == 4 ? product<4>(g) : product<8>(g); };
  table->unpack = [](const NBits::Panel& g, int64_t first, int64_t last, float* to, int64_t step) {
    (g.bits == 4 ? unpack<4> : unpack<8>)(g, first, last, to, step);
  };
  table->sum_blocks = sum_blocks;
}

}  // namespace ephost::cpu::EPHOST_ISA
