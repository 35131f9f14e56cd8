// Times of steps, while the host records a profile.
#ifndef EPHOST_CPU_RUNTIME_RECORDER_H_
#define EPHOST_CPU_RUNTIME_RECORDER_H_

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "toolkit/graph.h"
#include "toolkit/mutex.h"

namespace ephost::cpu {

class Recorder {
 public:
  struct Event {
    std::string name;  // "Conv 'name'"
    std::string op;
    bool of_node = false;  // Whether a node asked for it; its name is then in `node`, "" where it has none.
    std::string node;
    std::string method;    // "" where the operator has but one.
    int64_t start_ns = 0;  // Of the host's clock.
    int64_t duration_ns = 0;
    int32_t thread = -1;  // By which the system knows the one that ran it; -1 where that is not known.
  };

  // Relaxed: who adds looks again with the lock.
  bool active() const { return active_.load(std::memory_order_relaxed); }
  // `elapsed_ns`: what the host's clock shows now.
  void start(int64_t elapsed_ns) {
    const std::lock_guard lock(mutex_);
    zero_ = now() - elapsed_ns;
    events_.clear();
    active_ = true;
  }
  std::vector<Event> stop() {
    const std::lock_guard lock(mutex_);
    active_ = false;
    return std::move(events_);
  }

  // Records the time from here to the end of its scope; does nothing without a recorder. `node` is null for a
  // step that no node asked for, `method` where there is nothing to tell.
  class Timer {
   public:
    Timer(Recorder* recorder, const Node* node, const char* method)
        : recorder_(recorder), node_(node), method_(method), start_(recorder == nullptr ? 0 : now()) {}
    ~Timer() {
      if (recorder_ != nullptr) {
        recorder_->add(node_, method_, start_, now());
      }
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    Recorder* recorder_;
    const Node* node_;
    const char* method_;
    int64_t start_;
  };

 private:
  // As many as a trace can show; later ones are dropped.
  static constexpr size_t kMaxEvents = 1000000;

  static int32_t thread_number();  // Of the calling one.
  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void add(const Node* node, const char* method, int64_t start, int64_t end) {
    const std::lock_guard lock(mutex_);
    if (active_ && events_.size() < kMaxEvents) {
      events_.push_back({node == nullptr ? "layout or copy" : node->label(),
                         node == nullptr ? "Reorder" : node->type, node != nullptr,
                         node == nullptr ? "" : node->name, method == nullptr ? "" : method, start - zero_,
                         end - start, thread_number()});
    }
  }

  std::atomic<bool> active_{false};
  Mutex mutex_;
  int64_t zero_ = 0;
  std::vector<Event> events_;
};

}  // namespace ephost::cpu

#endif
