/* The plan of a session: its steps in order, where each value lives, and how a run walks it. Python makes the
 * plan (ephost_plan_...), the rest happens here without the GIL.
 *
 * A run takes a frame: one OrtValue for each slot and one arena for the values whose size was known when the
 * session was opened. Frames are kept for the next run, so that in the steady state a run allocates nothing
 * but outputs and values of unknown size. */
#define _GNU_SOURCE
#include "plan.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGNMENT 64

OrtStatus* (*plan_python_step)(const Step* step, Frame* frame);
void (*plan_python_release)(void* object);

static OrtStatus* bad_plan(const char* what) { return status_new(ORT_INVALID_ARGUMENT, "plan: %s", what); }

static bool slots_valid(const Plan* plan, const int32_t* slots, size_t count, bool allow_absent) {
  for (size_t i = 0; i < count; ++i) {
    if (slots[i] < (allow_absent ? -1 : 0) || (slots[i] >= 0 && (size_t)slots[i] >= plan->slot_count))
      return false;
  }
  return true;
}

static int32_t* copy_slots(const int32_t* slots, size_t count) {
  int32_t* copy = host_malloc((count ? count : 1) * sizeof *copy);
  if (copy && count) memcpy(copy, slots, count * sizeof *copy);
  return copy;
}

OrtNodeComputeContext* ephost_compute_context_new(const char* node_name) {
  OrtNodeComputeContext* context = host_calloc(1, sizeof *context);
  if (context && !(context->node_name = host_strdup(node_name))) {
    host_free(context);
    return NULL;
  }
  return context;
}

void ephost_compute_context_free(OrtNodeComputeContext* context) {
  if (!context) return;
  host_free((void*)(uintptr_t)context->node_name);
  host_free(context);
}

/* ---- making a plan ------------------------------------------------------------------------------------- */

Plan* ephost_plan_new(size_t slot_count, ThreadPool* threads, const OrtLogger* logger, bool exclusive) {
  Plan* plan = host_calloc(1, sizeof *plan);
  if (!plan) return NULL;
  plan->slots = host_calloc(slot_count ? slot_count : 1, sizeof *plan->slots);
  OrtStatus* status = plan->slots ? ephost_api.CreateRunOptions(&plan->default_options) : NULL;
  if (!plan->slots || status) {
    if (status) ephost_api.ReleaseStatus(status);
    host_free(plan->slots);
    host_free(plan);
    return NULL;
  }
  plan->slot_count = slot_count;
  plan->threads = threads;
  plan->logger = logger;
  plan->exclusive = exclusive;
  plan->capture_ep = -1;
  mutex_init(&plan->exclusive_lock);
  mutex_init(&plan->frames_lock);
  mutex_init(&plan->profile_lock);
  handle_count(HANDLE_PLAN, 1);
  return plan;
}

void ephost_plan_set_body(Plan* plan) { plan->is_body = true; }

void ephost_plan_set_capture(Plan* plan, int ep) {
  plan->capture_ep = ep;
  plan->exclusive = true;
}

static void frame_free(Frame* frame) {
  for (size_t i = 0; frame->streams && i < frame->plan->ep_count; ++i) {
    if (frame->streams[i]) ephost_api.ReleaseSyncStream(frame->streams[i]);
  }
  host_free(frame->streams);
  cpu_free(frame->arena);
  host_free(frame->values);
  host_free(frame->preallocated);
  host_free(frame->held);
  host_free(frame->given);
  host_free(frame->needs);
  host_free(frame->route);
  host_free(frame);
}

static void step_free(Step* step) {
  if (step->kind == STEP_PYTHON && step->object && plan_python_release) plan_python_release(step->object);
  host_free(step->inputs); /* the block of all that it has */
}

void ephost_plan_free_frames(Plan* plan) {
  mutex_lock(&plan->frames_lock);
  Frame* frame = plan->free_frames;
  plan->free_frames = NULL;
  mutex_unlock(&plan->frames_lock);
  while (frame) {
    Frame* next = frame->link;
    frame_free(frame);
    frame = next;
  }
}

