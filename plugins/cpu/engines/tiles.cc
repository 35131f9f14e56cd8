#include "cpu/engines/tiles.h"

#include <cmath>
#include <limits>
#include <type_traits>

#define EPHOST_ISA plain
#include "cpu/simd/formulas.h"
#include "cpu/simd/independent.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// ---- Integers. Sums and products wrap around, dividing by zero gives zero.

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

template <typename T>
T wrap(Unsigned<T> x) {
  return static_cast<T>(x);
}

template <Op op, typename T>
auto integer(T x, T y) {
  // Small types are computed in unsigned, so that nothing overflows in the int that C++ promotes them to.
  using Wide = std::common_type_t<Unsigned<T>, unsigned>;
  const Wide u = static_cast<Wide>(static_cast<Unsigned<T>>(x)),
             v = static_cast<Wide>(static_cast<Unsigned<T>>(y));
  constexpr unsigned kBits = 8 * sizeof(T);
  if constexpr (op == Op::kAdd) {
    return static_cast<T>(u + v);
  } else if constexpr (op == Op::kSub) {
    return static_cast<T>(u - v);
  } else if constexpr (op == Op::kMul) {
    return static_cast<T>(u * v);
  } else if constexpr (op == Op::kDiv || op == Op::kFmod || op == Op::kMod) {
    if (y == 0) {
      return T{0};
    }
    if constexpr (std::is_signed_v<T>) {
      if (y == -1) {  // The lowest number's quotient does not exist.
        return op == Op::kDiv ? static_cast<T>(Wide{0} - u) : T{0};
      }
    }
    if constexpr (op == Op::kDiv) {
      return static_cast<T>(x / y);
    } else {
      const T r = static_cast<T>(x % y);
      return op == Op::kMod && r != 0 && (r < 0) != (y < 0) ? static_cast<T>(r + y) : r;
    }
  } else if constexpr (op == Op::kMin) {
    return x < y ? x : y;
  } else if constexpr (op == Op::kMax) {
    return x > y ? x : y;
  } else if constexpr (op == Op::kPow) {
    if (y < 0) {
      return static_cast<T>(x == 1 ? 1 : x == static_cast<T>(-1) ? (u ^ v) & 1 ? -1 : 1 : 0);
    }
    Wide result = 1, base = u;
    for (Wide n = v; n != 0; n >>= 1) {
      if ((n & 1) != 0) result *= base;
      base *= base;
    }
    return static_cast<T>(result);
  } else if constexpr (op == Op::kPrelu) {
    return x < 0 ? static_cast<T>(u * v) : x;
  } else if constexpr (op == Op::kEqual) {
    return x == y;
  } else if constexpr (op == Op::kLess) {
    return x < y;
  } else if constexpr (op == Op::kLessOrEqual) {
    return x <= y;
  } else if constexpr (op == Op::kGreater) {
    return x > y;
  } else if constexpr (op == Op::kGreaterOrEqual) {
    return x >= y;
  } else if constexpr (op == Op::kBitAnd) {
    return static_cast<T>(u & v);
  } else if constexpr (op == Op::kBitOr) {
    return static_cast<T>(u | v);
  } else if constexpr (op == Op::kBitXor) {
    return static_cast<T>(u ^ v);
  } else if constexpr (op == Op::kShiftLeft) {
    return static_cast<T>(v < kBits ? u << v : 0);
  } else {
    static_assert(op == Op::kShiftRight);
    return static_cast<T>(v < kBits ? u >> v : 0);
  }
}

template <Op op, typename T>
void integer_binary(const void* const* in, void* out, int64_t n, const float*) {
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  auto* z = static_cast<decltype(integer<op>(T{}, T{}))*>(out);
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) z[i] = integer<op>(x[i], y[i]);
}

template <Op op, typename T>
void integer_unary(const void* const* in, void* out, int64_t n, const float*) {
  const T* x = static_cast<const T*>(in[0]);
  T* y = static_cast<T*>(out);
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (op == Op::kAbs) {
      y[i] = x[i] < 0 ? integer<Op::kSub>(T{0}, x[i]) : x[i];
    } else if constexpr (op == Op::kNeg) {
      y[i] = integer<Op::kSub>(T{0}, x[i]);
    } else if constexpr (op == Op::kSign) {
      y[i] = static_cast<T>((x[i] > 0) - (x[i] < 0));
    } else if constexpr (op == Op::kRelu) {
      y[i] = x[i] < 0 ? T{0} : x[i];
    } else if constexpr (op == Op::kSquare) {
      y[i] = integer<Op::kMul>(x[i], x[i]);
    } else if constexpr (op == Op::kNot) {
      y[i] = x[i] == 0;
    } else {
      static_assert(op == Op::kBitNot);
      y[i] = static_cast<T>(~x[i]);
    }
  }
}

