// Rows that become columns.
#ifndef EPHOST_CPU_SIMD_TURNED_H_
#define EPHOST_CPU_SIMD_TURNED_H_

#include <cstdint>

namespace ephost::cpu::EPHOST_ISA {
namespace {

// Eight lines of eight floats, turned: line i's element j becomes line j's element i.
inline void turn_eight(const float* from, int64_t step, float* to, int64_t to_step) {
  typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
  Eight lines[8], pairs[8], fours[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) lines[i] = *reinterpret_cast<const Eight*>(from + i * step);
    // Of lines 2i and 2i + 1, then of four, then of eight.
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = __builtin_shufflevector(lines[i], lines[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(lines[i], lines[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int at = i / 2 * 4 + i % 2;
    fours[i * 2] = __builtin_shufflevector(pairs[at], pairs[at + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    fours[i * 2 + 1] = __builtin_shufflevector(pairs[at], pairs[at + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<Eight*>(to + i * to_step) =
        __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<Eight*>(to + (i + 4) * to_step) =
        __builtin_shufflevector(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

}  // namespace
}  // namespace ephost::cpu::EPHOST_ISA

#endif
