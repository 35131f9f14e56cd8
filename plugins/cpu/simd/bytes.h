// Elementwise operations on bytes, for operators/quantize.cc and operators/pooling.cc. See simd.h for what
// holds of this folder.
#ifndef EPHOST_CPU_SIMD_BYTES_H_
#define EPHOST_CPU_SIMD_BYTES_H_

#include <stddef.h>
#include <stdint.h>

namespace ephost::cpu {

// Two quantised numbers and what is made of them.
struct BytePair {
  float a_scale, b_scale, scale;
  int a_zero, b_zero, zero;
  bool is_signed;  // All three.
};

struct Bytewise {
  // y[i] = table[x[i]], of 256 bytes.
  void (*look_up)(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y);
  // The quantised sum and product of dequantised numbers.
  void (*add)(const uint8_t* a, const uint8_t* b, int64_t n, const BytePair& as, uint8_t* y);
  void (*multiply)(const uint8_t* a, const uint8_t* b, int64_t n, const BytePair& as, uint8_t* y);
  // y[c] = the largest of rows[r][c].
  void (*largest_unsigned)(const uint8_t* const* rows, int64_t count, int64_t n, uint8_t* y);
  void (*largest_signed)(const uint8_t* const* rows, int64_t count, int64_t n, uint8_t* y);
  // sums[c] += x[r * step + c], bytes being taken as they are; fewer than 2^23 rows.
  void (*add_rows_unsigned)(const uint8_t* x, int64_t rows, int64_t step, int64_t n, int32_t* sums);
  void (*add_rows_signed)(const uint8_t* x, int64_t rows, int64_t step, int64_t n, int32_t* sums);
  // y[r][c] = code [r][c] * scales[step * c]: of signed bytes, or of two codes in a byte, the first in its
  // lower half, which are 8 more than their numbers; then n is even. `step` is 0 or 1.
  void (*decode)(const uint8_t* codes, int64_t rows, int64_t n, const float* scales, int step, float* y);
  void (*decode_halves)(const uint8_t* codes, int64_t rows, int64_t n, const float* scales, int step,
                        float* y);
};

}  // namespace ephost::cpu

#endif
