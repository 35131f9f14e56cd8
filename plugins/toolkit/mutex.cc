#include "toolkit/mutex.h"

#ifdef __linux__
#include <pthread.h>
#include <time.h>

#include <atomic>
#endif

namespace ephost {

#ifdef __linux__
namespace {

// How many threads hold locks, counted in several places, so that they do not all write to one.
constexpr int kCounters = 16;
struct alignas(64) Counter {
  std::atomic<int> threads{0};
};
Counter holders[kCounters];
std::atomic<bool> forking{false};

// A thread that waits for what the forking one has, Python's lock for instance, cannot be waited for.
constexpr int kTries = 10000;
void nap() {
  const timespec time = {0, 100000};
  nanosleep(&time, nullptr);
}

struct Self {
  int held = 0;
  int counter = -1;
};
thread_local constinit Self self;

int holding() {
  int threads = self.held > 0 ? -1 : 0;
  for (const Counter& counter : holders) {
    threads += counter.threads;
  }
  return threads;
}

void before_fork() {
  while (forking.exchange(true)) {
    nap();
  }
  for (int i = 0; i < kTries && holding() > 0; ++i) {
    nap();
  }
}

void after_fork() { forking = false; }

void after_fork_in_child() {
  for (Counter& counter : holders) {
    counter.threads = 0;
  }
  if (self.held > 0) {
    holders[self.counter].threads = 1;
  }
  forking = false;
}

int next_counter() {
  static const int once = pthread_atfork(before_fork, after_fork, after_fork_in_child);
  static std::atomic<unsigned> next{0};
  (void)once;
  return static_cast<int>(next++ % kCounters);
}

void enter() {
  if (self.held++ > 0) {
    return;
  }
  if (self.counter < 0) {
    self.counter = next_counter();
  }
  std::atomic<int>& threads = holders[self.counter].threads;
  // In one order with before_fork: either it sees this thread, or this thread sees it.
  while (++threads, forking) {
    --threads;
    while (forking) {
      nap();
    }
  }
}

void leave() {
  if (--self.held == 0) {
    holders[self.counter].threads.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace
#else
namespace {
void enter() {}
void leave() {}
}  // namespace
#endif

void Mutex::lock() {
  enter();
  mutex_.lock();
}

void Mutex::unlock() {
  mutex_.unlock();
  leave();
}

}  // namespace ephost
