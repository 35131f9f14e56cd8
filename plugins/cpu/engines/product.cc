#include "cpu/engines/product.h"

#include <algorithm>

namespace ephost::cpu {

void gemm_in_blocks(const GemmBlock& whole) {
  const Simd& table = simd();
  if (whole.more > 0 && whole.k * (whole.more + 1) > table.depth) {
    // As many pieces at a time as are about as deep as a block.
    const int64_t pieces = std::max<int64_t>(1, table.depth / std::max<int64_t>(1, whole.k));
    GemmBlock some = whole;
    for (int64_t first = 0; first <= whole.more; first += pieces) {
      some.more = std::min(pieces, whole.more + 1 - first) - 1;
      some.a = whole.a + first * (whole.k * whole.a_step + whole.a_jump);
      some.b = whole.b + first * whole.k * whole.b_step;
      some.accumulate = whole.accumulate || first > 0;
      gemm_in_blocks(some);
    }
    return;
  }
  // Alike in depth: a short one at the end would read and write all of c for little.
  const int64_t depths = std::max<int64_t>(1, (whole.k + table.depth - 1) / table.depth);
  for (int64_t column = 0; column < whole.n; column += kProductColumns) {
    GemmBlock block = whole;
    block.n = std::min(kProductColumns, whole.n - column);
    block.bias = whole.bias == nullptr ? nullptr : whole.bias + column;
    const float* const panels = whole.b + column / table.panel * whole.b_panel;
    for (int64_t row = 0; row < whole.m; row += table.rows) {
      block.m = std::min(table.rows, whole.m - row);
      block.c = whole.c + row * whole.c_row + column;
      for (int64_t d = 0; d < depths; ++d) {
        const int64_t first = whole.k * d / depths;
        block.k = whole.k * (d + 1) / depths - first;
        block.a = whole.a + row * whole.a_row + first * whole.a_step;
        block.b = panels + first * whole.b_step;
        block.accumulate = whole.accumulate || d > 0;
        table.gemm(block);
      }
    }
  }
}

}  // namespace ephost::cpu
