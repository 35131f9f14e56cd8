#include "tensor_parts.h"

#include <string.h>

#include "heap.h"
#include "status.h"

size_t element_size(ONNXTensorElementDataType type) {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING ? sizeof(StringElement) : element_type_bits(type) / 8;
}

OrtStatus* check_element_size(ONNXTensorElementDataType type, const char* name) {
  if (element_size(type) > 0) return NULL;
  return status_new(ORT_NOT_IMPLEMENTED, "'%s': elements of less than a byte are not put together", name);
}

bool copy_elements(ONNXTensorElementDataType type, void* to, const void* from, size_t count) {
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return copy_strings(to, from, count);
  if (count) memcpy(to, from, count * element_size(type));
  return true;
}

bool find_axis(int64_t axis, size_t rank, size_t* out) {
  const int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
  *out = (size_t)at;
  return at >= 0 && at < (int64_t)rank;
}

size_t dims_product(const int64_t* dims, size_t count) {
  size_t result = 1;
  for (size_t i = 0; i < count; ++i) result *= (size_t)dims[i];
  return result;
}

bool tensor_part(OrtValue* to, const OrtValue* tensor, size_t axis, size_t begin, size_t length,
                 bool keeps_axis, bool lends) {
  int64_t few[VALUE_INLINE_RANK];
  int64_t* dims = tensor->rank <= VALUE_INLINE_RANK ? few : host_malloc(tensor->rank * sizeof *dims);
  if (dims == NULL) return false;
  const size_t behind = tensor->rank - axis - 1, rank = tensor->rank - !keeps_axis;
  memcpy(dims, tensor->dims, axis * sizeof *dims);
  if (keeps_axis) dims[axis] = (int64_t)length;
  memcpy(dims + axis + keeps_axis, tensor->dims + axis + 1, behind * sizeof *dims);
  const size_t rows = dims_product(tensor->dims, axis), all = (size_t)tensor->dims[axis];
  const size_t columns = dims_product(tensor->dims + axis + 1, behind);
  const size_t size = element_size(tensor->element_type);
  const char* data = (const char*)tensor->data + begin * columns * size;
  bool made;
  if (lends && rows == 1) {
    made = value_init_tensor(to, tensor->element_type, dims, rank, NULL, (void*)data, tensor->memory_info);
  } else {
    made = value_alloc_tensor(to, tensor->element_type, dims, rank, NULL);
    /* Of what has no elements there may be rows beyond counting. */
    for (size_t row = 0; made && to->element_count > 0 && row < rows; ++row) {
      made = copy_elements(tensor->element_type, (char*)to->data + row * length * columns * size,
                           data + row * all * columns * size, length * columns);
    }
    if (!made) value_clear(to);
  }
  if (dims != few) host_free(dims);
  return made;
}
