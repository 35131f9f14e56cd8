/* OrtGraph, OrtNode and OrtValueInfo: how they are made, how their links are worked out, and what plugins
 * read of them. Views are made in graph_view.c, what plugins build themselves in model_editor.c. */
#include <string.h>

#include "maps.h"
#include "native.h"
#include "python.h"

/* ---- making and freeing ---- */

bool pointers_push(void* array, size_t* count, const void* item) {
  void** items = NULL;
  memcpy(&items, array, sizeof(void*));
  if ((*count & (*count - 1)) == 0) { /* 0 or a power of two: full */
    items = host_realloc(items, (*count > 0 ? *count * 2 : 1) * sizeof(void*));
    if (items == NULL) return false;
    memcpy(array, &items, sizeof(void*));
  }
  memcpy(&items[(*count)++], &item, sizeof(void*));
  return true;
}

OrtGraph* graph_new(const char* name) {
  OrtGraph* graph = host_calloc(1, sizeof *graph);
  if (graph == NULL) return NULL;
  graph->name = host_strdup(name);
  if (graph->name == NULL) {
    host_free(graph);
    return NULL;
  }
  handle_count(HANDLE_GRAPH, 1);
  return graph;
}

/* One block with the name behind it. */
OrtValueInfo* value_info_new(const char* name, OrtTypeInfo* type) {
  size_t name_size = strlen(name) + 1;
  OrtValueInfo* value = host_malloc(sizeof *value + name_size);
  if (value == NULL) return NULL;
  memset(value, 0, sizeof *value);
  value->name = memcpy(value + 1, name, name_size);
  value->type = type;
  value->origin = value;
  handle_count(HANDLE_OTHER, 1);
  return value;
}

void value_info_free(OrtValueInfo* value) {
  if (value == NULL) return;
  if (value->origin == value) {
    type_info_free(value->type);
    if (value->owns_initializer) SLOT(OrtApi, ReleaseValue)(value->initializer);
    SLOT(OrtApi, ReleaseExternalInitializerInfo)(value->external);
  }
  host_free(value);
  handle_count(HANDLE_OTHER, -1);
}

OrtNode* node_new(size_t input_count, size_t output_count, size_t implicit_count, size_t text_size) {
  size_t pointers = input_count + output_count + implicit_count;
  OrtNode* node = host_calloc(1, sizeof *node + pointers * sizeof(OrtValueInfo*) + text_size);
  if (node == NULL) return NULL;
  OrtValueInfo** places = (OrtValueInfo**)(node + 1);
  node->inputs = places;
  node->input_count = input_count;
  node->outputs = places + input_count;
  node->output_count = output_count;
  node->implicit_inputs = implicit_count > 0 ? node->outputs + output_count : NULL;
  node->implicit_input_count = implicit_count;
  node->origin = node;
  node->ep_name = "";
  handle_count(HANDLE_OTHER, 1);
  return node;
}

void node_free(OrtNode* node) {
  if (node == NULL) return;
  if (node->origin == node) {
    for (size_t i = 0; i < node->attribute_count; ++i) attribute_free(node->attributes[i]);
    host_free(node->attributes);
    host_free(node->implicit_inputs); /* in a view they lie in the node's own block */
  }
  host_free(node);
  handle_count(HANDLE_OTHER, -1);
}

void graph_free(OrtGraph* graph) {
  if (graph == NULL) return;
  for (size_t i = 0; i < graph->node_count; ++i) node_free(graph->nodes[i]);
  host_free(graph->nodes);
  for (size_t i = 0; i < graph->value_count; ++i) value_info_free(graph->values[i]);
  host_free(graph->values);
  host_free(graph->inputs);
  host_free(graph->outputs);
  host_free(graph->initializers);
  host_free(graph->consumer_block);
  for (size_t i = 0; i < graph->opset_count; ++i) host_free(graph->opset_domains[i]);
  host_free(graph->opset_domains);
  host_free(graph->opset_versions);
  host_free(graph->model_path);
  model_metadata_free(graph->metadata);
  host_free((char*)graph->name);
  host_free(graph);
  handle_count(HANDLE_GRAPH, -1);
}

