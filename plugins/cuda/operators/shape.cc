/* Shapes, and the same elements under other dimensions: nothing of this runs on the device. */
#include <algorithm>

#include "cuda/operators/checks.h"
#include "cuda/operators/geometry.h"

namespace ephost::cuda {

namespace {

std::string dropout(const Node& node) {
  if (node.in(2) != nullptr) {
    return "a training mode that is an input";
  }
  return first_output_only(node);
}

std::string anything(const Node&) { return ""; }

void plan_shape(Planner& planner, const Node& node) {
  const Dims& dims = planner.dims(node.in(0));
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (node.is("Size")) {
    planner.give(node.out(), {}, {ephost::count(dims)});
    return;
  }
  int64_t start = node.i("start", 0), end = node.i("end", rank);
  start = std::clamp(start < 0 ? start + rank : start, int64_t{0}, rank);
  end = std::clamp(end < 0 ? end + rank : end, int64_t{0}, rank);
  std::vector<int64_t> out;
  if (start < end) {
    out.assign(dims.begin() + start, dims.begin() + end);
  }
  planner.give(node.out(), {static_cast<int64_t>(out.size())}, out);
}

void rename(Planner& planner, const Node& node, const Dims& dims) {
  const Value* in = node.in(0);
  if (ephost::count(dims) != ephost::count(planner.dims(in))) {
    invalid(to_string(planner.dims(in)) + " has not as many elements as " + to_string(dims));
  }
  if (kInteger.has(planner.type(in)) && planner.has_content(in)) {
    planner.give(node.out(), dims, planner.content(in));
  } else {
    planner.alias(node.out(), in, dims);
  }
}

void plan_reshape(Planner& planner, const Node& node) {
  const Dims& from = planner.dims(node.in(0));
  Dims dims = planner.content(node.in(1));
  const bool zero_is_zero = node.i("allowzero", 0) == 1;
  int64_t product = 1;
  size_t open = dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !zero_is_zero) {
      dims[i] = i < from.size() ? from[i] : 0;
    }
    if (dims[i] == -1) {
      open = i;
    } else {
      product *= dims[i];
    }
  }
  if (open < dims.size()) {
    dims[open] = product == 0 ? 0 : ephost::count(from) / product;
  }
  rename(planner, node, dims);
}

void plan_flatten(Planner& planner, const Node& node) {
  const Dims& from = planner.dims(node.in(0));
  const int64_t given = node.i("axis", 1);
  const size_t axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(from.size()) : given);
  if (axis > from.size()) {
    invalid("an axis beyond the rank");
  }
  rename(planner, node, {ephost::count(from, 0, axis), ephost::count(from, axis, from.size())});
}

void plan_squeeze(Planner& planner, const Node& node) {
  const Dims& from = planner.dims(node.in(0));
  const std::vector<int64_t> axes = axes_of(planner, node);
  std::vector<bool> gone(from.size(), false);
  for (int64_t axis : axes) {
    gone[axis_of(axis, from.size())] = true;
  }
  Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    if (axes.empty() ? from[i] != 1 : !gone[i]) {
      dims.push_back(from[i]);
    }
  }
  rename(planner, node, dims);
}

void plan_unsqueeze(Planner& planner, const Node& node) {
  const Dims& from = planner.dims(node.in(0));
  const std::vector<int64_t> axes = axes_of(planner, node);
  const size_t rank = from.size() + axes.size();
  Dims dims(rank, 0);
  for (int64_t axis : axes) {
    dims[axis_of(axis, rank)] = 1;
  }
  size_t next = 0;
  for (int64_t& dim : dims) {
    if (dim == 0) {
      if (next == from.size()) {
        invalid("an axis is named twice");
      }
      dim = from[next++];
    }
  }
  rename(planner, node, dims);
}

void plan_identity(Planner& planner, const Node& node) { rename(planner, node, planner.dims(node.in(0))); }

// A loop's condition, mostly, which the host reads after each run: it would go to the device and come back
// each time.
std::string identity(const Node& node) {
  const Value *in = node.in(0), *out = node.out();
  if (in != nullptr && out != nullptr && in->is_input && out->is_output && in->is_scalar()) {
    return "one number that goes out as it comes in";
  }
  return movable(node);
}

const Registered kRegistered({
    {.type = "Shape", .supports = anything, .plan = plan_shape},
    {.type = "Size", .supports = anything, .plan = plan_shape},
    {.type = "Identity", .supports = identity, .plan = plan_identity},
    {.type = "Dropout", .since = 7, .supports = dropout, .plan = plan_identity},
    {.type = "Reshape", .since = 5, .supports = moved_with_indices, .plan = plan_reshape, .host_inputs = 1},
    {.type = "Flatten", .supports = movable, .plan = plan_flatten},
    {.type = "Squeeze", .supports = movable, .plan = plan_squeeze, .host_inputs = 1},
    {.type = "Unsqueeze", .supports = movable, .plan = plan_unsqueeze, .host_inputs = 1},
});

}  // namespace

}  // namespace ephost::cuda
