/* Tensors of strings. Each element owns its text, or holds it if it is short, or its tensor owns one block
 * for all that it was made with; texts are UTF-8 by convention and may hold NULs. */
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "memory.h"
#include "python.h"
#include "status.h"
#include "value.h"

static void free_strings(Buffer* buffer) {
  StringElement* elements = buffer->data;
  for (size_t i = 0; i < buffer->nbytes / sizeof(*elements); i++) {
    if (!elements[i].in_block) host_free(elements[i].text);
  }
  host_free(buffer->context); /* the block */
  cpu_free(buffer->data);
}

Buffer* buffer_for_strings(size_t count) {
  if (count > SIZE_MAX / sizeof(StringElement)) return NULL;
  size_t nbytes = count * sizeof(StringElement);
  void* data = cpu_alloc(nbytes);
  if (data == NULL) return NULL;
  memset(data, 0, nbytes);
  Buffer* buffer = buffer_adopt(data, nbytes, free_strings, NULL);
  if (buffer == NULL) cpu_free(data);
  return buffer;
}

bool string_element_set(StringElement* element, const char* text, size_t length) {
  const bool is_short = length < sizeof(element->inside);
  char* copy = is_short ? element->inside : length < SIZE_MAX ? host_malloc(length + 1) : NULL;
  if (copy == NULL) return false;
  if (length > 0) memmove(copy, text, length);
  copy[length] = '\0';
  if (!element->in_block) host_free(element->text);
  element->text = copy;
  element->length = length;
  element->in_block = is_short;
  return true;
}

bool string_block_append(StringBlock* block, const char* text, size_t length) {
  if (length >= block->capacity - block->used) { /* one more for the NUL */
    size_t enough = block->used + length + 1, capacity = 2 * block->capacity;
    if (enough <= length || capacity < block->capacity) return false;
    if (capacity < enough) capacity = enough < 256 ? 256 : enough;
    char* grown = host_realloc(block->characters, capacity);
    if (grown == NULL) return false;
    block->characters = grown;
    block->capacity = capacity;
  }
  if (length > 0) memcpy(block->characters + block->used, text, length);
  block->used += length;
  block->characters[block->used++] = '\0';
  return true;
}

void string_block_give(StringBlock* block, OrtValue* value) {
  StringElement* elements = value->data;
  char* text = block->characters;
  for (size_t i = 0; i < value->element_count; i++) {
    elements[i].text = text;
    elements[i].in_block = true;
    text += elements[i].length + 1;
  }
  value->buffer->context = block->characters;
  *block = (StringBlock){0};
}

void string_block_drop(StringBlock* block) {
  host_free(block->characters);
  *block = (StringBlock){0};
}

bool copy_strings(StringElement* to, const StringElement* from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!string_element_set(&to[i], from[i].text, from[i].length)) return false;
  }
  return true;
}

/* The elements of a tensor of strings, or the status that says it is none. */
static OrtStatus* elements_of(const char* function, const OrtValue* value, StringElement** out) {
  *out = NULL;
  if (value == NULL || value->type != ONNX_TYPE_TENSOR ||
      value->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    return status_new(ORT_INVALID_ARGUMENT, "%s: the value is no tensor of strings", function);
  }
  *out = value->data;
  return NULL;
}

static OrtStatus* element_at(const char* function, const OrtValue* value, size_t index, StringElement** out) {
  OrtStatus* status = elements_of(function, value, out);
  if (status != NULL) return status;
  if (index >= value->element_count) {
    *out = NULL;
    return status_new(ORT_INVALID_ARGUMENT, "%s: there is no element %zu in a tensor of %zu", function, index,
                      value->element_count);
  }
  *out += index;
  return NULL;
}

