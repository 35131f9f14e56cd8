// The elementwise operations of many instructions, by the largest registers that there are.
#include "cpu/simd/simd.h"

#include "cpu/simd/formulas.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

template <typename T>
void fill(TileFunction* ops) {
#define X(name) ops[static_cast<int>(Op::k##name)] = unary_tile<name, T, T>;
  X(Sigmoid)
  X(Tanh)
  X(Elu)
  X(Celu)
  X(Selu)
  X(Softplus)
  X(ParametricSoftplus)
  X(Mish)
  X(Gelu)
  X(GeluTanh)
  X(Swish)
  X(ScaledTanh)
  X(Sqrt)
  X(Rsqrt)
  X(Exp)
  X(Log)
  X(Erf)
  X(Sin)
  X(Cos)
  X(Asin)
  X(Acos)
  X(Atan)
#undef X
  ops[static_cast<int>(Op::kFmod)] = binary_tile<Fmod, T, T>;
  ops[static_cast<int>(Op::kMod)] = binary_tile<Mod, T, T>;
}

}  // namespace

void fill_functions(Simd* table) {
  fill<float>(table->ops);
  fill<double>(table->double_ops);
}

}  // namespace ephost::cpu::EPHOST_ISA
