// Where in the arena of a plan each of its values lies.
#include <map>
#include <set>

#include "cpu/program/planner.h"

namespace ephost::cpu {
namespace {

constexpr size_t kAlignment = 64;

// Up to so many values are laid out with the largest first, which takes the least memory and a time that
// grows with the square of their number.
constexpr size_t kFewValues = 4096;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

// The largest first, each at the lowest place that is free while it lives.
void Planner::place_largest_first() {
  std::vector<uint32_t>&order = room_.order, &placed = room_.placed;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const size_t mine = plan_->storages[a].bytes, other = plan_->storages[b].bytes;
    return mine != other ? mine > other : a < b;
  });
  placed.clear();
  for (uint32_t s : order) {
    Storage& mine = plan_->storages[s];
    const size_t need = aligned(mine.bytes);
    size_t offset = 0;
    for (uint32_t p : placed) {
      const Storage& other = plan_->storages[p];
      if (other.first > mine.last || other.last < mine.first) {
        continue;
      }
      if (offset + need <= other.offset) {
        break;
      }
      offset = std::max(offset, other.offset + aligned(other.bytes));
    }
    mine.offset = offset;
    plan_->arena = std::max(plan_->arena, offset + need);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), s,
                                   [&](uint32_t a, uint32_t b) {
                                     return plan_->storages[a].offset < plan_->storages[b].offset;
                                   }),
                  s);
  }
}

// In the order of the steps, each in the smallest gap that holds it when it comes to live.
void Planner::place_in_order() {
  std::vector<uint32_t>& order = room_.order;
  const std::vector<Storage>& storages = plan_->storages;
  const auto end_of = [&](uint32_t s) { return std::max(storages[s].first, storages[s].last); };
  std::vector<uint32_t> by_end = order;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return storages[a].first < storages[b].first; });
  std::stable_sort(by_end.begin(), by_end.end(),
                   [&](uint32_t a, uint32_t b) { return end_of(a) < end_of(b); });
  std::map<size_t, size_t> gaps;                // Offset and size; no two touch.
  std::set<std::pair<size_t, size_t>> by_size;  // Size and offset of each.
  const auto close = [&](std::map<size_t, size_t>::iterator gap) {
    by_size.erase({gap->second, gap->first});
    return gaps.erase(gap);
  };
  const auto open = [&](size_t offset, size_t size) {
    auto after = gaps.lower_bound(offset);
    if (after != gaps.end() && after->first == offset + size) {
      size += after->second;
      after = close(after);
    }
    if (after != gaps.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        offset = before->first;
        size += before->second;
        close(before);
      }
    }
    gaps[offset] = size;
    by_size.emplace(size, offset);
  };
  size_t ended = 0;
  for (uint32_t s : order) {
    Storage& mine = plan_->storages[s];
    for (; end_of(by_end[ended]) < mine.first; ++ended) {
      const Storage& gone = storages[by_end[ended]];
      if (gone.bytes > 0) open(gone.offset, aligned(gone.bytes));
    }
    const size_t need = aligned(mine.bytes);
    if (need == 0) continue;
    if (const auto fits = by_size.lower_bound({need, 0}); fits != by_size.end()) {
      const auto [size, offset] = *fits;
      close(gaps.find(offset));
      mine.offset = offset;
      if (size > need) open(offset + need, size - need);
    } else {
      mine.offset = plan_->arena;
      plan_->arena += need;
    }
  }
}

// Offsets for what lives in the arena.
void Planner::lay_out() {
  std::vector<uint32_t>& order = room_.order;
  order.clear();
  for (size_t s = 0; s < plan_->storages.size(); ++s) {
    if (plan_->storages[s].place == Storage::kArena) {
      order.push_back(static_cast<uint32_t>(s));
    }
  }
  if (order.size() <= kFewValues) {
    place_largest_first();
  } else {
    place_in_order();
  }
  for (uint32_t s = 0; s < plan_->storages.size(); ++s) {
    const Storage& at = plan_->storages[s];
    if (at.place == Storage::kInput) plan_->from_inputs.emplace_back(s, at.index);
    if (at.place == Storage::kBefore) plan_->from_before.emplace_back(s, at.index);
    if (at.place == Storage::kRun) plan_->from_results.emplace_back(s, at.index);
  }
  for (size_t i = 0; i < plan_->args.size(); ++i) {
    if (!plan_->fixed(plan_->args[i])) {
      plan_->patches.push_back(static_cast<uint32_t>(i));
    }
  }
}

}  // namespace ephost::cpu
