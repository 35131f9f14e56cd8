// Operations on integers and bools, casts between numbers, choices between elements, quantisation and
// reductions of rows.
#include "cpu/simd/streaming.h"

#include <type_traits>

#include "cpu/simd/all_hold.h"
#include "cpu/simd/independent.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

// ---- Integers. Sums and products wrap around, dividing by zero gives zero.

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

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
    if constexpr (sizeof(T) < 8 && !std::is_same_v<T, uint32_t>) {
      // There are no vector instructions for it, but for numbers that are wide enough to round no quotient up
      // to an integer. The lowest number has no quotient by -1.
      using Real = std::conditional_t<sizeof(T) == 4, double, float>;
      const bool is_minus_one = std::is_signed_v<T> && y == static_cast<T>(-1);
      const T divisor = y == 0 || is_minus_one ? T{1} : y;
      const T quotient =
          static_cast<T>(static_cast<int32_t>(static_cast<Real>(x) / static_cast<Real>(divisor)));
      if constexpr (op == Op::kDiv) {
        return y == 0 ? T{0} : is_minus_one ? static_cast<T>(Wide{0} - u) : quotient;
      } else {
        const T r = static_cast<T>(u - static_cast<Wide>(static_cast<Unsigned<T>>(quotient)) *
                                           static_cast<Wide>(static_cast<Unsigned<T>>(divisor)));
        return op == Op::kMod && r != 0 && (r < 0) != (y < 0) ? static_cast<T>(r + y) : r;
      }
    }
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

