/* Kernels of rows: softmax, normalisation, reductions.
 *
 * A team of threads works on one row at a time: a warp, or the whole block. Rows that fit are read once and
 * held in registers, kHeld elements a thread; longer rows (kHeld 0) are read again for each pass, which the
 * second-level cache mostly serves. Where rows are made of whole vectors of 16 bytes, a thread has kWidth
 * neighbours at a time. */
#include "kernel.h"

namespace ephost::cuda {

constexpr int kThreads = 256, kWarp = 32;

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

/* The same for all threads of the team. `room` has an element for each warp; a block's barriers are at both
 * ends, so it may be used again at once. */
template <int kTeam, typename Combine>
DEVICE float over_team(float value, float* room) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) value = Combine::of(value, __shfl_xor_sync(0xffffffffu, value, by));
  if constexpr (kTeam > kWarp) {
    __syncthreads();
    if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = room[0];
    for (int i = 1; i < kTeam / kWarp; ++i) value = Combine::of(value, room[i]);
  }
  return value;
}

/* The rows of a team: its first, and how far it is to its next. */
template <int kTeam>
DEVICE int64_t first_row() {
  return static_cast<int64_t>(blockIdx.x) * (kThreads / kTeam) + threadIdx.x / kTeam;
}
template <int kTeam>
DEVICE int64_t next_row() {
  return static_cast<int64_t>(gridDim.x) * (kThreads / kTeam);
}

/* Calls visit(column, values) for this thread's elements of a row, kWidth neighbours at a time, held or read
 * again. */
template <typename T, int kTeam, int kHeld, int kWidth>
struct Row {
  static constexpr int kChunks = kHeld / kWidth;
  const T* data;
  int columns;
  float less = 0.0f; /* taken from each element that is read again */
  float held[kHeld > 0 ? kChunks : 1][kWidth];

  DEVICE static int start() { return static_cast<int>(threadIdx.x) % kTeam * kWidth; }
  DEVICE void read() {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int column = start() + i * kTeam * kWidth;
        if (column < columns) load<T, kWidth>(data + column, held[i]);
      }
    }
  }
  /* Takes a number from each element, for all visits from now on. */
  DEVICE void subtract(float number) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) held[i][k] -= number;
      }
    } else {
      less = number;
    }
  }
  template <typename Visit>
  DEVICE void chunks(Visit visit) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int column = start() + i * kTeam * kWidth;
        if (column < columns) visit(column, held[i]);
      }
    } else {
      for (int column = start(); column < columns; column += kTeam * kWidth) {
        float values[kWidth];
        load<T, kWidth>(data + column, values);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) values[k] -= less;
        visit(column, values);
      }
    }
  }
  template <typename Visit>
  DEVICE void each(Visit visit) {
    chunks([&](int, const float(&values)[kWidth]) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) visit(values[k]);
    });
  }
};

template <typename T, int kTeam, int kHeld, int kWidth>
DEVICE void softmax(const SoftmaxArguments& args, float* room) {
  for (int64_t r = first_row<kTeam>(); r < args.rows; r += next_row<kTeam>()) {
    Row<T, kTeam, kHeld, kWidth> row;
    row.data = static_cast<const T*>(args.in) + r * args.columns;
    row.columns = args.columns;
    row.read();
    T* out = static_cast<T*>(args.out) + r * args.columns;
    float most = -INFINITY, sum = 0.0f;
    row.each([&](float x) { most = Maximum::of(most, x); });
    most = over_team<kTeam, Maximum>(most, room);
    row.subtract(most);
    /* Exponentials are kept where rows are held. */
    const bool keeps = kHeld > 0 && args.logarithm == 0;
    if (keeps) {
      row.chunks([&](int, float(&x)[kWidth]) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sum += x[k] = expf(x[k]);
      });
    } else {
      row.each([&](float x) { sum += expf(x); });
    }
    sum = over_team<kTeam, Sum>(sum, room);
    /* The logarithm is taken after the greatest, not with it: added to a large score it would be lost. */
    const float shift = logf(sum), factor = 1.0f / sum;
    row.chunks([&](int column, const float(&x)[kWidth]) {
      float y[kWidth];
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        y[k] = args.logarithm ? x[k] - shift : (keeps ? x[k] : expf(x[k])) * factor;
      }
      store<T, kWidth>(out + column, y);
    });
  }
}

/* Of elements of row r from a column on: by column, or by channel. */
template <typename T, int kWidth>
DEVICE void factors(const NormArguments& args, const void* from, float otherwise, int64_t r, int column,
                    float (&to)[kWidth]) {
  const T* data = static_cast<const T*>(from);
  if (data != nullptr && args.channels == 0) {
    load<T, kWidth>(data + column, to);
    return;
  }
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    to[k] = data == nullptr ? otherwise
                            : to_float(data[(r * args.columns + column + k) / args.spatial % args.channels]);
  }
}

