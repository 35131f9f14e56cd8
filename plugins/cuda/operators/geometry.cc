#include "cuda/operators/geometry.h"

#include <algorithm>

namespace ephost::cuda {

size_t axis_of(int64_t axis, size_t rank) {
  const int64_t own = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (own < 0 || own >= static_cast<int64_t>(rank)) {
    invalid("axis " + std::to_string(axis) + " of " + std::to_string(rank) + " dimensions");
  }
  return static_cast<size_t>(own);
}

std::vector<int64_t> axes_of(Planner& planner, const Node& node) {
  return node.in(1) != nullptr ? planner.content(node.in(1)) : node.ints("axes");
}

std::vector<int64_t> strides_of(const Dims& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * dims[d];
  }
  return strides;
}

Dims broadcast(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      invalid("shapes " + to_string(a) + " and " + to_string(b) + " do not fit");
    }
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

int32_t narrow(int64_t number) {
  if (number > INT32_MAX) {
    unsupported("a row of more than 2^31 elements");
  }
  return static_cast<int32_t>(number);
}

}  // namespace ephost::cuda
