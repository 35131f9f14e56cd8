/* The nodes of the pipeline's graph (ephost.model.graph), on their way to the graph that plugins read: their
 * order, and the nodes themselves. Written against CPython's limited API, since each session walks each of
 * its nodes here once for each EP. */
#define _GNU_SOURCE
#include "graph_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "graph.h"
#include "graph_objects.h"
#include "graph_values.h"
#include "heap.h"
#include "python.h"
#include "python_values.h"

static PyObject* address_name; /* "address", interned */

bool graph_nodes_setup(void) {
  const InternedName all[] = {{&address_name, "address"}};
  return intern_names(all, sizeof all / sizeof all[0]);
}

static bool number_of(PyObject* field, const char* name, Py_ssize_t* out) {
  *out = graph_field(field, name) != NULL ? PyLong_AsSsize_t(field) : -1;
  return PyErr_Occurred() == NULL;
}

/* ---- the order ----------------------------------------------------------------------------------------- */

typedef struct Place {
  Py_ssize_t key; /* the node's index in the model */
  Py_ssize_t at;  /* where it is in the list */
} Place;

typedef struct Order {
  PyObject* list;     /* of the nodes */
  Place* nodes;       /* by where they are */
  Place* makers;      /* of what each node reads, by key, one node's after the other's */
  Py_ssize_t* starts; /* where a node's makers begin; one more for the end */
  size_t maker_count, capacity;
  char* flags; /* of each node */
} Order;

enum { READ = 1, VISITED = 2 };

static int by_key(const void* a, const void* b) {
  const Py_ssize_t one = ((const Place*)a)->key, other = ((const Place*)b)->key;
  return (one > other) - (one < other);
}

static bool add_maker(Order* order, Place maker) {
  if (order->maker_count == order->capacity) {
    const size_t capacity = order->capacity ? 2 * order->capacity : 64;
    Place* grown = host_realloc(order->makers, capacity * sizeof *grown);
    if (grown == NULL) {
      PyErr_NoMemory();
      return false;
    }
    order->makers = grown;
    order->capacity = capacity;
  }
  order->makers[order->maker_count++] = maker;
  order->flags[maker.at] |= READ;
  return true;
}

/* Where a node is in the list; -1: it is not there. Nothing that runs Python's code comes between this and
 * where places were set. */
static Py_ssize_t place_of(const Order* order, PyObject* producer) {
  if (producer == NULL || producer == Py_None) return -1;
  const GraphNode* node = graph_node_of(producer);
  if (node == NULL || node->place < 0 || node->place >= PyList_Size(order->list)) return -1;
  return PyList_GetItem(order->list, node->place) == producer ? node->place : -1;
}

/* Notes who among the nodes makes the values of a list. */
static bool add_makers(Order* order, PyObject* values, const char* name) {
  if (!graph_is_list(values, name)) return false;
  const Py_ssize_t count = PyList_Size(values);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GetItem(values, i);
    if (item == Py_None) continue;
    const GraphValue* value = graph_value_of(item);
    if (value == NULL) return false;
    const Py_ssize_t place = place_of(order, value->producer);
    if (place < 0 && PyErr_Occurred() != NULL) return false;
    if (place >= 0 && !add_maker(order, order->nodes[place])) return false;
  }
  return true;
}

static bool read_links(Order* order, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    GraphNode* node = graph_node_of(PyList_GetItem(order->list, i));
    if (node == NULL || !number_of(node->index, "index", &order->nodes[i].key)) return false;
    order->nodes[i].at = node->place = i;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const GraphNode* node = (const GraphNode*)(void*)PyList_GetItem(order->list, i);
    const size_t start = order->maker_count;
    order->starts[i] = (Py_ssize_t)start;
    if (!add_makers(order, node->inputs, "inputs") ||
        !add_makers(order, node->implicit_inputs, "implicit_inputs"))
      return false;
    if (order->maker_count - start > 1)
      qsort(order->makers + start, order->maker_count - start, sizeof *order->makers, by_key);
  }
  order->starts[count] = (Py_ssize_t)order->maker_count;
  return true;
}

/* From the nodes that nobody reads, the last one first, up what they read. A node comes when all is there
 * that it needs: it is put back, as ~at, below what it waits for. */
