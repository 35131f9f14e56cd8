/* How kernels of rows are chosen and launched (kernels/rows.cu). */
#ifndef EPHOST_CUDA_OPERATORS_ROW_KERNELS_H_
#define EPHOST_CUDA_OPERATORS_ROW_KERNELS_H_

#include <algorithm>
#include <cstdint>

namespace ephost::cuda {

inline const char* length_of(int64_t columns) {
  return columns <= 4 * 256 ? "short_" : columns <= 16 * 256 ? "middle_" : "long_";
}

/* A block for each row, as far as grids reach: kernels go on from there. */
inline uint32_t row_blocks(int64_t rows) { return static_cast<uint32_t>(std::min<int64_t>(rows, 1 << 20)); }

}  // namespace ephost::cuda

#endif
