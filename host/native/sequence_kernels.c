/* The operators of sequences. Plugins cannot run them, since the ABI gives them memory for tensors alone; on
 * the reference fallback each element of a sequence would become an object and back, for each node that looks
 * at one of them. Here a node takes what it asks for, and a sequence that nobody reads after it is the one
 * that grows or shrinks. */
#define _GNU_SOURCE
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "memory.h"
#include "plan.h"
#include "python.h"
#include "status.h"
#include "value.h"

/* ---- inputs ---- */

static const OrtValue* input(const Frame* frame, const Step* step, size_t index) {
  const int32_t slot = index < step->input_count ? step->inputs[index] : -1;
  return slot >= 0 ? frame->values[slot] : NULL;
}

static OrtStatus* sequence_input(const Frame* frame, const Step* step, const OrtValue** out) {
  *out = input(frame, step, 0);
  if (*out != NULL && (*out)->type == ONNX_TYPE_SEQUENCE && !(*out)->is_zipped) return NULL;
  return status_new(ORT_INVALID_ARGUMENT, "its first input is no sequence of tensors");
}

/* Whether a node says a position: an optional that is empty is none. */
static bool has_position(const OrtValue* value) {
  return value != NULL && value->type != ONNX_TYPE_OPTIONAL && value->type != ONNX_TYPE_UNKNOWN;
}

/* A position in a sequence of `count` elements, from the end where it is negative; `last` is the greatest
 * that is one. */
static OrtStatus* read_position(const OrtValue* value, size_t count, int64_t last, size_t* out) {
  const bool is_wide = value->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  if (value->type != ONNX_TYPE_TENSOR || value->element_count < 1 ||
      (!is_wide && value->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32)) {
    return status_new(ORT_INVALID_ARGUMENT, "its position is no tensor(int32) or tensor(int64)");
  }
  int64_t position;
  if (is_wide) {
    memcpy(&position, value->data, sizeof position);
  } else {
    int32_t narrow;
    memcpy(&narrow, value->data, sizeof narrow);
    position = narrow;
  }
  if (position < -(int64_t)count || position > last) {
    return status_new(ORT_INVALID_ARGUMENT, "position %lld of a sequence of %zu", (long long)position, count);
  }
  *out = (size_t)(position < 0 ? position + (int64_t)count : position);
  return NULL;
}

/* An element of its own: of memory that the frame or a caller lends there is a copy. NULL without memory. */
static OrtValue* new_element(const Frame* frame, int32_t slot) {
  const OrtValue* from = frame->values[slot];
  OrtValue* made = value_new();
  if (made == NULL) return NULL;
  if (frame_borrows(frame, slot) ? value_copy(made, from, NULL) : value_share(made, from)) return made;
  ephost_api.ReleaseValue(made);
  return NULL;
}

/* ---- outputs ---- */

static OrtStatus* give_sequence(Frame* frame, const Step* step, OrtValue* made) {
  const int32_t slot = step->outputs[0];
  if (frame->preallocated[slot] & PREALLOCATED_BOUND) {
    value_clear(made);
    return status_new(ORT_INVALID_ARGUMENT, "its output is a sequence, and a tensor is bound to it");
  }
  frame->preallocated[slot] = 0;
  value_clear(&frame->storage[slot]);
  value_move(&frame->storage[slot], made);
  return NULL;
}

/* Takes the sequence of the step's first input, with room for at least `count` elements, to be changed. False
 * without memory: nothing is changed then. */
static bool take_sequence(Frame* frame, const Step* step, size_t count, OrtValue* made) {
  OrtValue* sequence = frame->values[step->inputs[0]];
  if (!frame_ends(frame, step, 0) || items_are_shared(sequence->items)) {
    OrtValue copy = {0};
    if (!value_init_items(&copy, ONNX_TYPE_SEQUENCE, sequence->element_type,
                          (const OrtValue* const*)sequence->items, sequence->item_count)) {
      return false;
    }
    value_move(made, &copy);
    sequence = made;
  }
  OrtValue** items = items_grow(sequence->items, count);
  if (items == NULL) {
    value_clear(made);
    return false;
  }
  sequence->items = items;
  if (sequence != made) value_move(made, sequence);
  return true;
}

/* ---- the operators ---- */

static OrtStatus* run_insert(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  const OrtValue* sequence;
  OrtStatus* status = sequence_input(frame, step, &sequence);
  if (status != NULL) return status;
  const OrtValue *element = input(frame, step, 1), *where = input(frame, step, 2);
  if (element == NULL || element->type != ONNX_TYPE_TENSOR)
    return status_new(ORT_INVALID_ARGUMENT, "its second input is no tensor");
  const size_t count = sequence->item_count;
  if (count > 0 && (sequence->items[0]->type != ONNX_TYPE_TENSOR ||
                    sequence->items[0]->element_type != element->element_type)) {
    return status_new(ORT_INVALID_ARGUMENT,
                      "its second input is of another type than the sequence's elements");
  }
  size_t at = count;
  if (has_position(where)) status = read_position(where, count, (int64_t)count, &at);
  if (status != NULL || step->outputs[0] < 0) return status;
  const ONNXTensorElementDataType element_type = element->element_type;
  OrtValue made = {0};
  OrtValue* added = new_element(frame, step->inputs[1]);
  if (added == NULL || !take_sequence(frame, step, count + 1, &made)) {
    ephost_api.ReleaseValue(added);
    return status_no_memory();
  }
  memmove(made.items + at + 1, made.items + at, (count - at) * sizeof *made.items);
  made.items[at] = added;
  made.item_count = count + 1;
  made.element_type = element_type;
  return give_sequence(frame, step, &made);
}