static PyObject* walk(Order* order, PyObject* nodes, Py_ssize_t count) {
  PyObject* ordered = PyList_New(0);
  Place* leaves = host_malloc((size_t)count * sizeof *leaves);
  Py_ssize_t* stack = host_malloc((2 * (size_t)count + order->maker_count + 1) * sizeof *stack);
  if (leaves == NULL || stack == NULL) PyErr_NoMemory();
  bool done = ordered != NULL && leaves != NULL && stack != NULL;
  size_t depth = 0;
  for (Py_ssize_t i = 0; done && i < count; ++i) {
    if ((order->flags[i] & READ) == 0) leaves[depth++] = order->nodes[i];
  }
  if (done && depth > 1) qsort(leaves, depth, sizeof *leaves, by_key);
  for (size_t i = 0; done && i < depth; ++i) stack[i] = leaves[i].at;
  while (done && depth > 0) {
    const Py_ssize_t top = stack[--depth], at = top < 0 ? ~top : top;
    const Py_ssize_t first = order->starts[at], end = order->starts[at + 1];
    if (top >= 0) {
      if ((order->flags[at] & VISITED) != 0) continue;
      order->flags[at] |= VISITED;
      if (first < end) {
        stack[depth++] = ~at;
        for (Py_ssize_t i = first; i < end; ++i) {
          const Py_ssize_t maker = order->makers[i].at;
          if ((order->flags[maker] & VISITED) == 0) stack[depth++] = maker;
        }
        continue;
      }
    }
    done = PyList_Append(ordered, PyList_GetItem(nodes, at)) == 0;
  }
  host_free(leaves);
  host_free(stack);
  if (done) return ordered;
  Py_XDECREF(ordered);
  return NULL;
}

/* Reads the links of nodes; false with an exception set. To be ended by free_order. */
static bool make_order(Order* order, PyObject* nodes) {
  *order = (Order){0};
  if (!PyList_Check(nodes)) {
    PyErr_SetString(PyExc_TypeError, "the nodes are no list");
    return false;
  }
  const Py_ssize_t count = PyList_Size(nodes);
  const size_t room = (size_t)count + 1;
  order->list = nodes;
  order->nodes = host_malloc(room * sizeof *order->nodes);
  order->starts = host_malloc(room * sizeof *order->starts);
  order->flags = host_calloc(room, 1);
  if (order->nodes == NULL || order->starts == NULL || order->flags == NULL) PyErr_NoMemory();
  return PyErr_Occurred() == NULL && read_links(order, count);
}

static void free_order(Order* order) {
  host_free(order->nodes);
  host_free(order->makers);
  host_free(order->starts);
  host_free(order->flags);
}

PyObject* call_depth_first_order(PyObject* module, PyObject* nodes) {
  (void)module;
  Order order;
  PyObject* ordered = make_order(&order, nodes) ? walk(&order, nodes, PyList_Size(nodes)) : NULL;
  free_order(&order);
  return ordered;
}

PyObject* call_is_ordered(PyObject* module, PyObject* nodes) {
  (void)module;
  Order order;
  bool ordered = make_order(&order, nodes);
  for (Py_ssize_t i = 0; ordered && i < PyList_Size(nodes); ++i) {
    for (Py_ssize_t k = order.starts[i]; k < order.starts[i + 1]; ++k)
      ordered = ordered && order.makers[k].at < i;
  }
  free_order(&order);
  return PyErr_Occurred() == NULL ? PyBool_FromLong(ordered) : NULL;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

/* Kahn's algorithm with a queue. Sources come by key, and so do the readers of each node. */
typedef struct Queue {
  Place* sorted;       /* the nodes by key */
  Py_ssize_t* waiting; /* of each node: how many makers have not come yet */
  Py_ssize_t* starts;  /* where its readers begin; one more for the end */
  Py_ssize_t* readers;
  Py_ssize_t* at; /* the nodes that have come, in order */
} Queue;

/* Whether the maker is the first of a node's that is that one: they are sorted. */
static bool is_another(const Order* order, Py_ssize_t node, Py_ssize_t maker) {
  return maker == order->starts[node] || order->makers[maker].at != order->makers[maker - 1].at;
}

static void read_readers(const Order* order, Queue* queue, Py_ssize_t count) {
  memcpy(queue->sorted, order->nodes, (size_t)count * sizeof *queue->sorted);
  qsort(queue->sorted, (size_t)count, sizeof *queue->sorted, by_key);
  for (Py_ssize_t i = 0; i < count; ++i) {
    for (Py_ssize_t k = order->starts[i]; k < order->starts[i + 1]; ++k) {
      if (!is_another(order, i, k)) continue;
      ++queue->waiting[i];
      ++queue->starts[order->makers[k].at + 1];
    }
  }
  for (Py_ssize_t i = 0; i < count; ++i) queue->starts[i + 1] += queue->starts[i];
  Py_ssize_t* next = queue->at; /* where the next reader of each goes; nothing has come yet */
  memcpy(next, queue->starts, (size_t)count * sizeof *next);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Py_ssize_t node = queue->sorted[i].at;
    for (Py_ssize_t k = order->starts[node]; k < order->starts[node + 1]; ++k) {
      if (is_another(order, node, k)) queue->readers[next[order->makers[k].at]++] = node;
    }
  }
}

