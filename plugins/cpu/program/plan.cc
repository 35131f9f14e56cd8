#include "cpu/program/plan.h"

namespace ephost::cpu {

std::unique_ptr<Frame> Plan::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!frames_.empty()) {
      std::unique_ptr<Frame> frame = std::move(frames_.back());
      frames_.pop_back();
      return frame;
    }
  }
  auto frame = std::make_unique<Frame>();
  frame->arena = allocate(arena);
  frame->args.resize(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    frame->args[i] = resolve(args[i], static_cast<char*>(frame->arena.get()), nullptr);
  }
  return frame;
}

}  // namespace ephost::cpu
