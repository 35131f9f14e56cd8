// The functions of GNU's OpenMP that oneDNN's library calls, on the plugin's own threads (threads.h).
//
// oneDNN is loaded as a dependency of a library that needs this one first (engines/onednn_library.cc), so the
// dynamic linker looks here for what oneDNN needs, and finds these before those of libgomp. The reasons: one
// pool for all kernels, and one that does not stand still when a thread is woken late. Where a process has
// oneDNN or libgomp loaded for everybody already, oneDNN uses that libgomp; all works as well, on two sets of
// threads.
//
// Outside of a region of ours the questions about the caller are passed on to libgomp, if that is loaded:
// these functions then answer rightly also to someone else who is bound to them, and for a caller that is
// itself in a parallel region of its program.
#include <dlfcn.h>

#include <algorithm>

#include "cpu/runtime/threads.h"

namespace {

using namespace ephost::cpu;

using Question = int (*)();

// libgomp's function of this name; null if that library is not loaded. Who asks is bound to these functions,
// so that oneDNN, which brings libgomp, has been loaded before.
Question libgomp(const char* name) {
  void* const library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Question>(dlsym(library, name));
}

// A loop of the region's ranks: which share of it comes next for this one.
struct Loop {
  long start = 0, step = 1, count = 0, chunk = 0, turn = 0;

  bool next(long* first, long* last) {
    const long rank = thread_rank(), ranks = team_size();
    long begin = 0, end = 0;
    if (chunk <= 0) {  // One share for each rank, as equal as can be.
      if (turn > 0) return false;
      const long share = count / ranks, more = count % ranks;
      begin = rank * share + std::min(rank, more);
      end = begin + share + (rank < more ? 1 : 0);
    } else {
      begin = (turn * ranks + rank) * chunk;
      end = std::min(count, begin + chunk);
    }
    ++turn;
    if (begin >= end) return false;
    *first = start + begin * step;
    *last = start + end * step;
    return true;
  }
};
thread_local Loop loop;

}  // namespace

#define EPHOST_OPENMP extern "C" __attribute__((visibility("default")))

EPHOST_OPENMP int omp_get_max_threads() { return max_threads(); }

EPHOST_OPENMP int omp_get_thread_num() {
  static const Question theirs = libgomp("omp_get_thread_num");
  return in_region() || theirs == nullptr ? thread_rank() : theirs();
}

EPHOST_OPENMP int omp_get_num_threads() {
  static const Question theirs = libgomp("omp_get_num_threads");
  return in_region() || theirs == nullptr ? team_size() : theirs();
}

EPHOST_OPENMP int omp_in_parallel() {
  static const Question theirs = libgomp("omp_in_parallel");
  return in_region() ? 1 : theirs == nullptr ? 0 : theirs();
}

// Compilers write a parallel region as these two with a call of the function between them, and later ones as
// the third; `ranks` is 0 for as many as there are threads.
EPHOST_OPENMP void GOMP_parallel_start(void (*function)(void*), void* data, unsigned ranks) {
  begin_region(ranks == 0 ? max_threads() : static_cast<int>(ranks), function, data);
}

EPHOST_OPENMP void GOMP_parallel_end() { end_region(); }

EPHOST_OPENMP void GOMP_parallel(void (*function)(void*), void* data, unsigned ranks, unsigned) {
  run_region(ranks == 0 ? max_threads() : static_cast<int>(ranks), function, data);
}

EPHOST_OPENMP void GOMP_barrier() { team_barrier(); }

EPHOST_OPENMP bool GOMP_loop_static_next(long* first, long* last) { return loop.next(first, last); }

EPHOST_OPENMP bool GOMP_loop_static_start(long start, long end, long step, long chunk, long* first,
                                          long* last) {
  const long span = step > 0 ? end - start + step - 1 : end - start + step + 1;
  loop = {start, step, std::max(0L, span / step), chunk, 0};
  return loop.next(first, last);
}

EPHOST_OPENMP void GOMP_loop_end_nowait() {}
