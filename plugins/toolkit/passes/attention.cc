#include "toolkit/passes/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ephost {
namespace {

using Perm = std::vector<int64_t>;

Perm identity(size_t rank) {
  Perm perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

// The order of the dimensions of a Transpose; empty if it is not one.
Perm perm_of(const Node& node) {
  const Value* in = node.in(0);
  if (!node.is("Transpose") || in == nullptr || !in->has_shape) {
    return {};
  }
  Perm otherwise = identity(in->dims.size());
  std::reverse(otherwise.begin(), otherwise.end());
  return node.has("perm") ? node.ints("perm") : otherwise;
}

Perm compose(const Perm& inner, const Perm& outer) {
  Perm all;
  for (int64_t d : outer) all.push_back(inner[static_cast<size_t>(d)]);
  return all;
}

// Where [a, b, c, d] is renamed to [a b, c, d], transposed, and renamed to [a, b, d, c]: the value before
// that.
Value* swapped_inside(const Value* value) {
  const Node* last = value->producer;
  if (last == nullptr || !last->is("Reshape") || !value->has_shape || value->dims.size() != 4) return nullptr;
  const Node* middle = last->in(0)->producer;
  if (middle == nullptr || perm_of(*middle) != Perm{0, 2, 1}) return nullptr;
  const Node* first = middle->in(0)->producer;
  if (first == nullptr || !first->is("Reshape")) return nullptr;
  Value* from = first->in(0);
  const Dims &a = from->dims, &b = middle->in(0)->dims, &c = value->dims;
  const bool fits = from->has_shape && a.size() == 4 && middle->in(0)->has_shape && a[1] > 0 && a[2] > 0 &&
                    a[3] > 0 && b[1] == a[2] && b[2] == a[3] && c[1] == a[1] && c[2] == a[3] && c[3] == a[2];
  return fits ? from : nullptr;
}

// A tensor behind products with numbers and transpositions.
struct Operand {
  Value* value = nullptr;
  Perm perm;
  float scale = 1;
};

// The factor that a Mul or Div by a number applies to its other operand; false if it is neither.
bool scaled(const Node& node, Value** of, float* factor) {
  float number = 0;
  if (node.is("Mul") && (scalar(node.in(1), &number) || scalar(node.in(0), &number))) {
    float other = 0;
    *of = node.in(scalar(node.in(1), &other) ? 0 : 1);
    *factor = number;
  } else if (node.is("Div") && scalar(node.in(1), &number) && number != 0) {
    *of = node.in(0);
    *factor = 1 / number;
  } else {
    return false;
  }
  // The number must not add dimensions.
  return (*of)->has_shape && node.out()->has_shape && (*of)->dims.size() == node.out()->dims.size();
}

Operand unwind(Value* value, bool scales) {
  Operand operand{value, identity(value->dims.size()), 1};
  for (;;) {
    Node* node = operand.value->producer;
    if (node == nullptr) {
      return operand;
    }
    Value* of = nullptr;
    float factor = 1;
    const Perm perm = perm_of(*node);
    if (!perm.empty()) {
      operand.perm = compose(perm, operand.perm);
      operand.value = node->in(0);
    } else if (Value* inside = swapped_inside(operand.value)) {
      operand.perm = compose({0, 1, 3, 2}, operand.perm);
      operand.value = inside;
    } else if (scales && scaled(*node, &of, &factor)) {
      operand.scale *= factor;
      operand.value = of;
    } else {
      return operand;
    }
  }
}

bool is_tensor(const Value* value) {
  return value != nullptr &&
         (value->type == DType::kFloat || value->type == DType::kFloat16 ||
          value->type == DType::kBFloat16) &&
         value->has_shape && (value->dims.size() == 3 || value->dims.size() == 4);
}

void swap_last(Perm* perm) { std::swap((*perm)[perm->size() - 1], (*perm)[perm->size() - 2]); }

// From the first product to the softmax: its operands, the factor and the mask.
struct Scores {
  Node* product = nullptr;
  Value* mask = nullptr;
  float scale = 1;
};

bool find_product(Value* value, Scores* scores) {
  for (;;) {
    Node* node = value->producer;
    if (node == nullptr || only_consumer(value) == nullptr) return false;
    Value* of = nullptr;
    float factor = 1;
    if (node->is("MatMul")) {
      scores->product = node;
      return true;
    }
    if (!scaled(*node, &of, &factor)) return false;
    scores->scale *= factor;
    value = of;
  }
}

bool find_scores(Value* value, Scores* scores) {
  if (find_product(value, scores)) {
    return true;
  }
  Node* add = value->producer;
  if (add == nullptr || !add->is("Add") || only_consumer(value) == nullptr) return false;
  for (size_t side : {0, 1}) {
    *scores = Scores();
    if (find_product(add->in(side), scores)) {
      scores->mask = add->in(1 - side);
      // It is broadcast to the scores, not they to it.
      return scores->mask->has_shape && scores->mask->type == value->type &&
             scores->mask->dims.size() <= value->dims.size();
    }
  }
  return false;
}

bool along_rows(const Node& softmax) {
  const Value* in = softmax.in(0);
  if (!is_tensor(in)) return false;
  const int64_t rank = static_cast<int64_t>(in->dims.size());
  const int64_t axis = softmax.i("axis", softmax.version < 13 ? 1 : -1);
  return axis == -1 || axis == rank - 1;
}

// Whether a condition is known, and true nowhere.
bool never(const Value* condition) {
  if (condition == nullptr || condition->constant == nullptr || condition->constant->type != DType::kBool) {
    return false;
  }
  const bool* all = condition->constant->as<bool>();
  return std::none_of(all, all + count(condition->constant->dims), [](bool one) { return one; });
}

// The product that reads the softmax, behind a Where that clears what is not a number, or rows that the mask
// leaves nothing of, if it is known that there are none.
Node* second_product(Value* weights, bool* clear) {
  if (weights->consumers.size() == 2 && !weights->is_output) {
    for (size_t k : {0, 1}) {
      Node *test = weights->consumers[k], *choice = weights->consumers[1 - k];
      float zero = 1;
      if (test->is("IsNaN") && choice->is("Where") && only_consumer(test->out()) == choice &&
          choice->in(0) == test->out() && choice->in(2) == weights && scalar(choice->in(1), &zero) &&
          zero == 0) {
        *clear = true;
        weights = choice->out();
        break;
      }
    }
  }
  Node* next = only_consumer(weights);
  if (next != nullptr && next->is("Where") && next->in(2) == weights && never(next->in(0)) &&
      next->out()->has_shape && next->out()->dims == weights->dims) {
    weights = next->out();
  }
  Node* product = only_consumer(weights);
  return product != nullptr && product->is("MatMul") && product->in(0) == weights ? product : nullptr;
}

void fuse_one(Graph* graph, Node* softmax) {
  Scores scores;
  bool clear = false;
  if (!along_rows(*softmax) || !find_scores(softmax->in(0), &scores)) return;
  Node* product = second_product(softmax->out(), &clear);
  if (product == nullptr || !is_tensor(product->out()) || !is_tensor(scores.product->in(0)) ||
      !is_tensor(scores.product->in(1)) || !is_tensor(product->in(1))) {
    return;
  }
  const size_t rank = product->out()->dims.size();
  Operand q = unwind(scores.product->in(0), true), k = unwind(scores.product->in(1), true);
  const Operand v = unwind(product->in(1), false);
  if (scores.product->in(0)->dims.size() != rank || scores.product->in(1)->dims.size() != rank ||
      product->in(1)->dims.size() != rank || q.perm.size() != rank || k.perm.size() != rank) {
    return;
  }
  swap_last(&k.perm);  // The product has it as [.., channels, sequence].
  Perm out_perm = identity(rank);
  Value* out = product->out();
  if (Node* after = only_consumer(out); after != nullptr && !perm_of(*after).empty()) {
    out_perm = perm_of(*after);
    out = after->out();
  }
  Node* fused = graph->add_node("ephost", "Attention", {q.value, k.value, v.value}, {graph->add_like(out)},
                                softmax->name);
  if (scores.mask != nullptr) {
    graph->set_input(fused, 3, scores.mask);
  }
  fused->attributes["scale"] = scores.scale * q.scale * k.scale;
  fused->attributes["q_perm"] = q.perm;
  fused->attributes["k_perm"] = k.perm;
  fused->attributes["v_perm"] = v.perm;
  fused->attributes["out_perm"] = out_perm;
  fused->attributes["clear"] = int64_t{clear};
  graph->steal_output(fused, 0, out);
}

}  // namespace

void fuse_attention(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  for (Node* node : nodes) {
    if (!node->removed && node->is("Softmax")) fuse_one(graph, node);
  }
  graph->sort();
  graph->remove_unused();
}

}  // namespace ephost