OrtValueInfo* graph_add_value(OrtGraph* graph, const char* name, OrtTypeInfo* type) {
  OrtValueInfo* value = value_info_new(name, type);
  if (value == NULL) return NULL;
  value->graph = graph;
  value->owned_by_graph = true;
  if (!pointers_push(&graph->values, &graph->value_count, value)) {
    value->type = NULL; /* still the caller's */
    value_info_free(value);
    return NULL;
  }
  return value;
}

const OrtGraph* graph_root(const OrtGraph* graph) {
  for (;;) {
    if (graph->view_of != NULL) {
      graph = graph->view_of;
    } else if (graph->parent_node != NULL && graph->parent_node->graph != NULL) {
      graph = graph->parent_node->graph;
    } else {
      return graph;
    }
  }
}

/* ---- links ---- */

static OrtTypeInfo* unknown_type(void) {
  OrtTypeInfo* type = type_info_new(ONNX_TYPE_TENSOR);
  if (type == NULL) return NULL;
  type->tensor = tensor_info_new(ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED, false, NULL, NULL, 0);
  if (type->tensor != NULL) return type;
  type_info_free(type);
  return NULL;
}

/* The values of an editor's graph by name: an input or initializer if there is one, else an output of the
 * graph, else one made for it. */
static OrtStatus* editor_connect(OrtGraph* graph) {
  size_t names = graph->value_count;
  for (size_t i = 0; i < graph->node_count; ++i)
    names += graph->nodes[i]->input_count + graph->nodes[i]->output_count;
  NameMap values;
  if (!name_map_init(&values, names)) return status_no_memory();
  OrtStatus* status = NULL;
  for (size_t i = 0; i < graph->input_count; ++i) {
    OrtValueInfo* value = graph->inputs[i];
    void** place = name_map_at(&values, value->name);
    if (*place != NULL) status = status_new(ORT_INVALID_GRAPH, "two inputs have the name '%s'", value->name);
    if (status != NULL) goto done;
    *place = value;
  }
  for (size_t i = 0; i < graph->initializer_count; ++i) {
    OrtValueInfo* value = graph->initializers[i];
    void** place = name_map_at(&values, value->name);
    OrtValueInfo* input = *place;
    if (input == NULL) {
      *place = value;
    } else if (input != value) { /* the input has a default value, which moves to it */
      input->is_initializer = true;
      input->initializer = value->initializer;
      input->owns_initializer = value->owns_initializer;
      value->owns_initializer = false;
      value->initializer = NULL;
      value->is_initializer = false;
      graph->initializers[i] = input;
    }
  }
  for (size_t i = 0; i < graph->output_count; ++i) {
    void** place = name_map_at(&values, graph->outputs[i]->name);
    if (*place == NULL) *place = graph->outputs[i];
    graph->outputs[i] = *place;
  }
  for (size_t i = 0; i < graph->node_count; ++i) {
    OrtNode* node = graph->nodes[i];
    node->graph = graph;
    for (size_t k = 0; k < node->input_count + node->output_count; ++k) {
      bool input = k < node->input_count;
      const char* name = input ? node->editor_inputs[k] : node->editor_outputs[k - node->input_count];
      OrtValueInfo* value = NULL;
      if (name[0] != '\0') {
        void** place = name_map_at(&values, name);
        if (*place == NULL) {
          OrtTypeInfo* type = unknown_type();
          if (type != NULL) *place = graph_add_value(graph, name, type);
          if (*place == NULL) {
            type_info_free(type);
            status = status_no_memory();
            goto done;
          }
        }
        value = *place;
      }
      if (input) {
        node->inputs[k] = value;
      } else {
        node->outputs[k - node->input_count] = value;
      }
    }
  }
done:
  name_map_clear(&values);
  return status;
}

