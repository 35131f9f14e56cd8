// Operators that choose elements by what they are.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "cpu/engines/as_float.h"
#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/dispatch.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

// Orders numbers with NaN as the greatest of them: sorting needs an order of all.
template <typename T>
bool before(T a, T b) {
  using A = arithmetic_t<T>;
  const A x = static_cast<A>(a), y = static_cast<A>(b);
  return (x < y) | ((y != y) & (x == x));
}
bool before(Text a, Text b) { return a.view() < b.view(); }

// ---- NonZero, Compress

void non_zero(Run& run) {
  const Desc in = run.in(0);
  const size_t rank = std::max<size_t>(in.rank(), 1);
  with_type(in.type, [&](auto zero) {
    using T = decltype(zero);
    const T* x = run.as<T>(0);
    const int64_t n = in.count();
    const auto set = [&](int64_t i) { return static_cast<arithmetic_t<T>>(x[i]) != arithmetic_t<T>{}; };
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) found += set(i);
    int64_t* y = static_cast<int64_t*>(run.out(0, DType::kInt64, {static_cast<int64_t>(rank), found}));
    const Dims strides = strides_of(in.dims);
    int64_t column = 0;
    for (int64_t i = 0; i < n && column < found; ++i) {
      if (!set(i)) continue;
      int64_t rest = i;
      y[column] = 0;
      for (size_t d = 0; d < in.rank(); ++d) {
        y[static_cast<int64_t>(d) * found + column] = rest / strides[d];
        rest %= strides[d];
      }
      ++column;
    }
  });
}

// Conditions that are looked at together.
constexpr int64_t kConditions = 4096;

void compress(Run& run) {
  const Desc in = run.in(0);
  const bool flat = !run.node.has("axis");
  int64_t axis = run.node.i("axis", 0);
  axis += axis < 0 ? static_cast<int64_t>(in.rank()) : 0;
  if (!flat && (axis < 0 || axis >= static_cast<int64_t>(in.rank()))) {
    run.invalid("the axis is not one of the input");
  }
  const size_t at = static_cast<size_t>(axis);
  const int64_t outer = flat ? 1 : count(in.dims, 0, at), n = flat ? in.count() : in.dims[at];
  const int64_t inner = flat ? 1 : count(in.dims, at + 1, in.rank());
  const size_t bytes = static_cast<size_t>(inner) * size_of(in.type);
  const uint8_t* condition = run.as<uint8_t>(1);  // Callers may have other bytes than 0 and 1.
  const int64_t conditions = std::min(n, run.in(1).count());
  const auto wanted = static_cast<size_t>(conditions - std::count(condition, condition + conditions, 0));
  Dims to = flat ? Dims{0} : in.dims;
  to[flat ? 0 : at] = static_cast<int64_t>(wanted);
  char* y = static_cast<char*>(run.out(0, in.type, to));
  const char* x = run.as<char>(0);
  // A list of all that are chosen may be several times as large as the input.
  std::array<int64_t, kConditions> chosen;
  const auto choose = [&](int64_t begin, int64_t end) {
    size_t found = 0;
    for (int64_t i = begin; i < end;) {
      uint64_t next = 1;
      if (i + 8 <= end) std::memcpy(&next, condition + i, sizeof next);
      const int64_t stop = std::min(i + 8, end);
      if (next == 0) i = stop;
      for (; i < stop; ++i) {  // Without a branch, which nobody could foretell.
        chosen[found] = i;
        found += condition[i] != 0;
      }
    }
    return found;
  };
  const auto copy = [&](size_t size) __attribute__((always_inline)) {
    size_t before = 0;
    for (int64_t begin = 0; before < wanted; begin += kConditions) {
      const size_t found = choose(begin, std::min(begin + kConditions, conditions));
      for (int64_t o = 0; o < outer; ++o) {
        char* into = y + (static_cast<size_t>(o) * wanted + before) * size;
        for (size_t k = 0; k < found; ++k) {
          std::memcpy(into, x + static_cast<size_t>(o * n + chosen[k]) * size, size);
          into += size;
        }
      }
      before += found;
    }
  };
  switch (bytes) {  // A number that the compiler knows is moved without a call.
    case 0:
      return;
    case 1:
      return copy(1);
    case 2:
      return copy(2);
    case 4:
      return copy(4);
    case 8:
      return copy(8);
    default:
      return copy(bytes);
  }
}

