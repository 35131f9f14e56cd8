// What the elementwise operations compute, for float and double. Included by sources that are compiled for
// several instruction sets, hence the namespace, and written so that the compiler can make vector code of it:
// no calls where speed matters, and choices between values only.
//
// The float functions have relative errors below 1e-6 (erf, tanh, expm1: also near zero). The polynomials are
// minimax fits, weighted so that the error is relative to the result. The double functions that are computed
// here err by a few units in the last place.
#ifndef EPHOST_ISA
#error "EPHOST_ISA must be a name of the instruction set"
#endif

#include <math.h>
#include <stdint.h>

#include "cpu/simd/all_hold.h"
#include "cpu/simd/independent.h"

namespace ephost::cpu::EPHOST_ISA {

static inline float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
static inline uint32_t to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }

// Splits x into k ln 2 + r, |r| <= ln(2) / 2; x must be finite and |x| < 1e4 or so.
static inline float exp_split(float x, int32_t* k) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer.
  const float n = (x * 1.44269504f + kMagic) - kMagic;
  *k = static_cast<int32_t>(n);
  const float r = x - n * 0.693359375f;  // ln 2 in two parts; the product with the first is exact.
  return r + n * 2.12194440e-4f;
}
// (exp(r) - 1 - r) / r^2 for such an r.
static inline float exp_rest(float r) {
  float q = 1.3951717e-3f;
  q = q * r + 8.3695985e-3f;
  q = q * r + 4.16661873e-2f;
  q = q * r + 1.66665122e-1f;
  return q * r + 0.5f;
}
// exp(r) - 1, and k.
static inline float exp_parts(float x, int32_t* k) {
  const float r = exp_split(x, k);
  return r + r * r * exp_rest(r);
}

static inline float exp_of(float x) {
  // Written so that NaN stays: both comparisons are false for it.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  int32_t k;
  const float e = exp_parts(x, &k) + 1.0f;
  // 2^k in two factors: k may be below the normal range, or at its upper end.
  const int32_t half = k >> 1;
  return e * from_bits(static_cast<uint32_t>(half + 127) << 23) *
         from_bits(static_cast<uint32_t>(k - half + 127) << 23);
}

static inline double from_long_bits(uint64_t bits) { return __builtin_bit_cast(double, bits); }

// Splits x as above; |x| < 2000 or so. Two powers of 2, whose product is 2^k: it may be below the normal
// range, or at its upper end.
struct WideParts {
  double e;  // exp(r) - 1
  double one, other;
};
static inline WideParts exp_parts(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  const double moved = x * 1.4426950408889634 + kMagic, n = moved - kMagic;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  // The terms of the series, of which the last is below the rounding of the first.
  double q = 1.6059043836821613e-10;
  q = q * r + 2.08767569878681e-09;
  q = q * r + 2.505210838544172e-08;
  q = q * r + 2.755731922398589e-07;
  q = q * r + 2.7557319223985893e-06;
  q = q * r + 2.48015873015873e-05;
  q = q * r + 1.984126984126984e-04;
  q = q * r + 1.3888888888888889e-03;
  q = q * r + 8.333333333333333e-03;
  q = q * r + 4.1666666666666664e-02;
  q = q * r + 1.6666666666666666e-01;
  q = q * r + 0.5;
  // The lowest bits of `moved` are k.
  const uint64_t k = __builtin_bit_cast(uint64_t, moved) - __builtin_bit_cast(uint64_t, kMagic) + 4096;
  const uint64_t half = k >> 1;
  return {r + r * r * q, from_long_bits((half - 2048 + 1023) << 52),
          from_long_bits((k - half - 2048 + 1023) << 52)};
}
static inline double exp_of(double x) {
  x = x < -746.0 ? -746.0 : x;
  x = x > 710.0 ? 710.0 : x;
  const WideParts parts = exp_parts(x);
  return (parts.e + 1.0) * parts.one * parts.other;
}

// For what is not above 0, in fewer steps: 0 where the result is no normal number.
static inline float exp_of_negative(float x) {
  x = x < -88.0f ? -88.0f : x;
  int32_t k;
  const float r = exp_split(x, &k);
  return ((exp_rest(r) * r + 1.0f) * r + 1.0f) * from_bits(static_cast<uint32_t>(k + 127) << 23);
}