static bool reads(const OrtNode* node, const OrtValueInfo* value) {
  for (size_t i = 0; i < node->input_count; ++i) {
    if (node->inputs[i] == value) return true;
  }
  return false;
}

OrtStatus* graph_resolve(OrtGraph* graph) {
  if (graph->from_editor && graph->view_of == NULL) {
    OrtStatus* status = editor_connect(graph);
    if (status != NULL) return status;
  }
  for (size_t i = 0; i < graph->value_count; ++i) {
    OrtValueInfo* value = graph->values[i];
    value->producer = NULL;
    value->producer_output = 0;
    value->consumers = NULL;
    value->consumer_count = 0;
    value->is_required_input = false;
    value->is_optional_input = value->is_initializer && !value->is_constant_initializer;
    value->is_graph_output = false;
  }
  /* Models older than IR version 4 list all initializers as inputs, without meaning that a caller may set
   * them. An initializer of an outer graph has to be given to a view like any other value from there. */
  bool may_override = graph_root(graph)->ir_version >= 4;
  for (size_t i = 0; i < graph->input_count; ++i) {
    OrtValueInfo* value = graph->inputs[i];
    value->is_required_input = !value->is_initializer || value->is_from_outer_scope;
    if (!value->is_required_input && may_override) value->is_optional_input = true;
  }
  for (size_t i = 0; i < graph->output_count; ++i) graph->outputs[i]->is_graph_output = true;

  size_t total = 0; /* consumers of all values */
  for (size_t n = 0; n < graph->node_count; ++n) {
    OrtNode* node = graph->nodes[n];
    node->index = n;
    for (size_t i = 0; i < node->output_count; ++i) {
      OrtValueInfo* value = node->outputs[i];
      if (value == NULL) continue;
      bool given = value->is_initializer || value->is_from_outer_scope;
      /* A value that is an input of a view may be produced by a node outside of it, but not by one inside. */
      if (value->producer != NULL || given || value->is_required_input) {
        return status_new(ORT_INVALID_GRAPH,
                          "graph '%s': value '%s' is an output of node '%s' (%s), but is %s", graph->name,
                          value->name, node->name, node->op_type,
                          value->producer != NULL ? "an output of another node too" : "given as well");
      }
      value->producer = node;
      value->producer_output = i;
    }
    for (size_t i = 0; i < node->input_count; ++i) {
      if (node->inputs[i] == NULL) continue;
      ++node->inputs[i]->consumer_count;
      ++total;
    }
    for (size_t i = 0; i < node->implicit_input_count; ++i) {
      if (reads(node, node->implicit_inputs[i])) continue;
      ++node->implicit_inputs[i]->consumer_count;
      ++total;
    }
  }

  host_free(graph->consumer_block);
  graph->consumer_block = host_malloc(total * sizeof(Consumer));
  if (graph->consumer_block == NULL) {
    for (size_t i = 0; i < graph->value_count; ++i) graph->values[i]->consumer_count = 0;
    return status_no_memory();
  }
  Consumer* next = graph->consumer_block;
  for (size_t i = 0; i < graph->value_count; ++i) {
    OrtValueInfo* value = graph->values[i];
    value->consumers = next;
    next += value->consumer_count;
    value->consumer_count = 0;
  }
  for (size_t n = 0; n < graph->node_count; ++n) {
    OrtNode* node = graph->nodes[n];
    for (size_t i = 0; i < node->input_count; ++i) {
      OrtValueInfo* value = node->inputs[i];
      if (value != NULL) value->consumers[value->consumer_count++] = (Consumer){node, (int64_t)i};
    }
    for (size_t i = 0; i < node->implicit_input_count; ++i) {
      OrtValueInfo* value = node->implicit_inputs[i];
      if (!reads(node, value)) value->consumers[value->consumer_count++] = (Consumer){node, -1};
    }
  }
  return NULL;
}

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

