/* Session options and run options as a plugin sees them, and the environment's settings. What they mean is
 * Python's business: here they are only kept. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "forks.h"
#include "graph.h"
#include "heap.h"
#include "key_values.h"
#include "lock.h"
#include "options.h"
#include "python.h"
#include "signals.h"
#include "status.h"

/* ---- session options ----------------------------------------------------------------------------------- */

void ORT_API_CALL SLOT(OrtApi, ReleaseSessionOptions)(OrtSessionOptions* input) {
  if (input == NULL) return;
  key_values_free(input->config);
  host_free(input->domains);
  handle_count(HANDLE_SESSION_OPTIONS, -1);
  host_free(input);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CloneSessionOptions)(const OrtSessionOptions* in_options,
                                                          OrtSessionOptions** out_options) {
  REQUIRE_ARG(out_options != NULL);
  *out_options = NULL;
  REQUIRE_ARG(in_options != NULL);
  OrtSessionOptions* copy = host_memdup(in_options, sizeof(*in_options));
  if (copy == NULL) return status_no_memory();
  copy->config = key_values_copy(in_options->config);
  copy->domains = NULL;
  copy->domain_count = 0;
  bool whole = copy->config != NULL;
  /* One by one, which leaves the room that pushing another counts on. */
  for (size_t i = 0; whole && i < in_options->domain_count; i++)
    whole = pointers_push(&copy->domains, &copy->domain_count, in_options->domains[i]);
  if (!whole) {
    key_values_free(copy->config);
    host_free(copy->domains);
    host_free(copy);
    return status_no_memory();
  }
  handle_count(HANDLE_SESSION_OPTIONS, +1);
  *out_options = copy;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateSessionOptions)(OrtSessionOptions** options) {
  static const OrtSessionOptions defaults = {.mem_pattern = true, .execution_mode = ORT_SEQUENTIAL};
  return SLOT(OrtApi, CloneSessionOptions)(&defaults, options);
}

static OrtStatus* add_entry(const char* function, OrtKeyValuePairs* config, const char* key,
                            const char* value) {
  if (key[0] == '\0') return status_new(ORT_INVALID_ARGUMENT, "%s: the key is empty", function);
  return key_values_set(config, key, value) ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, AddSessionConfigEntry)(OrtSessionOptions* options,
                                                            const char* config_key,
                                                            const char* config_value) {
  REQUIRE_ARG(options != NULL && config_key != NULL && config_value != NULL);
  return add_entry("AddSessionConfigEntry", options->config, config_key, config_value);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, HasSessionConfigEntry)(const OrtSessionOptions* options,
                                                            const char* config_key, int* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(options != NULL && config_key != NULL);
  *out = key_values_get(options->config, config_key) != NULL;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetSessionConfigEntry)(const OrtSessionOptions* options,
                                                            const char* config_key, char* config_value,
                                                            size_t* size) {
  REQUIRE_ARG(options != NULL && config_key != NULL && size != NULL);
  const char* value = key_values_get(options->config, config_key);
  if (value == NULL) {
    return status_new(ORT_INVALID_ARGUMENT, "GetSessionConfigEntry: there is no entry \"%s\"", config_key);
  }
  return text_out("GetSessionConfigEntry", value, config_value, size);
}

/* A copy, the caller's to release. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetSessionOptionsConfigEntries)(const OrtSessionOptions* options,
                                                                     OrtKeyValuePairs** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(options != NULL);
  *out = key_values_copy(options->config);
  return *out != NULL ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, EnableMemPattern)(OrtSessionOptions* options) {
  REQUIRE_ARG(options != NULL);
  options->mem_pattern = true;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, DisableMemPattern)(OrtSessionOptions* options) {
  REQUIRE_ARG(options != NULL);
  options->mem_pattern = false;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetMemPatternEnabled)(const OrtSessionOptions* options, int* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(options != NULL);
  *out = options->mem_pattern;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, SetSessionExecutionMode)(OrtSessionOptions* options,
                                                              ExecutionMode execution_mode) {
  REQUIRE_ARG(options != NULL);
  REQUIRE_ARG(execution_mode == ORT_SEQUENTIAL || execution_mode == ORT_PARALLEL);
  options->execution_mode = execution_mode;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetSessionExecutionMode)(const OrtSessionOptions* options,
                                                              ExecutionMode* out) {
  REQUIRE_ARG(out != NULL);
  *out = ORT_SEQUENTIAL;
  REQUIRE_ARG(options != NULL);
  *out = options->execution_mode;
  return NULL;
}

/* The bytes stay the caller's and must outlive the options and their clones. */
OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             SessionOptionsSetWeightlessSourceModelBuffer)(OrtSessionOptions* options,
                                                                           const void* source_model_data,
                                                                           size_t source_model_data_length) {
  REQUIRE_ARG(options != NULL);
  REQUIRE_ARG(source_model_data != NULL && source_model_data_length > 0);
  options->weightless_data = source_model_data;
  options->weightless_size = source_model_data_length;
  return NULL;
}

