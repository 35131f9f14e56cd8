// Eight numbers at a time, in whatever registers the instruction set has.
#ifndef EPHOST_CPU_SIMD_VECTORS_H_
#define EPHOST_CPU_SIMD_VECTORS_H_

#include <cstdint>

namespace ephost::cpu::EPHOST_ISA {
namespace {

constexpr int64_t kLanes = 8;
typedef float Vector __attribute__((vector_size(32)));
typedef float UnalignedVector __attribute__((vector_size(32), aligned(4), may_alias));

// From and to any place that floats lie at.
inline Vector load(const float* from) { return *reinterpret_cast<const UnalignedVector*>(from); }
inline void store(float* to, const Vector& vector) { *reinterpret_cast<UnalignedVector*>(to) = vector; }

}  // namespace
}  // namespace ephost::cpu::EPHOST_ISA

#endif
