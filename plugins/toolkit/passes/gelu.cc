#include "toolkit/passes/gelu.h"

#include <cmath>

namespace ephost {
namespace {

// Whether a value is this number, and no more than the dimensions of x come of computing with both.
bool is_number(const Value* value, double number, const Value& x) {
  float found = 0;
  constexpr double kClose = 1e-4;  // Some models have few digits of it.
  return scalar(value, &found) && std::abs(found - number) <= kClose * number &&
         value->constant->dims.size() <= (x.has_shape ? x.dims.size() : 0);
}

// The other operand of the node, if it is of this type and `value` is one of the two.
Value* other_of(const Node* node, const char* type, const Value* value) {
  if (node == nullptr || !node->is(type) || node->inputs.size() != 2) return nullptr;
  return node->in(0) == value ? node->in(1) : node->in(1) == value ? node->in(0) : nullptr;
}

// The factor behind a number that `value` is the product with; null if it is none.
Value* without_factor(const Value* value, double number) {
  const Node* node = value == nullptr ? nullptr : value->producer;
  if (node == nullptr || !node->is("Mul")) return nullptr;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (node->in(side) != nullptr && is_number(node->in(1 - side), number, *node->in(side)))
      return node->in(side);
  }
  return nullptr;
}

// The x of x / sqrt(2).
Value* divided(const Value* value) {
  const Node* node = value->producer;
  if (node != nullptr && node->is("Div") && is_number(node->in(1), std::sqrt(2.0), *node->in(0)))
    return node->in(0);
  return without_factor(value, std::sqrt(0.5));
}

// Whether a value is the third power of x.
bool is_cube(const Value* value, const Value* x) {
  const Node* node = value == nullptr ? nullptr : value->producer;
  if (node == nullptr) return false;
  if (node->is("Pow")) return node->in(0) == x && is_number(node->in(1), 3, *x);
  const Value* square = other_of(node, "Mul", x);
  return square != nullptr && square->producer != nullptr && other_of(square->producer, "Mul", x) == x;
}

// The x of sqrt(2 / pi) * (x + 0.044715 * x^3).
Value* bent(const Value* value) {
  constexpr double kRoot = 0.7978845608028654, kCube = 0.044715;
  const Value* sum = without_factor(value, kRoot);
  const Node* node = sum == nullptr ? nullptr : sum->producer;
  if (node == nullptr || !node->is("Add")) return nullptr;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (is_cube(without_factor(node->in(1 - side), kCube), node->in(side))) return node->in(side);
  }
  return nullptr;
}

// The node that ends the chain: x / 2 times the sum of 1 and `value`. Null if there is none.
Node* end_of(const Value* value, const Value* x) {
  const Node* add = only_consumer(value);
  if (const Value* one = other_of(add, "Add", value); one == nullptr || !is_number(one, 1, *x))
    return nullptr;
  const Value* sum = add->out();
  Node* product = only_consumer(sum);
  const Value* factor = other_of(product, "Mul", sum);
  if (factor == nullptr) return nullptr;
  if (without_factor(factor, 0.5) == x) return product;
  const bool halved = is_number(factor, 0.5, *x);
  if (!halved && factor != x) return nullptr;
  Node* last = only_consumer(product->out());
  const Value* rest = other_of(last, "Mul", product->out());
  return rest != nullptr && (halved ? rest == x : is_number(rest, 0.5, *x)) ? last : nullptr;
}

}  // namespace

void fuse_gelus(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  for (const Node* node : nodes) {
    const bool bends = node->is("Tanh");
    if (node->removed || (!bends && !node->is("Erf"))) continue;
    Value* x = bends ? bent(node->in(0)) : divided(node->in(0));
    if (x == nullptr || x->type != DType::kFloat) continue;
    const Node* last = end_of(node->out(), x);
    if (last == nullptr) continue;
    Value* out = last->out();
    Node* gelu = graph->add_node("", "Gelu", {x}, {graph->add_like(out)}, last->name);
    gelu->version = 20;
    gelu->attributes["approximate"] = std::string(bends ? "tanh" : "none");
    graph->steal_output(gelu, 0, out);
  }
  graph->sort();
  graph->remove_unused();
}

}  // namespace ephost
