// Operators that read or write where indices say.
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>

#include "cpu/engines/indices.h"
#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

constexpr Types kIndex{DType::kInt32, DType::kInt64};

std::string index_type(const Node& node) {
  const Value* indices = node.in(1);
  return indices != nullptr && indices->type != DType::kUndefined && !kIndex.has(indices->type)
             ? "'" + indices->name + "' has the type " + name_of(indices->type)
             : "";
}

// ---- Gather

Kernel gather(Prepare& p) {
  const Dims& from = p.dims(0);
  const size_t axis = p.axis(p.node.i("axis", 0), from.size());
  const Dims& where = p.dims(1);
  Dims to(from.begin(), from.begin() + static_cast<ptrdiff_t>(axis));
  to.insert(to.end(), where.begin(), where.end());
  to.insert(to.end(), from.begin() + static_cast<ptrdiff_t>(axis) + 1, from.end());
  const Desc out = p.out(0, p.type(0), to);
  const int64_t outer = count(from, 0, axis), n = from[axis], m = p.in(1).count();
  const int64_t bytes = count(from, axis + 1, from.size()) * static_cast<int64_t>(size_of(p.type(0)));
  const bool wide = p.type(1) == DType::kInt64;
  if (out.count() > 0) {
    p.expect(n > 0, "the axis has no elements");
  }
  // Indices that are known are looked at now.
  if (p.content(1) != nullptr && outer == 1 && m == 1 && out.count() > 0) {
    std::atomic<bool> bad{false};
    const int64_t index = wrapped(p.ints(1)[0], n, &bad);
    p.expect(!bad, "an index is beyond its axis");
    p.alias(0, 0, static_cast<size_t>(index * bytes));
    return nullptr;
  }
  p.scratch(static_cast<size_t>(m) * sizeof(int64_t));
  return [=, label = p.node.label()](const Args& args) {
    std::atomic<bool> bad{false};
    int64_t* offsets = args.scratch<int64_t>();
    for (int64_t i = 0; i < m; ++i) {
      offsets[i] = wrapped(index_at(args.in(1), wide, i), n, &bad) * bytes;
    }
    if (bad && outer * bytes > 0) {
      beyond(label);
    }
    const char* x = args.in<char>(0);
    char* y = args.out<char>();
    parallel_for(outer * m, 1 + 4 * kGrain / (bytes + 8), [&](int64_t begin, int64_t end) {
      const auto each = [&](auto copy) {
        int64_t k = begin % m;
        const char* row = x + begin / m * n * bytes;
        for (int64_t i = begin; i < end; ++i) {
          copy(row + offsets[k], y + i * bytes);
          if (++k == m) {
            k = 0;
            row += n * bytes;
          }
        }
      };
      switch (bytes) {
        case 1:
          return each([](const char* a, char* b) { *b = *a; });
        case 4:
          return each([](const char* a, char* b) { std::memcpy(b, a, 4); });
        case 8:
          return each([](const char* a, char* b) { std::memcpy(b, a, 8); });
        default:
          return each([bytes](const char* a, char* b) { std::memcpy(b, a, static_cast<size_t>(bytes)); });
      }
    });
  };
}

// ---- GatherElements, ScatterElements

// Goes through the elements of an index tensor row by row. The element at (i, j, ...) belongs to the one of
// the data at the same place, except along `axis`, where the index says.
struct ElementWalk {
  Dims data, index;
  Dims strides;  // Of the data.
  size_t axis = 0;
  bool wide = true;
  int64_t rows = 0, columns = 0;

  ElementWalk(Prepare& p, const Dims& of_data, const Dims& of_index, size_t along)
      : data(of_data), index(of_index), strides(strides_of(of_data)), axis(along) {
    p.expect(data.size() == index.size() && !data.empty(), "data and indices do not have as many dimensions");
    for (size_t d = 0; d < data.size(); ++d) {
      p.expect(d == axis || index[d] <= data[d], "indices are larger than the data");
    }
    wide = p.type(1) == DType::kInt64;
    columns = index.back();
    rows = count(index, 0, index.size() - 1);
  }

  // Calls visit(number of the index, offset of the data's element) for these rows, up to an index that is
  // beyond the axis, if there is one.
  template <typename Visit>
  void operator()(const void* indices, int64_t begin, int64_t end, std::atomic<bool>* bad,
                  const Visit& visit) const {
    const bool inside = wide ? walk(static_cast<const int64_t*>(indices), begin, end, visit)
                             : walk(static_cast<const int32_t*>(indices), begin, end, visit);
    if (!inside) bad->store(true, std::memory_order_relaxed);
  }

