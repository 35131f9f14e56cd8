// Products of 8-bit integers and what is around them, for operators/int8_*.cc and operators/quantize.cc. See
// simd.h for what holds of this folder.
//
// Sums are exact. A product of two matrices is computed of rows of one and panels of kColumns columns of the
// other (the weights, made signed), in one of two forms:
// - bytes by bytes. The instruction for it (vpmaddubsw) adds two products of an unsigned and a signed byte in
// 16
//   bits, and saturates: panels therefore hold no two neighbours, by a column's signs, of more than 128
//   together. What is too much lies in additional rows of the panel, which are multiplied by the same
//   elements once more. AVX-512 VNNI's instruction (vpdpbusd) adds four in 32 bits, and so do those of
//   aarch64: nothing is too much.
// - 16-bit numbers by 16-bit numbers, for weights of which that would be too many. It takes a fifth longer.
// Zero points are taken off the sums: those of the rows in what sums start with.
#ifndef EPHOST_CPU_SIMD_QUANTIZED_H_
#define EPHOST_CPU_SIMD_QUANTIZED_H_

#include <stddef.h>
#include <stdint.h>

namespace ephost::cpu {

inline constexpr int kRows = 6, kColumns = 16;  // Of a tile.

struct Quantized {
  // How sums become bytes: sums * scale, rounded, plus the zero point, and limited to the byte's type, whose
  // limits `low` and `high` are. `step` is 0 where one scale holds for all columns, else 1; also below.
  struct Bytes {
    const float* scale;
    int step, zero, low, high;
  };
  // A panel of bytes.
  struct Panel {
    const int8_t* weights;  // [fours of k][kColumns][4]
    int64_t fours;
    // What is added of one half of the columns: weights as [rests][kColumns / 2][4], and which fours they
    // belong to. The second half's lie behind the first one's.
    const int8_t* rest;
    const int32_t* places;
    int64_t rests[2];
  };
  // A panel of 16-bit numbers: [pairs of k][kColumns][2].
  struct WidePanel {
    const int16_t* weights;
    int64_t pairs;
  };
  // sums[r][c] = start[c] + the sum over k of a[r][k] * b[k][c]: `a` has rows `stride` apart, with as many
  // k's as the panel. Sums lie as [rows][kColumns].
  void (*product)(const uint8_t* a, int64_t stride, int64_t rows, const Panel& b, const int32_t* start,
                  int32_t* sums);
  // The same of two panels beside each other: rows of 2 * kColumns sums lie `sums_stride` apart. `pairs`:
  // that is the quicker way.
  bool pairs;
  void (*pair_product)(const uint8_t* a, int64_t stride, int64_t rows, const Panel& first,
                       const Panel& second, const int32_t* start, int32_t* sums, int64_t sums_stride);
  void (*wide_product)(const int16_t* a, int64_t stride, int64_t rows, const WidePanel& b,
                       const int32_t* start, int32_t* sums);
  // The same with sums as bytes, in rows that lie `y_stride` apart.
  void (*product_to_bytes)(const uint8_t* a, int64_t stride, int64_t rows, const Panel& b,
                           const int32_t* start, const Bytes& as, uint8_t* y, int64_t y_stride);
  void (*wide_product_to_bytes)(const int16_t* a, int64_t stride, int64_t rows, const WidePanel& b,
                                const int32_t* start, const Bytes& as, uint8_t* y, int64_t y_stride);
  // Takes off four k's of a panel of bytes, [kColumns][4], what is too much for it: that is written to
  // `rest`, and returned is for which half of the columns there is such: bits 0 and 1. Each column's four are
  // added to `sums` before.
  int (*settle)(int8_t* fours, int32_t* sums, int8_t* rest);
  bool settles;  // Whether there can be such.
  void (*widen_unsigned)(const uint8_t* x, int64_t n, int16_t* out);
  void (*widen_signed)(const int8_t* x, int64_t n, int16_t* out);
  int32_t (*total_bytes)(const uint8_t* x, int64_t n);
  int32_t (*total_wide)(const int16_t* x, int64_t n);
  // The least and the largest of some numbers and of zero. What is not a number is passed over.
  void (*range)(const float* x, int64_t n, float* low, float* high);
  // QuantizeLinear to a byte, with the limits of its type.
  void (*quantize)(const float* x, int64_t n, float scale, int zero, int low, int high, uint8_t* y);
  // Row by row.
  void (*to_bytes)(const int32_t* sums, int64_t stride, int rows, int64_t n, const Bytes& as, uint8_t* y,
                   int64_t y_stride);
  // sums -= zeros * row
  void (*subtract)(int32_t* sums, int64_t n, const int32_t* zeros, int step, int32_t row);
  // sums * a_scale * b_scale + bias; without bias if that is null.
  void (*to_float)(const int32_t* sums, int64_t n, float a_scale, const float* b_scale, int step,
                   const float* bias, float* y);
};

}  // namespace ephost::cpu

#endif