static PyObject* run_queue(const Order* order, Queue* queue, Py_ssize_t count) {
  PyObject* ordered = PyList_New(0);
  Py_ssize_t come = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Py_ssize_t node = queue->sorted[i].at;
    if (queue->waiting[node] == 0) queue->at[come++] = node;
  }
  for (Py_ssize_t i = 0; ordered != NULL && i < come; ++i) {
    const Py_ssize_t node = queue->at[i];
    if (PyList_Append(ordered, PyList_GetItem(order->list, node)) < 0) Py_CLEAR(ordered);
    for (Py_ssize_t k = queue->starts[node]; k < queue->starts[node + 1]; ++k) {
      if (--queue->waiting[queue->readers[k]] == 0) queue->at[come++] = queue->readers[k];
    }
  }
  return ordered;
}

PyObject* call_group_order(PyObject* module, PyObject* nodes) {
  (void)module;
  Order order;
  PyObject* ordered = NULL;
  if (make_order(&order, nodes)) {
    const Py_ssize_t count = PyList_Size(nodes);
    const size_t room = (size_t)count + 1;
    Queue queue = {
        .sorted = host_malloc(room * sizeof *queue.sorted),
        .waiting = host_calloc(room, sizeof *queue.waiting),
        .starts = host_calloc(room, sizeof *queue.starts),
        .readers = host_malloc((order.maker_count + 1) * sizeof *queue.readers),
        .at = host_malloc(room * sizeof *queue.at),
    };
    if (queue.sorted == NULL || queue.waiting == NULL || queue.starts == NULL || queue.readers == NULL ||
        queue.at == NULL) {
      PyErr_NoMemory();
    } else {
      read_readers(&order, &queue, count);
      ordered = run_queue(&order, &queue, count);
    }
    host_free(queue.sorted);
    host_free(queue.waiting);
    host_free(queue.starts);
    host_free(queue.readers);
    host_free(queue.at);
  }
  free_order(&order);
  return ordered;
}

/* What a group reads and makes, in dicts that are sets in the order in which things were put in. */
typedef struct Border {
  Order nodes; /* the list alone, and the places */
  bool drops_constants;
  PyObject *inputs, *outputs;
} Border;

/* Adds those of a list of values that come from outside. */
static bool add_read(Border* border, PyObject* values, const char* name) {
  if (!graph_is_list(values, name)) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(values); ++i) {
    PyObject* item = PyList_GetItem(values, i);
    if (item == Py_None) continue;
    const GraphValue* value = graph_value_of(item);
    if (value == NULL) return false;
    const bool is_own = place_of(&border->nodes, value->producer) >= 0;
    if (PyErr_Occurred() != NULL) return false;
    if (is_own || (border->drops_constants && value->is_constant == Py_True)) continue;
    if (PyDict_SetItem(border->inputs, item, Py_None) < 0) return false;
  }
  return true;
}

/* Whether another node reads the value; -1 with an exception set. */
static int is_read_outside(const Border* border, const GraphValue* value) {
  PyObject* reader;
  Py_ssize_t at = 0;
  if (value->consumers == NULL || !PyDict_Check(value->consumers)) {
    PyErr_SetString(PyExc_TypeError, "consumers is no dict");
    return -1;
  }
  while (PyDict_Next(value->consumers, &at, &reader, NULL)) {
    if (place_of(&border->nodes, reader) < 0) return PyErr_Occurred() != NULL ? -1 : 1;
  }
  return 0;
}

