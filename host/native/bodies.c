/* If, Loop, Scan and SequenceMap, whose bodies have plans of their own: which body runs, on what, and how
 * what it makes is put together. Values go from one run to the next as they are, and where they are: a
 * sequence that a loop carries grows in its place, and a state on a device stays there. */
#define _GNU_SOURCE
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "memory.h"
#include "options.h"
#include "plan.h"
#include "python.h"
#include "signals.h"
#include "status.h"
#include "tensor_parts.h"
#include "value.h"

typedef struct Body {
  Plan* plan;           /* borrowed */
  size_t own_count;     /* of its inputs the first are its own, the others it captures */
  size_t* captured;     /* for each of these the input of the step that holds it */
  int32_t* fetched;     /* for each output the slot that it is taken from, on the CPU or on its device */
  bool makes_on_device; /* one of these is on a device */
} Body;

/* What a body makes in each of its runs, or is given a part of in each, along this axis. */
typedef struct Track {
  int64_t axis; /* from the end where it is negative */
  bool backwards;
  char* name;
  /* of what is put together without a single run: */
  ONNXTensorElementDataType element_type;
  size_t rank;
  int64_t* dims;
} Track;

typedef struct Bodies {
  HostKernel base;
  Body bodies[2];
  size_t state_count;
  Track *scanned, *collected;
  size_t scanned_count, collected_count;
  size_t counter_ranks[2]; /* of a loop's iteration number and condition */
} Bodies;

/* ---- values ---- */

/* Makes a clear value the same for as long as `from` is there. False without memory. */
static bool lend(OrtValue* to, const OrtValue* from) {
  if (from->type != ONNX_TYPE_TENSOR || from->buffer != NULL) return value_share(to, from);
  return value_init_tensor(to, from->element_type, from->dims, from->rank, NULL, from->data,
                           from->memory_info);
}

static const OrtValue* step_input(const Frame* frame, const Step* step, size_t index) {
  const int32_t slot = index < step->input_count ? step->inputs[index] : -1;
  return slot >= 0 ? frame->values[slot] : NULL;
}

static const OrtValue nothing = {.type = ONNX_TYPE_OPTIONAL};

/* The step's input: all of it where nobody reads it after the step, so that it may be changed. */
static bool take_input(Frame* frame, const Step* step, size_t index, OrtValue* to) {
  const OrtValue* value = step_input(frame, step, index);
  if (value == NULL) return lend(to, &nothing);
  if (value->type != ONNX_TYPE_TENSOR && frame_ends(frame, step, index)) {
    value_move(to, frame->values[step->inputs[index]]);
    return true;
  }
  return lend(to, value);
}

static OrtStatus* one_element(const OrtValue* value, const char* what) {
  if (value->type != ONNX_TYPE_TENSOR) return status_new(ORT_INVALID_ARGUMENT, "%s must be a tensor", what);
  if (value->element_count == 1) return NULL;
  return status_new(ORT_INVALID_ARGUMENT, "%s must have one element, not %zu", what, value->element_count);
}

static OrtStatus* read_condition(const OrtValue* value, bool* out) {
  OrtStatus* status = one_element(value, "the condition");
  if (status == NULL && value->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL)
    status = status_new(ORT_INVALID_ARGUMENT, "the condition must be a tensor(bool)");
  if (status == NULL) *out = *(const uint8_t*)value->data != 0;
  return status;
}

static OrtStatus* read_trips(const OrtValue* value, int64_t* out) {
  OrtStatus* status = one_element(value, "the trip count");
  if (status == NULL && value->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)
    status = status_new(ORT_INVALID_ARGUMENT, "the trip count must be a tensor(int64)");
  if (status == NULL) memcpy(out, value->data, sizeof *out);
  return status;
}

/* Puts a value, which is taken over, into an output of the step. */
static OrtStatus* give_output(Frame* frame, const Step* step, size_t index, OrtValue* made) {
  const int32_t slot = index < step->output_count ? step->outputs[index] : -1;
  if (slot < 0) {
    value_clear(made);
    return NULL;
  }
  const ONNXTensorElementDataType expected = frame->plan->slots[slot].element_type;
  if (made->type == ONNX_TYPE_TENSOR && expected != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED &&
      made->element_type != expected) {
    OrtStatus* status = status_new(ORT_INVALID_ARGUMENT,
                                   "a body made output %zu of the element type %d, where the graph says %d",
                                   index, (int)made->element_type, (int)expected);
    value_clear(made);
    return status;
  }
  return frame_give(frame, step, index, made);
}

