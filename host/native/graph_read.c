/* What plugins read of graphs, of nodes and of the values between them. */
#include <string.h>

#include "abi.h"
#include "attribute.h"
#include "graph.h"
#include "heap.h"
#include "maps.h"
#include "python.h"
#include "status.h"

/* ---- what plugins read of a value ---- */

/* `out` is what the slot's reader set; the first argument is checked after it has a defined value. */
#define GETTER(object, out, otherwise) \
  do {                                 \
    REQUIRE_ARG((out) != NULL);        \
    *(out) = (otherwise);              \
    REQUIRE_ARG((object) != NULL);     \
  } while (0)

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetValueInfoName)(const OrtValueInfo* value_info, const char** name) {
  GETTER(value_info, name, NULL);
  *name = value_info->name;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, GetValueInfoTypeInfo)(const OrtValueInfo* value_info,
                                                           const OrtTypeInfo** type_info) {
  GETTER(value_info, type_info, NULL);
  *type_info = value_info->type;
  return NULL;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseValueInfo)(OrtValueInfo* input) {
  if (input != NULL && !input->owned_by_graph) value_info_free(input);
}

/* producer_output_index may be NULL. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_GetValueProducer)(const OrtValueInfo* value_info,
                                                                 const OrtNode** producer_node,
                                                                 size_t* producer_output_index) {
  if (producer_output_index != NULL) *producer_output_index = 0;
  GETTER(value_info, producer_node, NULL);
  *producer_node = value_info->producer;
  if (producer_output_index != NULL) *producer_output_index = value_info->producer_output;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_GetValueNumConsumers)(const OrtValueInfo* value_info,
                                                                     size_t* num_consumers) {
  GETTER(value_info, num_consumers, 0);
  *num_consumers = value_info->consumer_count;
  return NULL;
}

static OrtStatus* too_little_room(const char* function, size_t room, size_t count) {
  return status_new(ORT_INVALID_ARGUMENT, "%s: there are %zu, but room for %zu", function, count, room);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_GetValueConsumers)(const OrtValueInfo* value_info,
                                                                  const OrtNode** nodes,
                                                                  int64_t* input_indices,
                                                                  size_t num_consumers) {
  REQUIRE_ARG(value_info != NULL);
  if (num_consumers < value_info->consumer_count) {
    return too_little_room(__func__, num_consumers, value_info->consumer_count);
  }
  if (value_info->consumer_count == 0) return NULL;
  REQUIRE_ARG(nodes != NULL);
  REQUIRE_ARG(input_indices != NULL);
  for (size_t i = 0; i < value_info->consumer_count; ++i) {
    nodes[i] = value_info->consumers[i].node;
    input_indices[i] = value_info->consumers[i].input;
  }
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_GetInitializerValue)(const OrtValueInfo* value_info,
                                                                    const OrtValue** initializer_value) {
  GETTER(value_info, initializer_value, NULL);
  *initializer_value = value_info->initializer;
  return NULL;
}

/* The caller releases the info, which is NULL for a value whose data is not in a file of its own. */
OrtStatus* ORT_API_CALL SLOT(OrtApi,
                             ValueInfo_GetExternalInitializerInfo)(const OrtValueInfo* value_info,
                                                                   OrtExternalInitializerInfo** info) {
  GETTER(value_info, info, NULL);
  const OrtExternalInitializerInfo* external = value_info->external;
  if (external == NULL) return NULL;
  return SLOT(OrtApi, CreateExternalInitializerInfo)(external->path, external->offset, external->nbytes,
                                                     info);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_IsRequiredGraphInput)(const OrtValueInfo* value_info,
                                                                     bool* is_required_graph_input) {
  GETTER(value_info, is_required_graph_input, false);
  *is_required_graph_input = value_info->is_required_input;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_IsOptionalGraphInput)(const OrtValueInfo* value_info,
                                                                     bool* is_optional_graph_input) {
  GETTER(value_info, is_optional_graph_input, false);
  *is_optional_graph_input = value_info->is_optional_input;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_IsGraphOutput)(const OrtValueInfo* value_info,
                                                              bool* is_graph_output) {
  GETTER(value_info, is_graph_output, false);
  *is_graph_output = value_info->is_graph_output;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_IsConstantInitializer)(const OrtValueInfo* value_info,
                                                                      bool* is_constant_initializer) {
  GETTER(value_info, is_constant_initializer, false);
  *is_constant_initializer = value_info->is_constant_initializer;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, ValueInfo_IsFromOuterScope)(const OrtValueInfo* value_info,
                                                                 bool* is_from_outer_scope) {
  GETTER(value_info, is_from_outer_scope, false);
  *is_from_outer_scope = value_info->is_from_outer_scope;
  return NULL;
}

