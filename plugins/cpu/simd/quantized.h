// Products of 8-bit integers, for kernels/quantized.cc. See simd.h for what holds of this folder.
//
// Sums are exact: a product of two matrices is computed of rows of 16-bit numbers (8-bit ones less their zero
// point) and panels of kColumns columns of signed 8-bit ones, whose zero points are taken off the sums.
#ifndef EPHOST_CPU_SIMD_QUANTIZED_H_
#define EPHOST_CPU_SIMD_QUANTIZED_H_

#include <stddef.h>
#include <stdint.h>

namespace ephost::cpu {

inline constexpr int kRows = 6, kColumns = 16;  // Of a tile.

struct Quantized {
  // sums[r][c] = the sum over k of a[r][k] * b[k][c]: `a` has rows `stride` apart, `b` lies as [pairs of k]
  // [kColumns][2], and both have an even number of k's. 1 to kRows rows.
  void (*product)(const int16_t* a, int64_t stride, int rows, const int8_t* b, int64_t pairs, int32_t* sums);
  // 16-bit numbers less the zero point; returns their sum.
  int32_t (*widen_unsigned)(const uint8_t* x, int64_t n, int zero, int16_t* out);
  int32_t (*widen_signed)(const int8_t* x, int64_t n, int zero, int16_t* out);
  // One pair of k's of a panel, of two rows of kColumns numbers; `flip` is 0x80 to make unsigned ones signed.
  void (*interleave)(const uint8_t* first, const uint8_t* second, uint8_t flip, int8_t* out);
  // QuantizeLinear to a byte, with the limits of its type.
  void (*quantize)(const float* x, int64_t n, float scale, int zero, int low, int high, uint8_t* y);
  // sums * scale, rounded and limited. `step` is 0 where one scale holds for all, else 1; also below.
  void (*to_int8)(int32_t* sums, int64_t n, const float* scale, int step, int zero, int low, int high,
                  uint8_t* y);
  // sums -= zeros * row
  void (*subtract)(int32_t* sums, int64_t n, const int32_t* zeros, int step, int32_t row);
  // sums * a_scale * b_scale + bias; without bias if that is null.
  void (*to_float)(const int32_t* sums, int64_t n, float a_scale, const float* b_scale, int step,
                   const float* bias, float* y);
};

}  // namespace ephost::cpu

#endif
