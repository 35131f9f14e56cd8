// Kernels whose speed depends on the instruction set: the sources in this folder are compiled once for each
// set that CMakeLists.txt lists, and the best one that the machine has is chosen when the plugin is loaded.
//
// Those sources must not let code out that the linker could take for another set's: they use neither inline
// functions of headers from elsewhere nor what has code of the standard library's templates, and all that
// they define lies in the namespace EPHOST_ISA or is static.
#ifndef EPHOST_CPU_SIMD_SIMD_H_
#define EPHOST_CPU_SIMD_SIMD_H_

#include <stddef.h>
#include <stdint.h>

#include "cpu/simd/bytes.h"
#include "cpu/simd/leaves.h"
#include "cpu/simd/nbits.h"
#include "cpu/simd/quantized.h"
#include "cpu/simd/recurrence.h"
#include "cpu/simd/winograd_int8.h"
#include "toolkit/activation_table.h"

namespace ephost::cpu {

// Operations on elements. In each list the formula of the same name is in formulas.h. Activations come first,
// so that their numbers are those of ephost::Activation. By hand, since clang-format does not come to an end
// with this one.
// clang-format off
#define EPHOST_UNARY_OPS(X)                                                                                 \
  EPHOST_ACTIVATIONS(X)                                                                                     \
  X(Abs) X(Neg) X(Reciprocal) X(Sqrt) X(Rsqrt) X(Square) X(Exp) X(Log) X(Erf) X(Floor) X(Ceil) X(Round)     \
  X(Sign) X(Sin) X(Cos) X(Tan) X(Asin) X(Acos) X(Atan) X(Sinh) X(Cosh) X(Asinh) X(Acosh) X(Atanh)
// clang-format on
#define EPHOST_BINARY_OPS(X) X(Add) X(Sub) X(Mul) X(Div) X(Min) X(Max) X(Pow) X(Fmod) X(Mod) X(Prelu)
// Their result is a bool.
#define EPHOST_COMPARE_OPS(X) X(Equal) X(Less) X(LessOrEqual) X(Greater) X(GreaterOrEqual)
#define EPHOST_TEST_OPS(X) X(IsNaN) X(IsInf)
// On integers and bools only; their tile functions are in elements.cc.
#define EPHOST_BIT_OPS(X) X(BitAnd) X(BitOr) X(BitXor) X(BitNot) X(ShiftLeft) X(ShiftRight) X(Not)

enum class Op : uint8_t {
#define X(name, ...) k##name,
  EPHOST_UNARY_OPS(X) EPHOST_BINARY_OPS(X) EPHOST_COMPARE_OPS(X) EPHOST_TEST_OPS(X) EPHOST_BIT_OPS(X)
#undef X
};
#define X(name, ...) +1
inline constexpr int kFloatOps =
    0 EPHOST_UNARY_OPS(X) EPHOST_BINARY_OPS(X) EPHOST_COMPARE_OPS(X) EPHOST_TEST_OPS(X);
inline constexpr int kOps = kFloatOps EPHOST_BIT_OPS(X);
#undef X

// The numbers that C++ computes with, and bools.
// clang-format off
#define EPHOST_NUMBERS(X)                                                                                   \
  X(Float, float) X(Double, double) X(Int8, int8_t) X(Int16, int16_t) X(Int32, int32_t) X(Int64, int64_t)   \
  X(Uint8, uint8_t) X(Uint16, uint16_t) X(Uint32, uint32_t) X(Uint64, uint64_t) X(Bool, bool)
// clang-format on
enum class Number : uint8_t {
#define X(name, ...) k##name,
  EPHOST_NUMBERS(X)
#undef X
};

// One operation on n elements that lie one after the other in each operand. `params` are two numbers that the
// formulas call a and b. The output may be one of the inputs.
using TileFunction = void (*)(const void* const* in, void* out, int64_t n, const float* params);

// A product of matrices: c (m x n) = a (m x k) * b (k x n), in float32. Element (i, p) of a is at
// a[i * a_row + p * a_step]. b is cut into panels of Simd::panel columns: element (p, j) of panel q is at
// b[q * b_panel + p * b_step + j]; all of a panel's columns can be read, also those behind n.
// A row of a may lie in pieces, as the lines under a window do: `more` pieces of k elements follow the first,
// each `a_jump` behind the end of the one before it. b has the rows for all of them, one after the other.
struct GemmBlock {
  int64_t m, n, k;
  const float* a;
  int64_t a_row, a_step;
  int64_t more, a_jump;
  const float* b;
  int64_t b_step, b_panel;
  float* c;
  int64_t c_row;
  const float* bias;  // Where the sums begin: one element for each column, or null for 0.
  bool accumulate;    // They begin at what c holds, instead.
};

// The same of other numbers, of a b that lies row by row without gaps, as c does. Integers wrap around.
template <typename T>
struct NumberBlock {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_step;
  const T* b;
  T* c;
};

enum Reduction : uint8_t { kSum, kProduct, kGreatest, kLeast };
// Combines *result with n numbers that lie one after the other. Integers wrap around; NaN stays.
using RowReduction = void (*)(const void* x, int64_t n, void* result);

// QuantizeLinear of n numbers: x / scale, rounded to even, plus the zero point (0 where that is null),
// limited to the integers that y has. `each`: scale and zero point are one for each number.
using Quantizer = void (*)(const float* x, int64_t n, const float* scale, const void* zero, bool each,
                           void* y);

// One tile of a convolution by Winograd's method. Channels are taken by eight, which lie side by side; a tile
// reads as many inputs as it has points in which is multiplied: 4x4 or 6x6, or six in a line.
struct WinogradInput {
  const float* from;                         // An image.
  int64_t block_step, row_step, pixel_step;  // From eight channels to the next, and between pixels.
  int64_t blocks, height, width;
  int64_t y, x;  // Of the tile's first input: what lies outside of the image counts as 0.
  float* to;     // Point p of channel c: to[p * step + c].
  int64_t step;
};
struct WinogradOutput {
  const float* from;  // As WinogradInput::to.
  int64_t step;
  const float* bias;  // One for each channel, or null.
  float* to;          // As WinogradInput::from.
  int64_t block_step, row_step, pixel_step;
  int64_t blocks, height, width;
  int64_t y, x;  // Of the tile's first output; what lies outside is not written.
};
// The kernels of eight outputs, of all their inputs, which are a multiple of eight.
struct WinogradWeights {
  const float* from;  // Of output o and input i: its taps in a row at from[o * output_step + i * taps].
  int64_t output_step, inputs;
  float* to;  // Point p of that: to[p * step + i * input_step + o].
  int64_t input_step, step;
};
struct WinogradTransforms {
  void (*input)(const WinogradInput& tile);
  void (*output)(const WinogradOutput& tile);
  void (*weights)(const WinogradWeights& kernels);
};
// The outputs of a tile, of kernels.
enum WinogradTiles : uint8_t {
  kTiles2x2Of3x3,
  kTiles4x4Of3x3,
  kTiles2x2Of5x5,
  kTiles1x4Of1x3,
  kTiles1x2Of1x5,
  kWinogradTiles
};

// Channels of a convolution of each channel on its own that are computed side by side: 32 or 16.
struct DepthwiseBlock {
  int64_t channel;  // The first one.
  int64_t packed;   // As many as all blocks before have; blocks may have channels in common.
  bool wide;
};
// A line of pixels of such a convolution of bytes, of whole windows. Of `wide` channels of a block, with c
// one of them and h = c % 16:
// - weights are cut into 16 * high + low; those of a pair of taps lie as [low, high][h / 8][c / 16][h %
// 8][2],
// - numbers lie as [h / 4][c / 16][h % 4].
struct DepthwiseLine {
  // 2 * pairs taps of the first pixel, the next one's being `step` further. Where `is_three` holds they are
  // those of a window of 3x3 in the order of kThree, with the same distances in each line.
  const uint8_t* const* taps;
  int64_t step, pixels, pairs;
  int64_t group;  // Pairs whose sums fit into 16 bits.
  bool is_three, is_signed;
  const DepthwiseBlock* blocks;
  int64_t count;
  const int8_t* weights;
  const int32_t* start;  // What the sums begin with. Signed bytes are taken as x + 128, unsigned.
  const float* scales;
  int64_t channels;  // From a pixel of the output to the next one.
  int zero, low;     // As Quantized::Bytes has them.
  uint8_t* y;        // (sums * scales), rounded; or null, and the sums go to:
  int32_t* sums;
};
inline constexpr int kThree[] = {0, 3, 1, 4, 2, 5, 6, 7, 8};

// Pixels [first, last) of some lines of the output of a convolution of float32, channels last, whose groups
// have 1, 2 or 4 channels, as many in the input as in the output. Sixteen channels at a time, what lies under
// their windows is copied to where it is next to each other, with zeros where it is outside of the image.
inline constexpr int64_t kDepthwiseChannels = 8;  // At least.
inline constexpr int64_t kDepthwiseBlock = 16;    // Channels.
struct FloatDepthwiseBand {
  const float* const* from;       // The input's lines under the output's, [depth][in_lines]; null outside.
  int64_t depth, in_lines, rows;  // `depth` planes of the input lie under a line of the output.
  int64_t lines, line_stride;     // Of the kernel, in each plane.
  int64_t taps, stride, dilation, left, in_width;  // `left` pixels are added before each line.
  int64_t group;         // Channels of a group: 1, 2 or 4, as many in the input as in the output.
  const float* weights;  // [depth][lines][taps][group][channels]
  const float* bias;     // One for each channel, or null.
  int64_t channels;      // In a pixel.
  int64_t begin, end;    // Of these; begin is a multiple of kDepthwiseBlock, end too or that of all.
  int64_t first, last;
  float* y;      // The first line.
  int64_t line;  // From a line of the output to the next one.
  float* room;   // As many floats as room_size() says, at a place that is a multiple of 64 bytes.

