/* OrtNodeComputeContext: what CreateState of a compiled node gets. */
#include <stdint.h>

#include "abi.h"
#include "heap.h"

struct OrtNodeComputeContext {
  const char* node_name;
};

OrtNodeComputeContext* ephost_compute_context_new(const char* node_name) {
  OrtNodeComputeContext* context = host_calloc(1, sizeof *context);
  if (context != NULL && (context->node_name = host_strdup(node_name)) == NULL) {
    host_free(context);
    return NULL;
  }
  return context;
}

void ephost_compute_context_free(OrtNodeComputeContext* context) {
  if (context == NULL) return;
  host_free((void*)(uintptr_t)context->node_name);
  host_free(context);
}

const char* ORT_API_CALL SLOT(OrtEpApi, NodeComputeContext_NodeName)(const OrtNodeComputeContext* context) {
  return context != NULL ? context->node_name : NULL;
}
