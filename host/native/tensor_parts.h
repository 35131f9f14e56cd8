/* Tensors that are cut into parts, and put together of them, along an axis. Elements of less than a byte are
 * not: they have no size here. */
#ifndef EPHOST_NATIVE_TENSOR_PARTS_H_
#define EPHOST_NATIVE_TENSOR_PARTS_H_

#include "value.h"

/* Of strings, that of a StringElement. */
size_t element_size(ONNXTensorElementDataType type);
/* An error that names what such elements are, where they have no size. */
OrtStatus* check_element_size(ONNXTensorElementDataType type, const char* name);
/* False without memory. */
bool copy_elements(ONNXTensorElementDataType type, void* to, const void* from, size_t count);
/* Where an axis is that may be counted from the end; false: nowhere. */
bool find_axis(int64_t axis, size_t rank, size_t* out);
size_t dims_product(const int64_t* dims, size_t count);
/* Makes a clear value the part of a tensor on the CPU that has these indices of the axis, or one of them
 * without the axis. Where it lies in one piece and `lends`, it is the tensor's memory. False without memory.
 */
bool tensor_part(OrtValue* to, const OrtValue* tensor, size_t axis, size_t begin, size_t length,
                 bool keeps_axis, bool lends);

#endif