void ephost_plan_free(Plan* plan) {
  if (!plan) return;
  ephost_plan_free_frames(plan);
  for (size_t i = 0; i < plan->step_count; ++i) step_free(&plan->steps[i]);
  for (size_t i = 0; i < plan->slot_count; ++i) {
    if (plan->slots[i].constant) ephost_api.ReleaseValue(plan->slots[i].constant);
    host_free(plan->slots[i].dims);
  }
  for (size_t i = 0; i < plan->ep_count; ++i) host_free(plan->eps[i].name);
  ephost_api.ReleaseRunOptions(plan->default_options);
  host_free(plan->steps);
  host_free(plan->slots);
  host_free(plan->eps);
  host_free(plan->inputs);
  host_free(plan->device_inputs);
  host_free(plan->outputs);
  host_free(plan->device_outputs);
  host_free(plan->times);
  host_free(plan->profilers);
  mutex_destroy(&plan->exclusive_lock);
  mutex_destroy(&plan->frames_lock);
  mutex_destroy(&plan->profile_lock);
  host_free(plan);
  handle_count(HANDLE_PLAN, -1);
}

OrtStatus* ephost_plan_set_slots(Plan* plan, const EphostSlotType* types) {
  for (size_t i = 0; i < plan->slot_count; ++i) {
    Slot* target = &plan->slots[i];
    if (types[i].rank >= 0) {
      size_t rank = (size_t)types[i].rank;
      int64_t* dims = host_malloc((rank ? rank : 1) * sizeof *dims);
      if (!dims) return status_no_memory();
      if (rank) memcpy(dims, types[i].dims, rank * sizeof *dims);
      host_free(target->dims);
      target->dims = dims;
      target->rank = rank;
    }
    target->element_type = (ONNXTensorElementDataType)types[i].element_type;
    target->memory = types[i].memory;
    target->allocator = types[i].allocator;
  }
  return NULL;
}

OrtStatus* ephost_plan_set_constant(Plan* plan, size_t slot, OrtValue* value) {
  if (slot >= plan->slot_count) return bad_plan("constant's slot out of range");
  if (plan->slots[slot].constant) return bad_plan("constant set twice");
  plan->slots[slot].constant = value;
  return NULL;
}

OrtStatus* ephost_plan_set_arena(Plan* plan, const EphostArenaBlock* blocks, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    size_t end = blocks[i].offset + blocks[i].nbytes;
    if (blocks[i].slot >= plan->slot_count) return bad_plan("arena slot out of range");
    if (blocks[i].offset % ARENA_ALIGNMENT != 0) return bad_plan("arena offset not aligned");
    if (end < blocks[i].offset) return bad_plan("arena size overflows");
    Slot* slot = &plan->slots[blocks[i].slot];
    slot->planned = true;
    slot->arena_offset = blocks[i].offset;
    slot->arena_bytes = blocks[i].nbytes;
    if (end > plan->arena_bytes) plan->arena_bytes = end;
  }
  return NULL;
}

OrtStatus* ephost_plan_add_ep(Plan* plan, OrtEp* ep, const char* name, const OrtMemoryInfo* memory,
                              OrtAllocator* allocator, OrtEpFactory* stream_factory) {
  PlanEp* grown = host_realloc(plan->eps, (plan->ep_count + 1) * sizeof *grown);
  if (!grown) return status_no_memory();
  plan->eps = grown;
  PlanEp entry = {.ep = ep,
                  .name = host_strdup(name),
                  .memory = memory,
                  .allocator = allocator,
                  .factory = stream_factory};
  if (!entry.name) return status_no_memory();
  plan->eps[plan->ep_count++] = entry;
  return NULL;
}

