/* OrtValue and the memory under it: tensors, and what all kinds of values have. Tensors of strings are in
 * value_strings.c, sequences and maps in value_containers.c. */
#include <stdatomic.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "abi.h"
#include "exceptions.h"
#include "heap.h"
#include "memory.h"
#include "python.h"
#include "status.h"
#include "type_info.h"
#include "value.h"

/* ---- buffers ------------------------------------------------------------------------------------------- */

/* Without memory it gives NULL, and the data is still the caller's. */
Buffer* buffer_adopt(void* data, size_t nbytes, void (*free_data)(Buffer*), void* context) {
  Buffer* buffer = host_malloc(sizeof(*buffer));
  if (buffer == NULL) return NULL;
  atomic_init(&buffer->references, 1);
  buffer->data = data;
  buffer->nbytes = nbytes;
  buffer->free_data = free_data;
  buffer->context = context;
  buffer->is_misaligned = buffer->is_mapped = buffer->is_foreign = false;
  atomic_init(&buffer->aligned, NULL);
  handle_count(HANDLE_BUFFER, +1);
  return buffer;
}

static void free_to_cpu(Buffer* buffer) { cpu_free(buffer->data); }

Buffer* buffer_from_cpu(size_t nbytes) {
  void* data = cpu_alloc(nbytes);
  if (data == NULL) return NULL;
  Buffer* buffer = buffer_adopt(data, nbytes, free_to_cpu, NULL);
  if (buffer == NULL) cpu_free(data);
  return buffer;
}

static void free_to_allocator(Buffer* buffer) {
  OrtAllocator* allocator = buffer->context;
  GUARDED(OrtAllocator, Free)(allocator, buffer->data);
}

Buffer* buffer_from_allocator(OrtAllocator* allocator, size_t nbytes, OrtSyncStream* stream) {
  if (allocator == ephost_cpu_allocator()) return buffer_from_cpu(nbytes);
  size_t room = nbytes > 0 ? nbytes : 1;
  bool on_stream = stream != NULL && VERSIONED_MEMBER(OrtAllocator, allocator, AllocOnStream) != NULL;
  void* data = on_stream ? GUARDED(OrtAllocator, AllocOnStream)(allocator, room, stream)
                         : GUARDED(OrtAllocator, Alloc)(allocator, room);
  if (data == NULL) return NULL;
  Buffer* buffer = buffer_adopt(data, nbytes, free_to_allocator, allocator);
  if (buffer == NULL) GUARDED(OrtAllocator, Free)(allocator, data);
  return buffer;
}

void buffer_retain(Buffer* buffer) {
  atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
}

void buffer_release(Buffer* buffer) {
  if (buffer == NULL || atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel) != 1) return;
  if (buffer->free_data != NULL) buffer->free_data(buffer);
  void* aligned = atomic_load(&buffer->aligned);
  if (aligned != NULL) cpu_free(aligned);
  handle_count(HANDLE_BUFFER, -1);
  host_free(buffer);
}

/* ---- shapes and sizes ---------------------------------------------------------------------------------- */

size_t element_type_bits(ONNXTensorElementDataType type) {
  static const unsigned char bits[] = {
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT] = 32,         [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8] = 8,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8] = 8,           [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16] = 16,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16] = 16,         [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32] = 32,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64] = 64,         [ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL] = 8,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16] = 16,       [ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE] = 64,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32] = 32,        [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64] = 64,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64] = 64,     [ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128] = 128,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16] = 16,      [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN] = 8,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ] = 8, [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2] = 8,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ] = 8, [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4] = 4,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4] = 4,           [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1] = 4,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2] = 2,          [ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2] = 2,
      [ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0] = 8,
  };
  return (unsigned)type < sizeof(bits) ? bits[type] : 0;
}

