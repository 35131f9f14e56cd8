/* Values that are no plain bytes, on their way to another process as 64-bit words: tensors of strings,
 * sequences, maps, and optionals that hold nothing.
 *
 *   each value    its ONNXType and its element type, then
 *   of a tensor   the rank and the dimensions; then of numbers the bytes; of strings the length of each text,
 *                 and all texts without anything between them; both filled up to a whole word
 *   of others     whether it is zipped, how many items, and these
 */
#define _GNU_SOURCE
#include "isolation.h"

#include <string.h>

#include "heap.h"
#include "memory.h"
#include "status.h"
#include "value.h"

enum { WORD_BYTES = sizeof(uint64_t), DEEPEST = 16 };

static uint64_t words_for(uint64_t nbytes) { return nbytes / WORD_BYTES + (nbytes % WORD_BYTES != 0); }

static uint64_t text_bytes(const OrtValue* value) {
  const StringElement* texts = value->data;
  uint64_t nbytes = 0;
  for (size_t i = 0; i < value->element_count; ++i) nbytes += texts[i].length;
  return nbytes;
}

static uint64_t words_of(const OrtValue* value, unsigned depth) {
  if (value->type == ONNX_TYPE_TENSOR) {
    if (!memory_info_is_cpu(value->memory_info)) return 0;
    uint64_t head = 3 + value->rank;
    return has_strings(value) ? head + value->element_count + words_for(text_bytes(value))
                              : head + words_for(value->nbytes);
  }
  if (value->type == ONNX_TYPE_OPTIONAL) return 2;
  if ((value->type != ONNX_TYPE_SEQUENCE && value->type != ONNX_TYPE_MAP) || depth == DEEPEST) return 0;
  uint64_t words = 4;
  for (size_t i = 0; i < value->item_count; ++i) {
    uint64_t item = words_of(value->items[i], depth + 1);
    if (item == 0) return 0;
    words += item;
  }
  return words;
}

uint64_t ephost_packed_words(const OrtValue* value) { return words_of(value, 0); }

static uint64_t* put_bytes(uint64_t* at, const void* data, uint64_t nbytes) {
  if (nbytes) memcpy(at, data, nbytes);
  return at + words_for(nbytes);
}

static uint64_t* put_texts(uint64_t* at, const OrtValue* value) {
  const StringElement* texts = value->data;
  char* characters = (char*)(at + value->element_count);
  for (size_t i = 0; i < value->element_count; ++i) {
    at[i] = texts[i].length;
    if (texts[i].length) memcpy(characters, texts[i].text, texts[i].length);
    characters += texts[i].length;
  }
  return at + value->element_count + words_for((uint64_t)(characters - (char*)(at + value->element_count)));
}

uint64_t* ephost_pack_value(uint64_t* at, const OrtValue* value) {
  *at++ = (uint64_t)value->type;
  *at++ = (uint64_t)value->element_type;
  if (value->type == ONNX_TYPE_TENSOR) {
    *at++ = value->rank;
    at = put_bytes(at, value->dims, value->rank * sizeof *value->dims);
    return has_strings(value) ? put_texts(at, value) : put_bytes(at, value->data, value->nbytes);
  }
  if (value->type == ONNX_TYPE_OPTIONAL) return at;
  *at++ = value->is_zipped;
  *at++ = value->item_count;
  for (size_t i = 0; i < value->item_count; ++i) at = ephost_pack_value(at, value->items[i]);
  return at;
}

/* ---- the other way: the words may be anything, and change while they are read ---- */

typedef struct Words {
  const volatile uint64_t* at;
  uint64_t left;
} Words;

static OrtStatus* damaged(void) {
  return status_new(ORT_EP_FAIL, "a value that another process sends is damaged");
}

static bool next(Words* words, uint64_t* word) {
  if (words->left == 0) return false;
  *word = *words->at++;
  --words->left;
  return true;
}

static void skip(Words* words, uint64_t count) {
  words->at += count;
  words->left -= count;
}

