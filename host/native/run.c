/* A run: the steps of a plan in order, on a frame, without the GIL; told to EPs, and recorded or replayed by
 * one of them. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "events.h"
#include "exceptions.h"
#include "heap.h"
#include "memory.h"
#include "plan.h"
#include "signals.h"
#include "status.h"
#include "streams.h"

/* ---- steps ---- */

static void release_scratch(OrtKernelContext* context) {
  while (context->scratch != NULL) {
    Scratch* scratch = context->scratch;
    context->scratch = scratch->link;
    GUARDED(OrtAllocator, Free)(scratch->allocator, scratch->block);
    host_free(scratch);
  }
}

/* Copies between a device and the CPU. What comes from a device with streams is waited for, so that whoever
 * reads it on the CPU finds it there. */
static OrtStatus* copy_step(const Step* step, Frame* frame) {
  enum { BATCH = 16 };
  OrtDataTransferImpl* transfer = step->object;
  OrtSyncStream* stream = frame_stream(frame, step->ep);
  const OrtValue* from[BATCH];
  OrtValue* to[BATCH];
  OrtSyncStream* streams[BATCH];
  size_t count = 0, count_all = 0;
  bool to_cpu = false;
  for (size_t i = 0; i < step->input_count; ++i) {
    const OrtValue* source = frame->values[step->inputs[i]];
    if (frame->needed != NULL && !frame->needed[step->outputs[i]]) continue;
    if (source->type == ONNX_TYPE_UNKNOWN) continue; /* an optional input that nobody gave */
    if (source->type != ONNX_TYPE_TENSOR) {
      return status_new(ORT_NOT_IMPLEMENTED, "a value that is no tensor has to cross devices");
    }
    OrtValue* target;
    OrtStatus* status =
        frame_output(frame, step, i, source->element_type, source->dims, source->rank, &target);
    if (status != NULL) return status;
    if (source->nbytes) {
      to_cpu = to_cpu || memory_info_is_cpu(target->memory_info);
      from[count] = source;
      to[count] = target;
      streams[count++] = stream;
      ++count_all;
    }
    if (count == BATCH) {
      status = GUARDED(OrtDataTransferImpl, CopyTensors)(transfer, from, to, stream != NULL ? streams : NULL,
                                                         count);
      if (status != NULL) return status;
      count = 0;
    }
  }
  if (count) {
    OrtStatus* status =
        GUARDED(OrtDataTransferImpl, CopyTensors)(transfer, from, to, stream != NULL ? streams : NULL, count);
    if (status != NULL) return status;
  }
  if (stream == NULL || !count_all) return NULL;
  if (to_cpu) return stream_wait_on_host(stream);
  if (stream != frame_streams(frame)[step->ep]) {
    frame->uploads_on_given = true;
  } else {
    frame->has_uploaded = true;
  }
  return NULL;
}

static OrtStatus* run_step(const Step* step, Frame* frame) {
  switch (step->kind) {
    case STEP_COMPILED: {
      OrtNodeComputeInfo* info = step->object;
      return GUARDED(OrtNodeComputeInfo, Compute)(info, step->state, &frame->context);
    }
    case STEP_KERNEL: {
      OrtKernelImpl* kernel = step->object;
      return GUARDED(OrtKernelImpl, Compute)(kernel, &frame->context);
    }
    case STEP_PYTHON:
      return plan_python_step(step, frame);
    case STEP_COPY:
      return copy_step(step, frame);
    case STEP_HOST:
      return ((const HostKernel*)step->object)->run(step->object, step, frame);
  }
  return status_new(ORT_FAIL, "unknown kind of step");
}

static const char* runner_of(const Plan* plan, const Step* step) {
  if (step->ep >= 0) return plan->eps[step->ep].name;
  return step->kind == STEP_KERNEL ? "the custom operator"
         : step->kind == STEP_HOST ? "the host"
                                   : "the reference fallback";
}

/* Whether what runs a step is of ephost, and says by that code that it was given what does not fit. The class
 * of such an error is onnxruntime's for all of them; what a vendor's plugin gives keeps its own. */
static bool is_unfit(const Plan* plan, const Step* step, OrtErrorCode code) {
  if (step->ep >= 0) {
    return code == ORT_INVALID_ARGUMENT && strcmp(plan->eps[step->ep].name, "CPUExecutionProvider") == 0;
  }
  return step->kind != STEP_KERNEL && (code == ORT_INVALID_ARGUMENT || code == ORT_FAIL);
}

static OrtStatus* step_failed(const Plan* plan, const Step* step, OrtStatus* cause) {
  if (plan->is_served) return cause;
  OrtStatus* status = status_new(cause->code, "%s failed in %s '%s' (%s): %s", runner_of(plan, step),
                                 NODES_OF(step), step->op_type, cause->message);
  bool of_node = cause->is_of_node || is_unfit(plan, step, cause->code);
  if (status != status_no_memory()) status->is_of_node = of_node;
  ephost_api.ReleaseStatus(cause);
  return status;
}

