#include "toolkit/passes/norms.h"

#include <algorithm>

#include "toolkit/half.h"

namespace ephost {
namespace {

// The input of a mean over the last dimension, which it keeps; null if the value is none.
Value* mean_of(const Value* value) {
  const Node* node = value == nullptr ? nullptr : value->producer;
  if (node == nullptr || !node->is("ReduceMean") || node->i("keepdims", 1) != 1 || !node->in(0)->has_shape) {
    return nullptr;
  }
  std::vector<int64_t> axes = node->ints("axes");
  if (node->in(1) != nullptr && !integers(node->in(1), &axes)) return nullptr;
  const int64_t last = static_cast<int64_t>(node->in(0)->dims.size()) - 1;
  return axes.size() == 1 && (axes[0] == -1 || axes[0] == last) ? node->in(0) : nullptr;
}

// The value whose square this is; null if it is none.
Value* square_of(const Value* value) {
  const Node* node = value == nullptr ? nullptr : value->producer;
  float exponent = 0;
  if (node != nullptr && node->is("Mul") && node->in(0) == node->in(1)) return node->in(0);
  return node != nullptr && node->is("Pow") && scalar(node->in(1), &exponent) && exponent == 2 ? node->in(0)
                                                                                               : nullptr;
}

// The node that divides `value` by the root, at once or by way of its reciprocal.
Node* division(const Value* value, const Value* root) {
  Node* node = only_consumer(root);
  if (node != nullptr && node->is("Div") && node->in(0) == value && node->in(1) == root) return node;
  float one = 0;
  const bool inverts =
      node != nullptr && (node->is("Reciprocal") ||
                          (node->is("Div") && node->in(1) == root && scalar(node->in(0), &one) && one == 1));
  if (!inverts) return nullptr;
  const Value* factor = node->out();
  node = only_consumer(factor);
  const bool product =
      node != nullptr && node->is("Mul") &&
      ((node->in(0) == value && node->in(1) == factor) || (node->in(1) == value && node->in(0) == factor));
  return product ? node : nullptr;
}

// The constant of n elements in a row that the only reader of `value` adds or multiplies; null if there is
// none.
Value* follower(const char* type, const Value* value, int64_t n) {
  const Node* node = only_consumer(value);
  if (node == nullptr || !node->is(type)) return nullptr;
  Value* other = node->in(0) == value ? node->in(1) : node->in(0);
  const bool fits = other->constant != nullptr && other->constant->type == value->type &&
                    !other->dims.empty() && other->has_shape && other->dims.back() == n &&
                    count(other->constant->dims) == n && other->dims.size() <= value->dims.size();
  return fits ? other : nullptr;
}

bool is_float(DType type) {
  return type == DType::kFloat || type == DType::kFloat16 || type == DType::kBFloat16;
}

Value* ones(Graph* graph, DType type, int64_t n) {
  const TensorPtr made = make_tensor(type, {n});
  void* const data = mutable_data(made);
  if (type == DType::kFloat) {
    std::fill_n(static_cast<float*>(data), n, 1.0f);
  } else if (type == DType::kFloat16) {
    std::fill_n(static_cast<Half*>(data), n, Half(1.0f));
  } else {
    std::fill_n(static_cast<BFloat16*>(data), n, BFloat16(1.0f));
  }
  return graph->add_constant(made);
}

// Squares of 16-bit floats leave their range where the numbers themselves do not: as one step they are
// float32.
void fuse_one(Graph* graph, const Node* root) {
  const Node* add = root->in(0)->producer;
  if (add == nullptr || !add->is("Add")) return;
  float epsilon = 0;
  const size_t side = scalar(add->in(1), &epsilon) ? 0 : 1;
  if (side == 1 && !scalar(add->in(0), &epsilon)) return;
  Value* value = square_of(mean_of(add->in(side)));
  if (value == nullptr || !is_float(value->type) || !value->has_shape || value->dims.empty()) return;
  const int64_t n = value->dims.back();
  Node* last = division(value, root->out());
  if (last == nullptr || n <= 0) return;
  // Whether the mean has been subtracted before.
  const Node* difference = value->producer;
  const bool centered =
      difference != nullptr && difference->is("Sub") && mean_of(difference->in(1)) == difference->in(0);
  Value *x = centered ? difference->in(0) : value, *out = last->out();
  if (!x->has_shape || x->dims.size() != value->dims.size()) return;
  Value* bias = nullptr;
  Value* scale = follower("Mul", out, n);
  if (scale != nullptr) {
    out = only_consumer(out)->out();
  } else {
    scale = ones(graph, value->type, n);
  }
  if (centered) {
    bias = follower("Add", out, n);
    if (bias != nullptr) out = only_consumer(out)->out();
  }
  Node* node = graph->add_node("", centered ? "LayerNormalization" : "RMSNormalization", {x, scale},
                               {graph->add_like(out)}, root->name);
  if (bias != nullptr) graph->set_input(node, 2, bias);
  node->version = centered ? 17 : 23;
  node->attributes["axis"] = int64_t{-1};
  node->attributes["epsilon"] = epsilon;
  graph->steal_output(node, 0, out);
}

}  // namespace

void fuse_norms(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  for (const Node* node : nodes) {
    if (!node->removed && node->is("Sqrt")) fuse_one(graph, node);
  }
  graph->sort();
  graph->remove_unused();
}

}  // namespace ephost