template <typename T, int kTeam, int kHeld, int kWidth>
DEVICE void norm(const NormArguments& args, float* room) {
  const float inverse = 1.0f / static_cast<float>(args.columns);
  for (int64_t r = first_row<kTeam>(); r < args.rows; r += next_row<kTeam>()) {
    Row<T, kTeam, kHeld, kWidth> row;
    row.data = static_cast<const T*>(args.in) + r * args.columns;
    row.columns = args.columns;
    row.read();
    T* out = static_cast<T*>(args.out) + r * args.columns;
    float mean = 0.0f, squares = 0.0f;
    if (args.center) {
      row.each([&](float x) { mean += x; });
      mean = over_team<kTeam, Sum>(mean, room) * inverse;
    }
    row.each([&](float x) { squares += (x - mean) * (x - mean); });
    const float factor = rsqrtf(over_team<kTeam, Sum>(squares, room) * inverse + args.epsilon);
    row.chunks([&](int column, const float(&x)[kWidth]) {
      float y[kWidth], scale[kWidth], bias[kWidth];
      factors<T, kWidth>(args, args.scale, 1.0f, r, column, scale);
      factors<T, kWidth>(args, args.bias, 0.0f, r, column, bias);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y[k] = (x[k] - mean) * factor * scale[k] + bias[k];
      store<T, kWidth>(out + column, y);
    });
  }
}

#define ROWS(name, T, suffix, team, held)                                                   \
  COOPERATIVE_KERNEL(softmax_##suffix##_##name, kThreads, CONSTANT SoftmaxArguments args) { \
    SHARED float room[kThreads / kWarp];                                                    \
    if (args.vectors)                                                                       \
      softmax<T, team, held, Vector<T>::kWidth>(args, room);                                \
    else                                                                                    \
      softmax<T, team, held, 1>(args, room);                                                \
  }                                                                                         \
  COOPERATIVE_KERNEL(norm_##suffix##_##name, kThreads, CONSTANT NormArguments args) {       \
    SHARED float room[kThreads / kWarp];                                                    \
    if (args.vectors)                                                                       \
      norm<T, team, held, Vector<T>::kWidth>(args, room);                                   \
    else                                                                                    \
      norm<T, team, held, 1>(args, room);                                                   \
  }
#define ALL_ROWS(name, T)             \
  ROWS(name, T, short, kWarp, 32)     \
  ROWS(name, T, middle, kThreads, 16) \
  ROWS(name, T, long, kThreads, 0)

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

template <int kTeam>
DEVICE float combine(Reduction kind, float value, float* room) {
  switch (kind) {
    case Reduction::kMax:
    case Reduction::kLogSumExp:
      return over_team<kTeam, Maximum>(value, room);
    case Reduction::kMin:
      return over_team<kTeam, Minimum>(value, room);
    case Reduction::kProduct:
      return over_team<kTeam, Product>(value, room);
    default:
      return over_team<kTeam, Sum>(value, room);
  }
}

DEVICE float finish(Reduction kind, float value, int64_t count) {
  return kind == Reduction::kMean ? value / static_cast<float>(count)
         : kind == Reduction::kL2 ? sqrtf(value)
                                  : value;
}

/* inner is 1: a team for each row. */
template <typename T, int kTeam, int kWidth>
DEVICE void reduce_rows(const ReduceArguments& args, float* room) {
  for (int64_t r = first_row<kTeam>(); r < args.outer; r += next_row<kTeam>()) {
    Row<T, kTeam, 0, kWidth> row;
    row.data = static_cast<const T*>(args.in) + r * args.reduced;
    row.columns = static_cast<int>(args.reduced);
    float value = neutral(args.kind);
    row.each([&](float x) { value = add_to(args.kind, value, x); });
    value = combine<kTeam>(args.kind, value, room);
    if (args.kind == Reduction::kLogSumExp) {
      const float most = value == -INFINITY || value == INFINITY ? 0.0f : value;
      float sum = 0.0f;
      row.each([&](float x) { sum += expf(x - most); });
      value = most + logf(over_team<kTeam, Sum>(sum, room));
    }
    if (threadIdx.x % kTeam == 0) {
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

#define REDUCE_ROWS(name, T, suffix, team)                                                \
  COOPERATIVE_KERNEL(reduce_##suffix##_##name, kThreads, CONSTANT ReduceArguments args) { \
    SHARED float room[kThreads / kWarp];                                                  \
    if (args.vectors)                                                                     \
      reduce_rows<T, team, Vector<T>::kWidth>(args, room);                                \
    else                                                                                  \
      reduce_rows<T, team, 1>(args, room);                                                \
  }
#define REDUCTIONS(name, T)            \
  REDUCE_ROWS(name, T, short, kWarp)   \
  REDUCE_ROWS(name, T, long, kThreads) \
  KERNEL(reduce_columns_##name, CONSTANT ReduceArguments args) { reduce_columns<T>(args); }

REDUCTIONS(f32, float)
REDUCTIONS(f16, half_t)
REDUCTIONS(bf16, bf16_t)

}  // namespace ephost::cuda
