// Products of matrices of any size by the innermost loops of simd/.
#ifndef EPHOST_CPU_ENGINES_PRODUCT_H_
#define EPHOST_CPU_ENGINES_PRODUCT_H_

#include <cstdint>
#include <type_traits>

#include "cpu/simd/simd.h"

namespace ephost::cpu {

// Columns that are multiplied by a block of rows before the next ones are.
inline constexpr int64_t kProductColumns = 256;

// Simd::gemm in blocks of columns, rows and depth, so that what is read again is found in the nearer caches:
// for callers whose m, n or k may be large.
void gemm_in_blocks(const GemmBlock& whole);

// A product of float64 or of unsigned integers of 32 or 64 bits.
template <typename T>
void number_gemm(const NumberBlock<T>& block) {
  if constexpr (std::is_same_v<T, double>) {
    simd().double_gemm(block);
  } else if constexpr (sizeof(T) == 4) {
    simd().uint32_gemm(block);
  } else {
    simd().uint64_gemm(block);
  }
}

}  // namespace ephost::cpu

#endif