static size_t path_bytes(const ORTCHAR_T* path) {
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

/* ---- what Python calls to build a graph ---- */

/* Names of EPs are few and live as long as the process: nodes and views share them. */
static const char* intern(const char* text) {
  static atomic_flag busy = ATOMIC_FLAG_INIT;
  static char** names;
  static size_t count;
  if (text == NULL || text[0] == '\0') return "";
  while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) continue;
  const char* found = NULL;
  for (size_t i = 0; i < count && found == NULL; ++i) {
    if (strcmp(names[i], text) == 0) found = names[i];
  }
  if (found == NULL) {
    char* copy = host_strdup(text);
    if (copy != NULL && pointers_push(&names, &count, copy)) {
      found = copy;
    } else {
      host_free(copy);
    }
  }
  atomic_flag_clear_explicit(&busy, memory_order_release);
  return found;
}

OrtGraph* ephost_graph_new(const char* name, int64_t ir_version, const ORTCHAR_T* model_path) {
  OrtGraph* graph = graph_new(name != NULL ? name : "");
  if (graph == NULL) return NULL;
  graph->ir_version = ir_version;
  if (model_path != NULL) {
    graph->model_path = host_memdup(model_path, path_bytes(model_path));
    if (graph->model_path == NULL) {
      graph_free(graph);
      return NULL;
    }
  }
  return graph;
}

void ephost_graph_free(OrtGraph* graph) { graph_free(graph); }

bool ephost_graph_add_opset(OrtGraph* graph, const char* domain, int64_t version) {
  size_t count = graph->opset_count + 1;
  char** domains = host_realloc(graph->opset_domains, count * sizeof *domains);
  if (domains == NULL) return false;
  graph->opset_domains = domains;
  int64_t* versions = host_realloc(graph->opset_versions, count * sizeof *versions);
  if (versions == NULL) return false;
  graph->opset_versions = versions;
  domains[count - 1] = host_strdup(domain);
  if (domains[count - 1] == NULL) return false;
  versions[count - 1] = version;
  graph->opset_count = count;
  return true;
}

OrtValueInfo* ephost_graph_add_value(OrtGraph* graph, const char* name, OrtTypeInfo* type) {
  OrtTypeInfo* made = type != NULL ? type : unknown_type();
  OrtValueInfo* value = made != NULL ? graph_add_value(graph, name, made) : NULL;
  if (value == NULL && made != type) type_info_free(made);
  return value;
}

OrtValueInfo* ephost_graph_add_tensor(OrtGraph* graph, const char* name, int element_type, int64_t rank,
                                      const int64_t* dims, const char* const* symbols) {
  OrtTypeInfo* type = type_info_new(ONNX_TYPE_TENSOR);
  if (type == NULL) return NULL;
  size_t dimensions = rank < 0 ? 0 : (size_t)rank;
  type->tensor =
      tensor_info_new((ONNXTensorElementDataType)element_type, rank >= 0, dims, symbols, dimensions);
  OrtValueInfo* value = type->tensor != NULL ? graph_add_value(graph, name, type) : NULL;
  if (value == NULL) type_info_free(type);
  return value;
}

/* The graph is a value's only while it is built: values name it as const because plugins only read it. */
static OrtGraph* graph_of(OrtValueInfo* value) { return (OrtGraph*)value->graph; }

bool ephost_value_set_initializer(OrtValueInfo* value, OrtValue* data, bool take_over, bool constant) {
  if (!value->is_initializer && !value->is_from_outer_scope) {
    OrtGraph* graph = graph_of(value);
    if (!pointers_push(&graph->initializers, &graph->initializer_count, value)) return false;
  }
  if (value->owns_initializer) SLOT(OrtApi, ReleaseValue)(value->initializer);
  value->initializer = data;
  value->owns_initializer = take_over && data != NULL;
  value->is_initializer = true;
  value->is_constant_initializer = constant;
  return true;
}

