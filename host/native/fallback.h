/* Steps on the reference fallback, which are Python's. */
#ifndef EPHOST_NATIVE_FALLBACK_H_
#define EPHOST_NATIVE_FALLBACK_H_

#include "plan.h"

/* The options of the run that this thread is in, for the runs of subgraphs inside it; NULL outside of a step.
 */
const OrtRunOptions* fallback_run_options(void);
/* Raises what ended such a step of the run that this thread has just ended, if it is meant for the program:
 * Ctrl-C, an exit. False: there is none. */
bool fallback_raise_passing(void);
/* From here on plans run such steps. False with an exception set. */
bool fallback_install(void);

#endif
