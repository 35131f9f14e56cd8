// Reductions over any axes, running sums, and the places of extremes.
#include <cmath>
#include <limits>

#include "cpu/engines/as_float.h"
#include "cpu/engines/expression.h"
#include "cpu/operator.h"
#include "cpu/simd/independent.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kTile = 1024;

enum Finish : uint8_t { kAsIs, kMean, kRoot, kLogarithm };

// An operator is: combine all map(x), then finish.
struct Kind {
  const char* name;
  Reduction combine;
  Op map;  // kClip stands for none.
  Finish finish;
  bool shifted = false;  // Of exp(x - max): the maximum is found first, and added in the end.
};
constexpr Op kNone = Op::kClip;
constexpr Kind kKinds[] = {
    {"ReduceSum", kSum, kNone, kAsIs},         {"ReduceMean", kSum, kNone, kMean},
    {"ReduceProd", kProduct, kNone, kAsIs},    {"ReduceMax", kGreatest, kNone, kAsIs},
    {"ReduceMin", kLeast, kNone, kAsIs},       {"ReduceL1", kSum, Op::kAbs, kAsIs},
    {"ReduceL2", kSum, Op::kSquare, kRoot},    {"ReduceSumSquare", kSum, Op::kSquare, kAsIs},
    {"ReduceLogSum", kSum, kNone, kLogarithm}, {"ReduceLogSumExp", kSum, Op::kExp, kLogarithm, true},
};

const Kind& kind_of(const Node& node) {
  for (const Kind& kind : kKinds) {
    if (node.type == kind.name) return kind;
  }
  fail(node.label() + " is not a reduction");
}

// The type that a reduction is computed in.
DType computed(DType type, const Kind& kind) {
  switch (type) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return DType::kFloat;
    case DType::kBool:
      return DType::kInt32;
    case DType::kInt8:
    case DType::kUint8:
      return kind.combine >= kGreatest && kind.finish == kAsIs ? type : DType::kInt32;
    default:
      return kFloats.has(type) || kind.finish == kAsIs || kind.finish == kMean ? type : DType::kDouble;
  }
}

template <typename T>
T neutral(Reduction how) {
  using Limits = std::numeric_limits<T>;
  switch (how) {
    case kSum:
      return 0;
    case kProduct:
      return 1;
    case kGreatest:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    default:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
}

constexpr Op op_of(Reduction how) {
  return how == kSum ? Op::kAdd : how == kProduct ? Op::kMul : how == kGreatest ? Op::kMax : Op::kMin;
}

// The input as runs of neighbours, all reduced or all kept, that some loops visit.
struct Loops {
  struct Dim {
    int64_t size, stride;
  };
  std::vector<Dim> kept, reduced;  // Outside of the innermost dimension.
  int64_t inner = 1;               // The size of the innermost dimension, and what becomes of it.
  bool reduce_inner = false;
  int64_t kept_count = 1, reduced_count = 1, total = 1;

  Loops(const Dims& dims, const std::vector<bool>& reduce) {
    struct Run {
      int64_t size;
      bool reduced;
    };
    std::vector<Run> runs;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == 1) continue;
      if (!runs.empty() && runs.back().reduced == reduce[d]) {
        runs.back().size *= dims[d];
      } else {
        runs.push_back({dims[d], reduce[d]});
      }
    }
    if (runs.empty()) runs.push_back({1, true});
    inner = runs.back().size;
    reduce_inner = runs.back().reduced;
    int64_t stride = inner;
    runs.pop_back();
    for (size_t d = runs.size(); d-- > 0;) {
      (runs[d].reduced ? reduced : kept)
          .insert((runs[d].reduced ? reduced : kept).begin(), {runs[d].size, stride});
      (runs[d].reduced ? reduced_count : kept_count) *= runs[d].size;
      stride *= runs[d].size;
    }
    total = reduced_count * (reduce_inner ? inner : 1);
  }
  static int64_t offset(const std::vector<Dim>& dims, int64_t index) {
    if (dims.empty()) return 0;
    int64_t at = 0;
    for (size_t d = dims.size(); d-- > 1;) {
      at += index % dims[d].size * dims[d].stride;
      index /= dims[d].size;
    }
    return at + index * dims[0].stride;
  }
};

