// Makes plans: walks the nodes, has each operator prepare its kernel, and gives every value a place in
// memory.
#ifndef EPHOST_CPU_PROGRAM_PLANNER_H_
#define EPHOST_CPU_PROGRAM_PLANNER_H_

#include "cpu/program/planner_room.h"
#include "cpu/program/program.h"

namespace ephost::cpu {

// Makes one plan.
class Planner {
 public:
  // From the start of the graph, for inputs of these descriptions.
  Planner(Program* program, const std::vector<Desc>& inputs, bool passing);
  // Of the rest behind a barrier, where the run has found this: the content of the value that was needed, or
  // the descriptions of what the node has given.
  Planner(Program* program, const Plan::Barrier& before, const std::string& content,
          const std::vector<Desc>& results, bool passing);
  ~Planner() { program_.options_.rooms->give(std::move(own_room_)); }
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

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

  Known& known(const Value* value) { return room_.known(value); }
  std::shared_ptr<Plan> plan() const { return plan_; }

 private:
  friend class PrepareNode;

  Planner(Program* program, size_t begin, bool passing);

  uint32_t add(Storage storage) {
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
  void add_tenant(uint32_t storage, const Value* value) {
    const uint32_t base = root(storage);
    std::vector<uint32_t>& first = room_.first_tenant;
    if (base >= first.size()) first.resize(base + 1, 0);
    room_.tenants.push_back({value, first[base]});
    first[base] = static_cast<uint32_t>(room_.tenants.size());
  }
  // Whether nobody needs the memory behind this input after the node that is planned has read it.
  bool dies(const Value* value);
  void add_step(Kernel kernel, const std::vector<uint32_t>& in, const std::vector<uint32_t>& out,
                size_t scratch, const Node* node);
  bool plan_node(size_t n);
  // Ends the plan before node n, for want of the content of a value or, if that is null, because the node is
  // to be run itself.
  void stop(size_t n, const Value* needed);
  void bind_outputs();
  void leave();
  void lay_out();
  // Of the storages in room_.order.
  void place_largest_first();
  void place_in_order();

  Program& program_;
  const Graph& graph_;
  std::shared_ptr<Plan> plan_;
  std::unique_ptr<PlannerRoom> own_room_;
  PlannerRoom& room_;
  std::vector<bool> bound_;                 // The graph's outputs that are there.
  std::unique_ptr<Plan::Barrier> barrier_;  // Where it ends, unless with the graph.
  size_t at_ = 0;                           // The node that is planned.
};

}  // namespace ephost::cpu

#endif
