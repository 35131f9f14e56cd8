// The elementwise operations on float64.
#include "cpu/simd/simd.h"

#include "cpu/simd/formulas.h"

namespace ephost::cpu::EPHOST_ISA {

void fill_doubles(Simd* table) { fill_ops<double>(table->double_ops); }

}  // namespace ephost::cpu::EPHOST_ISA