// ---- TopK

// Elements that are looked at together: most of them are not better than the k best so far.
constexpr int64_t kTogether = 32;

// Calls visit(i) for those of n <= kTogether elements that may be better than `least`: for all that are, and
// for what cannot be compared with it.
template <bool largest, typename T, typename Visit>
void for_better(const T* x, int64_t n, T least, const Visit& visit) {
  uint8_t flags[kTogether];
  const auto compare = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) flags[i] = largest ? !(x[i] <= least) : !(x[i] >= least);
  };
  if (n == kTogether) {
    compare(kTogether);
  } else {
    std::fill(flags, flags + kTogether, uint8_t{0});
    compare(n);
  }
  for (int64_t i = 0; i < kTogether; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, flags + i, sizeof eight);
    if constexpr (std::endian::native == std::endian::big) eight = __builtin_bswap64(eight);
    for (; eight != 0; eight &= eight - 1) visit(i + std::countr_zero(eight) / 8);
  }
}

// As many best ones are kept in order, each new one put where it belongs.
constexpr int64_t kFew = 16;

// Of few best ones, for some neighbours at a time, since along an outer axis the next element is far away.
template <typename T, bool largest>
void few_of(const Args& args, int64_t n, int64_t k, int64_t outer, int64_t inner) {
  struct Item {
    T value;
    int32_t index;
  };
  const auto better = [](T a, T b) { return largest ? before(b, a) : before(a, b); };
  constexpr int64_t kNeighbours = 16;
  const int64_t parts = (inner + kNeighbours - 1) / kNeighbours;
  const T* x = args.in<T>(0);
  T* values = args.out<T>(0);
  int64_t* indices = args.out<int64_t>(1);
  parallel_for(k == 0 ? 0 : outer * parts, 1 + kGrain / (8 * n + 1), [&](int64_t part, int64_t end) {
    Item items[kNeighbours * kFew];
    for (; part < end; ++part) {
      const int64_t o = part / parts, first = part % parts * kNeighbours;
      const int64_t width = std::min(kNeighbours, inner - first);
      const T* row = x + o * n * inner + first;
      const auto insert = [&](Item* best, int64_t held, const Item& item) {
        if (held == k && !better(item.value, best[k - 1].value)) return;
        int64_t at = std::min(held, k - 1);
        for (; at > 0 && better(item.value, best[at - 1].value); --at) best[at] = best[at - 1];
        best[at] = item;
      };
      for (int64_t next = 0; next < (inner == 1 ? k : n); ++next) {
        for (int64_t i = 0; i < width; ++i) {
          insert(items + i * k, std::min(next, k), {row[next * inner + i], static_cast<int32_t>(next)});
        }
      }
      for (int64_t next = k; inner == 1 && next < n; next += kTogether) {
        const int64_t stop = std::min(n, next + kTogether);
        for_better<largest>(row + next, stop - next, items[k - 1].value, [&](int64_t i) {
          insert(items, k, {row[next + i], static_cast<int32_t>(next + i)});
        });
      }
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          const int64_t at = (o * k + j) * inner + first + i;
          if (values != nullptr) values[at] = items[i * k + j].value;
          if (indices != nullptr) indices[at] = items[i * k + j].index;
        }
      }
    }
  });
}

