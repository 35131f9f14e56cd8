/* SequenceInsert: one element more. Plugins cannot run it, since the ABI gives them memory for tensors alone;
 * on the reference fallback each element of the sequence would become an object and back, for each that comes
 * to it. Here a sequence that nobody reads after this is the one that grows. */
#define _GNU_SOURCE
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "memory.h"
#include "plan.h"
#include "python.h"
#include "status.h"
#include "value.h"

/* Where the new element goes: at `count` when the node does not say. */
static OrtStatus* read_position(const OrtValue* value, size_t count, size_t* out) {
  *out = count;
  if (value == NULL || value->type == ONNX_TYPE_OPTIONAL || value->type == ONNX_TYPE_UNKNOWN) return NULL;
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
  const int64_t most = (int64_t)count;
  if (position < -most || position > most) {
    return status_new(ORT_INVALID_ARGUMENT, "position %lld of a sequence of %zu", (long long)position, count);
  }
  *out = (size_t)(position < 0 ? position + most : position);
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

/* Whether the sequence is the run's own, and the step the last that sees it. */
static bool ends_here(const Frame* frame, const Step* step, int32_t slot) {
  if (frame->values[slot] != &frame->storage[slot]) return false;
  for (size_t i = 0; i < step->release_count; ++i) {
    if (step->releases[i] == slot) return true;
  }
  return false;
}

/* Makes `made` the sequence with room for one more element at its end. False without memory: nothing is
 * changed then. */
static bool take_or_share(Frame* frame, const Step* step, int32_t slot, OrtValue* made) {
  const OrtValue* sequence = frame->values[slot];
  const bool own = ends_here(frame, step, slot);
  if (!own && !value_share(made, sequence)) return false;
  OrtValue** items = own ? sequence->items : made->items;
  OrtValue** grown = host_realloc(items, (sequence->item_count + 1) * sizeof(OrtValue*));
  if (grown == NULL) {
    value_clear(made);
    return false;
  }
  if (own) value_move(made, &frame->storage[slot]);
  made->items = grown;
  return true;
}

static OrtStatus* run(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  const int32_t source = step->inputs[0], slot = step->outputs[0];
  const OrtValue *sequence = frame->values[source], *element = frame->values[step->inputs[1]];
  const int32_t where = step->input_count > 2 ? step->inputs[2] : -1;
  if (sequence->type != ONNX_TYPE_SEQUENCE || sequence->is_zipped)
    return status_new(ORT_INVALID_ARGUMENT, "its first input is no sequence of tensors");
  if (element->type != ONNX_TYPE_TENSOR)
    return status_new(ORT_INVALID_ARGUMENT, "its second input is no tensor");
  const size_t count = sequence->item_count;
  if (count > 0 && (sequence->items[0]->type != ONNX_TYPE_TENSOR ||
                    sequence->items[0]->element_type != element->element_type)) {
    return status_new(ORT_INVALID_ARGUMENT,
                      "its second input is of another type than the sequence's elements");
  }
  size_t at;
  OrtStatus* status = read_position(where >= 0 ? frame->values[where] : NULL, count, &at);
  if (status != NULL || slot < 0) return status;
  if (frame->preallocated[slot] & PREALLOCATED_BOUND)
    return status_new(ORT_INVALID_ARGUMENT, "its output is a sequence, and a tensor is bound to it");
  const ONNXTensorElementDataType element_type = element->element_type;
  OrtValue made = {0};
  OrtValue* added = new_element(frame, step->inputs[1]);
  if (added == NULL || !take_or_share(frame, step, source, &made)) {
    ephost_api.ReleaseValue(added);
    return status_no_memory();
  }
  memmove(made.items + at + 1, made.items + at, (count - at) * sizeof *made.items);
  made.items[at] = added;
  made.item_count = count + 1;
  made.element_type = element_type;
  frame->preallocated[slot] = 0;
  value_clear(&frame->storage[slot]);
  value_move(&frame->storage[slot], &made);
  return NULL;
}

static void no_memory_of_its_own(HostKernel* kernel) { (void)kernel; }

OrtStatus* ephost_sequence_insert_new(HostKernel** out) {
  static HostKernel kernel = {run, no_memory_of_its_own};
  REQUIRE_ARG(out != NULL);
  *out = &kernel;
  return NULL;
}
