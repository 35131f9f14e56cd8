/* Nodes from messages, and the links between them: most of what loading a model is, once it has been read.
 * Written against CPython's limited API. */
#define _GNU_SOURCE
#include "graph_load.h"

#include "graph_objects.h"

/* The attributes of messages that are read here, interned. */
static struct { PyObject *op_type, *domain, *name, *input, *output, *attribute, *type; } names;

bool graph_load_setup(void) {
  const InternedName all[] = {
      {&names.op_type, "op_type"}, {&names.domain, "domain"}, {&names.name, "name"},
      {&names.input, "input"},     {&names.output, "output"}, {&names.attribute, "attribute"},
      {&names.type, "type"},
  };
  return intern_names(all, sizeof all / sizeof all[0]);
}

/* A list that a message has: borrowed, since the message keeps it; NULL with an exception set. */
static PyObject* list_of(PyObject* message, PyObject* name, const char* text) {
  PyObject* list = graph_field(message, "message") != NULL ? graph_attribute(message, name) : NULL;
  if (list == NULL) return NULL;
  Py_DECREF(list);
  return graph_is_list(list, text) ? list : NULL;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

typedef struct Making {
  PyObject *values, *operators, *operator_of, *constant, *define, *check; /* as make_nodes gets them */
  Py_ssize_t index;                                                       /* of the next node */
  PyObject *made, *carriers;                                              /* the lists that come of it */
} Making;

/* What `operators` says of a message's operator: a new reference. */
static PyObject* operator_of(const Making* making, PyObject* domain, PyObject* op_type) {
  PyObject* known = PyDict_GetItemWithError(making->operators, domain);
  PyObject* found = known != NULL ? PyDict_GetItemWithError(known, op_type) : NULL;
  if (found != NULL) return Py_NewRef(found);
  if (PyErr_Occurred() != NULL) return NULL;
  return PyObject_CallFunctionObjArgs(making->operator_of, domain, op_type, NULL);
}

/* Gives the node the values that it makes. */
static bool add_outputs(const Making* making, GraphNode* node, PyObject* texts) {
  for (Py_ssize_t at = 0; at < PyList_Size(texts); ++at) {
    PyObject* name = PyList_GetItem(texts, at);
    const int is_named = PyObject_IsTrue(name);
    if (is_named < 0) return false;
    if (is_named == 0) {
      if (PyList_Append(node->outputs, Py_None) < 0) return false;
      continue;
    }
    const bool is_there = PyDict_GetItemWithError(making->values, name) != NULL;
    if (PyErr_Occurred() != NULL) return false;
    PyObject* made = is_there ? PyObject_CallFunctionObjArgs(making->define, name, NULL)
                              : (PyObject*)graph_value_new(name);
    GraphValue* value = made != NULL ? graph_value_of(made) : NULL;
    PyObject* place = value != NULL ? PyLong_FromSsize_t(at) : NULL;
    bool done = place != NULL && (is_there || PyDict_SetItem(making->values, name, made) == 0) &&
                PyList_Append(node->outputs, made) == 0;
    if (done) {
      graph_set(&value->producer, (PyObject*)node);
      graph_set(&value->producer_output, place);
    }
    Py_XDECREF(place);
    Py_XDECREF(made);
    if (!done) return false;
  }
  return true;
}

enum { TENSOR = 4, GRAPH = 5, GRAPHS = 10 }; /* of AttributeProto.AttributeType */

/* Whether one of the attributes is a graph or a tensor; -1 with an exception set. */
static int has_parts(PyObject* attributes) {
  int found = 0;
  for (Py_ssize_t at = 0; found == 0 && at < PyList_Size(attributes); ++at) {
    PyObject* number = graph_attribute(PyList_GetItem(attributes, at), names.type);
    const long type = number != NULL ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    found = PyErr_Occurred() != NULL ? -1 : type == TENSOR || type == GRAPH || type == GRAPHS;
  }
  return found;
}

/* Whether a list of names has so many, none of them empty; -1 with an exception set. */
static int is_plain(PyObject* texts, Py_ssize_t least, Py_ssize_t most) {
  const Py_ssize_t count = PyList_Size(texts);
  if (count < least || count > most) return 0;
  int plain = 1;
  for (Py_ssize_t at = 0; plain == 1 && at < count; ++at) plain = PyObject_IsTrue(PyList_GetItem(texts, at));
  return plain;
}

static bool make_node(Making* making, PyObject* message, PyObject* op_type, PyObject* row) {
  PyObject *domain, *version;
  Py_ssize_t least_inputs, most_inputs, least_outputs, most_outputs;
  PyObject* inputs = list_of(message, names.input, "input");
  PyObject* outputs = inputs != NULL ? list_of(message, names.output, "output") : NULL;
  PyObject* attributes = outputs != NULL ? list_of(message, names.attribute, "attribute") : NULL;
  if (attributes == NULL || !PyArg_ParseTuple(row, "OOnnnn", &domain, &version, &least_inputs, &most_inputs,
                                              &least_outputs, &most_outputs))
    return false;
  PyObject *name = graph_attribute(message, names.name), *index = PyLong_FromSsize_t(making->index);
  GraphNode* node = name != NULL && index != NULL ? graph_node_new() : NULL;
  bool done = node != NULL;
  if (done) {
    graph_set(&node->index, index);
    graph_set(&node->message, message);
    graph_set(&node->op_type, op_type);
    graph_set(&node->domain, domain);
    graph_set(&node->name, name);
    graph_set(&node->since_version, version);
    done = add_outputs(making, node, outputs);
  }
  Py_XDECREF(name);
  Py_XDECREF(index);
  int plain = 0, carries = 0;
  if (done && PyList_Size(attributes) == 0)
    plain = is_plain(inputs, least_inputs, most_inputs);
  else if (done)
    carries = has_parts(attributes);
  const Py_ssize_t made = done ? PyList_Size(outputs) : 0;
  done = done && plain >= 0 && carries >= 0;
  if (done && !(plain == 1 && least_outputs <= made && made <= most_outputs)) {
    PyObject* checked = PyObject_CallFunctionObjArgs(making->check, (PyObject*)node, NULL);
    done = checked != NULL;
    Py_XDECREF(checked);
  }
  done = done && PyList_Append(making->made, (PyObject*)node) == 0 &&
         (carries == 0 || PyList_Append(making->carriers, (PyObject*)node) == 0);
  making->index += done;
  Py_XDECREF((PyObject*)node);
  return done;
}

static bool make_node_or_constant(Making* making, PyObject* message) {
  PyObject* op_type = graph_attribute(message, names.op_type);
  PyObject* domain = op_type != NULL ? graph_attribute(message, names.domain) : NULL;
  PyObject* row = domain != NULL ? operator_of(making, domain, op_type) : NULL;
  bool done = row != NULL;
  if (done && row == Py_None) {
    PyObject* taken = PyObject_CallFunctionObjArgs(making->constant, message, NULL);
    done = taken != NULL;
    Py_XDECREF(taken);
  } else if (done) {
    done = make_node(making, message, op_type, row);
  }
  Py_XDECREF(op_type);
  Py_XDECREF(domain);
  Py_XDECREF(row);
  return done;
}

PyObject* call_make_nodes(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* messages;
  Making making = {0};
  if (!PyArg_ParseTuple(args, "O!O!nO!OOOO", &PyList_Type, &messages, &PyDict_Type, &making.values,
                        &making.index, &PyDict_Type, &making.operators, &making.operator_of, &making.constant,
                        &making.define, &making.check))
    return NULL;
  making.made = PyList_New(0);
  making.carriers = PyList_New(0);
  bool done = making.made != NULL && making.carriers != NULL;
  for (Py_ssize_t at = 0; done && at < PyList_Size(messages); ++at)
    done = make_node_or_constant(&making, PyList_GetItem(messages, at));
  PyObject* both = done ? PyTuple_Pack(2, making.made, making.carriers) : NULL;
  Py_XDECREF(making.made);
  Py_XDECREF(making.carriers);
  return both;
}

/* ---- links --------------------------------------------------------------------------------------------- */

/* Notes that a node reads a value once more: ephost.model.graph.Value.note_reader. */
static bool note_reader(const GraphValue* value, PyObject* node) {
  if (value->consumers == NULL || !PyDict_Check(value->consumers)) {
    PyErr_SetString(PyExc_TypeError, "consumers is no dict");
    return false;
  }
  PyObject* before = PyDict_GetItemWithError(value->consumers, node);
  if (before == NULL && PyErr_Occurred() != NULL) return false;
  PyObject* times = PyLong_FromLong(before != NULL ? PyLong_AsLong(before) + 1 : 1);
  const bool done = times != NULL && PyDict_SetItem(value->consumers, node, times) == 0;
  Py_XDECREF(times);
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

/* The values that a message names, for its node. False with an exception set, or with the name of one that
 * there is not. */
static bool link_node(PyObject* item, PyObject* scopes, PyObject** missing) {
  const GraphNode* node = graph_node_of(item);
  if (node == NULL || !graph_is_list(node->inputs, "inputs")) return false;
  PyObject* texts = list_of(node->message, names.input, "input");
  if (texts == NULL) return false;
  for (Py_ssize_t at = 0; at < PyList_Size(texts); ++at) {
    PyObject* name = PyList_GetItem(texts, at);
    Py_ssize_t scope;
    PyObject* value = look_up(scopes, name, &scope);
    if (value == NULL) {
      if (PyErr_Occurred() != NULL) return false;
      if (PyObject_IsTrue(name) == 1) *missing = name;
      if (*missing != NULL || PyList_Append(node->inputs, Py_None) < 0) return false;
      continue;
    }
    const GraphValue* read = graph_value_of(value);
    if (read == NULL || PyList_Append(node->inputs, value) < 0) return false;
    if (scope == 0 && !note_reader(read, item)) return false;
  }
  return true;
}

PyObject* call_link_inputs(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *nodes, *scopes, *missing = NULL;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &nodes, &PyTuple_Type, &scopes)) return NULL;
  for (Py_ssize_t at = 0; at < PyList_Size(nodes); ++at) {
    PyObject* node = PyList_GetItem(nodes, at);
    if (!link_node(node, scopes, &missing)) return missing != NULL ? PyTuple_Pack(2, node, missing) : NULL;
  }
  Py_RETURN_NONE;
}
