#include "cpu/runtime/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#endif

namespace ephost::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// How long a worker looks for the next region before it sleeps: while a program runs, and after that. What is
// lost by sleeping is the time of waking up, some 50 us.
constexpr auto kSpinInRun = std::chrono::milliseconds(1);
constexpr auto kSpinAfterRun = std::chrono::microseconds(20);
// Looks between two glances at the clock: about a microsecond.
constexpr int kLooks = 32;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits for what another thread is about to do. On a machine with other work that thread may not be running:
// so after a moment the processor is offered to it.
template <typename Done>
void wait_until(const Done& done) {
  for (int looks = 0; !done(); ++looks) {
    if (looks < 4 * kLooks) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

class Team;

// A thread of a team.
struct Worker {
#ifdef __linux__
  // Linux wakes a thread where it ran last, and on some machines looks no further: where its waker computes
  // now it would wait for all of a run. So it is told to run elsewhere, until it sleeps again.
  pid_t thread = 0;
  cpu_set_t allowed = {};
  std::atomic<bool> asleep{false};  // Released after the fields above are written, and acquired to read them.
  std::atomic<bool> moved{false};
  // What the thread that is about to wake it does.
  void leave(int processor_of_caller);
#endif
  void falls_asleep();
  void is_awake();
};

// What the calling thread is in the region that it works for.
struct Place {
  Team* team = nullptr;  // Null in a region of one rank.
  int rank = 0, size = 1;
  bool inside = false;
};

class Team {
 public:
  void begin(int ranks, void (*function)(void*), void* data);
  void end();
  void barrier();
  // Tells the workers whether more work is to be expected soon.
  void expect_work(bool expected) { expected_.store(expected, std::memory_order_relaxed); }

 private:
  // Which region this is, how many ranks it has, and the next one that nobody has taken. Aligned so that
  // Clang knows that one instruction reads all of it.
  struct alignas(8) Ticket {
    uint32_t region;
    uint16_t size, next;
  };
  bool take(Place* place);
  void work(Worker* worker);
  void sleep(Worker* worker);
  bool waiting() const {
    const Ticket ticket = ticket_.load(std::memory_order_seq_cst);
    return ticket.next < ticket.size;
  }

  std::atomic<Ticket> ticket_{Ticket{0, 0, 0}};
  static_assert(std::atomic<Ticket>::is_always_lock_free);
  // Of the region that the ticket is for; whoever has taken a rank may read them: begin() releases the ticket
  // after them. It writes the next region's after end() has acquired that all ranks are done.
  void (*function_)(void*) = nullptr;
  void* data_ = nullptr;
  alignas(64) std::atomic<int> unfinished_{0};
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> phase_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<uint32_t> alarm_{0};
  std::atomic<bool> expected_{false};
  std::deque<Worker> workers_;
};

// The calling thread's scope and region.
struct Self {
  Place place;
  std::vector<Place> around;  // The places that it has in the regions around this one.
  Team* team = nullptr;       // Taken by the first region of a scope.
  int threads = 0;            // 0: not in a scope.
  bool spin = false;
};
thread_local Self self;

// Teams that no thread uses. They are never given back: where they sleep costs nothing, and the next run has
// them at once.
struct Idle {
  std::mutex mutex;
  std::vector<Team*> teams;
};

Idle& idle() {
  // Never destroyed: threads may outlive this library's destructors.
  static Idle* const all = [] {
    auto* made = new Idle;
#ifdef __linux__
    // A forked process has none of the threads.
    pthread_atfork(nullptr, nullptr, [] {
      Idle& mine = idle();
      new (&mine.mutex) std::mutex;
      mine.teams.clear();
      self.team = nullptr;
    });
#endif
    return made;
  }();
  return *all;
}

Team* borrow_team() {
  Idle& all = idle();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.teams.empty()) {
      Team* const team = all.teams.back();
      all.teams.pop_back();
      return team;
    }
  }
  return new Team;
}

void give_back(Team* team) {
  team->expect_work(false);
  Idle& all = idle();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.teams.push_back(team);
}

bool Team::take(Place* place) {
  Ticket ticket = ticket_.load(std::memory_order_acquire);
  while (ticket.next < ticket.size) {
    Ticket taken = ticket;
    ++taken.next;
    if (ticket_.compare_exchange_weak(ticket, taken, std::memory_order_acq_rel, std::memory_order_acquire)) {
      *place = {this, ticket.next, ticket.size, true};
      return true;
    }
  }
  return false;
}

void Team::begin(int ranks, void (*function)(void*), void* data) {
  while (static_cast<int>(workers_.size()) < ranks - 1) {
    // Signals are for the threads of the program that this is a part of.
#ifdef __linux__
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
    bool started = true;
    Worker* const worker = &workers_.emplace_back();
    try {
      std::thread([this, worker] { work(worker); }).detach();
    } catch (const std::system_error&) {
      started = false;  // No more threads are to be had: the ranks are taken by those that are there.
      workers_.pop_back();
    }
#ifdef __linux__
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
    if (!started) break;
  }
  function_ = function;
  data_ = data;
  unfinished_.store(ranks - 1, std::memory_order_relaxed);
  const Ticket last = ticket_.load(std::memory_order_relaxed);
  // In one order with sleep(), which counts itself and then looks: either it sees the ticket, or it is
  // counted.
  ticket_.store(Ticket{last.region + 1, static_cast<uint16_t>(ranks), 1}, std::memory_order_seq_cst);
  const int sleepers = sleepers_.load(std::memory_order_seq_cst);
  if (sleepers > 0) {
#ifdef __linux__
    const int here = sched_getcpu();
    for (Worker& worker : workers_) worker.leave(here);
#endif
    alarm_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers < ranks) {
      alarm_.notify_all();
    } else {
      for (int i = 1; i < ranks; ++i) alarm_.notify_one();
    }
  }
}

