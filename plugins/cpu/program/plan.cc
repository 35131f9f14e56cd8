#include "cpu/program/plan.h"

namespace ephost::cpu {

std::unique_ptr<Frame> Plan::take(Arenas* arenas) {
  std::unique_ptr<Frame> frame;
  {
    const std::lock_guard lock(mutex_);
    if (!frames_.empty()) {
      frame = std::move(frames_.back());
      frames_.pop_back();
    }
  }
  if (frame == nullptr) frame = std::make_unique<Frame>();
  frame->arena = arenas->take(arena, frame->resolved);
  char* const memory = static_cast<char*>(frame->arena.memory.get());
  if (memory != frame->resolved || frame->args.size() != args.size()) {
    frame->args.resize(args.size());
    for (size_t i = 0; i < args.size(); ++i) frame->args[i] = resolve(args[i], memory, nullptr);
    frame->resolved = memory;
  }
  return frame;
}

void Plan::give(std::unique_ptr<Frame> frame, Arenas* arenas) {
  arenas->give(std::move(frame->arena));
  frame->arena = {};
  const std::lock_guard lock(mutex_);
  frames_.push_back(std::move(frame));
}

}  // namespace ephost::cpu
