// Pooling of float32 whose rows lie in one piece.
#include <type_traits>

#include "cpu/simd/simd.h"
#include "cpu/simd/vectors.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace ephost::cpu::EPHOST_ISA {
namespace {

// Of so many numbers: as they are computed with, and at any place that floats lie at.
template <int64_t lanes>
struct Registers;
template <>
struct Registers<kLanes> {
  typedef Vector Part;
  typedef UnalignedVector Unaligned;
};
#ifdef __AVX512F__
constexpr int64_t kWide = 16;
template <>
struct Registers<kWide> {
  typedef float Part __attribute__((vector_size(64)));
  typedef float Unaligned __attribute__((vector_size(64), aligned(4), may_alias));
};
#else
constexpr int64_t kWide = kLanes;
#endif

template <int64_t lanes>
using Part = typename Registers<lanes>::Part;
typedef Part<kWide> WideVector;
template <int64_t lanes>
inline Part<lanes> load_part(const float* from) {
  return *reinterpret_cast<const typename Registers<lanes>::Unaligned*>(from);
}
template <int64_t lanes>
inline void store_part(float* to, const Part<lanes>& part) {
  *reinterpret_cast<typename Registers<lanes>::Unaligned*>(to) = part;
}
template <int64_t number>
using Known = std::integral_constant<int64_t, number>;

// So many elements that lie one after the other.
template <int64_t count>
struct Lanes {
  static constexpr int64_t kCount = count;
  static Part<count> load(const float* from) { return load_part<count>(from); }
  static void store(float* to, const Part<count>& part) { store_part<count>(to, part); }
  // The same with others that are this, if there are others.
  static const Part<count>& with_others(const Part<count>& part, float) { return part; }
};
#ifdef __AVX2__
constexpr int32_t kFirst[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1};
// The first n < 8 of eight: others are not read, and count as 0, but are written.
struct First {
  static constexpr int64_t kCount = kLanes;
  explicit First(int64_t n)
      : mask(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(kFirst + kLanes - n))) {}
  Vector load(const float* from) const { return _mm256_maskload_ps(from, mask); }
  static void store(float* to, const Vector& part) { store_part<kLanes>(to, part); }
  Vector with_others(const Vector& part, float others) const {
    return _mm256_blendv_ps(_mm256_set1_ps(others), part, _mm256_castsi256_ps(mask));
  }
  __m256i mask;
};
#endif

struct Largest {  // NaN if there is one.
  static constexpr float kNone = -__builtin_inff();
  template <typename T>
  static T of(T a, T b) {
    const T larger = a > b ? a : b;
    return a != a ? a : larger;
  }
};
struct LargestNumber {  // Of numbers: one instruction, where the test for NaN takes two more.
  static constexpr float kNone = Largest::kNone;
  static float of(float a, float b) { return a > b ? a : b; }
  static Vector of(const Vector& a, const Vector& b) {
#ifdef __AVX2__
    return _mm256_max_ps(a, b);
#else
    return a > b ? a : b;
#endif
  }
#ifdef __AVX512F__
  // GCC 12 warns of what the intrinsic without a mask leaves out.
  static WideVector of(const WideVector& a, const WideVector& b) { return _mm512_maskz_max_ps(0xffff, a, b); }
#endif
};
struct Sum {
  static constexpr float kNone = 0;
  template <typename T>
  static T of(T a, T b) {
    return a + b;
  }
};

// Calls part(i, Lanes or First) for parts that cover [0, n), wide ones where n is as much; the last one may
// have elements in common with the one before. Returns false where n is less than eight, and processors have
// no instruction for that.
template <typename Visit>
inline bool by_parts(int64_t n, const Visit& part) {
  if (n < kLanes) {
#ifdef __AVX2__
    part(0, First(n));
    return true;
#else
    return false;
#endif
  }
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) part(i, Lanes<kWide>{});
  if (i == n) return true;
  if (n - i <= kLanes) {
    part(n - kLanes, Lanes<kLanes>{});
  } else if (n >= kWide) {
    part(n - kWide, Lanes<kWide>{});
  } else {
    part(i, Lanes<kLanes>{});
    part(n - kLanes, Lanes<kLanes>{});
  }
  return true;
}

// Calls visit with a number that is known in advance where it is 2 or 3, as it mostly is: else with 0.
template <typename Visit>
inline void with_known(int64_t number, const Visit& visit) {
  switch (number) {
    case 2:
      return visit(Known<2>{});
    case 3:
      return visit(Known<3>{});
    default:
      return visit(Known<0>{});
  }
}