/* Adds what a node makes for others: first the graph's outputs, then what other nodes read. */
static bool add_made(Border* border, PyObject* values) {
  if (!graph_is_list(values, "outputs")) return false;
  for (int pass = 0; pass < 2; ++pass) {
    for (Py_ssize_t i = 0; i < PyList_Size(values); ++i) {
      PyObject* item = PyList_GetItem(values, i);
      if (item == Py_None) continue;
      const GraphValue* value = graph_value_of(item);
      if (value == NULL) return false;
      const int is_wanted = pass == 0 ? value->is_output == Py_True : is_read_outside(border, value);
      if (is_wanted < 0 || (is_wanted == 1 && PyDict_SetItem(border->outputs, item, Py_None) < 0))
        return false;
    }
  }
  return true;
}

static bool walk_border(Border* border) {
  PyObject* nodes = border->nodes.list;
  const Py_ssize_t count = PyList_Size(nodes);
  for (Py_ssize_t i = 0; i < count; ++i) {
    GraphNode* node = graph_node_of(PyList_GetItem(nodes, i));
    if (node == NULL) return false;
    node->place = i;
  }
  for (int implicit = 0; implicit < 2; ++implicit) {
    for (Py_ssize_t i = 0; i < count; ++i) {
      const GraphNode* node = (const GraphNode*)(void*)PyList_GetItem(nodes, i);
      if (!add_read(border, implicit ? node->implicit_inputs : node->inputs, "inputs")) return false;
    }
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const GraphNode* node = (const GraphNode*)(void*)PyList_GetItem(nodes, i);
    if (!add_made(border, node->outputs)) return false;
  }
  return true;
}

PyObject* call_group_interface(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* nodes;
  int drops_constants;
  if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &nodes, &drops_constants)) return NULL;
  Border border = {.nodes.list = nodes, .drops_constants = drops_constants != 0};
  border.inputs = PyDict_New();
  border.outputs = PyDict_New();
  PyObject *inputs = NULL, *outputs = NULL, *both = NULL;
  if (border.inputs != NULL && border.outputs != NULL && walk_border(&border)) {
    inputs = PyDict_Keys(border.inputs);
    outputs = PyDict_Keys(border.outputs);
  }
  if (inputs != NULL && outputs != NULL) both = PyTuple_Pack(2, inputs, outputs);
  Py_XDECREF(border.inputs);
  Py_XDECREF(border.outputs);
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  return both;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

const char* graph_text(PyObject* text, PyObject** held) {
  Py_ssize_t size;
  *held = NULL;
  if (graph_field(text, "a text of a node") == NULL) return NULL;
  const char* plain = PyUnicode_AsUTF8AndSize(text, &size);
  if (plain != NULL && memchr(plain, '\0', (size_t)size) == NULL) return plain;
  if (plain == NULL && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return NULL;
  PyErr_Clear();
  PyObject *nul = PyUnicode_FromStringAndSize("\0", 1), *other = PyUnicode_FromString("\xef\xbf\xbd");
  PyObject* whole = nul != NULL && other != NULL ? PyUnicode_Replace(text, nul, other, -1) : NULL;
  *held = whole != NULL ? PyUnicode_AsEncodedString(whole, "utf-8", "surrogateescape") : NULL;
  Py_XDECREF(nul);
  Py_XDECREF(other);
  Py_XDECREF(whole);
  return *held != NULL ? PyBytes_AsString(*held) : NULL;
}

typedef struct Builder {
  OrtGraph* graph;
  PyObject* infos;      /* dict: value -> address of its OrtValueInfo */
  PyObject* known;      /* dict: (operator, domain, inputs, outputs) -> what schema_of says of such nodes */
  PyObject* schema_of;  /* callable(node, inputs, outputs) -> what has the `address` of an EphostSchema */
  PyObject* left_owner; /* who runs what is left to the host */
  PyObject* by_index;   /* dict: index -> node */
  PyObject* pointers;   /* dict: index -> address of the OrtNode */
  OrtValueInfo** links; /* those of one node, inputs before outputs */
  size_t capacity;
} Builder;

/* Adds the infos of a list of values to the links, without those that are left out at the end. */
static bool add_links(Builder* builder, PyObject* values, const char* name, size_t start, size_t* count) {
  if (!graph_is_list(values, name)) return false;
  Py_ssize_t size = PyList_Size(values);
  while (size > 0 && PyList_GetItem(values, size - 1) == Py_None) --size;
  *count = (size_t)size;
  if (start + *count > builder->capacity) {
    const size_t capacity = 2 * (start + *count);
    OrtValueInfo** grown = host_realloc(builder->links, capacity * sizeof(OrtValueInfo*));
    if (grown == NULL) {
      PyErr_NoMemory();
      return false;
    }
    builder->links = grown;
    builder->capacity = capacity;
  }
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* value = PyList_GetItem(values, i);
    OrtValueInfo** link = &builder->links[start + (size_t)i];
    *link = value != Py_None ? graph_address(builder->infos, value) : NULL;
    if (*link == NULL && value != Py_None) return false;
  }
  return true;
}

