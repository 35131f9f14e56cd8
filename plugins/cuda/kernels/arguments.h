/* What the host hands to kernels: plain structs, read by both sides. Dimensions are listed innermost first.
 */
#ifndef EPHOST_CUDA_ARGUMENTS_H_
#define EPHOST_CUDA_ARGUMENTS_H_

#include <cstdint>

#include "../../toolkit/activation_table.h"

namespace ephost::cuda {

enum { kMaxRank = 6, kMaxOperands = 6, kMaxSteps = 16, kSaved = 255 };

/* Division of a number below 2^31 by one that is known in advance, as a multiplication. */
struct Divider {
  uint32_t divisor, multiplier, shift;
};

/* ---- Elementwise (elementwise.cu) ---- */

/* What happens to the running value x; y is an operand, or what kSave kept. a and b are the step's numbers.
 * The activations are those of the toolkit's table. */
enum class Op : uint8_t {
  kSave, /* the saved value becomes x */
#define X(name, ...) k##name,
  EPHOST_ACTIVATIONS(X)
#undef X
      kAbs,
  kNeg,
  kExp,
  kLog,
  kSqrt,
  kReciprocal,
  kFloor,
  kCeil,
  kRound, /* halves to even */
  kSign,
  kSin,
  kCos,
  kErf,
  kAdd, /* from here on with y */
  kSub,
  kMul,
  kDiv,
  kPow,
  kMax,
  kMin,
  kPrelu /* x >= 0 ? x : y * x */
};

struct ChainStep {
  Op op;
  uint8_t operand; /* a number of an operand, or kSaved; of no meaning where there is no y */
  uint8_t swapped; /* 1: x and y change places */
  uint8_t unused;
  float a, b;
};

struct ChainOperand {
  const void* data;
  int32_t strides[kMaxRank]; /* in elements; 0 along what is repeated */
};

struct ChainArguments {
  uint32_t count; /* threads with work: elements, or vectors of them */
  int32_t rank;
  Divider dims[kMaxRank];
  ChainOperand operands[kMaxOperands]; /* the running value starts as the first */
  ChainStep steps[kMaxSteps];
  int32_t num_steps;
  void* out;
};

/* ---- Copies (move.cu) ---- */

struct CopyArguments {
  const void* from;
  void* to;
  uint32_t count;
  int32_t rank;
  Divider dims[kMaxRank];
  int64_t from_strides[kMaxRank], to_strides[kMaxRank]; /* in units of the kernel */
};

struct TransposeArguments { /* of `batches` matrices of rows x columns */
  const void* from;
  void* to;
  int32_t rows, columns;
};

struct GatherArguments { /* to[o][i][k] = from[o][index[i]][k] */
  const void* from;
  const void* index;
  void* to;
  uint32_t count;           /* units of the result */
  Divider inner, num_index; /* units of one slice; number of indices */
  int64_t axis;             /* slices along the axis */
  int32_t wide;             /* 1: the indices are int64, else int32 */
};

enum class Element : uint8_t { kFloat, kHalf, kBfloat, kInt32, kInt64, kUint8, kInt8, kBool };

struct CastArguments {
  const void* from;
  void* to;
  int64_t count;
  Element source, target;
};

/* ---- Rows (rows.cu) ---- */

struct SoftmaxArguments {
  const void* in;
  void* out;
  int64_t rows;
  int32_t columns;
  int32_t logarithm;
  int32_t vectors; /* 1: rows are whole vectors of 16 bytes, and lie so */
};

struct NormArguments { /* (x - mean) / sqrt(variance + epsilon) * scale + bias, over each row */
  const void* in;
  void* out;
  const void *scale, *bias; /* NULL: 1 and 0 */
  int64_t rows;
  int32_t columns;
  int32_t center; /* 0: without the mean */
  /* Where scale and bias come from: one for each column (channels 0), or for a channel, of which row r and
   * column c have number (r * columns + c) / spatial % channels. */
  int32_t channels, spatial;
  float epsilon;
  int32_t vectors; /* 1: rows, and scale and bias of columns, are whole vectors of 16 bytes, and lie so */
};

enum class Reduction : int32_t { kSum, kMean, kMax, kMin, kProduct, kL1, kL2, kSumSquare, kLogSumExp };

struct ReduceArguments { /* [outer][reduced][inner] to [outer][inner] */
  const void* in;
  void* out;
  int64_t outer, inner;
  int64_t reduced;
  Reduction kind;
  int32_t vectors; /* 1: rows are whole vectors of 16 bytes, and lie so */
};

/* ---- Windows (windows.cu) ---- */

struct PoolArguments {
  const void* in;
  void* out;
  int64_t count;
  int32_t height, width, out_height, out_width;
  int32_t window_y, window_x, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
  int32_t end_y, end_x; /* height and width with the padding behind them, for count_padding */
  int32_t maximum;      /* 1: the maximum, 0: the average */
  int32_t count_padding;
};

struct ConvArguments {
  const void *in, *weights, *bias; /* bias may be NULL */
  void* out;
  int64_t count;
  int32_t channels, height, width, out_channels, out_height, out_width, group;
  int32_t window_y, window_x, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
};

struct LrnArguments { /* [outer][channels][inner] */
  const void* in;
  void* out;
  int64_t count;
  int32_t channels, inner, before, after; /* neighbours of a channel */
  float alpha, beta, bias;                /* alpha is divided by the number of neighbours already */
};

/* One dimension of a resized image: out[i] = in[low[i]] + part[i] * (in[high[i]] - in[low[i]]). */
struct ResizeArguments { /* of planes of height x width */
  const void* in;
  void* out;
  int64_t count;
  int32_t height, width, out_height, out_width;
  const int32_t *low_y, *high_y, *low_x, *high_x;
  const float *part_y, *part_x; /* NULL: 0 everywhere */
};

enum class PadMode : int32_t { kConstant, kEdge, kReflect, kWrap };

struct PadArguments {
  const void* from;
  void* to;
  uint32_t count;
  int32_t rank;
  Divider dims[kMaxRank];                                       /* of the result */
  int64_t before[kMaxRank], sizes[kMaxRank], strides[kMaxRank]; /* of what is padded */
  PadMode mode;
  uint64_t value; /* the bits of an element */
};

/* ---- Products (matmul.cu) ---- */

struct MatmulArguments { /* out[b] = alpha * A[b] B[b] + beta * C[b], all row-major */
  const void *a, *b, *c; /* c may be NULL */
  void* out;
  int32_t m, n, k;
  int64_t a_row, a_column, b_row, b_column, c_row, c_column; /* strides in elements */
  int32_t batch_rank;
  Divider batch[kMaxRank];
  int64_t a_batch[kMaxRank], b_batch[kMaxRank], c_batch[kMaxRank];
  float alpha, beta;
};

}  // namespace ephost::cuda

#endif
