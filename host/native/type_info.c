/* OrtTypeInfo and the infos inside it. */
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "python.h"
#include "status.h"
#include "type_info.h"
#include "value.h"

/* ---- tensors ------------------------------------------------------------------------------------------- */

static void free_symbols(const char** symbols, size_t rank) {
  if (symbols == NULL) return;
  for (size_t i = 0; i < rank; i++) host_free((char*)symbols[i]);
  host_free(symbols);
}

/* Owned copies of `rank` symbols ("" for a NULL one), in *out; NULL when none says anything. False without
 * memory. */
static bool copy_symbols(const char* const* symbols, size_t rank, const char*** out) {
  *out = NULL;
  bool any = false;
  for (size_t i = 0; symbols != NULL && i < rank; i++)
    any = any || (symbols[i] != NULL && symbols[i][0] != '\0');
  if (!any) return true;
  const char** copies = host_calloc(rank, sizeof(*copies));
  if (copies == NULL) return false;
  for (size_t i = 0; i < rank; i++) {
    copies[i] = host_strdup(symbols[i] != NULL ? symbols[i] : "");
    if (copies[i] == NULL) {
      free_symbols(copies, rank);
      return false;
    }
  }
  *out = copies;
  return true;
}

/* Gives the info room for `rank` dimensions and copies them; the symbols are gone. False without memory. */
static bool set_dims(OrtTensorTypeAndShapeInfo* info, const int64_t* dims, size_t rank) {
  int64_t* room = info->inline_dims;
  if (rank > VALUE_INLINE_RANK) {
    room = rank <= SIZE_MAX / sizeof(*room) ? host_malloc(rank * sizeof(*room)) : NULL;
    if (room == NULL) return false;
  }
  if (rank > 0) memmove(room, dims, rank * sizeof(*room)); /* dims may be the info's own */
  free_symbols(info->symbols, info->rank);
  info->symbols = NULL;
  if (info->dims != info->inline_dims) host_free(info->dims);
  info->dims = room;
  info->rank = rank;
  info->has_shape = true;
  return true;
}

OrtTensorTypeAndShapeInfo* tensor_info_new(ONNXTensorElementDataType type, bool has_shape,
                                           const int64_t* dims, const char* const* symbols, size_t rank) {
  OrtTensorTypeAndShapeInfo* info = host_malloc(sizeof(*info));
  if (info == NULL) return NULL;
  handle_count(HANDLE_TENSOR_INFO, +1);
  info->element_type = type;
  info->has_shape = false;
  info->rank = 0;
  info->dims = info->inline_dims;
  info->symbols = NULL;
  if (has_shape && (!set_dims(info, dims, rank) || !copy_symbols(symbols, rank, &info->symbols))) {
    tensor_info_free(info);
    return NULL;
  }
  return info;
}

OrtTensorTypeAndShapeInfo* tensor_info_copy(const OrtTensorTypeAndShapeInfo* source) {
  return tensor_info_new(source->element_type, source->has_shape, source->dims, source->symbols,
                         source->rank);
}

void tensor_info_free(OrtTensorTypeAndShapeInfo* info) {
  if (info == NULL) return;
  if (info->symbols != NULL) free_symbols(info->symbols, info->rank);
  if (info->dims != info->inline_dims) host_free(info->dims);
  handle_count(HANDLE_TENSOR_INFO, -1);
  host_free(info);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = tensor_info_new(ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, false, NULL, NULL, 0);
  return *out != NULL ? NULL : status_no_memory();
}

void ORT_API_CALL SLOT(OrtApi, ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo* input) {
  tensor_info_free(input);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, SetTensorElementType)(OrtTensorTypeAndShapeInfo* info,
                                                           enum ONNXTensorElementDataType type) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG((int)type >= 0 && type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0);
  info->element_type = type;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, SetDimensions)(OrtTensorTypeAndShapeInfo* info,
                                                    const int64_t* dim_values, size_t dim_count) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(dim_values != NULL || dim_count == 0);
  for (size_t i = 0; i < dim_count; i++) {
    if (dim_values[i] < -1) {
      return status_new(ORT_INVALID_ARGUMENT, "SetDimensions: dimension %zu is %lld; -1 says unknown", i,
                        (long long)dim_values[i]);
    }
  }
  return set_dims(info, dim_values, dim_count) ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, SetSymbolicDimensions)(OrtTensorTypeAndShapeInfo* info,
                                                            const char* dim_params[],
                                                            size_t dim_params_length) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(dim_params != NULL || dim_params_length == 0);
  if (!info->has_shape || dim_params_length != info->rank) {
    return status_new(ORT_INVALID_ARGUMENT, "SetSymbolicDimensions: %zu names for a shape of %zu dimensions",
                      dim_params_length, info->rank);
  }
  const char** symbols = NULL;
  if (!copy_symbols(dim_params, dim_params_length, &symbols)) return status_no_memory();
  free_symbols(info->symbols, info->rank);
  info->symbols = symbols;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetTensorElementType)(const OrtTensorTypeAndShapeInfo* info,
                                                           enum ONNXTensorElementDataType* out) {
  REQUIRE_ARG(out != NULL);
  *out = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  REQUIRE_ARG(info != NULL);
  *out = info->element_type;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetDimensionsCount)(const OrtTensorTypeAndShapeInfo* info, size_t* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(info != NULL);
  *out = info->rank;
  return NULL;
}

