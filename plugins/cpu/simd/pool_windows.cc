// Pooling of float32 whose rows lie in one piece.
#include <type_traits>

#include "cpu/simd/simd.h"
#include "cpu/simd/vectors.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

struct Largest {  // NaN if there is one.
  static constexpr float kNone = -__builtin_inff();
  template <typename T>
  static T of(T a, T b) {
    const T larger = a > b ? a : b;
    return a != a ? a : larger;
  }
};
struct LargestNumber {  // Of numbers: one instruction, where the test for NaN takes two more.
  static float of(float a, float b) { return a > b ? a : b; }
  static Vector of(const Vector& a, const Vector& b) {
#ifdef __AVX2__
    return _mm256_max_ps(a, b);
#else
    return a > b ? a : b;
#endif
  }
};
struct Sum {
  static constexpr float kNone = 0;
  template <typename T>
  static T of(T a, T b) {
    return a + b;
  }
};

// Calls part(i) for parts of eight that cover [0, n); the last one may have elements in common with the one
// before. Where n is less than eight it returns false.
template <typename Part>
inline bool by_eight(int64_t n, const Part& part) {
  if (n < kLanes) return false;
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) part(i);
  if (n % kLanes != 0) part(n - kLanes);
  return true;
}

// Returns whether it knows all elements to be numbers.
template <typename Of>
bool rows(const float* const* x, int64_t count, int64_t n, float* y) {
  if (count == 0) {
    for (int64_t i = 0; i < n; ++i) y[i] = Of::kNone;
    return true;
  }
  const bool done = by_eight(n, [&](int64_t i) {
    Vector all = load(x[0] + i);
    for (int64_t r = 1; r < count; ++r) all = Of::of(all, load(x[r] + i));
    store(y + i, all);
  });
  for (int64_t i = 0; i < n && !done; ++i) {
    float all = x[0][i];
    for (int64_t r = 1; r < count; ++r) all = Of::of(all, x[r][i]);
    y[i] = all;
  }
  return false;
}

// The sum of all tells whether there is a NaN; infinities of both signs make one, too, which costs the time
// of the other way and nothing else.
bool largest_of_rows(const float* const* x, int64_t count, int64_t n, float* y) {
  Vector sums = {};
  const bool done = count > 0 && by_eight(n, [&](int64_t i) {
                      Vector all = load(x[0] + i), sum = all;
                      for (int64_t r = 1; r < count; ++r) {
                        const Vector row = load(x[r] + i);
                        all = LargestNumber::of(all, row);
                        sum += row;
                      }
                      sums += sum;
                      store(y + i, all);
                    });
  float total = 0;
  for (int64_t l = 0; l < kLanes; ++l) total += sums[l];
  return done && total == total ? true : rows<Largest>(x, count, n, y);
}

// Every kStride-th of what lies at x; 0: every stride-th.
template <int kStride>
inline Vector load_every(const float* x, int64_t stride) {
  if constexpr (kStride == 1) {
    return load(x);
  } else if constexpr (kStride == 2) {
    return __builtin_shufflevector(load(x), load(x + kLanes), 0, 2, 4, 6, 8, 10, 12, 14);
  } else {
    Vector v;
    for (int64_t l = 0; l < kLanes; ++l) v[l] = x[l * stride];
    return v;
  }
}

template <typename Of, int kStride>
void windows(const PoolRow& row) {
  const auto eight = [&](int64_t o) {
    const float* x = row.x + o * row.stride;
    Vector all = load_every<kStride>(x, row.stride);
    for (int64_t k = 1; k < row.kernel; ++k) {
      all = Of::of(all, load_every<kStride>(x + k * row.dilation, row.stride));
    }
    return all;
  };
  if (row.taps == nullptr) {
    if (by_eight(row.n, [&](int64_t o) { store(row.y + o, eight(o)); })) return;
  } else {
    if (by_eight(row.n, [&](int64_t o) { store(row.y + o, eight(o) / (load(row.taps + o) * row.lines)); }))
      return;
  }
  const Vector all = eight(0);
  for (int64_t o = 0; o < row.n; ++o) {
    row.y[o] = row.taps == nullptr ? all[o] : all[o] / (row.taps[o] * row.lines);
  }
}

template <typename Of>
void pool_row(const PoolRow& row) {
  if constexpr (std::is_same_v<Of, Largest>) {
    if (row.numbers) return pool_row<LargestNumber>(row);
  }
  return row.stride == 1 ? windows<Of, 1>(row) : row.stride == 2 ? windows<Of, 2>(row) : windows<Of, 0>(row);
}

}  // namespace

void fill_pool(Simd* table) {
  table->pool_rows[kPoolMax] = largest_of_rows;
  table->pool_rows[kPoolMean] = rows<Sum>;
  table->pool_windows[kPoolMax] = pool_row<Largest>;
  table->pool_windows[kPoolMean] = pool_row<Sum>;
}

}  // namespace ephost::cpu::EPHOST_ISA
