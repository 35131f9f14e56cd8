/* How kernels of rows are chosen and launched (kernels/rows.cu). */
#ifndef EPHOST_CUDA_OPERATORS_ROW_KERNELS_H_
#define EPHOST_CUDA_OPERATORS_ROW_KERNELS_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace ephost::cuda {

/* What a warp holds in registers, and what a block does. */
constexpr int64_t kShortRow = 32 * 32, kMiddleRow = 16 * 256;

inline const char* length_of(int64_t columns) {
  return columns <= kShortRow ? "short_" : columns <= kMiddleRow ? "middle_" : "long_";
}

/* A warp for each short row, of eight in a block; a block for each of the others. As far as grids reach:
 * kernels go on from there. */
inline uint32_t row_blocks(int64_t rows, int64_t columns) {
  const int64_t blocks = columns <= kShortRow ? (rows + 7) / 8 : rows;
  return static_cast<uint32_t>(std::min<int64_t>(blocks, 1 << 20));
}

/* Whether rows of elements of `size` bytes are whole vectors of 16 bytes, and all of these addresses lie so.
 */
inline bool in_vectors(int64_t columns, size_t size, std::initializer_list<const void*> addresses) {
  uintptr_t all = static_cast<uintptr_t>(columns) * size;
  for (const void* address : addresses) {
    all |= reinterpret_cast<uintptr_t>(address);
  }
  return all % 16 == 0;
}

}  // namespace ephost::cuda

#endif
