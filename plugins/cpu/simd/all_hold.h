// Whether something holds for all elements of a tile.
#ifndef EPHOST_CPU_SIMD_ALL_HOLD_H_
#define EPHOST_CPU_SIMD_ALL_HOLD_H_

#include <stdint.h>

namespace ephost::cpu::EPHOST_ISA {
namespace {

template <int bytes>
struct WordOf {
  using Type = uint64_t;
};
template <>
struct WordOf<1> {
  using Type = uint8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};

// Whether test(i) holds for all i < n, noted in a number as wide as the elements that it looks at: only so
// does it become vector code.
template <typename T, typename Test>
inline bool all_hold(int64_t n, const Test& test) {
  typename WordOf<sizeof(T)>::Type fails = 0;
  for (int64_t i = 0; i < n; ++i) fails |= test(i) ? 0 : 1;
  return fails == 0;
}

}  // namespace
}  // namespace ephost::cpu::EPHOST_ISA

#endif
