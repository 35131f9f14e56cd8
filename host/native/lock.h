/* A lock for the few places where two threads may meet for some nanoseconds: a table of settings, a free
 * list. */
#ifndef EPHOST_LOCK_H_
#define EPHOST_LOCK_H_

#include <stdatomic.h>
#include <stdbool.h>

#ifdef _WIN32
#include <windows.h>
static inline void host_yield(void) { SwitchToThread(); }
#else
#include <sched.h>
static inline void host_yield(void) { sched_yield(); }
#endif

typedef atomic_flag SpinLock; /* initialise with ATOMIC_FLAG_INIT, or by zeroing static memory */

static inline bool spin_try_lock(SpinLock* lock) {
  return !atomic_flag_test_and_set_explicit(lock, memory_order_acquire);
}
static inline void spin_lock(SpinLock* lock) {
  while (!spin_try_lock(lock)) host_yield();
}
static inline void spin_unlock(SpinLock* lock) { atomic_flag_clear_explicit(lock, memory_order_release); }
static inline void spin_hold(SpinLock* lock, bool hold) {
  if (hold) {
    spin_lock(lock);
  } else {
    spin_unlock(lock);
  }
}

#endif