static OrtStatus* take_texts(Words* words, OrtValue* value) {
  StringElement* texts = value->data;
  size_t count = value->element_count;
  const char* characters = (const char*)(uintptr_t)(words->at + count);
  uint64_t left = (words->left - count) * WORD_BYTES, used = 0;
  StringBlock block = {0};
  for (size_t i = 0; i < count; ++i) {
    uint64_t length = words->at[i]; /* read once */
    if (length > left - used) {
      string_block_drop(&block);
      return damaged();
    }
    if (!string_block_append(&block, characters + used, (size_t)length)) {
      string_block_drop(&block);
      return status_no_memory();
    }
    texts[i].length = (size_t)length;
    used += length;
  }
  string_block_give(&block, value);
  skip(words, count + words_for(used));
  return NULL;
}

static OrtStatus* take_tensor(Words* words, ONNXTensorElementDataType type, OrtValue* out) {
  uint64_t rank = 0, dim = 0;
  int64_t dims[LANE_RANK];
  size_t count = 0, nbytes = 0;
  bool of_text = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  if (!next(words, &rank) || rank > LANE_RANK || (!of_text && element_type_bits(type) == 0)) return damaged();
  for (uint64_t i = 0; i < rank; ++i) {
    if (!next(words, &dim)) return damaged();
    dims[i] = (int64_t)dim;
  }
  if (!tensor_nbytes(type, dims, (size_t)rank, &count, &nbytes)) return damaged();
  /* Before memory is taken for it. */
  if ((of_text ? (uint64_t)count : words_for(nbytes)) > words->left) return damaged();
  if (!value_alloc_tensor(out, type, dims, (size_t)rank, NULL)) return status_no_memory();
  if (of_text) return take_texts(words, out);
  if (nbytes) memcpy(out->data, (const void*)(uintptr_t)words->at, nbytes);
  skip(words, words_for(nbytes));
  return NULL;
}

static bool is_list(const OrtValue* value) { return value->type == ONNX_TYPE_TENSOR && value->rank == 1; }

/* What is read of such a value without a further look: value_unzip, and who asks for a map's keys. What is
 * zipped has the types that ZipMap gives. */
static bool holds_together(const OrtValue* value) {
  if (!value->is_zipped && value->type != ONNX_TYPE_MAP) return true;
  if (value->item_count != 2 || !is_list(value->items[0])) return false;
  const OrtValue *keys = value->items[0], *values = value->items[1];
  if (!value->is_zipped) return is_list(values) && values->element_count == keys->element_count;
  return value->type == ONNX_TYPE_SEQUENCE && values->type == ONNX_TYPE_TENSOR && values->rank == 2 &&
         values->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT &&
         (has_strings(keys) || keys->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) &&
         (uint64_t)values->dims[1] == keys->element_count;
}

static OrtStatus* take_value(Words* words, unsigned depth, OrtValue* out);

static OrtStatus* take_items(Words* words, unsigned depth, OrtValue* out) {
  uint64_t zipped = 0, count = 0;
  if (!next(words, &zipped) || !next(words, &count) || count > words->left || depth == DEEPEST) {
    return damaged();
  }
  out->is_zipped = zipped == 1;
  out->items = items_new((size_t)count);
  if (out->items == NULL) return status_no_memory();
  for (size_t i = 0; i < count; ++i) {
    out->items[i] = value_new();
    if (out->items[i] == NULL) return status_no_memory();
    out->item_count = i + 1;
    OrtStatus* status = take_value(words, depth + 1, out->items[i]);
    if (status != NULL) return status;
  }
  return holds_together(out) ? NULL : damaged();
}

static OrtStatus* take_value(Words* words, unsigned depth, OrtValue* out) {
  uint64_t type = 0, element_type = 0;
  if (!next(words, &type) || !next(words, &element_type) || element_type > 1000) return damaged();
  if (type == ONNX_TYPE_TENSOR) return take_tensor(words, (ONNXTensorElementDataType)(int)element_type, out);
  if (type != ONNX_TYPE_OPTIONAL && type != ONNX_TYPE_SEQUENCE && type != ONNX_TYPE_MAP) return damaged();
  out->type = (ONNXType)(int)type;
  out->element_type = (ONNXTensorElementDataType)(int)element_type;
  return type == ONNX_TYPE_OPTIONAL ? NULL : take_items(words, depth, out);
}

OrtStatus* ephost_unpack_value(const uint64_t* at, uint64_t count, OrtValue* out) {
  Words words = {at, count};
  OrtStatus* status = take_value(&words, 0, out);
  if (status != NULL) value_clear(out);
  return status;
}

OrtValue* ephost_value_new(void) { return value_new(); }
