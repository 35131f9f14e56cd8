// From the element types of tensors to those of C++.
#ifndef EPHOST_CPU_KERNELS_DISPATCH_H_
#define EPHOST_CPU_KERNELS_DISPATCH_H_

#include "../../compiler/half.h"
#include "../operator.h"

namespace ephost::cpu {

// Calls function(T{}) with the type of C++ for a type of kAny; bool is uint8_t. Each call is compiled for all
// of them: keep what depends on the type small, and go by the size of elements where that is enough.
template <typename Function>
auto with_type(DType type, Function&& function) {
  switch (type) {
    case DType::kFloat:
      return function(float{});
    case DType::kDouble:
      return function(double{});
    case DType::kFloat16:
      return function(Half{});
    case DType::kBFloat16:
      return function(BFloat16{});
    case DType::kInt8:
      return function(int8_t{});
    case DType::kInt16:
      return function(int16_t{});
    case DType::kInt32:
      return function(int32_t{});
    case DType::kInt64:
      return function(int64_t{});
    case DType::kUint8:
    case DType::kBool:
      return function(uint8_t{});
    case DType::kUint16:
      return function(uint16_t{});
    case DType::kUint32:
      return function(uint32_t{});
    case DType::kUint64:
      return function(uint64_t{});
    default:
      fail(std::string("a kernel was asked for ") + name_of(type));
  }
}

// The same for floating types only.
template <typename Function>
auto with_float(DType type, Function&& function) {
  switch (type) {
    case DType::kFloat:
      return function(float{});
    case DType::kDouble:
      return function(double{});
    case DType::kFloat16:
      return function(Half{});
    case DType::kBFloat16:
      return function(BFloat16{});
    default:
      fail(std::string("a kernel was asked for ") + name_of(type));
  }
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
struct Arithmetic {
  using type = T;
};
template <>
struct Arithmetic<Half> {
  using type = float;
};
template <>
struct Arithmetic<BFloat16> {
  using type = float;
};
template <typename T>
using arithmetic_t = typename Arithmetic<T>::type;

}  // namespace ephost::cpu

#endif
