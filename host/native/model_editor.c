/* OrtModelEditorApi: what plugins build themselves, an EPContext node above all. What is added to something
 * belongs to it from then on; releasing it afterwards does nothing. On an error, nothing is taken over. */
#include <string.h>

#include "abi.h"
#include "graph.h"
#include "heap.h"
#include "maps.h"
#include "memory.h"
#include "python.h"
#include "status.h"
#include "type_info.h"

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, CreateValueInfo)(const char* name,
                                                                 const OrtTypeInfo* type_info,
                                                                 OrtValueInfo** value_info) {
  REQUIRE_ARG(value_info != NULL);
  *value_info = NULL;
  REQUIRE_ARG(name != NULL && name[0] != '\0');
  REQUIRE_ARG(type_info != NULL);
  OrtTypeInfo* type = type_info_copy(type_info);
  if (type == NULL) return status_no_memory();
  *value_info = value_info_new(name, type);
  if (*value_info != NULL) return NULL;
  type_info_free(type);
  return status_no_memory();
}

/* The node takes the attributes over and sets their places in the array to NULL. Its values have names only,
 * until the node is in a graph that is read. */
OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi,
                             CreateNode)(const char* operator_name, const char* domain_name,
                                         const char* node_name, const char* const* input_names,
                                         size_t input_names_len, const char* const* output_names,
                                         size_t output_names_len, OrtOpAttr** attributes, size_t attribs_len,
                                         OrtNode** node) {
  REQUIRE_ARG(node != NULL);
  *node = NULL;
  REQUIRE_ARG(operator_name != NULL && operator_name[0] != '\0');
  REQUIRE_ARG(domain_name != NULL);
  REQUIRE_ARG(node_name != NULL);
  REQUIRE_ARG(input_names != NULL || input_names_len == 0);
  REQUIRE_ARG(output_names != NULL || output_names_len == 0);
  REQUIRE_ARG(attributes != NULL || attribs_len == 0);
  const char* own[3] = {operator_name, strcmp(domain_name, "ai.onnx") == 0 ? "" : domain_name, node_name};
  size_t names = input_names_len + output_names_len;
  size_t text_size = names * sizeof(char*);
  for (size_t i = 0; i < 3; ++i) text_size += strlen(own[i]) + 1;
  for (size_t i = 0; i < names; ++i) {
    const char* name = i < input_names_len ? input_names[i] : output_names[i - input_names_len];
    if (name == NULL)
      return status_new(ORT_INVALID_ARGUMENT, "CreateNode: a name of node '%s' is NULL", node_name);
    text_size += strlen(name) + 1;
  }
  for (size_t i = 0; i < attribs_len; ++i) {
    REQUIRE_ARG(attributes[i] != NULL);
    for (size_t k = 0; k < i; ++k) {
      if (attributes[k] != attributes[i]) continue;
      return status_new(ORT_INVALID_ARGUMENT, "CreateNode: attribute %zu of node '%s' is there twice", i,
                        node_name);
    }
  }

  OrtOpAttr** taken = NULL;
  size_t taken_count = 0;
  OrtNode* made = node_new(input_names_len, output_names_len, 0, text_size);
  bool done = made != NULL;
  for (size_t i = 0; done && i < attribs_len; ++i) done = pointers_push(&taken, &taken_count, attributes[i]);
  if (!done) {
    host_free(taken);
    node_free(made);
    return status_no_memory();
  }
  for (size_t i = 0; i < attribs_len; ++i) attributes[i] = NULL;
  made->attributes = taken;
  made->attribute_count = taken_count;
  /* Behind the places for the values: places for the names, then their text. */
  const char** places = (const char**)(void*)(made->outputs + output_names_len);
  char* text = (char*)(places + names);
  for (size_t i = 0; i < names + 3; ++i) {
    const char* name = i >= names            ? own[i - names]
                       : i < input_names_len ? input_names[i]
                                             : output_names[i - input_names_len];
    size_t size = strlen(name) + 1;
    memcpy(text, name, size);
    if (i < names) {
      places[i] = text;
    } else {
      own[i - names] = text;
    }
    text += size;
  }
  made->editor_inputs = places;
  made->editor_outputs = places + input_names_len;
  made->op_type = own[0];
  made->domain = own[1];
  made->name = own[2];
  *node = made;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, CreateGraph)(OrtGraph** graph) {
  REQUIRE_ARG(graph != NULL);
  *graph = graph_new("");
  if (*graph == NULL) return status_no_memory();
  (*graph)->from_editor = true;
  (*graph)->plugin_owned = true;
  return NULL;
}

