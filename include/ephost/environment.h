/* Structs for creating the environment. */
#ifndef EPHOST_ENVIRONMENT_H_
#define EPHOST_ENVIRONMENT_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Argument of CreateEnvWithOptions. Zero it first; all of it is copied. */
struct OrtEnvCreationOptions {
  /* ORT_API_VERSION. */
  uint32_t version;

  EPHOST_SINCE(24)

  /* An OrtLoggingLevel: the least that is written. */
  int32_t logging_severity_level;

  /* The name in log lines. Not NULL. */
  const char* log_id;

  /* Where log lines go, and the function's first argument; NULL: to the host's own log. */
  OrtLoggingFunction custom_logging_function;
  void* custom_logging_param;

  /* Thread pools that sessions may share; NULL: each session has its own. */
  const OrtThreadingOptions* threading_options;

  /* Options by name (the allow_... names of config_keys.h); NULL: none. Plugins read them with
     GetEnvConfigEntries. */
  const OrtKeyValuePairs* config_entries;
};

/* Functions that a session's thread pool calls around each piece of work, for tracing say. Any of them may be
   NULL. They run on the pool's threads, several at once. */
struct OrtThreadPoolCallbacksConfig {
  /* ORT_API_VERSION. */
  uint32_t version;

  /* When work is queued, on the thread that queues it; what it returns goes to the other three. */
  OrtThreadPoolWorkEnqueueFn on_enqueue;

  /* Right before and after the work, on the thread that does it. */
  OrtThreadPoolWorkStartFn on_start_work;
  OrtThreadPoolWorkStopFn on_stop_work;

  /* Instead of those two, when queued work is dropped; to free what on_enqueue made. */
  OrtThreadPoolWorkAbandonFn on_abandon;

  /* First argument of all four; must outlive the sessions. */
  void* user_context;
};

#ifdef __cplusplus
}
#endif

#endif
