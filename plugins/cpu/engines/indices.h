// Indices of an axis, as inputs have them.
#ifndef EPHOST_CPU_ENGINES_INDICES_H_
#define EPHOST_CPU_ENGINES_INDICES_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "cpu/operator.h"

namespace ephost::cpu {

// Index number i, of either type.
inline int64_t index_at(const void* indices, bool wide, int64_t i) {
  return wide ? static_cast<const int64_t*>(indices)[i] : static_cast<const int32_t*>(indices)[i];
}

// The index of an axis with n elements, counted from the end if negative; `bad` notes one that is beyond.
// Relaxed: it is read behind the region, whose end orders it.
inline int64_t wrapped(int64_t index, int64_t n, std::atomic<bool>* bad) {
  index += index < 0 ? n : 0;
  if (index < 0 || index >= n) {
    bad->store(true, std::memory_order_relaxed);
    return 0;
  }
  return index;
}

[[noreturn]] inline void beyond(const std::string& label) {
  invalid(label + ": an index is beyond its axis");
}

}  // namespace ephost::cpu

#endif
