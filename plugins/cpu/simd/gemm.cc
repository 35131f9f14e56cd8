// The innermost loops of matrix products. See GemmBlock in simd.h.
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "cpu/simd/simd.h"
#include "cpu/simd/turned.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

// A panel's rows that a block takes stay in the first cache: 32 and 24 KiB.
#ifdef __AVX512F__
constexpr int kLanes = 16, kDepth = 256, kPassed = 192;
#else
constexpr int kLanes = 8, kDepth = 384;  // Two registers where they have four.
// Each row of a may lie in a page of its own: a processor knows some 64 pages at once.
constexpr int kPassed = 48;
#endif
constexpr int kPanel = 2 * kLanes;
constexpr int kRows = 6;  // Sums of six rows and two vectors fill most of 16 registers.
// While a tile is computed it asks for a part of what comes next: for every eighth p so many lines of 16
// floats that all tiles together ask for a panel. The processor does not do so by itself where one array of b
// ends and another begins, and in the third cache it finds less in the time of one tile than the tile
// multiplies.
constexpr int kLine = 16, kAhead = 8, kForPanel = kAhead * kPanel / kLine;

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

inline const Vector& load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
inline Vector& store(float* to) { return *reinterpret_cast<Vector*>(to); }

// The first n elements of a vector: of those behind them, none is touched, and what is loaded is 0.
#ifdef __AVX512F__
constexpr bool kMasks = true;
inline Vector load_some(const float* from, int n) {
  return Vector(_mm512_maskz_loadu_ps(static_cast<__mmask16>(n >= kLanes ? 0xffff : (1 << n) - 1), from));
}
inline void store_some(float* to, const Vector& values, int n) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(n >= kLanes ? 0xffff : (1 << n) - 1), __m512(values));
}
#else
constexpr bool kMasks = false;
inline Vector load_some(const float* from, int) { return load(from); }  // Not called.
inline void store_some(float* to, const Vector& values, int) { store(to) = values; }
#endif

// Rows [0, kCount) of one panel, or of the vector that it begins with. Few sums do not keep the multipliers
// busy: there are several of each, for every second or fourth p. Meanwhile it asks for `lines` of `next` for
// every kAhead of p, which need not be memory that can be read.
//
// `kInLine`: a row of a and a panel of b lie element by element, as nearly all do. Their places are then
// numbers within unrolled instructions. It is the instructions that count where two threads share a core.
template <int kCount, int kVectors, bool kInLine>
void tile(const GemmBlock& g, const float* a, const float* b, float* c, int columns, const float* bias,
          const float* next, int64_t lines) {
  constexpr int kSums = kCount * kVectors;
  constexpr int kChains = kSums <= 2 ? 4 : kCount <= 2 || kVectors == 1 ? 2 : 1;
  // Loops over sums are unrolled by order: only so does GCC keep them in registers all the way.
  alignas(64) Vector sums[kChains][kCount][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kChains * kSums; ++i) {
    sums[i / kSums][i / kVectors % kCount][i % kVectors] = Vector{};
  }
  const bool whole = columns == kVectors * kLanes;
  const int last = columns - (kVectors - 1) * kLanes;   // Of the last vector's columns, those that are some.
  alignas(64) float edge[kMasks ? 1 : kCount][kPanel];  // In place of c where the last vector is not full.
  const bool direct = kMasks || whole;
  float* const to = direct ? c : edge[0];
  const int64_t to_row = direct ? g.c_row : kPanel;
  if (g.accumulate || bias != nullptr) {
    if (!direct) {
      for (int i = 0; i < kCount; ++i) {
        for (int j = 0; j < columns; ++j) to[i * to_row + j] = g.accumulate ? c[i * g.c_row + j] : bias[j];
        for (int j = columns; j < kPanel; ++j) to[i * to_row + j] = 0;
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) {
      const float* from = direct && !g.accumulate ? bias : to + i / kVectors * to_row;
      Vector& sum = sums[0][i / kVectors][i % kVectors];
      if (kMasks && !whole && i % kVectors + 1 == kVectors) {
        sum = load_some(from + i % kVectors * kLanes, last);
      } else {
        sum = load(from + i % kVectors * kLanes);
      }
    }
  }
  const int64_t a_row = g.a_row, a_step = kInLine ? 1 : g.a_step, b_step = kInLine ? kPanel : g.b_step;
  const auto multiply = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain) {
      const Vector b0 = load(b), b1 = load(b + (kVectors - 1) * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        const float x = a[i * a_row];
        sums[chain][i][0] += x * b0;
        if constexpr (kVectors == 2) sums[chain][i][1] += x * b1;
      }
      a += a_step;
      b += b_step;
    }
  };
  for (int64_t pieces = g.more;; --pieces, a += g.a_jump) {
    int64_t p = 0;
    for (; p + kAhead <= g.k; p += kAhead) {
      for (const float* const end = next + lines * kLine; next != end; next += kLine)
        __builtin_prefetch(next, 0, 2);
      if constexpr (kInLine) {
#pragma GCC unroll 8
        for (int i = 0; i < kAhead; i += kChains) multiply();
      } else {
#pragma GCC unroll 1
        for (int i = 0; i < kAhead; i += kChains) multiply();
      }
    }
    for (; p + kChains <= g.k; p += kChains) multiply();
    for (; p < g.k; ++p, a += a_step, b += b_step) {
#pragma GCC unroll 12
      for (int i = 0; i < kSums; ++i) {
        sums[0][i / kVectors][i % kVectors] += a[i / kVectors * a_row] * load(b + i % kVectors * kLanes);
      }
    }
    if (pieces == 0) break;
  }
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) {
    Vector& sum = sums[0][i / kVectors][i % kVectors];
#pragma GCC unroll 4
    for (int chain = 1; chain < kChains; ++chain) sum += sums[chain][i / kVectors][i % kVectors];
    float* const at = to + i / kVectors * to_row + i % kVectors * kLanes;
    if (kMasks && !whole && i % kVectors + 1 == kVectors) {
      store_some(at, sum, last);
    } else {
      store(at) = sum;
    }
  }
  if (!direct) {
    for (int i = 0; i < kCount; ++i) {
      for (int j = 0; j < columns; ++j) c[i * g.c_row + j] = to[i * to_row + j];
    }
  }
}

