// Rotations of pairs of channels by angles that depend on the place in a sequence.
#ifndef EPHOST_CPU_ENGINES_ROTARY_H_
#define EPHOST_CPU_ENGINES_ROTARY_H_

#include <algorithm>
#include <cstdint>

#include "cpu/simd/independent.h"

namespace ephost::cpu {

// One head of one token: its first 2 * half channels are turned by the angles whose cosines and sines are
// given, the others copied. Pairs are neighbours (interleaved) or half of the turned channels apart. x may be
// y.
inline void rotate(const float* x, float* y, int64_t channels, int64_t half, const float* cosines,
                   const float* sines, bool interleaved) {
  if (interleaved) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < half; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = cosines[i] * a - sines[i] * b;
      y[2 * i + 1] = sines[i] * a + cosines[i] * b;
    }
  } else {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < half; ++i) {
      const float a = x[i], b = x[half + i];
      y[i] = cosines[i] * a - sines[i] * b;
      y[half + i] = sines[i] * a + cosines[i] * b;
    }
  }
  if (x != y) std::copy(x + 2 * half, x + channels, y + 2 * half);
}

}  // namespace ephost::cpu

#endif
