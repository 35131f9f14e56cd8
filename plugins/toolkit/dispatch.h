// From the element types of tensors to those of C++: the one place that switches over them.
#ifndef EPHOST_TOOLKIT_DISPATCH_H_
#define EPHOST_TOOLKIT_DISPATCH_H_

#include <string>
#include <type_traits>

#include "toolkit/half.h"
#include "toolkit/types.h"

namespace ephost {

// The element type that a type of C++ is for; bool is kBool, and kernels may also read it as uint8_t.
template <typename T>
inline constexpr DType dtype_of = DType::kUndefined;
template <>
inline constexpr DType dtype_of<float> = DType::kFloat;
template <>
inline constexpr DType dtype_of<double> = DType::kDouble;
template <>
inline constexpr DType dtype_of<Half> = DType::kFloat16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType dtype_of<int8_t> = DType::kInt8;
template <>
inline constexpr DType dtype_of<int16_t> = DType::kInt16;
template <>
inline constexpr DType dtype_of<int32_t> = DType::kInt32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::kInt64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::kUint8;
template <>
inline constexpr DType dtype_of<uint16_t> = DType::kUint16;
template <>
inline constexpr DType dtype_of<uint32_t> = DType::kUint32;
template <>
inline constexpr DType dtype_of<uint64_t> = DType::kUint64;
template <>
inline constexpr DType dtype_of<bool> = DType::kBool;

// Calls function(T{}) with the one of these types that `type` stands for, and returns what it returns. Each
// call is compiled for all of them: keep what depends on the type small, and go by the size of elements
// (`with_size`) where that is enough. Throws Error for any other type.
template <typename T, typename... Others, typename Function>
auto with_one_of(DType type, Function&& function) {
  if constexpr (sizeof...(Others) == 0) {
    if (type != dtype_of<T>) {
      fail(std::string("a kernel was asked for ") + name_of(type));
    }
    return function(T{});
  } else {
    return type == dtype_of<T> ? function(T{}) : with_one_of<Others...>(type, function);
  }
}

// The same for all types of kAny; bool is uint8_t.
template <typename Function>
auto with_type(DType type, Function&& function) {
  return with_one_of<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                     uint32_t, uint64_t>(type == DType::kBool ? DType::kUint8 : type, function);
}

// The same for floating types, and for integers.
template <typename Function>
auto with_float(DType type, Function&& function) {
  return with_one_of<float, double, Half, BFloat16>(type, function);
}
template <typename Function>
auto with_integer(DType type, Function&& function) {
  return with_one_of<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(type,
                                                                                               function);
}

// Calls function(U{}) with an unsigned type of as many bytes.
template <typename Function>
auto with_size(size_t size, Function&& function) {
  switch (size) {
    case 1:
      return function(uint8_t{});
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

// What arithmetic on elements happens in: float for the halves, otherwise the type itself.
template <typename T>
using arithmetic_t = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// The same with integers as unsigned ones, whose sums and products wrap around.
template <typename T, bool = std::is_integral_v<T>>
struct Wrapping {
  using type = arithmetic_t<T>;
};
template <typename T>
struct Wrapping<T, true> {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
using wrapping_t = typename Wrapping<T>::type;

}  // namespace ephost

#endif
