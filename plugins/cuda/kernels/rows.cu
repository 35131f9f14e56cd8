/* Kernels in which a block works on one row at a time: softmax, normalisation, reductions.
 *
 * Rows that fit are read once and held in registers, kHeld elements a thread; longer rows (kHeld 0) are read
 * again for each pass, which the second-level cache mostly serves. */
#include "kernel.h"

namespace ephost::cuda {

constexpr int kThreads = 256;

struct Sum {
  static DEVICE float of(float a, float b) { return a + b; }
};
struct Product {
  static DEVICE float of(float a, float b) { return a * b; }
};
struct Maximum {
  static DEVICE float of(float a, float b) { return a != a || a > b ? a : b; }
};
struct Minimum {
  static DEVICE float of(float a, float b) { return a != a || a < b ? a : b; }
};

/* The same for all threads of the block. `room` has an element for each warp; a barrier is at both ends, so
 * it may be used again at once. */
template <typename Combine>
DEVICE float over_block(float value, float* room) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) value = Combine::of(value, __shfl_xor_sync(0xffffffffu, value, by));
  __syncthreads();
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
  __syncthreads();
  value = room[0];
  for (int i = 1; i < kThreads / 32; ++i) value = Combine::of(value, room[i]);
  return value;
}

/* Calls visit(column, value) for this thread's elements of a row, held or read again. */
template <typename T, int kHeld>
struct Row {
  const T* data;
  int columns;
  float less = 0.0f; /* taken from each element that is read again */
  float held[kHeld > 0 ? kHeld : 1];

  DEVICE void read() {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int column = i * kThreads + static_cast<int>(threadIdx.x);
        held[i] = column < columns ? to_float(data[column]) : 0.0f;
      }
    }
  }
  /* Takes a number from each element, for all visits from now on. */
  DEVICE void subtract(float number) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) held[i] -= number;
    } else {
      less = number;
    }
  }
  template <typename Visit>
  DEVICE void each(Visit visit) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int column = i * kThreads + static_cast<int>(threadIdx.x);
        if (column < columns) visit(column, held[i]);
      }
    } else {
      for (int column = static_cast<int>(threadIdx.x); column < columns; column += kThreads) {
        visit(column, to_float(data[column]) - less);
      }
    }
  }
};

template <typename T, int kHeld>
DEVICE void softmax(const SoftmaxArguments& args, float* room) {
  for (int64_t r = blockIdx.x; r < args.rows; r += gridDim.x) {
    Row<T, kHeld> row;
    row.data = static_cast<const T*>(args.in) + r * args.columns;
    row.columns = args.columns;
    row.read();
    T* out = static_cast<T*>(args.out) + r * args.columns;
    float most = -INFINITY, sum = 0.0f;
    row.each([&](int, float x) { most = Maximum::of(most, x); });
    most = over_block<Maximum>(most, room);
    row.subtract(most);
    row.each([&](int, float x) { sum += expf(x); });
    sum = over_block<Sum>(sum, room);
    if (args.logarithm) {
      /* After the greatest, not with it: added to a large score the logarithm is lost. */
      const float shift = logf(sum);
      row.each([&](int column, float x) { out[column] = from_float<T>(x - shift); });
    } else {
      const float factor = 1.0f / sum;
      row.each([&](int column, float x) { out[column] = from_float<T>(expf(x) * factor); });
    }
  }
}

template <typename T, int kHeld>
DEVICE void norm(const NormArguments& args, float* room) {
  const T* scale = static_cast<const T*>(args.scale);
  const T* bias = static_cast<const T*>(args.bias);
  const float inverse = 1.0f / static_cast<float>(args.columns);
  for (int64_t r = blockIdx.x; r < args.rows; r += gridDim.x) {
    Row<T, kHeld> row;
    row.data = static_cast<const T*>(args.in) + r * args.columns;
    row.columns = args.columns;
    row.read();
    T* out = static_cast<T*>(args.out) + r * args.columns;
    float mean = 0.0f, squares = 0.0f;
    if (args.center) {
      row.each([&](int, float x) { mean += x; });
      mean = over_block<Sum>(mean, room) * inverse;
    }
    row.each([&](int, float x) { squares += (x - mean) * (x - mean); });
    const float factor = rsqrtf(over_block<Sum>(squares, room) * inverse + args.epsilon);
    row.each([&](int column, float x) {
      const int64_t which =
          args.channels == 0 ? column : (r * args.columns + column) / args.spatial % args.channels;
      float y = (x - mean) * factor;
      if (scale != nullptr) y *= to_float(scale[which]);
      if (bias != nullptr) y += to_float(bias[which]);
      out[column] = from_float<T>(y);
    });
  }
}

