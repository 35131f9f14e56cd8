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

void Program::own_constants() {
  std::unordered_map<const Tensor*, bool> packed;
  for (const auto& value : graph_->values) {
    if (value->constant != nullptr && (value->is_output || value->is_outer)) {
      packed[value->constant.get()] = false;
    }
  }
  for (size_t n = 0; n < graph_->nodes.size(); ++n) {
    const Node& node = *graph_->nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != nullptr && node.inputs[i]->constant != nullptr) {
        const bool packs = operators_[n]->packs != nullptr && operators_[n]->packs(node, i);
        bool& all = packed.emplace(node.inputs[i]->constant.get(), true).first->second;
        all = all && packs;
      }
    }
    for (const Value* value : node.implicit) {
      if (value->constant != nullptr) packed[value->constant.get()] = false;
    }
  }
  for (const auto& value : graph_->values) {
    if (value->constant == nullptr || (value->consumers.empty() && !value->is_output)) {
      continue;
    }
    if (packed[value->constant.get()]) {
      packable_.push_back(value->constant);
    } else {
      value->constant->own();
    }
  }
}

void Program::free_packed() {
  std::unordered_set<const Tensor*> packable;
  for (const TensorPtr& tensor : packable_) {
    packable.insert(tensor.get());
  }
  for (size_t n = 0; n < graph_->nodes.size(); ++n) {
    const Node& node = *graph_->nodes[n];
    const auto packs = [&](const Value* value) {
      return value != nullptr && packable.count(value->constant.get()) != 0;
    };
    if (operators_[n]->pack != nullptr && std::any_of(node.inputs.begin(), node.inputs.end(), packs)) {
      operators_[n]->pack(node);
      let_go_of_packed(node);
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
