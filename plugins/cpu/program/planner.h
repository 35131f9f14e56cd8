// Makes plans: walks the nodes, has each operator prepare its kernel, and gives every value a place in
// memory.
#ifndef EPHOST_CPU_PROGRAM_PLANNER_H_
#define EPHOST_CPU_PROGRAM_PLANNER_H_

#include "cpu/program/plan.h"
#include "cpu/program/program.h"

namespace ephost::cpu {

// Makes one plan.
class Planner {
 public:
  Planner(Program* program, const Plan* before, std::vector<Known> known, size_t begin, bool passing)
      : program_(*program),
        graph_(*program->graph_),
        plan_(std::make_shared<Plan>()),
        known_(std::move(known)) {
    plan_->passing = passing;
    if (before != nullptr) {
      plan_->storages = before->storages;
      plan_->depth = before->depth + 1;
    }
    plan_->first_storage = plan_->storages.size();
    if (plan_->storages.empty()) {
      plan_->storages.emplace_back();  // Number 0 is no memory at all.
      plan_->first_storage = 1;
    }
    uses_.assign(graph_.values.size(), 0);
    for (size_t n = begin; n < graph_.nodes.size(); ++n) {
      for_inputs(*graph_.nodes[n], [&](const Value* value) { ++uses_[value->index]; });
    }
    for (const Value* value : graph_.outputs) {
      ++uses_[value->index];
    }
    begin_ = begin;
  }

  // The known state at the start of a program: shapes of inputs, and constants.
  static std::vector<Known> start(Program* program, const std::vector<Desc>& inputs) {
    std::vector<Known> known(program->graph_->values.size());
    for (const auto& value : program->graph_->values) {
      if (value->constant != nullptr) {
        known[value->index].desc = {value->constant->type, value->constant->dims, Layout::kPlain};
        known[value->index].content = value->constant;
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value* value = program->input(i);
      if (value->constant == nullptr) {
        known[value->index].desc = inputs[i];
      }
    }
    return known;
  }

  // Gives the inputs their storages: for the root plan.
  void bind_inputs() {
    for (size_t i = 0; i < program_.num_inputs(); ++i) {
      const Value* value = program_.input(i);
      if (value->constant == nullptr) {
        Storage storage;
        storage.place = Storage::kInput;
        storage.index = static_cast<uint32_t>(i);
        storage.bytes = known_[value->index].desc.bytes();
        known_[value->index].storages = {{Layout::kPlain, add(storage)}};
      }
    }
  }

  // Descriptions of what a node gave when it was run itself at the barrier: their storages come from the run.
  void bind_results(const Node& node, const std::vector<Desc>& results) {
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (const Value* value = node.outputs[o]) {
        Storage storage;
        storage.place = Storage::kRun;
        storage.index = static_cast<uint32_t>(o);
        storage.bytes = results[o].bytes();
        known_[value->index].desc = results[o];
        known_[value->index].storages = {{Layout::kPlain, add(storage)}};
      }
    }
  }

  std::shared_ptr<Plan> build();

  template <typename Function>
  static void for_inputs(const Node& node, Function&& function) {
    for (const Value* value : node.inputs) {
      if (value != nullptr) function(value);
    }
    for (const Value* value : node.implicit) {
      function(value);
    }
  }

  const Known& known(const Value* value) const { return known_[value->index]; }
  std::shared_ptr<Plan> plan() const { return plan_; }

 private:
  friend class PrepareNode;

  uint32_t add(Storage storage) {
    storage.depth = plan_->depth;
    plan_->storages.push_back(std::move(storage));
    return static_cast<uint32_t>(plan_->storages.size() - 1);
  }
  uint32_t root(uint32_t storage) const { return plan_->root(storage); }
  // The storage of a value in this layout; made by a step if it is not there yet.
  uint32_t storage_of(const Value* value, Layout layout);
  void touch(uint32_t storage, uint32_t step) {
    Storage& at = plan_->storages[root(storage)];
    at.last = std::max(at.last, step);
  }
  // Whether nobody needs the memory behind this input after `node` has read it.
  bool dies(const Node& node, const Value* value);
  void add_step(Kernel kernel, const std::vector<uint32_t>& in, const std::vector<uint32_t>& out,
                size_t scratch, const Node* node);
  bool plan_node(size_t n);
  void finish();
  void lay_out();
  void place_largest_first(std::vector<uint32_t> storages);
  void place_in_order(std::vector<uint32_t> storages);

  Program& program_;
  const Graph& graph_;
  std::shared_ptr<Plan> plan_;
  std::vector<Known> known_;
  std::vector<size_t> uses_;  // That are still to come, of each value.
  // Values that share a root storage; those that nobody reads any more may be left out.
  std::unordered_map<uint32_t, std::vector<const Value*>> tenants_;
  size_t begin_ = 0;
};

}  // namespace ephost::cpu

#endif
