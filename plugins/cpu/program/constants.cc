// Which constants of a program are copied, which stay where the host has them, and which are freed once
// packed.
#include "cpu/program/constants.h"

#include <unordered_map>

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

namespace {

void free_original(Tensor* tensor) {
  tensor->data = nullptr;
  tensor->owner.reset();
  tensor->file.reset();
}

}  // namespace

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
  std::unordered_map<const Tensor*, size_t> readers;  // That have not packed it yet.
  for (const TensorPtr& tensor : packable_) readers.emplace(tensor.get(), 0);
  // Calls use(count of its readers, constant) for each that the node reads.
  const auto for_packable = [&](const Node& node, const auto& use) {
    for (const Value* value : node.inputs) {
      if (value == nullptr || value->constant == nullptr) continue;
      const auto found = readers.find(value->constant.get());
      if (found != readers.end()) use(&found->second, value->constant.get());
    }
  };
  const std::vector<Program*> programs = with_bodies();
  for (const Program* program : programs) {
    for (const Node* node : program->graph_->nodes) {
      for_packable(*node, [](size_t* left, Tensor*) { ++*left; });
    }
  }
  // An original goes as soon as its last reader has packed it: otherwise all would be there twice.
  for (const Program* program : programs) {
    for (size_t n = 0; n < program->graph_->nodes.size(); ++n) {
      const Node& node = *program->graph_->nodes[n];
      const Operator& op = *program->operators_[n];
      bool any = false;
      for_packable(node, [&](size_t*, Tensor*) { any = true; });
      if (!any) continue;
      if (op.pack != nullptr) {
        op.pack(node);
        let_go_of_packed(node);
      }
      for_packable(node, [](size_t* left, Tensor* constant) {
        if (--*left == 0 && !constant->packed.empty()) free_original(constant);
      });
    }
  }
  for (const TensorPtr& tensor : packable_) {
    if (tensor->packed.empty()) tensor->own();  // Nobody could.
  }
  packable_.clear();
}

}  // namespace ephost::cpu