 private:
  template <typename Index, typename Visit>
  bool walk(const Index* indices, int64_t begin, int64_t end, const Visit& visit) const {
    const int64_t n = data[axis], step = strides[axis];
    for (int64_t row = begin; row < end; ++row) {
      int64_t base = 0, rest = row;
      for (size_t d = index.size() - 1; d-- > 0;) {
        if (d != axis) base += rest % index[d] * strides[d];
        rest /= index[d];
      }
      const auto each = [&](const auto& place) {
        for (int64_t i = row * columns, c = 0; c < columns; ++i, ++c) {
          int64_t index = indices[i];
          index += index < 0 ? n : 0;
          if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(n)) return false;
          visit(i, place(index, c));
        }
        return true;
      };
      const bool inside = axis + 1 == data.size()
                              ? each([=](int64_t index, int64_t) { return base + index; })
                              : each([=](int64_t index, int64_t c) { return base + c + index * step; });
      if (!inside) return false;
    }
    return true;
  }
};

Kernel gather_elements(Prepare& p) {
  const size_t axis = p.axis(p.node.i("axis", 0), p.in(0).rank());
  const ElementWalk walk(p, p.dims(0), p.dims(1), axis);
  const int64_t total = p.out(0, p.type(0), p.dims(1)).count();
  p.expect(total == 0 || p.in(0).count() > 0, "the data has no elements");
  const size_t size = size_of(p.type(0));
  return [=, label = p.node.label()](const Args& args) {
    std::atomic<bool> bad{false};
    with_size(size, [&](auto bits) {
      using T = decltype(bits);
      const T* x = args.in<T>(0);
      T* y = args.out<T>();
      parallel_for(total == 0 ? 0 : walk.rows, 1 + kGrain / (walk.columns + 1),
                   [&](int64_t begin, int64_t end) {
                     walk(args.in(1), begin, end, &bad, [&](int64_t i, int64_t at) { y[i] = x[at]; });
                   });
    });
    if (bad) beyond(label);
  };
}

enum class Reduction { kNone, kAdd, kMul, kMin, kMax };

Reduction reduction_of(const Node& node) {
  const std::string name = node.s("reduction", "none");
  return name == "add"   ? Reduction::kAdd
         : name == "mul" ? Reduction::kMul
         : name == "min" ? Reduction::kMin
         : name == "max" ? Reduction::kMax
                         : Reduction::kNone;
}

std::string reduction_is_known(const Node& node) {
  const std::string name = node.s("reduction", "none");
  if (name != "none" && node.in(0) != nullptr && node.in(0)->type == DType::kString) {
    return "reduction '" + name + "' of strings";
  }
  return name == "none" || reduction_of(node) != Reduction::kNone ? index_type(node)
                                                                  : "reduction '" + name + "'";
}

// Calls function(combine) with combine(T old, T new) -> T.
template <typename T, typename Function>
void with_reduction(Reduction reduction, Function&& function) {
  using A = arithmetic_t<T>;
  const auto cast = [](A value) { return static_cast<T>(value); };
  switch (reduction) {
    case Reduction::kAdd:
      return function([=](T a, T b) { return cast(static_cast<A>(A(a) + A(b))); });
    case Reduction::kMul:
      return function([=](T a, T b) { return cast(static_cast<A>(A(a) * A(b))); });
    case Reduction::kMin:
      return function([=](T a, T b) {
        // One instruction, which takes a where either is not a number; the branch is hardly ever taken.
        const T smaller = A(b) < A(a) ? b : a;
        return A(b) != A(b) ? b : smaller;
      });
    case Reduction::kMax:
      return function([=](T a, T b) {
        const T larger = A(b) > A(a) ? b : a;
        return A(b) != A(b) ? b : larger;
      });
    default:
      return function([](T, T b) { return b; });
  }
}

// Calls function(combine, T{}) with the data's type, or with one of its size where nothing is computed.
template <typename Function>
void with_update(DType type, Reduction reduction, Function&& function) {
  if (reduction == Reduction::kNone) {
    return with_size(size_of(type), [&](auto bits) {
      using T = decltype(bits);
      function([](T, T b) { return b; }, T{});
    });
  }
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    with_reduction<T>(reduction, [&](auto combine) { function(combine, T{}); });
  });
}

