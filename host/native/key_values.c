/* OrtKeyValuePairs: a small ordered map of strings. */
#include <string.h>

#include "abi.h"
#include "heap.h"
#include "key_values.h"
#include "logger.h"
#include "maps.h"
#include "status.h"

#define FEW 16 /* keys are compared one by one */

OrtKeyValuePairs* key_values_new(void) {
  OrtKeyValuePairs* pairs = host_calloc(1, sizeof(*pairs));
  if (pairs != NULL) handle_count(HANDLE_KEY_VALUE_PAIRS, +1);
  return pairs;
}

void key_values_free(OrtKeyValuePairs* pairs) {
  if (pairs == NULL) return;
  for (size_t i = 0; i < pairs->count; i++) {
    host_free((char*)pairs->keys[i]);
    host_free((char*)pairs->values[i]);
  }
  host_free(pairs->keys);
  host_free(pairs->values);
  host_free(pairs->places);
  handle_count(HANDLE_KEY_VALUE_PAIRS, -1);
  host_free(pairs);
}

OrtKeyValuePairs* key_values_copy(const OrtKeyValuePairs* source) {
  OrtKeyValuePairs* copy = key_values_new();
  if (copy == NULL || source == NULL) return copy;
  for (size_t i = 0; i < source->count; i++) {
    if (!key_values_append(copy, source->keys[i], source->values[i])) {
      key_values_free(copy);
      return NULL;
    }
  }
  return copy;
}

/* Where the key is among the places, or would be. */
static size_t* place_of(const OrtKeyValuePairs* pairs, const char* key) {
  size_t at = (size_t)name_hash(key);
  while (true) {
    size_t* place = &pairs->places[at++ & (pairs->place_count - 1)];
    if (*place == 0 || strcmp(pairs->keys[*place - 1], key) == 0) return place;
  }
}

/* Take up the key at `index`; of a key that is there twice the first counts. */
static void take_up(OrtKeyValuePairs* pairs, size_t index) {
  size_t* place = place_of(pairs, pairs->keys[index]);
  if (*place == 0) *place = index + 1;
}

static void take_up_all(OrtKeyValuePairs* pairs) {
  memset(pairs->places, 0, pairs->place_count * sizeof(*pairs->places));
  for (size_t i = 0; i < pairs->count; i++) take_up(pairs, i);
}

/* The key's index, or the count when there is none. */
static size_t find(const OrtKeyValuePairs* pairs, const char* key) {
  if (pairs->places != NULL) {
    size_t place = *place_of(pairs, key);
    return place > 0 ? place - 1 : pairs->count;
  }
  size_t i = 0;
  while (i < pairs->count && strcmp(pairs->keys[i], key) != 0) i++;
  return i;
}

static bool reserve_one(OrtKeyValuePairs* pairs) {
  if (pairs->count < pairs->capacity) return true;
  size_t capacity = pairs->capacity > 0 ? 2 * pairs->capacity : 8;
  const char** keys = host_realloc(pairs->keys, capacity * sizeof(*keys));
  if (keys == NULL) return false;
  pairs->keys = keys;
  const char** values = host_realloc(pairs->values, capacity * sizeof(*values));
  if (values == NULL) return false;
  pairs->values = values;
  if (capacity > FEW) {
    size_t* places = host_realloc(pairs->places, 2 * capacity * sizeof(*places));
    if (places == NULL) return false;
    pairs->places = places;
    pairs->place_count = 2 * capacity;
    take_up_all(pairs);
  }
  pairs->capacity = capacity;
  return true;
}

bool key_values_append(OrtKeyValuePairs* pairs, const char* key, const char* value) {
  if (!reserve_one(pairs)) return false;
  char* value_copy = host_strdup(value);
  char* key_copy = value_copy != NULL ? host_strdup(key) : NULL;
  if (key_copy == NULL) {
    host_free(value_copy);
    return false;
  }
  pairs->keys[pairs->count] = key_copy;
  pairs->values[pairs->count] = value_copy;
  if (pairs->places != NULL) take_up(pairs, pairs->count);
  pairs->count++;
  return true;
}

bool key_values_set(OrtKeyValuePairs* pairs, const char* key, const char* value) {
  size_t index = find(pairs, key);
  if (index == pairs->count) return key_values_append(pairs, key, value);
  char* value_copy = host_strdup(value);
  if (value_copy == NULL) return false;
  host_free((char*)pairs->values[index]);
  pairs->values[index] = value_copy;
  return true;
}

const char* key_values_get(const OrtKeyValuePairs* pairs, const char* key) {
  size_t index = find(pairs, key);
  return index < pairs->count ? pairs->values[index] : NULL;
}

void key_values_remove(OrtKeyValuePairs* pairs, const char* key) {
  size_t index = find(pairs, key);
  if (index == pairs->count) return;
  host_free((char*)pairs->keys[index]);
  host_free((char*)pairs->values[index]);
  pairs->count--;
  memmove(&pairs->keys[index], &pairs->keys[index + 1], (pairs->count - index) * sizeof(*pairs->keys));
  memmove(&pairs->values[index], &pairs->values[index + 1], (pairs->count - index) * sizeof(*pairs->values));
  if (pairs->places != NULL) take_up_all(pairs);
}

/* *out is NULL without memory: the slot has no other way to say so. */
void ORT_API_CALL SLOT(OrtApi, CreateKeyValuePairs)(OrtKeyValuePairs** out) {
  if (out != NULL) *out = key_values_new();
}

/* An empty key or a missing value adds nothing, as in onnxruntime. */
void ORT_API_CALL SLOT(OrtApi, AddKeyValuePair)(OrtKeyValuePairs* kvps, const char* key, const char* value) {
  if (kvps == NULL || key == NULL || key[0] == '\0' || value == NULL) return;
  if (!key_values_set(kvps, key, value)) {
    host_log(ORT_LOGGING_LEVEL_ERROR, "AddKeyValuePair: out of memory, \"%s\" is not set", key);
  }
}

const char* ORT_API_CALL SLOT(OrtApi, GetKeyValue)(const OrtKeyValuePairs* kvps, const char* key) {
  return kvps != NULL && key != NULL ? key_values_get(kvps, key) : NULL;
}

/* The arrays stay valid until the pairs change or are released. */
void ORT_API_CALL SLOT(OrtApi, GetKeyValuePairs)(const OrtKeyValuePairs* kvps, const char* const** keys,
                                                 const char* const** values, size_t* num_entries) {
  if (keys != NULL) *keys = kvps != NULL ? kvps->keys : NULL;
  if (values != NULL) *values = kvps != NULL ? kvps->values : NULL;
  if (num_entries != NULL) *num_entries = kvps != NULL ? kvps->count : 0;
}

void ORT_API_CALL SLOT(OrtApi, RemoveKeyValuePair)(OrtKeyValuePairs* kvps, const char* key) {
  if (kvps != NULL && key != NULL) key_values_remove(kvps, key);
}

void ORT_API_CALL SLOT(OrtApi, ReleaseKeyValuePairs)(OrtKeyValuePairs* input) { key_values_free(input); }