static void clear_all(OrtValue* values, size_t count) {
  for (size_t i = 0; i < count; ++i) value_clear(&values[i]);
}

/* ---- a run of a body ---- */

/* Makes a value, which is taken over, an input of the run: on the device that it is on, if there is one. What
 * comes on a device is read there alone. */
static void place_input(Frame* frame, size_t index, OrtValue* value) {
  const Plan* plan = frame->plan;
  const bool on_device = value->type == ONNX_TYPE_TENSOR && !memory_info_is_cpu(value->memory_info) &&
                         plan->device_inputs[index] >= 0;
  const int32_t slot = on_device ? plan->device_inputs[index] : plan->inputs[index];
  frame->values[slot] = &frame->storage[slot];
  value_move(&frame->storage[slot], value);
  if (!on_device) return;
  frame->given[index] = true;
  ++frame->given_count;
}

/* A frame of the body that has what it captures. */
static OrtStatus* begin(const Body* body, Frame* outer, const Step* step, bool is_once, Frame** out) {
  OrtStatus* failed;
  Frame* frame = frame_acquire(body->plan, &failed);
  *out = NULL;
  if (frame == NULL) return failed != NULL ? failed : status_no_memory();
  if (body->plan->ep_count == outer->plan->ep_count) frame->lent_streams = frame_streams(outer);
  for (size_t i = body->own_count; i < body->plan->input_count; ++i) {
    const size_t from = body->captured[i - body->own_count];
    const OrtValue* value = step_input(outer, step, from);
    OrtValue given = {0};
    if (is_once ? take_input(outer, step, from, &given) : lend(&given, value != NULL ? value : &nothing)) {
      place_input(frame, i, &given);
      continue;
    }
    frame_release(frame);
    return status_no_memory();
  }
  *out = frame;
  return NULL;
}

/* One of the body's own inputs, still clear. */
static OrtValue* own_input(Frame* frame, size_t index) {
  const int32_t slot = frame->plan->inputs[index];
  frame->values[slot] = &frame->storage[slot];
  return &frame->storage[slot];
}

/* What a body reads of another type than it declares, nodes in it would take for that type. */
static OrtStatus* check_own_inputs(const Body* body, const Frame* frame) {
  const Plan* plan = body->plan;
  for (size_t i = 0; i < body->own_count; ++i) {
    const OrtValue* value = frame->values[plan->inputs[i]];
    const ONNXTensorElementDataType expected = plan->slots[plan->inputs[i]].element_type;
    if (value != NULL && value->type == ONNX_TYPE_TENSOR &&
        expected != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED && value->element_type != expected)
      return status_new(ORT_INVALID_ARGUMENT,
                        "input %zu of a body is of the element type %d, where the body says %d", i,
                        (int)value->element_type, (int)expected);
  }
  return NULL;
}

static OrtStatus* execute(const Body* body, Frame* frame, const Frame* outer) {
  const Plan* plan = body->plan;
  OrtStatus* misfit = check_own_inputs(body, frame);
  if (misfit != NULL) return misfit;
  if (body->makes_on_device || frame->given_count) {
    if (!frame_fetch_only(frame, body->fetched, plan->output_count)) return status_no_memory();
    for (size_t i = 0; i < plan->input_count; ++i) {
      if (frame->given[i] && plan->inputs[i] != plan->device_inputs[i] && frame->needed[plan->inputs[i]])
        return status_new(ORT_FAIL, "input %zu of a body is read on the CPU, and is on a device", i);
    }
  }
  if ((outer->options != NULL && run_is_terminated(outer->options)) || run_is_interrupted())
    return status_new(ORT_FAIL, "the run was terminated through its RunOptions");
  return plan_execute(frame, outer->options);
}

/* What the body made, for good: all of it, unless another of its outputs is the same. */
static OrtStatus* take_output(const Body* body, Frame* frame, size_t index, OrtValue* to) {
  const int32_t slot = body->fetched[index];
  OrtValue* value = frame->values[slot];
  bool is_last = value == &frame->storage[slot] && (value->type != ONNX_TYPE_TENSOR || value->buffer != NULL);
  for (size_t i = index + 1; is_last && i < body->plan->output_count; ++i) is_last = body->fetched[i] != slot;
  if (is_last) {
    value_move(to, value);
    return NULL;
  }
  return value_keep(to, value) ? NULL : status_no_memory();
}

