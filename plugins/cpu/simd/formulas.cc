// The elementwise operations on float32 and float64, but for those of functions.cc.
#include "cpu/simd/streaming.h"

#include "cpu/simd/simd.h"

#include "cpu/simd/formulas.h"

namespace ephost::cpu::EPHOST_ISA {

void fill_formulas(Simd* table) {
  fill_ops<float>(table->ops);
  fill_ops<double>(table->double_ops);
}

}  // namespace ephost::cpu::EPHOST_ISA