size_t path_bytes(const ORTCHAR_T* path) {
  size_t length = 0;
  while (path[length] != 0) ++length;
  return (length + 1) * sizeof(ORTCHAR_T);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateExternalInitializerInfo)(const ORTCHAR_T* filepath,
                                                                    int64_t file_offset, size_t byte_size,
                                                                    OrtExternalInitializerInfo** out) {
  GETTER(filepath, out, NULL);
  OrtExternalInitializerInfo* info = host_malloc(sizeof *info + path_bytes(filepath));
  if (info == NULL) return status_no_memory();
  info->path = memcpy(info + 1, filepath, path_bytes(filepath));
  info->offset = file_offset;
  info->nbytes = byte_size;
  handle_count(HANDLE_OTHER, 1);
  *out = info;
  return NULL;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseExternalInitializerInfo)(OrtExternalInitializerInfo* input) {
  if (input == NULL) return;
  host_free(input);
  handle_count(HANDLE_OTHER, -1);
}

const ORTCHAR_T* ORT_API_CALL
SLOT(OrtApi, ExternalInitializerInfo_GetFilePath)(const OrtExternalInitializerInfo* info) {
  return info != NULL ? info->path : NULL;
}

int64_t ORT_API_CALL SLOT(OrtApi,
                          ExternalInitializerInfo_GetFileOffset)(const OrtExternalInitializerInfo* info) {
  return info != NULL ? info->offset : 0;
}

size_t ORT_API_CALL SLOT(OrtApi,
                         ExternalInitializerInfo_GetByteSize)(const OrtExternalInitializerInfo* info) {
  return info != NULL ? info->nbytes : 0;
}

/* ---- what plugins read of a graph ---- */

