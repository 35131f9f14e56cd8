/* Views: graphs that show some nodes of another graph, for a plugin that compiles them or looks at a part. A
 * view has nodes and values of its own, so that links and flags speak of the view; everything else it shares
 * with the graph that it was made from, which must outlive it. It has no parent node, even when it shows a
 * part of a subgraph: what it takes from outside are its inputs. */
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "graph.h"
#include "heap.h"
#include "maps.h"
#include "python.h"
#include "status.h"

/* The view's value that stands for `source`; NULL without memory. */
static OrtValueInfo* view_value(OrtGraph* view, PointerMap* values, OrtValueInfo* source) {
  void** place = pointer_map_at(values, source);
  if (place == NULL || *place != NULL) return place != NULL ? *place : NULL;
  OrtValueInfo* value = host_malloc(sizeof *value);
  if (value == NULL) return NULL;
  *value = *source; /* name, type and initializer are shared; graph_resolve sets what speaks of the view */
  value->graph = view;
  value->origin = source;
  value->consumers = NULL;
  value->consumer_count = 0;
  handle_count(HANDLE_OTHER, 1);
  if (!pointers_push(&view->values, &view->value_count, value)) {
    value_info_free(value);
    return NULL;
  }
  *place = value;
  return value;
}

static bool view_values(OrtGraph* view, PointerMap* values, OrtValueInfo* const* sources, size_t count,
                        OrtValueInfo** out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = NULL;
    if (sources[i] == NULL) continue;
    out[i] = view_value(view, values, sources[i]);
    if (out[i] == NULL) return false;
  }
  return true;
}

static bool view_node(OrtGraph* view, PointerMap* values, const OrtNode* source) {
  OrtNode* node = node_new(source->input_count, source->output_count, source->implicit_input_count, 0);
  if (node == NULL) return false;
  if (!pointers_push(&view->nodes, &view->node_count, node)) {
    node->origin = source; /* the implicit inputs lie in the node's block */
    node_free(node);
    return false;
  }
  OrtNode copy = *source;
  copy.graph = view;
  copy.inputs = node->inputs;
  copy.outputs = node->outputs;
  copy.implicit_inputs = node->implicit_inputs;
  copy.owned_by_graph = true;
  *node = copy; /* `origin` is the root's: a view of a view copies it */
  if (node->origin == node) node->origin = source;
  return view_values(view, values, source->inputs, source->input_count, node->inputs) &&
         view_values(view, values, source->outputs, source->output_count, node->outputs) &&
         view_values(view, values, source->implicit_inputs, source->implicit_input_count,
                     node->implicit_inputs);
}

/* `nodes` in topological order. */
static OrtStatus* view_new(const OrtGraph* source, const char* name, const OrtNode* const* nodes,
                           size_t node_count, OrtValueInfo* const* inputs, size_t input_count,
                           OrtValueInfo* const* outputs, size_t output_count, OrtGraph** out) {
  OrtStatus* status = NULL;
  PointerMap values = {0};
  OrtGraph* view = graph_new(name);
  if (view == NULL) return status_no_memory();
  view->view_of = source;
  bool done = pointer_map_reserve(&values, node_count * 3);
  for (size_t i = 0; done && i < input_count; ++i) {
    OrtValueInfo* value = view_value(view, &values, inputs[i]);
    done = value != NULL && pointers_push(&view->inputs, &view->input_count, value);
  }
  for (size_t i = 0; done && i < node_count; ++i) done = view_node(view, &values, nodes[i]);
  for (size_t i = 0; done && i < output_count; ++i) {
    OrtValueInfo* value = view_value(view, &values, outputs[i]);
    done = value != NULL && pointers_push(&view->outputs, &view->output_count, value);
  }
  for (size_t i = 0; done && i < view->value_count; ++i) {
    OrtValueInfo* value = view->values[i];
    if (!value->is_initializer || value->is_from_outer_scope) continue;
    done = pointers_push(&view->initializers, &view->initializer_count, value);
  }
  pointer_map_clear(&values);
  status = done ? graph_resolve(view) : status_no_memory();
  if (status != NULL) {
    graph_free(view);
    view = NULL;
  }
  *out = view;
  return status;
}

static int by_index(const void* a, const void* b) {
  const OrtNode *first = *(const OrtNode*const*)a, *second = *(const OrtNode*const*)b;
  return (first->index > second->index) - (first->index < second->index);
}

OrtStatus* ephost_graph_view(const OrtGraph* graph, const char* name, OrtNode** nodes, size_t node_count,
                             OrtValueInfo** inputs, size_t input_count, OrtValueInfo** outputs,
                             size_t output_count, OrtGraph** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(graph != NULL);
  for (size_t i = 0; i < node_count; ++i) REQUIRE_ARG(nodes[i]->graph == graph);
  for (size_t i = 0; i < input_count; ++i) REQUIRE_ARG(inputs[i]->graph == graph);
  for (size_t i = 0; i < output_count; ++i) REQUIRE_ARG(outputs[i]->graph == graph);
  const OrtNode** sorted = host_memdup(nodes, node_count * sizeof *nodes);
  if (sorted == NULL) return status_no_memory();
  qsort(sorted, node_count, sizeof *sorted, by_index);
  OrtStatus* status =
      view_new(graph, name, sorted, node_count, inputs, input_count, outputs, output_count, out);
  host_free(sorted);
  return status;
}

/* ---- Graph_GetGraphView ---- */

/* The nodes of `graph` that stand for the given ones (which may be of a view of the same graph), in
 * topological order, and their set. */
