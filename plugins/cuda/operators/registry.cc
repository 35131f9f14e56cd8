#include "cuda/operators/checks.h"

#include <unordered_map>

namespace ephost::cuda {

namespace {

std::unordered_map<std::string, Operator>& registry() {
  static std::unordered_map<std::string, Operator> operators;
  return operators;
}

}  // namespace

Registered::Registered(const std::vector<Operator>& operators) {
  for (const Operator& op : operators) {
    registry().emplace(std::string(op.domain) + "." + op.type, op);
  }
}

const Operator* find_operator(const Node& node) {
  const auto found = registry().find(node.domain + "." + node.type);
  const bool fits =
      found != registry().end() && (!node.domain.empty() || node.version >= found->second.since);
  return fits ? &found->second : nullptr;
}

std::string why_not(const Node& node) {
  const Operator* op = find_operator(node);
  if (op == nullptr) {
    return "there is no kernel for it";
  }
  if (!node.subgraphs.empty() || node.out() == nullptr) {
    return "it has subgraphs or no output";
  }
  for (size_t i = op->host_inputs; op->host_inputs != 0 && i < node.inputs.size(); ++i) {
    if (!readable(node.inputs[i])) {
      return "'" + node.inputs[i]->name + "' is computed on the device";
    }
  }
  return op->supports(node);
}

}  // namespace ephost::cuda
