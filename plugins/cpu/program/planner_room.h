// What making a plan takes, kept for the next one: where each run has a shape of its own, plans are made in
// each run.
#ifndef EPHOST_CPU_PROGRAM_PLANNER_ROOM_H_
#define EPHOST_CPU_PROGRAM_PLANNER_ROOM_H_

#include "cpu/program/plan.h"

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

// For one plan at a time.
class PlannerRoom {
 public:
  // For a graph of so many values.
  void fit(size_t values) {
    if (places_.size() < values) places_.resize(values, -1);
  }
  // Whether few plans need so much.
  bool is_large() const { return known_count_ > (size_t{1} << 12) || places_.size() > (size_t{1} << 18); }
  // Forgets what the last plan left.
  void clear();

  // What is known of a value by now; at first what the graph says of a constant. The reference lasts.
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
  static constexpr size_t kChunk = 16;
  struct Chunk {
    std::pair<const Value*, Known> entries[kChunk];
  };
  std::pair<const Value*, Known>& at(size_t i) { return known_[i / kChunk]->entries[i % kChunk]; }

  std::vector<std::unique_ptr<Chunk>> known_;
  size_t known_count_ = 0;
  std::vector<int32_t> places_;  // In them, by Value::index; -1: nothing yet.
};

// Those that the programs of a session have in common.
class PlannerRooms {
 public:
  // A clear one for a graph of so many values.
  std::unique_ptr<PlannerRoom> take(size_t values);
  void give(std::unique_ptr<PlannerRoom> room);

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<PlannerRoom>> free_;
};

}  // namespace ephost::cpu

#endif