/* Fills as many entries as there are dimensions and room. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetDimensions)(const OrtTensorTypeAndShapeInfo* info,
                                                    int64_t* dim_values, size_t dim_values_length) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(dim_values != NULL || dim_values_length == 0);
  for (size_t i = 0; i < info->rank && i < dim_values_length; i++) dim_values[i] = info->dims[i];
  return NULL;
}

/* As GetDimensions; "" for a dimension without a name. The names live as long as the info keeps its shape. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo* info,
                                                            const char* dim_params[],
                                                            size_t dim_params_length) {
  REQUIRE_ARG(info != NULL);
  REQUIRE_ARG(dim_params != NULL || dim_params_length == 0);
  for (size_t i = 0; i < info->rank && i < dim_params_length; i++) {
    dim_params[i] = info->symbols != NULL ? info->symbols[i] : "";
  }
  return NULL;
}

/* 0 without a shape, as in onnxruntime; an error when a dimension is not known. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetTensorShapeElementCount)(const OrtTensorTypeAndShapeInfo* info,
                                                                 size_t* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(info != NULL);
  if (!info->has_shape) return NULL;
  /* counted in single bytes, so that the element type has no say */
  if (!tensor_nbytes(ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, info->dims, info->rank, out, NULL)) {
    return status_new(ORT_INVALID_ARGUMENT,
                      "GetTensorShapeElementCount: a dimension is unknown, or the product overflows");
  }
  return NULL;
}

bool ORT_API_CALL SLOT(OrtApi, TensorTypeAndShape_HasShape)(const OrtTensorTypeAndShapeInfo* info) {
  return info != NULL && info->has_shape;
}

/* ---- types of every kind ------------------------------------------------------------------------------- */

OrtTypeInfo* type_info_new(ONNXType type) {
  OrtTypeInfo* info = host_calloc(1, sizeof(*info));
  if (info == NULL) return NULL;
  handle_count(HANDLE_TYPE_INFO, +1);
  info->type = type;
  return info;
}

void type_info_free(OrtTypeInfo* info) {
  if (info == NULL) return;
  host_free(info->denotation);
  tensor_info_free(info->tensor);
  if (info->map != NULL) type_info_free(info->map->value_type);
  host_free(info->map);
  if (info->sequence != NULL) type_info_free(info->sequence->element_type);
  host_free(info->sequence);
  if (info->optional != NULL) type_info_free(info->optional->contained_type);
  host_free(info->optional);
  handle_count(HANDLE_TYPE_INFO, -1);
  host_free(info);
}

/* A type of the given kind around `inner`, which becomes its own, even on failure. key_type is for maps. */
static OrtTypeInfo* wrap_type(ONNXType type, ONNXTensorElementDataType key_type, OrtTypeInfo* inner) {
  OrtTypeInfo* info = inner != NULL ? type_info_new(type) : NULL;
  if (info == NULL) goto failed;
  if (type == ONNX_TYPE_MAP) {
    if ((info->map = host_malloc(sizeof(*info->map))) == NULL) goto failed;
    *info->map = (OrtMapTypeInfo){key_type, inner};
  } else if (type == ONNX_TYPE_SEQUENCE) {
    if ((info->sequence = host_malloc(sizeof(*info->sequence))) == NULL) goto failed;
    info->sequence->element_type = inner;
  } else {
    if ((info->optional = host_malloc(sizeof(*info->optional))) == NULL) goto failed;
    info->optional->contained_type = inner;
  }
  return info;
failed:
  type_info_free(info);
  type_info_free(inner);
  return NULL;
}

