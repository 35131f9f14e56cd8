/* Elementwise float32 operators with numpy's broadcasting: the arithmetic of both samples. Nothing in this
 * file knows the plugin ABI.
 *
 * Everything works on short runs of elements ("tiles") that stay in the first-level cache. `operand_tile`
 * gives the elements of an operand that belong to a tile of the result, wherever broadcasting has them come
 * from; a `RowFn` then computes the tile. sample_kernels runs one RowFn a tile, sample_compiler a whole
 * program. */
#ifndef SAMPLES_ELEMENTWISE_H_
#define SAMPLES_ELEMENTWISE_H_

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  MAX_RANK = 16, /* Higher ranks are not claimed. */
  TILE = 1024,   /* Elements: three tiles are 12 KiB, and a 1st-level cache has 32 or more. */
};

typedef struct Shape {
  size_t rank;
  int64_t dims[MAX_RANK];
} Shape;

/* out[i] = f(a[i], b[i]) for i < n. Where `a_steps` is false, a[0] stands for each a[i], and so for b. A
 * unary operator ignores `b`. `out` may be `a` or `b` itself, but may not overlap them otherwise. */
typedef void (*RowFn)(const float* a, bool a_steps, const float* b, bool b_steps, float* out, size_t n);

/* One loop for each way to step, so that the compiler can use vector instructions in all of them. */
#define BINARY_ROW(NAME, EXPRESSION)                                                              \
  static inline void NAME(const float* a, bool a_steps, const float* b, bool b_steps, float* out, \
                          size_t n) {                                                             \
    if (a_steps && b_steps) {                                                                     \
      for (size_t i = 0; i < n; ++i) {                                                            \
        const float x = a[i], y = b[i];                                                           \
        out[i] = (EXPRESSION);                                                                    \
      }                                                                                           \
    } else if (a_steps) {                                                                         \
      const float y = *b;                                                                         \
      for (size_t i = 0; i < n; ++i) {                                                            \
        const float x = a[i];                                                                     \
        out[i] = (EXPRESSION);                                                                    \
      }                                                                                           \
    } else if (b_steps) {                                                                         \
      const float x = *a;                                                                         \
      for (size_t i = 0; i < n; ++i) {                                                            \
        const float y = b[i];                                                                     \
        out[i] = (EXPRESSION);                                                                    \
      }                                                                                           \
    } else {                                                                                      \
      const float x = *a, y = *b, value = (EXPRESSION);                                           \
      for (size_t i = 0; i < n; ++i) {                                                            \
        out[i] = value;                                                                           \
      }                                                                                           \
    }                                                                                             \
  }

#define UNARY_ROW(NAME, EXPRESSION)                                                               \
  static inline void NAME(const float* a, bool a_steps, const float* b, bool b_steps, float* out, \
                          size_t n) {                                                             \
    (void)b, (void)b_steps;                                                                       \
    for (size_t i = 0; i < n; ++i) {                                                              \
      const float x = a[a_steps ? i : 0];                                                         \
      out[i] = (EXPRESSION);                                                                      \
    }                                                                                             \
  }

BINARY_ROW(add_row, x + y)
BINARY_ROW(sub_row, x - y)
BINARY_ROW(mul_row, x* y)
BINARY_ROW(div_row, x / y)
UNARY_ROW(abs_row, fabsf(x))
UNARY_ROW(ceil_row, ceilf(x))
UNARY_ROW(cos_row, cosf(x))
UNARY_ROW(exp_row, expf(x))
UNARY_ROW(floor_row, floorf(x))
UNARY_ROW(log_row, logf(x))
UNARY_ROW(neg_row, -x)
UNARY_ROW(reciprocal_row, 1.0f / x)
UNARY_ROW(relu_row, x < 0.0f ? 0.0f : x) /* This way round keeps NaN. */
UNARY_ROW(sigmoid_row, 1.0f / (1.0f + expf(-x)))
UNARY_ROW(sin_row, sinf(x))
UNARY_ROW(softplus_row,
          fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)))) /* Does not overflow, as log(exp(x) + 1) would. */
UNARY_ROW(softsign_row, x / (1.0f + fabsf(x)))
UNARY_ROW(sqrt_row, sqrtf(x))
UNARY_ROW(tanh_row, tanhf(x))

/* The operators of the default ONNX domain, with the versions of each that mean what `row` does. A node's
 * "since version" is the opset in which its operator last changed, and only the author of a kernel can say
 * whether a later change matters: so the range is closed, and an operator's next version is not claimed
 * before somebody reads it. */
typedef struct Elementwise {
  const char* type;
  size_t arity;
  int since_first;
  int since_last;
  RowFn row;
} Elementwise;

static const Elementwise kElementwise[] = {
    {"Abs", 1, 6, 13, abs_row},
    {"Add", 2, 7, 14, add_row},
    {"Ceil", 1, 6, 13, ceil_row},
    {"Cos", 1, 7, 22, cos_row},
    {"Div", 2, 7, 14, div_row},
    {"Exp", 1, 6, 13, exp_row},
    {"Floor", 1, 6, 13, floor_row},
    {"Log", 1, 6, 13, log_row},
    {"Mul", 2, 7, 14, mul_row},
    {"Neg", 1, 6, 13, neg_row},
    {"Reciprocal", 1, 6, 13, reciprocal_row},
    {"Relu", 1, 6, 14, relu_row},
    {"Sigmoid", 1, 6, 13, sigmoid_row},
    {"Sin", 1, 7, 22, sin_row},
    {"Softplus", 1, 1, 22, softplus_row},
    {"Softsign", 1, 1, 22, softsign_row},
    {"Sqrt", 1, 6, 13, sqrt_row},
    {"Sub", 2, 7, 14, sub_row},
    {"Tanh", 1, 6, 13, tanh_row},
};
enum { NUM_ELEMENTWISE = sizeof kElementwise / sizeof kElementwise[0] };