using Tile = void (*)(const GemmBlock&, const float*, const float*, float*, int, const float*, const float*,
                      int64_t);
template <int kVectors, bool kInLine>
constexpr Tile kTilesOf[kRows] = {tile<1, kVectors, kInLine>, tile<2, kVectors, kInLine>,
                                  tile<3, kVectors, kInLine>, tile<4, kVectors, kInLine>,
                                  tile<5, kVectors, kInLine>, tile<6, kVectors, kInLine>};

// Those for so many columns of a panel, by the number of rows less one.
inline const Tile* tiles_for(const GemmBlock& g, int columns) {
  const bool in_line = g.a_step == 1 && g.b_step == kPanel;
  if (columns <= kLanes) return in_line ? kTilesOf<1, true> : kTilesOf<1, false>;
  return in_line ? kTilesOf<2, true> : kTilesOf<2, false>;
}

// Of this many rows that are left, the tile that takes the first ones: two halves rather than a whole and a
// remainder of one or two rows.
inline int64_t rows_of_tile(int64_t left) {
  return left > kRows && left < 2 * kRows ? (left + 1) / 2 : left < kRows ? left : kRows;
}

// Row by row: for a b that stays in the nearer caches as a whole, where what costs time is to write c.
void gemm_by_rows(const GemmBlock& g) {
  for (int64_t i = 0; i < g.m;) {
    const int64_t rows = rows_of_tile(g.m - i);
    for (int64_t j = 0; j < g.n; j += kPanel) {
      const int columns = static_cast<int>(g.n - j < kPanel ? g.n - j : kPanel);
      tiles_for(g, columns)[rows - 1](g, g.a + i * g.a_row, g.b + j / kPanel * g.b_panel,
                                      g.c + i * g.c_row + j, columns,
                                      g.bias == nullptr ? nullptr : g.bias + j, g.b, 0);
    }
    i += rows;
  }
}

void gemm(const GemmBlock& g) {
  constexpr int64_t kNear = 1 << 14;  // Elements, which the second cache holds beside much else.
  const int64_t depth = g.k * (g.more + 1);
  if (depth * g.n <= kNear) return gemm_by_rows(g);
  // Panels that are not packed do not lie line by line. A few rows only read, in order, which the processor
  // sees by itself.
  const int64_t tiles = (g.m + kRows - 1) / kRows;
  const int64_t lines = g.b_step == kPanel && tiles > 1 ? (kForPanel + tiles - 1) / tiles : 0;
  for (int64_t j = 0; j < g.n; j += kPanel) {
    const float* b = g.b + j / kPanel * g.b_panel;
    const int columns = static_cast<int>(g.n - j < kPanel ? g.n - j : kPanel);
    const Tile* const tiles_of = tiles_for(g, columns);
    const float* bias = g.bias == nullptr ? nullptr : g.bias + j;
    // The panel on the right; behind the last one the first one's rows further down, which the next call may
    // be about.
    const float* next = j + kPanel < g.n ? b + g.b_panel : g.b + depth * g.b_step;
    for (int64_t i = 0; i < g.m;) {
      const int64_t rows = rows_of_tile(g.m - i);
      tiles_of[rows - 1](g, g.a + i * g.a_row, b, g.c + i * g.c_row + j, columns, bias, next, lines);
      next += g.k / kAhead * (g.more + 1) * lines * kLine;
      i += rows;
    }
  }
}

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

