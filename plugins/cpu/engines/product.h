// Products of matrices of any size by the innermost loops of simd/.
#ifndef EPHOST_CPU_ENGINES_PRODUCT_H_
#define EPHOST_CPU_ENGINES_PRODUCT_H_

#include <cstdint>

#include "cpu/simd/simd.h"

namespace ephost::cpu {

// Columns that are multiplied by a block of rows before the next ones are.
inline constexpr int64_t kProductColumns = 256;

// Simd::gemm in blocks of columns, rows and depth, so that what is read again is found in the nearer caches:
// for callers whose m, n or k may be large.
void gemm_in_blocks(const GemmBlock& whole);

}  // namespace ephost::cpu

#endif
