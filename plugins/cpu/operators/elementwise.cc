// The operators that work element by element: see lower.cc for what each computes, expression.cc for how.
#include <algorithm>

#include "cpu/engines/lower.h"
#include "cpu/operator.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

std::string supports(const Node& node) {
  try {
    Expression expression;
    Indices shaped;
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

// The kernel of a division, which says so where an integer is divided by 0: now, if the divisor is known.
Kernel checked_division(Prepare& p, Kernel divide) {
  const Desc& divisor = p.in(1);
  if (kFloats.has(divisor.type) || p.in(0).count() == 0) {
    return divide;
  }
  const auto has_zero = [size = size_of(divisor.type), n = divisor.count()](const void* data) {
    return with_size(size, [&](auto zero) {
      const auto* from = static_cast<const decltype(zero)*>(data);
      return std::find(from, from + n, zero) != from + n;
    });
  };
  if (const void* known = p.content(1)) {
    p.expect(!has_zero(known), "division by zero");
    return divide;
  }
  if (divide == nullptr) {
    return divide;
  }
  return [has_zero, label = p.node.label(), divide = std::move(divide)](const Args& args) {
    if (has_zero(args.in(1))) {
      invalid(label + ": division by zero");
    }
    divide(args);
  };
}

// com.microsoft's BiasGelu and FastGelu: the bias is a list, with an element for each index of the last
// dimension. fuse_elementwise leaves such a node alone where the model does not say that it is so.
void check_bias(const Prepare& p) {
  if (!p.has(1)) return;
  p.expect(p.type(0) == p.type(1), "the bias is of another type than the input");
  const Dims &x = p.dims(0), &bias = p.dims(1);
  if (x.empty() || bias != Dims{x.back()}) {
    p.invalid("the bias of shape " + to_string(bias) +
              " is not a list with one element for each of the last " + "dimension of the input of shape " +
              to_string(x));
  }
}

Kernel prepare(Prepare& p) {
  if (has_bias(p.node)) check_bias(p);
  Expression expression;
  Indices shaped;
  const Expression::Id result = lower_node(p.node, &expression, &shaped);
  const DType first = p.type(p.node.is("Where") ? 1 : 0);
  for (int limit : {1, 2}) {
    p.expect(!p.node.is("Clip") || !p.has(limit) || (p.dims(limit).size() <= 1 && p.in(limit).count() == 1),
             "a limit is not a single number");
  }
  // Limits, ratios and types given as inputs have no part in the shape.
  if (p.node.is("Clip") || p.node.is("Dropout")) {
    shaped.clear();
    if (p.node.in(0)->constant != nullptr) shaped.push_back(0);
  } else if (p.node.is("CastLike")) {
    shaped.erase(std::remove(shaped.begin(), shaped.end(), 1), shaped.end());
  }
  Kernel kernel = evaluate(p, expression, result, result_type(p.node, expression, result, first), shaped);
  return p.node.is("Div") || p.node.is("Mod") ? checked_division(p, std::move(kernel)) : kernel;
}

// What fuse_elementwise made.
Kernel prepare_body(Prepare& p) {
  Expression expression;
  Indices shaped;
  const Expression::Id result = lower_body(p.node, &expression, &shaped);
  return evaluate(p, expression, result, p.node.body->outputs[0]->type, shaped);
}

}  // namespace

const Registration registration([](Registry* registry) {
  for (const LowerRule& rule : lower_rules()) {
    registry->add({.domain = rule.domain,
                   .type = rule.type,
                   .supports = supports,
                   .prepare = prepare,
                   .min_version = rule.min_version,
                   .any_layout = true});
  }
  registry->add({.domain = "ephost", .type = "Elementwise", .prepare = prepare_body, .any_layout = true});
});

}  // namespace ephost::cpu
