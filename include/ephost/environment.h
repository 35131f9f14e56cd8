#ifndef EPHOST_ENVIRONMENT_H_
#define EPHOST_ENVIRONMENT_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct OrtEnvCreationOptions {
  uint32_t version;
  EPHOST_SINCE(24)
  int32_t logging_severity_level;
  const char* log_id;
  OrtLoggingFunction custom_logging_function;
  void* custom_logging_param;
  const OrtThreadingOptions* threading_options;
  const OrtKeyValuePairs* config_entries;
};

struct OrtThreadPoolCallbacksConfig {
  uint32_t version;
  OrtThreadPoolWorkEnqueueFn on_enqueue;
  OrtThreadPoolWorkStartFn on_start_work;
  OrtThreadPoolWorkStopFn on_stop_work;
  OrtThreadPoolWorkAbandonFn on_abandon;
  void* user_context;
};

#ifdef __cplusplus
}
#endif

#endif