/* One block holds what a step has: its slots, the flags of its outputs and its two names. */
static OrtStatus* add_step(Plan* plan, const EphostStep* from, const int32_t* slots, const char* node_name,
                           const char* op_type) {
  const int32_t* outputs = slots + from->input_count;
  const int32_t* releases = outputs + from->output_count;
  if (!from->object) return bad_plan("a step has nothing to run");
  if (from->kind < STEP_COMPILED || from->kind > STEP_COPY) return bad_plan("unknown kind of step");
  if (from->ep >= (int)plan->ep_count ||
      (from->ep < 0 && from->kind != STEP_PYTHON && from->kind != STEP_KERNEL)) {
    return bad_plan("step of an unknown EP");
  }
  if (!slots_valid(plan, slots, from->input_count + from->output_count, true) ||
      !slots_valid(plan, releases, from->release_count, false) ||
      !slots_valid(plan, releases + from->release_count, from->output_count, true)) {
    return bad_plan("a step's slot is out of range");
  }
  size_t slot_count = from->input_count + from->output_count + from->release_count + from->output_count;
  size_t name_size = strlen(node_name) + 1, type_size = strlen(op_type) + 1;
  int32_t* block =
      host_malloc(slot_count * sizeof *block + from->output_count * sizeof(bool) + name_size + type_size);
  if (!block) return status_no_memory();
  if (slot_count) memcpy(block, slots, slot_count * sizeof *block);
  bool* is_read = (bool*)(block + slot_count);
  char* text = (char*)(is_read + from->output_count);
  Step* step = &plan->steps[plan->step_count++];
  *step = (Step){
      .kind = (StepKind)from->kind,
      .ep = from->ep,
      .object = from->object,
      .state = from->state,
      .inputs = block,
      .input_count = from->input_count,
      .outputs = block + from->input_count,
      .output_count = from->output_count,
      .is_read = is_read,
      .releases = block + from->input_count + from->output_count,
      .release_count = from->release_count,
      .reuses = block + from->input_count + from->output_count + from->release_count,
      .node_name = memcpy(text, node_name, name_size),
      .op_type = memcpy(text + name_size, op_type, type_size),
  };
  for (size_t i = 0; i < from->output_count; ++i) {
    is_read[i] = true;
    for (size_t k = 0; k < from->release_count; ++k) {
      if (releases[k] == outputs[i]) is_read[i] = false;
    }
  }
  return NULL;
}

OrtStatus* ephost_plan_add_steps(Plan* plan, const EphostStep* steps, size_t count, const int32_t* slots,
                                 const char* names) {
  Step* grown = count ? host_realloc(plan->steps, (plan->step_count + count) * sizeof *grown) : plan->steps;
  OrtStatus* status = count && !grown ? status_no_memory() : NULL;
  if (!status) plan->steps = grown;
  for (size_t i = 0; i < count; ++i) {
    const char* op_type = names + strlen(names) + 1;
    if (!status) status = add_step(plan, &steps[i], slots, names, op_type);
    if (status && steps[i].kind == STEP_PYTHON && steps[i].object && plan_python_release) {
      plan_python_release(steps[i].object);
    }
    slots += steps[i].input_count + steps[i].output_count + steps[i].release_count + steps[i].output_count;
    names = op_type + strlen(op_type) + 1;
  }
  return status;
}

OrtStatus* ephost_plan_set_interface(Plan* plan, const int32_t* inputs, const int32_t* device_inputs,
                                     size_t input_count, const int32_t* outputs,
                                     const int32_t* device_outputs, size_t output_count) {
  if (plan->inputs || plan->outputs) return bad_plan("inputs and outputs set twice");
  if (!slots_valid(plan, inputs, input_count, false) ||
      !slots_valid(plan, device_inputs, input_count, true) ||
      !slots_valid(plan, outputs, output_count, false) ||
      !slots_valid(plan, device_outputs, output_count, true)) {
    return bad_plan("an input's or output's slot is out of range");
  }
  plan->inputs = copy_slots(inputs, input_count);
  plan->device_inputs = copy_slots(device_inputs, input_count);
  plan->outputs = copy_slots(outputs, output_count);
  plan->device_outputs = copy_slots(device_outputs, output_count);
  if (!plan->inputs || !plan->device_inputs || !plan->outputs || !plan->device_outputs) {
    return status_no_memory();
  }
  plan->input_count = input_count;
  plan->output_count = output_count;
  return NULL;
}

/* ---- frames -------------------------------------------------------------------------------------------- */

