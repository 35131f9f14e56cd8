#include "cuda/operators/move.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cuda/operators/checks.h"
#include "cuda/operators/geometry.h"

namespace ephost::cuda {

void transpose(Planner& planner, const Place& from, const Place& to, size_t size, const Dims& dims,
               const std::vector<size_t>& perm) {
  const std::vector<int64_t> own = strides_of(dims);
  Dims out;
  std::vector<int64_t> strides;
  for (size_t axis : perm) {
    out.push_back(dims[axis]);
    strides.push_back(own[axis]);
  }
  /* Merge what stays together; two groups, or three of which the first stays, are a transposition of
   * matrices. */
  Dims merged;
  std::vector<int64_t> steps;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 1) {
      continue;
    }
    if (!merged.empty() && steps.back() == strides[i] * out[i]) {
      merged.back() *= out[i];
      steps.back() = strides[i];
    } else {
      merged.push_back(out[i]);
      steps.push_back(strides[i]);
    }
  }
  const size_t n = merged.size();
  const bool matrices = n >= 2 && n <= 3 && size <= 8 && steps[n - 2] == 1 && steps[n - 1] == merged[n - 2] &&
                        (n == 2 || steps[0] == merged[1] * merged[2]);
  const int64_t batch = n == 3 ? merged[0] : 1;
  if (matrices && batch <= 65535 && merged[n - 1] <= 32 * 65535 && merged[n - 2] <= INT32_MAX &&
      merged[n - 1] >= 8 && merged[n - 2] >= 8) {
    const int32_t rows = static_cast<int32_t>(merged[n - 1]), columns = static_cast<int32_t>(merged[n - 2]);
    const bool pairs = size == 2 && rows % 2 == 0 && columns % 2 == 0;
    const CUfunction any = planner.kernel("transpose_u" + std::to_string(size * 8));
    const CUfunction fast = pairs ? planner.kernel("transpose_pairs_u16") : nullptr;
    planner.step([=](const Launch& launch) {
      TransposeArguments args = {launch.address(from), launch.address(to), rows, columns};
      const uintptr_t both = reinterpret_cast<uintptr_t>(args.from) | reinterpret_cast<uintptr_t>(args.to);
      const bool two = pairs && both % 4 == 0;
      const int32_t tile = two ? 64 : 32;
      launch.kernel(two ? fast : any,
                    {static_cast<uint32_t>((columns + tile - 1) / tile),
                     static_cast<uint32_t>((rows + tile - 1) / tile), static_cast<uint32_t>(batch)},
                    {32, 8, 1}, &args);
    });
    return;
  }
  planner.copy(from, to, size, out, strides, strides_of(out));
}