/* Replaces the inputs or outputs; those that were set before stay the graph's, unused. */
static OrtStatus* set_values(const char* function, OrtGraph* graph, OrtValueInfo** values, size_t count,
                             OrtValueInfo*** place, size_t* place_count) {
  for (size_t i = 0; i < count; ++i) {
    if (values[i] == NULL || values[i]->owned_by_graph) {
      return status_new(ORT_INVALID_ARGUMENT, "%s: value %zu of %zu %s", function, i, count,
                        values[i] == NULL ? "is NULL" : "is in a graph already");
    }
  }
  OrtStatus* status = NULL;
  OrtValueInfo** list = NULL;
  size_t listed = 0, before = graph->value_count;
  for (size_t i = 0; i < count && status == NULL; ++i) {
    if (values[i]->owned_by_graph) { /* it came earlier in this list */
      status = status_new(ORT_INVALID_ARGUMENT, "%s: value '%s' is there twice", function, values[i]->name);
    } else if (!pointers_push(&list, &listed, values[i]) ||
               !pointers_push(&graph->values, &graph->value_count, values[i])) {
      status = status_no_memory();
    } else {
      values[i]->owned_by_graph = true;
      values[i]->graph = graph;
    }
  }
  if (status != NULL) {
    for (size_t i = before; i < graph->value_count; ++i) {
      graph->values[i]->owned_by_graph = false;
      graph->values[i]->graph = NULL;
    }
    graph->value_count = before;
    host_free(list);
    return status;
  }
  for (size_t i = 0; i < count; ++i) values[i] = NULL;
  host_free(*place);
  *place = list;
  *place_count = listed;
  return NULL;
}

#define REQUIRE_EDITOR_GRAPH()       \
  do {                               \
    REQUIRE_ARG(graph != NULL);      \
    REQUIRE_ARG(graph->from_editor); \
  } while (0)

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, SetGraphInputs)(OrtGraph* graph, OrtValueInfo** inputs,
                                                                size_t inputs_len) {
  REQUIRE_EDITOR_GRAPH();
  REQUIRE_ARG(inputs != NULL || inputs_len == 0);
  return set_values("SetGraphInputs", graph, inputs, inputs_len, &graph->inputs, &graph->input_count);
}

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, SetGraphOutputs)(OrtGraph* graph, OrtValueInfo** outputs,
                                                                 size_t outputs_len) {
  REQUIRE_EDITOR_GRAPH();
  REQUIRE_ARG(outputs != NULL || outputs_len == 0);
  return set_values("SetGraphOutputs", graph, outputs, outputs_len, &graph->outputs, &graph->output_count);
}

/* With data_is_external the tensor's memory is the plugin's and stays so: the value then only points to it.
 * Either way the OrtValue is taken over. */
OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, AddInitializerToGraph)(OrtGraph* graph, const char* name,
                                                                       OrtValue* tensor,
                                                                       bool data_is_external) {
  REQUIRE_EDITOR_GRAPH();
  REQUIRE_ARG(name != NULL && name[0] != '\0');
  REQUIRE_ARG(tensor != NULL);
  REQUIRE_ARG(tensor->type == ONNX_TYPE_TENSOR);
  REQUIRE_ARG(memory_info_is_cpu(tensor->memory_info));
  for (size_t i = 0; i < graph->initializer_count; ++i) {
    const OrtValueInfo* other = graph->initializers[i];
    if (strcmp(other->name, name) == 0 || other->initializer == tensor) {
      return status_new(ORT_INVALID_ARGUMENT, "AddInitializerToGraph: initializer '%s' is there already",
                        other->name);
    }
  }
  if (data_is_external && tensor->nbytes < 128) {
    return status_new(ORT_INVALID_ARGUMENT,
                      "AddInitializerToGraph: '%s' has %zu bytes, external data starts at 128", name,
                      tensor->nbytes);
  }
  OrtTypeInfo* type = type_info_of_value(tensor);
  OrtValueInfo* value = type != NULL ? graph_add_value(graph, name, type) : NULL;
  if (value == NULL) {
    type_info_free(type);
    return status_no_memory();
  }
  if (!pointers_push(&graph->initializers, &graph->initializer_count, value)) {
    --graph->value_count;
    value_info_free(value);
    return status_no_memory();
  }
  value->is_initializer = true;
  value->initializer = tensor;
  value->owns_initializer = true;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, AddNodeToGraph)(OrtGraph* graph, OrtNode* node) {
  REQUIRE_EDITOR_GRAPH();
  REQUIRE_ARG(node != NULL);
  if (node->owned_by_graph) {
    return status_new(ORT_INVALID_ARGUMENT, "AddNodeToGraph: node '%s' is in a graph already", node->name);
  }
  if (!pointers_push(&graph->nodes, &graph->node_count, node)) return status_no_memory();
  node->id = graph->node_count - 1;
  node->index = node->id;
  node->owned_by_graph = true;
  return NULL;
}

