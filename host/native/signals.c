/* Signals that come during a run. */
#define _GNU_SOURCE
#include "signals.h"

#include <stddef.h>

#include "platform.h"

int64_t (*signals_run_handlers)(int64_t now);
static THREAD_LOCAL SignalWatch signal_watch;

SignalWatch watch_signals(void) {
  const SignalWatch before = signal_watch;
  signal_watch = (SignalWatch){coarse_clock_ns() + SIGNAL_LOOK_NS, false};
  return before;
}

void unwatch_signals(SignalWatch before) { signal_watch = before; }

bool run_is_interrupted(void) {
  if (signal_watch.next_look == 0) return false;
  if (signal_watch.came) return true;
  const int64_t now = coarse_clock_ns();
  if (now < signal_watch.next_look || signals_run_handlers == NULL) return false;
  const int64_t next = signals_run_handlers(now);
  signal_watch.came = next == 0;
  signal_watch.next_look = next != 0 ? next : now;
  return signal_watch.came;
}
