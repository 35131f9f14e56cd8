/* Attributes of nodes. */
#ifndef EPHOST_NATIVE_ATTRIBUTE_H_
#define EPHOST_NATIVE_ATTRIBUTE_H_

#include "abi.h"

/* One block of memory with the attribute's name and data behind it, except for a tensor and a graph. */
struct OrtOpAttr {
  const char* name;
  OrtOpAttrType type;
  size_t count;          /* elements of a list; 1 for a scalar */
  const int64_t* ints;   /* INT, INTS */
  const float* floats;   /* FLOAT, FLOATS */
  const char** strings;  /* STRING (one), STRINGS; each NUL-terminated, but may hold NULs before its end */
  const size_t* lengths; /* of the strings, without the NUL */
  OrtValue* tensor;      /* TENSOR: owned */
  OrtGraph* graph;       /* GRAPH: owned */
};
/* All copy what they are given and return NULL without memory. `type` is the list's or, with count 1, the
 * scalar's. */
OrtOpAttr* attribute_of_ints(const char* name, OrtOpAttrType type, const int64_t* ints, size_t count);
OrtOpAttr* attribute_of_floats(const char* name, OrtOpAttrType type, const float* floats, size_t count);
OrtOpAttr* attribute_of_strings(const char* name, OrtOpAttrType type, const char* const* strings,
                                const size_t* lengths, size_t count);
/* takes the tensor over when it succeeds */
OrtOpAttr* attribute_of_tensor(const char* name, OrtValue* tensor);
/* takes the graph over when it succeeds */
OrtOpAttr* attribute_of_graph(const char* name, OrtGraph* graph);
void attribute_free(OrtOpAttr* attribute); /* NULL is fine */

#endif