/* ---- what is put together of all runs ---- */

/* The tensors of all runs, one behind the other or along another axis, in memory that grows with them. */
typedef struct Stack {
  const Track* track;
  Buffer* buffer;
  size_t filled, room; /* runs */
  ONNXTensorElementDataType element_type;
  size_t rank;
  int64_t* dims;        /* of one tensor */
  size_t rows, columns; /* elements before the axis, and behind it */
} Stack;

/* The stack's memory with room for so many runs. */
static OrtStatus* make_room(Stack* stack, size_t room) {
  const size_t count = stack->rows * stack->columns;
  size_t total;
  if (__builtin_mul_overflow(count, room, &total) ||
      __builtin_mul_overflow(total, element_size(stack->element_type), &total)) {
    return status_new(ORT_FAIL, "'%s': %zu runs make more than memory can hold", stack->track->name, room);
  }
  const bool is_text = stack->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  Buffer* grown = is_text ? buffer_for_strings(count * room) : buffer_from_cpu(total);
  /* It grows only where the runs lie one behind the other. */
  if (grown != NULL && stack->filled > 0 &&
      !copy_elements(stack->element_type, grown->data, stack->buffer->data, count * stack->filled)) {
    buffer_release(grown);
    grown = NULL;
  }
  if (grown == NULL)
    return status_new(ORT_FAIL, "no memory for the %zu bytes of '%s'", total, stack->track->name);
  buffer_release(stack->buffer);
  stack->buffer = grown;
  stack->room = room;
  return NULL;
}

/* Takes the type and the shape of one run's tensor; `runs` is how many it is to have room for. */
static OrtStatus* start_stack(Stack* stack, ONNXTensorElementDataType element_type, const int64_t* dims,
                              size_t rank, size_t runs) {
  size_t axis;
  OrtStatus* status = check_element_size(element_type, stack->track->name);
  if (status != NULL) return status;
  if (!find_axis(stack->track->axis, rank + 1, &axis)) {
    return status_new(ORT_INVALID_ARGUMENT, "'%s' has no axis %lld with its rank of %zu", stack->track->name,
                      (long long)stack->track->axis, rank + 1);
  }
  stack->dims = host_malloc((rank + 1) * sizeof *stack->dims);
  if (stack->dims == NULL) return status_no_memory();
  if (rank) memcpy(stack->dims, dims, rank * sizeof *dims);
  stack->element_type = element_type;
  stack->rank = rank;
  stack->rows = dims_product(dims, axis);
  stack->columns = dims_product(dims + axis, rank - axis);
  return make_room(stack, runs);
}

/* What is taken at once for runs of which there may be less. */
#define FIRST_ROOM ((size_t)1 << 16)

static size_t first_room(const OrtValue* value, size_t runs, bool is_certain) {
  const size_t each = value->element_count * element_size(value->element_type);
  if (is_certain || each == 0) return runs;
  const size_t fitting = each < FIRST_ROOM ? FIRST_ROOM / each : 1;
  return runs > 0 && runs < fitting ? runs : fitting;
}

/* Puts the next run's tensor, which is cleared, in its place. `runs` is how many there will be, if that is
 * certain, or at most; 0: not known. */
static OrtStatus* add_to_stack(Stack* stack, OrtValue* value, size_t runs, bool is_certain) {
  OrtStatus* status = NULL;
  if (value->type != ONNX_TYPE_TENSOR) {
    status = status_new(ORT_INVALID_ARGUMENT, "scan output '%s' must be a tensor", stack->track->name);
  } else if (stack->dims == NULL) {
    status = start_stack(stack, value->element_type, value->dims, value->rank,
                         first_room(value, runs, is_certain));
  } else if (value->element_type != stack->element_type ||
             !dims_equal(value->dims, value->rank, stack->dims, stack->rank)) {
    status = status_new(ORT_INVALID_ARGUMENT, "scan output '%s' has another type or shape than before",
                        stack->track->name);
  } else if (stack->filled == stack->room) {
    status = make_room(stack, 2 * stack->room);
  }
  const size_t at = stack->track->backwards ? stack->room - 1 - stack->filled : stack->filled;
  const size_t size = element_size(stack->element_type);
  for (size_t row = 0; status == NULL && stack->columns > 0 && row < stack->rows; ++row) {
    char* to = (char*)stack->buffer->data + (row * stack->room + at) * stack->columns * size;
    const char* from = (const char*)value->data + row * stack->columns * size;
    if (!copy_elements(stack->element_type, to, from, stack->columns)) status = status_no_memory();
  }
  stack->filled += status == NULL;
  value_clear(value);
  return status;
}