template <typename T>
TileFunction integer_tile(Op op) {
  using U = Unsigned<T>;  // For what does not depend on the sign, so that there is half as much code.
  switch (op) {
#define BINARY(name, type) \
  case Op::k##name:        \
    return integer_binary<Op::k##name, type>;
#define UNARY(name, type) \
  case Op::k##name:       \
    return integer_unary<Op::k##name, type>;
    BINARY(Add, U)
    BINARY(Sub, U)
    BINARY(Mul, U)
    BINARY(Div, T)
    BINARY(Fmod, T)
    BINARY(Mod, T)
    BINARY(Min, T)
    BINARY(Max, T)
    BINARY(Pow, T)
    BINARY(Prelu, T)
    BINARY(Equal, U)
    BINARY(Less, T)
    BINARY(LessOrEqual, T)
    BINARY(Greater, T)
    BINARY(GreaterOrEqual, T)
    BINARY(BitAnd, U)
    BINARY(BitOr, U)
    BINARY(BitXor, U)
    BINARY(ShiftLeft, U)
    BINARY(ShiftRight, U)
    UNARY(Abs, T)
    UNARY(Neg, U)
    UNARY(Sign, T)
    UNARY(Relu, T)
    UNARY(Square, U)
    UNARY(BitNot, U)
    default:
      return nullptr;
  }
}

// Bools are bytes that are 0 or 1.
TileFunction bool_tile(Op op) {
  switch (op) {
    BINARY(BitAnd, uint8_t)
    BINARY(BitOr, uint8_t)
    BINARY(BitXor, uint8_t)
    BINARY(Equal, uint8_t)
    BINARY(Min, uint8_t)
    BINARY(Max, uint8_t)
    UNARY(Not, uint8_t)
    default:
      return nullptr;
  }
#undef BINARY
#undef UNARY
}

// ---- Casts

template <typename From, typename To>
To cast(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // What does not fit has no meaning in ONNX; here it wraps around if it fits 64 bits.
    if constexpr (std::is_same_v<To, uint64_t>) {
      return x >= From{9223372036854775808.0}
                 ? static_cast<uint64_t>(static_cast<int64_t>(x - From{9223372036854775808.0})) ^
                       (uint64_t{1} << 63)
                 : static_cast<uint64_t>(static_cast<int64_t>(x));
    } else if constexpr (sizeof(To) < 4) {
      return static_cast<To>(static_cast<int32_t>(x));
    } else if constexpr (std::is_same_v<To, uint32_t>) {
      return static_cast<To>(static_cast<int64_t>(x));
    } else {
      return static_cast<To>(x);
    }
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
void cast_tile_of(const void* const* in, void* out, int64_t n, const float*) {
  const From* x = static_cast<const From*>(in[0]);
  To* y = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = cast<From, To>(x[i]);
}

template <typename From>
TileFunction cast_from(DType to) {
  if (to == DType::kBool) {
    return cast_tile_of<From, bool>;
  }
  if (!kAny.has(to) || is_half(to)) {
    return nullptr;
  }
  return with_type(to, [](auto zero) -> TileFunction {
    using To = decltype(zero);
    if constexpr (std::is_arithmetic_v<To>) {
      return cast_tile_of<From, To>;
    } else {
      return nullptr;
    }
  });
}

template <typename T>
void where_of(const void* const* in, void* out, int64_t n, const float*) {
  const uint8_t* condition = static_cast<const uint8_t*>(in[0]);
  const T *yes = static_cast<const T*>(in[1]), *no = static_cast<const T*>(in[2]);
  T* to = static_cast<T*>(out);
  // Both are read, and bits chosen: only so does it become vector code.
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T bits = static_cast<T>(T{0} - static_cast<T>(condition[i] != 0));
    to[i] = static_cast<T>((yes[i] & bits) | (no[i] & static_cast<T>(~bits)));
  }
}

}  // namespace

bool gives_bool(Op op) { return op >= Op::kEqual && op <= Op::kIsInf; }

TileFunction op_tile(Op op, DType type) {
  constexpr Types kInteger = kSigned | kUnsigned;
  struct Doubles {
    TileFunction ops[kFloatOps];
    Doubles() { plain::fill_ops<double>(ops); }
  };
  if (kInteger.has(type)) {
    return with_integer(type, [&](auto zero) { return integer_tile<decltype(zero)>(op); });
  }
  switch (type) {
    case DType::kFloat:
      return static_cast<int>(op) < kFloatOps ? simd().ops[static_cast<int>(op)] : nullptr;
    case DType::kDouble: {
      static const Doubles doubles;
      return static_cast<int>(op) < kFloatOps ? doubles.ops[static_cast<int>(op)] : nullptr;
    }
    case DType::kBool:
      return bool_tile(op);
    default:
      return nullptr;
  }
}

TileFunction cast_tile(DType from, DType to) {
  if (from == DType::kFloat16) return to == DType::kFloat ? simd().half_to_float : nullptr;
  if (from == DType::kBFloat16) return to == DType::kFloat ? simd().bfloat16_to_float : nullptr;
  if (from == DType::kFloat && to == DType::kFloat16) return simd().float_to_half;
  if (from == DType::kFloat && to == DType::kBFloat16) return simd().float_to_bfloat16;
  if (!kAny.has(from)) {
    return nullptr;
  }
  return with_type(from, [&](auto zero) -> TileFunction {
    using From = decltype(zero);
    if constexpr (std::is_arithmetic_v<From>) {
      return cast_from<From>(to);
    } else {
      return nullptr;
    }
  });
}

TileFunction where_tile(size_t size) {
  if (size == 0) {
    return nullptr;
  }
  return with_size(size, [](auto zero) -> TileFunction { return where_of<decltype(zero)>; });
}

}  // namespace ephost::cpu