template <typename T>
void integer_power(const void* const* in, void* out, int64_t n, const float* params) {
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  T* z = static_cast<T*>(out);
  const T exponent = n > 0 ? y[0] : T{0};
  const auto same = [&](int64_t i) { return y[i] == exponent; };
  if ((exponent == 2 || exponent == 3) && all_hold<T>(n, same)) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const T square = integer<Op::kMul>(x[i], x[i]);
      z[i] = exponent == 2 ? square : integer<Op::kMul>(square, x[i]);
    }
    return;
  }
  integer_binary<Op::kPow, T>(in, out, n, params);
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
TileFunction integer_tile_of(Op op) {
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
    case Op::kPow:
      return integer_power<T>;
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

TileFunction integer_tile(Op op, Number type) {
  switch (type) {
    case Number::kInt8:
      return integer_tile_of<int8_t>(op);
    case Number::kInt16:
      return integer_tile_of<int16_t>(op);
    case Number::kInt32:
      return integer_tile_of<int32_t>(op);
    case Number::kInt64:
      return integer_tile_of<int64_t>(op);
    case Number::kUint8:
      return integer_tile_of<uint8_t>(op);
    case Number::kUint16:
      return integer_tile_of<uint16_t>(op);
    case Number::kUint32:
      return integer_tile_of<uint32_t>(op);
    case Number::kUint64:
      return integer_tile_of<uint64_t>(op);
    case Number::kBool:
      return bool_tile(op);
    default:
      return nullptr;
  }
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

// AVX2 converts between floating-point numbers and integers of 32 bits with a sign alone.
#if defined(__AVX2__) && !defined(__AVX512DQ__)
constexpr bool kOnlyInt32 = true;
#else
constexpr bool kOnlyInt32 = false;
#endif
template <typename T>
constexpr bool kHasNoConversion = kOnlyInt32&& std::is_integral_v<T> &&
                                  (sizeof(T) == 8 || std::is_same_v<T, uint32_t>);

template <typename From>
bool fits_int32(From x) {
  if constexpr (std::is_floating_point_v<From>) {
    return (x > From{-2147483648.0}) & (x < From{2147483648.0});
  } else if constexpr (std::is_signed_v<From>) {
    return static_cast<uint64_t>(x) + 0x80000000u <= 0xffffffffu;
  } else {
    return x <= 0x7fffffffu;
  }
}

template <typename From, typename To>
void cast_tile_of(const void* const* in, void* out, int64_t n, const float*) {
  const From* x = static_cast<const From*>(in[0]);
  To* y = static_cast<To*>(out);
  if constexpr ((std::is_floating_point_v<From> && kHasNoConversion<To>) ||
                (kHasNoConversion<From> && sizeof(From) == 8 && std::is_floating_point_v<To>)) {
    if (all_hold<From>(n, [&](int64_t i) { return fits_int32(x[i]); })) {
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(static_cast<int32_t>(x[i]));
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) y[i] = cast<From, To>(x[i]);
}

template <typename From>
TileFunction cast_from(Number to) {
  switch (to) {
#define X(name, type)   \
  case Number::k##name: \
    return cast_tile_of<From, type>;
    EPHOST_NUMBERS(X)
#undef X
  }
  return nullptr;
}

// Bools are read as the bytes that they are: one that is neither 0 nor 1 is true.
TileFunction cast_tile(Number from, Number to) {
  switch (from) {
#define X(name, type)   \
  case Number::k##name: \
    return cast_from<std::conditional_t<std::is_same_v<type, bool>, uint8_t, type>>(to);
    EPHOST_NUMBERS(X)
#undef X
  }
  return nullptr;
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

TileFunction where_tile(size_t size) {
  switch (size) {
    case 1:
      return where_of<uint8_t>;
    case 2:
      return where_of<uint16_t>;
    case 4:
      return where_of<uint32_t>;
    default:
      return where_of<uint64_t>;
  }
}

// ---- Quantisation

template <typename T>
void quantize(const float* x, int64_t n, const float* scale, const void* zero, bool each, void* y) {
  constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);
  constexpr float kMost = kIsSigned ? sizeof(T) == 1 ? 127 : 32767 : sizeof(T) == 1 ? 255 : 65535;
  constexpr float kLeast = kIsSigned ? -kMost - 1 : 0;
  const T* zeros = static_cast<const T*>(zero);
  T* to = static_cast<T*>(y);
  const auto integer = [&](float value, float by, float start) {
    const float moved = __builtin_rintf(value / by) + start, high = moved > kLeast ? moved : kLeast;
    return static_cast<T>(static_cast<int32_t>(high < kMost ? high : kMost));
  };
  if (!each) {
    const float by = *scale, start = zeros == nullptr ? 0.0f : static_cast<float>(*zeros);
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = integer(x[i], by, start);
  } else if (zeros == nullptr) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = integer(x[i], scale[i], 0.0f);
  } else {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = integer(x[i], scale[i], static_cast<float>(zeros[i]));
  }
}

Quantizer quantizer(Number to) {
  switch (to) {
    case Number::kInt8:
      return quantize<int8_t>;
    case Number::kUint8:
      return quantize<uint8_t>;
    case Number::kInt16:
      return quantize<int16_t>;
    default:
      return quantize<uint16_t>;
  }
}

// ---- Reductions

template <Reduction how, typename T>
inline T combined(T a, T b) {
  if constexpr (how == kSum) {
    return a + b;
  } else if constexpr (how == kProduct) {
    return a * b;
  } else {
    const T better = how == kGreatest ? (a > b ? a : b) : (a < b ? a : b);
    return a != a ? a : better;
  }
}

template <Reduction how, typename T>
void reduce_row(const void* x, int64_t n, void* result) {
  typedef T Vector __attribute__((vector_size(32)));
  typedef T Unaligned __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  constexpr int64_t kLanes = 32 / sizeof(T);
  const T* from = static_cast<const T*>(x);
  T all = *static_cast<T*>(result);
  int64_t i = 0;
  if (n >= 4 * kLanes) {
    // Side by side, so that no operation waits for the last one.
    Vector strands[4];
    const auto at = [&](int64_t place) { return *reinterpret_cast<const Unaligned*>(from + place); };
    for (int s = 0; s < 4; ++s) strands[s] = at(s * kLanes);
    for (i = 4 * kLanes; i + 4 * kLanes <= n; i += 4 * kLanes) {
      for (int s = 0; s < 4; ++s) strands[s] = combined<how>(strands[s], at(i + s * kLanes));
    }
    const Vector one =
        combined<how>(combined<how>(strands[0], strands[1]), combined<how>(strands[2], strands[3]));
    for (int64_t l = 0; l < kLanes; ++l) all = combined<how, T>(all, one[l]);
  }
  for (; i < n; ++i) all = combined<how, T>(all, from[i]);
  *static_cast<T*>(result) = all;
}

template <typename T, typename Wrapping = T>
RowReduction row_reduction_of(Reduction how) {
  if constexpr (sizeof(T) >= 4) {  // Sums and products of bytes would not fit.
    if (how == kSum) return reduce_row<kSum, Wrapping>;
    if (how == kProduct) return reduce_row<kProduct, Wrapping>;
  }
  return how == kGreatest ? reduce_row<kGreatest, T> : how == kLeast ? reduce_row<kLeast, T> : nullptr;
}

RowReduction row_reduction(Reduction how, Number type) {
  switch (type) {
    case Number::kDouble:
      return row_reduction_of<double>(how);
    case Number::kInt8:
      return row_reduction_of<int8_t>(how);
    case Number::kInt32:
      return row_reduction_of<int32_t, uint32_t>(how);
    case Number::kInt64:
      return row_reduction_of<int64_t, uint64_t>(how);
    case Number::kUint8:
      return row_reduction_of<uint8_t>(how);
    case Number::kUint32:
      return row_reduction_of<uint32_t>(how);
    case Number::kUint64:
      return row_reduction_of<uint64_t>(how);
    default:
      return nullptr;
  }
}

}  // namespace

void fill_elements(Simd* table) {
  table->integer_tile = integer_tile;
  table->cast_tile = cast_tile;
  table->where_tile = where_tile;
  table->row_reduction = row_reduction;
  table->quantizer = quantizer;
}

}  // namespace ephost::cpu::EPHOST_ISA