static OrtTypeInfo* tensor_type(ONNXType type, OrtTensorTypeAndShapeInfo* tensor) {
  OrtTypeInfo* info = tensor != NULL ? type_info_new(type) : NULL;
  if (info == NULL) {
    tensor_info_free(tensor);
    return NULL;
  }
  info->tensor = tensor;
  return info;
}

OrtTypeInfo* type_info_copy(const OrtTypeInfo* source) {
  OrtTypeInfo* copy = NULL;
  if (source->tensor != NULL) {
    copy = tensor_type(source->type, tensor_info_copy(source->tensor));
  } else if (source->map != NULL) {
    copy = wrap_type(source->type, source->map->key_type, type_info_copy(source->map->value_type));
  } else if (source->sequence != NULL) {
    copy = wrap_type(source->type, 0, type_info_copy(source->sequence->element_type));
  } else if (source->optional != NULL) {
    copy = wrap_type(source->type, 0, type_info_copy(source->optional->contained_type));
  } else {
    copy = type_info_new(source->type);
  }
  if (copy != NULL && source->denotation != NULL) {
    copy->denotation = host_strdup(source->denotation);
    if (copy->denotation == NULL) {
      type_info_free(copy);
      return NULL;
    }
  }
  return copy;
}

static OrtTypeInfo* shapeless_tensor(ONNXTensorElementDataType element_type) {
  return tensor_type(ONNX_TYPE_TENSOR, tensor_info_new(element_type, false, NULL, NULL, 0));
}

OrtTypeInfo* type_info_of_value(const OrtValue* value) {
  switch (value->type) {
    case ONNX_TYPE_TENSOR:
      return tensor_type(ONNX_TYPE_TENSOR,
                         tensor_info_new(value->element_type, true, value->dims, NULL, value->rank));
    case ONNX_TYPE_SEQUENCE:
      if (value->is_zipped) {
        return wrap_type(ONNX_TYPE_SEQUENCE, 0,
                         wrap_type(ONNX_TYPE_MAP, value->items[0]->element_type,
                                   shapeless_tensor(value->items[1]->element_type)));
      }
      /* an element's type says nothing about the shapes of the others */
      return wrap_type(ONNX_TYPE_SEQUENCE, 0,
                       value->item_count == 0 || value->items[0]->type == ONNX_TYPE_TENSOR
                           ? shapeless_tensor(value->element_type)
                           : type_info_of_value(value->items[0]));
    case ONNX_TYPE_MAP:
      return wrap_type(ONNX_TYPE_MAP, value->items[0]->element_type,
                       shapeless_tensor(value->items[1]->element_type));
    case ONNX_TYPE_OPTIONAL:
      return wrap_type(ONNX_TYPE_OPTIONAL, 0, shapeless_tensor(value->element_type));
    default:
      return type_info_new(value->type);
  }
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetOnnxTypeFromTypeInfo)(const OrtTypeInfo* type_info,
                                                              enum ONNXType* out) {
  REQUIRE_ARG(out != NULL);
  *out = ONNX_TYPE_UNKNOWN;
  REQUIRE_ARG(type_info != NULL);
  *out = type_info->type;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetDenotationFromTypeInfo)(const OrtTypeInfo* type_info,
                                                                const char** const denotation, size_t* len) {
  REQUIRE_ARG(denotation != NULL && len != NULL);
  *denotation = "";
  *len = 0;
  REQUIRE_ARG(type_info != NULL);
  if (type_info->denotation != NULL) {
    *denotation = type_info->denotation;
    *len = strlen(type_info->denotation);
  }
  return NULL;
}

OrtStatus* ephost_type_set_denotation(OrtTypeInfo* type_info, const char* denotation) {
  REQUIRE_ARG(type_info != NULL && denotation != NULL);
  char* copy = host_strdup(denotation);
  if (copy == NULL) return status_no_memory();
  host_free(type_info->denotation);
  type_info->denotation = copy;
  return NULL;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseTypeInfo)(OrtTypeInfo* input) { type_info_free(input); }

/* The four casts lend a part of the type info, or NULL when it is of another kind, which is no error. */