bool ephost_value_set_external(OrtValueInfo* value, const ORTCHAR_T* path, int64_t offset, size_t nbytes) {
  OrtExternalInitializerInfo* info = NULL;
  OrtStatus* status = SLOT(OrtApi, CreateExternalInitializerInfo)(path, offset, nbytes, &info);
  if (status != NULL) {
    SLOT(OrtApi, ReleaseStatus)(status);
    return false;
  }
  SLOT(OrtApi, ReleaseExternalInitializerInfo)(value->external);
  value->external = info;
  return true;
}

void ephost_value_set_outer_scope(OrtValueInfo* value) { value->is_from_outer_scope = true; }

bool ephost_graph_add_input(OrtGraph* graph, OrtValueInfo* value) {
  return pointers_push(&graph->inputs, &graph->input_count, value);
}

bool ephost_graph_add_output(OrtGraph* graph, OrtValueInfo* value) {
  return pointers_push(&graph->outputs, &graph->output_count, value);
}

/* A node with its texts behind it in its block; its inputs and outputs are for the caller to set. */
static OrtNode* add_node(OrtGraph* graph, size_t id, const char* const texts[3], int since_version,
                         const char* ep, size_t input_count, size_t output_count) {
  size_t sizes[3] = {strlen(texts[0]) + 1, strlen(texts[1]) + 1, strlen(texts[2]) + 1};
  OrtNode* node = node_new(input_count, output_count, 0, sizes[0] + sizes[1] + sizes[2]);
  if (node == NULL || !pointers_push(&graph->nodes, &graph->node_count, node)) {
    node_free(node);
    return NULL;
  }
  char* own = (char*)(node->outputs + output_count);
  node->id = id;
  node->index = graph->node_count - 1;
  node->name = memcpy(own, texts[0], sizes[0]);
  node->op_type = memcpy(own + sizes[0], texts[1], sizes[1]);
  node->domain = memcpy(own + sizes[0] + sizes[1], texts[2], sizes[2]);
  node->ep_name = ep;
  node->since_version = since_version;
  node->graph = graph;
  node->owned_by_graph = true;
  return node;
}

OrtNode* ephost_graph_add_node(OrtGraph* graph, size_t id, const char* name, const char* op_type,
                               const char* domain, int since_version, const char* ep_name,
                               OrtValueInfo** inputs, size_t input_count, OrtValueInfo** outputs,
                               size_t output_count) {
  const char* texts[3] = {name, op_type, domain};
  const char* ep = intern(ep_name);
  OrtNode* node =
      ep != NULL ? add_node(graph, id, texts, since_version, ep, input_count, output_count) : NULL;
  if (node == NULL) return NULL;
  if (input_count > 0) memcpy(node->inputs, inputs, input_count * sizeof *inputs);
  if (output_count > 0) memcpy(node->outputs, outputs, output_count * sizeof *outputs);
  return node;
}

void ephost_node_set_schema(OrtNode* node, const char* const* input_params, const char* const* input_formals,
                            const char* const* output_params, const char* const* output_formals,
                            const char* const* attributes, size_t attribute_count) {
  node->input_params = input_params;
  node->input_formals = input_formals;
  node->output_params = output_params;
  node->output_formals = output_formals;
  node->schema_attributes = attributes;
  node->schema_attribute_count = attribute_count;
}

void ephost_node_set_constraint_names(OrtNode* node, const char* const* names, size_t count) {
  node->constraint_names = names;
  node->constraint_name_count = count;
}

bool ephost_graph_add_tensors(OrtGraph* graph, const char* names, const EphostTensorType* const* types,
                              size_t count, OrtValueInfo** out) {
  for (size_t i = 0; i < count; ++i) {
    const EphostTensorType* type = types[i];
    if (type != NULL) {
      out[i] =
          ephost_graph_add_tensor(graph, names, type->element_type, type->rank, type->dims, type->symbols);
      if (out[i] == NULL) return false;
    }
    names += strlen(names) + 1;
  }
  return true;
}

