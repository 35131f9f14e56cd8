// Products of matrices of float64 and of integers.
#include "cpu/simd/simd.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

#ifdef __AVX512F__
constexpr int kBytes = 64;
#else
constexpr int kBytes = 32;
#endif
template <typename T>
constexpr int64_t kLanes = kBytes / sizeof(T);

template <typename T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kBytes)));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));

  static Vector load(const T* from) { return *reinterpret_cast<const Unaligned*>(from); }
  static void store(T* to, const Vector& numbers) { *reinterpret_cast<Unaligned*>(to) = numbers; }
};

template <int rows, int vectors, typename T>
inline void tile(const NumberBlock<T>& g, int64_t i, int64_t j) {
  using L = Lanes<T>;
  const T* a[rows];
  for (int r = 0; r < rows; ++r) a[r] = g.a + (i + r) * g.a_row;
  typename L::Vector sums[rows][vectors] = {};
  for (int64_t p = 0; p < g.k; ++p) {
    const T* b = g.b + p * g.n + j;
    typename L::Vector columns[vectors];
    for (int v = 0; v < vectors; ++v) columns[v] = L::load(b + v * kLanes<T>);
    for (int r = 0; r < rows; ++r) {
      const T factor = a[r][p * g.a_step];
      for (int v = 0; v < vectors; ++v) sums[r][v] += factor * columns[v];
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) L::store(g.c + (i + r) * g.n + j + v * kLanes<T>, sums[r][v]);
  }
}

template <int vectors, typename T>
inline void columns(const NumberBlock<T>& g, int64_t j) {
  int64_t i = 0;
  for (; i + 4 <= g.m; i += 4) tile<4, vectors>(g, i, j);
  for (; i < g.m; ++i) tile<1, vectors>(g, i, j);
}

// Of fewer columns than a vector has.
template <int rows, typename T>
inline void few(const NumberBlock<T>& g, int64_t i) {
  for (int64_t j = 0; j < g.n; ++j) {
    T sums[rows] = {};
    for (int64_t p = 0; p < g.k; ++p) {
      const T factor = g.b[p * g.n + j];
      for (int r = 0; r < rows; ++r) sums[r] += g.a[(i + r) * g.a_row + p * g.a_step] * factor;
    }
    for (int r = 0; r < rows; ++r) g.c[(i + r) * g.n + j] = sums[r];
  }
}

// Columns by columns, so that what is read of b for all rows stays in the nearest cache.
template <typename T>
void gemm(const NumberBlock<T>& g) {
  if (g.n < kLanes<T>) {
    int64_t i = 0;
    for (; i + 4 <= g.m; i += 4) few<4>(g, i);
    for (; i < g.m; ++i) few<1>(g, i);
    return;
  }
  int64_t j = 0;
  for (; j + 2 * kLanes<T> <= g.n; j += 2 * kLanes<T>) columns<2>(g, j);
  if (j + kLanes<T> <= g.n) {
    columns<1>(g, j);
    j += kLanes<T>;
  }
  if (j < g.n) columns<1>(g, g.n - kLanes<T>);  // Some of them once more.
}

}  // namespace

void fill_number_gemm(Simd* table) {
  table->double_gemm = gemm<double>;
  table->uint32_gemm = gemm<uint32_t>;
  table->uint64_gemm = gemm<uint64_t>;
}

}  // namespace ephost::cpu::EPHOST_ISA
