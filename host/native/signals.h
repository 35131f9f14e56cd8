/* Signals that come during a run, Ctrl-C for one. Python calls their handlers between two of its steps, of
 * which a run has none: it looks itself. */
#ifndef EPHOST_NATIVE_SIGNALS_H_
#define EPHOST_NATIVE_SIGNALS_H_

#include <stdbool.h>
#include <stdint.h>

/* How often a run looks. */
enum { SIGNAL_LOOK_NS = 50000000 };
/* Whether a signal that came meanwhile, Ctrl-C for one, ends the run that the calling thread is in. Its
 * handlers run in here, where Python would call them: in the main thread's runs alone, a few times a second.
 * Without the GIL. */
bool run_is_interrupted(void);
/* A thread's look out for signals: from watch_signals to unwatch_signals, also in runs inside of runs. */
typedef struct SignalWatch {
  int64_t next_look; /* on coarse_clock_ns; 0: nobody looks */
  bool came;
} SignalWatch;
SignalWatch watch_signals(void); /* what there was before */
void unwatch_signals(SignalWatch before);
/* Set by fallback.c: runs handlers. The time at which to look again, 0 where one of them has raised. */
extern int64_t (*signals_run_handlers)(int64_t now);

#endif