/* NULL and 0 when none was set. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, SessionOptionsGetWeightlessSourceModelBuffer)(
    const OrtSessionOptions* session_options, const void** source_model_data,
    size_t* source_model_data_length) {
  REQUIRE_ARG(source_model_data != NULL && source_model_data_length != NULL);
  *source_model_data = NULL;
  *source_model_data_length = 0;
  REQUIRE_ARG(session_options != NULL);
  *source_model_data = session_options->weightless_data;
  *source_model_data_length = session_options->weightless_size;
  return NULL;
}

/* ---- run options --------------------------------------------------------------------------------------- */

void ORT_API_CALL SLOT(OrtApi, ReleaseRunOptions)(OrtRunOptions* input) {
  if (input == NULL) return;
  key_values_free(input->config);
  host_free(input->tag);
  handle_count(HANDLE_RUN_OPTIONS, -1);
  host_free(input);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateRunOptions)(OrtRunOptions** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  OrtRunOptions* options = host_calloc(1, sizeof(*options));
  if (options == NULL) return status_no_memory();
  handle_count(HANDLE_RUN_OPTIONS, +1);
  options->config = key_values_new();
  options->tag = host_strdup("");
  options->log_severity = -1; /* the session's */
  atomic_init(&options->terminate, false);
  if (options->config == NULL || options->tag == NULL) {
    SLOT(OrtApi, ReleaseRunOptions)(options);
    return status_no_memory();
  }
  *out = options;
  return NULL;
}

void (*options_stop_python)(const OrtRunOptions* options);

void ephost_run_options_only_fetches(OrtRunOptions* options, bool only) {
  atomic_store(&options->only_fetches, only);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, RunOptionsSetRunLogVerbosityLevel)(OrtRunOptions* options,
                                                                        int log_verbosity_level) {
  REQUIRE_ARG(options != NULL);
  options->log_verbosity = log_verbosity_level;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, RunOptionsGetRunLogVerbosityLevel)(const OrtRunOptions* options,
                                                                        int* log_verbosity_level) {
  REQUIRE_ARG(log_verbosity_level != NULL);
  *log_verbosity_level = 0;
  REQUIRE_ARG(options != NULL);
  *log_verbosity_level = options->log_verbosity;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, RunOptionsSetRunLogSeverityLevel)(OrtRunOptions* options,
                                                                       int log_severity_level) {
  REQUIRE_ARG(options != NULL);
  options->log_severity = log_severity_level;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, RunOptionsGetRunLogSeverityLevel)(const OrtRunOptions* options,
                                                                       int* log_severity_level) {
  REQUIRE_ARG(log_severity_level != NULL);
  *log_severity_level = -1;
  REQUIRE_ARG(options != NULL);
  *log_severity_level = options->log_severity;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, RunOptionsSetRunTag)(OrtRunOptions* options, const char* run_tag) {
  REQUIRE_ARG(options != NULL);
  char* copy = host_strdup(run_tag != NULL ? run_tag : "");
  if (copy == NULL) return status_no_memory();
  host_free(options->tag);
  options->tag = copy;
  return NULL;
}

/* Valid until the tag changes or the options are released. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, RunOptionsGetRunTag)(const OrtRunOptions* options,
                                                          const char** run_tag) {
  REQUIRE_ARG(run_tag != NULL);
  *run_tag = "";
  REQUIRE_ARG(options != NULL);
  *run_tag = options->tag;
  return NULL;
}

/* Runs in other processes that are under way. */
static SpinLock watch_lock = ATOMIC_FLAG_INIT;
static RunWatch* first_watch;

