// Which constants of a program are copied, which stay where the host has them, and which are freed once
// packed.
#include "cpu/program/constants.h"

#include "cpu/program/program.h"

namespace ephost::cpu {

namespace {

// What a node has packed of constants in a mapped file is not read there again soon: their pages leave
// memory, so that the file and the packed forms of a whole model are never in memory together.
void let_go_of_packed(const Node& node) {
  for (const Value* value : node.inputs) {
    const Tensor* constant = value == nullptr ? nullptr : value->constant.get();
    if (constant != nullptr && constant->file != nullptr && constant->is_packed()) constant->let_go();
  }
}

void free_original(Tensor* tensor) {
  tensor->data = nullptr;
  tensor->owner.reset();
  tensor->file.reset();
}

}  // namespace

Originals::Originals(const std::vector<Program*>& programs) : programs_(programs) {
  std::unordered_set<const Tensor*> copied;
  const auto copy = [&](const Value* value) {
    if (value != nullptr && value->constant != nullptr && copied.insert(value->constant.get()).second) {
      value->constant->own_or_stay();
    }
  };
  for (const Program* program : programs_) {
    for (const Value* value : program->graph().outputs) {
      copy(value);
    }
    program->for_each_node([&](const Node& node, const Operator& op) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (op.packs == nullptr || !op.packs(node, i)) copy(node.inputs[i]);
      }
    });
  }
  for (const Program* program : programs_) {
    program->for_each_node([&](const Node& node, const Operator&) {
      for (const Value* value : node.inputs) {
        if (value == nullptr || value->constant == nullptr || copied.count(value->constant.get()) != 0) {
          continue;
        }
        if (++readers_[value->constant.get()].left == 1) packable_.push_back(value->constant);
      }
    });
  }
}

void Originals::pack(const Node& node, const Operator& op) {
  const auto is_packable = [&](const Value* value) {
    return value != nullptr && value->constant != nullptr && readers_.count(value->constant.get()) != 0;
  };
  if (!std::any_of(node.inputs.begin(), node.inputs.end(), is_packable) || !done_.insert(&node).second)
    return;
  const bool is_packed = op.pack(node);
  let_go_of_packed(node);
  for (const Value* value : node.inputs) {
    if (!is_packable(value)) continue;
    Reading& of = readers_[value->constant.get()];
    of.all_pack = of.all_pack && is_packed;
    if (--of.left == 0 && of.all_pack) free_original(value->constant.get());
  }
}

void Originals::pack_rest() {
  for (const Program* program : programs_) {
    program->for_each_node([&](const Node& node, const Operator& op) { pack(node, op); });
  }
  for (const TensorPtr& tensor : packable_) {
    if (!readers_[tensor.get()].all_pack) tensor->own_or_stay();
  }
}

}  // namespace ephost::cpu
