// Products of 8-bit integers, for kernels/int8*.cc and kernels/quantize.cc. See simd.h for what holds of this
// folder.
//
// Sums are exact: a product of two matrices is computed of rows of 16-bit numbers (8-bit ones less their zero
// point) and panels of kColumns columns of signed 8-bit ones, whose zero points are taken off the sums.
#ifndef EPHOST_CPU_SIMD_QUANTIZED_H_
#define EPHOST_CPU_SIMD_QUANTIZED_H_

#include <stddef.h>
#include <stdint.h>

namespace ephost::cpu {

inline constexpr int kRows = 6, kColumns = 16;  // Of a tile.
inline constexpr int kChannels = 16;            // Channels that `depthwise` takes at a time.

struct Quantized {
  // sums[r][c] = the sum over k of a[r][k] * b[k][c]: `a` has rows `stride` apart, `b` lies as [pairs of k]
  // [kColumns][2], and both have an even number of k's. 1 to kRows rows.
  void (*product)(const int16_t* a, int64_t stride, int rows, const int8_t* b, int64_t pairs, int32_t* sums);
  // 16-bit numbers less the zero point.
  void (*widen_unsigned)(const uint8_t* x, int64_t n, int zero, int16_t* out);
  void (*widen_signed)(const int8_t* x, int64_t n, int zero, int16_t* out);
  int32_t (*total)(const int16_t* x, int64_t n);
  // y[i] = table[x[i]], of 256 bytes.
  void (*look_up)(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y);
  // One pair of k's of a panel, of two rows of kColumns numbers; `flip` is 0x80 to make unsigned ones signed.
  void (*interleave)(const uint8_t* first, const uint8_t* second, uint8_t flip, int8_t* out);
  // QuantizeLinear to a byte, with the limits of its type.
  void (*quantize)(const float* x, int64_t n, float scale, int zero, int low, int high, uint8_t* y);
  // (x - zero) * scale
  void (*dequantize_unsigned)(const uint8_t* x, int64_t n, float scale, int zero, float* y);
  void (*dequantize_signed)(const int8_t* x, int64_t n, float scale, int zero, float* y);
  // (sums + bias) * scale, rounded, and limited to a byte's type, whose limits `low` and `high` are, row by
  // row. `bias` may be null; `step` is 0 where one scale holds for all columns, else 1; also below.
  struct Bytes {
    const int32_t* bias;
    const float* scale;
    int step, zero, low, high;
  };
  void (*to_bytes)(const int32_t* sums, int64_t stride, int rows, int64_t n, const Bytes& as, uint8_t* y,
                   int64_t y_stride);
  // sums[c] = the sum over taps t of taps[t][c] * weight, for kChannels channels. Weights lie as [pairs of
  // taps][kChannels][2], in the order that `interleave_taps` makes; taps are bytes, unsigned or not.
  void (*depthwise_unsigned)(const uint8_t* const* taps, int64_t pairs, const int16_t* weights,
                             int32_t* sums);
  void (*depthwise_signed)(const uint8_t* const* taps, int64_t pairs, const int16_t* weights, int32_t* sums);
  // One pair of taps of kChannels channels.
  void (*interleave_taps)(const int16_t* first, const int16_t* second, int16_t* out);
  // sums -= zeros * row
  void (*subtract)(int32_t* sums, int64_t n, const int32_t* zeros, int step, int32_t row);
  // sums * a_scale * b_scale + bias; without bias if that is null.
  void (*to_float)(const int32_t* sums, int64_t n, float a_scale, const float* b_scale, int step,
                   const float* bias, float* y);
};

}  // namespace ephost::cpu

#endif