static bool make_streams(Frame* frame) {
  for (size_t i = 0; i < frame->plan->ep_count; ++i) {
    const PlanEp* ep = &frame->plan->eps[i];
    if (!ep->factory || !ep->memory) continue;
    OrtStatus* status = stream_for(ep->ep, ep->factory, &ep->memory->device, NULL, NULL, &frame->streams[i]);
    if (status) {
      host_log(ORT_LOGGING_LEVEL_ERROR, "%s cannot make a stream: %s", ep->name, status->message);
      ephost_api.ReleaseStatus(status);
      return false;
    }
  }
  return true;
}

OrtSyncStream* frame_stream(const Frame* frame, int ep) {
  if (ep < 0) return NULL;
  OrtSyncStream* given = frame->options ? frame->options->sync_stream : NULL;
  const OrtMemoryInfo* memory = frame->plan->eps[ep].memory;
  bool is_its = given && given->device && memory && memory_device_equal(given->device, &memory->device);
  return is_its ? given : frame->streams[ep];
}

static Frame* frame_new(Plan* plan) {
  Frame* frame = host_calloc(1, sizeof *frame + plan->slot_count * sizeof(OrtValue));
  if (!frame) return NULL;
  frame->plan = plan;
  frame->context.frame = frame;
  size_t count = plan->slot_count ? plan->slot_count : 1;
  frame->values = host_malloc(count * sizeof(OrtValue*));
  frame->preallocated = host_calloc(count, 1);
  frame->held = host_calloc(plan->input_count ? plan->input_count : 1, sizeof *frame->held);
  frame->given = host_calloc(plan->input_count ? plan->input_count : 1, sizeof *frame->given);
  frame->arena = plan->arena_bytes ? cpu_alloc(plan->arena_bytes) : NULL;
  frame->streams = host_calloc(plan->ep_count ? plan->ep_count : 1, sizeof *frame->streams);
  if (!frame->values || !frame->preallocated || !frame->held || !frame->given || !frame->streams ||
      (plan->arena_bytes && !frame->arena) || !make_streams(frame)) {
    frame_free(frame);
    return NULL;
  }
  for (size_t i = 0; i < plan->slot_count; ++i) {
    frame->values[i] = plan->slots[i].constant ? plan->slots[i].constant : &frame->storage[i];
  }
  return frame;
}

Frame* frame_acquire(Plan* plan) {
  mutex_lock(&plan->frames_lock);
  Frame* frame = plan->free_frames;
  if (frame) plan->free_frames = frame->link;
  mutex_unlock(&plan->frames_lock);
  if (!frame) frame = frame_new(plan);
  if (frame) atomic_fetch_add(&plan->active_runs, 1);
  return frame;
}

/* value_clear, without the call for what nearly every value is: a small tensor in the arena. */
static inline void drop_value(OrtValue* value) {
  if (!value->buffer && value->type == ONNX_TYPE_TENSOR && value->dims == value->inline_dims &&
      value->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    value->type = ONNX_TYPE_UNKNOWN;
  } else if (value->type != ONNX_TYPE_UNKNOWN) {
    value_clear(value);
  }
}

void frame_release(Frame* frame) {
  Plan* plan = frame->plan;
  for (size_t i = 0; i < plan->slot_count; ++i) drop_value(&frame->storage[i]);
  for (size_t i = 0; i < plan->input_count; ++i) {
    size_t slot = (size_t)plan->inputs[i]; /* the run may have had it elsewhere */
    frame->values[slot] = plan->slots[slot].constant ? plan->slots[slot].constant : &frame->storage[slot];
  }
  for (size_t i = 0; i < plan->output_count; ++i) {
    frame->preallocated[plan->outputs[i]] = 0;
    if (plan->device_outputs[i] >= 0) frame->preallocated[plan->device_outputs[i]] = 0;
  }
  frame->options = NULL;
  frame->replayed = false;
  frame->needed = NULL;
  if (frame->given_count) memset(frame->given, 0, plan->input_count * sizeof *frame->given);
  frame->given_count = 0;
  mutex_lock(&plan->frames_lock);
  frame->link = plan->free_frames;
  plan->free_frames = frame;
  mutex_unlock(&plan->frames_lock);
  atomic_fetch_sub(&plan->active_runs, 1);
}

