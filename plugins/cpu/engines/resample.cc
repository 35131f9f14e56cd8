#include "cpu/engines/resample.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "cpu/engines/strided.h"
#include "cpu/simd/simd.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// Inner elements that a pass takes side by side; what has fewer is computed row by row.
constexpr int64_t kSideBySide = 16;

// Sums of two go row by row for more of them, since each is little work.
bool by_rows(int64_t inner, int64_t width) { return inner < (width <= 2 ? 4 * kSideBySide : kSideBySide); }

constexpr int64_t kTile = 1024;  // Elements that stay in the first cache.

// One axis of a slice of a tensor: [outer, in, inner].
template <typename A>
struct Pass {
  int64_t in = 1, out = 1, width = 1, outer = 1, inner = 1;
  std::vector<int64_t> first, count;
  std::vector<A> weight;
  // For widths of up to 2 along rows: two elements for each output, also where one is enough.
  std::vector<int64_t> pairs;
  std::vector<A> halves;
  std::vector<bool> outside;
  A extrapolation{};
  // Where in the input each of `outer` begins; empty where they follow each other.
  std::vector<int64_t> begins;
  // Outputs whose inputs are loaded together: from each of these to the next one.
  std::vector<int64_t> blocks;

  // Of number `o` of those from `start` on.
  int64_t begin(int64_t start, int64_t o) const {
    return begins.empty() ? o * in * inner : begins[static_cast<size_t>(start + o)];
  }
  bool is_outside(int64_t i) const { return !outside.empty() && outside[static_cast<size_t>(i)]; }
};

// ---- Elements of other types

template <typename T, typename A>
T rounded(A value) {
  if constexpr (std::is_integral_v<T>) {
    constexpr A low = static_cast<A>(std::numeric_limits<T>::min()),
                high = static_cast<A>(std::numeric_limits<T>::max());
    return value <= low    ? std::numeric_limits<T>::min()
           : value >= high ? std::numeric_limits<T>::max()
                           : static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename A>
struct Elements {
  size_t size = sizeof(A);
  // Null for A itself.
  void (*load)(const char* from, int64_t n, A* to) = nullptr;
  void (*store)(const A* from, int64_t n, char* to) = nullptr;
  void (*pick)(const Pass<A>& pass, const char* x, A* y,
               int64_t ahead) = nullptr;  // `two_of_row` of those elements.
  int64_t cost = 1;                       // Of picking one, in those that are loaded side by side.
};

template <typename T, typename A>
A as(T value) {
  return static_cast<A>(static_cast<arithmetic_t<T>>(value));
}

// A row of an axis [in, kInner] by two elements for each output. What the next row reads, so many elements
// `ahead`, is asked for: where images shrink, the processor does not see by itself which lines those are.
template <int kInner, typename T, typename A>
void two_of_row(const Pass<A>& pass, const T* x, A* y, int64_t ahead) {
  const int64_t* pair = pass.pairs.data();
  const A* w = pass.halves.data();
  const int64_t inner = kInner == 0 ? pass.inner : kInner;
  for (int64_t i = 0; i < pass.out; ++i, pair += 2, w += 2, y += inner) {
    const T *a = x + pair[0], *b = x + pair[1];
    __builtin_prefetch(a + ahead);
    for (int64_t c = 0; c < inner; ++c) y[c] = w[0] * as<T, A>(a[c]) + w[1] * as<T, A>(b[c]);
  }
}

template <typename T, typename A>
void two_of_row(const Pass<A>& pass, const T* x, A* y, int64_t ahead) {
  switch (pass.inner) {
    case 1:
      return two_of_row<1>(pass, x, y, ahead);
    case 3:
      return two_of_row<3>(pass, x, y, ahead);
    case 4:
      return two_of_row<4>(pass, x, y, ahead);
    default:
      return two_of_row<0>(pass, x, y, ahead);
  }
}

// What is rounded to the nearest integer that T holds, and stored as that or in A.
template <typename T, typename Stored, typename A>
Elements<A> rounded_elements() {
  Elements<A> made;
  made.size = sizeof(Stored);
  made.store = [](const A* from, int64_t n, char* to) {
    Stored* y = reinterpret_cast<Stored*>(to);
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Stored>(rounded<T>(std::floor(from[i] + A{1} / 2)));
  };
  return made;
}

template <typename A>
Elements<A> elements_of(DType type) {
  if (type == dtype_of<A>) return {};
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    Elements<A> made;
    made.size = sizeof(T);
    made.load = [](const char* from, int64_t n, A* to) {
      const T* x = reinterpret_cast<const T*>(from);
      for (int64_t i = 0; i < n; ++i) to[i] = as<T, A>(x[i]);
    };
    made.store = [](const A* from, int64_t n, char* to) {
      T* y = reinterpret_cast<T*>(to);
      for (int64_t i = 0; i < n; ++i) y[i] = rounded<T>(from[i]);
    };
    made.pick = [](const Pass<A>& pass, const char* x, A* y, int64_t ahead) {
      two_of_row(pass, reinterpret_cast<const T*>(x), y, ahead);
    };
    if constexpr (std::is_same_v<A, float>) {
      const auto by_table = [&](auto from, auto to) {
        made.load = from;
        made.store = to;
        made.cost = 8;
      };
      if (type == DType::kFloat16) {
        by_table(
            [](const char* x, int64_t n, float* y) {
              const void* in[] = {x};
              simd().half_to_float(in, y, n, nullptr);
            },
            [](const float* x, int64_t n, char* y) {
              const void* in[] = {x};
              simd().float_to_half(in, y, n, nullptr);
            });
      } else if (type == DType::kBFloat16) {
        by_table(
            [](const char* x, int64_t n, float* y) {
              const void* in[] = {x};
              simd().bfloat16_to_float(in, y, n, nullptr);
            },
            [](const float* x, int64_t n, char* y) {
              const void* in[] = {x};
              simd().float_to_bfloat16(in, y, n, nullptr);
            });
      }
    }
    return made;
  });
}