static inline float expm1_of(float x) {
  x = x < -18.0f ? -18.0f : x;
  x = x > 88.0f ? 88.0f : x;
  int32_t k;
  const float e = exp_parts(x, &k);
  const float scale = from_bits(static_cast<uint32_t>(k + 127) << 23);
  return e * scale + (scale - 1.0f);
}
static inline double expm1_of(double x) {
  x = x < -40.0 ? -40.0 : x;
  x = x > 710.0 ? 710.0 : x;
  const WideParts parts = exp_parts(x);
  return (parts.e * parts.one + (parts.one - 1.0 / parts.other)) * parts.other;
}

static inline float log_of(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float normal = tiny ? x * 8388608.0f : x;
  // The mantissa from sqrt(1/2) to sqrt(2), by moving the exponent's border there.
  const uint32_t bits = to_bits(normal) - 0x3f3504f3u;
  const float e = static_cast<float>(static_cast<int32_t>(bits) >> 23) - (tiny ? 23.0f : 0.0f);
  const float f = from_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float q = 6.9153816e-2f;
  q = q * f - 1.17898189e-1f;
  q = q * f + 1.18729763e-1f;
  q = q * f - 1.23843469e-1f;
  q = q * f + 1.42186582e-1f;
  q = q * f - 1.66692510e-1f;
  q = q * f + 2.00022265e-1f;
  q = q * f - 2.49999866e-1f;
  q = q * f + 3.33333105e-1f;
  const float square = f * f;
  float result = e * -2.12194440e-4f + (f * square * q - 0.5f * square);
  result = result + f + e * 0.693359375f;
  result = x == 0.0f ? -__builtin_inff() : result;
  result = x < 0.0f ? __builtin_nanf("") : result;
  return x < __builtin_inff() ? result : x;  // Infinity and NaN are their own logarithms.
}
static inline double log_of(double x) { return ::log(x); }

// log(1 + y) for 0 <= y <= 1.
static inline float log1p_of(float y) {
  const float u = 1.0f + y;
  const float ratio = y / (u == 1.0f ? 1.0f : u - 1.0f);  // What rounding u has lost.
  return u == 1.0f ? y : log_of(u) * ratio;
}
static inline double log1p_of(double y) { return ::log1p(y); }

static inline float copy_sign(float x, float of) {
  return from_bits((to_bits(x) & 0x7fffffffu) | (to_bits(of) & 0x80000000u));
}

static inline double copy_sign(double x, double of) { return __builtin_copysign(x, of); }

static inline float tanh_of(float x) {
  const float t = x * x;
  float p = 1.8081241e-11f;
  p = p * t - 1.2710488e-8f;
  p = p * t + 9.2439377e-6f;
  p = p * t + 2.9182241e-3f;
  p = p * t + 1.2916904e-1f;
  p = p * t + 9.9999995e-1f;
  float q = 2.2774635e-4f;
  q = q * t + 2.3752875e-2f;
  q = q * t + 4.6250189e-1f;
  q = q * t + 1.0f;
  const float magnitude = __builtin_fabsf(x), quotient = magnitude * p / q;
  // From 9.01 on it is 1 in float, and nowhere is it more.
  return copy_sign(((magnitude > 9.01f) | (quotient > 1.0f)) ? 1.0f : quotient, x);
}
static inline double tanh_of(double x) {
  double magnitude = __builtin_fabs(x);
  magnitude = magnitude > 20.0 ? 20.0 : magnitude;
  const double e = expm1_of(2.0 * magnitude);
  return copy_sign(e / (e + 2.0), x);
}

