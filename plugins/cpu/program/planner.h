// Makes plans: walks the nodes, has each operator prepare its kernel, and gives every value a place in
// memory.
#ifndef EPHOST_CPU_PROGRAM_PLANNER_H_
#define EPHOST_CPU_PROGRAM_PLANNER_H_

#include <deque>

#include "cpu/program/plan.h"
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

  // What is known of a value by now; at first what the graph says of a constant.
  Known& known(const Value* value) {
    int32_t& at = places_[value->index];
    if (at < 0) {
      at = static_cast<int32_t>(known_.size());
      Known& made = known_.emplace_back(value, Known{}).second;
      if (value->constant != nullptr) {
        made.desc = {value->constant->type, value->constant->dims, Layout::kPlain};
        made.content = value->constant;
      }
    }
    return known_[static_cast<size_t>(at)].second;
  }
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
    if (base >= first_tenant_.size()) first_tenant_.resize(base + 1, 0);
    tenants_.push_back({value, first_tenant_[base]});
    first_tenant_[base] = static_cast<uint32_t>(tenants_.size());
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
  void place_largest_first(std::vector<uint32_t> storages);
  void place_in_order(std::vector<uint32_t> storages);

  Program& program_;
  const Graph& graph_;
  std::shared_ptr<Plan> plan_;
  std::deque<std::pair<const Value*, Known>> known_;  // Of the values that the plan has to do with.
  std::vector<int32_t> places_;                       // In it, by Value::index; -1: nothing yet.
  std::vector<bool> bound_;                           // The graph's outputs that are there.
  std::unique_ptr<Plan::Barrier> barrier_;            // Where it ends, unless with the graph.
  // Values that share a root storage, linked: those that nobody reads any more may be left out.
  struct Tenant {
    const Value* value;
    uint32_t next;  // The number behind that of the next one; 0: none.
  };
  std::vector<Tenant> tenants_;
  std::vector<uint32_t> first_tenant_;  // By storage, as `next`; those behind its end have none.
  // Of the node that is planned, kept for their memory.
  std::vector<DType> types_;
  std::vector<uint32_t> in_, out_;
  size_t at_ = 0;  // The node that is planned.
};

}  // namespace ephost::cpu

#endif
