/* OrtGraph, OrtNode and OrtValueInfo: how they are made and freed, and how their links are worked out. What
 * plugins read of them is in graph_read.c, what Python builds in graph_build.c, views in graph_view.c, and
 * what plugins build themselves in model_editor.c. */
#include <string.h>

#include "abi.h"
#include "attribute.h"
#include "graph.h"
#include "heap.h"
#include "maps.h"
#include "model_metadata.h"
#include "python.h"
#include "status.h"
#include "type_info.h"

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

OrtTypeInfo* unknown_type(void) {
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

static void drop_consumers(const OrtGraph* graph) {
  for (size_t i = 0; i < graph->value_count; ++i) {
    graph->values[i]->consumers = NULL;
    graph->values[i]->consumer_count = 0;
  }
}

OrtStatus* graph_resolve(OrtGraph* graph) {
  if (graph->from_editor && graph->view_of == NULL) {
    OrtStatus* status = editor_connect(graph);
    if (status != NULL) return status;
  }
  drop_consumers(graph);
  for (size_t i = 0; i < graph->value_count; ++i) {
    OrtValueInfo* value = graph->values[i];
    value->producer = NULL;
    value->producer_output = 0;
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
        drop_consumers(graph); /* those that were counted are nowhere */
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
    drop_consumers(graph);
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
