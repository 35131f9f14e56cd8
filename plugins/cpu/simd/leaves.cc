// Trees of few leaves. Each row has a word for a tree with a bit for each leaf. All nodes are compared, and
// one whose comparison does not hold clears the bits of what lies under its other branch: of what is left the
// first leaf is the one that a walk reaches ("QuickScorer", Lucchese et al. 2015). No comparison waits for
// another one, and a vector of rows takes each at once.
#include "cpu/simd/simd.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
#ifdef __AVX2__
namespace {

constexpr int kFails[] = {_CMP_NLE_UQ, _CMP_NLT_UQ, _CMP_NGE_UQ, _CMP_NGT_UQ};

// Of kVectors * 4 rows.
template <int compare, int kVectors>
inline void in_halves(const BitTrees<double>& trees, int64_t tree, const double* tile, double* to) {
  __m256d left[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) left[v] = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
  for (uint32_t i = trees.nodes[tree], end = trees.nodes[tree + 1]; i < end; ++i) {
    const double* x = tile + trees.places[i];
    const __m256d value = _mm256_set1_pd(trees.values[i]);
    const __m256d clears = _mm256_castsi256_pd(_mm256_set1_epi64x(static_cast<long long>(trees.clears[i])));
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m256d fails = _mm256_cmp_pd(_mm256_loadu_pd(x + 4 * v), value, kFails[compare]);
      left[v] = _mm256_andnot_pd(_mm256_and_pd(fails, clears), left[v]);
    }
  }
  alignas(32) uint64_t words[4 * kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(words + 4 * v), _mm256_castpd_si256(left[v]));
  }
  const double* leaves = trees.leaves + trees.firsts[tree];
#pragma GCC unroll 8
  for (int k = 0; k < 4 * kVectors; ++k) to[k] = leaves[_lzcnt_u64(words[k])];
}

// Of kVectors * 8 rows.
template <int compare, int kVectors>
inline void in_halves(const BitTrees<float>& trees, int64_t tree, const float* tile, float* to) {
  __m256 left[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) left[v] = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  for (uint32_t i = trees.nodes[tree], end = trees.nodes[tree + 1]; i < end; ++i) {
    const float* x = tile + trees.places[i];
    const __m256 value = _mm256_set1_ps(trees.values[i]);
    const __m256 clears = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(trees.clears[i])));
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m256 fails = _mm256_cmp_ps(_mm256_loadu_ps(x + 8 * v), value, kFails[compare]);
      left[v] = _mm256_andnot_ps(_mm256_and_ps(fails, clears), left[v]);
    }
  }
  alignas(32) uint32_t words[8 * kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(words + 8 * v), _mm256_castps_si256(left[v]));
  }
  const float* leaves = trees.leaves + trees.firsts[tree];
#pragma GCC unroll 16
  for (int k = 0; k < 8 * kVectors; ++k) to[k] = leaves[_lzcnt_u32(words[k])];
}

#ifdef __AVX512F__
template <int compare>
inline void whole(const BitTrees<double>& trees, int64_t tree, const double* tile, double* to) {
  __m512i left = _mm512_set1_epi64(-1);
  for (uint32_t i = trees.nodes[tree], end = trees.nodes[tree + 1]; i < end; ++i) {
    const __mmask8 fails = _mm512_cmp_pd_mask(_mm512_loadu_pd(tile + trees.places[i]),
                                              _mm512_set1_pd(trees.values[i]), kFails[compare]);
    const __m512i clears = _mm512_set1_epi64(static_cast<long long>(trees.clears[i]));
    left = _mm512_mask_andnot_epi64(left, fails, clears, left);
  }
  const __m512i leaf = _mm512_lzcnt_epi64(left);
  const double* leaves = trees.leaves + trees.firsts[tree];
  if (trees.firsts[tree + 1] - trees.firsts[tree] <= 16) {
    _mm512_storeu_pd(to, _mm512_permutex2var_pd(_mm512_loadu_pd(leaves), leaf, _mm512_loadu_pd(leaves + 8)));
    return;
  }
  alignas(64) uint64_t places[8];
  _mm512_store_si512(places, leaf);
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) to[k] = leaves[places[k]];
}

template <int compare>
inline void whole(const BitTrees<float>& trees, int64_t tree, const float* tile, float* to) {
  __m512i left = _mm512_set1_epi32(-1);
  for (uint32_t i = trees.nodes[tree], end = trees.nodes[tree + 1]; i < end; ++i) {
    const __mmask16 fails = _mm512_cmp_ps_mask(_mm512_loadu_ps(tile + trees.places[i]),
                                               _mm512_set1_ps(trees.values[i]), kFails[compare]);
    const __m512i clears = _mm512_set1_epi32(static_cast<int>(trees.clears[i]));
    left = _mm512_mask_andnot_epi32(left, fails, clears, left);
  }
  const float* leaves = trees.leaves + trees.firsts[tree];
  _mm512_storeu_ps(to, _mm512_permutex2var_ps(_mm512_loadu_ps(leaves), _mm512_lzcnt_epi32(left),
                                              _mm512_loadu_ps(leaves + 16)));
}
#else
template <int compare, typename T>
inline void whole(const BitTrees<T>& trees, int64_t tree, const T* tile, T* to) {
  in_halves<compare, 2>(trees, tree, tile, to);
}
#endif

template <typename T, int compare>
void find(const BitTrees<T>& trees, int64_t first, int64_t last, const T* tile, int64_t rows, T* to) {
  constexpr int64_t kRows = kTreeRows<T>;
  for (int64_t tree = first; tree < last; ++tree, to += kRows) {
    if (rows <= kRows / 2) {
      in_halves<compare, 1>(trees, tree, tile, to);
    } else {
      whole<compare>(trees, tree, tile, to);
    }
  }
}

}  // namespace

void fill_leaves(Treewise* table) {
  *table = {{find<float, 0>, find<float, 1>, find<float, 2>, find<float, 3>},
            {find<double, 0>, find<double, 1>, find<double, 2>, find<double, 3>}};
}
#else

void fill_leaves(Treewise*) {}
#endif

}  // namespace ephost::cpu::EPHOST_ISA
