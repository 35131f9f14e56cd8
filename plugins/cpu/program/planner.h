// Makes plans: walks the nodes, has each operator prepare its kernel, and gives every value a place in
// memory.
#ifndef EPHOST_CPU_PROGRAM_PLANNER_H_
#define EPHOST_CPU_PROGRAM_PLANNER_H_

#include "cpu/program/plan.h"
#include "cpu/program/program.h"

namespace ephost::cpu {

// What an operator has said of an output of the node that is planned.
struct PlannedOutput {
  Desc desc;
  bool declared = false;
  int alias = -1;
  SmallVector<int, 2> in_place;
  size_t offset = 0;
  TensorPtr content;
};

// What making a plan takes, kept for the next one of the same program: where each run has a shape of its own,
// a plan is made in each run.
class PlannerRoom {
 public:
  explicit PlannerRoom(size_t values) : places_(values, -1) {}
  // Forgets what the last plan left; room that few plans need is given back.
  void clear() {
    if (known_count_ > kFew) {
      *this = PlannerRoom(places_.size());
      return;
    }
    for (size_t i = 0; i < known_count_; ++i) {
      auto& [value, known] = at(i);
      places_[value->index] = -1;
      known = {};
    }
    known_count_ = 0;
    tenants.clear();
    first_tenant.clear();
    outs.clear();
  }
  // What is known of a value by now; at first what the graph says of a constant.
  Known& known(const Value* value) {
    int32_t& place = places_[value->index];
    if (place < 0) {
      if (known_count_ == kChunk * known_.size()) known_.push_back(std::make_unique<Chunk>());
      place = static_cast<int32_t>(known_count_);
      auto& [whose, made] = at(known_count_++);
      whose = value;
      if (value->constant != nullptr) {
        made.desc = {value->constant->type, value->constant->dims, Layout::kPlain};
        made.content = value->constant;
      }
    }
    return at(static_cast<size_t>(place)).second;
  }
  // Of all values that the plan has to do with.
  template <typename Function>
  void for_each_known(const Function& function) const {
    for (size_t i = 0; i < known_count_; ++i) {
      const auto& [value, known] = known_[i / kChunk]->entries[i % kChunk];
      function(value, known);
    }
  }

  // Values that share a root storage, linked: those that nobody reads any more may be left out.
  struct Tenant {
    const Value* value;
    uint32_t next;  // The number behind that of the next one; 0: none.
  };
  std::vector<Tenant> tenants;
  std::vector<uint32_t> first_tenant;  // By storage, as `next`; those behind its end have none.
  // Of the node that is planned.
  std::vector<DType> types;
  std::vector<Desc> descs;
  std::vector<PlannedOutput> outs;
  std::vector<uint32_t> in, out;
  // Storages, by the order in which they are laid out, and by offset.
  std::vector<uint32_t> order, placed;

 private:
  static constexpr size_t kChunk = 16, kFew = 4096;
  struct Chunk {  // References to what it holds last.
    std::pair<const Value*, Known> entries[kChunk];
  };
  std::pair<const Value*, Known>& at(size_t i) { return known_[i / kChunk]->entries[i % kChunk]; }

  std::vector<std::unique_ptr<Chunk>> known_;
  size_t known_count_ = 0;
  std::vector<int32_t> places_;  // In them, by Value::index; -1: nothing yet.
};

// Makes one plan; of a program no two at a time.
class Planner {
 public:
  // From the start of the graph, for inputs of these descriptions.
  Planner(Program* program, const std::vector<Desc>& inputs, bool passing);
  // Of the rest behind a barrier, where the run has found this: the content of the value that was needed, or
  // the descriptions of what the node has given.
  Planner(Program* program, const Plan::Barrier& before, const std::string& content,
          const std::vector<Desc>& results, bool passing);
  ~Planner() { room_.clear(); }
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
  PlannerRoom& room_;
  std::vector<bool> bound_;                 // The graph's outputs that are there.
  std::unique_ptr<Plan::Barrier> barrier_;  // Where it ends, unless with the graph.
  size_t at_ = 0;                           // The node that is planned.
};

}  // namespace ephost::cpu

#endif
