// Eight numbers at a time, in whatever registers the instruction set has.
#ifndef EPHOST_CPU_SIMD_VECTORS_H_
#define EPHOST_CPU_SIMD_VECTORS_H_

#include <cstdint>
#include <cstring>

namespace ephost::cpu::EPHOST_ISA {
namespace {

constexpr int64_t kLanes = 8;
typedef float Vector __attribute__((vector_size(32)));
typedef float UnalignedVector __attribute__((vector_size(32), aligned(4), may_alias));

// From and to any place that floats lie at.
inline Vector load(const float* from) { return *reinterpret_cast<const UnalignedVector*>(from); }
inline void store(float* to, const Vector& vector) { *reinterpret_cast<UnalignedVector*>(to) = vector; }
// The same for vectors of any width.
template <typename V>
inline V load_as(const float* from) {
  V vector;
  std::memcpy(&vector, from, sizeof(V));
  return vector;
}
template <typename V>
inline void store_as(float* to, const V& vector) {
  std::memcpy(to, &vector, sizeof(V));
}

}  // namespace
}  // namespace ephost::cpu::EPHOST_ISA

#endif