// What a pass does at a time.
template <typename A>
struct Part {
  const Elements<A>& from;
  const Elements<A>& to;
  const char* in;
  char* out;
  int64_t start, count;  // Of `outer`.
  A* rooms;
  int64_t size;  // Of a thread's room.

  A* room() const { return rooms + size * thread_rank(); }
};

// ---- Along rows

template <typename A>
constexpr int kLanes = 16 / sizeof(A);
template <typename A>
struct Vector {
  typedef A Type __attribute__((vector_size(16), aligned(sizeof(A)), may_alias));
};

// The sum of x[k] * w[k] for k in [0, n).
template <typename A>
A dot(const A* x, const A* w, int64_t n) {
  using V = typename Vector<A>::Type;
  constexpr int kMany = kLanes<A>;
  const auto product = [&](int64_t k) {
    return *reinterpret_cast<const V*>(x + k) * *reinterpret_cast<const V*>(w + k);
  };
  A sum{};
  int64_t k = 0;
  if (n >= kMany) {
    V low = product(0), high{};
    for (k = kMany; k + 2 * kMany <= n; k += 2 * kMany) {
      low += product(k);
      high += product(k + kMany);
    }
    if (k + kMany <= n) {
      high += product(k);
      k += kMany;
    }
    low += high;
    for (int i = 0; i < kMany; ++i) sum += low[i];
  }
  for (; k < n; ++k) sum += x[k] * w[k];
  return sum;
}

template <int kInner, typename A>
void many_of_row(const Pass<A>& pass, const A* x, A* y) {
  const A* w = pass.weight.data();
  const int64_t inner = kInner == 0 ? pass.inner : kInner;
  for (int64_t i = 0; i < pass.out; ++i, w += pass.width, y += inner) {
    const int64_t n = pass.count[static_cast<size_t>(i)];
    const A* from = x + pass.first[static_cast<size_t>(i)] * inner;
    if constexpr (kInner == 1) {
      *y = dot(from, w, n);
    } else {
      A sums[kSideBySide] = {};
      for (int64_t k = 0; k < n; ++k, from += inner) {
        for (int64_t c = 0; c < inner; ++c) sums[c] += w[k] * from[c];
      }
      std::copy(sums, sums + inner, y);
    }
  }
}

