#include "cpu/engines/gates.h"

#include "cpu/engines/tiles.h"
#include "cpu/operator.h"
#include "toolkit/activations.h"

namespace ephost::cpu {
namespace {

// Any of the table, but for Clip, whose bounds have no defaults here. Null if there is none.
const ActivationRow* gate_named(const std::string& name) {
  const ActivationRow* row = activation_named(name);
  return row == nullptr || row->activation == Activation::kClip ? nullptr : row;
}

}  // namespace

std::vector<Gate> gates_of(const Node& node, size_t directions, const std::vector<std::string>& each) {
  std::vector<std::string> names = node.strings("activations");
  if (names.empty()) {
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), each.begin(), each.end());
  }
  const std::vector<float> alphas = node.floats("activation_alpha"), betas = node.floats("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Gate> out;
  for (const std::string& name : names) {
    const ActivationRow* row = gate_named(name);
    if (row == nullptr) {
      invalid(node.label() + ": there is no activation '" + name + "'");
    }
    const auto next = [](const char* parameter, const std::vector<float>& given, size_t* i, float otherwise) {
      return *parameter != '\0' && *i < given.size() ? given[(*i)++] : otherwise;
    };
    Gate made;
    made.op = op_of(row->activation);
    made.params[0] = next(row->a, alphas, &alpha, row->a_default);
    made.params[1] = next(row->b, betas, &beta, row->b_default);
    out.push_back(made);
  }
  return out;
}

std::string known_activations(const Node& node) {
  for (const std::string& name : node.strings("activations")) {
    if (gate_named(name) == nullptr) {
      return "the activation " + name;
    }
  }
  return "";
}

}  // namespace ephost::cpu