template <typename T>
void call(TileFunction function, const void* x, const void* y, T* out, int64_t n, float a = 0, float b = 0) {
  const void* in[3] = {x, y, nullptr};
  const float params[2] = {a, b};
  function(in, out, n, params);
}

// The reduction of a tensor, in the type T.
template <typename T>
struct Reducer {
  Kind kind;
  DType from, compute;
  size_t size;  // Of an element of the input.
  Loops loops;

  // x (converted, mapped), n <= kTile; `shift`: see Kind::shifted, a number or (each = true) one for each.
  const T* load(const char* x, int64_t n, const T* shift, bool each, T* buffer) const {
    const T* values = reinterpret_cast<const T*>(x);
    if (from != compute) {
      call(cast_tile(from, compute), x, nullptr, buffer, n);
      values = buffer;
    }
    if (shift != nullptr) {
      for (int64_t i = 0; i < n; ++i) {
        const T by = each ? shift[i] : *shift;
        buffer[i] = values[i] - (std::isinf(static_cast<double>(by)) ? T{0} : by);
      }
      values = buffer;
    }
    if (kind.map != kNone) {
      call(op_tile(kind.map, compute), values, nullptr, buffer, n);
      values = buffer;
    }
    return values;
  }

  // Reduces everything into out, in memory order of what is kept. `shifts`: see `load`.
  void all(Reduction how, bool mapped, const char* x, T* out, const T* shifts) const {
    Reducer plain = *this;
    plain.kind.map = kNone;
    const Reducer& self = mapped ? *this : plain;
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, loops.total));
    if (loops.reduce_inner) {
      parallel_for(loops.kept_count, grain, [&](int64_t k, int64_t end) {
        if constexpr (std::is_same_v<T, float>) {
          if (from == compute && self.kind.map == kNone && shifts == nullptr && loops.kept.size() <= 1 &&
              loops.reduced.empty()) {  // Rows one after the other, maybe short ones.
            const auto reduce = simd().reduce[how];
            const float* row = reinterpret_cast<const float*>(x) + k * loops.inner;
            for (; k < end; ++k, row += loops.inner) out[k] = reduce(row, loops.inner, neutral<float>(how));
            return;
          }
        }
        alignas(64) T buffer[kTile];
        for (; k < end; ++k) {
          const char* base = x + Loops::offset(loops.kept, k) * static_cast<int64_t>(size);
          T result = neutral<T>(how);
          for (int64_t r = 0; r < loops.reduced_count; ++r) {
            const char* row = base + Loops::offset(loops.reduced, r) * static_cast<int64_t>(size);
            if (self.from == self.compute && self.kind.map == kNone && shifts == nullptr) {
              result = reduce_row(how, reinterpret_cast<const T*>(row), loops.inner, result);
              continue;
            }
            for (int64_t i = 0; i < loops.inner; i += kTile) {
              const int64_t n = std::min(kTile, loops.inner - i);
              const T* values = self.load(row + i * static_cast<int64_t>(size), n,
                                          shifts == nullptr ? nullptr : shifts + k, false, buffer);
              result = reduce_row(how, values, n, result);
            }
          }
          out[k] = result;
        }
      });
      return;
    }
    // What is kept lies innermost: whole tiles of it are combined.
    const int64_t tile = std::min<int64_t>(kTile, loops.inner),
                  tiles = tile == 0 ? 0 : (loops.inner + tile - 1) / tile;
    const TileFunction combine_tile = op_tile(op_of(how), compute);
    parallel_for(loops.kept_count * tiles, std::max<int64_t>(1, grain / std::max<int64_t>(1, tile)),
                 [&](int64_t item, int64_t end) {
                   alignas(64) T buffer[kTile];
                   for (; item < end; ++item) {
                     const int64_t k = item / tiles, start = item % tiles * tile;
                     const int64_t n = std::min(tile, loops.inner - start);
                     const char* base =
                         x + (Loops::offset(loops.kept, k) + start) * static_cast<int64_t>(size);
                     T* to = out + k * loops.inner + start;
                     std::fill(to, to + n, neutral<T>(how));
                     for (int64_t r = 0; r < loops.reduced_count; ++r) {
                       const T* values = self.load(
                           base + Loops::offset(loops.reduced, r) * static_cast<int64_t>(size), n,
                           shifts == nullptr ? nullptr : shifts + k * loops.inner + start, true, buffer);
                       call(combine_tile, to, values, to, n);
                     }
                   }
                 });
  }

  void finish(T* out, int64_t n, const T* shifts) const {
    switch (kind.finish) {
      case kAsIs:
        break;
      case kMean:
        for (int64_t i = 0; i < n; ++i) {
          // Of no elements: NaN where there is such a number.
          out[i] = std::is_floating_point_v<T> || loops.total != 0
                       ? static_cast<T>(out[i] / static_cast<T>(loops.total))
                       : T{0};
        }
        break;
      case kRoot:
      case kLogarithm:
        if constexpr (std::is_floating_point_v<T>) {
          call(op_tile(kind.finish == kRoot ? Op::kSqrt : Op::kLog, compute), out, nullptr, out, n);
          for (int64_t i = 0; i < n && shifts != nullptr; ++i) {
            out[i] += std::isinf(shifts[i]) ? T{0} : shifts[i];
          }
        }
        break;
    }
  }
};

