/* The nodes of the pipeline's graph (ephost.model.graph), on their way to the graph that plugins read: their
 * order, and the nodes themselves. Written against CPython's limited API, since each session walks each of
 * its nodes here once for each EP. */
#define _GNU_SOURCE
#include "graph_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "graph.h"
#include "heap.h"
#include "python.h"

/* The attributes of nodes and values that are read here, interned. */
static struct {
  PyObject *inputs, *outputs, *implicit_inputs, *producer, *index, *since_version, *name, *op_type, *domain,
      *ep_name, *left_to_host, *address, *consumers, *message, *input;
} names;

bool graph_nodes_setup(void) {
  const InternedName all[] = {
      {&names.inputs, "inputs"},
      {&names.outputs, "outputs"},
      {&names.implicit_inputs, "implicit_inputs"},
      {&names.producer, "producer"},
      {&names.index, "index"},
      {&names.since_version, "since_version"},
      {&names.name, "name"},
      {&names.op_type, "op_type"},
      {&names.domain, "domain"},
      {&names.ep_name, "ep_name"},
      {&names.left_to_host, "left_to_host"},
      {&names.address, "address"},
      {&names.consumers, "consumers"},
      {&names.message, "message"},
      {&names.input, "input"},
  };
  return intern_names(all, sizeof all / sizeof all[0]);
}

static bool number_of(PyObject* object, PyObject* name, Py_ssize_t* out) {
  PyObject* number = PyObject_GetAttr(object, name);
  *out = number != NULL ? PyLong_AsSsize_t(number) : -1;
  Py_XDECREF(number);
  return PyErr_Occurred() == NULL;
}

/* A list that is an attribute: a new reference, NULL with an exception set. */
static PyObject* list_of(PyObject* object, PyObject* name) {
  PyObject* list = PyObject_GetAttr(object, name);
  if (list == NULL || PyList_Check(list)) return list;
  PyErr_Format(PyExc_TypeError, "%S is no list", name);
  Py_DECREF(list);
  return NULL;
}

/* ---- the order ----------------------------------------------------------------------------------------- */

typedef struct Place {
  Py_ssize_t key; /* the node's index in the model */
  Py_ssize_t at;  /* where it is in the list */
} Place;

