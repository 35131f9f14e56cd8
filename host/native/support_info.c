/* OrtEpGraphSupportInfo: what an EP claims while GetCapability runs. What a plugin says is checked here;
 * whether two claims name the same node is for Python to see, which reads them when the call has returned. */
#include <string.h>

#include "abi.h"
#include "graph.h"
#include "heap.h"
#include "kernel.h"
#include "maps.h"
#include "python.h"
#include "status.h"
#include "support_info.h"

OrtEpGraphSupportInfo* ephost_support_info_new(const OrtGraph* graph, const OrtEp* ep,
                                               const OrtKernelRegistry* registry) {
  OrtEpGraphSupportInfo* info = host_calloc(1, sizeof *info + sizeof(PointerMap));
  if (info == NULL) return NULL;
  info->graph = graph;
  info->ep = ep;
  info->registry = registry;
  info->members = (PointerMap*)(info + 1);
  handle_count(HANDLE_OTHER, 1);
  bool done = pointer_map_reserve(info->members, graph->node_count);
  for (size_t i = 0; done && i < graph->node_count; ++i) {
    void** place = pointer_map_at(info->members, graph->nodes[i]->origin);
    done = place != NULL;
    if (done) *place = graph->nodes[i];
  }
  if (done) return info;
  ephost_support_info_free(info);
  return NULL;
}

void ephost_support_info_free(OrtEpGraphSupportInfo* info) {
  if (info == NULL) return;
  for (size_t i = 0; i < info->claim_count; ++i) host_free(info->claims[i].nodes);
  host_free(info->claims);
  pointer_map_clear(info->members);
  host_free(info);
  handle_count(HANDLE_OTHER, -1);
}

size_t ephost_support_info_claim_count(const OrtEpGraphSupportInfo* info) { return info->claim_count; }
size_t ephost_support_info_node_count(const OrtEpGraphSupportInfo* info) {
  size_t count = 0;
  for (size_t i = 0; i < info->claim_count; ++i) count += info->claims[i].node_count;
  return count;
}

void ephost_support_info_read(const OrtEpGraphSupportInfo* info, EphostClaim* claims, size_t* ids) {
  for (size_t i = 0; i < info->claim_count; ++i) {
    const Claim* claim = &info->claims[i];
    claims[i] = (EphostClaim){claim->node_count, claim->single, claim->drop_constant_initializers};
    for (size_t k = 0; k < claim->node_count; ++k) *ids++ = claim->nodes[k]->id;
  }
}

static OrtStatus* add_claim(const char* function, OrtEpGraphSupportInfo* info, const OrtNode* const* nodes,
                            size_t count, bool single, bool drop_constant_initializers) {
  OrtStatus* status = NULL;
  PointerMap seen = {0};
  const OrtNode** own = host_malloc(count * sizeof *own);
  if (own == NULL || !pointer_map_reserve(&seen, count)) {
    status = status_no_memory();
    goto done;
  }
  for (size_t i = 0; i < count; ++i) {
    const OrtNode* node = nodes[i];
    if (node == NULL) {
      status = status_new(ORT_INVALID_ARGUMENT, "%s: node %zu of %zu is NULL", function, i, count);
      goto done;
    }
    own[i] =
        pointer_map_get(info->members, node->origin); /* a node of a view counts as the node that it shows */
    if (own[i] == NULL) {
      const bool named = node->name != NULL && node->op_type != NULL; /* not so when it is no node at all */
      status = status_new(ORT_INVALID_ARGUMENT, "%s: node '%s' (%s) is not in graph '%s'", function,
                          named ? node->name : "?", named ? node->op_type : "?", info->graph->name);
      goto done;
    }
    void** place = pointer_map_at(&seen, own[i]);
    if (place == NULL) {
      status = status_no_memory();
      goto done;
    }
    if (*place != NULL) {
      status = status_new(ORT_INVALID_ARGUMENT, "%s: node '%s' (%s) is there twice", function, node->name,
                          node->op_type);
      goto done;
    }
    *place = info;
  }
  if (info->claim_count == info->claim_capacity) {
    size_t capacity = info->claim_capacity > 0 ? info->claim_capacity * 2 : 16;
    Claim* claims = host_realloc(info->claims, capacity * sizeof *claims);
    if (claims == NULL) {
      status = status_no_memory();
      goto done;
    }
    info->claims = claims;
    info->claim_capacity = capacity;
  }
  info->claims[info->claim_count++] = (Claim){own, count, single, drop_constant_initializers};
  own = NULL;
done:
  host_free(own);
  pointer_map_clear(&seen);
  return status;
}

/* The options may be NULL. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, EpGraphSupportInfo_AddNodesToFuse)(
    OrtEpGraphSupportInfo* graph_support_info, const OrtNode* const* nodes, size_t num_nodes,
    const OrtNodeFusionOptions* node_fusion_options) {
  REQUIRE_ARG(graph_support_info != NULL);
  REQUIRE_ARG(num_nodes > 0);
  REQUIRE_ARG(nodes != NULL);
  if (num_nodes > graph_support_info->graph->node_count) {
    return status_new(ORT_INVALID_ARGUMENT,
                      "EpGraphSupportInfo_AddNodesToFuse: %zu nodes, but graph '%s' has %zu", num_nodes,
                      graph_support_info->graph->name, graph_support_info->graph->node_count);
  }
  bool drop = node_fusion_options != NULL && node_fusion_options->drop_constant_initializers;
  return add_claim("EpGraphSupportInfo_AddNodesToFuse", graph_support_info, nodes, num_nodes, false, drop);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             EpGraphSupportInfo_AddSingleNode)(OrtEpGraphSupportInfo* graph_support_info,
                                                               const OrtNode* node) {
  REQUIRE_ARG(graph_support_info != NULL);
  return add_claim("EpGraphSupportInfo_AddSingleNode", graph_support_info, &node, 1, true, false);
}

/* *out_kernel_def is NULL, and that no error, when the EP has no kernel for the node. It is the registry's.
 */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             EpGraphSupportInfo_LookUpKernel)(OrtEpGraphSupportInfo* graph_support_info,
                                                              const OrtNode* node,
                                                              const OrtKernelDef** out_kernel_def) {
  REQUIRE_ARG(out_kernel_def != NULL);
  *out_kernel_def = NULL;
  REQUIRE_ARG(graph_support_info != NULL);
  REQUIRE_ARG(node != NULL);
  if (graph_support_info->registry == NULL) return NULL;
  const OrtEp* ep = graph_support_info->ep;
  const char* ep_name = ep != NULL && ep->GetName != NULL ? GUARDED(OrtEp, GetName)(ep) : NULL;
  const OrtKernelRegistry* registry = graph_support_info->registry;
  const KernelEntry* entry = kernel_registry_find(registry, node, ep_name);
  if (entry != NULL) {
    *out_kernel_def = entry->def;
    return NULL;
  }
  const char* unknown = kernel_registry_unknown_constraint(registry, node, ep_name);
  if (unknown == NULL) return NULL;
  return status_new(ORT_FAIL,
                    "a kernel for %s has the type constraint '%s', which the operator knows nothing of",
                    node->op_type, unknown);
}
