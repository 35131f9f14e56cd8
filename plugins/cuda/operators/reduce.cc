#include <algorithm>

#include "cuda/operators/checks.h"
#include "cuda/operators/geometry.h"
#include "cuda/operators/move.h"
#include "cuda/operators/row_kernels.h"

namespace ephost::cuda {

namespace {

void reduce(Planner& planner, const Node& node, std::vector<bool> gone, Reduction kind, bool keep) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!gone[i] || keep) {
      out.push_back(gone[i] ? 1 : dims[i]);
    }
  }
  Place from = planner.read(in);
  const Place to = planner.write(node.out(), out);
  const int64_t results = ephost::count(out);
  if (results == 0) {
    return;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) {
      gone[i] = i > 0 && gone[i - 1]; /* of no matter: it goes with its neighbour */
    }
  }
  size_t first = 0;
  while (first < gone.size() && !gone[first]) ++first;
  size_t last = first;
  while (last < gone.size() && gone[last]) ++last;
  const bool together =
      std::none_of(gone.begin() + static_cast<std::ptrdiff_t>(last), gone.end(), [](bool g) { return g; });
  const size_t size = size_of(planner.type(in));
  ReduceArguments args = {};
  args.kind = kind;
  if (ephost::count(dims) == 0) { /* of no elements: what the kernel begins with */
    args.outer = results;
    args.inner = 1;
  } else if (together) {
    args.outer = ephost::count(dims, 0, first);
    args.reduced = ephost::count(dims, first, last);
    args.inner = ephost::count(dims, last, dims.size());
  } else {
    std::vector<size_t> perm;
    for (bool which : {false, true}) {
      for (size_t i = 0; i < dims.size(); ++i) {
        if (gone[i] == which) perm.push_back(i);
      }
    }
    const Place rows = planner.scratch(static_cast<size_t>(ephost::count(dims)) * size);
    transpose(planner, from, rows, size, dims, perm);
    from = rows;
    args.outer = results;
    args.reduced = ephost::count(dims) / results;
    args.inner = 1;
  }
  const bool rows = args.inner == 1 && args.reduced > 1 && args.reduced <= INT32_MAX;
  const char* form = !rows ? "columns_" : args.reduced <= kShortRow ? "short_" : "long_";
  const CUfunction function = planner.kernel(std::string("reduce_") + form + suffix(planner.type(in)));
  planner.step([=](const Launch& launch) {
    ReduceArguments now = args;
    now.in = launch.address(from);
    now.out = launch.address(to);
    now.vectors = in_vectors(now.reduced, size, {now.in});
    const uint32_t blocks = rows ? row_blocks(now.outer, now.reduced) : blocks_for(now.outer * now.inner);
    launch.kernel(function, {blocks, 1, 1}, {kBlock, 1, 1}, &now);
  });
}

constexpr std::pair<const char*, Reduction> kKinds[] = {{"ReduceSum", Reduction::kSum},
                                                        {"ReduceMean", Reduction::kMean},
                                                        {"ReduceMax", Reduction::kMax},
                                                        {"ReduceMin", Reduction::kMin},
                                                        {"ReduceProd", Reduction::kProduct},
                                                        {"ReduceL1", Reduction::kL1},
                                                        {"ReduceL2", Reduction::kL2},
                                                        {"ReduceSumSquare", Reduction::kSumSquare},
                                                        {"ReduceLogSumExp", Reduction::kLogSumExp}};

void plan_reduce(Planner& planner, const Node& node) {
  const size_t rank = planner.dims(node.in(0)).size();
  const std::vector<int64_t> axes = axes_of(planner, node);
  std::vector<bool> gone(rank, axes.empty() && node.i("noop_with_empty_axes", 0) != 1);
  for (int64_t axis : axes) {
    if (rank > 0 || (axis != 0 && axis != -1)) { /* a scalar is reduced over what it has not, too */
      gone[axis_of(axis, rank)] = true;
    }
  }
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const auto& kind) { return node.type == kind.first; });
  reduce(planner, node, gone, found->second, node.i("keepdims", 1) != 0);
}

void plan_global_pool(Planner& planner, const Node& node) {
  std::vector<bool> gone(planner.dims(node.in(0)).size(), true);
  std::fill_n(gone.begin(), std::min<size_t>(2, gone.size()), false);
  reduce(planner, node, gone, node.is("GlobalMaxPool") ? Reduction::kMax : Reduction::kMean, true);
}

std::string reducible(const Node& node) { return all_are(node, kReal, 1); }

std::vector<Operator> all() {
  std::vector<Operator> list = {
      {.type = "GlobalAveragePool", .supports = arithmetic, .plan = plan_global_pool},
      {.type = "GlobalMaxPool", .supports = arithmetic, .plan = plan_global_pool},
  };
  for (const auto& kind : kKinds) {
    list.push_back({.type = kind.first, .supports = reducible, .plan = plan_reduce, .host_inputs = 1});
  }
  return list;
}

const Registered kRegistered(all());

}  // namespace

}  // namespace ephost::cuda