static OrtStatus* nodes_of_graph(const OrtGraph* graph, const OrtNode* const* nodes, size_t count,
                                 const OrtNode** found, PointerMap* inside) {
  OrtStatus* status = NULL;
  PointerMap origins = {0}; /* filled when the first foreign node comes */
  for (size_t i = 0; i < count && status == NULL; ++i) {
    const OrtNode* node = nodes[i];
    if (node == NULL) {
      status = status_new(ORT_INVALID_ARGUMENT, "Graph_GetGraphView: node %zu of %zu is NULL", i, count);
      break;
    }
    if (node->graph != graph) {
      for (size_t k = 0; k < graph->node_count && origins.count < graph->node_count; ++k) {
        void** place = pointer_map_at(&origins, graph->nodes[k]->origin);
        if (place == NULL) {
          status = status_no_memory();
          break;
        }
        *place = graph->nodes[k];
      }
      if (status != NULL) break;
      node = pointer_map_get(&origins, node->origin);
      if (node == NULL) {
        status = status_new(ORT_INVALID_ARGUMENT, "Graph_GetGraphView: node '%s' (%s) is not in graph '%s'",
                            nodes[i]->name, nodes[i]->op_type, graph->name);
        break;
      }
    }
    void** place = pointer_map_at(inside, node);
    if (place == NULL) {
      status = status_no_memory();
    } else if (*place != NULL) {
      status = status_new(ORT_INVALID_ARGUMENT, "Graph_GetGraphView: node '%s' (%s) is there twice",
                          node->name, node->op_type);
    } else {
      *place = (void*)(uintptr_t)node;
      found[i] = node;
    }
  }
  pointer_map_clear(&origins);
  if (status == NULL) qsort(found, count, sizeof *found, by_index);
  return status;
}

static bool leaves(const OrtValueInfo* value, const PointerMap* inside) {
  if (value->is_graph_output) return true;
  for (size_t i = 0; i < value->consumer_count; ++i) {
    if (pointer_map_get(inside, value->consumers[i].node) == NULL) return true;
  }
  return false;
}

typedef struct ViewInput {
  size_t key; /* where the input stands in the view */
  size_t order;
  OrtValueInfo* value;
} ViewInput;

static int by_key(const void* a, const void* b) {
  const ViewInput *first = a, *second = b;
  if (first->key != second->key) return first->key > second->key ? 1 : -1;
  return (first->order > second->order) - (first->order < second->order);
}

/* The inputs of a view are the values that its nodes read and none of them makes, without constant
 * initializers, in the order in which they are read, except that an input of the graph stands at its place
 * among the graph's inputs. Its outputs are the values that the graph or a node outside needs, in the order
 * in which they are made. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, Graph_GetGraphView)(const OrtGraph* src_graph, const OrtNode** nodes,
                                                         size_t num_nodes, OrtGraph** dst_graph) {
  REQUIRE_ARG(dst_graph != NULL);
  *dst_graph = NULL;
  REQUIRE_ARG(src_graph != NULL);
  REQUIRE_ARG(!src_graph->from_editor);
  REQUIRE_ARG(nodes != NULL);
  REQUIRE_ARG(num_nodes > 0);
  REQUIRE_ARG(num_nodes <= src_graph->node_count);
  PointerMap inside = {0}, seen = {0};
  ViewInput* order = NULL;
  OrtValueInfo **inputs = NULL, **outputs = NULL;
  size_t input_count = 0, output_count = 0, reads = 0, writes = 0;
  OrtStatus* status = NULL;
  const OrtNode** found = host_malloc(num_nodes * sizeof *found);
  if (found == NULL || !pointer_map_reserve(&inside, num_nodes)) {
    status = status_no_memory();
    goto done;
  }
  status = nodes_of_graph(src_graph, nodes, num_nodes, found, &inside);
  if (status != NULL) goto done;
  for (size_t n = 0; n < num_nodes; ++n) {
    reads += found[n]->input_count + found[n]->implicit_input_count;
    writes += found[n]->output_count;
  }
  order = host_malloc(reads * sizeof *order);
  inputs = host_malloc(reads * sizeof *inputs);
  outputs = host_malloc(writes * sizeof *outputs);
  if (order == NULL || inputs == NULL || outputs == NULL || !pointer_map_reserve(&seen, reads)) {
    status = status_no_memory();
    goto done;
  }
  for (size_t n = 0, place = 0; n < num_nodes; ++n) {
    const OrtNode* node = found[n];
    for (size_t i = 0; i < node->input_count + node->implicit_input_count; ++i) {
      OrtValueInfo* value =
          i < node->input_count ? node->inputs[i] : node->implicit_inputs[i - node->input_count];
      if (value == NULL || value->is_constant_initializer) continue;
      if (value->producer != NULL && pointer_map_get(&inside, value->producer) != NULL) continue;
      void** known = pointer_map_at(&seen, value); /* there is room: it cannot fail */
      size_t key = place++;
      if (known == NULL || *known != NULL) continue;
      *known = value;
      for (size_t k = 0; value->is_required_input && k < src_graph->input_count; ++k) {
        if (src_graph->inputs[k] == value) key = k;
      }
      order[input_count] = (ViewInput){key, input_count, value};
      ++input_count;
    }
    for (size_t i = 0; i < node->output_count; ++i) {
      OrtValueInfo* value = node->outputs[i];
      if (value != NULL && leaves(value, &inside)) outputs[output_count++] = value;
    }
  }
  qsort(order, input_count, sizeof *order, by_key);
  for (size_t i = 0; i < input_count; ++i) inputs[i] = order[i].value;
  status = view_new(src_graph, "sub_graph", found, num_nodes, inputs, input_count, outputs, output_count,
                    dst_graph);
  if (status == NULL) (*dst_graph)->plugin_owned = true;
done:
  host_free(found);
  host_free(order);
  host_free(inputs);
  host_free(outputs);
  pointer_map_clear(&inside);
  pointer_map_clear(&seen);
  return status;
}
