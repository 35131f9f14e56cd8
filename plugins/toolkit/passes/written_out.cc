#include "toolkit/passes/written_out.h"

#include <cmath>

#include "toolkit/activations.h"

namespace ephost {
namespace {

bool close_to(float found, double number) {
  constexpr double kDigits = 1e-6;  // As float32 has them of roots.
  return std::abs(found - number) <= kDigits * std::abs(number);
}

// The number that a value is, if no more than the dimensions of x come of computing with both.
std::optional<float> number_beside(const Value* value, const Value* x) {
  float found = 0;
  const bool fits = value != nullptr && x != nullptr && scalar(value, &found) &&
                    value->constant->dims.size() <= (x->has_shape ? x->dims.size() : 0);
  return fits ? std::optional(found) : std::nullopt;
}
bool is_number(const Value* value, double number, const Value* x) {
  const std::optional<float> found = number_beside(value, x);
  return found.has_value() && close_to(*found, number);
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
    if (is_number(node->in(1 - side), number, node->in(side))) return node->in(side);
  }
  return nullptr;
}

// The node that multiplies `value`, which nobody else reads, by x.
Node* product_with(const Value* value, const Value* x) {
  Node* node = only_consumer(value);
  return other_of(node, "Mul", value) == x ? node : nullptr;
}

// The node that divides `value`, which nobody else reads, by a number.
Node* quotient(const Value* value, double number) {
  Node* node = only_consumer(value);
  if (node == nullptr) return nullptr;
  if (node->is("Div")) {
    return node->in(0) == value && is_number(node->in(1), number, value) ? node : nullptr;
  }
  return is_number(other_of(node, "Mul", value), 1 / number, value) ? node : nullptr;
}

// ---- Gelu

// The x of x / sqrt(2).
Value* divided(const Value* value) {
  const Node* node = value->producer;
  if (node != nullptr && node->is("Div") && is_number(node->in(1), std::sqrt(2.0), node->in(0)))
    return node->in(0);
  return without_factor(value, std::sqrt(0.5));
}

// Whether a value is the third power of x.
bool is_cube(const Value* value, const Value* x) {
  const Node* node = value == nullptr ? nullptr : value->producer;
  if (node == nullptr) return false;
  if (node->is("Pow")) return node->in(0) == x && is_number(node->in(1), 3, x);
  const Value* square = other_of(node, "Mul", x);
  return square != nullptr && other_of(square->producer, "Mul", x) == x;
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
Node* end_of_gelu(const Value* value, const Value* x) {
  const Node* add = only_consumer(value);
  if (!is_number(other_of(add, "Add", value), 1, x)) return nullptr;
  const Value* sum = add->out();
  Node* product = only_consumer(sum);
  const Value* factor = other_of(product, "Mul", sum);
  if (factor == nullptr) return nullptr;
  if (without_factor(factor, 0.5) == x) return product;
  if (factor == x) return quotient(product->out(), 2);
  return is_number(factor, 0.5, x) ? product_with(product->out(), x) : nullptr;
}

// ---- All of them

// An activation of x, by its own operator, in place of what makes the value `out`.
struct Found {
  const char* type;
  int version;
  Value* x;
  Value* out;
  Attributes attributes{};
};

std::optional<Found> found(const char* type, int version, Value* x, const Node* last) {
  if (x == nullptr || last == nullptr) return std::nullopt;
  return Found{type, version, x, last->out()};
}

std::optional<Found> gelu(const Node& function, Value* x, const char* approximate) {
  if (x == nullptr) return std::nullopt;
  std::optional<Found> gelu = found("Gelu", 20, x, end_of_gelu(function.out(), x));
  if (gelu.has_value()) gelu->attributes["approximate"] = std::string(approximate);
  return gelu;
}

std::optional<Found> swish(const Node& sigmoid) {
  Value* gate = sigmoid.in(0);
  if (const Node* last = product_with(sigmoid.out(), gate)) return found("Swish", 24, gate, last);
  const Node* factor = gate->producer;
  if (factor == nullptr || !factor->is("Mul")) return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    Value* x = factor->in(side);
    const std::optional<float> alpha = number_beside(factor->in(1 - side), x);
    const Node* last = alpha.has_value() ? product_with(sigmoid.out(), x) : nullptr;
    if (last == nullptr) continue;
    std::optional<Found> swish = found("Swish", 24, x, last);
    swish->attributes["alpha"] = *alpha;
    return swish;
  }
  return std::nullopt;
}

std::optional<Found> mish(const Node& tangent) {
  const Node* softplus = tangent.in(0)->producer;
  if (softplus == nullptr || !softplus->is("Softplus")) return std::nullopt;
  return found("Mish", 18, softplus->in(0), product_with(tangent.out(), softplus->in(0)));
}

std::optional<Found> hard_swish(const Node& sigmoid) {
  const std::optional<Activated> line = activation_of(sigmoid);
  std::optional<Found> swish =
      found("HardSwish", 14, sigmoid.in(0), product_with(sigmoid.out(), sigmoid.in(0)));
  if (!line.has_value() || !swish.has_value()) return std::nullopt;
  swish->attributes["alpha"] = line->a;
  swish->attributes["beta"] = line->b;
  return swish;
}

std::optional<Found> hard_swish_of_clip(const Node& clip) {
  const std::optional<Activated> line = activation_of(clip);
  const Node* add = clip.in(0)->producer;
  if (!line.has_value() || line->a != 0 || line->b != 6 || add == nullptr || !add->is("Add"))
    return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    Value* x = add->in(side);
    // The type of x may be unknown, and these steps are those of integers, too, whose quotients are rounded.
    const Value* three = add->in(1 - side);
    if (!is_number(three, 3, x) || !kFloats.has(three->constant->type)) continue;
    // The division before or after the product.
    const Node* last = product_with(clip.out(), x);
    last = last != nullptr ? quotient(last->out(), 6) : quotient(clip.out(), 6);
    if (last != nullptr && only_consumer(clip.out()) == last) last = product_with(last->out(), x);
    return found("HardSwish", 14, x, last);
  }
  return std::nullopt;
}

std::optional<Found> find(const Node& node) {
  if (node.in(0) == nullptr || node.out() == nullptr) return std::nullopt;
  if (node.is("Erf")) return gelu(node, divided(node.in(0)), "none");
  if (node.is("Sigmoid")) return swish(node);
  if (node.is("HardSigmoid")) return hard_swish(node);
  if (node.is("Clip")) return hard_swish_of_clip(node);
  if (!node.is("Tanh")) return std::nullopt;
  const std::optional<Found> approximated = gelu(node, bent(node.in(0)), "tanh");
  return approximated.has_value() ? approximated : mish(node);
}

}  // namespace

void fuse_written_out(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  for (const Node* node : nodes) {
    const std::optional<Found> one = node->removed ? std::nullopt : find(*node);
    if (!one.has_value() || (one->x->type != DType::kFloat && one->x->type != DType::kUndefined)) continue;
    Node* made = graph->add_node("", one->type, {one->x}, {graph->add_like(one->out)}, node->name);
    made->version = one->version;
    made->attributes = one->attributes;
    graph->steal_output(made, 0, one->out);
  }
  graph->sort();
  graph->remove_unused();
}

}  // namespace ephost