/* Every output that somebody reads must be there; one that nobody reads (released at once) may be missing. */
static OrtStatus* check_outputs(const Plan* plan, const Step* step, const Frame* frame) {
  for (size_t i = 0; i < step->output_count; ++i) {
    int32_t slot = step->outputs[i];
    if (slot < 0 || !step->is_read[i] || (frame->needed != NULL && !frame->needed[slot])) continue;
    uint8_t preallocated = frame->preallocated[slot];
    if (preallocated ? !(preallocated & PREALLOCATED_GIVEN)
                     : frame->values[slot]->type == ONNX_TYPE_UNKNOWN) {
      return status_new(ORT_EP_FAIL, "%s reported success for %s '%s' (%s) without setting its output %zu",
                        runner_of(plan, step), NODES_OF(step), step->op_type, i);
    }
  }
  return NULL;
}

static OrtStatus* run_and_check(Frame* frame, const Step* step, bool profiling) {
  Plan* plan = frame->plan;
  frame->context.step = step;
  Event event = profiling ? event_start(plan) : (Event){0, 0};
  int64_t start = event.id || !profiling ? event.start : clock_ns();
  OrtStatus* status = run_step(step, frame);
  step_event_stop(plan, event, step);
  if (frame->context.scratch != NULL) release_scratch(&frame->context);
  status = outcome(status);
  if (status != NULL) return step_failed(plan, step, status);
  if (profiling) record_time(plan, (size_t)(step - plan->steps), start, clock_ns());
  /* Of a group that runs for another process alone that one looks, and says it in its own words. */
  return plan->is_served && plan->step_count == 1 ? NULL : check_outputs(plan, step, frame);
}

static OrtStatus* walk(Frame* frame, const OrtRunOptions* options) {
  Plan* plan = frame->plan;
  bool profiling = atomic_load_explicit(&plan->profiling, memory_order_relaxed);
  for (size_t i = 0; i < plan->step_count; ++i) {
    const Step* step = &plan->steps[i];
    if ((options != NULL && run_is_terminated(options)) || run_is_interrupted()) {
      return status_new(ORT_FAIL, "the run was terminated through its RunOptions before %s '%s'",
                        NODES_OF(step));
    }
    if (frame->needed == NULL || step_needed(plan, step, frame->needed)) {
      OrtStatus* status = run_and_check(frame, step, profiling);
      if (status != NULL) return status;
    }
    for (size_t k = 0; k < step->release_count; ++k) {
      int32_t slot = step->releases[k];
      if (frame->needed == NULL || frame->needed[slot] != NEED_KEPT) drop_value(&frame->storage[slot]);
    }
  }
  return NULL;
}

/* What an EP's function gave, with the EP and the function named. */
static OrtStatus* named(OrtStatus* cause, const char* ep, const char* function) {
  if (cause == NULL) return NULL;
  OrtStatus* status = status_new(cause->code, "%s failed in %s: %s", ep, function, cause->message);
  ephost_api.ReleaseStatus(cause);
  return status;
}

static void keep_first(OrtStatus** status, OrtStatus* later) {
  if (*status == NULL) {
    *status = later;
  } else if (later != NULL) {
    ephost_api.ReleaseStatus(later);
  }
}

static bool synchronises(const OrtRunOptions* options) {
  const char* off = ephost_api.GetRunConfigEntry(options, "disable_synchronize_execution_providers");
  return off == NULL || strcmp(off, "1") != 0;
}