bool tensor_nbytes(ONNXTensorElementDataType type, const int64_t* dims, size_t rank, size_t* count,
                   size_t* nbytes) {
  size_t bits =
      type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING ? 8 * sizeof(StringElement) : element_type_bits(type);
  if (bits == 0) return false;
  /* 128 bits is the widest element, so a count below this limit is one whose bits can be counted */
  const uint64_t limit = (uint64_t)PTRDIFF_MAX / 128;
  bool empty = false;
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    empty = empty || dims[i] == 0;
  }
  uint64_t elements = empty ? 0 : 1;
  for (size_t i = 0; !empty && i < rank; i++) {
    const uint64_t dim = (uint64_t)dims[i];
    if ((elements | dim) >> 28 != 0 && dim > limit / elements) return false; /* below, no need to divide */
    elements *= dim;
  }
  if (count != NULL) *count = (size_t)elements;
  if (nbytes != NULL) *nbytes = (size_t)((elements * bits + 7) / 8);
  return true;
}

/* ---- making and dropping ------------------------------------------------------------------------------- */

OrtValue* value_new(void) {
  OrtValue* value = host_calloc(1, sizeof(*value));
  if (value != NULL) handle_count(HANDLE_VALUE, +1);
  return value;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseValue)(OrtValue* input) {
  if (input == NULL) return;
  value_clear(input);
  handle_count(HANDLE_VALUE, -1);
  host_free(input);
}

bool value_init_tensor(OrtValue* value, ONNXTensorElementDataType type, const int64_t* dims, size_t rank,
                       Buffer* buffer, void* data, const OrtMemoryInfo* memory_info) {
  size_t count = 0;
  size_t nbytes = 0;
  return tensor_nbytes(type, dims, rank, &count, &nbytes) &&
         value_init_counted(value, type, dims, rank, count, nbytes, buffer, data, memory_info);
}

bool value_init_counted(OrtValue* value, ONNXTensorElementDataType type, const int64_t* dims, size_t rank,
                        size_t count, size_t nbytes, Buffer* buffer, void* data,
                        const OrtMemoryInfo* memory_info) {
  if (buffer != NULL && buffer->nbytes < nbytes) return false;
  int64_t* room = value->inline_dims;
  if (rank > VALUE_INLINE_RANK) {
    room = rank <= SIZE_MAX / sizeof(*room) ? host_malloc(rank * sizeof(*room)) : NULL;
    if (room == NULL) return false;
  }
  for (size_t i = 0; i < rank; i++) room[i] = dims[i];
  value->type = ONNX_TYPE_TENSOR;
  value->element_type = type;
  value->rank = rank;
  value->dims = room;
  value->element_count = count;
  value->data = buffer != NULL ? buffer->data : data;
  value->nbytes = nbytes;
  value->buffer = buffer;
  value->memory_info = memory_info;
  return true;
}

bool value_alloc_tensor(OrtValue* value, ONNXTensorElementDataType type, const int64_t* dims, size_t rank,
                        OrtAllocator* allocator) {
  size_t count = 0;
  size_t nbytes = 0;
  if (!tensor_nbytes(type, dims, rank, &count, &nbytes)) return false;
  const OrtMemoryInfo* info =
      allocator != NULL ? GUARDED(OrtAllocator, Info)(allocator) : &ephost_cpu_memory_info;
  if (info == NULL) return false;
  Buffer* buffer = NULL;
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    buffer = buffer_for_strings(count);
    info = &ephost_cpu_memory_info;
  } else if (allocator != NULL) {
    buffer = buffer_from_allocator(allocator, nbytes, NULL);
  } else {
    buffer = buffer_from_cpu(nbytes);
  }
  if (buffer == NULL) return false;
  if (!value_init_counted(value, type, dims, rank, count, nbytes, buffer, NULL, info)) {
    buffer_release(buffer);
    return false;
  }
  return true;
}