OrtStatus* ORT_API_CALL SLOT(OrtApi, CastTypeInfoToTensorInfo)(const OrtTypeInfo* type_info,
                                                               const OrtTensorTypeAndShapeInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(type_info != NULL);
  *out = type_info->tensor;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CastTypeInfoToMapTypeInfo)(const OrtTypeInfo* type_info,
                                                                const OrtMapTypeInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(type_info != NULL);
  *out = type_info->map;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CastTypeInfoToSequenceTypeInfo)(const OrtTypeInfo* type_info,
                                                                     const OrtSequenceTypeInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(type_info != NULL);
  *out = type_info->sequence;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CastTypeInfoToOptionalTypeInfo)(const OrtTypeInfo* type_info,
                                                                     const OrtOptionalTypeInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(type_info != NULL);
  *out = type_info->optional;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetMapKeyType)(const OrtMapTypeInfo* map_type_info,
                                                    enum ONNXTensorElementDataType* out) {
  REQUIRE_ARG(out != NULL);
  *out = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  REQUIRE_ARG(map_type_info != NULL);
  *out = map_type_info->key_type;
  return NULL;
}

/* The inner types are copies, the caller's to release with ReleaseTypeInfo. */

static OrtStatus* copy_out(const OrtTypeInfo* inner, OrtTypeInfo** out) {
  *out = type_info_copy(inner);
  return *out != NULL ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetMapValueType)(const OrtMapTypeInfo* map_type_info,
                                                      OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(map_type_info != NULL);
  return copy_out(map_type_info->value_type, type_info);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetSequenceElementType)(const OrtSequenceTypeInfo* sequence_type_info,
                                                             OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(sequence_type_info != NULL);
  return copy_out(sequence_type_info->element_type, type_info);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             GetOptionalContainedTypeInfo)(const OrtOptionalTypeInfo* optional_type_info,
                                                           OrtTypeInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(optional_type_info != NULL);
  return copy_out(optional_type_info->contained_type, out);
}

/* The ABI gives nobody a map or sequence info of their own: what the casts give belongs to its type info. */

void ORT_API_CALL SLOT(OrtApi, ReleaseMapTypeInfo)(OrtMapTypeInfo* input) { (void)input; }

void ORT_API_CALL SLOT(OrtApi, ReleaseSequenceTypeInfo)(OrtSequenceTypeInfo* input) { (void)input; }

/* ---- the model editor's constructors: all copy what they are given ------------------------------------- */

static OrtStatus* create_tensor_type(ONNXType type, const OrtTensorTypeAndShapeInfo* tensor_info,
                                     OrtTypeInfo** out) {
  *out = tensor_type(type, tensor_info_copy(tensor_info));
  return *out != NULL ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi,
                             CreateTensorTypeInfo)(const OrtTensorTypeAndShapeInfo* tensor_info,
                                                   OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(tensor_info != NULL);
  return create_tensor_type(ONNX_TYPE_TENSOR, tensor_info, type_info);
}

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi,
                             CreateSparseTensorTypeInfo)(const OrtTensorTypeAndShapeInfo* tensor_info,
                                                         OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(tensor_info != NULL);
  return create_tensor_type(ONNX_TYPE_SPARSETENSOR, tensor_info, type_info);
}

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, CreateMapTypeInfo)(ONNXTensorElementDataType map_key_type,
                                                                   const OrtTypeInfo* map_value_type,
                                                                   OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(map_value_type != NULL);
  *type_info = wrap_type(ONNX_TYPE_MAP, map_key_type, type_info_copy(map_value_type));
  return *type_info != NULL ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, CreateSequenceTypeInfo)(const OrtTypeInfo* sequence_type,
                                                                        OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(sequence_type != NULL);
  *type_info = wrap_type(ONNX_TYPE_SEQUENCE, 0, type_info_copy(sequence_type));
  return *type_info != NULL ? NULL : status_no_memory();
}

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, CreateOptionalTypeInfo)(const OrtTypeInfo* contained_type,
                                                                        OrtTypeInfo** type_info) {
  REQUIRE_ARG(type_info != NULL);
  *type_info = NULL;
  REQUIRE_ARG(contained_type != NULL);
  *type_info = wrap_type(ONNX_TYPE_OPTIONAL, 0, type_info_copy(contained_type));
  return *type_info != NULL ? NULL : status_no_memory();
}

/* ---- for Python ---------------------------------------------------------------------------------------- */

OrtStatus* ephost_type_tensor(int element_type, bool has_shape, const int64_t* dims,
                              const char* const* symbols, size_t rank, OrtTypeInfo** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(element_type >= 0 && element_type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0);
  REQUIRE_ARG(dims != NULL || rank == 0);
  *out = tensor_type(ONNX_TYPE_TENSOR, tensor_info_new((ONNXTensorElementDataType)element_type, has_shape,
                                                       dims, symbols, rank));
  return *out != NULL ? NULL : status_no_memory();
}