template <typename T>
Kernel reduce_kernel(Prepare& p, const Kind& kind, DType compute, const Loops& loops, int64_t kept) {
  const DType type = p.type(0);
  const Reducer<T> reducer{kind, type, compute, size_of(type), loops};
  // Results in the type of the computation, and the shifts.
  const size_t part = (static_cast<size_t>(kept) * sizeof(T) + 63) / 64 * 64;
  p.scratch((type == compute ? 0 : part) + (kind.shifted ? part : 0));
  return [=](const Args& args) {
    char* memory = args.scratch<char>();
    T* result = type == compute ? args.out<T>(0) : reinterpret_cast<T*>(memory);
    T* shifts = kind.shifted ? reinterpret_cast<T*>(memory + (type == compute ? 0 : part)) : nullptr;
    const char* x = args.in<char>(0);
    if (shifts != nullptr) reducer.all(kGreatest, false, x, shifts, nullptr);
    reducer.all(kind.combine, true, x, result, shifts);
    reducer.finish(result, kept, shifts);
    if constexpr (std::is_same_v<T, int32_t>) {
      if (type == DType::kBool && kind.combine >= kGreatest) {  // The extremes of no elements.
        for (int64_t i = 0; i < kept; ++i) result[i] = std::clamp(result[i], 0, 1);
      }
    }
    if (type != compute) call(cast_tile(compute, type), result, nullptr, args.out<char>(0), kept);
  };
}

