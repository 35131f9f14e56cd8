/* Products of matrices where cuBLASLt is missing: tiles of 64 x 64 in shared memory, 4 x 4 elements a thread.
 */
#include "kernel.h"

namespace ephost::cuda {

constexpr int kTile = 64, kDepth = 16;

template <typename T>
DEVICE void matmul(const MatmulArguments& args, float (&a)[kDepth][kTile + 4],
                   float (&b)[kDepth][kTile + 4]) {
  int64_t a_offset = 0, b_offset = 0, c_offset = 0;
  uint32_t rest = blockIdx.z;
#pragma unroll
  for (int d = 0; d < kMaxRank; ++d) {
    if (d < args.batch_rank) {
      const uint32_t next = divide(rest, args.batch[d]);
      const int64_t place = rest - next * args.batch[d].divisor;
      a_offset += place * args.a_batch[d];
      b_offset += place * args.b_batch[d];
      c_offset += place * args.c_batch[d];
      rest = next;
    }
  }
  const T* from_a = static_cast<const T*>(args.a) + a_offset;
  const T* from_b = static_cast<const T*>(args.b) + b_offset;
  const int top = static_cast<int>(blockIdx.y) * kTile, left = static_cast<int>(blockIdx.x) * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int y = thread / 16 * 4, x = thread % 16 * 4;
  float sum[4][4] = {};
  for (int depth = 0; depth < args.k; depth += kDepth) {
#pragma unroll
    for (int i = 0; i < kTile * kDepth / 256; ++i) {
      const int number = i * 256 + thread;
      const int row = number / kDepth, inner = number % kDepth;
      const int deep = number / kTile, column = number % kTile;
      a[inner][row] = top + row < args.m && depth + inner < args.k
                          ? to_float(from_a[(top + row) * args.a_row + (depth + inner) * args.a_column])
                          : 0.0f;
      b[deep][column] = left + column < args.n && depth + deep < args.k
                            ? to_float(from_b[(depth + deep) * args.b_row + (left + column) * args.b_column])
                            : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[r][c] += a[i][y + r] * b[i][x + c];
      }
    }
    __syncthreads();
  }
  T* out = static_cast<T*>(args.out) + static_cast<int64_t>(blockIdx.z) * args.m * args.n;
  const T* added = args.c == nullptr ? nullptr : static_cast<const T*>(args.c) + c_offset;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = top + y + r, column = left + x + c;
      if (row < args.m && column < args.n) {
        float value = args.alpha * sum[r][c];
        if (added != nullptr) value += args.beta * to_float(added[row * args.c_row + column * args.c_column]);
        out[static_cast<int64_t>(row) * args.n + column] = from_float<T>(value);
      }
    }
  }
}

#define MATMUL(name, T)                                                   \
  COOPERATIVE_KERNEL(matmul_##name, 256, CONSTANT MatmulArguments args) { \
    SHARED float a[kDepth][kTile + 4], b[kDepth][kTile + 4];              \
    matmul<T>(args, a, b);                                                \
  }

MATMUL(f32, float)
MATMUL(f16, half_t)
MATMUL(bf16, bf16_t)

}  // namespace ephost::cuda