// Gathers elements, of which the k best are kept whenever there are `room` of them.
template <typename T, bool largest>
void best_of(const Args& args, int64_t n, int64_t k, int64_t outer, int64_t inner, int64_t room,
             bool sorted) {
  struct Item {
    T value;
    int32_t index;
  };
  const auto better = [](T a, T b) { return largest ? before(b, a) : before(a, b); };
  // Of equal elements the first comes first.
  const auto first = [&](const Item& a, const Item& b) {
    return better(a.value, b.value) || (!better(b.value, a.value) && a.index < b.index);
  };
  const T* x = args.in<T>(0);
  T* values = args.out<T>(0);
  int64_t* indices = args.out<int64_t>(1);
  parallel_for(k == 0 ? 0 : outer * inner, 1 + kGrain / (8 * n + 1), [&](int64_t lane, int64_t end) {
    Item* items = args.scratch<Item>() + thread_rank() * (room + kTogether);
    for (; lane < end; ++lane) {
      const int64_t o = lane / inner, i = lane % inner;
      const T* row = x + o * n * inner + i;
      int64_t held = 0;
      bool full = false;  // There are k already, and `least` is the last of them.
      T least{};
      for (int64_t next = 0; next < n;) {
        const int64_t stop = std::min(n, next + kTogether);
        if (held >= room) {
          std::nth_element(items, items + k - 1, items + held, first);
          held = k;
          least = items[k - 1].value;
          full = true;
        }
        if (full && inner == 1) {
          for_better<largest>(row + next, stop - next, least, [&](int64_t i) {
            items[held] = {row[next + i], static_cast<int32_t>(next + i)};
            held += better(row[next + i], least);
          });
          next = stop;
          continue;
        }
        for (; next < stop; ++next) {
          const T value = row[next * inner];
          items[held] = {value, static_cast<int32_t>(next)};
          held += !full || better(value, least);
        }
      }
      if (k < held) std::nth_element(items, items + k - 1, items + held, first);
      if (sorted) std::sort(items, items + k, first);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t at = (o * k + j) * inner + i;
        if (values != nullptr) values[at] = items[j].value;
        if (indices != nullptr) indices[at] = items[j].index;
      }
    }
  });
}

Kernel top_k(Prepare& p) {
  const Dims& from = p.dims(0);
  const size_t axis = p.axis(p.node.i("axis", -1), from.size());
  p.expect(p.node.version < 10 || p.in(1).count() == 1, "k is not one number");
  const int64_t k = p.node.version < 10 ? p.node.i("k", 0) : p.integer(1), n = from[axis];
  if (k < 0 || k > n) {
    p.invalid("k is " + std::to_string(k) + " for an axis of " + std::to_string(n));
  }
  const bool largest = p.node.i("largest", 1) == 1, sorted = p.node.i("sorted", 1) == 1;
  Dims to = from;
  to[axis] = k;
  const DType type = p.type(0);
  if (p.wants(0)) p.out(0, type, to);
  if (p.wants(1)) p.out(1, DType::kInt64, to);
  const int64_t outer = count(from, 0, axis), inner = count(from, axis + 1, from.size());
  p.expect(n <= INT32_MAX, "the axis has too many elements");
  // Halves come as floats (with_halves).
  const auto with_number = [](DType of, const auto& body) {
    with_one_of<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
        of, body);
  };
  if (k <= kFew) {
    return [=](const Args& args) {
      with_number(type, [&](auto zero) {
        largest ? few_of<decltype(zero), true>(args, n, k, outer, inner)
                : few_of<decltype(zero), false>(args, n, k, outer, inner);
      });
    };
  }
  const int64_t room = std::min(n, 2 * k + kTogether);
  p.scratch(static_cast<size_t>(p.threads() * (room + kTogether)) * 2 * sizeof(int64_t));
  return [=](const Args& args) {
    with_number(type, [&](auto zero) {
      largest ? best_of<decltype(zero), true>(args, n, k, outer, inner, room, sorted)
              : best_of<decltype(zero), false>(args, n, k, outer, inner, room, sorted);
    });
  };
}

// ---- Unique

// Mixes numbers with one that nobody outside of the process knows: so nobody knows which items meet in a
// table.
class Hash {
 public:
  void add(uint64_t bits) {
    hash_ = (hash_ ^ bits) * 0x9E3779B97F4A7C15 * seed();
    hash_ ^= hash_ >> 32;
  }
  uint64_t get() const { return hash_; }

 private:
  static uint64_t seed() {
    static const uint64_t drawn = std::random_device{}() | 1;
    return drawn;
  }
  uint64_t hash_ = seed();
};

