/* The plan of a session: its steps in order, and where each value lives. Python makes it (ephost_plan_...);
 * what walks it is in frame.c and run.c. */
#define _GNU_SOURCE
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "isolation.h"
#include "plan.h"
#include "status.h"
#include "threads.h"

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
  if (copy != NULL && count) memcpy(copy, slots, count * sizeof *copy);
  return copy;
}

/* ---- making a plan ------------------------------------------------------------------------------------- */

Plan* ephost_plan_new(size_t slot_count, ThreadPool* threads, const OrtLogger* logger, bool exclusive) {
  Plan* plan = host_calloc(1, sizeof *plan);
  if (plan == NULL) return NULL;
  plan->slots = host_calloc(slot_count ? slot_count : 1, sizeof *plan->slots);
  OrtStatus* status = plan->slots != NULL ? ephost_api.CreateRunOptions(&plan->default_options) : NULL;
  if (plan->slots == NULL || status != NULL) {
    if (status != NULL) ephost_api.ReleaseStatus(status);
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
  fork_watch(&plan->frames_watch, &plan->frames_lock);
  fork_watch(&plan->profile_watch, &plan->profile_lock);
  handle_count(HANDLE_PLAN, 1);
  return plan;
}

void ephost_plan_set_body(Plan* plan) { plan->is_body = true; }

void ephost_plan_set_pool(Plan* plan, SharedPool* pool) {
  pool_retain(pool);
  plan->pool = pool;
}

void ephost_plan_set_capture(Plan* plan, int ep) {
  plan->capture_ep = ep;
  plan->exclusive = true;
}

/* Lets go of what runs a step, where that is the plan's own. */
static void release_runner(int kind, void* object) {
  if (object == NULL) return;
  if (kind == STEP_PYTHON && plan_python_release != NULL) plan_python_release(object);
  if (kind == STEP_HOST) ephost_host_kernel_free(object);
}

static void step_free(Step* step) {
  release_runner((int)step->kind, step->object);
  host_free(step->inputs); /* the block of all that it has */
}

void ephost_host_kernel_free(HostKernel* kernel) {
  if (kernel != NULL) kernel->free(kernel);
}

void ephost_plan_free(Plan* plan) {
  if (plan == NULL) return;
  ephost_plan_free_frames(plan);
  for (size_t i = 0; i < plan->step_count; ++i) step_free(&plan->steps[i]);
  for (size_t i = 0; i < plan->slot_count; ++i) {
    if (plan->slots[i].constant != NULL) ephost_api.ReleaseValue(plan->slots[i].constant);
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
  host_free(plan->releases);
  host_free(plan->times);
  host_free(plan->profilers);
  fork_unwatch(&plan->frames_watch);
  fork_unwatch(&plan->profile_watch);
  mutex_destroy(&plan->exclusive_lock);
  mutex_destroy(&plan->frames_lock);
  mutex_destroy(&plan->profile_lock);
  ephost_pool_release(plan->pool);
  host_free(plan);
  handle_count(HANDLE_PLAN, -1);
}

OrtStatus* ephost_plan_set_slots(Plan* plan, const EphostSlotType* types) {
  for (size_t i = 0; i < plan->slot_count; ++i) {
    Slot* target = &plan->slots[i];
    if (types[i].rank >= 0) {
      size_t rank = (size_t)types[i].rank;
      int64_t* dims = host_malloc((rank ? rank : 1) * sizeof *dims);
      if (dims == NULL) return status_no_memory();
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
  if (plan->slots[slot].constant != NULL) return bad_plan("constant set twice");
  plan->slots[slot].constant = value;
  return NULL;
}

OrtStatus* ephost_plan_add_ep(Plan* plan, OrtEp* ep, const char* name, const OrtMemoryInfo* memory,
                              OrtAllocator* allocator, OrtEpFactory* stream_factory, bool hears_of_runs) {
  PlanEp* grown = host_realloc(plan->eps, (plan->ep_count + 1) * sizeof *grown);
  if (grown == NULL) return status_no_memory();
  plan->eps = grown;
  PlanEp entry = {.ep = ep,
                  .name = host_strdup(name),
                  .memory = memory,
                  .allocator = allocator,
                  .factory = stream_factory,
                  .hears_of_runs = hears_of_runs};
  if (entry.name == NULL) return status_no_memory();
  plan->eps[plan->ep_count++] = entry;
  return NULL;
}

/* One block holds what a step has: its slots, what is known of its outputs and its two names. */
static OrtStatus* add_step(Plan* plan, const EphostStep* from, const int32_t* slots, const char* node_name,
                           const char* op_type) {
  if (from->object == NULL) return bad_plan("a step has nothing to run");
  if (from->kind < STEP_COMPILED || from->kind > STEP_HOST) return bad_plan("unknown kind of step");
  if (from->ep >= (int)plan->ep_count ||
      (from->ep < 0 && (from->kind == STEP_COMPILED || from->kind == STEP_COPY))) {
    return bad_plan("step of an unknown EP");
  }
  const size_t slot_count = from->input_count + from->output_count;
  if (!slots_valid(plan, slots, slot_count, true)) return bad_plan("a step's slot is out of range");
  size_t name_size = strlen(node_name) + 1, type_size = strlen(op_type) + 1;
  int32_t* block = host_malloc((slot_count + from->output_count) * sizeof *block +
                               from->output_count * sizeof(bool) + name_size + type_size);
  if (block == NULL) return status_no_memory();
  if (slot_count) memcpy(block, slots, slot_count * sizeof *block);
  int32_t* reuses = block + slot_count;
  bool* is_read = (bool*)(reuses + from->output_count);
  char* text = (char*)(is_read + from->output_count);
  Step* step = &plan->steps[plan->step_count++];
  *step = (Step){
      .kind = (StepKind)from->kind,
      .ep = from->ep,
      .object = from->object,
      .state = from->state,
      .definition = from->definition,
      .inputs = block,
      .input_count = from->input_count,
      .outputs = block + from->input_count,
      .output_count = from->output_count,
      .is_read = is_read,
      .reuses = reuses,
      .node_name = memcpy(text, node_name, name_size),
      .op_type = memcpy(text + name_size, op_type, type_size),
      .is_group = from->is_group,
  };
  for (size_t i = 0; i < from->output_count; ++i) {
    is_read[i] = true;
    reuses[i] = -1;
  }
  return NULL;
}

OrtStatus* ephost_plan_add_steps(Plan* plan, const EphostStep* steps, size_t count, const int32_t* slots,
                                 const char* names) {
  Step* grown = count ? host_realloc(plan->steps, (plan->step_count + count) * sizeof *grown) : plan->steps;
  OrtStatus* status = count && grown == NULL ? status_no_memory() : NULL;
  if (status == NULL) plan->steps = grown;
  for (size_t i = 0; i < count; ++i) {
    const char* op_type = names + strlen(names) + 1;
    if (status == NULL) status = add_step(plan, &steps[i], slots, names, op_type);
    if (status != NULL) release_runner(steps[i].kind, steps[i].object);
    slots += steps[i].input_count + steps[i].output_count;
    names = op_type + strlen(op_type) + 1;
  }
  return status;
}

OrtStatus* ephost_plan_set_interface(Plan* plan, const int32_t* inputs, const int32_t* device_inputs,
                                     size_t input_count, const int32_t* outputs,
                                     const int32_t* device_outputs, size_t output_count) {
  if (plan->inputs != NULL || plan->outputs != NULL) return bad_plan("inputs and outputs set twice");
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
  if (plan->inputs == NULL || plan->device_inputs == NULL || plan->outputs == NULL ||
      plan->device_outputs == NULL) {
    return status_no_memory();
  }
  plan->input_count = input_count;
  plan->output_count = output_count;
  return NULL;
}

OrtStatus* ephost_plan_set_remote_slot(Plan* plan, int32_t slot, int32_t remote_slot) {
  if (!slots_valid(plan, &slot, 1, false) || !slots_valid(plan, &remote_slot, 1, false)) {
    return bad_plan("a slot in a worker is out of range");
  }
  plan->slots[slot].remote_slot = remote_slot + 1;
  return NULL;
}