bool value_own_memory_info(OrtValue* value) {
  if (value->memory_info == &ephost_cpu_memory_info || value->owned_memory_info != NULL) return true;
  if (memory_info_equal(value->memory_info, &ephost_cpu_memory_info)) {
    value->memory_info = &ephost_cpu_memory_info;
    return true;
  }
  value->owned_memory_info = memory_info_copy(value->memory_info);
  if (value->owned_memory_info == NULL) return false;
  value->memory_info = value->owned_memory_info;
  return true;
}

void value_clear(OrtValue* value) {
  if (value->type == ONNX_TYPE_TENSOR) {
    buffer_release(value->buffer);
    if (value->dims != value->inline_dims) host_free(value->dims);
    memory_info_free(value->owned_memory_info);
  } else {
    items_release(value->items, value->item_count);
  }
  memset(value, 0, sizeof(*value));
}

void value_move(OrtValue* to, OrtValue* from) {
  *to = *from;
  if (from->dims == from->inline_dims) to->dims = to->inline_dims;
  memset(from, 0, sizeof(*from));
}

bool value_share(OrtValue* to, const OrtValue* from) {
  if (from->type == ONNX_TYPE_TENSOR) {
    if (from->buffer == NULL) return false;
    buffer_retain(from->buffer);
    if (!value_init_tensor(to, from->element_type, from->dims, from->rank, from->buffer, NULL,
                           from->memory_info)) {
      buffer_release(from->buffer);
      return false;
    }
    to->data = from->data; /* which may lie inside the buffer */
    if (from->owned_memory_info != NULL && !value_own_memory_info(to)) {
      value_clear(to);
      return false;
    }
    return true;
  }
  if (from->items != NULL) {
    items_retain(from->items);
    to->items = from->items;
    to->item_count = from->item_count;
    to->is_zipped = from->is_zipped;
  }
  to->type = from->type;
  to->element_type = from->element_type;
  return true;
}

bool value_copy(OrtValue* to, const OrtValue* from, OrtAllocator* allocator) {
  if (from->type != ONNX_TYPE_TENSOR) return value_share(to, from);
  if (!memory_info_is_cpu(from->memory_info)) return false;
  if (!value_alloc_tensor(to, from->element_type, from->dims, from->rank, allocator)) return false;
  if (has_strings(from)) {
    if (!copy_strings(to->data, from->data, from->element_count)) {
      value_clear(to);
      return false;
    }
  } else if (!memory_info_is_cpu(to->memory_info)) {
    value_clear(to);
    return false;
  } else if (from->nbytes > 0) {
    memcpy(to->data, from->data, from->nbytes);
  }
  return true;
}

bool value_keep(OrtValue* to, const OrtValue* from) {
  const bool borrows = from->type == ONNX_TYPE_TENSOR && from->buffer == NULL;
  return borrows ? value_copy(to, from, NULL) : value_share(to, from);
}

/* ---- making tensors: slots ----------------------------------------------------------------------------- */

OrtStatus* tensor_shape_check(const char* function, ONNXTensorElementDataType type, const int64_t* dims,
                              size_t rank, size_t* count, size_t* nbytes) {
  if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING && element_type_bits(type) == 0) {
    return status_new(ORT_INVALID_ARGUMENT, "%s: %d is no element type", function, (int)type);
  }
  if (dims == NULL && rank > 0) {
    return status_new(ORT_INVALID_ARGUMENT, "%s: no dimensions for rank %zu", function, rank);
  }
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0) {
      return status_new(ORT_INVALID_ARGUMENT, "%s: dimension %zu is %lld", function, i, (long long)dims[i]);
    }
  }
  if (!tensor_nbytes(type, dims, rank, count, nbytes)) {
    return status_new(ORT_INVALID_ARGUMENT, "%s: a tensor of this shape is larger than memory can be",
                      function);
  }
  return NULL;
}

static OrtStatus* no_info(const char* function) {
  return outcome(status_new(ORT_EP_FAIL, "%s: the allocator's Info gives NULL", function));
}

