#include "cpu/passes/fuse.h"

#include <algorithm>

#include "toolkit/passes/attention.h"
#include "toolkit/passes/einsum.h"
#include "toolkit/passes/epilogue.h"
#include "toolkit/passes/norms.h"
#include "toolkit/passes/pass.h"
#include "toolkit/passes/written_out.h"

namespace ephost::cpu {

namespace {

// A mean over both spatial dimensions of images is a GlobalAveragePool, which takes channels last as
// convolutions leave them.
void make_pools_of_means(Graph* graph) {
  for (Node* node : graph->nodes) {
    const Value* x = node->in(0);
    if (!node->is("ReduceMean") || !x->has_shape || x->dims.size() < 4 || x->type != DType::kFloat ||
        node->i("keepdims", 1) != 1) {
      continue;
    }
    std::vector<int64_t> axes = node->ints("axes");
    if (node->in(1) != nullptr && !integers(node->in(1), &axes)) continue;
    const int64_t rank = static_cast<int64_t>(x->dims.size());
    for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
    std::sort(axes.begin(), axes.end());
    std::vector<int64_t> spatial;
    for (int64_t axis = 2; axis < rank; ++axis) spatial.push_back(axis);
    if (axes != spatial) continue;
    if (node->in(1) != nullptr) graph->set_input(node, 1, nullptr);
    node->inputs.resize(1);
    node->attributes.clear();
    node->type = "GlobalAveragePool";
    node->version = 1;
  }
}

// Whether two shapes are the same but for `skip` dimensions from axis 1 on, where at most one that both leave
// open may differ in nothing else: the number of elements is the same.
bool same_apart_from_channels(const Dims& a, size_t a_skip, const Dims& b, size_t b_skip) {
  if (a.size() - a_skip != b.size() - b_skip) return false;
  int open = 0;
  for (size_t i = 0; i < a.size() - a_skip; ++i) {
    const int64_t x = a[i == 0 ? 0 : i + a_skip], y = b[i == 0 ? 0 : i + b_skip];
    if (x != y) return false;
    open += x < 0;
  }
  return open <= 1;
}

// Channels are often shuffled between the groups of grouped convolutions: [N, groups * c, ...] is seen as
// [N, groups, c, ...], axes 1 and 2 change places, and both become one again.
void fuse_channel_shuffles(Graph* graph) {
  for (Node* node : std::vector<Node*>(graph->nodes)) {
    if (node->removed || !node->is("Transpose") || !node->in(0)->has_shape) continue;
    Node* before = node->in(0)->producer;
    Node* after = only_consumer(node->out());
    if (before == nullptr || !before->is("Reshape") || only_consumer(before->out()) != node ||
        after == nullptr || !after->is("Reshape") || after->in(0) != node->out()) {
      continue;
    }
    Value *x = before->in(0), *y = after->out();
    const Dims& seen = node->in(0)->dims;
    std::vector<int64_t> perm = node->ints("perm");
    if (!x->has_shape || !y->has_shape || x->dims.size() < 3 || seen.size() < 4 || seen[1] <= 0 ||
        seen[2] <= 0 || perm.size() != seen.size()) {
      continue;
    }
    std::swap(perm[1], perm[2]);
    const bool swaps_two = std::is_sorted(perm.begin(), perm.end());
    if (!swaps_two || x->dims[1] != seen[1] * seen[2] || y->dims.size() != x->dims.size() ||
        y->dims[1] != x->dims[1] || !same_apart_from_channels(x->dims, 1, seen, 2) ||
        !same_apart_from_channels(y->dims, 1, seen, 2)) {
      continue;
    }
    Node* shuffle = graph->add_node("ephost", "ChannelShuffle", {x}, {graph->add_like(y)}, node->name);
    shuffle->attributes["groups"] = seen[1];
    graph->steal_output(shuffle, 0, y);
    graph->remove(after);
    graph->remove(node);
    graph->remove(before);
  }
}

}  // namespace

void make_casts_of_casts_like(Graph* graph) {
  for (Node* node : graph->nodes) {
    if (node->is("CastLike") && node->in(1) != nullptr && node->in(1)->type != DType::kUndefined) {
      node->attributes["to"] = static_cast<int64_t>(node->in(1)->type);
      graph->set_input(node, 1, nullptr);
      node->inputs.resize(1);
      node->type = "Cast";
    }
  }
}

void fuse(Graph* graph) {
  run_passes(graph, {
                        {"make_casts_of_casts_like", make_casts_of_casts_like},
                        {"rewrite_einsum", rewrite_einsum},
                        {"fuse_channel_shuffles", fuse_channel_shuffles},
                        {"fuse_quantized", fuse_quantized},
                        {"fuse_attention", fuse_attention},
                        {"fuse_norms", fuse_norms},
                        {"fuse_written_out", fuse_written_out},
                        {"make_pools_of_means", make_pools_of_means},
                        {"fold_into_convolutions", fold_into_convolutions},
                        {"fuse_convolutions", fuse_convolutions},
                        {"fuse_batch_norms", fuse_batch_norms},
                        {"fuse_products", fuse_products},
                        {"fuse_elementwise", fuse_elementwise},
                        {"remove_unused", [](Graph* all) { all->remove_unused(); }},
                    });
}

}  // namespace ephost::cpu
