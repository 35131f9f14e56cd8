#include "cpu/program/planner_room.h"

#include <mutex>

namespace ephost::cpu {

void PlannerRoom::clear() {
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

std::unique_ptr<PlannerRoom> PlannerRooms::take(size_t values) {
  std::unique_ptr<PlannerRoom> room;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      room = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (room == nullptr) room = std::make_unique<PlannerRoom>();
  room->fit(values);
  return room;
}

void PlannerRooms::give(std::unique_ptr<PlannerRoom> room) {
  constexpr size_t kFew = 4;
  if (room->is_large()) return;
  room->clear();
  const std::lock_guard lock(mutex_);
  if (free_.size() < kFew) free_.push_back(std::move(room));
}

}  // namespace ephost::cpu