Kernel scatter_elements(Prepare& p) {
  const size_t axis = p.axis(p.node.i("axis", 0), p.in(0).rank());
  const ElementWalk walk(p, p.dims(0), p.dims(1), axis);
  p.expect(p.dims(1) == p.dims(2), "indices and updates have different shapes");
  const Desc out = p.out(0, p.type(0), p.dims(0));
  p.in_place(0, 0);
  const int64_t total = p.in(1).count();
  p.expect(total == 0 || out.count() > 0, "the data has no elements");
  const Reduction reduction = reduction_of(p.node);
  return [=, label = p.node.label()](const Args& args) {
    if (args.in(0) != args.out() && out.bytes() > 0) {
      std::memcpy(args.out(), args.in(0), out.bytes());
    }
    if (total == 0) return;
    std::atomic<bool> bad{false};
    with_update(out.type, reduction, [&](auto combine, auto zero) {
      using T = decltype(zero);
      T* y = args.out<T>();
      const T* updates = args.in<T>(2);
      walk(args.in(1), 0, walk.rows, &bad,
           [&](int64_t i, int64_t at) { y[at] = combine(y[at], updates[i]); });
    });
    if (bad) beyond(label);
  };
}

// ---- GatherND, ScatterND

// The last dimension of the indices names a place in the data's dimensions after the first `batch` ones.
struct TupleWalk {
  int64_t tuples = 0, length = 0;           // Of indices in all, and of each.
  int64_t per_batch = 1, batch_stride = 0;  // Tuples of one batch, elements of the data in it.
  Dims dims, strides;                       // Of the data, for each entry of a tuple.
  int64_t slice = 1;                        // Elements that one tuple names.

  TupleWalk(Prepare& p, const Dims& data, const Dims& index, size_t batch) {
    // Tuples of nothing name all of the data, be it a number.
    p.expect(batch < index.size() && (batch < data.size() || batch == 0),
             "the indices or the data have too few dimensions");
    length = index.back();
    p.expect(length >= 0 && batch + static_cast<size_t>(length) <= data.size(),
             "an index has more entries than the data has dimensions");
    tuples = count(index, 0, index.size() - 1);
    per_batch = count(index, batch, index.size() - 1);
    batch_stride = count(data, batch, data.size());
    for (size_t d = 0; d < batch; ++d) {
      p.expect(data[d] == index[d], "data and indices have different batches");
    }
    const Dims all = strides_of(data);
    const auto begin = static_cast<ptrdiff_t>(batch), end = begin + static_cast<ptrdiff_t>(length);
    dims.assign(data.begin() + begin, data.begin() + end);
    strides.assign(all.begin() + begin, all.begin() + end);
    slice = count(data, static_cast<size_t>(end), data.size());
  }
  // The first element that tuple i names.
  template <typename I>
  int64_t offset(const I* indices, int64_t i, std::atomic<bool>* bad) const {
    int64_t at = i / per_batch * batch_stride;
    for (int64_t k = 0; k < length; ++k) {
      const size_t d = static_cast<size_t>(k);
      at += wrapped(indices[i * length + k], dims[d], bad) * strides[d];
    }
    return at;
  }
};

std::string wide_indices(const Node& node) {
  const Value* indices = node.in(1);
  const bool known = indices != nullptr && indices->type != DType::kUndefined;
  // com.microsoft's may be shorter.
  const bool fits =
      !known || indices->type == DType::kInt64 || (!node.domain.empty() && indices->type == DType::kInt32);
  return fits ? reduction_is_known(node) : "indices that are not int64";
}

Kernel gather_nd(Prepare& p) {
  const int64_t batch = p.node.i("batch_dims", 0);
  p.expect(batch >= 0, "batch_dims is negative");
  const Dims &data = p.dims(0), &index = p.dims(1);
  const TupleWalk walk(p, data, index, static_cast<size_t>(batch));
  Dims to(index.begin(), index.end() - 1);
  to.insert(to.end(), data.begin() + static_cast<ptrdiff_t>(batch + walk.length), data.end());
  p.out(0, p.type(0), to);
  const int64_t size = static_cast<int64_t>(size_of(p.type(0))), bytes = walk.slice * size;
  return [=, short_ones = p.type(1) == DType::kInt32, label = p.node.label()](const Args& args) {
    std::atomic<bool> bad{false};
    parallel_for(bytes == 0 ? 0 : walk.tuples, 1 + kGrain / (bytes + 1), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const int64_t at = short_ones ? walk.offset(args.in<int32_t>(1), i, &bad)
                                      : walk.offset(args.in<int64_t>(1), i, &bad);
        if (bad.load(std::memory_order_relaxed)) return;
        std::memcpy(args.out<char>() + i * bytes, args.in<char>(0) + at * size, static_cast<size_t>(bytes));
      }
    });
    if (bad) beyond(label);
  };
}