/* Who has the node: an EP, the host, or nobody yet. Borrowed. */
static PyObject* owner_of(const Builder* builder, const GraphNode* node) {
  const int is_owned = node->ep_name != NULL ? PyObject_IsTrue(node->ep_name) : 1;
  return is_owned == 0 && node->left_to_host == Py_True ? builder->left_owner : node->ep_name;
}

/* What nodes are alike in that have one schema: a new tuple; NULL with an exception set. */
static PyObject* kind_of(const GraphNode* node, const OrtNode* made) {
  PyObject *inputs = PyLong_FromSize_t(made->input_count), *outputs = PyLong_FromSize_t(made->output_count);
  PyObject* kind = inputs != NULL && outputs != NULL
                       ? PyTuple_Pack(4, node->op_type, node->domain, inputs, outputs)
                       : NULL;
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  return kind;
}

/* What schema_of says of a node, as a new reference. */
static PyObject* ask_schema(const Builder* builder, PyObject* item, const OrtNode* made) {
  return PyObject_CallFunction(builder->schema_of, "Onn", item, (Py_ssize_t)made->input_count,
                               (Py_ssize_t)made->output_count);
}

/* The same, asked once for all nodes of an operator that are alike, unless a plugin or library brought it. */
static PyObject* schema_for(const Builder* builder, PyObject* item, const GraphNode* node,
                            const OrtNode* made) {
  if (node->custom != Py_None) return ask_schema(builder, item, made);
  PyObject* kind = kind_of(node, made);
  PyObject* known = kind != NULL ? PyDict_GetItemWithError(builder->known, kind) : NULL;
  PyObject* schema = Py_XNewRef(known);
  if (schema == NULL && PyErr_Occurred() == NULL) {
    schema = ask_schema(builder, item, made);
    if (schema != NULL && PyDict_SetItem(builder->known, kind, schema) < 0) Py_CLEAR(schema);
  }
  Py_XDECREF(kind);
  return schema;
}

static bool set_schema(const Builder* builder, PyObject* item, const GraphNode* node, OrtNode* made,
                       PyObject* schemas) {
  PyObject* schema = schema_for(builder, item, node, made);
  PyObject* address = schema != NULL ? PyObject_GetAttr(schema, address_name) : NULL;
  const EphostSchema* found = address != NULL ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(address);
  const bool done = PyErr_Occurred() == NULL && PyList_Append(schemas, schema) == 0;
  Py_XDECREF(schema);
  if (done && found != NULL) {
    ephost_node_set_schema(made, found->input_params, found->input_formals, found->output_params,
                           found->output_formals, found->attributes, found->attribute_count);
  }
  return done;
}

static bool add_implicit_inputs(Builder* builder, const GraphNode* node, OrtNode* made) {
  if (!graph_is_list(node->implicit_inputs, "implicit_inputs")) return false;
  for (Py_ssize_t i = 0; i < PyList_Size(node->implicit_inputs); ++i) {
    OrtValueInfo* info = graph_address(builder->infos, PyList_GetItem(node->implicit_inputs, i));
    if (info == NULL) return false;
    if (!ephost_node_add_implicit_input(made, info)) {
      PyErr_NoMemory();
      return false;
    }
  }
  return true;
}