Kernel reduce(Prepare& p) {
  const Kind& kind = kind_of(p.node);
  const Dims& dims = p.dims(0);
  const bool axes_are_input = p.node.version >= (kind.name == std::string_view("ReduceSum") ? 13 : 18);
  Ints axes;
  if (!axes_are_input) {
    axes = p.node.ints("axes");
  } else if (p.has(1)) {
    p.expect(p.dims(1).size() == 1, "the axes are not a list");
    axes = p.ints(1);
  }
  const bool none = axes.empty() && axes_are_input && p.node.i("noop_with_empty_axes", 0) == 1;
  if (none && kind.map == kNone && (kind.finish == kAsIs || kind.finish == kMean)) {
    p.out(0, p.type(0), dims);
    p.alias(0, 0);
    return nullptr;
  }
  // Where nothing is reduced, ReduceSumSquare still squares, ReduceLogSum takes logarithms.
  std::vector<bool> reduced(dims.size(), axes.empty() && !none);
  // A number has nothing to go along, whatever the axes: exporters write one for inputs that may be numbers.
  for (int64_t axis : dims.empty() ? std::vector<int64_t>() : axes) reduced[p.axis(axis, dims.size())] = true;
  Dims to;
  int64_t kept = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!reduced[d]) {
      to.push_back(dims[d]);
      kept *= dims[d];
    } else if (p.node.i("keepdims", 1) == 1) {
      to.push_back(1);
    }
  }
  p.out(0, p.type(0), to);
  const DType compute = computed(p.type(0), kind);
  const Loops loops(dims, reduced);
  return with_one_of<float, double, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t>(
      compute, [&](auto zero) { return reduce_kernel<decltype(zero)>(p, kind, compute, loops, kept); });
}

// A tensor as [outer, size, inner] around one axis.
struct Around {
  int64_t outer, size, inner;
  Around(const Dims& dims, size_t axis)
      : outer(count(dims, 0, axis)), size(dims[axis]), inner(count(dims, axis + 1, dims.size())) {}
};

// Calls body(o, i, n) for parts of n <= most neighbours of `inner`, from i on, of each of `outer`.
template <typename Body>
void for_lanes(const Around& a, const Body& body, int64_t most = kTile) {
  const int64_t tile = std::min(most, std::max<int64_t>(1, a.inner)), tiles = (a.inner + tile - 1) / tile;
  parallel_for(a.outer * tiles, std::max<int64_t>(1, kGrain / (a.size * tile + 1)),
               [&](int64_t item, int64_t end) {
                 for (; item < end; ++item) {
                   const int64_t first = item % tiles * tile;
                   body(item / tiles, first, std::min(tile, a.inner - first));
                 }
               });
}

// Whether `value`, which comes after `best`, takes its place. The first NaN is the extreme.
template <bool greatest, bool last, typename T>
inline bool is_better(T value, T best) {
  const bool better = greatest ? last ? value >= best : value > best : last ? value <= best : value < best;
  return better | ((value != value) & (best == best));
}

// Finds the extreme of numbers first, several side by side, and then where it is. False where there may be a
// NaN.
template <bool greatest, bool last>
bool place_of_extreme(const double* x, int64_t n, int64_t* place) {
  constexpr int64_t kSide = 8;
  if (n < kSide) return false;
  double best[kSide], sums[kSide];
  for (int64_t l = 0; l < kSide; ++l) best[l] = sums[l] = x[l];
  int64_t k = kSide;
  for (; k + kSide <= n; k += kSide) {
    for (int64_t l = 0; l < kSide; ++l) {
      const double value = x[k + l];
      best[l] = (greatest ? value > best[l] : value < best[l]) ? value : best[l];
      sums[l] += value;
    }
  }
  for (; k < n; ++k) {
    best[0] = (greatest ? x[k] > best[0] : x[k] < best[0]) ? x[k] : best[0];
    sums[0] += x[k];
  }
  for (int64_t l = 1; l < kSide; ++l) {
    best[0] = (greatest ? best[l] > best[0] : best[l] < best[0]) ? best[l] : best[0];
    sums[0] += sums[l];
  }
  if (sums[0] != sums[0]) return false;  // Or there are infinities of both signs.
  int64_t at = last ? n - 1 : 0;
  while (x[at] != best[0]) at += last ? -1 : 1;
  *place = at;
  return true;
}