bool ephost_graph_add_nodes(OrtGraph* graph, const EphostNode* nodes, size_t count, const char* texts,
                            OrtValueInfo* const* values, const int32_t* links, OrtNode** out) {
  const char* ep = "";
  for (size_t i = 0; i < count; ++i) {
    const char* text[4];
    for (size_t k = 0; k < 4; ++k) {
      text[k] = texts;
      texts += strlen(texts) + 1;
    }
    if (strcmp(ep, text[3]) != 0 && (ep = intern(text[3])) == NULL) return false;
    OrtNode* node = add_node(graph, nodes[i].id, text, nodes[i].since_version, ep, nodes[i].input_count,
                             nodes[i].output_count);
    if (node == NULL) return false;
    for (size_t k = 0; k < nodes[i].input_count; ++k, ++links)
      node->inputs[k] = *links < 0 ? NULL : values[*links];
    for (size_t k = 0; k < nodes[i].output_count; ++k, ++links)
      node->outputs[k] = *links < 0 ? NULL : values[*links];
    const EphostSchema* schema = nodes[i].schema;
    if (schema != NULL) {
      ephost_node_set_schema(node, schema->input_params, schema->input_formals, schema->output_params,
                             schema->output_formals, schema->attributes, schema->attribute_count);
    }
    out[i] = node;
  }
  return true;
}

bool ephost_node_set_ep_name(OrtNode* node, const char* ep_name) {
  const char* name = intern(ep_name);
  if (name != NULL) node->ep_name = name;
  return name != NULL;
}

bool ephost_node_add_implicit_input(OrtNode* node, OrtValueInfo* value) {
  return pointers_push(&node->implicit_inputs, &node->implicit_input_count, value);
}

static bool add_attribute(OrtNode* node, OrtOpAttr* attribute) {
  if (attribute == NULL) return false;
  if (pointers_push(&node->attributes, &node->attribute_count, attribute)) return true;
  attribute->tensor = NULL; /* still the caller's */
  attribute->graph = NULL;
  attribute_free(attribute);
  return false;
}

bool ephost_node_add_int(OrtNode* node, const char* name, int64_t value) {
  return add_attribute(node, attribute_of_ints(name, ORT_OP_ATTR_INT, &value, 1));
}

bool ephost_node_add_ints(OrtNode* node, const char* name, const int64_t* values, size_t count) {
  return add_attribute(node, attribute_of_ints(name, ORT_OP_ATTR_INTS, values, count));
}

bool ephost_node_add_float(OrtNode* node, const char* name, float value) {
  return add_attribute(node, attribute_of_floats(name, ORT_OP_ATTR_FLOAT, &value, 1));
}

bool ephost_node_add_floats(OrtNode* node, const char* name, const float* values, size_t count) {
  return add_attribute(node, attribute_of_floats(name, ORT_OP_ATTR_FLOATS, values, count));
}

bool ephost_node_add_string(OrtNode* node, const char* name, const char* text, size_t length) {
  return add_attribute(node, attribute_of_strings(name, ORT_OP_ATTR_STRING, &text, &length, 1));
}

bool ephost_node_add_strings(OrtNode* node, const char* name, const char* const* texts, const size_t* lengths,
                             size_t count) {
  return add_attribute(node, attribute_of_strings(name, ORT_OP_ATTR_STRINGS, texts, lengths, count));
}

bool ephost_node_add_tensor(OrtNode* node, const char* name, OrtValue* tensor) {
  return add_attribute(node, attribute_of_tensor(name, tensor));
}

bool ephost_node_add_graph(OrtNode* node, const char* name, OrtGraph* subgraph) {
  if (!add_attribute(node, attribute_of_graph(name, subgraph))) return false;
  subgraph->parent_node = node;
  return true;
}

