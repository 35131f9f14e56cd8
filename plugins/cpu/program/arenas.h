// The memory of runs, which all plans of a program share: as much as runs at the same time need, not as much
// as there are plans.
#ifndef EPHOST_CPU_PROGRAM_ARENAS_H_
#define EPHOST_CPU_PROGRAM_ARENAS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "toolkit/mutex.h"

namespace ephost::cpu {

struct Arena {
  std::shared_ptr<void> memory;
  size_t bytes = 0;
};

class Arenas {
 public:
  // At least so many bytes: the memory at `last` if that is free, so that a plan that runs again finds the
  // addresses that it had; else the smallest that is large enough, or new memory in the place of one that is
  // not.
  Arena take(size_t bytes, const void* last);
  // Frees it where none of the latest runs needed nearly as much.
  void give(Arena arena);

 private:
  static constexpr size_t kRuns = 64;  // That are remembered.
  static constexpr size_t kSpare = 4;  // Times what they needed is kept.

  Mutex mutex_;
  std::vector<Arena> free_;
  size_t asked_[kRuns] = {};  // Bytes, of the latest.
  size_t next_ = 0;
};

}  // namespace ephost::cpu

#endif