/* A step runs when a slot that it writes is needed, and needs what it reads then. A copy needs just what it
 * copies to slots that are needed. */
static bool step_needed(const Step* step, const uint8_t* needed) {
  for (size_t i = 0; i < step->output_count; ++i) {
    if (step->outputs[i] >= 0 && needed[step->outputs[i]]) return true;
  }
  return false;
}

static void mark_inputs(const Step* step, uint8_t* needed) {
  for (size_t i = 0; i < step->input_count; ++i) {
    int32_t slot = step->inputs[i];
    if (slot < 0 || needed[slot] || (step->kind == STEP_COPY && !needed[step->outputs[i]])) continue;
    needed[slot] = NEED_READ;
  }
}

/* Writes what this run's route is for; false when the route that the frame has is for the same. Frames go
 * from one run to the next, which mostly asks for the same. */
static bool route_changes(Frame* frame, const int32_t* slots, size_t count) {
  const Plan* plan = frame->plan;
  bool same = frame->route_fetched == count && frame->route_given == frame->given_count && count > 0 &&
              memcmp(frame->route, slots, count * sizeof *slots) == 0;
  if (count > plan->output_count) { /* one that is asked for twice: not kept */
    frame->route_fetched = 0;
    return true;
  }
  int32_t* next = frame->route + count;
  for (size_t i = 0; frame->given_count && i < plan->input_count; ++i) {
    if (!frame->given[i]) continue;
    same = same && *next == plan->device_inputs[i];
    *next++ = plan->device_inputs[i];
  }
  if (same) return false;
  if (count) memcpy(frame->route, slots, count * sizeof *slots);
  frame->route_fetched = count;
  frame->route_given = frame->given_count;
  return true;
}

bool frame_fetch_only(Frame* frame, const int32_t* slots, size_t count) {
  const Plan* plan = frame->plan;
  if (!frame->needs) frame->needs = host_malloc(plan->slot_count ? plan->slot_count : 1);
  if (!frame->route) {
    frame->route = host_calloc(plan->output_count + plan->input_count + 1, sizeof *frame->route);
  }
  if (!frame->needs || !frame->route) return false;
  uint8_t* needed = frame->needed = frame->needs;
  if (!route_changes(frame, slots, count)) return true;
  memset(needed, NEED_NOT, plan->slot_count);
  for (size_t i = 0; i < count; ++i) needed[slots[i]] = NEED_KEPT;
  for (size_t i = plan->step_count; i-- > 0;) {
    const Step* step = &plan->steps[i];
    /* All that reads what this uploads lies behind it: it need not upload what is on the device. */
    for (size_t k = 0; step->kind == STEP_COPY && frame->given_count && k < plan->input_count; ++k) {
      for (size_t o = 0; frame->given[k] && o < step->output_count; ++o) {
        if (step->outputs[o] == plan->device_inputs[k]) needed[step->outputs[o]] = NEED_NOT;
      }
    }
    if (step_needed(step, needed)) mark_inputs(step, needed);
  }
  return true;
}