/* Copies handles into a plugin's array. Both are arrays of pointers to objects. */
static OrtStatus* copy_out(const char* function, const void* items, size_t count, void* out, size_t room) {
  if (room < count) return too_little_room(function, room, count);
  if (count == 0) return NULL;
  if (out == NULL) return status_new(ORT_INVALID_ARGUMENT, "%s: the array is NULL", function);
  memcpy(out, items, count * sizeof(void*));
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetName)(const OrtGraph* graph, const char** graph_name) {
  GETTER(graph, graph_name, NULL);
  *graph_name = graph->name;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetModelPath)(const OrtGraph* graph,
                                                         const ORTCHAR_T** model_path) {
  static const ORTCHAR_T none[1] = {0};
  GETTER(graph, model_path, none);
  const OrtGraph* root = graph_root(graph);
  if (root->model_path != NULL) *model_path = root->model_path;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetOnnxIRVersion)(const OrtGraph* graph,
                                                             int64_t* onnx_ir_version) {
  GETTER(graph, onnx_ir_version, 0);
  *onnx_ir_version = graph_root(graph)->ir_version;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetNumOperatorSets)(const OrtGraph* graph,
                                                               size_t* num_operator_sets) {
  GETTER(graph, num_operator_sets, 0);
  *num_operator_sets = graph_root(graph)->opset_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetOperatorSets)(const OrtGraph* graph, const char** domains,
                                                            int64_t* opset_versions,
                                                            size_t num_operator_sets) {
  REQUIRE_ARG(graph != NULL);
  const OrtGraph* root = graph_root(graph);
  if (num_operator_sets < root->opset_count)
    return too_little_room(__func__, num_operator_sets, root->opset_count);
  if (root->opset_count == 0) return NULL;
  REQUIRE_ARG(domains != NULL);
  REQUIRE_ARG(opset_versions != NULL);
  for (size_t i = 0; i < root->opset_count; ++i) {
    domains[i] = root->opset_domains[i];
    opset_versions[i] = root->opset_versions[i];
  }
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetNumInputs)(const OrtGraph* graph, size_t* num_inputs) {
  GETTER(graph, num_inputs, 0);
  *num_inputs = graph->input_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetInputs)(const OrtGraph* graph, const OrtValueInfo** inputs,
                                                      size_t num_inputs) {
  REQUIRE_ARG(graph != NULL);
  return copy_out(__func__, graph->inputs, graph->input_count, inputs, num_inputs);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetNumOutputs)(const OrtGraph* graph, size_t* num_outputs) {
  GETTER(graph, num_outputs, 0);
  *num_outputs = graph->output_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetOutputs)(const OrtGraph* graph, const OrtValueInfo** outputs,
                                                       size_t num_outputs) {
  REQUIRE_ARG(graph != NULL);
  return copy_out(__func__, graph->outputs, graph->output_count, outputs, num_outputs);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetNumInitializers)(const OrtGraph* graph,
                                                               size_t* num_initializers) {
  GETTER(graph, num_initializers, 0);
  *num_initializers = graph->initializer_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetInitializers)(const OrtGraph* graph,
                                                            const OrtValueInfo** initializers,
                                                            size_t num_initializers) {
  REQUIRE_ARG(graph != NULL);
  return copy_out(__func__, graph->initializers, graph->initializer_count, initializers, num_initializers);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetNumNodes)(const OrtGraph* graph, size_t* num_nodes) {
  GETTER(graph, num_nodes, 0);
  *num_nodes = graph->node_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetNodes)(const OrtGraph* graph, const OrtNode** nodes,
                                                     size_t num_nodes) {
  REQUIRE_ARG(graph != NULL);
  return copy_out(__func__, graph->nodes, graph->node_count, nodes, num_nodes);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetParentNode)(const OrtGraph* graph, const OrtNode** node) {
  GETTER(graph, node, NULL);
  *node = graph->parent_node;
  return NULL;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseGraph)(OrtGraph* input) {
  if (input != NULL && input->plugin_owned) graph_free(input);
}

/* ---- what plugins read of a node ---- */

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetId)(const OrtNode* node, size_t* node_id) {
  GETTER(node, node_id, 0);
  *node_id = node->id;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetName)(const OrtNode* node, const char** node_name) {
  GETTER(node, node_name, NULL);
  *node_name = node->name;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetOperatorType)(const OrtNode* node, const char** operator_type) {
  GETTER(node, operator_type, NULL);
  *operator_type = node->op_type;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetDomain)(const OrtNode* node, const char** domain_name) {
  GETTER(node, domain_name, NULL);
  *domain_name = node->domain;
  return NULL;
}

