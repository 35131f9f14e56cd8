// Products with weights of few bits, for operators/matmul_nbits.cc. An element of the weights is (code -
// zero) * scale, where blocks of so many rows have a zero and a scale for each column. Weights lie in panels
// of kPanel columns: of four bits as [eights of rows][kPanel][4], where the low halves of the bytes are the
// first four rows and the high halves the others; of eight bits as [fours of rows][kPanel][4]. Codes of rows
// behind the last are zeros.
//
// See simd.h for what holds of this folder.
#ifndef EPHOST_CPU_SIMD_NBITS_H_
#define EPHOST_CPU_SIMD_NBITS_H_

#include <stdint.h>

namespace ephost::cpu {

struct NBits {
  static constexpr int64_t kPanel = 16;
  // Blocks have a multiple of kStep rows; for inputs as bytes at most kMostBlock.
  static constexpr int64_t kStep = 8, kMostBlock = 4096;

  // A product with a panel: c (m x columns) = a (m x k) * weights + bias.
  struct Panel {
    int64_t m, k, block;
    int bits;  // 4 or 8.
    const uint8_t* codes;
    const float* scales;  // kPanel for each block.
    const float* zeros;   // Likewise; null where all are `zero`.
    float zero;
    const float* bias;  // For each column, or null.
    float* c;
    int64_t c_row;
    int columns;
  };
  struct Floats : Panel {
    const float* a;
    int64_t a_row;
    const float* a_sums;  // As sum_blocks makes them of each row.
  };
  // Inputs as bytes. Each block of a row has a scale of its own.
  struct Bytes : Panel {
    const int8_t* a;
    int64_t a_row;                   // A multiple of kStep; what lies behind k is zero.
    const float *a_scales, *a_sums;  // For each block of each row; the latter are sums of its bytes.
  };

  void (*product)(const Floats& panel);
  void (*byte_product)(const Bytes& panel);
  // Rows [first, last) as numbers: kPanel of them, then `step` further the next row's. `first` is a multiple
  // of kStep.
  void (*unpack)(const Panel& panel, int64_t first, int64_t last, float* to, int64_t step);
  // The sum of each block of k elements.
  void (*sum_blocks)(const float* x, int64_t k, int64_t block, float* sums);
  // k elements in blocks: bytes between -127 and 127, up to a multiple of kStep, and a scale and a sum of
  // each block. The scale of a block with something that is not finite is not a number.
  void (*quantize)(const float* x, int64_t k, int64_t block, int8_t* bytes, float* scales, float* sums);
};

}  // namespace ephost::cpu

#endif