namespace {

void plan_transpose(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  std::vector<int64_t> perm = node.ints("perm");
  std::vector<size_t> order;
  if (perm.empty()) {
    perm.resize(dims.size());
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  Dims out;
  std::vector<bool> named(dims.size(), false);
  for (int64_t axis : perm) {
    order.push_back(axis_of(axis, dims.size()));
    if (order.back() >= dims.size() || named[order.back()]) {
      invalid("an axis is named twice, or is none");
    }
    named[order.back()] = true;
    out.push_back(dims[order.back()]);
  }
  if (order.size() != dims.size()) {
    invalid("an order of " + std::to_string(order.size()) + " axes for " + std::to_string(dims.size()) +
            " dimensions");
  }
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  transpose(planner, from, to, size_of(planner.type(in)), dims, order);
}

void plan_gather(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *index = node.in(1);
  const Dims dims = planner.dims(in), where = planner.dims(index);
  const size_t axis = axis_of(node.i("axis", 0), dims.size());
  Dims out(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis));
  out.insert(out.end(), where.begin(), where.end());
  out.insert(out.end(), dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end());
  if (kInteger.has(planner.type(in)) && planner.has_content(in) && dims.size() == 1 &&
      (planner.has_content(index) || known(node.out()))) {
    std::vector<int64_t> numbers;
    for (int64_t i : planner.content(index)) {
      numbers.push_back(planner.content(in)[axis_of(i, planner.content(in).size())]);
    }
    planner.give(node.out(), out, numbers);
    return;
  }
  const Place from = planner.read(in), at = planner.read(index);
  const Place to = planner.write(node.out(), out);
  const int64_t inner_bytes =
      ephost::count(dims, axis + 1, dims.size()) * static_cast<int64_t>(size_of(planner.type(in)));
  int64_t unit = 16;
  while (inner_bytes % unit != 0) {
    unit /= 2;
  }
  const int64_t narrow = static_cast<int64_t>(size_of(planner.type(in)));
  const int64_t count = ephost::count(out);
  if (count == 0) {
    return;
  }
  if (count > INT32_MAX) {
    unsupported("a result of more than 2^31 elements");
  }
  const auto form = [&](int64_t bytes) {
    GatherArguments args = {};
    args.inner = divider(static_cast<uint32_t>(inner_bytes / bytes));
    args.num_index = divider(static_cast<uint32_t>(ephost::count(where)));
    args.count = static_cast<uint32_t>(count * narrow / bytes);
    args.axis = dims[axis];
    args.wide = planner.type(index) == DType::kInt64;
    return args;
  };
  const GatherArguments wide_form = form(unit), narrow_form = form(narrow);
  const CUfunction fast = planner.kernel("gather_u" + std::to_string(unit * 8));
  const CUfunction any = planner.kernel("gather_u" + std::to_string(narrow * 8));
  planner.step([=](const Launch& launch) {
    void* source = launch.address(from);
    void* target = launch.address(to);
    const uintptr_t both = reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(target);
    const bool aligned = both % static_cast<uintptr_t>(unit) == 0;
    GatherArguments now = aligned ? wide_form : narrow_form;
    now.from = source;
    now.to = target;
    now.index = launch.address(at);
    launch.kernel(aligned ? fast : any, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
  });
}

Place moved(Place place, int64_t bytes) {
  place.offset += static_cast<uint64_t>(bytes);
  return place;
}

void plan_concat(Planner& planner, const Node& node) {
  Dims out = planner.dims(node.in(0));
  const size_t axis = axis_of(node.i("axis", 0), out.size());
  const int64_t size = static_cast<int64_t>(size_of(planner.type(node.in(0))));
  out[axis] = 0;
  bool contents = kInteger.has(planner.type(node.in(0))) && out.size() == 1;
  for (const Value* input : node.inputs) {
    Dims own = planner.dims(input);
    if (own.size() != out.size() || axis >= own.size()) {
      invalid("inputs of different ranks");
    }
    const int64_t part = own[axis];
    own[axis] = out[axis];
    if (own != out) {
      invalid("inputs that differ beside the axis: " + to_string(planner.dims(node.in(0))) + " and " +
              to_string(planner.dims(input)));
    }
    out[axis] += part;
    contents = contents && (planner.has_content(input) || known(input));
  }
  if (contents) {
    std::vector<int64_t> numbers;
    for (const Value* input : node.inputs) {
      const std::vector<int64_t>& own = planner.content(input);
      numbers.insert(numbers.end(), own.begin(), own.end());
    }
    planner.give(node.out(), out, numbers);
    return;
  }
  std::vector<Place> places;
  for (const Value* input : node.inputs) {
    places.push_back(planner.read(input));
  }
  const Place to = planner.write(node.out(), out);
  const int64_t outer = ephost::count(out, 0, axis), inner = ephost::count(out, axis + 1, out.size());
  int64_t done = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t own = planner.dims(node.inputs[i])[axis];
    planner.copy(places[i], moved(to, done * inner * size), static_cast<size_t>(size), {outer, own * inner},
                 {own * inner, 1}, {out[axis] * inner, 1});
    done += own;
  }
}

void plan_split(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const size_t axis = axis_of(node.i("axis", 0), dims.size());
  std::vector<int64_t> parts = node.in(1) != nullptr ? planner.content(node.in(1)) : node.ints("split");
  if (parts.empty()) {
    const int64_t num = static_cast<int64_t>(node.outputs.size());
    const int64_t each = (dims[axis] + num - 1) / num;
    for (int64_t i = 0; i < num; ++i) {
      parts.push_back(std::max<int64_t>(std::min(each, dims[axis] - i * each), 0));
    }
  }
  if (parts.size() != node.outputs.size() ||
      std::accumulate(parts.begin(), parts.end(), int64_t{0}) != dims[axis]) {
    invalid("the parts do not add up");
  }
  const Place from = planner.read(in);
  const int64_t size = static_cast<int64_t>(size_of(planner.type(in)));
  const int64_t outer = ephost::count(dims, 0, axis), inner = ephost::count(dims, axis + 1, dims.size());
  int64_t done = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (node.outputs[i] != nullptr) {
      Dims out = dims;
      out[axis] = parts[i];
      const Place to = planner.write(node.outputs[i], out);
      planner.copy(moved(from, done * inner * size), to, static_cast<size_t>(size), {outer, parts[i] * inner},
                   {dims[axis] * inner, 1}, {parts[i] * inner, 1});
    }
    done += parts[i];
  }
}

