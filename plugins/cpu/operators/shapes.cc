// Operators that compute shapes, or only rename memory.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "cpu/operator.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

Kernel reshape(Prepare& p) {
  Ints to = p.node.version < 5 ? p.node.ints("shape") : p.ints(1);
  const Dims& from = p.dims(0);
  const bool zero_means_zero = p.node.i("allowzero", 0) == 1;
  int64_t known = 1;
  ptrdiff_t open = -1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !zero_means_zero) {
      p.expect(i < from.size(), "the shape has a 0 for a dimension that the input does not have");
      to[i] = from[i];
    }
    if (to[i] == -1) {
      p.expect(open < 0, "the shape has more than one -1");
      open = static_cast<ptrdiff_t>(i);
    } else {
      p.expect(to[i] >= 0, "the shape has a negative dimension");
      p.expect(!__builtin_mul_overflow(known, to[i], &known), "the shape has more elements than memory");
    }
  }
  int64_t total = p.in(0).count();
  if (open >= 0 && zero_means_zero && known == 0 && total == 0) {
    // The standard rules it out, but exporters write it for batches of any size, and onnxruntime takes it:
    // what is left follows from the other dimensions.
    const auto without_zeros = [](const Dims& dims) {
      return std::accumulate(dims.begin(), dims.end(), int64_t{1},
                             [](int64_t product, int64_t dim) { return dim > 0 ? product * dim : product; });
    };
    known = without_zeros(to);
    total = without_zeros(from);
  }
  if (open >= 0) {
    p.expect(known > 0 && total % known == 0, "the shape does not fit the number of elements");
    to[static_cast<size_t>(open)] = total / known;
  } else if (known != total) {
    p.invalid("shape " + to_string(to) + " for a tensor of shape " + to_string(from));
  }
  p.out(0, p.type(0), to);
  p.alias(0, 0);
  return nullptr;
}

Kernel rename(Prepare& p, const Dims& dims) {
  p.out(0, p.type(0), dims);
  p.alias(0, 0);
  return nullptr;
}

Kernel squeeze(Prepare& p) {
  Ints axes = p.node.ints("axes");
  if (p.node.version >= 13 && p.has(1)) {
    axes = p.ints(1);
  }
  const Dims& from = p.dims(0);
  std::vector<bool> drop(from.size(), false);
  for (size_t i = 0; i < from.size() && axes.empty(); ++i) {
    drop[i] = from[i] == 1;
  }
  for (int64_t axis : axes) {
    const size_t i = p.axis(axis, from.size());
    p.expect(from[i] == 1, "a dimension to squeeze is not 1");
    drop[i] = true;
  }
  Dims to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!drop[i]) to.push_back(from[i]);
  }
  return rename(p, to);
}

Kernel unsqueeze(Prepare& p) {
  p.expect(p.node.version < 13 || p.dims(1).size() <= 1, "the axes are not a list");
  const Ints axes = p.node.version < 13 ? p.node.ints("axes") : p.ints(1);
  const Dims& from = p.dims(0);
  Dims to(from.size() + axes.size(), 0);
  for (int64_t axis : axes) {
    const size_t i = p.axis(axis, to.size());
    p.expect(to[i] == 0, "an axis is named twice");
    to[i] = 1;
  }
  size_t next = 0;
  std::vector<bool> added(to.size());
  for (size_t i = 0; i < to.size(); ++i) added[i] = to[i] == 1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!added[i]) to[i] = from[next++];
  }
  return rename(p, to);
}

// com.microsoft's: one axis, which is a number.
Kernel expand_dims(Prepare& p) {
  p.expect(p.in(1).count() == 1, "the axis is not one number");
  Dims to = p.dims(0);
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(p.axis(p.integer(1), to.size() + 1)), 1);
  return rename(p, to);
}

Kernel flatten(Prepare& p) {
  const Dims& from = p.dims(0);
  const int64_t rank = static_cast<int64_t>(from.size());
  int64_t axis = p.node.i("axis", 1);
  axis += axis < 0 ? rank : 0;
  p.expect(axis >= 0 && axis <= rank, "the axis is not one of the input");
  const size_t at = static_cast<size_t>(axis);
  return rename(p, {count(from, 0, at), count(from, at, from.size())});
}

Kernel shape(Prepare& p) {
  const Dims& dims = p.dims(0);
  const int64_t rank = static_cast<int64_t>(dims.size());
  const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t start = clamp(p.node.i("start", 0)), end = std::max(start, clamp(p.node.i("end", rank)));
  const std::vector<int64_t> part(dims.begin() + start, dims.begin() + end);
  p.give(0, make_tensor<int64_t>(DType::kInt64, {end - start}, part));
  return nullptr;
}

// The same bits under another type, of as many bytes.
DType cast_type(const Node& node) {
  const int64_t number = node.i("to", 0);
  return number > 0 && number < 64 ? static_cast<DType>(number) : DType::kUndefined;
}

std::string bits_fit(const Node& node) {
  const size_t from = size_of(node.in(0)->type), to = size_of(cast_type(node));
  return from == to && from != 0 ? "" : "types of another size";
}

Kernel bit_cast(Prepare& p) {
  p.expect(size_of(p.type(0)) == size_of(cast_type(p.node)), "the types have different sizes");
  p.out(0, cast_type(p.node), p.dims(0));
  p.alias(0, 0);
  return nullptr;
}

// Dropout with a mask, which says that nothing is left out; without one it is elementwise, see lower.cc.
std::string supports_mask(const Node& node) {
  if (node.out(1) == nullptr) return "it has no mask";
  const Value* training = node.version >= 12 ? node.in(2) : nullptr;
  if (training != nullptr && (training->constant == nullptr || *training->constant->as<bool>())) {
    return "training is not supported";
  }
  return node.version < 10 ? "a mask that is not of bools" : "";
}

Kernel dropout_mask(Prepare& p) {
  const size_t elements = static_cast<size_t>(p.in(0).count());
  if (p.wants(0)) {
    p.out(0, p.type(0), p.dims(0));
    p.alias(0, 0);
  }
  p.out(1, DType::kBool, p.dims(0));
  return [elements](const Args& args) { std::memset(args.out(1), 1, elements); };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Reshape", .prepare = reshape, .types = kAny | kText});
  registry->add({.type = "Squeeze", .prepare = squeeze, .types = kAny | kText});
  registry->add({.type = "Unsqueeze", .prepare = unsqueeze, .types = kAny | kText});
  registry->add(
      {.domain = "com.microsoft", .type = "ExpandDims", .prepare = expand_dims, .types = kAny | kText});
  registry->add({.type = "Flatten", .prepare = flatten, .types = kAny | kText});
  registry->add({.type = "Identity",
                 .prepare = [](Prepare& p) { return rename(p, p.dims(0)); },
                 .types = kAny | kText});
  registry->add({.type = "BitCast", .supports = bits_fit, .prepare = bit_cast});
  registry->add({.type = "Dropout", .supports = supports_mask, .prepare = dropout_mask, .min_version = 7});
  registry->add({.type = "Shape", .prepare = shape, .types = kAny | kText});
  registry->add({.type = "Size",
                 .prepare = [](Prepare& p) -> Kernel {
                   p.give(0, make_tensor<int64_t>(DType::kInt64, {}, {p.in(0).count()}));
                   return nullptr;
                 },
                 .types = kAny | kText});
});

}  // namespace ephost::cpu