void ephost_graph_set_parent(OrtGraph* subgraph, const OrtNode* node) { subgraph->parent_node = node; }

OrtStatus* ephost_graph_finish(OrtGraph* graph) {
  REQUIRE_ARG(graph != NULL);
  return graph_resolve(graph);
}

/* ---- what Python reads, of its own graphs and of those that plugins make ---- */

const char* ephost_graph_name(const OrtGraph* graph) { return graph->name; }
size_t ephost_graph_value_count(const OrtGraph* graph) { return graph->value_count; }
OrtValueInfo* ephost_graph_value(const OrtGraph* graph, size_t index) { return graph->values[index]; }
size_t ephost_graph_input_count(const OrtGraph* graph) { return graph->input_count; }
OrtValueInfo* ephost_graph_input(const OrtGraph* graph, size_t index) { return graph->inputs[index]; }
size_t ephost_graph_output_count(const OrtGraph* graph) { return graph->output_count; }
OrtValueInfo* ephost_graph_output(const OrtGraph* graph, size_t index) { return graph->outputs[index]; }
size_t ephost_graph_initializer_count(const OrtGraph* graph) { return graph->initializer_count; }
OrtValueInfo* ephost_graph_initializer(const OrtGraph* graph, size_t index) {
  return graph->initializers[index];
}
size_t ephost_graph_node_count(const OrtGraph* graph) { return graph->node_count; }
OrtNode* ephost_graph_node(const OrtGraph* graph, size_t index) { return graph->nodes[index]; }

const char* ephost_value_name(const OrtValueInfo* value) { return value->name; }
const OrtTypeInfo* ephost_value_type(const OrtValueInfo* value) { return value->type; }
const OrtValue* ephost_value_initializer(const OrtValueInfo* value) { return value->initializer; }

size_t ephost_node_id(const OrtNode* node) { return node->id; }
const char* ephost_node_name(const OrtNode* node) { return node->name; }
const char* ephost_node_op_type(const OrtNode* node) { return node->op_type; }
const char* ephost_node_domain(const OrtNode* node) { return node->domain; }
size_t ephost_node_input_count(const OrtNode* node) { return node->input_count; }
size_t ephost_node_output_count(const OrtNode* node) { return node->output_count; }

static const char* name_at(const char* const* names, OrtValueInfo* const* values, size_t index) {
  if (names != NULL) return names[index];
  return values[index] != NULL ? values[index]->name : "";
}

const char* ephost_node_input_name(const OrtNode* node, size_t index) {
  return name_at(node->editor_inputs, node->inputs, index);
}

const char* ephost_node_output_name(const OrtNode* node, size_t index) {
  return name_at(node->editor_outputs, node->outputs, index);
}

size_t ephost_node_attribute_count(const OrtNode* node) { return node->attribute_count; }
const OrtOpAttr* ephost_node_attribute(const OrtNode* node, size_t index) { return node->attributes[index]; }
const char* ephost_attribute_name(const OrtOpAttr* attribute) { return attribute->name; }
int ephost_attribute_type(const OrtOpAttr* attribute) { return (int)attribute->type; }
size_t ephost_attribute_count(const OrtOpAttr* attribute) { return attribute->count; }
const int64_t* ephost_attribute_ints(const OrtOpAttr* attribute) { return attribute->ints; }
const float* ephost_attribute_floats(const OrtOpAttr* attribute) { return attribute->floats; }

const char* ephost_attribute_string(const OrtOpAttr* attribute, size_t index, size_t* length) {
  *length = attribute->lengths[index];
  return attribute->strings[index];
}

const OrtValue* ephost_attribute_tensor(const OrtOpAttr* attribute) { return attribute->tensor; }
const OrtGraph* ephost_attribute_graph(const OrtOpAttr* attribute) { return attribute->graph; }