void options_watch(RunWatch* watch, const OrtRunOptions* options, _Atomic(uint32_t)* flag) {
  *watch = (RunWatch){.options = options, .flag = flag};
  spin_lock(&watch_lock);
  watch->next = first_watch;
  if (first_watch != NULL) first_watch->previous = watch;
  first_watch = watch;
  atomic_store(flag, atomic_load(&options->terminate));
  spin_unlock(&watch_lock);
}

void options_unwatch(RunWatch* watch) {
  spin_lock(&watch_lock);
  if (watch->next != NULL) watch->next->previous = watch->previous;
  if (watch->previous != NULL) {
    watch->previous->next = watch->next;
  } else {
    first_watch = watch->next;
  }
  spin_unlock(&watch_lock);
}

static void set_terminate(OrtRunOptions* options, bool value) {
  atomic_store(&options->terminate, value);
  spin_lock(&watch_lock);
  for (RunWatch* watch = first_watch; watch != NULL; watch = watch->next) {
    if (watch->options == options) atomic_store(watch->flag, value);
  }
  spin_unlock(&watch_lock);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, RunOptionsSetTerminate)(OrtRunOptions* options) {
  REQUIRE_ARG(options != NULL);
  set_terminate(options, true);
  if (options_stop_python != NULL) options_stop_python(options);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, RunOptionsUnsetTerminate)(OrtRunOptions* options) {
  REQUIRE_ARG(options != NULL);
  set_terminate(options, false);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, AddRunConfigEntry)(OrtRunOptions* options, const char* config_key,
                                                        const char* config_value) {
  REQUIRE_ARG(options != NULL && config_key != NULL && config_value != NULL);
  return add_entry("AddRunConfigEntry", options->config, config_key, config_value);
}

/* NULL when there is none; else valid until the entry changes or the options are released. One entry is the
 * host's: from it an EP learns, at any time between OnRunStart and OnRunEnd, whether its run has been told to
 * stop, for which the ABI has no function. */
const char* ORT_API_CALL SLOT(OrtApi, GetRunConfigEntry)(const OrtRunOptions* options,
                                                         const char* config_key) {
  if (options == NULL || config_key == NULL) return NULL;
  if (strcmp(config_key, "ephost.run_terminated") == 0) {
    return run_is_terminated(options) || run_is_interrupted() ? "1" : NULL;
  }
  return key_values_get(options->config, config_key);
}

void ORT_API_CALL SLOT(OrtApi, RunOptionsSetSyncStream)(OrtRunOptions* options, OrtSyncStream* sync_stream) {
  if (options != NULL) options->sync_stream = sync_stream;
}

/* ---- the environment's settings ------------------------------------------------------------------------ */

static SpinLock environment_lock = ATOMIC_FLAG_INIT;
static OrtKeyValuePairs* environment_config; /* NULL while it has no entry */

OrtStatus* ephost_env_config_set(const char* key, const char* value) {
  REQUIRE_ARG(key != NULL && key[0] != '\0');
  OrtStatus* status = NULL;
  OrtKeyValuePairs* emptied = NULL;
  spin_lock(&environment_lock);
  if (value != NULL) {
    if (environment_config == NULL) environment_config = key_values_new();
    if (environment_config == NULL || !key_values_set(environment_config, key, value))
      status = status_no_memory();
  } else if (environment_config != NULL) {
    key_values_remove(environment_config, key);
  }
  if (environment_config != NULL && environment_config->count == 0) {
    emptied = environment_config;
    environment_config = NULL;
  }
  spin_unlock(&environment_lock);
  key_values_free(emptied);
  return status;
}

void options_hold(bool hold) {
  spin_hold(&watch_lock, hold);
  spin_hold(&environment_lock, hold);
}

/* A copy, the caller's to release. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, GetEnvConfigEntries)(OrtKeyValuePairs** config_entries) {
  REQUIRE_ARG(config_entries != NULL);
  spin_lock(&environment_lock);
  *config_entries = key_values_copy(environment_config);
  spin_unlock(&environment_lock);
  return *config_entries != NULL ? NULL : status_no_memory();
}