void plan_slice(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const bool old = node.version < 10;
  const std::vector<int64_t> starts = old ? node.ints("starts") : planner.content(node.in(1));
  const std::vector<int64_t> ends = old ? node.ints("ends") : planner.content(node.in(2));
  std::vector<int64_t> axes = old                     ? node.ints("axes")
                              : node.in(3) != nullptr ? planner.content(node.in(3))
                                                      : std::vector<int64_t>();
  std::vector<int64_t> steps =
      old || node.in(4) == nullptr ? std::vector<int64_t>() : planner.content(node.in(4));
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  steps.resize(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size()) {
    invalid("starts, ends and axes differ in number");
  }
  const std::vector<int64_t> own = strides_of(dims);
  Dims out = dims;
  std::vector<int64_t> strides = own;
  std::vector<bool> cut(dims.size(), false);
  int64_t first = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = axis_of(axes[i], dims.size());
    if (axis >= dims.size() || cut[axis]) {
      invalid("an axis is named twice, or is none");
    }
    cut[axis] = true;
    const int64_t size = dims[axis];
    if (steps[i] == 0) {
      invalid("a step of 0");
    }
    if (size == 0) {
      out[axis] = 0;
      continue;
    }
    const int64_t by = std::clamp(steps[i], -size, size);  // Longer steps leave one element, too.
    int64_t start = starts[i] < 0 ? starts[i] + size : starts[i],
            end = ends[i] < 0 ? ends[i] + size : ends[i];
    if (by > 0) {
      start = std::clamp(start, int64_t{0}, size);
      end = std::clamp(end, int64_t{0}, size);
      out[axis] = end > start ? (end - start + by - 1) / by : 0;
    } else {
      start = std::clamp(start, int64_t{0}, size - 1);
      end = std::clamp(ends[i] < -size ? -1 : end, int64_t{-1}, size - 1);
      out[axis] = start > end ? (start - end - by - 1) / -by : 0;
    }
    strides[axis] = own[axis] * by;
    first += start * own[axis];
  }
  if (kInteger.has(planner.type(in)) && dims.size() == 1 && planner.has_content(in)) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < out[0]; ++i) {
      numbers.push_back(planner.content(in)[static_cast<size_t>(first + i * strides[0])]);
    }
    planner.give(node.out(), out, numbers);
    return;
  }
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  const size_t size = size_of(planner.type(in));
  planner.copy(moved(from, first * static_cast<int64_t>(size)), to, size, out, strides, strides_of(out));
}

void plan_expand(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const Dims out = broadcast(dims, planner.content(node.in(1)));
  const std::vector<int64_t> own = strides_of(dims);
  std::vector<int64_t> strides(out.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    strides[out.size() - dims.size() + i] = dims[i] == 1 ? 0 : own[i];
  }
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  planner.copy(from, to, size_of(planner.type(in)), out, strides, strides_of(out));
}