/* The tensor of all runs; what the body declares, without any. */
static OrtStatus* finish_stack(Stack* stack, OrtValue* made) {
  const Track* track = stack->track;
  if (stack->dims == NULL) {
    if (track->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) {
      return status_new(ORT_INVALID_ARGUMENT,
                        "no iteration ran and the body does not declare the type of scan output '%s'",
                        track->name);
    }
    OrtStatus* status = start_stack(stack, track->element_type, track->dims, track->rank, 0);
    if (status != NULL) return status;
  }
  size_t axis;
  find_axis(track->axis, stack->rank + 1, &axis);
  memmove(stack->dims + axis + 1, stack->dims + axis, (stack->rank - axis) * sizeof *stack->dims);
  stack->dims[axis] = (int64_t)stack->filled;
  /* What it may have too much stays with whoever gets it. */
  if (stack->room - stack->filled > stack->filled / 8) {
    OrtStatus* status = make_room(stack, stack->filled);
    if (status != NULL) return status;
  }
  if (!value_init_tensor(made, stack->element_type, stack->dims, stack->rank + 1, stack->buffer, NULL,
                         &ephost_cpu_memory_info)) {
    return status_no_memory();
  }
  stack->buffer = NULL; /* the value's */
  return NULL;
}

static void drop_stacks(Stack* stacks, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    buffer_release(stacks[i].buffer);
    host_free(stacks[i].dims);
  }
}

/* ---- what a node's runs share ---- */

/* The state that goes from one run to the next, and what is collected beside it. */
typedef struct Progress {
  const Bodies* bodies;
  OrtValue* state;
  Stack* stacks;
} Progress;

/* `first` is the step's input with the first state. What there is of it is to be ended also on failure. */
static OrtStatus* progress_begin(Progress* progress, const Bodies* bodies, Frame* frame, const Step* step,
                                 size_t first) {
  *progress = (Progress){bodies, host_calloc(bodies->state_count + 1, sizeof *progress->state),
                         host_calloc(bodies->collected_count + 1, sizeof *progress->stacks)};
  if (progress->state == NULL || progress->stacks == NULL) return status_no_memory();
  for (size_t i = 0; i < bodies->collected_count; ++i) progress->stacks[i].track = &bodies->collected[i];
  for (size_t i = 0; i < bodies->state_count; ++i) {
    if (!take_input(frame, step, first + i, &progress->state[i])) return status_no_memory();
  }
  return NULL;
}

/* Hands the state to a run of the body, whose inputs from `first` on are it. */
static void progress_feed(Progress* progress, Frame* frame, size_t first) {
  for (size_t i = 0; i < progress->bodies->state_count; ++i) {
    place_input(frame, first + i, &progress->state[i]);
  }
}

/* Takes what the run made, whose outputs from `first` on are state and what is collected. */
static OrtStatus* progress_take(Progress* progress, Frame* frame, size_t first, size_t runs,
                                bool is_certain) {
  const Bodies* bodies = progress->bodies;
  OrtStatus* status = NULL;
  for (size_t i = 0; status == NULL && i < bodies->state_count; ++i)
    status = take_output(&bodies->bodies[0], frame, first + i, &progress->state[i]);
  for (size_t i = 0; status == NULL && i < bodies->collected_count; ++i) {
    OrtValue made = {0};
    status = take_output(&bodies->bodies[0], frame, first + bodies->state_count + i, &made);
    if (status == NULL) status = add_to_stack(&progress->stacks[i], &made, runs, is_certain);
  }
  return status;
}

/* Puts all of it into the step's outputs. */
static OrtStatus* progress_give(Progress* progress, Frame* frame, const Step* step) {
  const Bodies* bodies = progress->bodies;
  OrtStatus* status = NULL;
  for (size_t i = 0; status == NULL && i < bodies->state_count; ++i) {
    OrtValue made = {0};
    if (!value_keep(&made, &progress->state[i])) return status_no_memory(); /* what no run made may be lent */
    status = give_output(frame, step, i, &made);
  }
  for (size_t i = 0; status == NULL && i < bodies->collected_count; ++i) {
    OrtValue made = {0};
    status = finish_stack(&progress->stacks[i], &made);
    if (status == NULL) status = give_output(frame, step, bodies->state_count + i, &made);
  }
  return status;
}