/* Every step once; `shown` is what EPs get to see of the options. */
static OrtStatus* run_once(Frame* frame, const OrtRunOptions* options, const OrtRunOptions* shown) {
  Plan* plan = frame->plan;
  OrtStatus* status = NULL;
  size_t started = 0;
  size_t told = plan->is_body ? 0 : plan->ep_count; /* EPs that hear of runs */
  for (; started < told && status == NULL; ++started) {
    OrtEp* ep = plan->eps[started].ep;
    if (plan->eps[started].hears_of_runs && PLUGIN_MEMBER(OrtEp, ep, OnRunStart) != NULL) {
      status = named(GUARDED(OrtEp, OnRunStart)(ep, shown), plan->eps[started].name, "OnRunStart");
    }
  }
  if (status == NULL) status = walk(frame, options);
  if (frame->uploads_on_given) { /* what is read there is the caller's again, or the next run's */
    OrtStatus* end = stream_wait_on_host(options->sync_stream);
    frame->uploads_on_given = false;
    if (end != NULL && status == NULL) {
      status = status_new(end->code, "the stream of the run's options failed: %s", end->message);
    }
    if (end != NULL) ephost_api.ReleaseStatus(end);
  }
  const bool is_lent = frame->lent_streams != NULL; /* whoever lent them ends the run on them */
  for (size_t i = 0; i < plan->ep_count && (!is_lent || frame->has_uploaded); ++i) {
    OrtSyncStream* own = frame_streams(frame)[i];
    OrtSyncStreamImpl* stream = own != NULL ? own->impl : NULL;
    if (stream == NULL || frame_stream(frame, (int)i) != own) continue; /* whose it is waits for it */
    OrtStatus* end = GUARDED(OrtSyncStreamImpl, Flush)(stream);
    if (end == NULL && !is_lent) end = GUARDED(OrtSyncStreamImpl, OnSessionRunEnd)(stream);
    keep_first(&status, named(end, plan->eps[i].name, "the end of the run"));
  }
  for (size_t i = 0; i < started; ++i) {
    OrtEp* ep = plan->eps[i].ep;
    if (!plan->eps[i].hears_of_runs || PLUGIN_MEMBER(OrtEp, ep, OnRunEnd) == NULL) continue;
    keep_first(&status, named(GUARDED(OrtEp, OnRunEnd)(ep, shown, synchronises(shown)), plan->eps[i].name,
                              "OnRunEnd"));
  }
  return status;
}

/* ---- recorded runs ---- */

#define GRAPH_ID "gpu_graph_id" /* of a run: the number under which it is recorded; 0 unless it is given */
#define NOT_RECORDED (-1)
#define MAX_RECORDING_RUNS 8

static OrtStatus* graph_id(const OrtRunOptions* options, int* out) {
  const char* text = ephost_api.GetRunConfigEntry(options, GRAPH_ID);
  char* end = NULL;
  *out = 0;
  if (text == NULL) return NULL;
  long number = strtol(text, &end, 10);
  if (end == text || *end || number < INT_MIN || number > INT_MAX) {
    return status_new(ORT_INVALID_ARGUMENT, "the run option " GRAPH_ID " is no number: '%s'", text);
  }
  *out = (int)number;
  return NULL;
}

/* Makes room for another run of the same: drops the results, but for the memory that was there before. */
static void drop_results(Frame* frame) {
  const Plan* plan = frame->plan;
  for (size_t i = 0; i < plan->step_count; ++i) {
    for (size_t k = 0; k < plan->steps[i].output_count; ++k) {
      int32_t slot = plan->steps[i].outputs[k];
      if (slot >= 0 && !frame->preallocated[slot]) drop_value(&frame->storage[slot]);
    }
  }
}

/* The EP says when a run is recorded: until then the same run is repeated, as it may need to warm up. Once it
 * is, a run is the EP's alone: it repeats what it did, on the same memory. */
static OrtStatus* record_or_replay(Frame* frame, const OrtRunOptions* options, const OrtRunOptions* shown) {
  const PlanEp* owner = &frame->plan->eps[frame->plan->capture_ep];
  OrtEp* ep = owner->ep;
  int id;
  OrtStatus* status = graph_id(shown, &id);
  for (int runs = 1; status == NULL; ++runs) {
    if (GUARDED(OrtEp, IsGraphCaptured)(ep, id)) {
      frame->replayed = true;
      status = named(GUARDED(OrtEp, ReplayGraph)(ep, id), owner->name, "ReplayGraph");
      if (status == NULL && synchronises(shown) && PLUGIN_MEMBER(OrtEp, ep, Sync) != NULL) {
        status = named(GUARDED(OrtEp, Sync)(ep), owner->name, "Sync");
      }
    } else {
      status = run_once(frame, options, shown);
    }
    if (status != NULL || !GUARDED(OrtEp, IsGraphCaptureEnabled)(ep) || id == NOT_RECORDED ||
        GUARDED(OrtEp, IsGraphCaptured)(ep, id))
      break;
    if (runs == MAX_RECORDING_RUNS) {
      status =
          status_new(ORT_FAIL, "%s has not recorded the run after doing it %d times, as it said it would",
                     owner->name, runs);
    } else {
      drop_results(frame);
    }
  }
  return status;
}

OrtStatus* plan_execute(Frame* frame, const OrtRunOptions* options) {
  Plan* plan = frame->plan;
  const OrtRunOptions* shown = options != NULL ? options : plan->default_options; /* an EP never gets NULL */
  frame->options = options;
  if (plan->exclusive) mutex_lock(&plan->exclusive_lock);
  Event event = plan->is_body ? (Event){0, 0} : event_start(plan);
  OrtStatus* status =
      plan->capture_ep >= 0 ? record_or_replay(frame, options, shown) : run_once(frame, options, shown);
  event_stop(plan, event, OrtProfilingEventCategory_SESSION, "model_run", NULL);
  if (plan->exclusive) mutex_unlock(&plan->exclusive_lock);
  return outcome(status);
}
