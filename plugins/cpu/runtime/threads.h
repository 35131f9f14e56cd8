// The threads of the plugin, and of oneDNN in it: openmp.cc gives oneDNN these in place of OpenMP's.
//
// Work comes in regions, as OpenMP has them: a function that is called once for each of a number of ranks.
// The thread that starts a region takes rank 0, workers take the others, and when the starter is done with
// its own it takes those that no worker has taken by then. So nobody waits for a thread that the operating
// system has not yet woken, or keeps from running because the machine has other work.
//
// Each thread that runs a program has a team of workers for that time, which no other thread's work can hold
// up.
#ifndef EPHOST_CPU_RUNTIME_THREADS_H_
#define EPHOST_CPU_RUNTIME_THREADS_H_

namespace ephost::cpu {

// One for each processor core that this process may use.
int default_threads();

// How many threads the calling thread's regions have: what its ThreadScope says, or default_threads().
int max_threads();
// The rank of the caller in its region, 0 outside of any; how many ranks there are; whether it is in one.
int thread_rank();
int team_size();
bool in_region();

// Calls function(data) once for each rank of a region and returns when all have returned. A region inside of
// a region has one rank. Ranks may wait for each other at team_barrier(). `function` must not throw.
void run_region(int ranks, void (*function)(void*), void* data);
// The same in two halves, between which the caller itself calls the function for rank 0.
void begin_region(int ranks, void (*function)(void*), void* data);
void end_region();
void team_barrier();

// While one lives, the calling thread has a team, whose workers look for work without sleeping for a while
// after each region if `spin` is set. In another one's life it changes nothing.
class ThreadScope {
 public:
  // threads: 0 for as many as there are cores.
  ThreadScope(int threads, bool spin);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  const bool outermost_;
};

// While one lives, the calling thread's regions have one rank: for work that is not worth waking others for.
class OneRank {
 public:
  OneRank() { begin_region(1, nullptr, nullptr); }
  ~OneRank() { end_region(); }
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;
};

}  // namespace ephost::cpu

#endif
