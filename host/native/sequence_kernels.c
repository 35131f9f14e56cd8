/* The operators of sequences and optionals. Plugins cannot run them, since the ABI gives them memory for
 * tensors alone; on the reference fallback each element of a sequence would become an object and back, for
 * each node that looks at one of them. Here a node takes what it asks for, and a sequence that nobody reads
 * after it is the one that grows or shrinks. */
#define _GNU_SOURCE
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "memory.h"
#include "plan.h"
#include "python.h"
#include "status.h"
#include "tensor_parts.h"
#include "value.h"

typedef struct SequenceKernel {
  HostKernel base;
  int64_t axis;
  bool adds_axis; /* ConcatFromSequence: new_axis; SplitToSequence: keepdims */
  ONNXTensorElementDataType element_type;
} SequenceKernel;

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

/* Whether there is something: an optional may hold nothing. */
static bool is_given(const OrtValue* value) {
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
  if (is_given(where)) status = read_position(where, count, (int64_t)count, &at);
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
  if (is_given(where)) status = read_position(where, count, (int64_t)count - 1, &at);
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
  if (status == NULL && !is_given(where)) status = status_new(ORT_INVALID_ARGUMENT, "it has no position");
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

static OrtStatus* run_empty(const HostKernel* kernel, const Step* step, Frame* frame) {
  if (step->outputs[0] < 0) return NULL;
  OrtValue made = {.type = ONNX_TYPE_SEQUENCE,
                   .element_type = ((const SequenceKernel*)kernel)->element_type,
                   .items = items_new(0)};
  return made.items != NULL ? give_sequence(frame, step, &made) : status_no_memory();
}

/* The number at a place of a tensor of int32 or int64. */
static int64_t number_at(const OrtValue* value, size_t at) {
  return value->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ? ((const int64_t*)value->data)[at]
                                                                    : ((const int32_t*)value->data)[at];
}

/* How an axis is cut: into parts of one size, or of a list of sizes, which may be of any rank but 0. */
typedef struct Cut {
  const OrtValue* sizes; /* NULL: they are of one size, but for the last, which may be smaller */
  size_t size, length;   /* that, and the axis' */
  size_t count;          /* of parts */
} Cut;

static OrtStatus* read_cut(const OrtValue* split, size_t length, Cut* cut) {
  *cut = (Cut){.size = 1, .length = length, .count = length};
  if (!is_given(split)) return NULL;
  if (split->type != ONNX_TYPE_TENSOR || (split->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 &&
                                          split->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32)) {
    return status_new(ORT_INVALID_ARGUMENT, "its split is no tensor(int32) or tensor(int64)");
  }
  if (split->rank == 0) {
    const int64_t size = number_at(split, 0);
    if (size <= 0) return status_new(ORT_INVALID_ARGUMENT, "parts of %lld elements", (long long)size);
    cut->size = (size_t)size < length ? (size_t)size : length + (length == 0);
    cut->count = (length + cut->size - 1) / cut->size;
    return NULL;
  }
  size_t left = length;
  for (size_t i = 0; i < split->element_count; ++i) {
    const int64_t size = number_at(split, i);
    if (size < 0 || (size_t)size > left)
      return status_new(ORT_INVALID_ARGUMENT, "its parts are not those of an axis of %zu", length);
    left -= (size_t)size;
  }
  if (left > 0)
    return status_new(ORT_INVALID_ARGUMENT, "its parts leave %zu of an axis of %zu", left, length);
  cut->sizes = split;
  cut->count = split->element_count;
  return NULL;
}

static OrtStatus* run_split(const HostKernel* kernel, const Step* step, Frame* frame) {
  const SequenceKernel* own = (const SequenceKernel*)kernel;
  const OrtValue* tensor = input(frame, step, 0);
  size_t axis;
  Cut cut;
  if (tensor == NULL || tensor->type != ONNX_TYPE_TENSOR)
    return status_new(ORT_INVALID_ARGUMENT, "its input is no tensor");
  OrtStatus* status = check_element_size(tensor->element_type, step->node_name);
  if (status == NULL && !find_axis(own->axis, tensor->rank, &axis)) {
    status = status_new(ORT_INVALID_ARGUMENT, "there is no axis %lld with a rank of %zu",
                        (long long)own->axis, tensor->rank);
  }
  if (status == NULL) status = read_cut(input(frame, step, 1), (size_t)tensor->dims[axis], &cut);
  if (status != NULL || step->outputs[0] < 0) return status;
  const bool keeps_axis = own->adds_axis || is_given(input(frame, step, 1));
  OrtValue made = {
      .type = ONNX_TYPE_SEQUENCE, .element_type = tensor->element_type, .items = items_new(cut.count)};
  if (made.items == NULL) return status_no_memory();
  for (size_t i = 0, begin = 0; i < cut.count; ++i) {
    const size_t left = cut.length - begin;
    const size_t size = cut.sizes != NULL ? (size_t)number_at(cut.sizes, i)
                        : cut.size < left ? cut.size
                                          : left;
    OrtValue* part = made.items[i] = value_new();
    made.item_count = i + (part != NULL);
    if (part == NULL || !tensor_part(part, tensor, axis, begin, size, keeps_axis, false)) {
      value_clear(&made);
      return status_no_memory();
    }
    begin += size;
  }
  return give_sequence(frame, step, &made);
}

/* Checks that the elements fit together, and gives the length of the axis along which they lie. */
static OrtStatus* joined_length(const OrtValue* sequence, size_t axis, bool adds_axis, int64_t* length) {
  const OrtValue* first = sequence->items[0];
  *length = 0;
  for (size_t i = 0; i < sequence->item_count; ++i) {
    const OrtValue* item = sequence->items[i];
    bool fits = item->type == ONNX_TYPE_TENSOR && item->element_type == first->element_type &&
                item->rank == first->rank;
    for (size_t k = 0; fits && k < first->rank; ++k)
      fits = item->dims[k] == first->dims[k] || (!adds_axis && k == axis);
    if (!fits)
      return status_new(ORT_INVALID_ARGUMENT,
                        "element %zu of the sequence has a type or shape that does not "
                        "fit the first one's",
                        i);
    if (__builtin_add_overflow(*length, adds_axis ? 1 : item->dims[axis], length))
      return status_new(ORT_INVALID_ARGUMENT, "the elements are together larger than a tensor can be");
  }
  return NULL;
}

static OrtStatus* run_concat(const HostKernel* kernel, const Step* step, Frame* frame) {
  const SequenceKernel* own = (const SequenceKernel*)kernel;
  const OrtValue* sequence;
  OrtStatus* status = sequence_input(frame, step, &sequence);
  if (status != NULL) return status;
  if (sequence->item_count == 0) return status_new(ORT_INVALID_ARGUMENT, "there is nothing in the sequence");
  const OrtValue* first = sequence->items[0];
  if (first->type != ONNX_TYPE_TENSOR) return status_new(ORT_INVALID_ARGUMENT, "its elements are no tensors");
  const size_t rank = first->rank + own->adds_axis;
  size_t axis;
  int64_t length;
  status = check_element_size(first->element_type, step->node_name);
  if (status == NULL && !find_axis(own->axis, rank, &axis)) {
    status = status_new(ORT_INVALID_ARGUMENT, "there is no axis %lld with a rank of %zu",
                        (long long)own->axis, rank);
  }
  if (status == NULL) status = joined_length(sequence, axis, own->adds_axis, &length);
  if (status != NULL || step->outputs[0] < 0) return status;
  int64_t* dims = host_malloc((rank + 1) * sizeof *dims);
  if (dims == NULL) return status_no_memory();
  const size_t behind = rank - axis - 1;
  memcpy(dims, first->dims, axis * sizeof *dims);
  dims[axis] = length;
  memcpy(dims + axis + 1, first->dims + first->rank - behind, behind * sizeof *dims);
  OrtValue* made;
  status = frame_output(frame, step, 0, first->element_type, dims, rank, &made);
  const size_t rows = dims_product(dims, axis), row = dims_product(dims + axis, rank - axis);
  host_free(dims);
  const size_t size = element_size(first->element_type);
  size_t begin = 0; /* of the element in a row */
  for (size_t i = 0; status == NULL && i < sequence->item_count; ++i) {
    const OrtValue* item = sequence->items[i];
    const size_t columns = rows > 0 ? item->element_count / rows : 0;
    for (size_t k = 0; status == NULL && columns > 0 && k < rows; ++k) {
      if (!copy_elements(first->element_type, (char*)made->data + (k * row + begin) * size,
                         (const char*)item->data + k * columns * size, columns)) {
        status = status_no_memory();
      }
    }
    begin += columns;
  }
  return status;
}

/* Optional, and OptionalGetElement of what holds something: the value itself. */
static OrtStatus* hand_on(const Step* step, Frame* frame) {
  if (step->outputs[0] < 0) return NULL;
  OrtValue made = {0};
  const OrtValue* value = input(frame, step, 0);
  if (value != NULL && value->type != ONNX_TYPE_TENSOR && frame_ends(frame, step, 0)) {
    value_move(&made, frame->values[step->inputs[0]]);
  } else if (!is_given(value)) {
    made.type = ONNX_TYPE_OPTIONAL;
  } else if (!value_keep(&made, value)) {
    return status_no_memory();
  }
  if (made.type == ONNX_TYPE_TENSOR) return frame_give(frame, step, 0, &made);
  return give_sequence(frame, step, &made);
}

static OrtStatus* run_optional(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  return hand_on(step, frame);
}

static OrtStatus* run_get_element(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  if (!is_given(input(frame, step, 0))) return status_new(ORT_INVALID_ARGUMENT, "the optional holds nothing");
  return hand_on(step, frame);
}

static OrtStatus* run_has_element(const HostKernel* kernel, const Step* step, Frame* frame) {
  (void)kernel;
  if (step->outputs[0] < 0) return NULL;
  OrtValue* made;
  OrtStatus* status = frame_output(frame, step, 0, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, NULL, 0, &made);
  if (status == NULL) *(uint8_t*)made->data = is_given(input(frame, step, 0));
  return status;
}

static void sequence_kernel_free(HostKernel* kernel) {
  host_free(kernel);
  handle_count(HANDLE_OTHER, -1);
}

OrtStatus* ephost_sequence_kernel_new(const char* op_type, int64_t axis, bool adds_axis, int element_type,
                                      HostKernel** out) {
  static const struct {
    const char* op_type;
    OrtStatus* (*run)(const HostKernel* kernel, const Step* step, Frame* frame);
  } operators[] = {
      {"ConcatFromSequence", run_concat},
      {"Identity", run_identity},
      {"Optional", run_optional},
      {"OptionalGetElement", run_get_element},
      {"OptionalHasElement", run_has_element},
      {"SequenceAt", run_at},
      {"SequenceConstruct", run_construct},
      {"SequenceEmpty", run_empty},
      {"SequenceErase", run_erase},
      {"SequenceInsert", run_insert},
      {"SequenceLength", run_length},
      {"SplitToSequence", run_split},
  };
  REQUIRE_ARG(op_type != NULL && out != NULL);
  *out = NULL;
  size_t at = 0;
  while (at < sizeof operators / sizeof *operators && strcmp(operators[at].op_type, op_type) != 0) ++at;
  if (at == sizeof operators / sizeof *operators)
    return status_new(ORT_NOT_IMPLEMENTED, "no kernel of sequences for %s", op_type);
  SequenceKernel* kernel = host_malloc(sizeof *kernel);
  if (kernel == NULL) return status_no_memory();
  *kernel = (SequenceKernel){.base = {operators[at].run, sequence_kernel_free},
                             .axis = axis,
                             .adds_axis = adds_axis,
                             .element_type = (ONNXTensorElementDataType)element_type};
  handle_count(HANDLE_OTHER, +1);
  *out = &kernel->base;
  return NULL;
}