/* One text for each element. On failure some elements may have their new text already. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, FillStringTensor)(OrtValue* value, const char* const* s, size_t s_len) {
  StringElement* elements = NULL;
  OrtStatus* status = elements_of("FillStringTensor", value, &elements);
  if (status != NULL) return status;
  REQUIRE_ARG(s != NULL || s_len == 0);
  if (s_len != value->element_count) {
    return status_new(ORT_INVALID_ARGUMENT, "FillStringTensor: %zu texts for a tensor of %zu", s_len,
                      value->element_count);
  }
  for (size_t i = 0; i < s_len; i++) REQUIRE_ARG(s[i] != NULL);
  for (size_t i = 0; i < s_len; i++) {
    if (!string_element_set(&elements[i], s[i], strlen(s[i]))) return status_no_memory();
  }
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, FillStringTensorElement)(OrtValue* value, const char* s, size_t index) {
  StringElement* element = NULL;
  OrtStatus* status = element_at("FillStringTensorElement", value, index, &element);
  if (status != NULL) return status;
  REQUIRE_ARG(s != NULL);
  return string_element_set(element, s, strlen(s)) ? NULL : status_no_memory();
}

/* The bytes of all texts together, without NULs between them. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetStringTensorDataLength)(const OrtValue* value, size_t* len) {
  REQUIRE_ARG(len != NULL);
  *len = 0;
  StringElement* elements = NULL;
  OrtStatus* status = elements_of("GetStringTensorDataLength", value, &elements);
  if (status != NULL) return status;
  for (size_t i = 0; i < value->element_count; i++) *len += elements[i].length;
  return NULL;
}

/* The texts one after the other without NULs between them, and where each begins. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetStringTensorContent)(const OrtValue* value, void* s, size_t s_len,
                                                             size_t* offsets, size_t offsets_len) {
  StringElement* elements = NULL;
  OrtStatus* status = elements_of("GetStringTensorContent", value, &elements);
  if (status != NULL) return status;
  REQUIRE_ARG(s != NULL || s_len == 0);
  REQUIRE_ARG(offsets != NULL || offsets_len == 0);
  size_t needed = 0;
  for (size_t i = 0; i < value->element_count; i++) needed += elements[i].length;
  if (s_len < needed || offsets_len < value->element_count) {
    return status_new(
        ORT_INVALID_ARGUMENT,
        "GetStringTensorContent: %zu bytes and %zu offsets for a tensor of %zu bytes in %zu texts", s_len,
        offsets_len, needed, value->element_count);
  }
  size_t position = 0;
  for (size_t i = 0; i < value->element_count; i++) {
    offsets[i] = position;
    if (elements[i].length > 0) memcpy((char*)s + position, elements[i].text, elements[i].length);
    position += elements[i].length;
  }
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetStringTensorElementLength)(const OrtValue* value, size_t index,
                                                                   size_t* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  StringElement* element = NULL;
  OrtStatus* status = element_at("GetStringTensorElementLength", value, index, &element);
  if (status == NULL) *out = element->length;
  return status;
}

/* The text's bytes, without a NUL. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetStringTensorElement)(const OrtValue* value, size_t s_len,
                                                             size_t index, void* s) {
  StringElement* element = NULL;
  OrtStatus* status = element_at("GetStringTensorElement", value, index, &element);
  if (status != NULL) return status;
  REQUIRE_ARG(s != NULL || s_len == 0);
  if (s_len < element->length) {
    return status_new(ORT_INVALID_ARGUMENT, "GetStringTensorElement: %zu bytes for a text of %zu", s_len,
                      element->length);
  }
  if (element->length > 0) memcpy(s, element->text, element->length);
  return NULL;
}

/* The element's own memory, made `length_in_bytes` long, for the caller to write the text into. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetResizedStringTensorElementBuffer)(OrtValue* value, size_t index,
                                                                          size_t length_in_bytes,
                                                                          char** buffer) {
  REQUIRE_ARG(buffer != NULL);
  *buffer = NULL;
  StringElement* element = NULL;
  OrtStatus* status = element_at("GetResizedStringTensorElementBuffer", value, index, &element);
  if (status != NULL) return status;
  const bool is_short = length_in_bytes < sizeof(element->inside);
  const size_t kept = element->length < length_in_bytes ? element->length : length_in_bytes;
  char* before = element->in_block ? NULL : element->text;
  char* text = element->inside;
  if (!is_short) text = length_in_bytes < SIZE_MAX ? host_realloc(before, length_in_bytes + 1) : NULL;
  if (text == NULL) return status_no_memory();
  if (kept > 0 && (is_short || element->in_block)) memmove(text, element->text, kept);
  if (is_short) host_free(before);
  memset(text + kept, 0, length_in_bytes - kept + 1);
  element->text = text;
  element->length = length_in_bytes;
  element->in_block = is_short;
  *buffer = text;
  return NULL;
}

/* ---- for Python ---------------------------------------------------------------------------------------- */

OrtStatus* ephost_value_strings(const char* packed, const size_t* offsets, const int64_t* dims, size_t rank,
                                OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(packed != NULL && offsets != NULL);
  OrtStatus* status = tensor_shape_check("ephost_value_strings", ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, dims,
                                         rank, NULL, NULL);
  if (status != NULL) return status;
  StringBlock block = {0};
  OrtValue* value = value_new();
  if (value == NULL) return status_no_memory();
  if (!value_alloc_tensor(value, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, dims, rank, NULL)) goto no_memory;
  StringElement* elements = value->data;
  for (size_t i = 0; i < value->element_count; i++) {
    if (offsets[i + 1] < offsets[i]) {
      status =
          status_new(ORT_INVALID_ARGUMENT, "ephost_value_strings: offset %zu is below the one before", i + 1);
      goto failed;
    }
    elements[i].length = offsets[i + 1] - offsets[i];
    if (!string_block_append(&block, packed + offsets[i], elements[i].length)) goto no_memory;
  }
  string_block_give(&block, value);
  *out = value;
  return NULL;
no_memory:
  status = status_no_memory();
failed:
  string_block_drop(&block);
  SLOT(OrtApi, ReleaseValue)(value);
  return status;
}