/* In the allocator's memory. Numbers are not initialised, strings are empty. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateTensorAsOrtValue)(OrtAllocator* allocator, const int64_t* shape,
                                                             size_t shape_len, ONNXTensorElementDataType type,
                                                             OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(allocator != NULL && allocator->Alloc != NULL && allocator->Free != NULL &&
              allocator->Info != NULL);
  size_t nbytes = 0;
  OrtStatus* status = tensor_shape_check("CreateTensorAsOrtValue", type, shape, shape_len, NULL, &nbytes);
  if (status != NULL) return status;
  const OrtMemoryInfo* info = GUARDED(OrtAllocator, Info)(allocator);
  if (info == NULL) return no_info(__func__);
  REQUIRE_ARG(type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING || memory_info_is_cpu(info));
  OrtValue* value = value_new();
  if (value == NULL) return status_no_memory();
  if (!value_alloc_tensor(value, type, shape, shape_len, allocator)) {
    SLOT(OrtApi, ReleaseValue)(value);
    char state[ALLOCATOR_STATE];
    return outcome(status_new(ORT_FAIL, "CreateTensorAsOrtValue: no %zu bytes of %s memory%s", nbytes,
                              info->name, allocator_state(allocator, state)));
  }
  *out = value;
  return NULL;
}

/* A tensor over memory that is somebody's: of `buffer`, whose reference is taken over on success only, or
 * borrowed. The memory info is copied. */
static OrtStatus* tensor_over(const char* function, ONNXTensorElementDataType type, const int64_t* dims,
                              size_t rank, void* data, size_t nbytes, const OrtMemoryInfo* info,
                              OrtValue** out) {
  size_t needed = 0;
  OrtStatus* status = tensor_shape_check(function, type, dims, rank, NULL, &needed);
  if (status != NULL) return status;
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    return status_new(ORT_INVALID_ARGUMENT, "%s: strings can't be taken from the caller's memory", function);
  }
  if (nbytes < needed) {
    return status_new(ORT_INVALID_ARGUMENT, "%s: the shape needs %zu bytes and the data has %zu", function,
                      needed, nbytes);
  }
  if (data == NULL && needed > 0) return status_new(ORT_INVALID_ARGUMENT, "%s: the data is NULL", function);
  OrtValue* value = value_new();
  if (value == NULL) return status_no_memory();
  if (!value_init_tensor(value, type, dims, rank, NULL, data, info) || !value_own_memory_info(value)) {
    SLOT(OrtApi, ReleaseValue)(value);
    return status_no_memory();
  }
  *out = value;
  return NULL;
}

/* The data stays the caller's and must outlive the value. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo* info, void* p_data,
                                                                     size_t p_data_len, const int64_t* shape,
                                                                     size_t shape_len,
                                                                     ONNXTensorElementDataType type,
                                                                     OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(info != NULL);
  return tensor_over("CreateTensorWithDataAsOrtValue", type, shape, shape_len, p_data, p_data_len, info, out);
}

/* Makes the borrowed data of a fresh value its own: free_data(context) runs when the last sharer is gone. On
 * failure the value is released and the data still the caller's. */
static OrtStatus* hand_over(OrtValue** value, void (*free_data)(Buffer*), void* context, size_t nbytes) {
  (*value)->buffer = buffer_adopt((*value)->data, nbytes, free_data, context);
  if ((*value)->buffer != NULL) return NULL;
  SLOT(OrtApi, ReleaseValue)(*value);
  *value = NULL;
  return status_no_memory();
}

static void free_to_deleter(Buffer* buffer) {
  if (buffer->data != NULL) free_to_allocator(buffer);
}

/* The deleter frees the data with the value; it must outlive it. On failure the data is still the caller's.
 */
OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateTensorWithDataAndDeleterAsOrtValue)(
    OrtAllocator* deleter, void* p_data, size_t p_data_len, const int64_t* shape, size_t shape_len,
    ONNXTensorElementDataType type, OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(deleter != NULL && deleter->Free != NULL && deleter->Info != NULL);
  const OrtMemoryInfo* info = GUARDED(OrtAllocator, Info)(deleter);
  if (info == NULL) return no_info(__func__);
  OrtStatus* status = tensor_over("CreateTensorWithDataAndDeleterAsOrtValue", type, shape, shape_len, p_data,
                                  p_data_len, info, out);
  return status != NULL ? status : hand_over(out, free_to_deleter, deleter, p_data_len);
}

/* ---- what every kernel asks: no more than a branch or two ---------------------------------------------- */

static OrtStatus* not_a_tensor(const char* function, const OrtValue* value, const void* out) {
  if (out == NULL)
    return status_new(ORT_INVALID_ARGUMENT, "%s: there is nowhere to put the answer", function);
  if (value == NULL) return status_new(ORT_INVALID_ARGUMENT, "%s: the value is NULL", function);
  return status_new(ORT_INVALID_ARGUMENT, "%s: the value is no tensor (its ONNXType is %d)", function,
                    (int)value->type);
}

static inline bool is_tensor(const OrtValue* value) {
  return value != NULL && value->type == ONNX_TYPE_TENSOR;
}

/* What lies in a tensor of strings is its host's own business. A plugin that takes it for C++ strings, or
 * copies it as bytes, ends the process a while later (OpenVINO's does, here as in onnxruntime). */
static OrtStatus* no_bytes(const char* function) {
  return status_new(ORT_INVALID_ARGUMENT,
                    "%s: a tensor of strings has no bytes that can be read or written directly "
                    "(GetStringTensorElement and FillStringTensorElement do it)",
                    function);
}

/* The pages of a mapped file that lie in a block of memory count as this process's until it lets go of them;
 * they are read again if somebody looks. */
static void let_go_of_pages(const void* data, size_t nbytes) {
#if defined(__unix__) || defined(__APPLE__)
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) / page * page,
                  end = ((uintptr_t)data + nbytes) / page * page;
  if (begin < end)
    (void)madvise((void*)begin, end - begin, MADV_DONTNEED); /* NOLINT(performance-no-int-to-ptr) */
#else
  (void)data, (void)nbytes;
#endif
}

/* Several threads may make the copy at once: one is kept. */
static OrtStatus* aligned_data(Buffer* buffer, void** out) {
  void* copy = atomic_load(&buffer->aligned);
  if (copy == NULL) {
    copy = cpu_alloc(buffer->nbytes);
    if (copy == NULL) return status_no_memory();
    memcpy(copy, buffer->data, buffer->nbytes);
    if (buffer->is_mapped) let_go_of_pages(buffer->data, buffer->nbytes);
    void* others = NULL;
    if (!atomic_compare_exchange_strong(&buffer->aligned, &others, copy)) {
      cpu_free(copy);
      copy = others;
    }
  }
  *out = copy;
  return NULL;
}

static inline bool is_misaligned(const OrtValue* value) {
  return value->buffer != NULL && value->buffer->is_misaligned && value->data == value->buffer->data;
}

enum { MALLOC_ALIGNMENT = 16 }; /* what plugins are used to */

void ephost_value_align_later(OrtValue* value, bool is_mapped) {
  if (value->type != ONNX_TYPE_TENSOR || value->buffer == NULL || value->data != value->buffer->data) return;
  if ((uintptr_t)value->data % MALLOC_ALIGNMENT == 0) return;
  value->buffer->is_misaligned = true;
  value->buffer->is_mapped = is_mapped;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetTensorMutableData)(OrtValue* value, void** out) {
  if (is_tensor(value) && out != NULL) {
    if (has_strings(value)) {
      *out = NULL;
      return no_bytes("GetTensorMutableData");
    }
    *out = value->data;
    return is_misaligned(value) ? aligned_data(value->buffer, out) : NULL;
  }
  if (out != NULL) *out = NULL;
  return not_a_tensor("GetTensorMutableData", value, out);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetTensorData)(const OrtValue* value, const void** out) {
  if (is_tensor(value) && out != NULL) {
    if (has_strings(value)) {
      *out = NULL;
      return no_bytes("GetTensorData");
    }
    void* data = value->data;
    OrtStatus* status = is_misaligned(value) ? aligned_data(value->buffer, &data) : NULL;
    *out = status == NULL ? data : NULL;
    return status;
  }
  if (out != NULL) *out = NULL;
  return not_a_tensor("GetTensorData", value, out);
}

