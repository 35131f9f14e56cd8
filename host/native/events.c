/* What a run tells of itself: events for EPs' profilers, and the times of its steps for the host's profile.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "events.h"
#include "heap.h"
#include "logger.h"
#include "plan.h"
#include "status.h"

/* ---- events ---- */

/* A profiler hears of all plans of its session: the body of an If is one of its own. */
static atomic_uint_least64_t last_event;

static void profiler_failed(OrtStatus* status) {
  if (status == NULL) return;
  host_log(ORT_LOGGING_LEVEL_WARNING, "a profiler of an EP does not take an event: %s", status->message);
  ephost_api.ReleaseStatus(status);
}

Event event_start(Plan* plan) {
  Event event = {0, 0};
  if (!plan->profiler_count || !atomic_load_explicit(&plan->profiling, memory_order_relaxed)) return event;
  event.id = atomic_fetch_add(&last_event, 1) + 1;
  event.start = clock_ns();
  for (size_t i = 0; i < plan->profiler_count; ++i) {
    OrtEpProfilerImpl* profiler = plan->profilers[i];
    if (profiler->StartEvent != NULL)
      profiler_failed(GUARDED(OrtEpProfilerImpl, StartEvent)(profiler, event.id));
  }
  return event;
}

/* The event as a profiler gets to see it: name, times, and for a step its operator and who runs it. */
void event_stop(Plan* plan, Event event, OrtProfilingEventCategory category, const char* name,
                const Step* step) {
  if (!event.id) return;
  const char* keys[] = {"op_name", "provider"};
  const char* values[] = {step != NULL ? step->op_type : "",
                          step != NULL && step->ep >= 0 ? plan->eps[step->ep].name : "CPUExecutionProvider"};
  OrtProfilingEvent* told = NULL;
  /* Whole microseconds inside of the event: an EP that fits its events into this one keeps within what the
   * host's trace says of it. */
  int64_t start = (event.start - plan->profile_start + 999) / 1000;
  int64_t end = (clock_ns() - plan->profile_start) / 1000;
  OrtStatus* status =
      ephost_ep_api.CreateProfilingEvent(category, -1, -1, name, start, end > start ? end - start : 0, keys,
                                         values, step != NULL ? 2 : 0, &told);
  profiler_failed(status);
  for (size_t i = 0; told != NULL && i < plan->profiler_count; ++i) {
    OrtEpProfilerImpl* profiler = plan->profilers[i];
    if (profiler->StopEvent != NULL)
      profiler_failed(GUARDED(OrtEpProfilerImpl, StopEvent)(profiler, event.id, told));
  }
  if (told != NULL) ephost_ep_api.ReleaseProfilingEvent(told);
}

void step_event_stop(Plan* plan, Event event, const Step* step) {
  char name[256];
  if (!event.id) return;
  (void)snprintf(name, sizeof name, "%s%s", step->node_name, step->kind == STEP_COPY ? "" : "_kernel_time");
  event_stop(plan, event,
             step->kind == STEP_COPY ? OrtProfilingEventCategory_SESSION : OrtProfilingEventCategory_NODE,
             name, step->kind == STEP_COPY ? NULL : step);
}

/* ---- times ---- */

void record_time(Plan* plan, size_t step, int64_t start, int64_t end) {
  mutex_lock(&plan->profile_lock);
  if (plan->time_count == plan->time_capacity) {
    size_t capacity = plan->time_capacity ? plan->time_capacity * 2 : 1024;
    EphostStepTime* grown = host_realloc(plan->times, capacity * sizeof *grown);
    if (grown != NULL) {
      plan->times = grown;
      plan->time_capacity = capacity;
    }
  }
  if (plan->time_count < plan->time_capacity) {
    EphostStepTime time = {(int32_t)step, thread_id(), start, end - start};
    plan->times[plan->time_count++] = time;
  }
  mutex_unlock(&plan->profile_lock);
}

void ephost_plan_profile(Plan* plan, bool enabled) { atomic_store(&plan->profiling, enabled); }

static _Thread_local int64_t profiler_began;

OrtStatus* ephost_profiler_start(OrtEpProfilerImpl* profiler, int64_t began) {
  profiler_began = began;
  return GUARDED(OrtEpProfilerImpl, StartProfiling)(profiler, clock_ns() - began);
}

int64_t ephost_profiler_began(void) { return profiler_began; }

OrtStatus* ephost_plan_set_profilers(Plan* plan, OrtEpProfilerImpl** profilers, size_t count,
                                     int64_t profile_start) {
  if (plan->profilers != NULL) return status_new(ORT_INVALID_ARGUMENT, "plan: profilers set twice");
  plan->profilers = host_memdup(profilers, count * sizeof *profilers);
  if (plan->profilers == NULL) return status_no_memory();
  plan->profiler_count = count;
  plan->profile_start = profile_start;
  return NULL;
}

size_t ephost_plan_times(Plan* plan, EphostStepTime* out, size_t capacity) {
  mutex_lock(&plan->profile_lock);
  size_t count = plan->time_count;
  if (capacity && count) memcpy(out, plan->times, (count < capacity ? count : capacity) * sizeof *out);
  if (capacity) plan->time_count = 0;
  mutex_unlock(&plan->profile_lock);
  return count;
}

int64_t ephost_clock_ns(void) { return clock_ns(); }
