// How the sums of a row of a panel become its part of the product, for both kinds of inputs. See nbits.h.
#ifndef EPHOST_CPU_SIMD_NBITS_ROWS_H_
#define EPHOST_CPU_SIMD_NBITS_ROWS_H_

#include "cpu/simd/nbits.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

inline void put_row(const NBits::Panel& g, int64_t row, const float (&sums)[NBits::kPanel]) {
  float* to = g.c + row * g.c_row;
  for (int j = 0; j < g.columns; ++j) to[j] = sums[j] + (g.bias == nullptr ? 0 : g.bias[j]);
}

}  // namespace
}  // namespace ephost::cpu::EPHOST_ISA

#endif
