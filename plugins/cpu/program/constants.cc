// Which constants of a program are copied, which stay where the host has them, and which are freed once
// packed.
#include "cpu/program/constants.h"

#include <unordered_set>

#include "cpu/program/program.h"

namespace ephost::cpu {

void let_go_of_packed(const Node& node) {
  for (const Value* value : node.inputs) {
    if (value != nullptr && value->constant != nullptr && value->constant->data != nullptr &&
        !value->constant->packed.empty()) {
      value->constant->let_go();
    }
  }
}

std::vector<Program*> Program::with_bodies() {
  std::vector<Program*> found{this};
  for (const auto& [graph, body] : subgraphs_) {
    const std::vector<Program*> inner = body->with_bodies();
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

void Program::own_constants() {
  // Bodies read constants of the graphs around them, which are the same tensors there.
  std::unordered_map<Tensor*, bool> packed;  // Whether each reader packs it.
  std::vector<TensorPtr> read;
  const auto reads = [&](const Value* value, bool packs) {
    if (value == nullptr || value->constant == nullptr) return;
    const auto [found, is_new] = packed.emplace(value->constant.get(), packs);
    if (is_new) read.push_back(value->constant);
    found->second = found->second && packs;
  };
  for (const Program* program : with_bodies()) {
    for (const Value* value : program->graph_->outputs) {
      reads(value, false);
    }
    for (size_t n = 0; n < program->graph_->nodes.size(); ++n) {
      const Node& node = *program->graph_->nodes[n];
      const Operator& op = *program->operators_[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        reads(node.inputs[i], op.packs != nullptr && op.packs(node, i));
      }
    }
  }
  for (const TensorPtr& tensor : read) {
    if (packed[tensor.get()]) {
      packable_.push_back(tensor);
    } else {
      tensor->own();
    }
  }
}

void Program::free_packed() {
  std::unordered_set<const Tensor*> packable;
  for (const TensorPtr& tensor : packable_) {
    packable.insert(tensor.get());
  }
  const auto packs = [&](const Value* value) {
    return value != nullptr && packable.count(value->constant.get()) != 0;
  };
  for (const Program* program : with_bodies()) {
    for (size_t n = 0; n < program->graph_->nodes.size(); ++n) {
      const Node& node = *program->graph_->nodes[n];
      const Operator& op = *program->operators_[n];
      if (op.pack != nullptr && std::any_of(node.inputs.begin(), node.inputs.end(), packs)) {
        op.pack(node);
        let_go_of_packed(node);
      }
    }
  }
  for (const TensorPtr& tensor : packable_) {
    if (tensor->packed.empty()) {
      tensor->own();  // Nobody could.
    } else {
      tensor->data = nullptr;
      tensor->owner.reset();
      tensor->file.reset();
    }
  }
  packable_.clear();
}

}  // namespace ephost::cpu