template <typename T, bool greatest, bool last>
void extremes(const T* x, int64_t* y, const Around& a) {
  using Number = decltype(+*x);
  if (a.inner > 1 && a.size <= INT32_MAX) {  // Side by side.
    for_lanes(a, [&](int64_t o, int64_t first, int64_t n) {
      Number best[kTile];
      int32_t at[kTile];
      const T* row = x + o * a.size * a.inner + first;
      for (int64_t i = 0; i < n; ++i) best[i] = +row[i];
      std::fill(at, at + n, 0);
      for (int32_t k = 1; k < a.size; ++k) {
        row += a.inner;
        for (int64_t i = 0; i < n; ++i) {
          const Number value = +row[i], old = best[i];
          const bool better = is_better<greatest, last>(value, old);
          best[i] = better ? value : old;
          at[i] = better ? k : at[i];
        }
      }
      std::copy(at, at + n, y + o * a.inner + first);
    });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, a.size));
  parallel_for(a.outer * a.inner, grain, [&](int64_t i, int64_t end) {
    if constexpr (std::is_same_v<T, float>) {
      if (a.inner == 1) {
        const auto reduce = simd().reduce[greatest ? kGreatest : kLeast];
        const auto find = simd().find;
        for (const float* row = x + i * a.size; i < end; ++i, row += a.size) {
          y[i] = find(row, a.size, reduce(row, a.size, *row), last);
        }
        return;
      }
    }
    for (; i < end; ++i) {
      const T* row = x + i / a.inner * a.size * a.inner + i % a.inner;
      if constexpr (std::is_same_v<T, double>) {
        if (a.inner == 1 && place_of_extreme<greatest, last>(row, a.size, y + i)) continue;
      }
      Number best = +row[0];
      int64_t at = 0;
      for (int64_t k = 1; k < a.size; ++k) {
        const Number value = +row[k * a.inner];
        if (is_better<greatest, last>(value, best)) {
          best = value;
          at = k;
        }
      }
      y[i] = at;
    }
  });
}

template <typename T>
void extremes(const T* x, int64_t* y, const Around& a, bool greatest, bool last) {
  if (greatest) {
    last ? extremes<T, true, true>(x, y, a) : extremes<T, true, false>(x, y, a);
  } else {
    last ? extremes<T, false, true>(x, y, a) : extremes<T, false, false>(x, y, a);
  }
}

Kernel arg_extreme(Prepare& p) {
  const bool is_number = p.dims(0).empty();  // Whose extreme is itself, whatever the axis.
  const Dims dims = is_number ? Dims{1} : p.dims(0);
  const size_t axis = is_number ? 0 : p.axis(p.node.i("axis", 0), dims.size());
  const Around a(dims, axis);
  p.expect(a.size > 0 || a.outer * a.inner == 0, "the extreme of no elements");
  Dims to = dims;
  to[axis] = 1;
  if (is_number || p.node.i("keepdims", 1) != 1) to.erase(to.begin() + static_cast<ptrdiff_t>(axis));
  p.out(0, DType::kInt64, to);
  const bool greatest = p.node.type == "ArgMax", last = p.node.i("select_last_index", 0) != 0;
  const auto make = [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return [=](const Args& args) { extremes(args.in<T>(0), args.out<int64_t>(0), a, greatest, last); };
  };
  return with_one_of<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
      p.type(0), make);
}

Kernel hardmax(Prepare& p) {
  const Dims dims = p.dims(0);
  const DType type = p.type(0);
  const size_t axis = p.axis(p.node.i("axis", p.node.version < 13 ? 1 : -1), dims.size());
  Around a(dims, axis);
  if (p.node.version < 13) {  // Everything from the axis on is one row.
    a.size = a.size * a.inner;
    a.inner = 1;
  }
  p.out(0, type, dims);
  if (a.outer * a.size * a.inner == 0) {
    return [](const Args&) {};  // No row has a largest element, and there is none to write.
  }
  p.scratch(static_cast<size_t>(a.outer * a.inner) * sizeof(int64_t));
  const auto make = [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return [=](const Args& args) {
      int64_t* at = args.scratch<int64_t>();
      T* y = args.out<T>(0);
      extremes(args.in<T>(0), at, a, true, false);
      std::fill(y, y + a.outer * a.size * a.inner, T(0.0f));
      for (int64_t i = 0; i < a.outer * a.inner; ++i) {
        y[(i / a.inner * a.size + at[i]) * a.inner + i % a.inner] = T(1.0f);
      }
    };
  };
  return with_one_of<float, double>(type, make);
}