// Combines the rows under a row of windows. Calls add(part) for parts of the sums of what is combined.
template <typename Of, typename Add>
inline void combine(const PoolRows& rows, const PoolLine& line, float* y, const Add& add) {
  const float* const x = rows.x;
  if (line.count == 0) {
    for (int64_t i = 0; i < rows.width; ++i) y[i] = Of::kNone;
    return;
  }
  with_known(line.count, [&](auto known) {
    const int64_t count = known > 0 ? int64_t{known} : line.count;
    const bool done = by_parts(rows.width, [&](int64_t i, const auto& lanes) {
      auto all = lanes.load(x + line.from[0] + i), sum = all;
      for (int64_t r = 1; r < count; ++r) {
        const auto row = lanes.load(x + line.from[r] + i);
        all = Of::of(all, row);
        sum += row;
      }
      lanes.store(y + i, lanes.with_others(all, Of::kNone));
      add(sum);
    });
    for (int64_t i = 0; i < rows.width && !done; ++i) {
      float all = x[line.from[0] + i], sum = all;
      for (int64_t r = 1; r < count; ++r) {
        all = Of::of(all, x[line.from[r] + i]);
        sum += x[line.from[r] + i];
      }
      y[i] = all;
      add(sum);
    }
  });
}

// Every kStride-th of what lies at x; 0: every stride-th.
template <int64_t lanes, int kStride>
inline Part<lanes> load_every(const float* x, int64_t stride) {
  if constexpr (kStride == 1) {
    return load_part<lanes>(x);
  } else if constexpr (kStride == 2) {
    const auto first = load_part<lanes>(x), second = load_part<lanes>(x + lanes);
    if constexpr (lanes == 8) {
      return __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14);
    } else {
      return __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                                     30);
    }
  } else {
    Part<lanes> v;
    for (int64_t l = 0; l < lanes; ++l) v[l] = x[l * stride];
    return v;
  }
}

// What lies in each window along combined rows.
template <typename Of, int kStride>
void finish(const PoolRows& rows) {
  with_known(rows.kernel, [&](auto known) {
    const int64_t kernel = known > 0 ? int64_t{known} : rows.kernel;
    for (int64_t r = 0; r < rows.count; ++r) {
      const float* const combined = rows.room + r * rows.step;
      float* const y = rows.y + r * rows.n;
      const float taps = rows.lines[r].taps;
      const auto windows = [&](int64_t o, const auto& lanes) {
        constexpr int64_t kCount = std::remove_reference_t<decltype(lanes)>::kCount;
        const float* x = combined + o * rows.stride;
        auto all = load_every<kCount, kStride>(x, rows.stride);
        for (int64_t k = 1; k < kernel; ++k) {
          all = Of::of(all, load_every<kCount, kStride>(x + k * rows.dilation, rows.stride));
        }
        return all;
      };
      // Where eight are written for fewer, the next rows overwrite the others.
      const bool done =
          (rows.count - r) * rows.n < kLanes ? false
          : rows.taps == nullptr
              ? by_parts(rows.n, [&](int64_t o, const auto& lanes) { lanes.store(y + o, windows(o, lanes)); })
              : by_parts(rows.n, [&](int64_t o, const auto& lanes) {
                  lanes.store(y + o, windows(o, lanes) / (lanes.load(rows.taps + o) * taps));
                });
      if (done) continue;
      const Vector all = windows(0, Lanes<kLanes>{});
      for (int64_t o = 0; o < rows.n; ++o)
        y[o] = rows.taps == nullptr ? all[o] : all[o] / (rows.taps[o] * taps);
    }
  });
}

template <typename Of>
void finish(const PoolRows& rows) {
  return rows.stride == 1   ? finish<Of, 1>(rows)
         : rows.stride == 2 ? finish<Of, 2>(rows)
                            : finish<Of, 0>(rows);
}

template <typename Of>
void pool(const PoolRows& rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    combine<Of>(rows, rows.lines[r], rows.room + r * rows.step + rows.begin, [](const auto&) {});
  }
  finish<Of>(rows);
}

inline bool all_numbers(const Vector& v) {
#ifdef __AVX2__
  return _mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)) == 0;
#else
  float sum = 0;
  for (int64_t l = 0; l < kLanes; ++l) sum += v[l];
  return sum == sum;
#endif
}
#ifdef __AVX512F__
inline bool all_numbers(const WideVector& v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) == 0; }
#endif

// The sum of all tells whether there is a NaN; infinities of both signs make one, too, which costs the time
// of the other way and nothing else.
void pool_largest(const PoolRows& rows) {
  WideVector wide_sums = {};
  Vector sums = {};
  float total = 0;
  for (int64_t r = 0; r < rows.count; ++r) {
    combine<LargestNumber>(rows, rows.lines[r], rows.room + r * rows.step + rows.begin, [&](const auto& sum) {
      if constexpr (sizeof sum == sizeof wide_sums) {
        wide_sums += sum;
      } else if constexpr (sizeof sum == sizeof sums) {
        sums += sum;
      } else {
        total += sum;
      }
    });
  }
  const bool is_number = total == total && all_numbers(sums) && all_numbers(wide_sums);
  is_number ? finish<LargestNumber>(rows) : pool<Largest>(rows);
}

}  // namespace

void fill_pool(Simd* table) {
  table->pool[kPoolMax] = pool_largest;
  table->pool[kPoolMean] = pool<Sum>;
}

}  // namespace ephost::cpu::EPHOST_ISA
