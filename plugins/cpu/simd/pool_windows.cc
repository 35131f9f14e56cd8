// Pooling of float32 whose rows lie in one piece.
#include "cpu/simd/simd.h"
#include "cpu/simd/vectors.h"

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

template <typename Of>
void rows(const float* const* x, int64_t count, int64_t n, float* y) {
  if (count == 0) {
    for (int64_t i = 0; i < n; ++i) y[i] = Of::kNone;
    return;
  }
  const bool done = by_eight(n, [&](int64_t i) {
    Vector all = load(x[0] + i);
    for (int64_t r = 1; r < count; ++r) all = Of::of(all, load(x[r] + i));
    store(y + i, all);
  });
  if (done) return;
  for (int64_t i = 0; i < n; ++i) {
    float all = x[0][i];
    for (int64_t r = 1; r < count; ++r) all = Of::of(all, x[r][i]);
    y[i] = all;
  }
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
  return row.stride == 1 ? windows<Of, 1>(row) : row.stride == 2 ? windows<Of, 2>(row) : windows<Of, 0>(row);
}

}  // namespace

void fill_pool(Simd* table) {
  table->pool_rows[kPoolMax] = rows<Largest>;
  table->pool_rows[kPoolMean] = rows<Sum>;
  table->pool_windows[kPoolMax] = pool_row<Largest>;
  table->pool_windows[kPoolMean] = pool_row<Sum>;
}

}  // namespace ephost::cpu::EPHOST_ISA
