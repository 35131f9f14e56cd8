/* OrtModelMetadata: what a model says about itself. A plugin gets a copy, and strings in memory of its
 * allocator. */
#include <string.h>

#include "abi.h"
#include "graph.h"
#include "heap.h"
#include "key_values.h"
#include "model_metadata.h"
#include "python.h"
#include "status.h"

void model_metadata_free(OrtModelMetadata* metadata) {
  if (metadata == NULL) return;
  host_free(metadata->producer_name);
  host_free(metadata->graph_name);
  host_free(metadata->domain);
  host_free(metadata->description);
  host_free(metadata->graph_description);
  key_values_free(metadata->custom);
  host_free(metadata);
  handle_count(HANDLE_OTHER, -1);
}

static OrtModelMetadata* metadata_new(const char* producer_name, const char* graph_name, const char* domain,
                                      const char* description, const char* graph_description, int64_t version,
                                      const OrtKeyValuePairs* custom) {
  OrtModelMetadata* metadata = host_calloc(1, sizeof *metadata);
  if (metadata == NULL) return NULL;
  handle_count(HANDLE_OTHER, 1);
  metadata->producer_name = host_strdup(producer_name);
  metadata->graph_name = host_strdup(graph_name);
  metadata->domain = host_strdup(domain);
  metadata->description = host_strdup(description);
  metadata->graph_description = host_strdup(graph_description);
  metadata->custom = key_values_copy(custom);
  metadata->version = version;
  if (metadata->producer_name != NULL && metadata->graph_name != NULL && metadata->domain != NULL &&
      metadata->description != NULL && metadata->graph_description != NULL && metadata->custom != NULL) {
    return metadata;
  }
  model_metadata_free(metadata);
  return NULL;
}

OrtModelMetadata* model_metadata_copy(const OrtModelMetadata* source) {
  if (source == NULL) return metadata_new("", "", "", "", "", 0, NULL);
  return metadata_new(source->producer_name, source->graph_name, source->domain, source->description,
                      source->graph_description, source->version, source->custom);
}

bool ephost_graph_set_metadata(OrtGraph* graph, const char* producer_name, const char* graph_name,
                               const char* domain, const char* description, const char* graph_description,
                               int64_t version) {
  OrtModelMetadata* metadata =
      metadata_new(producer_name, graph_name, domain, description, graph_description, version, NULL);
  if (metadata == NULL) return false;
  model_metadata_free(graph->metadata);
  graph->metadata = metadata;
  return true;
}

bool ephost_graph_add_metadata(OrtGraph* graph, const char* texts, size_t count) {
  if (graph->metadata == NULL) graph->metadata = model_metadata_copy(NULL);
  for (size_t i = 0; graph->metadata != NULL && i < count; ++i) {
    const char* value = texts + strlen(texts) + 1;
    if (!key_values_append(graph->metadata->custom, texts, value)) return false;
    texts = value + strlen(value) + 1;
  }
  return graph->metadata != NULL;
}

/* The caller releases it; every graph, subgraph or view of a model has the same. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetModelMetadata)(const OrtGraph* graph, OrtModelMetadata** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(graph != NULL);
  *out = model_metadata_copy(graph_root(graph)->metadata);
  return *out != NULL ? NULL : status_no_memory();
}

void ORT_API_CALL SLOT(OrtApi, ReleaseModelMetadata)(OrtModelMetadata* input) { model_metadata_free(input); }

/* A copy of `text` in the allocator's memory; NULL without memory. */
static char* text_for(OrtAllocator* allocator, const char* text) {
  size_t size = strlen(text) + 1;
  char* copy = GUARDED(OrtAllocator, Alloc)(allocator, size);
  if (copy != NULL) memcpy(copy, text, size);
  return copy;
}

static OrtStatus* give_text(OrtAllocator* allocator, const char* text, char** value) {
  *value = text_for(allocator, text);
  return *value != NULL ? NULL : status_no_memory();
}

#define TEXT_GETTER(member)                                     \
  do {                                                          \
    REQUIRE_ARG(value != NULL);                                 \
    *value = NULL;                                              \
    REQUIRE_ARG(model_metadata != NULL);                        \
    REQUIRE_ARG(allocator != NULL);                             \
    return give_text(allocator, model_metadata->member, value); \
  } while (0)

OrtStatus* ORT_API_CALL SLOT(OrtApi, ModelMetadataGetProducerName)(const OrtModelMetadata* model_metadata,
                                                                   OrtAllocator* allocator, char** value) {
  TEXT_GETTER(producer_name);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ModelMetadataGetGraphName)(const OrtModelMetadata* model_metadata,
                                                                OrtAllocator* allocator, char** value) {
  TEXT_GETTER(graph_name);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ModelMetadataGetDomain)(const OrtModelMetadata* model_metadata,
                                                             OrtAllocator* allocator, char** value) {
  TEXT_GETTER(domain);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ModelMetadataGetDescription)(const OrtModelMetadata* model_metadata,
                                                                  OrtAllocator* allocator, char** value) {
  TEXT_GETTER(description);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ModelMetadataGetGraphDescription)(const OrtModelMetadata* model_metadata,
                                                                       OrtAllocator* allocator,
                                                                       char** value) {
  TEXT_GETTER(graph_description);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ModelMetadataGetVersion)(const OrtModelMetadata* model_metadata,
                                                              int64_t* value) {
  REQUIRE_ARG(value != NULL);
  *value = 0;
  REQUIRE_ARG(model_metadata != NULL);
  *value = model_metadata->version;
  return NULL;
}

/* *value is NULL, and that no error, when there is no such key. */
OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             ModelMetadataLookupCustomMetadataMap)(const OrtModelMetadata* model_metadata,
                                                                   OrtAllocator* allocator, const char* key,
                                                                   char** value) {
  REQUIRE_ARG(value != NULL);
  *value = NULL;
  REQUIRE_ARG(model_metadata != NULL);
  REQUIRE_ARG(allocator != NULL);
  REQUIRE_ARG(key != NULL);
  const char* found = key_values_get(model_metadata->custom, key);
  return found != NULL ? give_text(allocator, found, value) : NULL;
}

/* *keys is NULL when there are none; the array and each key are the caller's to free. */
OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             ModelMetadataGetCustomMetadataMapKeys)(const OrtModelMetadata* model_metadata,
                                                                    OrtAllocator* allocator, char*** keys,
                                                                    int64_t* num_keys) {
  REQUIRE_ARG(keys != NULL);
  REQUIRE_ARG(num_keys != NULL);
  *keys = NULL;
  *num_keys = 0;
  REQUIRE_ARG(model_metadata != NULL);
  REQUIRE_ARG(allocator != NULL);
  size_t count = model_metadata->custom->count;
  if (count == 0) return NULL;
  char** copies = GUARDED(OrtAllocator, Alloc)(allocator, count * sizeof *copies);
  if (copies == NULL) return status_no_memory();
  for (size_t i = 0; i < count; ++i) {
    copies[i] = text_for(allocator, model_metadata->custom->keys[i]);
    if (copies[i] != NULL) continue;
    while (i > 0) GUARDED(OrtAllocator, Free)(allocator, copies[--i]);
    GUARDED(OrtAllocator, Free)(allocator, copies);
    return status_no_memory();
  }
  *keys = copies;
  *num_keys = (int64_t)count;
  return NULL;
}