/* The dimensions are lent, for as long as the value holds this tensor. */
OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             GetTensorElementTypeAndShapeDataReference)(const OrtValue* value,
                                                                        ONNXTensorElementDataType* elem_type,
                                                                        const int64_t** shape_data,
                                                                        size_t* shape_data_count) {
  REQUIRE_ARG(elem_type != NULL && shape_data != NULL && shape_data_count != NULL);
  if (is_tensor(value)) {
    *elem_type = value->element_type;
    *shape_data = value->dims;
    *shape_data_count = value->rank;
    return NULL;
  }
  *elem_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  *shape_data = NULL;
  *shape_data_count = 0;
  return not_a_tensor("GetTensorElementTypeAndShapeDataReference", value, shape_data);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetTensorTypeAndShape)(const OrtValue* value,
                                                            OrtTensorTypeAndShapeInfo** out) {
  if (is_tensor(value) && out != NULL) {
    *out = tensor_info_new(value->element_type, true, value->dims, NULL, value->rank);
    return *out != NULL ? NULL : status_no_memory();
  }
  if (out != NULL) *out = NULL;
  return not_a_tensor("GetTensorTypeAndShape", value, out);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetTensorMemoryInfo)(const OrtValue* value,
                                                          const OrtMemoryInfo** mem_info) {
  if (is_tensor(value) && mem_info != NULL) {
    *mem_info = value->memory_info;
    return NULL;
  }
  if (mem_info != NULL) *mem_info = NULL;
  return not_a_tensor("GetTensorMemoryInfo", value, mem_info);
}

/* NULL for what is no tensor. */
const OrtMemoryDevice* ORT_API_CALL SLOT(OrtEpApi, Value_GetMemoryDevice)(const OrtValue* value) {
  return is_tensor(value) ? &value->memory_info->device : NULL;
}

/* ---- asking for less usual things ---------------------------------------------------------------------- */

OrtStatus* ORT_API_CALL SLOT(OrtApi, IsTensor)(const OrtValue* value, int* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(value != NULL);
  *out = value->type == ONNX_TYPE_TENSOR;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, IsSparseTensor)(const OrtValue* value, int* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(value != NULL);
  *out = value->type == ONNX_TYPE_SPARSETENSOR;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, HasValue)(const OrtValue* value, int* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(value != NULL);
  *out = value->type != ONNX_TYPE_UNKNOWN && value->type != ONNX_TYPE_OPTIONAL;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetValueType)(const OrtValue* value, enum ONNXType* out) {
  REQUIRE_ARG(out != NULL);
  *out = ONNX_TYPE_UNKNOWN;
  REQUIRE_ARG(value != NULL);
  *out = value->type;
  return NULL;
}