  // Pixels of a line in the room: at least 4, and 8 if more than that, are computed at once.
  int64_t places(int64_t pixels) const {
    return ((pixels >= 8 ? pixels : pixels > 4 ? 8 : 4) - 1) * stride + (taps - 1) * dilation + 1;
  }
  int64_t room_size(int64_t pixels) const {
    return kDepthwiseBlock * (depth * lines * (places(pixels) + taps * group) + 1);
  }
};

// A row of a convolution of float32 on plain images, in all output channels of a group.
inline constexpr int64_t kPlaneWidth = 16;  // At least.
struct PlaneRow {
  // The input's rows under each line of the kernel, of each input channel, with pads; null outside of the
  // image.
  const float* const* from;
  int64_t lines, taps, dilation;  // Lines of all input channels together, taps in each.
  const float* weights;           // [channels][lines][taps]
  const float* bias;              // One for each channel, or null.
  int64_t channels, width;
  float* y;
  int64_t plane;  // From a channel of the output to the next one.
};

enum Pooling : uint8_t { kPoolMax, kPoolMean };

// Some rows of the output of pooling, of one image.
struct PoolLine {
  const int64_t* from;  // Where the input's rows begin that lie under its windows,
  int64_t count;        // and how many they are.
  float taps;           // For means: what each window's sum is divided by, is this * PoolRows::taps[i].
};
struct PoolRows {
  const float* x;
  const PoolLine* lines;  // Of each row.
  int64_t count, width;   // Of them, and of the input's rows.
  // For each row `step` elements, in which those of the input begin `begin` behind the first: the others are
  // pads, which do not matter to the result. n, and at least 8, times stride elements from each of a window's
  // taps on can be read.
  float* room;
  int64_t step, begin;
  int64_t kernel, dilation, stride;
  int64_t n;          // Windows.
  const float* taps;  // Null for maxima.
  float* y;
};

// Points between the pixels of images of one to three axes, which are sums of pixels by linear weights.
inline constexpr int64_t kGridPoints = 64;  // At most, together.
struct GridPoints {
  const float* places;  // [count][axes], the innermost axis first; -1 and 1 are an axis' two ends.
  int64_t count, axes;
  const int64_t*
      sizes;     // Of the axes. The innermost one has two pixels at least, all together less than 2^31.
  bool corners;  // The ends are the middles of the outermost pixels, not their outer edges.
  bool border;   // Outside is what is at the border; else zeros.
};
// What those points read: on each of `lines` lines of pixels two neighbours, the first of them `at` elements
// behind the image's first.
struct GridPairs {
  int64_t lines;
  int32_t at[4][kGridPoints];
  alignas(64) float weights[4][2 * kGridPoints];
  alignas(64) uint32_t masks[4][2 * kGridPoints];  // No bits where a weight is 0: that pixel may be infinite.
};

struct Simd {
  const char* name = "";
  const char* built = "";            // The names of all sets that are built in, with commas between.
  const char* unknown = nullptr;     // What EPHOST_CPU_ISA says, where that is no set's name.
  TileFunction ops[kFloatOps] = {};  // On float32.
  TileFunction double_ops[kFloatOps] = {};
  // Null where there is no such operation.
  TileFunction (*integer_tile)(Op op, Number type) = nullptr;
  TileFunction (*cast_tile)(Number from, Number to) = nullptr;
  // For float64 and integers of 32 and 64 bits; the extremes also of bytes.
  RowReduction (*row_reduction)(Reduction how, Number type) = nullptr;
  Quantizer (*quantizer)(Number to) = nullptr;  // To integers of 8 and 16 bits.
  // in[0] ? in[1] : in[2], for elements of this many bytes.
  TileFunction (*where_tile)(size_t size) = nullptr;
  TileFunction half_to_float = nullptr, float_to_half = nullptr;
  TileFunction bfloat16_to_float = nullptr, float_to_bfloat16 = nullptr;
  int64_t panel = 0;  // Columns of b that are multiplied at a time.
  int64_t depth = 0;  // Rows of b that are best multiplied at a time.
  int64_t rows = 0;   // Rows of a that panels best pass by at a time.
  void (*gemm)(const GemmBlock& block) = nullptr;
  // Copies b, whose element (p, j) is at b[p * row + j * column], into panels that are k x panel elements
  // each, filled up with zeros.
  void (*gemm_pack)(const float* b, int64_t row, int64_t column, int64_t k, int64_t n, float* out) = nullptr;
  // c = a * b where the elements of a column of b follow each other, as those of a row of a do: for few rows.
  void (*gemm_dots)(const GemmBlock& block) = nullptr;
  void (*double_gemm)(const NumberBlock<double>& block) = nullptr;
  void (*uint32_gemm)(const NumberBlock<uint32_t>& block) = nullptr;
  void (*uint64_gemm)(const NumberBlock<uint64_t>& block) = nullptr;
  WinogradTransforms winograd[kWinogradTiles] = {};