// The same bits for elements that are equal: zeros of both signs are, and NaNs.
template <typename T>
uint64_t bits_of(T element) {
  using A = arithmetic_t<T>;
  const A value = static_cast<A>(element);
  if (value != value) return ~uint64_t{0};
  uint64_t bits = 0;
  if (value != A{}) std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename T>
bool equal_elements(T a, T b) {
  return bits_of(a) == bits_of(b);
}
bool equal_elements(Text a, Text b) { return a.view() == b.view(); }

template <typename T>
void add_element(T element, Hash* hash) {
  hash->add(bits_of(element));
}
void add_element(Text element, Hash* hash) {
  const std::string_view text = element.view();
  hash->add(text.size());
  for (size_t i = 0; i < text.size(); i += sizeof(uint64_t)) {
    uint64_t bits = 0;
    std::memcpy(&bits, text.data() + i, std::min(sizeof bits, text.size() - i));
    hash->add(bits);
  }
}

// Numbers groups of equal items, rows of `width` elements, in the order of their first ones.
template <typename T>
void group_equal(const T* x, int64_t n, int64_t width, std::vector<int64_t>* group,
                 std::vector<int64_t>* first) {
  const auto hash_of = [&](int64_t item) {
    Hash hash;
    for (int64_t i = 0; i < width; ++i) add_element(x[item * width + i], &hash);
    return static_cast<size_t>(hash.get());
  };
  const auto equal = [&](int64_t a, int64_t b) {
    return std::equal(x + a * width, x + (a + 1) * width, x + b * width,
                      [](T left, T right) { return equal_elements(left, right); });
  };
  std::vector<int64_t> table(64, -1);  // Groups, each at its hash or at the next free place.
  const auto place_of = [&](int64_t item) {
    size_t place = hash_of(item) & (table.size() - 1);
    while (table[place] >= 0 && !equal((*first)[static_cast<size_t>(table[place])], item)) {
      place = (place + 1) & (table.size() - 1);
    }
    return place;
  };
  for (int64_t item = 0; item < n; ++item) {
    const size_t place = place_of(item);
    if (table[place] < 0) {
      table[place] = static_cast<int64_t>(first->size());
      first->push_back(item);
      (*group)[static_cast<size_t>(item)] = table[place];
      if (2 * first->size() > table.size()) {
        table.assign(4 * table.size(), -1);
        for (size_t g = 0; g < first->size(); ++g) table[place_of((*first)[g])] = static_cast<int64_t>(g);
      }
    } else {
      (*group)[static_cast<size_t>(item)] = table[place];
    }
  }
}

void unique(Run& run) {
  const Desc in = run.in(0);
  const bool flat = !run.node.has("axis");
  int64_t axis = flat ? 0 : run.node.i("axis", 0);
  axis += axis < 0 ? static_cast<int64_t>(in.rank()) : 0;
  if (!flat && (axis < 0 || axis >= static_cast<int64_t>(in.rank()))) {
    run.invalid("the axis is not one of the input");
  }
  const size_t at = static_cast<size_t>(axis);
  // Items are rows of a matrix: of one element each, or slices along the axis.
  Dims dims = flat ? Dims{in.count()} : in.dims, strides = strides_of(dims);
  const Dims whole = dims;
  for (Dims* list : {&dims, &strides}) {
    std::rotate(list->begin(), list->begin() + static_cast<ptrdiff_t>(at),
                list->begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  const int64_t n = dims[0], width = count(dims, 1, dims.size());
  const size_t size = size_of(in.type);
  const StridedCopy turn(size, dims, strides, strides_of(dims));
  TensorPtr turned;
  if (!turn.is_run()) {
    turned = make_tensor(in.type, dims);
    turn(run.data(0), mutable_data(turned));
  }
  const void* const rows = turned == nullptr ? run.data(0) : turned->data;

  std::vector<int64_t> group(static_cast<size_t>(n));
  std::vector<int64_t> first, counts;  // Of each group of equal items.
  const auto find = [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(rows);
    group_equal(x, n, width, &group, &first);
    if (run.node.i("sorted", 1) != 1) return;  // They are in the order of their first items.
    std::vector<int64_t> place(first.size()), rank(first.size());
    std::iota(place.begin(), place.end(), 0);
    std::sort(place.begin(), place.end(), [&](int64_t a, int64_t b) {
      const T* left = x + first[static_cast<size_t>(a)] * width;
      const T* right = x + first[static_cast<size_t>(b)] * width;
      return std::lexicographical_compare(left, left + width, right, right + width,
                                          [](T one, T other) { return before(one, other); });
    });
    const std::vector<int64_t> unsorted = first;
    for (size_t i = 0; i < place.size(); ++i) {
      rank[static_cast<size_t>(place[i])] = static_cast<int64_t>(i);
      first[i] = unsorted[static_cast<size_t>(place[i])];
    }
    for (int64_t& g : group) g = rank[static_cast<size_t>(g)];
  };
  in.type == DType::kString ? find(Text{}) : with_type(in.type, find);
  counts.resize(first.size());
  for (const int64_t g : group) ++counts[static_cast<size_t>(g)];
  if (run.wants(0)) {
    Dims to = whole;
    to[at] = static_cast<int64_t>(first.size());
    char* y = static_cast<char*>(run.out(0, in.type, to));
    const Dims out_strides = strides_of(to);
    Dims item = whole;
    item[at] = 1;
    if (flat) {
      with_size(size, [&](auto bits) {
        using T = decltype(bits);
        std::transform(first.begin(), first.end(), reinterpret_cast<T*>(y),
                       [x = run.as<T>(0)](int64_t i) { return x[i]; });
      });
    }
    for (size_t g = 0; !flat && g < first.size(); ++g) {
      StridedCopy(size, item, strides_of(whole), out_strides, first[g] * strides_of(whole)[at],
                  static_cast<int64_t>(g) * out_strides[at])(run.data(0), y);
    }
  }
  int o = 1;
  for (const std::vector<int64_t>* list : {&first, &group, &counts}) {
    if (run.wants(o)) {
      int64_t* y = static_cast<int64_t*>(run.out(o, DType::kInt64, {static_cast<int64_t>(list->size())}));
      std::copy(list->begin(), list->end(), y);
    }
    ++o;
  }
}

// ---- NonMaxSuppression

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

Box box_of(const float* raw, bool center) {
  if (center) {  // x, y, width, height
    return {raw[1] - raw[3] / 2, raw[0] - raw[2] / 2, raw[1] + raw[3] / 2, raw[0] + raw[2] / 2};
  }
  return {std::min(raw[0], raw[2]), std::min(raw[1], raw[3]), std::max(raw[0], raw[2]),
          std::max(raw[1], raw[3])};
}

// Boxes that have been chosen, of which some are compared with another one at once.
class Boxes {
 public:
  size_t size() const { return size_; }
  void clear() {
    size_ = 0;
    groups_.clear();
  }
  void add(const Box& box) {
    const size_t at = size_++ % kTogether;
    if (at == 0) {
      constexpr float kFar = std::numeric_limits<float>::infinity();
      Group& made = groups_.emplace_back();
      for (size_t i = 0; i < kTogether; ++i) {  // Boxes that have nothing in common with any.
        made.top[i] = made.left[i] = kFar;
        made.bottom[i] = made.right[i] = -kFar;
        made.area[i] = 0;
      }
    }
    Group& group = groups_.back();
    group.top[at] = box.top;
    group.left[at] = box.left;
    group.bottom[at] = box.bottom;
    group.right[at] = box.right;
    group.area[at] = box.area();
  }
  bool any_overlaps(const Box& box, float threshold) const {
    const float area = box.area();
    for (const Group& group : groups_) {
      int32_t any = 0;
      for (size_t i = 0; i < kTogether; ++i) {
        const float height = std::min(box.bottom, group.bottom[i]) - std::max(box.top, group.top[i]);
        const float width = std::min(box.right, group.right[i]) - std::max(box.left, group.left[i]);
        const float common = height * width;
        any |= static_cast<int32_t>(height > 0) & static_cast<int32_t>(width > 0) &
               static_cast<int32_t>(common > threshold * (area + group.area[i] - common));
      }
      if (any != 0) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kTogether = 16;
  struct Group {
    float top[kTogether], left[kTogether], bottom[kTogether], right[kTogether], area[kTogether];
  };
  std::vector<Group> groups_;
  size_t size_ = 0;
};

// Boxes in the order of their scores, the greatest first, and of equal scores the first. As many are sorted
// as are asked for, and not many more.
class ByScore {
 public:
  // Those whose score is greater than `least`, or all if that is null; a box whose score is NaN is none.
  void fill(const float* scores, int64_t n, const float* least) {
    keys_.resize(static_cast<size_t>(n) + 1);
    size_ = sorted_ = 0;
    step_ = 64;
    for (int64_t i = 0; i < n; ++i) {  // Without a branch, which nobody could foretell.
      keys_[size_] = key_of(scores[i], i);
      size_ += least != nullptr ? scores[i] > *least : scores[i] == scores[i];
    }
  }
  size_t size() const { return size_; }
  // Box number i in that order; i grows by one from call to call.
  int64_t operator[](size_t i) {
    if (i == sorted_) {
      const auto begin = keys_.begin() + static_cast<ptrdiff_t>(sorted_);
      const auto end = keys_.begin() + static_cast<ptrdiff_t>(size_);
      sorted_ = std::min(size_, sorted_ + step_);
      const auto stop = keys_.begin() + static_cast<ptrdiff_t>(sorted_);
      step_ *= 2;
      if (stop != end) std::nth_element(begin, stop, end);
      std::sort(begin, stop);
    }
    return static_cast<int64_t>(keys_[i] & UINT32_MAX);
  }

 private:
  // The smaller, the earlier.
  static uint64_t key_of(float score, int64_t i) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 is 0.
    const uint32_t rising = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
    return static_cast<uint64_t>(~rising) << 32 | static_cast<uint64_t>(i);
  }
  std::vector<uint64_t> keys_;
  size_t size_ = 0, sorted_ = 0, step_ = 0;
};

void non_max_suppression(Run& run) {
  const Desc &boxes = run.in(0), &scores = run.in(1);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dims[2] != 4 || boxes.dims[0] != scores.dims[0] ||
      boxes.dims[1] != scores.dims[2]) {
    run.invalid("boxes and scores of shapes " + to_string(boxes.dims) + " and " + to_string(scores.dims));
  }
  const int64_t batch = boxes.dims[0], n = boxes.dims[1], classes = scores.dims[1];
  const auto option = [&](int i) { return run.has(i) && run.in(i).count() > 0; };
  const int64_t most = option(2) ? run.as<int64_t>(2)[0] : 0;
  const float threshold = option(3) ? run.as<float>(3)[0] : 0;
  if (!(threshold >= 0 && threshold <= 1)) {
    run.invalid("the threshold of overlaps is " + std::to_string(threshold) + ", and not within 0 and 1");
  }
  const bool has_least = option(4);
  const float least = has_least ? run.as<float>(4)[0] : 0;
  const int64_t center = run.node.i("center_point_box", 0);
  if ((center | 1) != 1) run.invalid("center_point_box is " + std::to_string(center) + ", and not 0 or 1");
  std::vector<int64_t> chosen;
  if (n > UINT32_MAX) run.invalid("there are more than 2^32 boxes");
  std::vector<Box> all(static_cast<size_t>(n));
  Boxes kept;
  ByScore order;
  for (int64_t b = 0; b < batch && most > 0; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      all[static_cast<size_t>(i)] = box_of(run.as<float>(0) + (b * n + i) * 4, center);
    }
    for (int64_t c = 0; c < classes; ++c) {
      const float* score = run.as<float>(1) + (b * classes + c) * n;
      order.fill(score, n, has_least ? &least : nullptr);
      kept.clear();
      for (size_t place = 0; place < order.size() && static_cast<int64_t>(kept.size()) < most; ++place) {
        const int64_t i = order[place];
        const Box& box = all[static_cast<size_t>(i)];
        if (kept.any_overlaps(box, threshold)) continue;
        kept.add(box);
        chosen.insert(chosen.end(), {b, c, i});
      }
    }
  }
  int64_t* y = static_cast<int64_t*>(run.out(0, DType::kInt64, {static_cast<int64_t>(chosen.size()) / 3, 3}));
  std::copy(chosen.begin(), chosen.end(), y);
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "NonZero", .run = non_zero});
  registry->add({.type = "Compress", .run = compress, .types = kAny | kText});
  registry->add({.type = "TopK", .prepare = with_halves(top_k), .types = kNumbers});
  registry->add({.type = "Unique", .run = unique, .types = kAny | kText});
  registry->add({.type = "NonMaxSuppression", .run = non_max_suppression});
});

}  // namespace ephost::cpu
