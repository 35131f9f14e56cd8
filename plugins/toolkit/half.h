// float16 and bfloat16 as storage: arithmetic happens in float32.
#ifndef EPHOST_TOOLKIT_HALF_H_
#define EPHOST_TOOLKIT_HALF_H_

#include <bit>
#include <cstdint>

namespace ephost {

struct Half {
  uint16_t bits = 0;

  Half() = default;
  Half(float value) {  // Rounds to nearest, ties to even.
#if defined(__F16C__)
    bits = static_cast<uint16_t>(
        __builtin_ia32_vcvtps2ph((__attribute__((vector_size(16))) float){value, 0, 0, 0}, 0)[0]);
#elif defined(__aarch64__) && defined(__ARM_FP16_FORMAT_IEEE)
    bits = std::bit_cast<uint16_t>(static_cast<__fp16>(value));
#else
    const uint32_t x = std::bit_cast<uint32_t>(value), sign = x >> 16 & 0x8000u, magnitude = x & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) {
      bits = static_cast<uint16_t>(sign | 0x7c00u |
                                   (magnitude > 0x7f800000u ? 0x200u | (magnitude >> 13 & 0x1ffu) : 0));
    } else if (magnitude >= 0x477ff000u) {
      bits = static_cast<uint16_t>(sign | 0x7c00u);
    } else if (magnitude < 0x38800000u) {
      // Too small for a normal: let the addition of 0.5 do the shift and the rounding.
      const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
      bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000u));
    } else {
      bits =
          static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
    }
#endif
  }
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) {
      return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    }
    if (rest < 0x400u) {
      const float value = static_cast<float>(rest) * 0x1p-24f;
      return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
  }
};

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  BFloat16(float value) {  // Rounds to nearest, ties to even; a NaN stays one.
    const uint32_t x = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>((x & 0x7fffffffu) > 0x7f800000u ? (x >> 16 | 0x40u)
                                                                 : (x + 0x7fffu + (x >> 16 & 1u)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

}  // namespace ephost

#endif