static inline float erf_of(float x) {
  float c = x > 3.95f ? 3.95f : x;
  c = c < -3.95f ? -3.95f : c;
  const float t = c * c;
  float p = 2.02601154e-6f;
  p = p * t + 2.84680224e-4f;
  p = p * t + 3.80772725e-3f;
  p = p * t + 5.28740883e-2f;
  p = p * t + 1.91539854e-1f;
  p = p * t + 1.12837911f;
  float q = 3.78324985e-5f;
  q = q * t + 1.17062533e-3f;
  q = q * t + 1.50542082e-2f;
  q = q * t + 1.14555322e-1f;
  q = q * t + 5.03080428e-1f;
  q = q * t + 1.0f;
  const float quotient = __builtin_fabsf(c * p / q), within = quotient > 1.0f ? 1.0f : quotient;
  // From 3.92 on it is 1 in float, exactly so: what GELU makes of it must be zero. Nowhere is it more.
  return copy_sign(__builtin_fabsf(x) > 3.92f ? 1.0f : within, x);
}
static inline double erf_of(double x) { return ::erf(x); }

// 1 + exp(-x), in fewer steps than exp_of takes: where the power has no normal number it is 0 or infinite.
static inline float one_and_exp_of_minus(float x) {
  x = x > 88.0f ? 88.0f : x;
  x = x < -89.0f ? -89.0f : x;
  int32_t k;
  const float r = exp_split(-x, &k), e = (exp_rest(r) * r + 1.0f) * r + 1.0f;
  return 1.0f + e * from_bits(static_cast<uint32_t>(k + 127) << 23);
}
static inline double one_and_exp_of_minus(double x) { return 1.0 + exp_of(-x); }

template <typename T>
static inline T sigmoid_of(T x) {
  return T(1) / one_and_exp_of_minus(x);
}

static inline float abs_of(float x) { return __builtin_fabsf(x); }
static inline double abs_of(double x) { return __builtin_fabs(x); }

template <typename T>
static inline T softplus_of(T x) {
  return (x > 0 ? x : x < 0 ? T(0) : x) + log1p_of(exp_of(-abs_of(x)));
}

template <typename T>
static inline T mish_of(T x) {
  // tanh(log(1 + e^x)) = (e^2 + 2 e) / (e^2 + 2 e + 2).
  const T e = exp_of(x > 20 ? T(20) : x), s = e * (e + 2);
  return x * (s / (s + 2));
}

