// Keys or values of earlier runs as numbers of a few bits.
#ifndef EPHOST_CPU_ENGINES_CACHE_CODES_H_
#define EPHOST_CPU_ENGINES_CACHE_CODES_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpu/simd/simd.h"

namespace ephost::cpu {

// How a row of channels lies in a cache: as float32, as signed bytes, or two channels to a byte, the first in
// its lower half, 8 more than they are.
struct CacheCodes {
  int64_t bits = 32;        // 32, 8 or 4.
  bool by_channel = false;  // Each channel of each head has a scale, and not one all of them.

  int64_t bytes(int64_t channels) const { return channels * bits / 8; }
  int64_t scales(int64_t heads, int64_t channels) const { return by_channel ? heads * channels : 1; }
  // Those of a head's channels.
  const float* of_head(const float* scales, int64_t head, int64_t channels) const {
    return by_channel ? scales + head * channels : scales;
  }

  // Rounded to the nearest, ties to even; what is not a number becomes the least.
  void encode(const float* row, const float* scales, int64_t channels, uint8_t* to) const {
    if (bits == 32) {
      std::memcpy(to, row, static_cast<size_t>(channels) * sizeof(float));
      return;
    }
    const float low = bits == 8 ? -128 : -8, high = bits == 8 ? 127 : 7;
    const int step = by_channel ? 1 : 0;
    const auto code = [&](int64_t c) {
      const float exact = row[c] / scales[step * c];
      return static_cast<int>(std::lrint(exact > low ? (exact < high ? exact : high) : low));
    };
    if (bits == 8) {
      for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<uint8_t>(code(c));
    } else {
      for (int64_t c = 0; c < channels; c += 2) {
        to[c / 2] = static_cast<uint8_t>((code(c) + 8) | (code(c + 1) + 8) << 4);
      }
    }
  }

  // Rows that follow each other.
  void decode(const uint8_t* from, const float* scales, int64_t rows, int64_t channels, float* to) const {
    if (bits == 32) {
      std::memcpy(to, from, static_cast<size_t>(rows * channels) * sizeof(float));
      return;
    }
    const Bytewise& table = simd().bytes;
    const auto decode = bits == 8 ? table.decode : table.decode_halves;
    decode(from, rows, channels, scales, by_channel ? 1 : 0, to);
  }
};

}  // namespace ephost::cpu

#endif
