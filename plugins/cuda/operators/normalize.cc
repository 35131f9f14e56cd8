#include <algorithm>

#include "cuda/operators/checks.h"
#include "cuda/operators/geometry.h"
#include "cuda/operators/move.h"
#include "cuda/operators/row_kernels.h"

namespace ephost::cuda {

namespace {

void plan_softmax(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const bool old = node.version < 13; /* all dimensions from the axis on are one row */
  const int64_t given = node.i("axis", old ? 1 : -1);
  /* A scalar is a row, and so are all dimensions behind the last. */
  const bool whole = dims.empty() || (old && given == static_cast<int64_t>(dims.size()));
  const size_t axis = whole ? dims.size() : axis_of(given, dims.size());
  const size_t last = old || whole ? dims.size() : axis + 1;
  const int64_t columns = ephost::count(dims, axis, last), inner = ephost::count(dims, last, dims.size());
  const int64_t total = ephost::count(dims);
  Place from = planner.read(in);
  const Place to = planner.write(node.out(), dims);
  if (total == 0) {
    return;
  }
  const size_t size = size_of(planner.type(in));
  const Dims around = {total / columns / inner, columns, inner};
  Place out = to;
  if (inner != 1) { /* rows are brought together, and back */
    const Place rows = planner.scratch(static_cast<size_t>(total) * size);
    transpose(planner, from, rows, size, around, {0, 2, 1});
    from = rows;
    out = planner.scratch(static_cast<size_t>(total) * size);
  }
  SoftmaxArguments args = {nullptr, nullptr, total / columns, narrow(columns), node.is("LogSoftmax"), 0};
  const CUfunction function =
      planner.kernel(std::string("softmax_") + length_of(columns) + suffix(planner.type(in)));
  planner.step([=](const Launch& launch) {
    SoftmaxArguments now = args;
    now.in = launch.address(from);
    now.out = launch.address(out);
    now.vectors = in_vectors(now.columns, size, {now.in, now.out});
    launch.kernel(function, {row_blocks(now.rows, now.columns), 1, 1}, {kBlock, 1, 1}, &now);
  });
  if (inner != 1) {
    transpose(planner, out, to, size, {around[0], inner, columns}, {0, 2, 1});
  }
}

void plan_norm(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  NormArguments args = {};
  int64_t rows = 0;
  args.center = !node.is("RMSNormalization");
  args.epsilon = node.f("epsilon", 1e-5f);
  if (node.is("LayerNormalization") || node.is("RMSNormalization")) {
    rows = ephost::count(dims, 0, axis_of(node.i("axis", -1), dims.size()));
  } else {
    const int64_t groups = node.is("GroupNormalization") ? node.i("num_groups", 1) : dims.at(1);
    rows = dims.at(0) * groups;
    args.channels = narrow(dims[1]);
    args.spatial = narrow(ephost::count(dims, 2, dims.size()));
    if (groups <= 0 || dims[1] % groups != 0) {
      invalid("channels are not a multiple of the groups");
    }
  }
  const int64_t total = ephost::count(dims);
  const Place from = planner.read(in);
  const Place scale = node.in(1) != nullptr ? planner.read(node.in(1)) : Place();
  const Place bias = node.in(2) != nullptr ? planner.read(node.in(2)) : Place();
  const Place to = planner.write(node.out(), dims);
  if (total == 0) {
    return;
  }
  args.rows = rows;
  args.columns = narrow(total / rows);
  const int64_t wanted = args.channels != 0 ? args.channels : args.columns;
  for (size_t i = 1; i < 3; ++i) {
    if (node.in(i) != nullptr && ephost::count(planner.dims(node.in(i))) != wanted) {
      unsupported("a scale or bias of another size than what is normalised");
    }
  }
  const size_t size = size_of(planner.type(in));
  const CUfunction function =
      planner.kernel(std::string("norm_") + length_of(args.columns) + suffix(planner.type(in)));
  planner.step([=](const Launch& launch) {
    NormArguments now = args;
    now.in = launch.address(from);
    now.out = launch.address(to);
    now.scale = launch.address(scale);
    now.bias = launch.address(bias);
    const bool by_column = now.channels == 0;
    now.vectors =
        in_vectors(now.columns, size,
                   {now.in, now.out, by_column ? now.scale : nullptr, by_column ? now.bias : nullptr});
    launch.kernel(function, {row_blocks(now.rows, now.columns), 1, 1}, {kBlock, 1, 1}, &now);
  });
}

/* A scale and a bias of another shape than the rows' are broadcast, which the kernel does not do. */
std::string normal(const Node& node) {
  const Value* in = node.in(0);
  const int64_t rank = in != nullptr && in->has_shape ? static_cast<int64_t>(in->dims.size()) : 0;
  int64_t axis = node.i("axis", -1);
  axis += axis < 0 ? rank : 0;
  const auto known = [](const Dims& dims) {
    return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; });
  };
  for (size_t i = 1; i < 3 && axis >= 0 && axis < rank; ++i) {
    const Value* factor = node.in(i);
    const Dims row(in->dims.begin() + axis, in->dims.end());
    if (factor != nullptr && factor->has_shape && known(row) && known(factor->dims) &&
        ephost::count(factor->dims) != ephost::count(row)) {
      return "a scale or bias of another size than what is normalised";
    }
  }
  return first_output_only(node);
}

const Registered kRegistered({
    {.type = "Softmax", .supports = arithmetic, .plan = plan_softmax},
    {.type = "LogSoftmax", .supports = arithmetic, .plan = plan_softmax},
    {.type = "LayerNormalization", .since = 17, .supports = normal, .plan = plan_norm},
    {.type = "RMSNormalization", .since = 23, .supports = normal, .plan = plan_norm},
    {.type = "InstanceNormalization", .since = 6, .supports = arithmetic, .plan = plan_norm},
    {.type = "GroupNormalization", .since = 21, .supports = arithmetic, .plan = plan_norm},
});

}  // namespace

}  // namespace ephost::cuda