bool frame_borrows(const Frame* frame, int32_t slot) {
  const OrtValue* value = frame->values[slot];
  return !value->buffer || value != &frame->storage[slot] || atomic_load(&value->buffer->references) > 1;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static void release_scratch(OrtKernelContext* context) {
  while (context->scratch) {
    Scratch* scratch = context->scratch;
    context->scratch = scratch->link;
    scratch->allocator->Free(scratch->allocator, scratch->block);
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
    if (frame->needed && !frame->needed[step->outputs[i]]) continue;
    if (source->type == ONNX_TYPE_UNKNOWN) continue; /* an optional input that nobody gave */
    if (source->type != ONNX_TYPE_TENSOR) {
      return status_new(ORT_NOT_IMPLEMENTED, "a value that is no tensor has to cross devices");
    }
    OrtValue* target;
    OrtStatus* status =
        frame_output(frame, step, i, source->element_type, source->dims, source->rank, &target);
    if (status) return status;
    if (source->nbytes) {
      to_cpu = to_cpu || memory_info_is_cpu(target->memory_info);
      from[count] = source;
      to[count] = target;
      streams[count++] = stream;
      ++count_all;
    }
    if (count == BATCH) {
      status = transfer->CopyTensors(transfer, from, to, stream ? streams : NULL, count);
      if (status) return status;
      count = 0;
    }
  }
  if (count) {
    OrtStatus* status = transfer->CopyTensors(transfer, from, to, stream ? streams : NULL, count);
    if (status) return status;
  }
  if (!stream || !count_all) return NULL;
  if (to_cpu) return stream_wait_on_host(stream);
  frame->uploads_on_given = frame->uploads_on_given || stream != frame->streams[step->ep];
  return NULL;
}

static OrtStatus* run_step(const Step* step, Frame* frame) {
  switch (step->kind) {
    case STEP_COMPILED: {
      OrtNodeComputeInfo* info = step->object;
      return info->Compute(info, step->state, &frame->context);
    }
    case STEP_KERNEL: {
      OrtKernelImpl* kernel = step->object;
      return kernel->Compute(kernel, &frame->context);
    }
    case STEP_PYTHON:
      return plan_python_step(step, frame);
    case STEP_COPY:
      return copy_step(step, frame);
  }
  return status_new(ORT_FAIL, "unknown kind of step");
}

static const char* runner_of(const Plan* plan, const Step* step) {
  if (step->ep >= 0) return plan->eps[step->ep].name;
  return step->kind == STEP_KERNEL ? "the custom operator" : "the reference fallback";
}

static OrtStatus* step_failed(const Plan* plan, const Step* step, OrtStatus* cause) {
  OrtStatus* status = status_new(cause->code, "%s failed in node '%s' (%s): %s", runner_of(plan, step),
                                 step->node_name, step->op_type, cause->message);
  ephost_api.ReleaseStatus(cause);
  return status;
}

static void record_time(Plan* plan, size_t step, int64_t start, int64_t end) {
  mutex_lock(&plan->profile_lock);
  if (plan->time_count == plan->time_capacity) {
    size_t capacity = plan->time_capacity ? plan->time_capacity * 2 : 1024;
    EphostStepTime* grown = host_realloc(plan->times, capacity * sizeof *grown);
    if (grown) {
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

/* Every output that somebody reads must be there; one that nobody reads (released at once) may be missing. */
static OrtStatus* check_outputs(const Plan* plan, const Step* step, const Frame* frame) {
  for (size_t i = 0; i < step->output_count; ++i) {
    int32_t slot = step->outputs[i];
    if (slot < 0 || !step->is_read[i] || (frame->needed && !frame->needed[slot])) continue;
    uint8_t preallocated = frame->preallocated[slot];
    if (preallocated ? !(preallocated & PREALLOCATED_GIVEN)
                     : frame->values[slot]->type == ONNX_TYPE_UNKNOWN) {
      return status_new(ORT_EP_FAIL, "%s reported success for node '%s' (%s) without setting its output %zu",
                        runner_of(plan, step), step->node_name, step->op_type, i);
    }
  }
  return NULL;
}

/* ---- events for EPs' profilers ---- */

typedef struct Event {
  uint64_t id; /* 0: nobody listens */
  int64_t start;
} Event;

static void profiler_failed(OrtStatus* status) {
  if (!status) return;
  host_log(ORT_LOGGING_LEVEL_WARNING, "a profiler of an EP does not take an event: %s", status->message);
  ephost_api.ReleaseStatus(status);
}

static Event event_start(Plan* plan) {
  Event event = {0, 0};
  if (!plan->profiler_count || !atomic_load_explicit(&plan->profiling, memory_order_relaxed)) return event;
  event.id = atomic_fetch_add(&plan->last_event, 1) + 1;
  event.start = clock_ns();
  for (size_t i = 0; i < plan->profiler_count; ++i) {
    OrtEpProfilerImpl* profiler = plan->profilers[i];
    if (profiler->StartEvent) profiler_failed(profiler->StartEvent(profiler, event.id));
  }
  return event;
}

/* The event as a profiler gets to see it: name, times, and for a step its operator and who runs it. */
static void event_stop(Plan* plan, Event event, OrtProfilingEventCategory category, const char* name,
                       const Step* step) {
  if (!event.id) return;
  const char* keys[] = {"op_name", "provider"};
  const char* values[] = {step ? step->op_type : "",
                          step && step->ep >= 0 ? plan->eps[step->ep].name : "CPUExecutionProvider"};
  OrtProfilingEvent* told = NULL;
  OrtStatus* status = ephost_ep_api.CreateProfilingEvent(
      category, -1, -1, name, (event.start - plan->profile_start) / 1000, (clock_ns() - event.start) / 1000,
      keys, values, step ? 2 : 0, &told);
  profiler_failed(status);
  for (size_t i = 0; told && i < plan->profiler_count; ++i) {
    OrtEpProfilerImpl* profiler = plan->profilers[i];
    if (profiler->StopEvent) profiler_failed(profiler->StopEvent(profiler, event.id, told));
  }
  if (told) ephost_ep_api.ReleaseProfilingEvent(told);
}

static void step_event_stop(Plan* plan, Event event, const Step* step) {
  char name[256];
  if (!event.id) return;
  (void)snprintf(name, sizeof name, "%s%s", step->node_name, step->kind == STEP_COPY ? "" : "_kernel_time");
  event_stop(plan, event,
             step->kind == STEP_COPY ? OrtProfilingEventCategory_SESSION : OrtProfilingEventCategory_NODE,
             name, step->kind == STEP_COPY ? NULL : step);
}

static OrtStatus* run_and_check(Frame* frame, const Step* step, bool profiling) {
  Plan* plan = frame->plan;
  frame->context.step = step;
  Event event = profiling ? event_start(plan) : (Event){0, 0};
  int64_t start = profiling ? clock_ns() : 0;
  OrtStatus* status = run_step(step, frame);
  step_event_stop(plan, event, step);
  if (frame->context.scratch) release_scratch(&frame->context);
  if (status) return step_failed(plan, step, status);
  if (profiling) record_time(plan, (size_t)(step - plan->steps), start, clock_ns());
  return check_outputs(plan, step, frame);
}

static OrtStatus* walk(Frame* frame, const OrtRunOptions* options) {
  Plan* plan = frame->plan;
  bool profiling = atomic_load_explicit(&plan->profiling, memory_order_relaxed);
  for (size_t i = 0; i < plan->step_count; ++i) {
    const Step* step = &plan->steps[i];
    if (options && atomic_load_explicit(&options->terminate, memory_order_relaxed)) {
      return status_new(ORT_FAIL, "the run was terminated through its RunOptions before node '%s'",
                        step->node_name);
    }
    if (!frame->needed || step_needed(step, frame->needed)) {
      OrtStatus* status = run_and_check(frame, step, profiling);
      if (status) return status;
    }
    for (size_t k = 0; k < step->release_count; ++k) {
      int32_t slot = step->releases[k];
      if (!frame->needed || frame->needed[slot] != NEED_KEPT) drop_value(&frame->storage[slot]);
    }
  }
  return NULL;
}

/* A member of a plugin's EP, or NULL when the plugin is older than it or left it out. */
#define EP_MEMBER(ep, version, member) ((ep)->ort_version_supported >= (version) ? (ep)->member : NULL)

/* What an EP's function gave, with the EP and the function named. */
static OrtStatus* named(OrtStatus* cause, const char* ep, const char* function) {
  if (!cause) return NULL;
  OrtStatus* status = status_new(cause->code, "%s failed in %s: %s", ep, function, cause->message);
  ephost_api.ReleaseStatus(cause);
  return status;
}

static void keep_first(OrtStatus** status, OrtStatus* later) {
  if (!*status) {
    *status = later;
  } else if (later) {
    ephost_api.ReleaseStatus(later);
  }
}

static bool synchronises(const OrtRunOptions* options) {
  const char* off = ephost_api.GetRunConfigEntry(options, "disable_synchronize_execution_providers");
  return !off || strcmp(off, "1") != 0;
}

/* Every step once; `shown` is what EPs get to see of the options. */
static OrtStatus* run_once(Frame* frame, const OrtRunOptions* options, const OrtRunOptions* shown) {
  Plan* plan = frame->plan;
  OrtStatus* status = NULL;
  size_t started = 0;
  size_t told = plan->is_body ? 0 : plan->ep_count; /* EPs that hear of runs */
  for (; started < told && !status; ++started) {
    OrtEp* ep = plan->eps[started].ep;
    if (EP_MEMBER(ep, 23, OnRunStart)) {
      status = named(ep->OnRunStart(ep, shown), plan->eps[started].name, "OnRunStart");
    }
  }
  if (!status) status = walk(frame, options);
  if (frame->uploads_on_given) { /* what is read there is the caller's again, or the next run's */
    OrtStatus* end = stream_wait_on_host(options->sync_stream);
    frame->uploads_on_given = false;
    if (end && !status) {
      status = status_new(end->code, "the stream of the run's options failed: %s", end->message);
    }
    if (end) ephost_api.ReleaseStatus(end);
  }
  for (size_t i = 0; i < plan->ep_count; ++i) {
    OrtSyncStreamImpl* stream = frame->streams[i] ? frame->streams[i]->impl : NULL;
    if (!stream || frame_stream(frame, (int)i) != frame->streams[i]) continue; /* whose it is waits for it */
    OrtStatus* end = stream->Flush(stream);
    if (!end) end = stream->OnSessionRunEnd(stream);
    keep_first(&status, named(end, plan->eps[i].name, "the end of the run"));
  }
  for (size_t i = 0; i < started; ++i) {
    OrtEp* ep = plan->eps[i].ep;
    if (!EP_MEMBER(ep, 23, OnRunEnd)) continue;
    keep_first(&status, named(ep->OnRunEnd(ep, shown, synchronises(shown)), plan->eps[i].name, "OnRunEnd"));
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
  if (!text) return NULL;
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
  for (int runs = 1; !status; ++runs) {
    if (ep->IsGraphCaptured(ep, id)) {
      frame->replayed = true;
      status = named(ep->ReplayGraph(ep, id), owner->name, "ReplayGraph");
      if (!status && synchronises(shown) && EP_MEMBER(ep, 25, Sync)) {
        status = named(ep->Sync(ep), owner->name, "Sync");
      }
    } else {
      status = run_once(frame, options, shown);
    }
    if (status || !ep->IsGraphCaptureEnabled(ep) || id == NOT_RECORDED || ep->IsGraphCaptured(ep, id)) break;
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
  const OrtRunOptions* shown = options ? options : plan->default_options; /* an EP never gets NULL */
  frame->options = options;
  if (plan->exclusive) mutex_lock(&plan->exclusive_lock);
  Event event = event_start(plan);
  OrtStatus* status =
      plan->capture_ep >= 0 ? record_or_replay(frame, options, shown) : run_once(frame, options, shown);
  event_stop(plan, event, OrtProfilingEventCategory_SESSION, "model_run", NULL);
  if (plan->exclusive) mutex_unlock(&plan->exclusive_lock);
  return status;
}

/* ---- profile ------------------------------------------------------------------------------------------- */

void ephost_plan_profile(Plan* plan, bool enabled) { atomic_store(&plan->profiling, enabled); }

OrtStatus* ephost_plan_set_profilers(Plan* plan, OrtEpProfilerImpl** profilers, size_t count,
                                     int64_t profile_start) {
  if (plan->profilers) return bad_plan("profilers set twice");
  plan->profilers = host_memdup(profilers, count * sizeof *profilers);
  if (!plan->profilers) return status_no_memory();
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

int ephost_plan_active_runs(Plan* plan) { return atomic_load(&plan->active_runs); }

int64_t ephost_clock_ns(void) { return clock_ns(); }