  // Rows of float32 that lie in one piece.
  float (*reduce[4])(const float* x, int64_t n, float start) = {};  // By Reduction.
  // The first or the last place of `value`, which is one of the n numbers; of NaN always the first.
  int64_t (*find)(const float* x, int64_t n, float value, bool last) = nullptr;
  // The sum of (x - mean)^2.
  float (*sum_of_squares)(const float* x, int64_t n, float mean) = nullptr;
  // The softmax of x * scale + mask, or its logarithm; `mask` may be null, y may be x.
  void (*softmax)(const float* x, const float* mask, float* y, int64_t n, float scale, bool log) = nullptr;
  // (x - mean) * factor * scale + bias; `scale` may be null, and so may `bias`.
  void (*normalize)(const float* x, float* y, int64_t n, float mean, float factor, const float* scale,
                    const float* bias) = nullptr;
  void (*pool[2])(const PoolRows& rows) = {};  // By Pooling.
  void (*depthwise)(const DepthwiseLine& line) = nullptr;
  void (*float_depthwise)(const FloatDepthwiseBand& band) = nullptr;
  void (*plane_row)(const PlaneRow& row) = nullptr;
  void (*recurrent_step)(const RecurrentStep& step) = nullptr;
  void (*grid_pairs)(const GridPoints& grid, GridPairs& pairs) = nullptr;
  // The first `count` points of an image x.
  void (*grid_sums)(const GridPairs& pairs, const float* x, float* y, int64_t count) = nullptr;
  Bytewise bytes = {};
  Quantized quantized = {};
  NBits nbits = {};
  Winograd8 winograd8 = {};
  Treewise trees = {};
};

// The best of what is built in and this machine can run, up to what the environment variable EPHOST_CPU_ISA
// names.
const Simd& simd();

}  // namespace ephost::cpu

#endif
