// Rows of float32: reductions, softmax, normalisation.
#include "cpu/simd/simd.h"

#include "cpu/simd/formulas.h"
#include "cpu/simd/independent.h"
#include "cpu/simd/vectors.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

struct Sum {
  template <typename T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <typename T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct Greatest {  // NaN if there is one.
  template <typename T>
  static T of(T a, T b) {
    const T greater = a > b ? a : b;
    return a != a ? a : greater;
  }
};
struct Least {
  template <typename T>
  static T of(T a, T b) {
    const T less = a < b ? a : b;
    return a != a ? a : less;
  }
};

// As many numbers as the largest registers have.
#ifdef __AVX512F__
constexpr int64_t kWide = 16;
#else
constexpr int64_t kWide = kLanes;
#endif
typedef float WideVector __attribute__((vector_size(kWide * 4)));
typedef float UnalignedWideVector __attribute__((vector_size(kWide * 4), aligned(4), may_alias));
typedef int32_t WideIntegers __attribute__((vector_size(kWide * 4)));

inline WideVector load_wide(const float* from) { return *reinterpret_cast<const UnalignedWideVector*>(from); }
inline void store_wide(float* to, const WideVector& v) { *reinterpret_cast<UnalignedWideVector*>(to) = v; }

// All of them combined.
template <typename F>
inline float across(const WideVector& wide) {
#ifdef __AVX512F__
  Vector v = F::of(__builtin_shufflevector(wide, wide, 0, 1, 2, 3, 4, 5, 6, 7),
                   __builtin_shufflevector(wide, wide, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  Vector v = wide;
#endif
  v = F::of(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = F::of(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  v = F::of(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
  return v[0];
}

// Combines `start` with map(x[0]), map(x[1]), ... in four strands, so that no addition waits for the last
// one.
template <typename F, typename Map>
inline float reduce(const float* x, int64_t n, float start, const Map& map) {
  float result = start;
  int64_t i = 0;
  if (n >= kWide) {
    WideVector a = map(load_wide(x));
    i = kWide;
    if (n >= 4 * kWide) {
      WideVector b = map(load_wide(x + kWide)), c = map(load_wide(x + 2 * kWide)),
                 d = map(load_wide(x + 3 * kWide));
      for (i = 4 * kWide; i + 4 * kWide <= n; i += 4 * kWide) {
        a = F::of(a, map(load_wide(x + i)));
        b = F::of(b, map(load_wide(x + i + kWide)));
        c = F::of(c, map(load_wide(x + i + 2 * kWide)));
        d = F::of(d, map(load_wide(x + i + 3 * kWide)));
      }
      a = F::of(F::of(a, b), F::of(c, d));
    }
    for (; i + kWide <= n; i += kWide) a = F::of(a, map(load_wide(x + i)));
    result = F::of(result, across<F>(a));
  }
  for (; i < n; ++i) result = F::of(result, map(x[i]));
  return result;
}

template <typename F>
float reduce_row(const float* x, int64_t n, float start) {
  return reduce<F>(x, n, start, [](auto v) { return v; });
}

// A bit for each of eight numbers that is equal to `value`.
inline unsigned equal_bits(const float* x, float value) {
#ifdef __AVX2__
  return static_cast<unsigned>(
      _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_set1_ps(value), _CMP_EQ_OQ)));
#else
  unsigned bits = 0;
  for (int k = 0; k < kLanes; ++k) bits |= static_cast<unsigned>(x[k] == value) << k;
  return bits;
#endif
}

int64_t find(const float* x, int64_t n, float value, bool last) {
  int64_t i = 0;
  if (value != value) {
    while (x[i] == x[i]) ++i;
  } else if (last) {
    for (i = n; i >= kLanes; i -= kLanes) {
      const unsigned bits = equal_bits(x + i - kLanes, value);
      if (bits != 0) return i - 1 - (__builtin_clz(bits) - (32 - kLanes));
    }
    for (--i; x[i] != value;) --i;
  } else {
    for (; i + kLanes <= n; i += kLanes) {
      const unsigned bits = equal_bits(x + i, value);
      if (bits != 0) return i + __builtin_ctz(bits);
    }
    while (x[i] != value) ++i;
  }
  return i;
}

float sum_of_squares(const float* x, int64_t n, float mean) {
  return reduce<Sum>(x, n, 0, [mean](auto v) { return (v - mean) * (v - mean); });
}

// Passes over NaN: what is made of it afterwards is NaN anyway.
struct Greater {
  template <typename T>
  static T of(T a, T b) {
    return a > b ? a : b;
  }
};

// exp_of_negative of a register.
inline WideVector exp_of_negatives(WideVector x) {
  constexpr float kMagic = 12582912.0f;
  x = x < -88.0f ? WideVector{} - 88.0f : x;
  const WideVector n = (x * 1.44269504f + kMagic) - kMagic;
  const WideVector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  WideVector q = r * 1.3951717e-3f + 8.3695985e-3f;
  q = q * r + 4.16661873e-2f;
  q = q * r + 1.66665122e-1f;
  q = q * r + 0.5f;
  const WideIntegers exponent = (__builtin_convertvector(n, WideIntegers) + 127) << 23;
  return ((q * r + 1.0f) * r + 1.0f) * reinterpret_cast<WideVector>(exponent);
}

// The sum of exp(x - most), each of which is written to y unless that is null.
template <bool writes>
inline float sum_of_powers(const float* x, int64_t n, float most, float* y) {
  WideVector sums[2] = {};
  int64_t i = 0;
  for (; i + 2 * kWide <= n; i += 2 * kWide) {
    const WideVector a = exp_of_negatives(load_wide(x + i) - most),
                     b = exp_of_negatives(load_wide(x + i + kWide) - most);
    sums[0] += a;
    sums[1] += b;
    if (writes) {
      store_wide(y + i, a);
      store_wide(y + i + kWide, b);
    }
  }
  float sum = across<Sum>(sums[0] + sums[1]);
  for (; i < n; i += kWide) {
    const int64_t left = n - i < kWide ? n - i : kWide;
    float rest[kWide];
    for (int64_t k = 0; k < kWide; ++k) rest[k] = k < left ? x[i + k] : -__builtin_inff();
    store_wide(rest, exp_of_negatives(load_wide(rest) - most));
    for (int64_t k = 0; k < left; ++k) sum += rest[k];
    for (int64_t k = 0; writes && k < left; ++k) y[i + k] = rest[k];
  }
  return sum;
}

void softmax(const float* x, const float* mask, float* y, int64_t n, float scale, bool log) {
  const float* scores = x;
  if (mask != nullptr) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale + mask[i];
    scores = y;
  } else if (scale != 1) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale;
    scores = y;
  }
  const float most = reduce<Greater>(scores, n, -__builtin_inff(), [](auto v) { return v; });
  if (log) {
    // Not by one number: added to a large score the logarithm is lost.
    const float shift = __builtin_logf(sum_of_powers<false>(scores, n, most, nullptr));
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = (scores[i] - most) - shift;
    return;
  }
  const float factor = 1 / sum_of_powers<true>(scores, n, most, y);
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}

void normalize(const float* x, float* y, int64_t n, float mean, float factor, const float* scale,
               const float* bias) {
  if (scale == nullptr) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor;
  } else if (bias == nullptr) {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor * scale[i];
  } else {
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor * scale[i] + bias[i];
  }
}

}  // namespace

void fill_rows(Simd* table) {
  table->reduce[kSum] = reduce_row<Sum>;
  table->reduce[kProduct] = reduce_row<Product>;
  table->reduce[kGreatest] = reduce_row<Greatest>;
  table->reduce[kLeast] = reduce_row<Least>;
  table->find = find;
  table->sum_of_squares = sum_of_squares;
  table->softmax = softmax;
  table->normalize = normalize;
}

}  // namespace ephost::cpu::EPHOST_ISA
