// Finds the function that does an elementwise operation on tiles of a type.
#ifndef EPHOST_CPU_ENGINES_TILES_H_
#define EPHOST_CPU_ENGINES_TILES_H_

#include "cpu/operator.h"
#include "cpu/simd/simd.h"
#include "toolkit/activations.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {

// The operation that an activation is.
constexpr Op op_of(Activation activation) { return static_cast<Op>(activation); }
#define X(name, ...) static_assert(op_of(Activation::k##name) == Op::k##name);
EPHOST_ACTIVATIONS(X)
#undef X

// Null where the operation does not exist on this type. float16 and bfloat16 have none: see cast_tile.
TileFunction op_tile(Op op, DType type);
bool gives_bool(Op op);
// Null where it takes two steps, by way of float32: between a half type and anything else.
TileFunction cast_tile(DType from, DType to);
// See Simd::row_reduction.
RowReduction row_reduction(Reduction how, DType type);
// `start` combined with n numbers that lie one after the other.
template <typename T>
T reduce_row(Reduction how, const T* x, int64_t n, T start) {
  if constexpr (std::is_same_v<T, float>) {
    return simd().reduce[how](x, n, start);
  } else {
    row_reduction(how, dtype_of<T>)(x, n, &start);
    return start;
  }
}
Quantizer quantizer(DType to);
// in[0] ? in[1] : in[2], for elements of this many bytes.
TileFunction where_tile(size_t size);

}  // namespace ephost::cpu

#endif
