/* What a run tells of itself: events for EPs' profilers, and the times of its steps. */
#ifndef EPHOST_NATIVE_EVENTS_H_
#define EPHOST_NATIVE_EVENTS_H_

#include "plan.h"

typedef struct Event {
  uint64_t id; /* 0: nobody listens */
  int64_t start;
} Event;

Event event_start(Plan* plan);
/* `step` may be NULL for what is no step. */
void event_stop(Plan* plan, Event event, OrtProfilingEventCategory category, const char* name,
                const Step* step);
void step_event_stop(Plan* plan, Event event, const Step* step);
/* Of the plan's step with that index, for ephost_plan_times; lost without memory. */
void record_time(Plan* plan, size_t step, int64_t start, int64_t end);

#endif