static void progress_end(Progress* progress) {
  if (progress->state != NULL) clear_all(progress->state, progress->bodies->state_count);
  if (progress->stacks != NULL) drop_stacks(progress->stacks, progress->bodies->collected_count);
  host_free(progress->state);
  host_free(progress->stacks);
}

/* ---- the operators ---- */

static OrtStatus* run_if(const HostKernel* kernel, const Step* step, Frame* frame) {
  const Bodies* bodies = (const Bodies*)kernel;
  const OrtValue* condition = step_input(frame, step, 0);
  bool holds = false;
  OrtStatus* status = read_condition(condition != NULL ? condition : &nothing, &holds);
  const Body* body = &bodies->bodies[holds ? 0 : 1];
  Frame* inner = NULL;
  if (status == NULL) status = begin(body, frame, step, true, &inner);
  if (status == NULL) status = execute(body, inner, frame);
  for (size_t i = 0; status == NULL && i < step->output_count; ++i) {
    OrtValue made = {0};
    status = take_output(body, inner, i, &made);
    if (status == NULL) status = give_output(frame, step, i, &made);
  }
  if (inner != NULL) frame_release(inner);
  return status;
}

static OrtStatus* run_loop(const HostKernel* kernel, const Step* step, Frame* frame) {
  const Bodies* bodies = (const Bodies*)kernel;
  const OrtValue *trip_count = step_input(frame, step, 0), *condition = step_input(frame, step, 1);
  static const int64_t one = 1;
  int64_t trips = INT64_MAX;
  bool goes_on = true;
  const bool is_counted = trip_count != NULL && trip_count->type != ONNX_TYPE_OPTIONAL;
  OrtStatus* status = is_counted ? read_trips(trip_count, &trips) : NULL;
  if (status == NULL && condition != NULL && condition->type != ONNX_TYPE_OPTIONAL)
    status = read_condition(condition, &goes_on);
  if (status != NULL) return status;
  const size_t runs = is_counted && trips > 0 ? (size_t)trips : 0;
  Progress progress;
  status = progress_begin(&progress, bodies, frame, step, 2);
  for (int64_t trip = 0; status == NULL && goes_on && (!is_counted || trip < trips); ++trip) {
    Frame* inner;
    bool holds = true;
    status = begin(&bodies->bodies[0], frame, step, false, &inner);
    if (status != NULL) break;
    if (!value_init_tensor(own_input(inner, 0), ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &one,
                           bodies->counter_ranks[0], NULL, &trip, &ephost_cpu_memory_info) ||
        !value_init_tensor(own_input(inner, 1), ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, &one,
                           bodies->counter_ranks[1], NULL, &holds, &ephost_cpu_memory_info)) {
      status = status_no_memory();
    }
    progress_feed(&progress, inner, 2);
    if (status == NULL) status = execute(&bodies->bodies[0], inner, frame);
    if (status == NULL) status = read_condition(inner->values[inner->plan->outputs[0]], &goes_on);
    if (status == NULL) status = progress_take(&progress, inner, 1, runs, false);
    frame_release(inner);
  }
  if (status == NULL) status = progress_give(&progress, frame, step);
  progress_end(&progress);
  return status;
}

/* How many runs a scan has, and the axis of each of its scanned inputs, which begin at the step's `first`. */
static OrtStatus* scan_length(const Bodies* bodies, const Frame* frame, const Step* step, size_t first,
                              size_t* axes, size_t* length) {
  for (size_t i = 0; i < bodies->scanned_count; ++i) {
    const OrtValue* tensor = step_input(frame, step, first + i);
    if (tensor == NULL || tensor->type != ONNX_TYPE_TENSOR)
      return status_new(ORT_INVALID_ARGUMENT, "scan input %zu must be a tensor", i);
    OrtStatus* status = check_element_size(tensor->element_type, bodies->scanned[i].name);
    if (status != NULL) return status;
    if (!find_axis(bodies->scanned[i].axis, tensor->rank, &axes[i])) {
      return status_new(ORT_INVALID_ARGUMENT, "scan input %zu has no axis %lld with its rank of %zu", i,
                        (long long)bodies->scanned[i].axis, tensor->rank);
    }
    const size_t own = (size_t)tensor->dims[axes[i]];
    if (i > 0 && own != *length) {
      return status_new(ORT_INVALID_ARGUMENT,
                        "the scan inputs have different lengths along their scan axes: %zu and %zu", *length,
                        own);
    }
    *length = own;
  }
  return NULL;
}

