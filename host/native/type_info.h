/* Types and shapes. */
#ifndef EPHOST_NATIVE_TYPE_INFO_H_
#define EPHOST_NATIVE_TYPE_INFO_H_

#include "value.h"

struct OrtTensorTypeAndShapeInfo {
  ONNXTensorElementDataType element_type;
  bool has_shape;
  size_t rank;
  int64_t* dims; /* -1 where unknown; inline_dims, or heap memory when rank > VALUE_INLINE_RANK */
  int64_t inline_dims[VALUE_INLINE_RANK];
  const char** symbols; /* "" where there is none; owned strings; NULL when no dimension has one */
};
struct OrtMapTypeInfo {
  ONNXTensorElementDataType key_type;
  OrtTypeInfo* value_type;
};
struct OrtSequenceTypeInfo {
  OrtTypeInfo* element_type;
};
struct OrtOptionalTypeInfo {
  OrtTypeInfo* contained_type;
};
struct OrtTypeInfo {
  ONNXType type;
  char* denotation; /* NULL for none */
  OrtTensorTypeAndShapeInfo* tensor;
  OrtMapTypeInfo* map;
  OrtSequenceTypeInfo* sequence;
  OrtOptionalTypeInfo* optional;
};
OrtTensorTypeAndShapeInfo* tensor_info_new(ONNXTensorElementDataType type, bool has_shape,
                                           const int64_t* dims, const char* const* symbols, size_t rank);
OrtTensorTypeAndShapeInfo* tensor_info_copy(const OrtTensorTypeAndShapeInfo* source);
void tensor_info_free(OrtTensorTypeAndShapeInfo* info);
/* the part that belongs to `type` is for the caller to set */
OrtTypeInfo* type_info_new(ONNXType type);
OrtTypeInfo* type_info_copy(const OrtTypeInfo* source); /* deep */
void type_info_free(OrtTypeInfo* info);                 /* deep; NULL is fine */
OrtTypeInfo* type_info_of_value(const OrtValue* value);

#endif
