/* OrtProfilingEvent and the container in which EPs' profilers leave their events, for the host's trace. */
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "key_values.h"
#include "python.h"
#include "status.h"

struct OrtProfilingEvent {
  OrtProfilingEventCategory category;
  int32_t process_id;
  int32_t thread_id;
  int64_t timestamp_us;
  int64_t duration_us;
  char* name;
  OrtKeyValuePairs* arguments;
};

struct OrtProfilingEventsContainer {
  OrtProfilingEvent** events;
  size_t count;
};

void ORT_API_CALL SLOT(OrtEpApi, ReleaseProfilingEvent)(OrtProfilingEvent* input) {
  if (input == NULL) return;
  host_free(input->name);
  key_values_free(input->arguments);
  host_free(input);
  handle_count(HANDLE_OTHER, -1);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, CreateProfilingEvent)(OrtProfilingEventCategory category,
                                                             int32_t process_id, int32_t thread_id,
                                                             const char* event_name, int64_t timestamp_us,
                                                             int64_t duration_us, const char* const* arg_keys,
                                                             const char* const* arg_values, size_t num_args,
                                                             OrtProfilingEvent** out) {
  REQUIRE_ARG(event_name && out && (num_args == 0 || (arg_keys && arg_values)));
  *out = NULL;
  OrtProfilingEvent* event = host_calloc(1, sizeof *event);
  if (event == NULL) return status_no_memory();
  handle_count(HANDLE_OTHER, 1);
  *event = (OrtProfilingEvent){category, process_id, thread_id, timestamp_us, duration_us, NULL, NULL};
  event->name = host_strdup(event_name);
  event->arguments = key_values_new();
  bool complete = event->name != NULL && event->arguments != NULL;
  for (size_t i = 0; complete && i < num_args; ++i) {
    if (arg_keys[i] != NULL && arg_values[i] != NULL)
      complete = key_values_set(event->arguments, arg_keys[i], arg_values[i]);
  }
  if (!complete) {
    SLOT(OrtEpApi, ReleaseProfilingEvent)(event);
    return status_no_memory();
  }
  *out = event;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, ProfilingEvent_GetCategory)(const OrtProfilingEvent* event,
                                                                   OrtProfilingEventCategory* out) {
  REQUIRE_ARG(event != NULL && out != NULL);
  *out = event->category;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, ProfilingEvent_GetName)(const OrtProfilingEvent* event,
                                                               const char** out) {
  REQUIRE_ARG(event != NULL && out != NULL);
  *out = event->name;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, ProfilingEvent_GetTimestampUs)(const OrtProfilingEvent* event,
                                                                      int64_t* out) {
  REQUIRE_ARG(event != NULL && out != NULL);
  *out = event->timestamp_us;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, ProfilingEvent_GetDurationUs)(const OrtProfilingEvent* event,
                                                                     int64_t* out) {
  REQUIRE_ARG(event != NULL && out != NULL);
  *out = event->duration_us;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, ProfilingEvent_GetArgValue)(const OrtProfilingEvent* event,
                                                                   const char* key, const char** out) {
  REQUIRE_ARG(event != NULL && key != NULL && out != NULL);
  *out = key_values_get(event->arguments, key);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, ProfilingEventsContainer_AddEvents)(
    OrtProfilingEventsContainer* events_container, const OrtProfilingEvent* const* events,
    size_t num_events) {
  REQUIRE_ARG(events_container && (events || num_events == 0));
  for (size_t i = 0; i < num_events; ++i) {
    const OrtProfilingEvent* from = events[i];
    if (from == NULL) return status_new(ORT_INVALID_ARGUMENT, "event %zu of %zu is NULL", i, num_events);
    size_t size = (events_container->count + 1) * sizeof *events_container->events;
    OrtProfilingEvent** grown = host_realloc(events_container->events, size);
    if (grown == NULL) return status_no_memory();
    events_container->events = grown;
    const OrtKeyValuePairs* arguments = from->arguments;
    OrtStatus* status = SLOT(OrtEpApi, CreateProfilingEvent)(
        from->category, from->process_id, from->thread_id, from->name, from->timestamp_us, from->duration_us,
        arguments->keys, arguments->values, arguments->count, &grown[events_container->count]);
    if (status != NULL) return status;
    ++events_container->count;
  }
  return NULL;
}

/* ---- for Python ---------------------------------------------------------------------------------------- */

OrtProfilingEventsContainer* ephost_events_new(void) {
  OrtProfilingEventsContainer* container = host_calloc(1, sizeof *container);
  if (container != NULL) handle_count(HANDLE_OTHER, 1);
  return container;
}

void ephost_events_free(OrtProfilingEventsContainer* container) {
  if (container == NULL) return;
  for (size_t i = 0; i < container->count; ++i) SLOT(OrtEpApi, ReleaseProfilingEvent)(container->events[i]);
  host_free(container->events);
  host_free(container);
  handle_count(HANDLE_OTHER, -1);
}

size_t ephost_events_count(const OrtProfilingEventsContainer* container) { return container->count; }

void ephost_events_get(const OrtProfilingEventsContainer* container, size_t first, size_t count,
                       EphostEvent* out) {
  for (size_t i = 0; i < count; ++i) {
    const OrtProfilingEvent* event = container->events[first + i];
    EphostEvent told = {event->category,        event->process_id,        event->thread_id,
                        event->timestamp_us,    event->duration_us,       event->name,
                        event->arguments->keys, event->arguments->values, event->arguments->count};
    out[i] = told;
  }
}
