/* What a kernel asks for while it runs: its inputs and outputs, scratch memory, threads. The hot path of a
 * call. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "exceptions.h"
#include "heap.h"
#include "logger.h"
#include "memory.h"
#include "plan.h"
#include "status.h"
#include "threads.h"
#include "value.h"

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetInputCount)(const OrtKernelContext* context,
                                                                  size_t* out) {
  REQUIRE_ARG(context != NULL && out != NULL);
  *out = context->step->input_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetOutputCount)(const OrtKernelContext* context,
                                                                   size_t* out) {
  REQUIRE_ARG(context != NULL && out != NULL);
  *out = context->step->output_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetInput)(const OrtKernelContext* context, size_t index,
                                                             const OrtValue** out) {
  REQUIRE_ARG(context != NULL && out != NULL);
  const Step* step = context->step;
  *out = NULL;
  if (index >= step->input_count) {
    return status_new(ORT_INVALID_ARGUMENT, "input %zu was asked for of %s '%s', of %zu inputs", index,
                      NODES_OF(step), step->input_count);
  }
  int32_t slot = step->inputs[index];
  if (slot >= 0) {
    const OrtValue* value = context->frame->values[slot];
    if (value->type != ONNX_TYPE_UNKNOWN) *out = value;
  }
  return NULL;
}

/* The dimensions as "[2,3]", for messages; cut where they do not fit. */
enum { DIMS_TEXT = 128 };
static const char* dims_text(const int64_t* dims, size_t rank, char text[DIMS_TEXT]) {
  size_t used = 0;
  text[used++] = '[';
  for (size_t i = 0; i < rank && used < DIMS_TEXT - 24; ++i) {
    used += (size_t)snprintf(text + used, DIMS_TEXT - used, i ? ",%lld" : "%lld", (long long)dims[i]);
  }
  text[used] = ']';
  text[used + 1] = '\0';
  return text;
}

/* `found` is what the output has already. */
static OrtStatus* wrong_shape(const Step* step, size_t index, const int64_t* dims, size_t rank,
                              const OrtValue* found, const char* what) {
  char asked[DIMS_TEXT], has[DIMS_TEXT];
  return status_new(ORT_INVALID_ARGUMENT, "output %zu of %s '%s' was asked for with the shape %s, but %s %s",
                    index, NODES_OF(step), dims_text(dims, rank, asked), what,
                    dims_text(found->dims, found->rank, has));
}

/* The memory of an input that the kernel may write the output to, with a reference of its own; NULL for none.
 * It has to be the run's alone, of the output's size, and where the output belongs. Strings are no plain
 * bytes: their memory stays theirs. */
static Buffer* reusable(Frame* frame, const Step* step, size_t index, size_t nbytes,
                        const OrtMemoryInfo* memory) {
  int32_t slot = step->reuses[index];
  if (slot < 0 || (frame->needed != NULL && frame->needed[slot] == NEED_KEPT)) return NULL;
  const OrtValue* value = &frame->storage[slot];
  if (frame->values[slot] != value || value->type != ONNX_TYPE_TENSOR || value->nbytes != nbytes ||
      value->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    return NULL;
  }
  Buffer* buffer = value->buffer;
  if (buffer == NULL || buffer->data != value->data || buffer->is_misaligned || buffer->is_foreign ||
      value->memory_info != memory || atomic_load(&buffer->references) != 1) {
    return NULL;
  }
  buffer_retain(buffer);
  return buffer;
}

/* Says once that an output has another shape than the model, or what was inferred of it, says. It may go on:
 * what reads the value sees the shape that it has. */
static void check_shape(Slot* slot, const Step* step, size_t index, const int64_t* dims, size_t rank) {
  char found[DIMS_TEXT], said[DIMS_TEXT];
  if (dims_equal(slot->dims, slot->rank, dims, rank)) return;
  if (atomic_exchange(&slot->was_of_other_shape, true)) return;
  host_log(ORT_LOGGING_LEVEL_WARNING, "output %zu of %s '%s' (%s) has the shape %s where the model says %s",
           index, NODES_OF(step), step->op_type, dims_text(dims, rank, found),
           dims_text(slot->dims, slot->rank, said));
}