static void model_free(OrtModel* model) {
  graph_free(model->graph);
  for (size_t i = 0; i < model->opset_count; ++i) host_free(model->opset_domains[i]);
  host_free(model->opset_domains);
  host_free(model->opset_versions);
  host_free(model);
  handle_count(HANDLE_OTHER, -1);
}

/* A domain that is named twice has the version that came last. */
OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, CreateModel)(const char* const* domain_names,
                                                             const int* opset_versions,
                                                             size_t opset_entries_len, OrtModel** model) {
  REQUIRE_ARG(model != NULL);
  *model = NULL;
  REQUIRE_ARG(domain_names != NULL || opset_entries_len == 0);
  REQUIRE_ARG(opset_versions != NULL || opset_entries_len == 0);
  for (size_t i = 0; i < opset_entries_len; ++i) REQUIRE_ARG(domain_names[i] != NULL);
  OrtModel* made = host_calloc(1, sizeof *made);
  if (made == NULL) return status_no_memory();
  handle_count(HANDLE_OTHER, 1);
  made->opset_domains = host_calloc(opset_entries_len, sizeof *made->opset_domains);
  made->opset_versions = host_calloc(opset_entries_len, sizeof *made->opset_versions);
  bool done = made->opset_domains != NULL && made->opset_versions != NULL;
  for (size_t i = 0; done && i < opset_entries_len; ++i) {
    const char* domain = strcmp(domain_names[i], "ai.onnx") == 0 ? "" : domain_names[i];
    size_t place = 0;
    while (place < made->opset_count && strcmp(made->opset_domains[place], domain) != 0) ++place;
    made->opset_versions[place] = opset_versions[i];
    if (place < made->opset_count) continue;
    made->opset_domains[place] = host_strdup(domain);
    done = made->opset_domains[place] != NULL;
    if (done) ++made->opset_count;
  }
  if (!done) {
    model_free(made);
    return status_no_memory();
  }
  *model = made;
  return NULL;
}

/* The graph is complete then: its links are worked out, and what is wrong with it is said here. */
OrtStatus* ORT_API_CALL SLOT(OrtModelEditorApi, AddGraphToModel)(OrtModel* model, OrtGraph* graph) {
  REQUIRE_ARG(model != NULL);
  REQUIRE_EDITOR_GRAPH();
  if (model->graph != NULL || !graph->plugin_owned) {
    return status_new(ORT_INVALID_ARGUMENT, "AddGraphToModel: %s",
                      model->graph != NULL ? "the model has a graph" : "the graph is in a model already");
  }
  int64_t* versions = host_malloc(model->opset_count * sizeof *versions);
  char** domains = host_calloc(model->opset_count, sizeof *domains);
  bool done = versions != NULL && domains != NULL;
  for (size_t i = 0; done && i < model->opset_count; ++i) {
    versions[i] = model->opset_versions[i];
    domains[i] = host_strdup(model->opset_domains[i]);
    done = domains[i] != NULL;
  }
  OrtStatus* status = done ? graph_resolve(graph) : status_no_memory();
  if (status != NULL) {
    for (size_t i = 0; domains != NULL && i < model->opset_count; ++i) host_free(domains[i]);
    host_free(domains);
    host_free(versions);
    return status;
  }
  graph->opset_domains = domains;
  graph->opset_versions = versions;
  graph->opset_count = model->opset_count;
  graph->plugin_owned = false;
  model->graph = graph;
  return NULL;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseModel)(OrtModel* input) {
  if (input != NULL) model_free(input);
}

const OrtGraph* ephost_model_graph(const OrtModel* model) { return model->graph; }
size_t ephost_model_opset_count(const OrtModel* model) { return model->opset_count; }
const char* ephost_model_opset(const OrtModel* model, size_t index, int* version) {
  *version = model->opset_versions[index];
  return model->opset_domains[index];
}