template <typename A>
void many_of_row(const Pass<A>& pass, const A* x, A* y) {
  switch (pass.inner) {
    case 1:
      return many_of_row<1>(pass, x, y);
    case 3:
      return many_of_row<3>(pass, x, y);
    case 4:
      return many_of_row<4>(pass, x, y);
    default:
      return many_of_row<0>(pass, x, y);
  }
}

// Whether the row is not worth turning into A: most of it is not read.
template <typename A>
bool picks(const Pass<A>& pass, const Elements<A>& from) {
  return from.pick != nullptr && pass.width <= 2 && pass.out * from.cost < pass.in;
}

// Of `outer`, from `start` on, whose results begin at `out`; of their inputs the first lies at `in`, unless
// the pass knows where each one is.
template <typename A>
void rows(const Pass<A>& pass, const Part<A>& part) {
  const Elements<A>& from = part.from;
  const Elements<A>& to = part.to;
  const int64_t n = pass.out * pass.inner, n_in = pass.in * pass.inner;
  const bool picked = picks(pass, from), loaded = from.load != nullptr && !picked;
  const int64_t work = n * (pass.width + 1) + (loaded ? n_in : 0);
  parallel_for(part.count, 1 + kGrain / (work + 1), [&](int64_t o, int64_t end) {
    A* const mine = part.room();
    for (; o < end; ++o) {
      const int64_t begin = pass.begin(part.start, o),
                    next = o + 1 < end ? pass.begin(part.start, o + 1) : begin;
      const int64_t ahead = next - begin;
      const char* const given = part.in + static_cast<size_t>(begin) * from.size;
      char* const made = part.out + static_cast<size_t>(o * n) * to.size;
      A* const y = to.store == nullptr ? reinterpret_cast<A*>(made) : mine + n_in;
      if (picked) {
        from.pick(pass, given, y, ahead);
      } else {
        if (loaded) from.load(given, n_in, mine);
        const A* const x = loaded ? mine : reinterpret_cast<const A*>(given);
        pass.width <= 2 ? two_of_row(pass, x, y, ahead) : many_of_row(pass, x, y);
      }
      for (int64_t i = 0; i < pass.out && !pass.outside.empty(); ++i) {
        if (pass.is_outside(i)) std::fill_n(y + i * pass.inner, pass.inner, pass.extrapolation);
      }
      if (to.store != nullptr) to.store(y, n, made);
    }
  });
}

// ---- Across rows: those of `inner` elements are added

// y = the sum of lines w[k] * x[k * step + j] for j in [0, n).
template <typename A>
void add_lines(const A* x, int64_t step, const A* w, int64_t count, A* y, int64_t n) {
  if constexpr (std::is_same_v<A, float>) {
    // As a product of a row and a matrix, which is read where it lies: in full panels.
    const int64_t panel = simd().panel, whole = count > 2 ? n / panel * panel : 0;
    if (whole > 0) {
      GemmBlock g{};
      g.m = 1;
      g.n = whole;
      g.k = count;
      g.a = w;
      g.a_row = count;
      g.a_step = 1;
      g.b = x;
      g.b_step = step;
      g.b_panel = panel;
      g.c = y;
      g.c_row = n;
      simd().gemm(g);
    }
    x += whole;
    y += whole;
    n -= whole;
  }
  if (count == 1) {
    for (int64_t j = 0; j < n; ++j) y[j] = w[0] * x[j];
    return;
  }
  const A *const next = x + step, first = w[0], second = w[1];
  for (int64_t j = 0; j < n; ++j) y[j] = first * x[j] + second * next[j];
  for (int64_t k = 2; k < count; ++k) {
    const A *const line = x + k * step, factor = w[k];
    for (int64_t j = 0; j < n; ++j) y[j] += factor * line[j];
  }
}

// Inputs that are loaded together, of so many elements: they stay in the second cache.
constexpr int64_t kMostLoaded = 128, kLoadedTile = 256;