static inline size_t element_count(const Shape* shape) {
  size_t count = 1;
  for (size_t i = 0; i < shape->rank; ++i) {
    count *= (size_t)shape->dims[i];
  }
  return count;
}

/* Copies a shape that the host reported. False when its rank is beyond MAX_RANK. */
static inline bool shape_from(const int64_t* dims, size_t rank, Shape* shape) {
  if (rank > MAX_RANK) {
    return false;
  }
  shape->rank = rank;
  for (size_t i = 0; i < rank; ++i) {
    shape->dims[i] = dims[i];
  }
  return true;
}

/* numpy's rule: align the shapes at the right; where they differ, one of the two must be 1. False when they
 * don't fit. `out` may be `a` or `b`. */
static inline bool broadcast_shapes(const Shape* a, const Shape* b, Shape* out) {
  const Shape* wide = a->rank >= b->rank ? a : b;
  const Shape* narrow = wide == a ? b : a;
  const size_t lead = wide->rank - narrow->rank;
  Shape result = *wide;
  for (size_t i = 0; i < narrow->rank; ++i) {
    const int64_t x = wide->dims[lead + i], y = narrow->dims[i];
    if (x != y && x != 1 && y != 1) {
      return false;
    }
    result.dims[lead + i] = x == 1 ? y : x;
  }
  *out = result;
  return true;
}

/* A tensor that is read with the shape of a result it is broadcast to. Only KIND_EXPANDED uses the last
 * members: there dims[] is the result's shape, innermost dimension first, and strides[] are steps in `data`,
 * 0 along a dimension that is repeated. Neighbouring dimensions that can be walked as one are merged, so that
 * the inner loops are long. */
typedef struct Operand {
  const float* data;
  enum { KIND_DENSE, KIND_SCALAR, KIND_EXPANDED } kind;
  size_t rank;
  size_t dims[MAX_RANK];
  size_t strides[MAX_RANK];
} Operand;

/* `shape` must broadcast to `result`, and `result` must not be empty. */
static inline void operand_bind(Operand* operand, const float* data, const Shape* shape,
                                const Shape* result) {
  const size_t count = element_count(shape);
  operand->data = data;
  if (count == element_count(result)) {
    operand->kind = KIND_DENSE; /* Shapes that differ only in ones hold their elements in the same order. */
    return;
  }
  if (count == 1) {
    operand->kind = KIND_SCALAR;
    return;
  }
  operand->kind = KIND_EXPANDED;
  const size_t lead = result->rank - shape->rank;
  size_t rank = 0, step = 1;
  for (size_t i = result->rank; i-- > 0;) { /* From the innermost dimension outwards. */
    const size_t own = i >= lead ? (size_t)shape->dims[i - lead] : 1;
    const size_t dim = (size_t)result->dims[i];
    const size_t stride = own == 1 ? 0 : step;
    step *= own;
    if (dim == 1) {
      continue;
    }
    if (rank > 0 && stride == operand->strides[rank - 1] * operand->dims[rank - 1]) {
      operand->dims[rank - 1] *= dim;
    } else {
      operand->dims[rank] = dim;
      operand->strides[rank] = stride;
      ++rank;
    }
  }
  operand->rank = rank;
}

/* Writes elements [start, start + n) of the expanded operand to `out`. */
static inline void operand_expand(const Operand* operand, size_t start, size_t n, float* out) {
  size_t index[MAX_RANK] = {0};
  const float* data = operand->data;
  size_t rest = start;
  for (size_t i = 0; i < operand->rank; ++i) {
    index[i] = rest % operand->dims[i];
    rest /= operand->dims[i];
    data += index[i] * operand->strides[i];
  }
  while (n > 0) {
    const size_t left = operand->dims[0] - index[0];
    const size_t run = left < n ? left : n;
    if (operand->strides[0] == 0) {
      for (size_t i = 0; i < run; ++i) {
        out[i] = *data;
      }
    } else {
      memcpy(out, data, run * sizeof *out);
    }
    out += run;
    n -= run;
    if (n == 0) {
      return; /* Before the carry below, which would step past the last element. */
    }
    data -= index[0] * operand->strides[0];
    index[0] = 0;
    for (size_t i = 1; i < operand->rank; ++i) {
      data += operand->strides[i];
      if (++index[i] < operand->dims[i]) {
        break;
      }
      data -= index[i] * operand->strides[i];
      index[i] = 0;
    }
  }
}

/* The elements of `operand` for elements [start, start + n) of the result, n <= TILE. They are in `scratch`
 * (room for TILE elements) or in the tensor itself. *steps is false when one element stands for all. */
static inline const float* operand_tile(const Operand* operand, size_t start, size_t n, float* scratch,
                                        bool* steps) {
  *steps = operand->kind != KIND_SCALAR;
  if (operand->kind != KIND_EXPANDED) {
    return operand->kind == KIND_DENSE ? operand->data + start : operand->data;
  }
  operand_expand(operand, start, n, scratch);
  return scratch;
}

#endif
