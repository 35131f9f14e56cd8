/* Before the process forks its one thread that goes on takes all of these locks, and both sides give them
 * back. */
#define _GNU_SOURCE
#include "forks.h"

#ifndef _WIN32
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "lock.h"

static SpinLock watches_lock = ATOMIC_FLAG_INIT;
static ForkWatch* first_watch;

void fork_watch(ForkWatch* watch, Mutex* mutex) {
  spin_lock(&watches_lock);
  *watch = (ForkWatch){.mutex = mutex, .next = first_watch};
  if (first_watch != NULL) first_watch->previous = watch;
  first_watch = watch;
  spin_unlock(&watches_lock);
}

void fork_unwatch(ForkWatch* watch) {
  spin_lock(&watches_lock);
  if (watch->next != NULL) watch->next->previous = watch->previous;
  if (watch->previous != NULL) {
    watch->previous->next = watch->next;
  } else {
    first_watch = watch->next;
  }
  spin_unlock(&watches_lock);
}

static void hold_others(bool hold) {
  fallback_hold(hold);
  interned_hold(hold);
  memory_hold(hold);
  options_hold(hold);
}

static void before_fork(void) {
  spin_lock(&watches_lock);
  for (ForkWatch* watch = first_watch; watch != NULL; watch = watch->next) mutex_lock(watch->mutex);
  hold_others(true);
}

static void after_fork(void) {
  hold_others(false);
  for (ForkWatch* watch = first_watch; watch != NULL; watch = watch->next) mutex_unlock(watch->mutex);
  spin_unlock(&watches_lock);
}

/* Without memory for it the process forks as it did before. */
void forks_setup(void) { (void)pthread_atfork(before_fork, after_fork, after_fork); }

int64_t fork_process(void) { return (int64_t)getpid(); }

void fork_end_child(int64_t process, const char* who) {
  if (process == getpid()) return;
  /* Not by the log: other threads, of which there is none here, may have held what that takes. */
  (void)dprintf(STDERR_FILENO,
                "ephost: %s forked, and returned in the child, where the program would go on a second time: "
                "that process ends here. A child has to end by _exit, or to go on by exec\n",
                who);
  _exit(1);
}
#else
void fork_watch(ForkWatch* watch, Mutex* mutex) { watch->mutex = mutex; }
void fork_unwatch(ForkWatch* watch) { (void)watch; }
void forks_setup(void) {}
int64_t fork_process(void) { return 0; }
void fork_end_child(int64_t process, const char* who) { (void)process, (void)who; }
#endif