/* A node that is not in a graph yet has names only: its version and its values depend on the graph. */
static OrtStatus* not_in_a_graph(const char* function, const OrtNode* node) {
  return status_new(ORT_NOT_IMPLEMENTED, "%s: node '%s' is not in a graph", function, node->name);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetSinceVersion)(const OrtNode* node, int* since_version) {
  GETTER(node, since_version, 0);
  if (node->graph == NULL) return not_in_a_graph(__func__, node);
  *since_version = node->since_version;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetNumInputs)(const OrtNode* node, size_t* num_inputs) {
  GETTER(node, num_inputs, 0);
  *num_inputs = node->input_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetInputs)(const OrtNode* node, const OrtValueInfo** inputs,
                                                     size_t num_inputs) {
  REQUIRE_ARG(node != NULL);
  if (node->graph == NULL) return not_in_a_graph(__func__, node);
  return copy_out(__func__, node->inputs, node->input_count, inputs, num_inputs);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetNumOutputs)(const OrtNode* node, size_t* num_outputs) {
  GETTER(node, num_outputs, 0);
  *num_outputs = node->output_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetOutputs)(const OrtNode* node, const OrtValueInfo** outputs,
                                                      size_t num_outputs) {
  REQUIRE_ARG(node != NULL);
  if (node->graph == NULL) return not_in_a_graph(__func__, node);
  return copy_out(__func__, node->outputs, node->output_count, outputs, num_outputs);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetNumImplicitInputs)(const OrtNode* node,
                                                                size_t* num_implicit_inputs) {
  GETTER(node, num_implicit_inputs, 0);
  *num_implicit_inputs = node->implicit_input_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetImplicitInputs)(const OrtNode* node,
                                                             const OrtValueInfo** implicit_inputs,
                                                             size_t num_implicit_inputs) {
  REQUIRE_ARG(node != NULL);
  return copy_out(__func__, node->implicit_inputs, node->implicit_input_count, implicit_inputs,
                  num_implicit_inputs);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetNumAttributes)(const OrtNode* node, size_t* num_attributes) {
  GETTER(node, num_attributes, 0);
  *num_attributes = node->attribute_count;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetAttributes)(const OrtNode* node, const OrtOpAttr** attributes,
                                                         size_t num_attributes) {
  REQUIRE_ARG(node != NULL);
  return copy_out(__func__, node->attributes, node->attribute_count, attributes, num_attributes);
}

const OrtOpAttr* node_attribute(const OrtNode* node, const char* name) {
  for (size_t i = 0; i < node->attribute_count; ++i) {
    if (strcmp(node->attributes[i]->name, name) == 0) return node->attributes[i];
  }
  return NULL;
}

/* An optional attribute that the operator knows but the node does not set is NULL without an error; one that
 * the operator does not know is NOT_FOUND. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetAttributeByName)(const OrtNode* node, const char* attribute_name,
                                                              const OrtOpAttr** attribute) {
  GETTER(node, attribute, NULL);
  REQUIRE_ARG(attribute_name != NULL);
  *attribute = node_attribute(node, attribute_name);
  if (*attribute != NULL) return NULL;
  for (size_t i = 0; i < node->schema_attribute_count; ++i) {
    if (strcmp(node->schema_attributes[i], attribute_name) == 0) return NULL;
  }
  return status_new(ORT_NOT_FOUND, "node '%s' (%s) has no attribute '%s'", node->name, node->op_type,
                    attribute_name);
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetNumSubgraphs)(const OrtNode* node, size_t* num_subgraphs) {
  GETTER(node, num_subgraphs, 0);
  for (size_t i = 0; i < node->attribute_count; ++i) {
    if (node->attributes[i]->type == ORT_OP_ATTR_GRAPH) ++*num_subgraphs;
  }
  return NULL;
}

/* attribute_names may be NULL. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetSubgraphs)(const OrtNode* node, const OrtGraph** subgraphs,
                                                        size_t num_subgraphs, const char** attribute_names) {
  size_t count = 0;
  OrtStatus* status = SLOT(OrtApi, Node_GetNumSubgraphs)(node, &count);
  if (status != NULL) return status;
  if (num_subgraphs < count) return too_little_room(__func__, num_subgraphs, count);
  REQUIRE_ARG(count == 0 || subgraphs != NULL);
  count = 0;
  for (size_t i = 0; i < node->attribute_count; ++i) {
    const OrtOpAttr* attribute = node->attributes[i];
    if (attribute->type != ORT_OP_ATTR_GRAPH) continue;
    subgraphs[count] = attribute->graph;
    if (attribute_names != NULL) attribute_names[count] = attribute->name;
    ++count;
  }
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetGraph)(const OrtNode* node, const OrtGraph** graph) {
  GETTER(node, graph, NULL);
  *graph = node->graph;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, Node_GetEpName)(const OrtNode* node, const char** out) {
  GETTER(node, out, NULL);
  *out = node->ep_name;
  return NULL;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseNode)(OrtNode* input) {
  if (input != NULL && !input->owned_by_graph) node_free(input);
}
