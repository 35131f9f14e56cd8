// What elementwise nodes compute, as expressions.
#ifndef EPHOST_CPU_ENGINES_LOWER_H_
#define EPHOST_CPU_ENGINES_LOWER_H_

#include "cpu/engines/expression.h"

namespace ephost::cpu {

// Whether there is a rule for this operator (of this version); its element types may still not do.
bool is_elementwise(const Node& node);

// Whether it adds a bias, whose shape is held to more than broadcasting asks for.
bool has_bias(const Node& node);

// Adds what `node` computes for its output 0, of operands that were added before: -1 for an input that it
// leaves out. Throws Error where that cannot be done.
Expression::Id lower(const Node& node, const std::vector<Expression::Id>& operands, Expression* expression);

// Its rules, by domain and type: for the registry.
struct LowerRule {
  const char* domain;
  const char* type;
  int min_version;
};
const std::vector<LowerRule>& lower_rules();

// The expression of one node whose inputs are the operator's, constants with one element taken as numbers
// where that is possible. `shaped` gets the inputs that only the shape depends on.
Expression::Id lower_node(const Node& node, Expression* expression, Indices* shaped);

// The expression of a node with a body (Node::body) of elementwise nodes and one output.
Expression::Id lower_body(const Node& node, Expression* expression, Indices* shaped);

}  // namespace ephost::cpu

#endif
