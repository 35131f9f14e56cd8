/* What plugin EPs with kernels share: putting a kernel into a registry, and going through the nodes on offer.
 */
#ifndef SAMPLES_REGISTRY_H_
#define SAMPLES_REGISTRY_H_

#include "factory.h"

/* One kernel, as a registry is told of it. */
typedef struct KernelRow {
  const char* type;
  const char* domain; /* "" for ONNX's own operators */
  int since_first, since_last;
  const char* type_parameter; /* What the schema calls the type that has to be float32; NULL: none has to. */
  size_t reusable_inputs;     /* The output may be written over any of so many first inputs. */
  bool cpu_input, cpu_output; /* The first one stays in the CPU's memory. */
} KernelRow;

/* Describes one kernel to the registry. The builder and the definition are copied by
 * KernelRegistry_AddKernel, so both are released here; the state is not copied, so it must live as long as
 * the registry. */
static inline OrtStatus* register_kernel(const OrtEpApi* ep_api, OrtKernelRegistry* registry,
                                         const char* ep_name, const KernelRow* row,
                                         OrtKernelCreateFunc create, void* state) {
  static const int kInputs[] = {0, 1}, kOutputs[] = {0, 0};
  const OrtDataType* float_type = NULL;
  OrtKernelDefBuilder* builder = NULL;
  OrtKernelDef* definition = NULL;
  OrtStatus* status = NULL;
  TRY_OR_DONE(ep_api->GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &float_type));
  TRY_OR_DONE(ep_api->CreateKernelDefBuilder(&builder));
  TRY_OR_DONE(ep_api->KernelDefBuilder_SetOperatorType(builder, row->type));
  TRY_OR_DONE(ep_api->KernelDefBuilder_SetDomain(builder, row->domain));
  TRY_OR_DONE(ep_api->KernelDefBuilder_SetSinceVersion(builder, row->since_first, row->since_last));
  TRY_OR_DONE(ep_api->KernelDefBuilder_SetExecutionProvider(builder, ep_name));
  if (row->type_parameter != NULL) {
    TRY_OR_DONE(ep_api->KernelDefBuilder_AddTypeConstraint(builder, row->type_parameter, &float_type, 1));
  }
  if (row->reusable_inputs > 0) {
    TRY_OR_DONE(ep_api->KernelDefBuilder_AddInputOutputMutableAliases(builder, kInputs, kOutputs,
                                                                      row->reusable_inputs));
  }
  if (row->cpu_input) {
    TRY_OR_DONE(ep_api->KernelDefBuilder_SetInputMemType(builder, 0, OrtMemTypeCPUInput));
  }
  if (row->cpu_output) {
    TRY_OR_DONE(ep_api->KernelDefBuilder_SetOutputMemType(builder, 0, OrtMemTypeCPUOutput));
  }
  TRY_OR_DONE(ep_api->KernelDefBuilder_Build(builder, &definition));
  TRY_OR_DONE(ep_api->KernelRegistry_AddKernel(registry, definition, create, state));
done:
  if (definition != NULL) {
    ep_api->ReleaseKernelDef(definition);
  }
  if (builder != NULL) {
    ep_api->ReleaseKernelDefBuilder(builder);
  }
  return status;
}

/* Looks at one node, and claims it or not. */
typedef OrtStatus* (*ClaimFn)(const void* owner, OrtEpGraphSupportInfo* support, const OrtNode* node);

/* GetCapability of an EP that decides node by node. */
static inline OrtStatus* claim_each(const OrtApi* api, const OrtGraph* graph, OrtEpGraphSupportInfo* support,
                                    ClaimFn claim, const void* owner) {
  OrtStatus* status = NULL;
  size_t num_nodes = 0;
  TRY(api->Graph_GetNumNodes(graph, &num_nodes));
  if (num_nodes == 0) {
    return NULL;
  }
  const OrtNode** nodes = (const OrtNode**)calloc(num_nodes, sizeof *nodes);
  if (nodes == NULL) {
    return out_of_memory(api);
  }
  TRY_OR_DONE(api->Graph_GetNodes(graph, nodes, num_nodes)); /* The array is ours, the nodes are not. */
  for (size_t i = 0; i < num_nodes; ++i) {
    TRY_OR_DONE(claim(owner, support, nodes[i]));
  }
done:
  free((void*)nodes);
  return status;
}

#endif
