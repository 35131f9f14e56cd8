// Loops on several threads.
#ifndef EPHOST_CPU_RUNTIME_PARALLEL_H_
#define EPHOST_CPU_RUNTIME_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "cpu/runtime/stop.h"
#include "cpu/runtime/threads.h"

namespace ephost::cpu {

// Calls body(begin, end) for parts of [0, n) on several threads; each part has at least `grain` items, so
// that small work stays on the caller's thread. A thread that is done takes parts that were meant for others:
// which one computes a part depends on time, what the parts are does not. `body` must not throw: check
// before, or note the failure and throw after. Inside of a region the caller does it all.
//
// Throws Stopped on the calling thread, with a part of the work done, where the run has been told to stop.
template <typename Body>
void parallel_for(int64_t n, int64_t grain, const Body& body) {
  constexpr int kMost = 128;     // Threads.
  constexpr int64_t kShare = 4;  // Parts for each thread, if there is work for them.
  if (n <= 0) {
    return;
  }
  const int64_t most = std::max<int64_t>(1, n / std::max<int64_t>(1, grain));
  const int threads = in_region() ? 1 : static_cast<int>(std::min<int64_t>({most, max_threads(), kMost}));
  if (threads == 1) {
    // Long work in parts all the same, to ask between them.
    constexpr int64_t kLong = 4096;  // Times the grain: some milliseconds at least.
    const int64_t parts = in_region() ? 1 : std::clamp<int64_t>(most / kLong, 1, 16);
    for (int64_t part = 0; part < parts; ++part) {
      if (part > 0) check_stop();
      body(n * part / parts, n * (part + 1) / parts);
    }
    return;
  }
  struct Loop {
    int64_t n, share;
    int threads;
    const Body& body;
    std::atomic<int> taken[kMost];  // Of each thread's parts. Relaxed: the region's end orders results.
    std::atomic<bool> stopped;
  } loop = {n, std::min(kShare, most / threads), threads, body, {}, false};
  run_region(
      threads,
      [](void* data) {
        Loop& all = *static_cast<Loop*>(data);
        const int64_t parts = all.share * all.threads;
        for (int i = 0, whose = thread_rank(); i < all.threads; ++i, whose = (whose + 1) % all.threads) {
          for (;;) {
            const int64_t taken = all.taken[whose].fetch_add(1, std::memory_order_relaxed);
            if (taken >= all.share || all.stopped.load(std::memory_order_relaxed)) {
              break;
            }
            const int64_t part = whose * all.share + taken;
            all.body(all.n * part / parts, all.n * (part + 1) / parts);
            if (stop_asked()) all.stopped.store(true, std::memory_order_relaxed);
          }
        }
      },
      &loop);
  if (loop.stopped.load(std::memory_order_relaxed)) {
    throw Stopped();
  }
}

// Elements of light work (an addition) that are worth a thread of their own.
inline constexpr int64_t kGrain = 16384;

}  // namespace ephost::cpu

#endif