static OrtStatus* run_scan(const HostKernel* kernel, const Step* step, Frame* frame) {
  const Bodies* bodies = (const Bodies*)kernel;
  const size_t first = bodies->state_count;
  size_t length = 0;
  size_t* axes = host_calloc(bodies->scanned_count + 1, sizeof *axes);
  Progress progress;
  OrtStatus* status = progress_begin(&progress, bodies, frame, step, 0);
  if (axes == NULL && status == NULL) status = status_no_memory();
  if (status == NULL) status = scan_length(bodies, frame, step, first, axes, &length);
  for (size_t run = 0; status == NULL && run < length; ++run) {
    Frame* inner;
    status = begin(&bodies->bodies[0], frame, step, false, &inner);
    if (status != NULL) break;
    progress_feed(&progress, inner, 0);
    for (size_t i = 0; status == NULL && i < bodies->scanned_count; ++i) {
      const size_t at = bodies->scanned[i].backwards ? length - 1 - run : run;
      const OrtValue* tensor = step_input(frame, step, first + i);
      if (!tensor_part(own_input(inner, first + i), tensor, axes[i], at, 1, false, true))
        status = status_no_memory();
    }
    if (status == NULL) status = execute(&bodies->bodies[0], inner, frame);
    if (status == NULL) status = progress_take(&progress, inner, 0, length, true);
    frame_release(inner);
  }
  if (status == NULL) status = progress_give(&progress, frame, step);
  progress_end(&progress);
  host_free(axes);
  return status;
}

/* How long the sequences are that a body is mapped over. */
static OrtStatus* map_length(const Body* body, const Frame* frame, const Step* step, size_t* length) {
  const OrtValue* first = step_input(frame, step, 0);
  if (first == NULL || first->type != ONNX_TYPE_SEQUENCE)
    return status_new(ORT_INVALID_ARGUMENT, "the first input must be a sequence");
  *length = first->item_count;
  for (size_t i = 0; i < body->own_count; ++i) {
    const OrtValue* value = step_input(frame, step, i);
    if (value == NULL || value->type != ONNX_TYPE_SEQUENCE) continue;
    if (value->is_zipped) return status_new(ORT_NOT_IMPLEMENTED, "input %zu is a sequence of maps", i);
    if (value->item_count != *length) {
      return status_new(ORT_INVALID_ARGUMENT, "the input sequences have different lengths: %zu and %zu",
                        *length, value->item_count);
    }
  }
  return NULL;
}

static OrtStatus* run_sequence_map(const HostKernel* kernel, const Step* step, Frame* frame) {
  const Bodies* bodies = (const Bodies*)kernel;
  const Body* body = &bodies->bodies[0];
  size_t length = 0;
  const size_t outputs = bodies->collected_count;
  OrtStatus* status = map_length(body, frame, step, &length);
  if (status != NULL) return status;
  OrtValue* made = host_calloc(outputs + 1, sizeof *made);
  if (made == NULL) return status_no_memory();
  for (size_t i = 0; status == NULL && i < outputs; ++i) {
    made[i] = (OrtValue){.type = ONNX_TYPE_SEQUENCE,
                         .element_type = bodies->collected[i].element_type,
                         .items = items_new(length)};
    if (made[i].items == NULL) {
      made[i] = (OrtValue){0};
      status = status_no_memory();
    }
  }
  for (size_t run = 0; status == NULL && run < length; ++run) {
    Frame* inner;
    status = begin(body, frame, step, false, &inner);
    if (status != NULL) break;
    for (size_t i = 0; status == NULL && i < body->own_count; ++i) {
      const OrtValue* value = step_input(frame, step, i);
      if (value == NULL) value = &nothing;
      if (!lend(own_input(inner, i), value->type == ONNX_TYPE_SEQUENCE ? value->items[run] : value))
        status = status_no_memory();
    }
    if (status == NULL) status = execute(body, inner, frame);
    for (size_t i = 0; status == NULL && i < outputs; ++i) {
      OrtValue* item = value_new();
      status = item != NULL ? take_output(body, inner, i, item) : status_no_memory();
      made[i].items[run] = item;
      made[i].item_count += item != NULL;
      if (status == NULL && item->type == ONNX_TYPE_TENSOR) made[i].element_type = item->element_type;
    }
    frame_release(inner);
  }
  for (size_t i = 0; status == NULL && i < outputs; ++i) status = give_output(frame, step, i, &made[i]);
  clear_all(made, outputs);
  host_free(made);
  return status;
}