void Team::end() {
  const Place own = self.place;
  while (take(&self.place)) {
    function_(data_);
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
  self.place = own;
  wait_until([&] { return unfinished_.load(std::memory_order_acquire) == 0; });
}

void Team::barrier() {
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == self.place.size) {
    arrived_.store(0, std::memory_order_relaxed);  // The phase, released next, brings it.
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  wait_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
}

void Worker::falls_asleep() {
#ifdef __linux__
  if (moved.exchange(false, std::memory_order_acq_rel)) {
    sched_setaffinity(thread, sizeof(allowed), &allowed);
  }
  asleep.store(true, std::memory_order_release);
#endif
}

void Worker::is_awake() {
#ifdef __linux__
  asleep.store(false, std::memory_order_relaxed);
#endif
}

#ifdef __linux__
void Worker::leave(int processor_of_caller) {
  if (processor_of_caller < 0 || !asleep.load(std::memory_order_acquire)) {
    return;
  }
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<size_t>(processor_of_caller), &others);
  if (CPU_COUNT(&others) > 0) {
    moved.store(true, std::memory_order_release);
    sched_setaffinity(thread, sizeof(others), &others);
  }
}
#endif

void Team::work(Worker* worker) {
#ifdef __linux__
  pthread_setname_np(pthread_self(), "ephost-cpu");
  worker->thread = static_cast<pid_t>(syscall(SYS_gettid));
  sched_getaffinity(0, sizeof(worker->allowed), &worker->allowed);
#endif
  for (;;) {
    while (take(&self.place)) {
      function_(data_);
      self.place = {};
      unfinished_.fetch_sub(1, std::memory_order_release);
    }
    const Clock::time_point start = Clock::now();
    for (;;) {
      bool found = false;
      for (int looks = 0; looks < kLooks && !found; ++looks) {
        relax();
        found = waiting();
      }
      if (found) break;
      const auto waited = Clock::now() - start;
      if (waited >
          (expected_.load(std::memory_order_relaxed) ? Clock::duration(kSpinInRun) : kSpinAfterRun)) {
        sleep(worker);
        break;
      }
      std::this_thread::yield();
    }
  }
}

void Team::sleep(Worker* worker) {
  worker->falls_asleep();
  const uint32_t before = alarm_.load(std::memory_order_seq_cst);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (!waiting()) {
    alarm_.wait(before, std::memory_order_seq_cst);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  worker->is_awake();
}

int count_cores() {
#ifdef __linux__
  // Two threads of one core share its arithmetic units: a second one there does not compute faster.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    std::set<std::string> cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      std::string siblings;
      std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                         "/topology/thread_siblings_list");
      cores.insert(file >> siblings ? siblings : "cpu " + std::to_string(cpu));
    }
    if (!cores.empty()) return static_cast<int>(cores.size());
  }
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int default_threads() {
  static const int cores = count_cores();
  return cores;
}

int max_threads() { return self.threads > 0 ? self.threads : default_threads(); }
int thread_rank() { return self.place.rank; }
int team_size() { return self.place.size; }
bool in_region() { return self.place.inside; }

void begin_region(int ranks, void (*function)(void*), void* data) {
  self.around.push_back(self.place);
  ranks = std::min(ranks, static_cast<int>(UINT16_MAX));
  if (ranks < 2 || in_region()) {
    self.place = {nullptr, 0, 1, true};
    return;
  }
  Team* team = self.team;
  if (team == nullptr) {
    team = borrow_team();
    if (self.threads > 0) {
      self.team = team;
      team->expect_work(self.spin);
    }
  }
  team->begin(ranks, function, data);
  self.place = {team, 0, ranks, true};
}

void end_region() {
  Team* const team = self.place.team;
  if (team != nullptr) {
    team->end();
    if (team != self.team) give_back(team);
  }
  self.place = self.around.back();
  self.around.pop_back();
}

void run_region(int ranks, void (*function)(void*), void* data) {
  begin_region(ranks, function, data);
  function(data);
  end_region();
}

void team_barrier() {
  if (self.place.team != nullptr) self.place.team->barrier();
}

ThreadScope::ThreadScope(int threads, bool spin) : outermost_(self.threads == 0) {
  if (outermost_) {
    self.threads = threads > 0 ? threads : default_threads();
    self.spin = spin;
  }
}

ThreadScope::~ThreadScope() {
  if (outermost_) {
    self.threads = 0;
    if (self.team != nullptr) {
      give_back(self.team);
      self.team = nullptr;
    }
  }
}

}  // namespace ephost::cpu