template <typename T>
static inline T gelu_tanh_of(T x) {
  return T(0.5) * x * (1 + tanh_of(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
}

static inline float sqrt_of(float x) { return __builtin_sqrtf(x); }
static inline double sqrt_of(double x) { return __builtin_sqrt(x); }
#define EPHOST_LIBM(name, function)                                             \
  static inline float name##_of(float x) { return __builtin_##function##f(x); } \
  static inline double name##_of(double x) { return __builtin_##function(x); }
EPHOST_LIBM(floor, floor)
EPHOST_LIBM(ceil, ceil)
EPHOST_LIBM(round, rint)
#ifdef __MINGW32__
// MinGW's own are the processor's fsin and fcos: they leave very large angles as they are, and have fewer
// right digits the larger an angle is. These are pointers to Windows', as its linker calls them.
extern "C" double (*const windows_sin)(double) __asm__("__imp_sin");
extern "C" double (*const windows_cos)(double) __asm__("__imp_cos");
template <typename T>
static inline T sin_of(T x) {
  return static_cast<T>(windows_sin(static_cast<double>(x)));
}
template <typename T>
static inline T cos_of(T x) {
  return static_cast<T>(windows_cos(static_cast<double>(x)));
}
#else
EPHOST_LIBM(sin, sin)
EPHOST_LIBM(cos, cos)
#endif
EPHOST_LIBM(tan, tan)
EPHOST_LIBM(sinh, sinh)
EPHOST_LIBM(cosh, cosh)
EPHOST_LIBM(asinh, asinh)
EPHOST_LIBM(acosh, acosh)
EPHOST_LIBM(atanh, atanh)
#undef EPHOST_LIBM

// (asin(r) - r) / r^3 for z = r^2 <= 1/4.
static inline float asin_rest(float z) {
  float q = 4.2218566e-2f;
  q = q * z + 2.4147602e-2f;
  q = q * z + 4.5477100e-2f;
  q = q * z + 7.4952416e-2f;
  return q * z + 1.66667536e-1f;
}
// asin(r) for r <= 1/2, else asin(sqrt((1 - r) / 2)), which is half of what is missing to a quarter turn; of
// r = |x|.
static inline float asin_parts(float r) {
  const float z = r > 0.5f ? 0.5f - 0.5f * r : r * r;
  const float root = r > 0.5f ? sqrt_of(z) : r;
  return root + root * z * asin_rest(z);
}
static inline float asin_of(float x) {
  const float r = abs_of(x), part = asin_parts(r);
  return copy_sign(r > 0.5f ? 1.57079633f - 2.0f * part : part, x);
}
static inline double asin_of(double x) { return __builtin_asin(x); }
static inline float acos_of(float x) {
  const float r = abs_of(x), part = asin_parts(r);
  const float outer = x < 0.0f ? 3.14159265f - 2.0f * part : 2.0f * part;
  return r > 0.5f ? outer : 1.57079633f - copy_sign(part, x);
}
static inline double acos_of(double x) { return __builtin_acos(x); }

static inline float atan_of(float x) {
  // Of angles of up to an eighth turn; what is larger is that far from a quarter or a half of it.
  const float t = abs_of(x);
  const bool large = t > 2.41421356f, middle = t > 0.414213562f;
  const float above = large ? -1.0f : middle ? t - 1.0f : t, below = large ? t : middle ? t + 1.0f : 1.0f;
  const float r = above / below, z = r * r;
  float q = 8.0603078e-2f;
  q = q * z - 1.38798490e-1f;
  q = q * z + 1.99779257e-1f;
  q = q * z - 3.33329558e-1f;
  const float from = large ? 1.57079633f : middle ? 0.785398163f : 0.0f;
  return copy_sign(from + (r + r * z * q), x);
}
static inline double atan_of(double x) { return __builtin_atan(x); }

// Up to here an angle's quarters have few enough digits that a double holds what is left exactly enough.
constexpr float kMostAngle = 1e6f;

// sin(x + quarters * pi / 2) for |x| <= kMostAngle.
static inline float sin_of_small(float x, int32_t quarters) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer.
  const double wide = static_cast<double>(x), n = (wide * 0.63661977236758134 + kMagic) - kMagic;
  // pi / 2 in two parts; the product with the first is exact.
  const float r = static_cast<float>((wide - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11);
  const uint32_t quarter = static_cast<uint32_t>(static_cast<int32_t>(n) + quarters);
  const float z = r * r;
  const float sine = r + r * z * ((-1.9515218e-4f * z + 8.3321603e-3f) * z - 1.66666552e-1f);
  const float cosine = z * z * ((2.4433082e-5f * z - 1.38873153e-3f) * z + 4.16666456e-2f) - 0.5f * z + 1.0f;
  const float one = (quarter & 1u) != 0 ? cosine : sine;
  return from_bits(to_bits(one) ^ (quarter & 2u) << 30);
}

// The same for |x| <= kMostWideAngle, with pi / 2 in three parts.
constexpr double kMostWideAngle = 1e5;
static inline double sin_of_small(double x, int32_t quarters) {
  constexpr double kMagic = 6755399441055744.0;
  const double moved = x * 0.63661977236758134 + kMagic, n = moved - kMagic;
  const double r =
      ((x - n * 1.57079632673412561417) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21;
  const uint64_t quarter =
      __builtin_bit_cast(uint64_t, moved) + static_cast<uint64_t>(static_cast<int64_t>(quarters));
  const double z = r * r;
  double s = -7.647163731819816e-13;
  s = s * z + 1.6059043836821613e-10;
  s = s * z - 2.505210838544172e-08;
  s = s * z + 2.7557319223985893e-06;
  s = s * z - 1.984126984126984e-04;
  s = s * z + 8.333333333333333e-03;
  s = s * z - 1.6666666666666666e-01;
  double c = 4.779477332387385e-14;
  c = c * z - 1.1470745597729725e-11;
  c = c * z + 2.08767569878681e-09;
  c = c * z - 2.755731922398589e-07;
  c = c * z + 2.48015873015873e-05;
  c = c * z - 1.3888888888888889e-03;
  c = c * z + 4.1666666666666664e-02;
  const double sine = r + r * z * s, cosine = 1.0 - (0.5 * z - z * z * c);
  const double one = (quarter & 1u) != 0 ? cosine : sine;
  return from_long_bits(__builtin_bit_cast(uint64_t, one) ^ (quarter & 2u) << 62);
}

static inline float pow_of(float x, float y) { return __builtin_powf(x, y); }
static inline double pow_of(double x, double y) { return __builtin_pow(x, y); }
static inline float fmod_of(float x, float y) { return __builtin_fmodf(x, y); }
static inline double fmod_of(double x, double y) { return __builtin_fmod(x, y); }

// The remainder with the divisor's sign.
template <typename T>
static inline T mod_of(T x, T y) {
  const T r = fmod_of(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

struct Clip {  // From a to b; NaN stays.
  template <typename T>
  static inline T of(T x, T a, T b) {
    const T low = x < a ? a : x;
    return low > b ? b : low;
  }
};
#define EPHOST_UNARY(name, formula)                                       \
  struct name {                                                           \
    template <typename T>                                                 \
    static inline T of(T x, [[maybe_unused]] T a, [[maybe_unused]] T b) { \
      return formula;                                                     \
    }                                                                     \
  };
EPHOST_UNARY(Abs, abs_of(x))
EPHOST_UNARY(Neg, -x)
EPHOST_UNARY(Reciprocal, 1 / x)
EPHOST_UNARY(Sqrt, sqrt_of(x))
EPHOST_UNARY(Rsqrt, 1 / sqrt_of(x))
EPHOST_UNARY(Square, x* x)
EPHOST_UNARY(Exp, exp_of(x))
EPHOST_UNARY(Log, log_of(x))
EPHOST_UNARY(Erf, erf_of(x))
EPHOST_UNARY(Tanh, tanh_of(x))
EPHOST_UNARY(Sigmoid, sigmoid_of(x))
EPHOST_UNARY(Relu, x < 0 ? T(0) : x)
EPHOST_UNARY(LeakyRelu, x < 0 ? a * x : x)
EPHOST_UNARY(Elu, x < 0 ? a * expm1_of(x) : x)
EPHOST_UNARY(Celu, x < 0 ? a * expm1_of(x / a) : x)
EPHOST_UNARY(Selu, x < 0 ? b * a * expm1_of(x) : b * x)
EPHOST_UNARY(ThresholdedRelu, x > a ? x : T(0))
EPHOST_UNARY(HardSigmoid, Clip::of(a* x + b, T(0), T(1)))
EPHOST_UNARY(HardSwish, x* Clip::of(a* x + b, T(0), T(1)))
EPHOST_UNARY(Softplus, softplus_of(x))
EPHOST_UNARY(ParametricSoftplus, a* softplus_of(b* x))
EPHOST_UNARY(Softsign, x / (1 + abs_of(x)))
EPHOST_UNARY(Mish, mish_of(x))
EPHOST_UNARY(Shrink, x<-b ? x + a : x> b ? x - a : T(0))  // a: bias, b: lambd.
EPHOST_UNARY(Gelu, T(0.5) * x * (1 + erf_of(x * T(0.7071067811865476))))
EPHOST_UNARY(GeluTanh, gelu_tanh_of(x))
EPHOST_UNARY(Swish, x / one_and_exp_of_minus(a * x))
EPHOST_UNARY(ScaledTanh, a* tanh_of(b* x))
EPHOST_UNARY(Affine, a* x + b)
EPHOST_UNARY(Floor, floor_of(x))
EPHOST_UNARY(Ceil, ceil_of(x))
EPHOST_UNARY(Round, round_of(x))
EPHOST_UNARY(Sign, x > 0 ? T(1) : x < 0 ? T(-1) : x)
EPHOST_UNARY(Sin, sin_of(x))
EPHOST_UNARY(Cos, cos_of(x))
EPHOST_UNARY(Tan, tan_of(x))
EPHOST_UNARY(Asin, asin_of(x))
EPHOST_UNARY(Acos, acos_of(x))
EPHOST_UNARY(Atan, atan_of(x))
EPHOST_UNARY(Sinh, sinh_of(x))
EPHOST_UNARY(Cosh, cosh_of(x))
EPHOST_UNARY(Asinh, asinh_of(x))
EPHOST_UNARY(Acosh, acosh_of(x))
EPHOST_UNARY(Atanh, atanh_of(x))
#undef EPHOST_UNARY

#define EPHOST_BINARY(name, result, formula) \
  struct name {                              \
    template <typename T>                    \
    static inline result of(T x, T y) {      \
      return formula;                        \
    }                                        \
  };
EPHOST_BINARY(Add, T, x + y)
EPHOST_BINARY(Sub, T, x - y)
EPHOST_BINARY(Mul, T, x* y)
EPHOST_BINARY(Div, T, x / y)
EPHOST_BINARY(Min, T, x < y ? x : x != x ? x : y)  // NaN if one of them is.
EPHOST_BINARY(Max, T, x > y ? x : x != x ? x : y)
EPHOST_BINARY(Pow, T, pow_of(x, y))
EPHOST_BINARY(Fmod, T, fmod_of(x, y))
EPHOST_BINARY(Mod, T, mod_of(x, y))
EPHOST_BINARY(Prelu, T, x < 0 ? y * x : x)
EPHOST_BINARY(Equal, bool, x == y)
EPHOST_BINARY(Less, bool, x < y)
EPHOST_BINARY(LessOrEqual, bool, x <= y)
EPHOST_BINARY(Greater, bool, x > y)
EPHOST_BINARY(GreaterOrEqual, bool, x >= y)
#undef EPHOST_BINARY

struct IsNaN {
  template <typename T>
  static inline bool of(T x, T, T) {
    return x != x;
  }
};
struct IsInf {  // a, b: whether minus and plus infinity count.
  template <typename T>
  static inline bool of(T x, T a, T b) {
    constexpr T kInfinity = static_cast<T>(__builtin_inf());
    // All of it, whatever the first half is: only so does it become vector code.
    return ((x == kInfinity) & (b != 0)) | ((x == -kInfinity) & (a != 0));
  }
};

// Tile functions over these. The loops may be run in any order, whatever the pointers.
template <typename F, typename T, typename Result>
static void unary_tile(const void* const* in, void* out, int64_t n, const float* params) {
  const T* x = static_cast<const T*>(in[0]);
  Result* y = static_cast<Result*>(out);
  const T a = static_cast<T>(params[0]), b = static_cast<T>(params[1]);
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = F::of(x[i], a, b);
}

// Sines, whose formula knows angles up to a limit: a tile with larger ones is the library's.
template <typename F, typename T>
static void angle_tile(const void* const* in, void* out, int64_t n, T most, int32_t quarters) {
  const T* x = static_cast<const T*>(in[0]);
  T* y = static_cast<T*>(out);
  if (!all_hold<T>(n, [&](int64_t i) { return abs_of(x[i]) <= most; })) {
    for (int64_t i = 0; i < n; ++i) y[i] = F::of(x[i], T(0), T(0));
    return;
  }
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T sine = sin_of_small(x[i], quarters);
    y[i] = sine == 0 ? x[i] : sine;  // -0 stays: there is no other zero for these angles.
  }
}
#define EPHOST_ANGLES(name, type, most, quarters)                                                 \
  template <>                                                                                     \
  [[maybe_unused]] void unary_tile<name, type, type>(const void* const* in, void* out, int64_t n, \
                                                     const float*) {                              \
    angle_tile<name, type>(in, out, n, most, quarters);                                           \
  }
EPHOST_ANGLES(Sin, float, kMostAngle, 0)
EPHOST_ANGLES(Cos, float, kMostAngle, 1)
EPHOST_ANGLES(Sin, double, kMostWideAngle, 0)
EPHOST_ANGLES(Cos, double, kMostWideAngle, 1)
#undef EPHOST_ANGLES

template <typename F, typename T, typename Result>
static void binary_tile(const void* const* in, void* out, int64_t n, const float*) {
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  Result* z = static_cast<Result*>(out);
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) z[i] = F::of(x[i], y[i]);
}

// Powers of one exponent are often those that take no logarithm.
template <typename T>
static void power_tile(const void* const* in, void* out, int64_t n, const float*) {
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  T* z = static_cast<T*>(out);
  const T exponent = n > 0 ? y[0] : T(0);
  const auto same = [&] { return all_hold<T>(n, [&](int64_t i) { return y[i] == exponent; }); };
  if ((exponent == T(2) || exponent == T(3)) && same()) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) z[i] = exponent == T(2) ? x[i] * x[i] : x[i] * x[i] * x[i];
  } else if (exponent == T(0.5) && same()) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      // Of -0 it is 0, of minus infinity infinite.
      const T root = sqrt_of(x[i]) + T(0);
      z[i] = x[i] == -static_cast<T>(__builtin_inf()) ? -x[i] : root;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) z[i] = pow_of(x[i], y[i]);
  }
}
template <>
[[maybe_unused]] void binary_tile<Pow, float, float>(const void* const* in, void* out, int64_t n,
                                                     const float* params) {
  power_tile<float>(in, out, n, params);
}
template <>
[[maybe_unused]] void binary_tile<Pow, double, double>(const void* const* in, void* out, int64_t n,
                                                       const float* params) {
  power_tile<double>(in, out, n, params);
}