OrtStatus* frame_output(Frame* frame, const Step* step, size_t index, ONNXTensorElementDataType element_type,
                        const int64_t* dims, size_t rank, OrtValue** out) {
  int32_t slot = step->outputs[index];
  OrtValue* value = &frame->storage[slot];
  if (value->type != ONNX_TYPE_UNKNOWN) {
    if (dims_equal(value->dims, value->rank, dims, rank)) {
      frame->preallocated[slot] |= frame->preallocated[slot] ? PREALLOCATED_GIVEN : 0;
      *out = value;
      return NULL;
    }
    if (frame->preallocated[slot] & PREALLOCATED_BOUND) {
      return wrong_shape(step, index, dims, rank, value, "the value that is bound to it has the shape");
    }
    if (frame->preallocated[slot] != PREALLOCATED_GUESS)
      return wrong_shape(step, index, dims, rank, value, "before with");
    frame->preallocated[slot] = 0;
    value_clear(value);
  }
  Slot* plan = &frame->plan->slots[slot];
  if (plan->dims != NULL) check_shape(plan, step, index, dims, rank);
  size_t count, nbytes;
  if (!tensor_nbytes(element_type, dims, rank, &count, &nbytes)) {
    return status_new(ORT_INVALID_ARGUMENT, "output %zu of %s '%s' was asked for with an impossible shape",
                      index, NODES_OF(step));
  }
  const OrtMemoryInfo* memory = plan->memory != NULL ? plan->memory : &ephost_cpu_memory_info;
  void* provided = NULL;
  if (frame->provide != NULL && memory_info_is_cpu(memory)) {
    OrtStatus* status = frame->provide(frame, slot, element_type, dims, rank, &provided);
    if (status != NULL) return status;
  }
  if (provided != NULL) {
    if (!value_init_tensor(value, element_type, dims, rank, NULL, provided, memory))
      return status_no_memory();
  } else if (element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    /* Elements own their texts: neither the arena nor another value's memory will do. Always the CPU's. */
    if (!value_alloc_tensor(value, element_type, dims, rank, NULL)) return status_no_memory();
  } else if (plan->planned && nbytes <= plan->arena_bytes) {
    if (!value_init_counted(value, element_type, dims, rank, count, nbytes, NULL,
                            frame->arena + plan->arena_offset, memory)) {
      return status_no_memory();
    }
  } else {
    Buffer* buffer = reusable(frame, step, index, nbytes, memory);
    if (buffer == NULL) {
      OrtSyncStream* stream = plan->allocator != NULL && step->ep >= 0 ? frame_stream(frame, step->ep) : NULL;
      buffer = plan->allocator != NULL ? buffer_from_allocator(plan->allocator, nbytes, stream)
                                       : buffer_from_cpu(nbytes);
    }
    if (buffer == NULL) {
      char state[ALLOCATOR_STATE];
      return status_new(ORT_FAIL, "no memory for the %zu bytes of output %zu of %s '%s' on %s%s", nbytes,
                        index, NODES_OF(step), memory->name, allocator_state(plan->allocator, state));
    }
    if (!value_init_counted(value, element_type, dims, rank, count, nbytes, buffer, NULL, memory)) {
      buffer_release(buffer);
      return status_no_memory();
    }
  }
  *out = value;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetOutput)(OrtKernelContext* context, size_t index,
                                                              const int64_t* dim_values, size_t dim_count,
                                                              OrtValue** out) {
  REQUIRE_ARG(context && out && (dim_values || dim_count == 0));
  const Step* step = context->step;
  *out = NULL;
  if (index >= step->output_count) {
    return status_new(ORT_INVALID_ARGUMENT, "output %zu was asked for of %s '%s', of %zu outputs", index,
                      NODES_OF(step), step->output_count);
  }
  int32_t slot = step->outputs[index];
  if (slot < 0) return NULL; /* an optional output that the model does not use */
  Frame* frame = context->frame;
  ONNXTensorElementDataType element_type = frame->plan->slots[slot].element_type;
  if (element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) {
    return status_new(ORT_FAIL, "the type of output %zu of %s '%s' is not known", index, NODES_OF(step));
  }
  return frame_output(frame, step, index, element_type, dim_values, dim_count, out);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetPreallocatedOutput)(const OrtKernelContext* context,
                                                                          size_t output_index,
                                                                          OrtValue** output) {
  REQUIRE_ARG(context != NULL && output != NULL);
  const Step* step = context->step;
  *output = NULL;
  if (output_index >= step->output_count) {
    return status_new(ORT_INVALID_ARGUMENT, "output %zu was asked for of %s '%s', of %zu outputs",
                      output_index, NODES_OF(step), step->output_count);
  }
  int32_t slot = step->outputs[output_index];
  if (slot >= 0 && context->frame->preallocated[slot] & PREALLOCATED_BOUND) {
    context->frame->preallocated[slot] |= PREALLOCATED_GIVEN;
    *output = &context->frame->storage[slot];
  }
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetLogger)(const OrtKernelContext* context,
                                                              const OrtLogger** logger) {
  REQUIRE_ARG(context != NULL && logger != NULL);
  *logger = context->frame->plan->logger;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_ParallelFor)(const OrtKernelContext* context,
                                                                void (*fn)(void*, size_t), size_t total,
                                                                size_t num_batch, void* usr_data) {
  REQUIRE_ARG(context != NULL && fn != NULL);
  return thread_pool_parallel_for(context->frame->plan->threads, fn, total, num_batch, usr_data);
}

