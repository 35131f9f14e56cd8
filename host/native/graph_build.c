/* How Python builds the graphs that plugins see, and what it reads of those that plugins make. */
#define _GNU_SOURCE
#include <string.h>

#include "abi.h"
#include "attribute.h"
#include "forks.h"
#include "graph.h"
#include "heap.h"
#include "lock.h"
#include "maps.h"
#include "python.h"
#include "status.h"
#include "type_info.h"

/* ---- what Python calls to build a graph ---- */

/* Names of EPs are few and live as long as the process: nodes and views share them. */
static SpinLock interning = ATOMIC_FLAG_INIT;

void interned_hold(bool hold) { spin_hold(&interning, hold); }

static const char* intern(const char* text) {
  static char** names;
  static size_t count;
  if (text == NULL || text[0] == '\0') return "";
  spin_lock(&interning);
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
  spin_unlock(&interning);
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

size_t ephost_graph_value_count(const OrtGraph* graph) { return graph->value_count; }
OrtValueInfo* ephost_graph_value(const OrtGraph* graph, size_t index) { return graph->values[index]; }
OrtValueInfo* ephost_graph_input(const OrtGraph* graph, size_t index) { return graph->inputs[index]; }
OrtValueInfo* ephost_graph_output(const OrtGraph* graph, size_t index) { return graph->outputs[index]; }
OrtValueInfo* ephost_graph_initializer(const OrtGraph* graph, size_t index) {
  return graph->initializers[index];
}
const char* ephost_value_name(const OrtValueInfo* value) { return value->name; }
const OrtValue* ephost_value_initializer(const OrtValueInfo* value) { return value->initializer; }

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
