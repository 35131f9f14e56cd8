/* Locks that no thread of this module holds while the process forks. A child has the locks of its parent as
 * they were, but only one of the threads: what another one held nobody would ever give back. */
#ifndef EPHOST_NATIVE_FORKS_H_
#define EPHOST_NATIVE_FORKS_H_

#include <stdbool.h>
#include <stdint.h>

#include "platform.h"

/* Of a lock that is held for a few instructions only, and while no other is taken. */
typedef struct ForkWatch {
  Mutex* mutex;
  struct ForkWatch *next, *previous;
} ForkWatch;

void fork_watch(ForkWatch* watch, Mutex* mutex);
void fork_unwatch(ForkWatch* watch); /* before the mutex is destroyed */
void forks_setup(void);              /* once */

/* The number of this process. What a plugin is asked for before anything runs may fork, as to start a
 * program, and then by mistake return in the child. */
int64_t fork_process(void);
/* Ends this process, with a word on its standard error, where it is a child of that one, made by `who`. */
void fork_end_child(int64_t process, const char* who);

/* The locks that a file has for the whole process: takes them, or gives them back. */
void fallback_hold(bool hold);
void interned_hold(bool hold);
void memory_hold(bool hold);
void options_hold(bool hold);

#endif