typedef struct Order {
  PyObject* places;   /* dict: node -> where it is in the list */
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

/* Notes who among the nodes makes the values of an attribute. */
static bool add_makers(Order* order, PyObject* node, PyObject* name) {
  PyObject* values = list_of(node, name);
  if (values == NULL) return false;
  bool done = true;
  for (Py_ssize_t i = 0; done && i < PyList_Size(values); ++i) {
    PyObject* value = PyList_GetItem(values, i);
    if (value == Py_None) continue;
    PyObject* producer = PyObject_GetAttr(value, names.producer);
    PyObject* place = producer != NULL ? PyDict_GetItemWithError(order->places, producer) : NULL;
    Py_XDECREF(producer); /* the value has it */
    if (place != NULL)
      done = add_maker(order, order->nodes[PyLong_AsSsize_t(place)]);
    else
      done = PyErr_Occurred() == NULL;
  }
  Py_DECREF(values);
  return done;
}

static bool read_links(Order* order, PyObject* nodes, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* node = PyList_GetItem(nodes, i);
    PyObject* place = PyLong_FromSsize_t(i);
    const bool placed = place != NULL && PyDict_SetItem(order->places, node, place) == 0;
    Py_XDECREF(place);
    order->nodes[i].at = i;
    if (!placed || !number_of(node, names.index, &order->nodes[i].key)) return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* node = PyList_GetItem(nodes, i);
    const size_t start = order->maker_count;
    order->starts[i] = (Py_ssize_t)start;
    if (!add_makers(order, node, names.inputs) || !add_makers(order, node, names.implicit_inputs))
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
  order->places = PyDict_New();
  order->nodes = host_malloc(room * sizeof *order->nodes);
  order->starts = host_malloc(room * sizeof *order->starts);
  order->flags = host_calloc(room, 1);
  if (order->nodes == NULL || order->starts == NULL || order->flags == NULL) PyErr_NoMemory();
  return PyErr_Occurred() == NULL && read_links(order, nodes, count);
}

static void free_order(Order* order) {
  Py_XDECREF(order->places);
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

/* ---- links --------------------------------------------------------------------------------------------- */

/* Notes that a node reads a value once more: ephost.model.graph.Value.note_reader. */
static bool note_reader(PyObject* value, PyObject* node) {
  PyObject* readers = PyObject_GetAttr(value, names.consumers);
  PyObject* before = readers != NULL ? PyDict_GetItemWithError(readers, node) : NULL;
  PyObject* times =
      PyErr_Occurred() == NULL ? PyLong_FromLong(before != NULL ? PyLong_AsLong(before) + 1 : 1) : NULL;
  const bool done = times != NULL && PyDict_SetItem(readers, node, times) == 0;
  Py_XDECREF(times);
  Py_XDECREF(readers);
  return done;
}

/* What a name stands for in dicts of values, of which the first one that has it counts, and where that is: a
 * borrowed reference; NULL with or without an exception set. */
static PyObject* look_up(PyObject* scopes, PyObject* name, Py_ssize_t* scope) {
  for (*scope = 0; *scope < PyTuple_Size(scopes); ++*scope) {
    PyObject* value = PyDict_GetItemWithError(PyTuple_GetItem(scopes, *scope), name);
    if (value != NULL || PyErr_Occurred() != NULL) return value;
  }
  return NULL;
}

/* (node, values of the graph and of those around it) -> the name of a value that there is not, or None. */
PyObject* call_link_inputs(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *node, *scopes;
  if (!PyArg_ParseTuple(args, "OO!", &node, &PyTuple_Type, &scopes)) return NULL;
  PyObject* message = PyObject_GetAttr(node, names.message);
  PyObject* texts = message != NULL ? list_of(message, names.input) : NULL;
  PyObject* inputs = texts != NULL ? list_of(node, names.inputs) : NULL;
  PyObject* missing = NULL;
  bool done = inputs != NULL;
  for (Py_ssize_t i = 0; done && i < PyList_Size(texts); ++i) {
    PyObject* name = PyList_GetItem(texts, i);
    Py_ssize_t scope;
    PyObject* value = look_up(scopes, name, &scope);
    if (value == NULL) {
      if (PyErr_Occurred() == NULL && PyObject_IsTrue(name) == 1) missing = Py_NewRef(name);
      done = PyErr_Occurred() == NULL && missing == NULL && PyList_Append(inputs, Py_None) == 0;
      continue;
    }
    done = PyList_Append(inputs, value) == 0;
    if (done && scope == 0) done = note_reader(value, node);
  }
  Py_XDECREF(message);
  Py_XDECREF(texts);
  Py_XDECREF(inputs);
  if (missing != NULL) return missing;
  if (!done || PyErr_Occurred() != NULL) return NULL;
  Py_RETURN_NONE;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

const char* graph_text(PyObject* text, PyObject** held) {
  Py_ssize_t size;
  *held = NULL;
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
  PyObject* numbers;    /* dict: value -> which of `infos` is its */
  OrtValueInfo** infos; /* of all values of the graph */
  PyObject* schema_of;  /* callable(node, inputs, outputs) -> what has the `address` of an EphostSchema */
  PyObject* left_owner; /* who runs what is left to the host */
  OrtValueInfo** links; /* those of one node, inputs before outputs */
  size_t capacity;
} Builder;

/* Adds the infos of a node's values to the links, without those that are left out at the end. */
static bool add_links(Builder* builder, PyObject* node, PyObject* name, size_t start, size_t* count) {
  PyObject* values = list_of(node, name);
  if (values == NULL) return false;
  Py_ssize_t size = PyList_Size(values);
  while (size > 0 && PyList_GetItem(values, size - 1) == Py_None) --size;
  *count = (size_t)size;
  if (start + *count > builder->capacity) {
    const size_t capacity = 2 * (start + *count);
    OrtValueInfo** grown = host_realloc(builder->links, capacity * sizeof(OrtValueInfo*));
    if (grown == NULL) {
      Py_DECREF(values);
      PyErr_NoMemory();
      return false;
    }
    builder->links = grown;
    builder->capacity = capacity;
  }
  bool done = true;
  for (Py_ssize_t i = 0; done && i < size; ++i) {
    PyObject* value = PyList_GetItem(values, i);
    OrtValueInfo** link = &builder->links[start + (size_t)i];
    *link = NULL;
    if (value == Py_None) continue;
    PyObject* number = PyDict_GetItemWithError(builder->numbers, value);
    if (number != NULL) {
      *link = builder->infos[PyLong_AsSsize_t(number)];
    } else {
      if (PyErr_Occurred() == NULL) PyErr_SetObject(PyExc_KeyError, value);
      done = false;
    }
  }
  Py_DECREF(values);
  return done;
}

/* Who has the node: an EP, the host, or nobody yet. A new reference. */
static PyObject* owner_of(const Builder* builder, PyObject* node) {
  PyObject* owner = PyObject_GetAttr(node, names.ep_name);
  if (owner == NULL || PyObject_IsTrue(owner) == 1) return owner;
  PyObject* left = PyObject_GetAttr(node, names.left_to_host);
  const int is_left = left != NULL ? PyObject_IsTrue(left) : -1;
  Py_XDECREF(left);
  if (is_left == 0) return owner;
  Py_DECREF(owner);
  return is_left == 1 ? Py_NewRef(builder->left_owner) : NULL;
}

static bool set_schema(const Builder* builder, PyObject* node, OrtNode* made, PyObject* schemas) {
  PyObject* schema = PyObject_CallFunction(builder->schema_of, "Onn", node, (Py_ssize_t)made->input_count,
                                           (Py_ssize_t)made->output_count);
  PyObject* address = schema != NULL ? PyObject_GetAttr(schema, names.address) : NULL;
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

static OrtNode* add_node(Builder* builder, PyObject* node) {
  PyObject *texts[4] = {NULL}, *held[4] = {NULL};
  const char* text[4];
  OrtNode* made = NULL;
  size_t inputs = 0, outputs = 0;
  Py_ssize_t index, version;
  texts[0] = PyObject_GetAttr(node, names.name);
  texts[1] = PyObject_GetAttr(node, names.op_type);
  texts[2] = PyObject_GetAttr(node, names.domain);
  texts[3] = owner_of(builder, node);
  bool done = number_of(node, names.index, &index) && number_of(node, names.since_version, &version);
  for (int i = 0; i < 4; ++i)
    done = done && texts[i] != NULL && (text[i] = graph_text(texts[i], &held[i])) != NULL;
  if (done && add_links(builder, node, names.inputs, 0, &inputs) &&
      add_links(builder, node, names.outputs, inputs, &outputs)) {
    made = ephost_graph_add_node(builder->graph, (size_t)index, text[0], text[1], text[2], (int)version,
                                 text[3], builder->links, inputs, builder->links + inputs, outputs);
    if (made == NULL) PyErr_NoMemory();
  }
  for (int i = 0; i < 4; ++i) {
    Py_XDECREF(texts[i]);
    Py_XDECREF(held[i]);
  }
  return made;
}

PyObject* call_graph_add_nodes(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *graph, *nodes, *infos, *out;
  Builder builder = {0};
  if (!PyArg_ParseTuple(args, "OO!O!OOOO", &graph, &PyList_Type, &nodes, &PyDict_Type, &builder.numbers,
                        &infos, &builder.schema_of, &builder.left_owner, &out)) {
    return NULL;
  }
  builder.graph = PyLong_AsVoidPtr(graph);
  builder.infos = PyLong_AsVoidPtr(infos);
  OrtNode** made = PyLong_AsVoidPtr(out);
  PyObject* schemas = PyErr_Occurred() == NULL ? PyList_New(0) : NULL;
  bool done = schemas != NULL;
  for (Py_ssize_t i = 0; done && i < PyList_Size(nodes); ++i) {
    PyObject* node = PyList_GetItem(nodes, i);
    made[i] = add_node(&builder, node);
    done = made[i] != NULL && set_schema(&builder, node, made[i], schemas);
  }
  host_free(builder.links);
  if (!done) Py_CLEAR(schemas);
  return schemas;
}