/* ---- making one ---- */

static void free_tracks(Track* tracks, size_t count) {
  for (size_t i = 0; tracks != NULL && i < count; ++i) {
    host_free(tracks[i].name);
    host_free(tracks[i].dims);
  }
  host_free(tracks);
}

static void bodies_free(HostKernel* kernel) {
  Bodies* bodies = (Bodies*)kernel;
  for (size_t i = 0; i < 2; ++i) {
    host_free(bodies->bodies[i].captured);
    host_free(bodies->bodies[i].fetched);
  }
  free_tracks(bodies->scanned, bodies->scanned_count);
  free_tracks(bodies->collected, bodies->collected_count);
  host_free(bodies);
  handle_count(HANDLE_OTHER, -1);
}

static Track* copy_tracks(const EphostTrack* from, size_t count) {
  Track* tracks = host_calloc(count + 1, sizeof *tracks);
  for (size_t i = 0; tracks != NULL && i < count; ++i) {
    tracks[i] = (Track){.axis = from[i].axis,
                        .backwards = from[i].backwards,
                        .name = host_strdup(from[i].name),
                        .element_type = (ONNXTensorElementDataType)from[i].element_type,
                        .rank = from[i].rank,
                        .dims = host_memdup(from[i].dims, from[i].rank * sizeof(int64_t))};
    if (tracks[i].name != NULL && tracks[i].dims != NULL) continue;
    free_tracks(tracks, count);
    return NULL;
  }
  return tracks;
}

OrtStatus* ephost_bodies_new(const EphostBodies* what, HostKernel** out) {
  static const struct {
    const char* op_type;
    OrtStatus* (*run)(const HostKernel* kernel, const Step* step, Frame* frame);
    size_t bodies;
  } operators[] = {
      {"If", run_if, 2}, {"Loop", run_loop, 1}, {"Scan", run_scan, 1}, {"SequenceMap", run_sequence_map, 1}};
  REQUIRE_ARG(what != NULL && out != NULL);
  *out = NULL;
  const size_t count = sizeof operators / sizeof *operators;
  size_t at = 0;
  while (at < count && strcmp(operators[at].op_type, what->op_type) != 0) ++at;
  if (at == count || operators[at].bodies != what->body_count)
    return status_new(ORT_NOT_IMPLEMENTED, "no kernel of bodies for %s", what->op_type);
  Bodies* bodies = host_calloc(1, sizeof *bodies);
  if (bodies == NULL) return status_no_memory();
  handle_count(HANDLE_OTHER, +1);
  bodies->base = (HostKernel){operators[at].run, bodies_free};
  bool whole = true;
  for (size_t i = 0; i < what->body_count; ++i) {
    Body* body = &bodies->bodies[i];
    const EphostBody* from = &what->bodies[i];
    body->plan = from->plan;
    body->own_count = from->own_count;
    body->captured =
        host_memdup(from->captured, (from->plan->input_count - from->own_count) * sizeof *body->captured);
    body->fetched = host_memdup(from->plan->outputs, from->plan->output_count * sizeof *body->fetched);
    whole = whole && body->captured != NULL && body->fetched != NULL;
    for (size_t k = 0; body->fetched != NULL && k < from->plan->output_count; ++k) {
      if (!from->on_device[k]) continue;
      body->fetched[k] = from->plan->device_outputs[k];
      body->makes_on_device = true;
    }
  }
  bodies->state_count = what->state_count;
  bodies->scanned = copy_tracks(what->scanned, what->scanned_count);
  if (bodies->scanned != NULL) bodies->scanned_count = what->scanned_count;
  bodies->collected = copy_tracks(what->collected, what->collected_count);
  if (bodies->collected != NULL) bodies->collected_count = what->collected_count;
  memcpy(bodies->counter_ranks, what->counter_ranks, sizeof bodies->counter_ranks);
  if (!whole || bodies->scanned == NULL || bodies->collected == NULL) {
    bodies_free(&bodies->base);
    return status_no_memory();
  }
  *out = &bodies->base;
  return NULL;
}
