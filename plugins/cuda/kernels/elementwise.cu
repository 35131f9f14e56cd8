/* Chains of elementwise operators: each operand is read once, the result is written once, what lies between
 * stays in registers. */
#include "kernel.h"

namespace ephost::cuda {

/* Between 0 and 1, or a NaN. */
DEVICE float portion(float v) { return v < 0.0f ? 0.0f : v > 1.0f ? 1.0f : v; }

template <int kWidth>
DEVICE void apply(const ChainStep& step, float (&x)[kWidth], const float (&y)[kWidth],
                  float (&saved)[kWidth]) {
#define EACH(expression)                               \
  _Pragma("unroll") for (int i = 0; i < kWidth; ++i) { \
    const float v = x[i];                              \
    x[i] = (expression);                               \
  }                                                    \
  break
  switch (step.op) {
    case Op::kSave:
#pragma unroll
      for (int i = 0; i < kWidth; ++i) saved[i] = x[i];
      break;
    case Op::kAbs:
      EACH(fabsf(v));
    case Op::kNeg:
      EACH(-v);
    case Op::kExp:
      EACH(expf(v));
    case Op::kLog:
      EACH(logf(v));
    case Op::kSqrt:
      EACH(sqrtf(v));
    case Op::kReciprocal:
      EACH(1.0f / v);
    case Op::kFloor:
      EACH(floorf(v));
    case Op::kCeil:
      EACH(ceilf(v));
    case Op::kRound:
      EACH(rintf(v));
    case Op::kSign:
      EACH(v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : v);
    case Op::kSin:
      EACH(sinf(v));
    case Op::kCos:
      EACH(cosf(v));
    case Op::kErf:
      EACH(erff(v));
    case Op::kTanh:
      EACH(tanhf(v));
    case Op::kSigmoid:
      EACH(1.0f / (1.0f + expf(-v)));
    case Op::kSoftplus:
      EACH(fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v))));
    case Op::kParametricSoftplus:
      EACH(step.a * (fmaxf(step.b * v, 0.0f) + log1pf(expf(-fabsf(step.b * v)))));
    case Op::kSoftsign:
      EACH(v / (1.0f + fabsf(v)));
    case Op::kRelu:
      EACH(v < 0.0f ? 0.0f : v);
    case Op::kLeakyRelu:
      EACH(v >= 0.0f ? v : step.a * v);
    case Op::kElu:
      EACH(v >= 0.0f ? v : step.a * expm1f(v));
    case Op::kSelu:
      EACH(step.b * (v > 0.0f ? v : step.a * expm1f(v)));
    case Op::kCelu:
      EACH(v >= 0.0f ? v : step.a * expm1f(v / step.a));
    case Op::kThresholdedRelu:
      EACH(v > step.a ? v : 0.0f);
    case Op::kShrink:
      EACH(v < -step.b ? v + step.a : v > step.b ? v - step.a : 0.0f);
    case Op::kSwish:
      EACH(v / (1.0f + expf(-step.a * v)));
    case Op::kScaledTanh:
      EACH(step.a * tanhf(step.b * v));
    case Op::kHardSigmoid:
      EACH(portion(step.a * v + step.b));
    case Op::kHardSwish:
      EACH(v * portion(step.a * v + step.b));
    case Op::kMish:
      EACH(v * tanhf(fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v)))));
    case Op::kGelu:
      EACH(0.5f * v * (1.0f + erff(v * 0.70710678118654752f)));
    case Op::kGeluTanh:
      EACH(0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v))));
    case Op::kClip:
      EACH(v < step.a ? step.a : v > step.b ? step.b : v);
    case Op::kAffine:
      EACH(step.a * v + step.b);
    case Op::kAdd:
      EACH(v + y[i]);
    case Op::kSub:
      EACH(step.swapped ? y[i] - v : v - y[i]);
    case Op::kMul:
      EACH(v * y[i]);
    case Op::kDiv:
      EACH(step.swapped ? y[i] / v : v / y[i]);
    case Op::kPow:
      EACH(step.swapped ? powf(y[i], v) : powf(v, y[i]));
    case Op::kMax:
      EACH(v != v || v > y[i] ? v : y[i]); /* a NaN stays */
    case Op::kMin:
      EACH(v != v || v < y[i] ? v : y[i]);
    case Op::kPrelu:
      EACH(v > 0.0f ? v : y[i] * v);
  }
#undef EACH
}

/* kFlat: all operands have the result's shape, or one element. */
template <typename T, int kWidth, bool kFlat>
DEVICE void chain(const ChainArguments& args) {
  const uint32_t number = thread_number();
  if (number >= args.count) {
    return;
  }
  uint32_t place[kMaxRank] = {};
  if constexpr (!kFlat) {
    uint32_t rest = number * kWidth;
#pragma unroll
    for (int d = 0; d < kMaxRank; ++d) {
      if (d < args.rank) {
        const uint32_t next = divide(rest, args.dims[d]);
        place[d] = rest - next * args.dims[d].divisor;
        rest = next;
      }
    }
  }
  const auto fetch = [&](const ChainOperand& operand, float(&to)[kWidth]) {
    const T* data = static_cast<const T*>(operand.data);
    if constexpr (kFlat) {
      if (operand.strides[0] != 0) {
        load<T, kWidth>(data + static_cast<int64_t>(number) * kWidth, to);
        return;
      }
    } else {
      int64_t offset = 0;
#pragma unroll
      for (int d = 0; d < kMaxRank; ++d) {
        if (d < args.rank) offset += static_cast<int64_t>(place[d]) * operand.strides[d];
      }
      data += offset;
      if (kWidth == 1 || operand.strides[0] != 0) {
        load<T, kWidth>(data, to);
        return;
      }
    }
    const float value = to_float(*data);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = value;
  };
  float x[kWidth], y[kWidth], saved[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) saved[i] = 0.0f;
  fetch(args.operands[0], x);
  for (int s = 0; s < args.num_steps; ++s) {
    const ChainStep& step = args.steps[s];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) y[i] = saved[i];
    if (step.op >= Op::kAdd && step.operand != kSaved) {
      fetch(args.operands[step.operand], y);
    }
    apply<kWidth>(step, x, y, saved);
  }
  store<T, kWidth>(static_cast<T*>(args.out) + static_cast<int64_t>(number) * kWidth, x);
}

#define CHAINS(name, T)                                                                                 \
  KERNEL(chain_flat_##name, CONSTANT ChainArguments args) { chain<T, Vector<T>::kWidth, true>(args); }  \
  KERNEL(chain_wide_##name, CONSTANT ChainArguments args) { chain<T, Vector<T>::kWidth, false>(args); } \
  KERNEL(chain_any_##name, CONSTANT ChainArguments args) { chain<T, 1, false>(args); }
/* Of elements of two bytes also by fours: images of 14 x 14 are no multiples of eight. */
#define CHAINS_OF_HALVES(name, T) \
  CHAINS(name, T)                 \
  KERNEL(chain_four_##name, CONSTANT ChainArguments args) { chain<T, 4, false>(args); }

CHAINS(f32, float)
CHAINS_OF_HALVES(f16, half_t)
CHAINS_OF_HALVES(bf16, bf16_t)

}  // namespace ephost::cuda
