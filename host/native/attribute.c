/* OrtOpAttr: attributes of nodes, those of a model as well as those that a plugin makes. */
#include <string.h>

#include "abi.h"
#include "attribute.h"
#include "graph.h"
#include "heap.h"
#include "memory.h"
#include "status.h"
#include "value.h"

/* An attribute with `nbytes` of room behind it for its data, and with its name behind that. */
static OrtOpAttr* attribute_new(const char* name, OrtOpAttrType type, size_t count, size_t nbytes,
                                char** data) {
  size_t name_size = strlen(name) + 1;
  OrtOpAttr* attribute = host_malloc(sizeof(OrtOpAttr) + nbytes + name_size);
  if (attribute == NULL) return NULL;
  memset(attribute, 0, sizeof *attribute);
  attribute->type = type;
  attribute->count = count;
  *data = (char*)(attribute + 1);
  attribute->name = memcpy(*data + nbytes, name, name_size);
  handle_count(HANDLE_OTHER, 1);
  return attribute;
}

OrtOpAttr* attribute_of_ints(const char* name, OrtOpAttrType type, const int64_t* ints, size_t count) {
  char* data = NULL;
  OrtOpAttr* attribute = attribute_new(name, type, count, count * sizeof(int64_t), &data);
  if (attribute == NULL) return NULL;
  attribute->ints = (const int64_t*)(void*)data;
  if (count > 0) memcpy(data, ints, count * sizeof(int64_t));
  return attribute;
}

OrtOpAttr* attribute_of_floats(const char* name, OrtOpAttrType type, const float* floats, size_t count) {
  char* data = NULL;
  OrtOpAttr* attribute = attribute_new(name, type, count, count * sizeof(float), &data);
  if (attribute == NULL) return NULL;
  attribute->floats = (const float*)(void*)data;
  if (count > 0) memcpy(data, floats, count * sizeof(float));
  return attribute;
}

OrtOpAttr* attribute_of_strings(const char* name, OrtOpAttrType type, const char* const* strings,
                                const size_t* lengths, size_t count) {
  size_t table = count * (sizeof(char*) + sizeof(size_t)), text = 0;
  for (size_t i = 0; i < count; ++i) text += lengths[i] + 1;
  char* data = NULL;
  OrtOpAttr* attribute = attribute_new(name, type, count, table + text, &data);
  if (attribute == NULL) return NULL;
  const char** copies = (const char**)(void*)data;
  size_t* sizes = (size_t*)(void*)(copies + count);
  char* next = data + table;
  for (size_t i = 0; i < count; ++i) {
    copies[i] = next;
    sizes[i] = lengths[i];
    if (lengths[i] > 0) memcpy(next, strings[i], lengths[i]);
    next[lengths[i]] = '\0';
    next += lengths[i] + 1;
  }
  attribute->strings = copies;
  attribute->lengths = sizes;
  return attribute;
}

OrtOpAttr* attribute_of_tensor(const char* name, OrtValue* tensor) {
  char* data = NULL;
  OrtOpAttr* attribute = attribute_new(name, ORT_OP_ATTR_TENSOR, 1, 0, &data);
  if (attribute != NULL) attribute->tensor = tensor;
  return attribute;
}

OrtOpAttr* attribute_of_graph(const char* name, OrtGraph* graph) {
  char* data = NULL;
  OrtOpAttr* attribute = attribute_new(name, ORT_OP_ATTR_GRAPH, 1, 0, &data);
  if (attribute != NULL) attribute->graph = graph;
  return attribute;
}

void attribute_free(OrtOpAttr* attribute) {
  if (attribute == NULL) return;
  SLOT(OrtApi, ReleaseValue)(attribute->tensor);
  graph_free(attribute->graph);
  host_free(attribute);
  handle_count(HANDLE_OTHER, -1);
}

/* ---- what plugins call ---- */

