#include "cpu/engines/tiles.h"

namespace ephost::cpu {
namespace {

// The number in C++ that elements of a type are, if they are one.
bool number_of(DType type, Number* number) {
  switch (type) {
#define X(name, ...)           \
  case DType::k##name:         \
    *number = Number::k##name; \
    return true;
    EPHOST_NUMBERS(X)
#undef X
    default:
      return false;
  }
}

}  // namespace

bool gives_bool(Op op) { return op >= Op::kEqual && op <= Op::kIsInf; }

TileFunction op_tile(Op op, DType type) {
  if (type == DType::kFloat || type == DType::kDouble) {
    const TileFunction* ops = type == DType::kFloat ? simd().ops : simd().double_ops;
    return static_cast<int>(op) < kFloatOps ? ops[static_cast<int>(op)] : nullptr;
  }
  Number number;
  return number_of(type, &number) ? simd().integer_tile(op, number) : nullptr;
}

TileFunction cast_tile(DType from, DType to) {
  if (from == DType::kFloat16) return to == DType::kFloat ? simd().half_to_float : nullptr;
  if (from == DType::kBFloat16) return to == DType::kFloat ? simd().bfloat16_to_float : nullptr;
  if (from == DType::kFloat && to == DType::kFloat16) return simd().float_to_half;
  if (from == DType::kFloat && to == DType::kBFloat16) return simd().float_to_bfloat16;
  Number one, other;
  return number_of(from, &one) && number_of(to, &other) ? simd().cast_tile(one, other) : nullptr;
}

RowReduction row_reduction(Reduction how, DType type) {
  Number number;
  return number_of(type, &number) ? simd().row_reduction(how, number) : nullptr;
}

Quantizer quantizer(DType to) {
  Number number;
  return number_of(to, &number) ? simd().quantizer(number) : nullptr;
}

TileFunction where_tile(size_t size) { return size == 0 ? nullptr : simd().where_tile(size); }

}  // namespace ephost::cpu
