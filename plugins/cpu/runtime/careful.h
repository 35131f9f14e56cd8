// Runs that are fed numbers that are no numbers, or infinite.
//
// oneDNN's activations and maxima drop NaN: they make 0, or a bound, of it. What a program answers would look
// as if nothing was wrong. Programs that use them look at what a run is fed, and where something of that is
// not finite, their kernels take a slower way that keeps it.
#ifndef EPHOST_CPU_RUNTIME_CAREFUL_H_
#define EPHOST_CPU_RUNTIME_CAREFUL_H_

namespace ephost::cpu {

// Whether the calling thread's run is such a one. False on threads that only help.
bool is_careful();

class CarefulScope {
 public:
  // A run inside of a careful one is careful, too.
  explicit CarefulScope(bool careful);
  ~CarefulScope();
  CarefulScope(const CarefulScope&) = delete;
  CarefulScope& operator=(const CarefulScope&) = delete;

 private:
  bool before_;
};

}  // namespace ephost::cpu

#endif
