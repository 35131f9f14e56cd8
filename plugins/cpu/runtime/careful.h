// Runs that are fed numbers that are no numbers, or infinite.
//
// oneDNN's activations and maxima drop NaN: they make 0, or a bound, of it. What a program answers would look
// as if nothing was wrong. Kernels that use them ask whether what the run was fed is finite, and where
// something of that is not, they take a slower way that keeps it.
#ifndef EPHOST_CPU_RUNTIME_CAREFUL_H_
#define EPHOST_CPU_RUNTIME_CAREFUL_H_

#include <functional>

namespace ephost::cpu {

// Whether the calling thread's run is such a one. False on threads that only help.
bool is_careful();

// A run on the calling thread.
class CarefulScope {
 public:
  // `find` tells whether it is careful, once somebody asks; a run inside of a careful one is, too.
  explicit CarefulScope(std::function<bool()> find);
  ~CarefulScope();
  CarefulScope(const CarefulScope&) = delete;
  CarefulScope& operator=(const CarefulScope&) = delete;

 private:
  friend bool is_careful();
  bool is_careful_now();

  std::function<bool()> find_;  // None: `careful_` is known.
  bool careful_ = false;
  CarefulScope* around_;
};

}  // namespace ephost::cpu

#endif