Kernel scatter_nd(Prepare& p) {
  const Dims &data = p.dims(0), &index = p.dims(1);
  const TupleWalk walk(p, data, index, 0);
  Dims updates(index.begin(), index.end() - 1);
  updates.insert(updates.end(), data.begin() + static_cast<ptrdiff_t>(walk.length), data.end());
  p.expect(p.dims(2) == updates, "the updates do not fit the indices");
  const Desc out = p.out(0, p.type(0), data);
  p.in_place(0, 0);
  const Reduction reduction = reduction_of(p.node);
  return [=, label = p.node.label()](const Args& args) {
    if (args.in(0) != args.out() && out.bytes() > 0) {
      std::memcpy(args.out(), args.in(0), out.bytes());
    }
    if (walk.slice == 0) return;
    std::atomic<bool> bad{false};
    with_update(out.type, reduction, [&](auto combine, auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < walk.tuples; ++i) {
        const int64_t at = walk.offset(args.in<int64_t>(1), i, &bad);
        if (bad) return;
        T* y = args.out<T>() + at;
        const T* updates = args.in<T>(2) + i * walk.slice;
        if (reduction == Reduction::kNone) {
          std::copy_n(updates, walk.slice, y);
          continue;
        }
        for (int64_t k = 0; k < walk.slice; ++k) y[k] = combine(y[k], updates[k]);
      }
    });
    if (bad) beyond(label);
  };
}

// Puts an update of some steps along an axis into each batch of a cache, from where write_indices say; the
// cache may be a ring.
Kernel tensor_scatter(Prepare& p) {
  const Dims &cache = p.dims(0), &update = p.dims(1);
  const size_t axis = p.axis(p.node.i("axis", -2), cache.size());
  p.expect(axis > 0 && update.size() == cache.size(), "the axis is the batch's, or the update does not fit");
  for (size_t d = 0; d < cache.size(); ++d) {
    p.expect(d == axis ? update[d] <= cache[d] : update[d] == cache[d], "the update does not fit the cache");
  }
  const std::string mode = p.node.s("mode", "linear");
  p.expect(mode == "linear" || mode == "circular", "mode is neither linear nor circular");
  const bool ring = mode == "circular", has_indices = p.has(2);
  p.expect(!has_indices || p.dims(2) == Dims{cache[0]}, "write_indices are not one for each batch");
  const Desc out = p.out(0, p.type(0), cache);
  p.in_place(0, 0);
  const int64_t batch = cache[0], middle = count(cache, 1, axis), room = cache[axis], steps = update[axis];
  const int64_t bytes = count(cache, axis + 1, cache.size()) * static_cast<int64_t>(size_of(p.type(0)));
  return [=, label = p.node.label()](const Args& args) {
    if (args.in(0) != args.out() && out.bytes() > 0) {
      std::memcpy(args.out(), args.in(0), out.bytes());
    }
    for (int64_t b = 0; b < batch; ++b) {
      int64_t first = has_indices ? args.in<int64_t>(2)[b] : 0;
      if (first < 0 || (!ring && first > room - steps)) {
        beyond(label);
      }
      if (room > 0) first %= room;
      for (int64_t m = 0; m < middle; ++m) {
        for (int64_t s = 0; s < steps; ++s) {
          std::memcpy(args.out<char>() + ((b * middle + m) * room + (first + s) % room) * bytes,
                      args.in<char>(1) + ((b * middle + m) * steps + s) * bytes, static_cast<size_t>(bytes));
        }
      }
    }
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Gather", .supports = index_type, .prepare = gather, .types = kAny | kText});
  registry->add(
      {.type = "GatherElements", .supports = index_type, .prepare = gather_elements, .types = kAny | kText});
  registry->add({.type = "ScatterElements",
                 .supports = reduction_is_known,
                 .prepare = scatter_elements,
                 .types = kAny | kText});
  registry->add({.type = "Scatter",
                 .supports = reduction_is_known,
                 .prepare = scatter_elements,
                 .types = kAny | kText});
  for (const char* domain : {"", "com.microsoft"}) {  // there for old exporters
    registry->add({.domain = domain,
                   .type = "GatherND",
                   .supports = wide_indices,
                   .prepare = gather_nd,
                   .types = kAny | kText});
  }
  registry->add(
      {.type = "ScatterND", .supports = wide_indices, .prepare = scatter_nd, .types = kAny | kText});
  registry->add({.type = "TensorScatter", .prepare = tensor_scatter});
});

}  // namespace ephost::cpu
