// One pool of threads for everything: OpenMP's, which is oneDNN's too.
#ifndef EPHOST_CPU_PARALLEL_H_
#define EPHOST_CPU_PARALLEL_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace ephost::cpu {

// Calls body(begin, end) for parts of [0, n) on several threads; each part has at least `grain` items, so
// that small work stays on the caller's thread. `body` must not throw: check before, or note the failure and
// throw after. Inside of a parallel region the caller does it all.
template <typename Body>
void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) {
    return;
  }
  const int64_t most = std::max<int64_t>(1, n / std::max<int64_t>(1, grain));
  const int threads =
      omp_in_parallel() != 0 ? 1 : static_cast<int>(std::min<int64_t>(most, omp_get_max_threads()));
  if (threads == 1) {
    body(int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t team = omp_get_num_threads(), rank = omp_get_thread_num();
    const int64_t begin = n * rank / team, end = n * (rank + 1) / team;
    if (begin < end) {
      body(begin, end);
    }
  }
}

// Elements of light work (an addition) that are worth a thread of their own.
inline constexpr int64_t kGrain = 16384;

// The number of threads that this thread's parallel regions use, for as long as it lives.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads) : before_(omp_get_max_threads()) {
    if (threads > 0 && threads != before_) {
      omp_set_num_threads(threads);
    }
  }
  ~ThreadLimit() {
    if (omp_get_max_threads() != before_) {
      omp_set_num_threads(before_);
    }
  }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

}  // namespace ephost::cpu

#endif
