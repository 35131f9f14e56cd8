/* What a model says of itself. */
#ifndef EPHOST_NATIVE_MODEL_METADATA_H_
#define EPHOST_NATIVE_MODEL_METADATA_H_

#include "abi.h"

struct OrtModelMetadata {
  char* producer_name;
  char* graph_name;
  char* domain;
  char* description;
  char* graph_description;
  int64_t version;
  OrtKeyValuePairs* custom;
};
/* NULL source gives an empty one; NULL without memory */
OrtModelMetadata* model_metadata_copy(const OrtModelMetadata* source);
void model_metadata_free(OrtModelMetadata* metadata);

#endif