/* The allocator for a memory: the CPU's, or that of the plan's EP whose memory it is. Borrowed. */
static OrtAllocator* find_allocator(const OrtKernelContext* context, const OrtMemoryInfo* info) {
  const Plan* plan = context->frame->plan;
  for (size_t i = 0; i < plan->ep_count; ++i) {
    const OrtMemoryInfo* memory = plan->eps[i].memory;
    int different = 1;
    if (memory == NULL || plan->eps[i].allocator == NULL) continue;
    OrtStatus* status = ephost_api.CompareMemoryInfo(memory, info, &different);
    if (status != NULL) {
      ephost_api.ReleaseStatus(status);
    } else if (different == 0) {
      return plan->eps[i].allocator;
    }
  }
  return memory_info_is_cpu(info) ? ephost_cpu_allocator() : NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetAllocator)(const OrtKernelContext* context,
                                                                 const OrtMemoryInfo* mem_info,
                                                                 OrtAllocator** out) {
  REQUIRE_ARG(context != NULL && mem_info != NULL && out != NULL);
  *out = find_allocator(context, mem_info);
  if (*out == NULL)
    return status_new(ORT_INVALID_ARGUMENT, "no EP of this session has an allocator for '%s'",
                      mem_info->name);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetScratchBuffer)(const OrtKernelContext* context,
                                                                     const OrtMemoryInfo* mem_info,
                                                                     size_t count_or_bytes, void** out) {
  REQUIRE_ARG(context != NULL && mem_info != NULL && out != NULL);
  *out = NULL;
  if (count_or_bytes == 0) return NULL;
  OrtAllocator* allocator = find_allocator(context, mem_info);
  if (allocator == NULL) {
    return status_new(ORT_INVALID_ARGUMENT, "no EP of this session has an allocator for '%s'",
                      mem_info->name);
  }
  Scratch* scratch = host_malloc(sizeof *scratch);
  if (scratch == NULL) return status_no_memory();
  scratch->allocator = allocator;
  scratch->block = GUARDED(OrtAllocator, Alloc)(allocator, count_or_bytes);
  if (scratch->block == NULL) {
    host_free(scratch);
    return outcome(
        status_new(ORT_FAIL, "no memory for %zu bytes of scratch on '%s'", count_or_bytes, mem_info->name));
  }
  OrtKernelContext* mutable_context = &context->frame->context;
  scratch->link = mutable_context->scratch;
  mutable_context->scratch = scratch;
  *out = scratch->block;
  return NULL;
}

static OrtSyncStream* context_stream(const OrtKernelContext* context) {
  return frame_stream(context->frame, context->step->ep);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetGPUComputeStream)(const OrtKernelContext* context,
                                                                        void** out) {
  REQUIRE_ARG(context != NULL && out != NULL);
  *out = ephost_api.SyncStream_GetHandle(context_stream(context));
  return outcome(NULL);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, KernelContext_GetSyncStream)(const OrtKernelContext* context,
                                                                  OrtSyncStream** out) {
  REQUIRE_ARG(context != NULL && out != NULL);
  *out = context_stream(context);
  return NULL;
}
