// Products of rows of float32 with weights of two, four or eight bits.
#ifndef EPHOST_CPU_ENGINES_NBITS_PRODUCT_H_
#define EPHOST_CPU_ENGINES_NBITS_PRODUCT_H_

#include "cpu/engines/nbits_weights.h"

namespace ephost::cpu {

enum class NBitsMethod {
  kBytes,      // Rows are rounded to bytes, by block.
  kAsTheyAre,  // Weights become numbers where they are multiplied,
  kUnpacked,   // or strips of them before, which many rows share.
};

// From accuracy level 4 on a host may round inputs to bytes.
NBitsMethod nbits_method(const NBitsSizes& sizes, int64_t rows, int64_t accuracy_level);
const char* name_of(NBitsMethod method);

// Bytes that a product of so many rows needs, by whichever method.
size_t nbits_scratch(const NBitsSizes& sizes, int64_t rows);

// y [rows, n] = x [rows, k] times the weights, plus a bias for each column or null. On several threads.
void nbits_product(NBitsMethod method, const NBitsWeights& weights, const float* x, int64_t rows,
                   const float* bias, float* y, void* scratch);

}  // namespace ephost::cpu

#endif
