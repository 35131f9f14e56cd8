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

// All eight combined.
template <typename F>
inline float across(Vector v) {
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
  if (n >= kLanes) {
    Vector a = map(load(x));
    i = kLanes;
    if (n >= 4 * kLanes) {
      Vector b = map(load(x + kLanes)), c = map(load(x + 2 * kLanes)), d = map(load(x + 3 * kLanes));
      for (i = 4 * kLanes; i + 4 * kLanes <= n; i += 4 * kLanes) {
        a = F::of(a, map(load(x + i)));
        b = F::of(b, map(load(x + i + kLanes)));
        c = F::of(c, map(load(x + i + 2 * kLanes)));
        d = F::of(d, map(load(x + i + 3 * kLanes)));
      }
      a = F::of(F::of(a, b), F::of(c, d));
    }
    for (; i + kLanes <= n; i += kLanes) a = F::of(a, map(load(x + i)));
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
  const float most = reduce<Greatest>(scores, n, -__builtin_inff(), [](auto v) { return v; });
  if (log) {
    float sum = 0;
    float part[256];
    for (int64_t i = 0; i < n; i += 256) {
      const int64_t m = n - i < 256 ? n - i : 256;
      for (int64_t k = 0; k < m; ++k) part[k] = exp_of_negative(scores[i + k] - most);
      sum += reduce<Sum>(part, m, 0, [](auto v) { return v; });
    }
    // Not by one number: added to a large score the logarithm is lost.
    const float shift = __builtin_logf(sum);
    EPHOST_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = (scores[i] - most) - shift;
    return;
  }
  EPHOST_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = exp_of_negative(scores[i] - most);
  const float factor = 1 / reduce<Sum>(y, n, 0, [](auto v) { return v; });
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
