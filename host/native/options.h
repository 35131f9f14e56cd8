/* Options of sessions and of runs. */
#ifndef EPHOST_NATIVE_OPTIONS_H_
#define EPHOST_NATIVE_OPTIONS_H_

#include <stdatomic.h>
#include <stdint.h>

#include "abi.h"

/* The application's callbacks for the data of EPContext nodes, each NULL where there is none. Their state is
 * borrowed. */
typedef struct ContextData {
  OrtReadNamedBufferFunc read;
  void* read_state;
  OrtWriteNamedBufferFunc write;
  void* write_state;
} ContextData;

struct OrtSessionOptions {
  OrtKeyValuePairs* config;
  bool mem_pattern;
  ExecutionMode execution_mode;
  const void* weightless_data; /* borrowed */
  size_t weightless_size;
  OrtCustomOpDomain** domains; /* the array is owned, the domains are borrowed */
  size_t domain_count;
  ContextData context_data;
};

struct OrtRunOptions {
  OrtKeyValuePairs* config;
  char* tag;
  int log_severity;
  int log_verbosity;
  atomic_bool terminate;
  atomic_bool only_fetches;   /* run nothing but what the wanted outputs need */
  OrtSyncStream* sync_stream; /* borrowed */
  /* In a worker: what its host sets to 1 when the run is to stop; NULL elsewhere. */
  const _Atomic(uint32_t)* stop_elsewhere;
};

/* Whether runs with these options are to stop. Relaxed: who asks looks at nothing that the stopping thread
 * wrote, and asks again at the next step. fallback.c, where once has to do, orders it by a fence. */
static inline bool run_is_terminated(const OrtRunOptions* options) {
  return atomic_load_explicit(&options->terminate, memory_order_relaxed) ||
         (options->stop_elsewhere != NULL &&
          atomic_load_explicit(options->stop_elsewhere, memory_order_relaxed) != 0);
}

/* A run in another process: `flag` says there whether it is to stop, from options_watch to options_unwatch.
 */
typedef struct RunWatch {
  struct RunWatch *next, *previous;
  const OrtRunOptions* options;
  _Atomic(uint32_t)* flag;
} RunWatch;

void options_watch(RunWatch* watch, const OrtRunOptions* options, _Atomic(uint32_t)* flag);
void options_unwatch(RunWatch* watch);

/* Stops what looks at no options while it runs: the steps that are Python's (fallback.c). */
extern void (*options_stop_python)(const OrtRunOptions* options);

#endif
