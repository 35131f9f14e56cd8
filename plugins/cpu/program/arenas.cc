#include "cpu/program/arenas.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "toolkit/types.h"

namespace ephost::cpu {

Arena Arenas::take(size_t bytes, const void* last) {
  Arena too_small;  // Freed without the lock.
  {
    const std::lock_guard lock(mutex_);
    asked_[next_++ % kRuns] = bytes;
    auto best = free_.end();
    for (auto each = free_.begin(); each != free_.end(); ++each) {
      if (each->bytes < bytes) continue;
      if (best == free_.end() || each->bytes < best->bytes || each->memory.get() == last) best = each;
      if (each->memory.get() == last) break;
    }
    if (best != free_.end()) {
      std::swap(*best, free_.back());
      Arena found = std::move(free_.back());
      free_.pop_back();
      return found;
    }
    if (!free_.empty()) {
      too_small = std::move(free_.back());
      free_.pop_back();
    }
  }
  too_small = {};
  return {allocate(bytes), bytes};
}

void Arenas::give(Arena arena) {
  const std::lock_guard lock(mutex_);
  const size_t needed = *std::max_element(std::begin(asked_), std::end(asked_));
  if (arena.bytes / kSpare <= needed) free_.push_back(std::move(arena));
}

}  // namespace ephost::cpu