/* `len` counts the elements of a list and the bytes of a string; a scalar needs none. A tensor's data is an
 * OrtValue, of which a copy is made. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateOpAttr)(const char* name, const void* data, int len,
                                                   OrtOpAttrType type, OrtOpAttr** op_attr) {
  REQUIRE_ARG(op_attr != NULL);
  *op_attr = NULL;
  REQUIRE_ARG(name != NULL);
  REQUIRE_ARG(len >= 0);
  bool list = type == ORT_OP_ATTR_INTS || type == ORT_OP_ATTR_FLOATS || type == ORT_OP_ATTR_STRINGS ||
              type == ORT_OP_ATTR_STRING;
  REQUIRE_ARG(data != NULL || (list && len == 0));
  size_t count = list ? (size_t)len : 1;
  OrtOpAttr* attribute = NULL;
  switch (type) {
    case ORT_OP_ATTR_INT:
    case ORT_OP_ATTR_INTS:
      attribute = attribute_of_ints(name, type, data, count);
      break;
    case ORT_OP_ATTR_FLOAT:
    case ORT_OP_ATTR_FLOATS:
      attribute = attribute_of_floats(name, type, data, count);
      break;
    case ORT_OP_ATTR_STRING: {
      const char* text = data;
      attribute = attribute_of_strings(name, type, &text, &count, 1);
      break;
    }
    case ORT_OP_ATTR_STRINGS: {
      const char* const* strings = data;
      for (size_t i = 0; i < count; ++i) REQUIRE_ARG(strings[i] != NULL);
      size_t* lengths = host_malloc(count * sizeof *lengths);
      if (lengths == NULL) return status_no_memory();
      for (size_t i = 0; i < count; ++i) lengths[i] = strlen(strings[i]);
      attribute = attribute_of_strings(name, type, strings, lengths, count);
      host_free(lengths);
      break;
    }
    case ORT_OP_ATTR_TENSOR: {
      OrtValue* copy = NULL;
      OrtStatus* status = value_copy_tensor(data, NULL, &copy);
      if (status != NULL) return status;
      attribute = attribute_of_tensor(name, copy);
      if (attribute == NULL) SLOT(OrtApi, ReleaseValue)(copy);
      break;
    }
    default:
      return status_new(ORT_INVALID_ARGUMENT, "attribute '%s' cannot be made with the type %d", name,
                        (int)type);
  }
  *op_attr = attribute;
  return attribute != NULL ? NULL : status_no_memory();
}

void ORT_API_CALL SLOT(OrtApi, ReleaseOpAttr)(OrtOpAttr* input) { attribute_free(input); }

/* *out is the number of bytes that the value has, whether or not `data` had room for them. A string comes
 * without a NUL, each string of a list with one. Reading a list of another type than the attribute's finds it
 * empty. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, ReadOpAttr)(const OrtOpAttr* op_attr, OrtOpAttrType type, void* data,
                                                 size_t len, size_t* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(op_attr != NULL);
  bool same = op_attr->type == type;
  size_t scalar = type == ORT_OP_ATTR_INT || type == ORT_OP_ATTR_FLOAT ? 1 : 0;
  const void* source = NULL;
  switch (type) {
    case ORT_OP_ATTR_INT:
    case ORT_OP_ATTR_INTS:
      *out = (same ? op_attr->count : scalar) * sizeof(int64_t);
      source = op_attr->ints;
      break;
    case ORT_OP_ATTR_FLOAT:
    case ORT_OP_ATTR_FLOATS:
      *out = (same ? op_attr->count : scalar) * sizeof(float);
      source = op_attr->floats;
      break;
    case ORT_OP_ATTR_STRING:
      *out = same ? op_attr->lengths[0] : 0;
      source = same ? op_attr->strings[0] : NULL;
      break;
    case ORT_OP_ATTR_STRINGS: /* they lie one behind the other, each with its NUL */
      for (size_t i = 0; same && i < op_attr->count; ++i) *out += op_attr->lengths[i] + 1;
      source = same && op_attr->count > 0 ? op_attr->strings[0] : NULL;
      break;
    default:
      return status_new(ORT_INVALID_ARGUMENT, "attribute '%s' cannot be read as a value of type %d",
                        op_attr->name, (int)type);
  }
  if (!same && (scalar == 1 || type == ORT_OP_ATTR_STRING)) {
    return status_new(ORT_INVALID_ARGUMENT, "attribute '%s' has the type %d, not %d", op_attr->name,
                      (int)op_attr->type, (int)type);
  }
  if (len < *out) {
    return status_new(ORT_INVALID_ARGUMENT, "attribute '%s' has %zu bytes, there is room for %zu",
                      op_attr->name, *out, len);
  }
  if (*out == 0) return NULL;
  REQUIRE_ARG(data != NULL);
  memcpy(data, source, *out);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, OpAttr_GetType)(const OrtOpAttr* attribute, OrtOpAttrType* type) {
  REQUIRE_ARG(type != NULL);
  *type = ORT_OP_ATTR_UNDEFINED;
  REQUIRE_ARG(attribute != NULL);
  *type = attribute->type;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, OpAttr_GetName)(const OrtOpAttr* attribute, const char** name) {
  REQUIRE_ARG(name != NULL);
  *name = NULL;
  REQUIRE_ARG(attribute != NULL);
  *name = attribute->name;
  return NULL;
}

/* The caller releases the value; it shares the attribute's memory where that can be shared. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, OpAttr_GetTensorAttributeAsOrtValue)(const OrtOpAttr* attribute,
                                                                          OrtValue** attr_tensor) {
  REQUIRE_ARG(attr_tensor != NULL);
  *attr_tensor = NULL;
  REQUIRE_ARG(attribute != NULL);
  if (attribute->type != ORT_OP_ATTR_TENSOR) {
    return status_new(ORT_INVALID_ARGUMENT, "attribute '%s' is no tensor", attribute->name);
  }
  OrtValue* value = value_new();
  if (value == NULL) return status_no_memory();
  if (value_share(value, attribute->tensor)) {
    *attr_tensor = value;
    return NULL;
  }
  SLOT(OrtApi, ReleaseValue)(value);
  return value_copy_tensor(attribute->tensor, NULL, attr_tensor);
}

OrtStatus* value_copy_tensor(const OrtValue* value, OrtAllocator* allocator, OrtValue** out) {
  *out = NULL;
  if (value->type != ONNX_TYPE_TENSOR || !memory_info_is_cpu(value->memory_info) ||
      (allocator != NULL && !memory_info_is_cpu(GUARDED(OrtAllocator, Info)(allocator)))) {
    return status_new(ORT_INVALID_ARGUMENT, "only a tensor can be copied, and only within the CPU's memory");
  }
  OrtValue* copy = value_new();
  if (copy != NULL && value_copy(copy, value, allocator)) {
    *out = copy;
    return NULL;
  }
  SLOT(OrtApi, ReleaseValue)(copy);
  return status_no_memory();
}