// Remainders of quotients that are small enough for what is taken off x to be exact: then so is what is left,
// but for a quotient that was rounded up to an integer, of which one was too many.
static inline float small_remainder(float x, float y) {
  const double wide = static_cast<double>(x), by = static_cast<double>(y);
  return static_cast<float>(wide - __builtin_trunc(wide / by) * by);
}
#if defined(__FMA__) || defined(__aarch64__)
static inline double small_remainder(double x, double y) {
  return __builtin_fma(-__builtin_trunc(x / y), y, x);
}
constexpr bool kSmallRemainders = true;
#else
static inline double small_remainder(double, double) { return 0; }  // Not asked for.
constexpr bool kSmallRemainders = false;
#endif

template <typename T, bool of_divisor>
static void remainder_tile(const void* const* in, void* out, int64_t n) {
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  T* z = static_cast<T*>(out);
  constexpr T kMost = sizeof(T) == 4 ? T(0x1p29) : T(0x1p52);
  const bool small = (kSmallRemainders || sizeof(T) == 4) && all_hold<T>(n, [&](int64_t i) {
                       const T divisor = abs_of(y[i]);
                       return (abs_of(x[i]) < divisor * kMost) & (divisor < static_cast<T>(__builtin_inf()));
                     });
  if (!small) {
    for (int64_t i = 0; i < n; ++i) z[i] = of_divisor ? mod_of(x[i], y[i]) : fmod_of(x[i], y[i]);
    return;
  }
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T divisor = abs_of(y[i]), rest = small_remainder(abs_of(x[i]), divisor);
    const T settled = copy_sign(rest < 0 ? rest + divisor : rest, x[i]);
    z[i] = (of_divisor & (settled != 0) & ((settled < 0) != (y[i] < 0))) ? settled + y[i] : settled;
  }
}
#define EPHOST_REMAINDER(name, type, of_divisor)                                                   \
  template <>                                                                                      \
  [[maybe_unused]] void binary_tile<name, type, type>(const void* const* in, void* out, int64_t n, \
                                                      const float*) {                              \
    remainder_tile<type, of_divisor>(in, out, n);                                                  \
  }
EPHOST_REMAINDER(Fmod, float, false)
EPHOST_REMAINDER(Fmod, double, false)
EPHOST_REMAINDER(Mod, float, true)
EPHOST_REMAINDER(Mod, double, true)
#undef EPHOST_REMAINDER

// Writes the table of all operations on T, in the order of Op.
template <typename T>
static void fill_ops(TileFunction* table) {
#define X(name, ...) *table++ = unary_tile<name, T, T>;
  EPHOST_UNARY_OPS(X)
#undef X
#define X(name) *table++ = binary_tile<name, T, T>;
  EPHOST_BINARY_OPS(X)
#undef X
#define X(name) *table++ = binary_tile<name, T, bool>;
  EPHOST_COMPARE_OPS(X)
#undef X
#define X(name) *table++ = unary_tile<name, T, bool>;
  EPHOST_TEST_OPS(X)
#undef X
}

}  // namespace ephost::cpu::EPHOST_ISA
