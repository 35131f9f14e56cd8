/* ZipMap: a row of scores becomes a map from labels to them. Plugins cannot run it, since the ABI gives them
 * memory for tensors alone; on the reference fallback each row would cost an object for each score twice. */
#define _GNU_SOURCE
#include "abi.h"
#include "heap.h"
#include "memory.h"
#include "plan.h"
#include "python.h"
#include "status.h"
#include "value.h"

typedef struct ZipMap {
  HostKernel base;
  OrtValue labels;
} ZipMap;

static OrtStatus* run(const HostKernel* kernel, const Step* step, Frame* frame) {
  const OrtValue* labels = &((const ZipMap*)kernel)->labels;
  const OrtValue* scores = frame->values[step->inputs[0]];
  if (scores->type != ONNX_TYPE_TENSOR || scores->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ||
      scores->rank < 1 || scores->rank > 2) {
    return status_new(ORT_INVALID_ARGUMENT, "its input is no tensor(float) [N, C] or [C]");
  }
  const int64_t width = scores->dims[scores->rank - 1];
  if ((size_t)width != labels->element_count) {
    return status_new(ORT_INVALID_ARGUMENT, "%zu class labels for rows of %lld values", labels->element_count,
                      (long long)width);
  }
  const int32_t slot = step->outputs[0];
  if (slot < 0) return NULL;
  if (frame->preallocated[slot] & PREALLOCATED_BOUND)
    return status_new(ORT_INVALID_ARGUMENT, "its output is a sequence of maps, and a tensor is bound to it");
  OrtValue rows = {0}, made = {0};
  const int64_t dims[] = {scores->rank == 1 ? 1 : scores->dims[0], width};
  /* The scores' own memory may be the arena's. */
  if (!value_copy(&rows, scores, NULL)) return status_no_memory();
  rows.rank = 2;
  rows.dims[0] = dims[0];
  rows.dims[1] = dims[1];
  const OrtValue* parts[] = {labels, &rows};
  const bool zipped =
      value_init_items(&made, ONNX_TYPE_SEQUENCE, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, parts, 2);
  value_clear(&rows);
  if (!zipped) return status_no_memory();
  made.is_zipped = true;
  frame->preallocated[slot] = 0;
  value_clear(&frame->storage[slot]);
  value_move(&frame->storage[slot], &made);
  return NULL;
}

static void zip_map_free(HostKernel* kernel) {
  value_clear(&((ZipMap*)kernel)->labels);
  host_free(kernel);
  handle_count(HANDLE_OTHER, -1);
}

OrtStatus* ephost_zip_map_new(const OrtValue* labels, HostKernel** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(labels != NULL && labels->type == ONNX_TYPE_TENSOR && labels->rank == 1);
  ZipMap* kernel = host_calloc(1, sizeof *kernel);
  if (kernel == NULL) return status_no_memory();
  kernel->base = (HostKernel){run, zip_map_free};
  if (!value_copy(&kernel->labels, labels, NULL)) {
    host_free(kernel);
    return status_no_memory();
  }
  handle_count(HANDLE_OTHER, +1);
  *out = &kernel->base;
  return NULL;
}