std::vector<int64_t> blocks_of(const Taps& taps) {
  std::vector<int64_t> blocks = {0};
  for (int64_t i = 1; i < taps.out; ++i) {
    const auto at = static_cast<size_t>(i), start = static_cast<size_t>(blocks.back());
    const int64_t end = taps.first[at] + taps.count[at];
    if (taps.first[at] < taps.first[start] || end - taps.first[start] > kMostLoaded) blocks.push_back(i);
  }
  blocks.push_back(taps.out);
  return blocks;
}

template <typename A>
void columns(const Pass<A>& pass, const Part<A>& part) {
  const Elements<A>& from = part.from;
  const Elements<A>& to = part.to;
  const bool loads = from.load != nullptr;
  const int64_t inner = pass.inner, tile = loads ? kLoadedTile : kTile, tiles = (inner + tile - 1) / tile;
  const int64_t blocks = loads ? static_cast<int64_t>(pass.blocks.size()) - 1 : pass.out;
  const int64_t work = std::min(inner, tile) * (pass.width + 1) * pass.out / blocks;
  parallel_for(part.count * blocks * tiles, 1 + kGrain / (work + 1), [&](int64_t task, int64_t end) {
    A* const mine = part.room();
    for (; task < end; ++task) {
      const int64_t at = task % tiles * tile, n = std::min(tile, inner - at);
      const int64_t block = task / tiles % blocks, o = task / tiles / blocks;
      const int64_t begin = loads ? pass.blocks[static_cast<size_t>(block)] : block,
                    stop = loads ? pass.blocks[static_cast<size_t>(block) + 1] : block + 1;
      const int64_t first = pass.first[static_cast<size_t>(begin)];
      const char* const given =
          part.in + static_cast<size_t>(pass.begin(part.start, o) + first * inner + at) * from.size;
      int64_t loaded = 0;
      for (int64_t i = begin; i < stop; ++i) {
        const int64_t skipped = pass.first[static_cast<size_t>(i)] - first,
                      count = pass.count[static_cast<size_t>(i)];
        char* const made = part.out + static_cast<size_t>((o * pass.out + i) * inner + at) * to.size;
        A* const y = to.store == nullptr ? reinterpret_cast<A*>(made) : mine + part.size - kTile;
        if (pass.is_outside(i)) {
          std::fill_n(y, n, pass.extrapolation);
        } else {
          for (; loads && loaded < skipped + count; ++loaded) {
            from.load(given + static_cast<size_t>(loaded * inner) * from.size, n, mine + loaded * tile);
          }
          const A* const x = loads ? mine + skipped * tile : reinterpret_cast<const A*>(given);
          add_lines(x, loads ? tile : inner, pass.weight.data() + i * pass.width, count, y, n);
        }
        if (to.store != nullptr) to.store(y, n, made);
      }
    }
  });
}

// ---- All axes

// In which order they are least work: rows that no later axis reads are left out of the first pass, and along
// rows each product costs more than across them.
class Order {
 public:
  Order(const Dims& dims, const std::vector<std::pair<size_t, Taps>>& axes, bool loads, bool last_first)
      : dims_(dims), axes_(axes), loads_(loads) {
    for (const auto& [axis, taps] : axes) {
      std::vector<bool> read(static_cast<size_t>(taps.in));
      for (size_t i = 0; i < taps.first.size(); ++i) {
        for (int64_t k = 0; k < taps.count[i]; ++k) read[static_cast<size_t>(taps.first[i] + k)] = true;
      }
      std::vector<int64_t> those;
      for (size_t i = 0; i < read.size(); ++i) {
        if (read[i]) those.push_back(static_cast<int64_t>(i));
      }
      read_.push_back(std::move(those));
    }
    order_.resize(axes.size());
    std::iota(order_.rbegin(), order_.rend(), size_t{0});  // The last one first.
    if (last_first) return;
    constexpr size_t kMostTried = 4;
    std::vector<size_t> each(axes.size());
    std::iota(each.begin(), each.end(), size_t{0});
    double least = work(order_);
    do {
      const double here = work(each);
      if (here < least) {
        least = here;
        order_ = each;
      }
    } while (axes.size() <= kMostTried && std::next_permutation(each.begin(), each.end()));
  }