static OrtStatus* run_erase(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  const OrtValue* sequence;
  OrtStatus* status = sequence_input(frame, step, &sequence);
  if (status != NULL) return status;
  const OrtValue* where = input(frame, step, 1);
  const size_t count = sequence->item_count;
  if (count == 0) return status_new(ORT_INVALID_ARGUMENT, "there is nothing in the sequence to erase");
  size_t at = count - 1;
  if (has_position(where)) status = read_position(where, count, (int64_t)count - 1, &at);
  if (status != NULL || step->outputs[0] < 0) return status;
  OrtValue made = {0};
  if (!take_sequence(frame, step, count, &made)) return status_no_memory();
  ephost_api.ReleaseValue(made.items[at]);
  memmove(made.items + at, made.items + at + 1, (count - at - 1) * sizeof *made.items);
  made.item_count = count - 1;
  return give_sequence(frame, step, &made);
}

static OrtStatus* run_at(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  const OrtValue *sequence, *where = input(frame, step, 1);
  OrtStatus* status = sequence_input(frame, step, &sequence);
  size_t at = 0;
  if (status == NULL && !has_position(where)) status = status_new(ORT_INVALID_ARGUMENT, "it has no position");
  if (status == NULL)
    status = read_position(where, sequence->item_count, (int64_t)sequence->item_count - 1, &at);
  if (status != NULL || step->outputs[0] < 0) return status;
  OrtValue made = {0};
  if (!value_share(&made, sequence->items[at])) return status_no_memory();
  return frame_give(frame, step, 0, &made);
}

static OrtStatus* run_length(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  const OrtValue* sequence = input(frame, step, 0);
  if (sequence == NULL || sequence->type != ONNX_TYPE_SEQUENCE)
    return status_new(ORT_INVALID_ARGUMENT, "its input is no sequence");
  if (step->outputs[0] < 0) return NULL;
  const int64_t length = (int64_t)value_item_count(sequence);
  OrtValue* made;
  OrtStatus* status = frame_output(frame, step, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, NULL, 0, &made);
  if (status == NULL) memcpy(made->data, &length, sizeof length);
  return status;
}

static OrtStatus* run_construct(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  const OrtValue* first = input(frame, step, 0);
  if (step->outputs[0] < 0) return NULL;
  OrtValue made = {.type = ONNX_TYPE_SEQUENCE, .items = items_new(step->input_count)};
  if (made.items == NULL) return status_no_memory();
  OrtStatus* status = NULL;
  for (size_t i = 0; status == NULL && i < step->input_count; ++i) {
    const OrtValue* element = input(frame, step, i);
    if (element == NULL || element->type != ONNX_TYPE_TENSOR) {
      status = status_new(ORT_INVALID_ARGUMENT, "its input %zu is no tensor", i);
    } else if (element->element_type != first->element_type) {
      status = status_new(ORT_INVALID_ARGUMENT, "its input %zu is of another type than its first", i);
    } else if ((made.items[i] = new_element(frame, step->inputs[i])) == NULL) {
      status = status_no_memory();
    } else {
      made.element_type = element->element_type;
      made.item_count = i + 1;
    }
  }
  if (status == NULL) return give_sequence(frame, step, &made);
  value_clear(&made);
  return status;
}

/* Identity of a sequence. */
static OrtStatus* run_identity(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  const OrtValue* value = input(frame, step, 0);
  if (value == NULL || value->type != ONNX_TYPE_SEQUENCE)
    return status_new(ORT_INVALID_ARGUMENT, "its input is no sequence");
  if (step->outputs[0] < 0) return NULL;
  OrtValue made = {0};
  if (frame_ends(frame, step, 0)) {
    value_move(&made, frame->values[step->inputs[0]]);
  } else if (!value_share(&made, value)) {
    return status_no_memory();
  }
  return give_sequence(frame, step, &made);
}

static void no_memory_of_its_own(HostKernel* kernel) { (void)kernel; }

OrtStatus* ephost_sequence_kernel_new(const char* op_type, HostKernel** out) {
  static struct {
    const char* op_type;
    HostKernel kernel;
  } kernels[] = {
      {"Identity", {run_identity, no_memory_of_its_own}},
      {"SequenceAt", {run_at, no_memory_of_its_own}},
      {"SequenceConstruct", {run_construct, no_memory_of_its_own}},
      {"SequenceErase", {run_erase, no_memory_of_its_own}},
      {"SequenceInsert", {run_insert, no_memory_of_its_own}},
      {"SequenceLength", {run_length, no_memory_of_its_own}},
  };
  REQUIRE_ARG(op_type != NULL && out != NULL);
  *out = NULL;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i) {
    if (strcmp(kernels[i].op_type, op_type) == 0) *out = &kernels[i].kernel;
  }
  return *out != NULL ? NULL : status_new(ORT_NOT_IMPLEMENTED, "no kernel of sequences for %s", op_type);
}
