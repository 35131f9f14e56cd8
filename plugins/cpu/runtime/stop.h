// How a run that is under way is told to stop.
//
// The host's question whether it should is bound to the thread that runs. It is asked between the steps of a
// program, between the iterations of loops, and by parallel_for between the parts of its work.
#ifndef EPHOST_CPU_RUNTIME_STOP_H_
#define EPHOST_CPU_RUNTIME_STOP_H_

#include <stdexcept>

namespace ephost::cpu {

// Not an Error: what catches those, to go on in another way, must not go on here.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("the run was terminated through its RunOptions") {}
};

// From here to end_stoppable(run) the calling thread asks `stops(host, run)`. Of several the latest is asked.
void begin_stoppable(bool (*stops)(const void* host, const void* run), const void* host, const void* run);
void end_stoppable(const void* run);

// Whether the calling thread's run should stop. Always false on threads that only help.
bool stop_asked();
// Throws Stopped if it should.
void check_stop();

}  // namespace ephost::cpu

#endif
