// Products of matrices of float64.
#include "cpu/simd/simd.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

// Two of these are a tile's columns.
#ifdef __AVX512F__
constexpr int64_t kDoubles = 8;
#else
constexpr int64_t kDoubles = 4;
#endif
typedef double Doubles __attribute__((vector_size(kDoubles * 8)));
typedef double UnalignedDoubles __attribute__((vector_size(kDoubles * 8), aligned(8), may_alias));

inline Doubles load(const double* from) { return *reinterpret_cast<const UnalignedDoubles*>(from); }
inline void store(double* to, const Doubles& numbers) { *reinterpret_cast<UnalignedDoubles*>(to) = numbers; }

template <int rows>
inline void tile(const DoubleBlock& g, int64_t i, int64_t j) {
  const double* a[rows];
  for (int r = 0; r < rows; ++r) a[r] = g.a + (i + r) * g.a_row;
  Doubles sums[rows][2] = {};
  for (int64_t p = 0; p < g.k; ++p) {
    const double* b = g.b + p * g.n + j;
    const Doubles first = load(b), second = load(b + kDoubles);
    for (int r = 0; r < rows; ++r) {
      const double factor = a[r][p * g.a_step];
      sums[r][0] += factor * first;
      sums[r][1] += factor * second;
    }
  }
  for (int r = 0; r < rows; ++r) {
    double* c = g.c + (i + r) * g.n + j;
    store(c, sums[r][0]);
    store(c + kDoubles, sums[r][1]);
  }
}

template <int rows>
inline void rest(const DoubleBlock& g, int64_t i, int64_t j) {
  for (; j < g.n; ++j) {
    double sums[rows] = {};
    for (int64_t p = 0; p < g.k; ++p) {
      const double factor = g.b[p * g.n + j];
      for (int r = 0; r < rows; ++r) sums[r] += g.a[(i + r) * g.a_row + p * g.a_step] * factor;
    }
    for (int r = 0; r < rows; ++r) g.c[(i + r) * g.n + j] = sums[r];
  }
}

// Columns by columns, so that what is read of b for all rows stays in the nearest cache.
void gemm(const DoubleBlock& g) {
  int64_t j = 0;
  for (; j + 2 * kDoubles <= g.n; j += 2 * kDoubles) {
    int64_t i = 0;
    for (; i + 4 <= g.m; i += 4) tile<4>(g, i, j);
    for (; i < g.m; ++i) tile<1>(g, i, j);
  }
  if (j == g.n) return;
  int64_t i = 0;
  for (; i + 4 <= g.m; i += 4) rest<4>(g, i, j);
  for (; i < g.m; ++i) rest<1>(g, i, j);
}

}  // namespace

void fill_double_gemm(Simd* table) { table->double_gemm = gemm; }

}  // namespace ephost::cpu::EPHOST_ISA
