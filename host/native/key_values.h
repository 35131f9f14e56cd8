/* OrtKeyValuePairs. */
#ifndef EPHOST_NATIVE_KEY_VALUES_H_
#define EPHOST_NATIVE_KEY_VALUES_H_

#include "abi.h"

/* Entries keep the order in which their keys were first added; setting a key again replaces its value. */
struct OrtKeyValuePairs {
  const char** keys;
  const char** values;
  size_t count;
  size_t capacity;
  size_t* places;     /* indices + 1 by the keys' hashes, 0 where there is none; NULL of a few keys */
  size_t place_count; /* a power of two, at least twice the count */
};
OrtKeyValuePairs* key_values_new(void);                            /* NULL without memory */
OrtKeyValuePairs* key_values_copy(const OrtKeyValuePairs* source); /* NULL source gives an empty one */
bool key_values_set(OrtKeyValuePairs* pairs, const char* key, const char* value); /* false without memory */
/* The same for a key that is not among them, which it does not look for: thousands are added in a row. */
bool key_values_append(OrtKeyValuePairs* pairs, const char* key, const char* value);
void key_values_free(OrtKeyValuePairs* pairs);
const char* key_values_get(const OrtKeyValuePairs* pairs, const char* key); /* NULL when absent */
void key_values_remove(OrtKeyValuePairs* pairs, const char* key);

#endif