#define ROWS(name, T, suffix, held)                                                         \
  COOPERATIVE_KERNEL(softmax_##suffix##_##name, kThreads, CONSTANT SoftmaxArguments args) { \
    SHARED float room[kThreads / 32];                                                       \
    softmax<T, held>(args, room);                                                           \
  }                                                                                         \
  COOPERATIVE_KERNEL(norm_##suffix##_##name, kThreads, CONSTANT NormArguments args) {       \
    SHARED float room[kThreads / 32];                                                       \
    norm<T, held>(args, room);                                                              \
  }
#define ALL_ROWS(name, T)   \
  ROWS(name, T, short, 4)   \
  ROWS(name, T, middle, 16) \
  ROWS(name, T, long, 0)

ALL_ROWS(f32, float)
ALL_ROWS(f16, half_t)
ALL_ROWS(bf16, bf16_t)

/* ---- Reductions ---- */

DEVICE float neutral(Reduction kind) {
  return kind == Reduction::kMax || kind == Reduction::kLogSumExp ? -INFINITY
         : kind == Reduction::kMin                                ? INFINITY
         : kind == Reduction::kProduct                            ? 1.0f
                                                                  : 0.0f;
}

DEVICE float add_to(Reduction kind, float sum, float x) {
  switch (kind) {
    case Reduction::kMax:
    case Reduction::kLogSumExp:
      return Maximum::of(sum, x);
    case Reduction::kMin:
      return Minimum::of(sum, x);
    case Reduction::kProduct:
      return sum * x;
    case Reduction::kL1:
      return sum + fabsf(x);
    case Reduction::kL2:
    case Reduction::kSumSquare:
      return sum + x * x;
    default:
      return sum + x;
  }
}

DEVICE float combine(Reduction kind, float value, float* room) {
  switch (kind) {
    case Reduction::kMax:
    case Reduction::kLogSumExp:
      return over_block<Maximum>(value, room);
    case Reduction::kMin:
      return over_block<Minimum>(value, room);
    case Reduction::kProduct:
      return over_block<Product>(value, room);
    default:
      return over_block<Sum>(value, room);
  }
}

DEVICE float finish(Reduction kind, float value, int64_t count) {
  return kind == Reduction::kMean ? value / static_cast<float>(count)
         : kind == Reduction::kL2 ? sqrtf(value)
                                  : value;
}

/* inner is 1: a block for each row. */
template <typename T>
DEVICE void reduce_rows(const ReduceArguments& args, float* room) {
  for (int64_t r = blockIdx.x; r < args.outer; r += gridDim.x) {
    const T* row = static_cast<const T*>(args.in) + r * args.reduced;
    float value = neutral(args.kind);
    for (int64_t i = threadIdx.x; i < args.reduced; i += kThreads) {
      value = add_to(args.kind, value, to_float(row[i]));
    }
    value = combine(args.kind, value, room);
    if (args.kind == Reduction::kLogSumExp) {
      const float most = value == -INFINITY || value == INFINITY ? 0.0f : value;
      float sum = 0.0f;
      for (int64_t i = threadIdx.x; i < args.reduced; i += kThreads) sum += expf(to_float(row[i]) - most);
      value = most + logf(over_block<Sum>(sum, room));
    }
    if (threadIdx.x == 0) {
      static_cast<T*>(args.out)[r] = from_float<T>(finish(args.kind, value, args.reduced));
    }
  }
}

/* A thread for each element of the result; neighbours read neighbours. */
template <typename T>
DEVICE void reduce_columns(const ReduceArguments& args) {
  const int64_t number = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (number >= args.outer * args.inner) {
    return;
  }
  const int64_t outer = number / args.inner, inner = number % args.inner;
  const T* data = static_cast<const T*>(args.in) + outer * args.reduced * args.inner + inner;
  float value = neutral(args.kind);
  for (int64_t i = 0; i < args.reduced; ++i) value = add_to(args.kind, value, to_float(data[i * args.inner]));
  if (args.kind == Reduction::kLogSumExp) {
    const float most = value == -INFINITY || value == INFINITY ? 0.0f : value;
    float sum = 0.0f;
    for (int64_t i = 0; i < args.reduced; ++i) sum += expf(to_float(data[i * args.inner]) - most);
    value = most + logf(sum);
  }
  static_cast<T*>(args.out)[number] = from_float<T>(finish(args.kind, value, args.reduced));
}

#define REDUCTIONS(name, T)                                                         \
  COOPERATIVE_KERNEL(reduce_rows_##name, kThreads, CONSTANT ReduceArguments args) { \
    SHARED float room[kThreads / 32];                                               \
    reduce_rows<T>(args, room);                                                     \
  }                                                                                 \
  KERNEL(reduce_columns_##name, CONSTANT ReduceArguments args) { reduce_columns<T>(args); }

REDUCTIONS(f32, float)
REDUCTIONS(f16, half_t)
REDUCTIONS(bf16, bf16_t)

}  // namespace ephost::cuda
