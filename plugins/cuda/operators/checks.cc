#include "cuda/operators/checks.h"

#include <algorithm>

namespace ephost::cuda {

std::string type_problem(const Value* value, Types types) {
  if (value == nullptr || (value->tensor && types.has(value->type))) {
    return "";
  }
  return "'" + value->name + "' is " + (value->tensor ? name_of(value->type) : "no tensor");
}

std::string all_are(const Node& node, Types types, size_t inputs) {
  for (size_t i = 0; i < std::min(inputs, node.inputs.size()); ++i) {
    const std::string problem = type_problem(node.inputs[i], types);
    if (!problem.empty()) {
      return problem;
    }
  }
  return type_problem(node.out(), types);
}

std::string rank_problem(const Node& node) {
  for (const Value* value : {node.in(0), node.out()}) {
    if (value != nullptr && value->has_shape && value->dims.size() > 8) {
      return "a rank above 8";
    }
  }
  return "";
}

std::string first_output_only(const Node& node) {
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != nullptr && (!node.outputs[i]->consumers.empty() || node.outputs[i]->is_output)) {
      return "more than its first output";
    }
  }
  return all_are(node, kReal, 1);
}

namespace {

bool computes_shapes(const Node& node) {
  static const char* const kTypes[] = {"Add",   "Sub",     "Mul",       "Div",  "Gather",  "Concat",
                                       "Slice", "Squeeze", "Unsqueeze", "Cast", "Reshape", "Identity"};
  return std::any_of(std::begin(kTypes), std::end(kTypes), [&](const char* type) { return node.is(type); });
}

}  // namespace

bool known(const Value* value, int depth) {
  if (value == nullptr || value->constant != nullptr) {
    return true;
  }
  const Node* by = value->producer;
  if (by == nullptr || depth > 12 || !value->tensor || !kInteger.has(value->type)) {
    return false;
  }
  if (by->is("Shape") || by->is("Size")) {
    return true;
  }
  return computes_shapes(*by) && std::all_of(by->inputs.begin(), by->inputs.end(),
                                             [&](const Value* in) { return known(in, depth + 1); });
}

bool readable(const Value* value, int depth) {
  if (value == nullptr || value->constant != nullptr || value->producer == nullptr) {
    return true;
  }
  const Node& by = *value->producer;
  if (by.is("Shape") || by.is("Size") || !why_not(by).empty()) {
    return true;
  }
  return depth < 32 && computes_shapes(by) &&
         std::all_of(by.inputs.begin(), by.inputs.end(), [&](const Value* in) {
           return in == nullptr || (kInteger.has(in->type) && readable(in, depth + 1));
         });
}

std::string arithmetic(const Node& node) {
  if (node.in(0) != nullptr && node.in(0)->tensor && kInteger.has(node.in(0)->type)) {
    return known(node.out()) ? "" : "integers that do not follow from shapes";
  }
  const std::string problem = all_are(node, kReal);
  if (!problem.empty()) {
    return problem;
  }
  for (const Value* input : node.inputs) {
    if (input != nullptr && input->type != node.in(0)->type) {
      return "operands of different types";
    }
  }
  return rank_problem(node);
}

std::string two_reals(const Node& node) {
  return node.inputs.size() != 2 ? "other than two operands" : all_are(node, kReal);
}

std::string movable(const Node& node) {
  const std::string problem = all_are(node, kMovable, 1);
  return problem.empty() ? rank_problem(node) : problem;
}

std::string moved_with_indices(const Node& node) {
  const std::string problem = movable(node);
  return problem.empty() ? type_problem(node.in(1), kInteger) : problem;
}

std::string window(const Node& node) {
  const Value *in = node.in(0), *weights = node.in(1);
  size_t rank = node.ints("kernel_shape").size() + 2; /* where the model leaves the shape of the input open */
  if (in != nullptr && in->has_shape) {
    rank = in->dims.size();
  } else if (weights != nullptr && weights->has_shape) {
    rank = weights->dims.size();
  }
  if (rank < 3 || rank > 4) {
    return "other than one or two spatial dimensions";
  }
  return first_output_only(node);
}

}  // namespace ephost::cuda