/* The bits of the element that surrounds: 0 where the model says nothing. */
uint64_t filler_of(const Node& node) {
  const Value* value = node.in(2);
  uint64_t bits = 0;
  if (value != nullptr) {
    std::memcpy(&bits, value->constant->data, size_of(value->constant->type));
  } else if (node.version < 11) {
    const float number = node.f("value", 0.0f);
    std::memcpy(&bits, &number, sizeof number);
  }
  return bits;
}

std::string padded(const Node& node) {
  const Value* value = node.in(2);
  const std::string mode = node.s("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    return "the mode '" + mode + "'";
  }
  if (value != nullptr && (value->constant == nullptr || value->constant->data == nullptr ||
                           ephost::count(value->constant->dims) != 1)) {
    return "a value that is not constant";
  }
  if (node.version < 11 && node.in(0) != nullptr && node.in(0)->type != DType::kFloat) {
    return "other than float32";
  }
  return movable(node);
}

void plan_pad(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const size_t rank = dims.size();
  const std::vector<int64_t> pads = node.version < 11 ? node.ints("pads") : planner.content(node.in(1));
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.in(3) != nullptr) {
    axes = planner.content(node.in(3));
  }
  if (pads.size() != 2 * axes.size()) {
    invalid("paddings for another number of dimensions");
  }
  std::vector<int64_t> before(rank, 0);
  Dims out = dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axis_of(axes[i], rank);
    before[axis] = pads[i];
    out[axis] += pads[i] + pads[axes.size() + i];
    if (out[axis] < 0) {
      invalid("paddings that take more than there is");
    }
  }
  const std::string mode = node.s("mode", "constant");
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  const int64_t count = ephost::count(out);
  if (count == 0) {
    return;
  }
  if (mode != "constant" && ephost::count(dims) == 0) {
    invalid("there is no element to repeat");
  }
  if (count > INT32_MAX || rank > kMaxRank) {
    unsupported("a result of more than 2^31 elements, or of more than six dimensions");
  }
  PadArguments args = {};
  args.count = static_cast<uint32_t>(count);
  args.rank = static_cast<int32_t>(rank);
  args.mode = mode == "constant" ? PadMode::kConstant
              : mode == "edge"   ? PadMode::kEdge
              : mode == "wrap"   ? PadMode::kWrap
                                 : PadMode::kReflect;
  args.value = filler_of(node);
  const std::vector<int64_t> strides = strides_of(dims);
  for (size_t d = 0; d < rank; ++d) { /* innermost first */
    const size_t axis = rank - 1 - d;
    args.dims[d] = divider(static_cast<uint32_t>(out[axis]));
    args.before[d] = before[axis];
    args.sizes[d] = dims[axis];
    args.strides[d] = strides[axis];
  }
  const CUfunction function = planner.kernel("pad_u" + std::to_string(size_of(planner.type(in)) * 8));
  planner.step([=](const Launch& launch) {
    PadArguments now = args;
    now.from = launch.address(from);
    now.to = launch.address(to);
    launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
  });
}

std::string concatenated(const Node& node) { return all_are(node, kMovable); }

const Registered kRegistered({
    {.type = "Transpose", .supports = movable, .plan = plan_transpose},
    {.type = "Gather", .supports = moved_with_indices, .plan = plan_gather},
    {.type = "Concat", .since = 4, .supports = concatenated, .plan = plan_concat},
    {.type = "Split", .since = 2, .supports = movable, .plan = plan_split, .host_inputs = 1},
    {.type = "Slice", .supports = movable, .plan = plan_slice, .host_inputs = 1},
    {.type = "Pad", .since = 2, .supports = padded, .plan = plan_pad, .host_inputs = 1},
    {.type = "Expand", .since = 8, .supports = moved_with_indices, .plan = plan_expand, .host_inputs = 1},
});

}  // namespace

}  // namespace ephost::cuda