void pack(const float* b, int64_t row, int64_t column, int64_t k, int64_t n, float* out) {
  for (int64_t j0 = 0; j0 < n; j0 += kPanel, out += k * kPanel) {
    const int64_t columns = n - j0 < kPanel ? n - j0 : kPanel;
    const float* from = b + j0 * column;
    if (columns == kPanel && column == 1) {
      for (int64_t p = 0; p < k; ++p) {
        const Vector low = load(from + p * row), high = load(from + p * row + kLanes);
        store(out + p * kPanel) = low;
        store(out + p * kPanel + kLanes) = high;
      }
      continue;
    }
    if (column == 1) {
      for (int64_t p = 0; p < k; ++p) {
        const float* line = from + p * row;
        float* to = out + p * kPanel;
        int64_t j = 0;
        for (; j + 4 <= columns; j += 4)
          *reinterpret_cast<Four*>(to + j) = *reinterpret_cast<const Four*>(line + j);
        for (; j < columns; ++j) to[j] = line[j];
        for (; j < kPanel; ++j) to[j] = 0;
      }
      continue;
    }
    // A few rows at a time, so that what is written stays near while the columns are walked.
    constexpr int64_t kStrip = 32;
    for (int64_t p0 = 0; p0 < k; p0 += kStrip) {
      const int64_t end = p0 + kStrip < k ? p0 + kStrip : k;
      int64_t j = 0;
      for (; row == 1 && end - p0 == kStrip && j + 8 <= columns; j += 8) {
        for (int64_t p = p0; p < end; p += 8)
          turn_eight(from + p + j * column, column, out + p * kPanel + j, kPanel);
      }
      for (; j < columns; ++j) {
        for (int64_t p = p0; p < end; ++p) out[p * kPanel + j] = from[p * row + j * column];
      }
      for (int64_t p = p0; p < end; ++p) {
        for (int64_t j = columns; j < kPanel; ++j) out[p * kPanel + j] = 0;
      }
    }
  }
}

typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));

inline Eight folded(const Vector& v) {
#ifdef __AVX512F__
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
         __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  return v;
#endif
}

inline void total_each(const Eight (&v)[4], float (&to)[4]) {
  const auto halved = [](const Eight& a, const Eight& b) {
    return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
           __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  };
  const Eight a = halved(v[0], v[1]), b = halved(v[2], v[3]);
  const Eight fours = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
                      __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  for (int q = 0; q < 4; ++q) to[q] = fours[q] + fours[q + 4];
}

// Here b_panel is the distance of columns.
void dots(const GemmBlock& g) {
  for (int64_t j = 0; j < g.n; j += 4) {
    const int count = static_cast<int>(g.n - j < 4 ? g.n - j : 4);
    const float* b[4];
    for (int q = 0; q < 4; ++q) b[q] = g.b + (j + (q < count ? q : 0)) * g.b_panel;
    for (int64_t i = 0; i < g.m; ++i) {
      const float* a = g.a + i * g.a_row;
      Vector sums[4][2] = {};
      int64_t p = 0;
      for (; p + kPanel <= g.k; p += kPanel) {
        const Vector a0 = load(a + p), a1 = load(a + p + kLanes);
        for (int q = 0; q < 4; ++q) {
          sums[q][0] += a0 * load(b[q] + p);
          sums[q][1] += a1 * load(b[q] + p + kLanes);
        }
      }
      Eight eights[4];
      for (int q = 0; q < 4; ++q) eights[q] = folded(sums[q][0] + sums[q][1]);
      for (; p + 8 <= g.k; p += 8) {
        const Eight last = *reinterpret_cast<const Eight*>(a + p);
        for (int q = 0; q < 4; ++q) eights[q] += last * *reinterpret_cast<const Eight*>(b[q] + p);
      }
      float totals[4];
      total_each(eights, totals);
      for (int q = 0; q < count; ++q) {
        float sum = totals[q] + (g.bias == nullptr ? 0 : g.bias[j + q]);
        for (int64_t rest = p; rest < g.k; ++rest) sum += a[rest] * b[q][rest];
        g.c[i * g.c_row + j + q] = sum;
      }
    }
  }
}

}  // namespace

void fill_gemm(Simd* table) {
  table->panel = kPanel;
  table->depth = kDepth;
  table->rows = kPassed;
  table->gemm = gemm;
  table->gemm_pack = pack;
  table->gemm_dots = dots;
}

}  // namespace ephost::cpu::EPHOST_ISA