template <typename T>
void running(const T* x, T* y, const Around& a, bool exclusive, bool reverse, bool product) {
  if (a.inner > 1) {  // Side by side: each row of sums is made of the one before.
    const auto lanes = [&](int64_t o, int64_t first, int64_t n) {
      const int64_t step = reverse ? -a.inner : a.inner;
      int64_t at = (o * a.size + (reverse ? a.size - 1 : 0)) * a.inner + first;
      if (exclusive) {
        std::fill(y + at, y + at + n, product ? T(1) : T(0));
      } else if (x != y) {
        std::copy(x + at, x + at + n, y + at);
      }
      for (int64_t k = 1; k < a.size; ++k, at += step) {
        const T *const before = y + at, *const row = exclusive ? x + at : x + at + step;
        T* const to = y + at + step;
        if (product) {
          EPHOST_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) to[i] = before[i] * row[i];
        } else {
          EPHOST_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) to[i] = before[i] + row[i];
        }
      }
    };
    // Long pieces, which processors fetch in advance, as long as the row before stays in a cache nearby.
    const int64_t share = a.inner / std::max<int64_t>(1, max_threads());
    for_lanes(a, lanes, std::clamp<int64_t>(share, kTile, 8 * kTile));
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, a.size));
  parallel_for(a.outer * a.inner, grain, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      T sum = product ? T(1) : T(0);
      for (int64_t k = 0; k < a.size; ++k) {
        const int64_t at = i * a.size + (reverse ? a.size - 1 - k : k);
        const T value = x[at], next = product ? sum * value : sum + value;
        y[at] = exclusive ? sum : next;
        sum = next;
      }
    }
  });
}

Kernel cumulate(Prepare& p) {
  const Dims& dims = p.dims(0);
  const DType type = p.type(0);
  p.expect(p.in(1).count() == 1, "the axis is not one number");
  const Around a(dims, p.axis(p.integer(1), dims.size()));
  const int64_t exclusive = p.node.i("exclusive", 0), reverse = p.node.i("reverse", 0);
  p.expect((exclusive | 1) == 1 && (reverse | 1) == 1, "exclusive and reverse are 0 or 1");
  const bool product = p.node.type == "CumProd";
  p.out(0, type, dims);
  // The sums before an element do without it, and are needed for what follows.
  if (!exclusive || a.inner == 1) p.in_place(0, 0);
  const auto make = [&](auto zero) -> Kernel {
    using T = wrapping_t<decltype(zero)>;
    return [=](const Args& args) { running(args.in<T>(0), args.out<T>(0), a, exclusive, reverse, product); };
  };
  return with_one_of<float, double, int32_t, uint32_t, int64_t, uint64_t>(type, make);
}

}  // namespace

const Registration registration([](Registry* registry) {
  for (const Kind& kind : kKinds) {
    registry->add({.type = kind.name, .prepare = reduce});
  }
  for (const char* type : {"ArgMax", "ArgMin"}) {
    registry->add({.type = type, .prepare = with_halves(arg_extreme), .types = kNumbers});
  }
  registry->add({.type = "Hardmax", .prepare = with_halves(hardmax), .types = kFloats});
  constexpr Types kCumulated = kFloats | Types{DType::kInt32, DType::kInt64, DType::kUint32, DType::kUint64};
  registry->add({.type = "CumSum", .prepare = with_halves(cumulate), .types = kCumulated});
  registry->add({.type = "CumProd", .prepare = with_halves(cumulate), .types = kCumulated});
});

}  // namespace ephost::cpu