/* NULL for a value that holds nothing. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetTypeInfo)(const OrtValue* value, OrtTypeInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(value != NULL);
  if (value->type == ONNX_TYPE_UNKNOWN) return NULL;
  *out = type_info_of_value(value);
  return *out != NULL ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetTensorSizeInBytes)(const OrtValue* ort_value, size_t* size) {
  REQUIRE_ARG(size != NULL);
  *size = 0;
  if (!is_tensor(ort_value)) return not_a_tensor("GetTensorSizeInBytes", ort_value, size);
  if (has_strings(ort_value)) return no_bytes("GetTensorSizeInBytes");
  *size = ort_value->nbytes;
  return NULL;
}

/* The address of one element, of a type that fills whole bytes. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, TensorAt)(OrtValue* value, const int64_t* location_values,
                                               size_t location_values_count, void** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  if (!is_tensor(value)) return not_a_tensor("TensorAt", value, out);
  size_t bits = element_type_bits(value->element_type);
  REQUIRE_ARG(bits >= 8); /* neither a string nor packed */
  REQUIRE_ARG(location_values != NULL || location_values_count == 0);
  REQUIRE_ARG(location_values_count == value->rank);
  size_t index = 0;
  for (size_t i = 0; i < value->rank; i++) {
    if (location_values[i] < 0 || location_values[i] >= value->dims[i]) {
      return status_new(ORT_INVALID_ARGUMENT, "TensorAt: %lld is outside dimension %zu, which is %lld",
                        (long long)location_values[i], i, (long long)value->dims[i]);
    }
    index = index * (size_t)value->dims[i] + (size_t)location_values[i];
  }
  *out = (char*)value->data + index * (bits / 8);
  return NULL;
}

/* ---- for Python ---------------------------------------------------------------------------------------- */

static _Atomic(ReleaseCallback) release_callback;

void ephost_set_release_callback(void (*callback)(void* owner)) { atomic_store(&release_callback, callback); }

/* Without a callback, which is after Python has taken it away at its exit, the owner is left alone. */
static void release_owner(Buffer* buffer) {
  ReleaseCallback callback = atomic_load(&release_callback);
  if (callback != NULL) callback(buffer->context);
}

OrtStatus* ephost_value_wrap(int element_type, const int64_t* dims, size_t rank, void* data, size_t nbytes,
                             const OrtMemoryInfo* memory_info, void* owner, OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  OrtStatus* status =
      tensor_over("ephost_value_wrap", (ONNXTensorElementDataType)element_type, dims, rank, data, nbytes,
                  memory_info != NULL ? memory_info : &ephost_cpu_memory_info, out);
  return status != NULL || owner == NULL ? status : hand_over(out, release_owner, owner, nbytes);
}

OrtStatus* ephost_value_empty_optional(int element_type, OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  OrtValue* value = *out = value_new();
  if (value == NULL) return status_no_memory();
  value->type = ONNX_TYPE_OPTIONAL;
  value->element_type = (ONNXTensorElementDataType)element_type;
  return NULL;
}

OrtStatus* ephost_value_share(const OrtValue* value, OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(value != NULL);
  OrtValue* shared = value_new();
  if (shared == NULL) return status_no_memory();
  if (!value_share(shared, value)) {
    SLOT(OrtApi, ReleaseValue)(shared);
    return status_new(ORT_FAIL,
                      "the value borrows its data, which nobody else can hold, or there is no memory");
  }
  *out = shared;
  return NULL;
}

/* A map with the keys and values of all that are in a value; NULL: it holds none. */
static const OrtValue* map_in(const OrtValue* value) {
  if (value->type == ONNX_TYPE_MAP || value->is_zipped) return value;
  const bool is_of_maps =
      value->type == ONNX_TYPE_SEQUENCE && value->item_count > 0 && value->items[0]->type == ONNX_TYPE_MAP;
  return is_of_maps ? value->items[0] : NULL;
}

void ephost_value_view(const OrtValue* value, EphostValueView* out) {
  const OrtValue* map = map_in(value);
  *out = (EphostValueView){
      .type = (int)value->type,
      .element_type = (int)value->element_type,
      .rank = value->rank,
      .dims = value->dims,
      .element_count = value->element_count,
      .data = value->data,
      .nbytes = value->nbytes,
      .item_count = value_item_count(value),
      .key_type = map == NULL ? 0 : (int)map->items[0]->element_type,
      .mapped_type = map == NULL ? 0 : (int)map->items[1]->element_type,
      .memory_info = value->memory_info,
  };
}
