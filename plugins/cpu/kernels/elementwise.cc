// The operators that work element by element: see lower.cc for what each computes, expression.cc for how.
#include "kernels.h"
#include "lower.h"

namespace ephost::cpu {
namespace {

std::string supports(const Node& node) {
  try {
    Expression expression;
    std::vector<int> shaped;
    const Expression::Id result = lower_node(node, &expression, &shaped);
    if (const Value* out = node.out()) {
      expression.cast(result, out->type == DType::kUndefined ? expression.type(result) : out->type);
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// The type that the definition gives to the output: what the model says may be missing.
DType result_type(const Node& node, const Expression& expression, Expression::Id result, DType first) {
  if (node.is("Cast")) {
    return static_cast<DType>(node.i("to", 0));
  }
  if (node.out() != nullptr && node.out()->type != DType::kUndefined) {
    return node.out()->type;
  }
  const DType type = expression.type(result);
  return type == DType::kFloat && (first == DType::kFloat16 || first == DType::kBFloat16) ? first : type;
}

Kernel prepare(Prepare& p) {
  Expression expression;
  std::vector<int> shaped;
  const Expression::Id result = lower_node(p.node, &expression, &shaped);
  const DType first = p.type(p.node.is("Where") ? 1 : 0);
  // Limits, ratios and types given as inputs have no part in the shape.
  if (p.node.is("Clip") || p.node.is("Dropout")) {
    shaped.clear();
    if (p.node.in(0)->constant != nullptr) shaped.push_back(0);
  } else if (p.node.is("CastLike")) {
    shaped.erase(std::remove(shaped.begin(), shaped.end(), 1), shaped.end());
  }
  return evaluate(p, expression, result, result_type(p.node, expression, result, first), shaped);
}

// What fuse_elementwise made.
Kernel prepare_body(Prepare& p) {
  Expression expression;
  std::vector<int> shaped;
  const Expression::Id result = lower_body(p.node, &expression, &shaped);
  return evaluate(p, expression, result, p.node.body->outputs[0]->type, shaped);
}

}  // namespace

void add_elementwise(Registry* registry) {
  for (const LowerRule& rule : lower_rules()) {
    registry->add({.domain = rule.domain,
                   .type = rule.type,
                   .supports = supports,
                   .prepare = prepare,
                   .min_version = rule.min_version,
                   .any_layout = true});
  }
  registry->add({.domain = "ephost", .type = "Elementwise", .prepare = prepare_body, .any_layout = true});
}

}  // namespace ephost::cpu