static OrtNode* make_node(Builder* builder, const GraphNode* node) {
  PyObject* const texts[] = {node->name, node->op_type, node->domain, owner_of(builder, node)};
  PyObject* held[4] = {NULL};
  const char* text[4];
  OrtNode* made = NULL;
  size_t inputs = 0, outputs = 0;
  Py_ssize_t index, version;
  bool done =
      number_of(node->index, "index", &index) && number_of(node->since_version, "since_version", &version);
  for (int i = 0; done && i < 4; ++i) done = (text[i] = graph_text(texts[i], &held[i])) != NULL;
  if (done && add_links(builder, node->inputs, "inputs", 0, &inputs) &&
      add_links(builder, node->outputs, "outputs", inputs, &outputs)) {
    made = ephost_graph_add_node(builder->graph, (size_t)index, text[0], text[1], text[2], (int)version,
                                 text[3], builder->links, inputs, builder->links + inputs, outputs);
    if (made == NULL) PyErr_NoMemory();
  }
  for (int i = 0; i < 4; ++i) Py_XDECREF(held[i]);
  return made;
}

static bool add_node(Builder* builder, PyObject* item, PyObject* schemas) {
  const GraphNode* node = graph_node_of(item);
  OrtNode* made = node != NULL ? make_node(builder, node) : NULL;
  return made != NULL && PyDict_SetItem(builder->by_index, node->index, item) == 0 &&
         graph_put_address(builder->pointers, node->index, made) &&
         set_schema(builder, item, node, made, schemas) && add_implicit_inputs(builder, node, made);
}

PyObject* call_graph_add_nodes(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *graph, *nodes;
  Builder builder = {0};
  if (!PyArg_ParseTuple(args, "OO!O!O!OOO!O!", &graph, &PyList_Type, &nodes, &PyDict_Type, &builder.infos,
                        &PyDict_Type, &builder.known, &builder.schema_of, &builder.left_owner, &PyDict_Type,
                        &builder.by_index, &PyDict_Type, &builder.pointers)) {
    return NULL;
  }
  builder.graph = PyLong_AsVoidPtr(graph);
  PyObject* schemas = PyErr_Occurred() == NULL ? PyList_New(0) : NULL;
  bool done = schemas != NULL;
  for (Py_ssize_t i = 0; done && i < PyList_Size(nodes); ++i)
    done = add_node(&builder, PyList_GetItem(nodes, i), schemas);
  host_free(builder.links);
  if (!done) Py_CLEAR(schemas);
  return schemas;
}

/* ---- views --------------------------------------------------------------------------------------------- */

/* The addresses that a dict has for values, or for the indices of nodes: to be freed by host_free. NULL with
 * an exception set. */
static void** addresses_of(PyObject* addresses, PyObject* items, bool are_nodes) {
  const Py_ssize_t count = PyList_Size(items);
  void** found = host_malloc(((size_t)count + 1) * sizeof *found);
  if (found == NULL) PyErr_NoMemory();
  bool done = found != NULL;
  for (Py_ssize_t i = 0; done && i < count; ++i) {
    PyObject* key = PyList_GetItem(items, i);
    const GraphNode* node = are_nodes ? graph_node_of(key) : NULL;
    if (are_nodes) key = node != NULL ? graph_field(node->index, "index") : NULL;
    found[i] = key != NULL ? graph_address(addresses, key) : NULL;
    done = found[i] != NULL;
  }
  if (done) return found;
  host_free(found);
  return NULL;
}

PyObject* call_graph_view(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *graph, *text, *nodes, *inputs, *outputs, *pointers, *infos, *held = NULL;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!O!O!", &graph, &PyUnicode_Type, &text, &PyList_Type, &nodes,
                        &PyList_Type, &inputs, &PyList_Type, &outputs, &PyDict_Type, &pointers, &PyDict_Type,
                        &infos))
    return NULL;
  const OrtGraph* viewed = PyLong_AsVoidPtr(graph);
  const char* name = PyErr_Occurred() == NULL ? graph_text(text, &held) : NULL;
  void** shown = name != NULL ? addresses_of(pointers, nodes, true) : NULL;
  void** in = shown != NULL ? addresses_of(infos, inputs, false) : NULL;
  void** out = in != NULL ? addresses_of(infos, outputs, false) : NULL;
  OrtGraph* view = NULL;
  if (out != NULL) {
    OrtStatus* status = ephost_graph_view(viewed, name, (OrtNode**)shown, (size_t)PyList_Size(nodes),
                                          (OrtValueInfo**)in, (size_t)PyList_Size(inputs),
                                          (OrtValueInfo**)out, (size_t)PyList_Size(outputs), &view);
    if (status != NULL) raise_status(status);
  }
  host_free(shown);
  host_free(in);
  host_free(out);
  Py_XDECREF(held);
  return view != NULL ? PyLong_FromVoidPtr(view) : NULL;
}
