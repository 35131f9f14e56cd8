#include "cpu/operator.h"
#include "cpu/operators/signature.h"

namespace ephost::cpu {

constinit const Registration* Registration::first_ = nullptr;

const Registry& Registry::get() {
  static const Registry registry = [] {
    Registry all;
    for (const Registration* each = Registration::first(); each != nullptr; each = each->next()) {
      each->add(&all);
    }
    return all;
  }();
  return registry;
}

namespace {

// What is wrong with the node's inputs as the graph declares them.
std::string why_not_declared(const Node& node) {
  const Signature* const signature = signature_of(node);
  if (signature == nullptr) {
    return node.in(0) == nullptr && !node.inputs.empty() ? "its first input is missing" : "";
  }
  DType few[8];  // Most nodes have no more inputs.
  std::vector<DType> many;
  if (node.inputs.size() > std::size(few)) many.resize(node.inputs.size());
  const std::span<DType> types(many.empty() ? few : many.data(), node.inputs.size());
  for (size_t i = 0; i < types.size(); ++i) {
    types[i] = node.inputs[i] == nullptr ? DType::kUndefined : node.inputs[i]->type;
  }
  return why_not_inputs(*signature, node, types);
}

}  // namespace

bool Registry::knows(const Node& node) const {
  const auto found = operators_.find(node.type);
  return found != operators_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](const Operator& op) {
           return op.domain == node.domain && op.min_version <= node.version &&
                  node.version <= op.max_version;
         });
}

const Operator* Registry::find(const Node& node, std::string* why) const {
  static const std::vector<Operator> none;
  const auto found = operators_.find(node.type);
  std::string reason;
  for (const Operator& op : found == operators_.end() ? none : found->second) {
    if (op.domain != node.domain) {
      continue;
    }
    if (node.version < op.min_version || node.version > op.max_version) {
      reason = "its definition of opset " + std::to_string(node.version) + " is not known";
      continue;
    }
    std::string wrong;
    for (const std::vector<Value*>* list : {&node.inputs, &node.outputs}) {
      for (const Value* value : *list) {
        if (value == nullptr || !wrong.empty()) {
          continue;
        }
        if (!value->tensor) {
          wrong = "'" + value->name + "' is not a tensor";
        } else if (value->type != DType::kUndefined && !op.types.has(value->type)) {
          wrong = "'" + value->name + "' has the type " + name_of(value->type);
        }
      }
    }
    if (wrong.empty()) {
      wrong = why_not_declared(node);
    }
    if (wrong.empty() && op.supports != nullptr) {
      wrong = op.supports(node);
    }
    if (wrong.empty()) {
      return &op;
    }
    reason = std::move(wrong);
  }
  if (why != nullptr) {
    *why = reason.empty() ? "there is no such operator here" : std::move(reason);
  }
  return nullptr;
}

}  // namespace ephost::cpu