  const std::vector<size_t>& axes() const { return order_; }
  // Which elements of axis number i are read at all.
  const std::vector<int64_t>& read(size_t i) const { return read_[i]; }
  // Whether the others are left out of the first pass, which is along axis number `first`.
  bool leaves_out(size_t i, size_t first) const {
    return axes_[i].first < axes_[first].first && static_cast<int64_t>(read_[i].size()) < axes_[i].second.in;
  }

 private:
  double work(const std::vector<size_t>& order) const {
    Dims dims = dims_;
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (leaves_out(i, order[0])) dims[axes_[i].first] = static_cast<int64_t>(read_[i].size());
    }
    double all = 0;
    for (size_t i : order) {
      const auto& [axis, taps] = axes_[i];
      const double before = static_cast<double>(count(dims));
      const int64_t inner = count(dims, axis + 1, dims.size());
      const bool loads = loads_ && i == order[0];
      dims[axis] = taps.out;
      const double width = static_cast<double>(taps.width), after = static_cast<double>(count(dims));
      if (!by_rows(inner, taps.width)) {
        all += after * (0.3 + 0.15 * width) + (loads ? before * 0.5 : 0);
      } else {
        const bool few = taps.width <= 2;
        all += after * (few ? 2 : inner == 1 ? 4 + width * 0.4 : 2 + width);
        if (loads && !(few && taps.out < taps.in)) all += before * 0.5;
      }
    }
    return all;
  }

  Dims dims_;
  const std::vector<std::pair<size_t, Taps>>& axes_;
  bool loads_;
  std::vector<std::vector<int64_t>> read_;
  std::vector<size_t> order_;
};

template <typename A>
Kernel resample_in(Prepare& p, const Desc& in, const std::vector<std::pair<size_t, Taps>>& axes,
                   double extrapolation, bool stepwise) {
  const Elements<A> elements = elements_of<A>(in.type);
  Elements<A> between, made = elements;  // What passes write.
  stepwise = stepwise && (kSigned | kUnsigned).has(in.type);
  if (stepwise) {
    with_integer(in.type, [&](auto zero) {
      between = rounded_elements<decltype(zero), A, A>();
      made = rounded_elements<decltype(zero), decltype(zero), A>();
    });
  }
  Dims dims = stored_dims(in);
  const Dims strides = strides_of(dims);
  const Order order(dims, axes, elements.load != nullptr, stepwise);
  const size_t leading = order.axes()[0];
  // Where rows begin that the first pass reads.
  std::vector<int64_t> begins;
  std::vector<bool> left_out(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) left_out[i] = order.leaves_out(i, leading);
  if (std::find(left_out.begin(), left_out.end(), true) != left_out.end()) {
    begins = {0};
    for (size_t d = 0; d < axes[leading].first; ++d) {
      std::vector<int64_t> those(static_cast<size_t>(dims[d]));
      std::iota(those.begin(), those.end(), int64_t{0});
      for (size_t i = 0; i < axes.size(); ++i) {
        if (left_out[i] && axes[i].first == d) those = order.read(i);
      }
      dims[d] = static_cast<int64_t>(those.size());
      std::vector<int64_t> more;
      more.reserve(begins.size() * those.size());
      for (int64_t begin : begins) {
        for (int64_t at : those) more.push_back(begin + at * strides[d]);
      }
      begins = std::move(more);
    }
  }
  // Of what lies before all of the axes some at a time, so that what one pass writes is near for the next
  // one.
  constexpr int64_t kNear = 256 << 10;
  const int64_t slices = count(dims, 0, axes[0].first);
  std::vector<Pass<A>> passes;
  int64_t most = 0, room = 0;
  for (size_t i : order.axes()) {
    const auto& [axis, taps] = axes[i];
    Pass<A> pass;
    pass.in = dims[axis];
    pass.out = taps.out;
    pass.width = taps.width;
    pass.outer = count(dims, axes[0].first, axis);
    pass.inner = count(dims, axis + 1, dims.size());
    pass.first = taps.first;
    pass.count = taps.count;
    if (left_out[i]) {
      const std::vector<int64_t>& read = order.read(i);
      for (int64_t& first : pass.first) {
        first = std::lower_bound(read.begin(), read.end(), first) - read.begin();
      }
    }
    pass.weight.assign(taps.weight.begin(), taps.weight.end());
    pass.outside = taps.outside;
    pass.extrapolation = static_cast<A>(extrapolation);
    const bool loads = elements.load != nullptr && passes.empty();
    const bool rowwise = by_rows(pass.inner, pass.width);
    if (pass.width <= 2 && rowwise) {
      for (size_t at = 0; at < pass.first.size(); ++at) {
        const A* w = &pass.weight[at * static_cast<size_t>(pass.width)];
        const bool two = pass.count[at] == 2;
        pass.pairs.push_back(pass.first[at] * pass.inner);
        pass.pairs.push_back((pass.first[at] + (two ? 1 : 0)) * pass.inner);
        // Of a single one both halves: infinity times 0 would be NaN.
        pass.halves.push_back(two ? w[0] : w[0] / 2);
        pass.halves.push_back(two ? w[1] : w[0] / 2);
      }
    }
    dims[axis] = taps.out;
    if (passes.size() + 1 < axes.size()) most = std::max(most, count(dims, axes[0].first, dims.size()));
    if (elements.load != nullptr) {
      const int64_t row = (pass.in + pass.out) * pass.inner,
                    lines = std::max(kMostLoaded, pass.width) * kLoadedTile + kTile;
      room = std::max(room, rowwise ? row : loads ? lines : kTile);
      if (loads && !rowwise) pass.blocks = blocks_of(taps);
    }
    if (passes.empty()) pass.begins = std::move(begins);
    passes.push_back(std::move(pass));
  }
  constexpr int64_t kLine = 64;  // Bytes, so that threads do not share one.
  room = (room + kLine - 1) / kLine * kLine;
  const int64_t together =
      std::clamp<int64_t>(kNear / (most * static_cast<int64_t>(sizeof(A)) + 1), 1, slices);
  p.scratch(static_cast<size_t>(2 * most * together + room * std::max(1, p.threads())) * sizeof(A));
  return [=, passes = std::move(passes)](const Args& args) {
    const Elements<A> own;
    A *const buffers[2] = {args.scratch<A>(), args.scratch<A>() + most * together}, *const rooms =
                                                                                        buffers[1] +
                                                                                        most * together;
    for (int64_t slice = 0; slice < slices; slice += together) {
      const int64_t n = std::min(together, slices - slice);
      const char* x = args.in<char>(0);
      for (size_t i = 0; i < passes.size(); ++i) {
        const Pass<A>& pass = passes[i];
        const bool last = i + 1 == passes.size();
        const int64_t start = slice * pass.outer;
        if (i == 0 && pass.begins.empty()) {
          x += static_cast<size_t>(start * pass.in * pass.inner) * elements.size;
        }
        char* y = reinterpret_cast<char*>(buffers[i % 2]);
        if (last) {
          y = args.out<char>() + static_cast<size_t>(start * pass.out * pass.inner) * elements.size;
        }
        const Part<A> part = {
            i == 0 ? elements : own, last ? made : between, x, y, start, n * pass.outer, rooms, room};
        by_rows(pass.inner, pass.width) ? rows(pass, part) : columns(pass, part);
        x = y;
      }
    }
  };
}

}  // namespace

Kernel resample(Prepare& p, const Desc& in, const std::vector<std::pair<size_t, Taps>>& axes,
                double extrapolation, bool stepwise) {
  switch (in.type) {
    case DType::kFloat:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt8:
    case DType::kUint8:
      return resample_in<float>(p, in, axes, extrapolation, stepwise);
    default:
      return resample_in<double>(p, in, axes, extrapolation, stepwise);
  }
}

}  // namespace ephost::cpu
