/* Which nodes inference has to see again: what they read, and what it was when inference saw them last (see
 * ephost.model.unseen). Written against CPython's limited API. */
#define _GNU_SOURCE
#include "unseen.h"

#include "graph_objects.h"

static PyObject* nodes_name; /* "nodes", interned */

bool unseen_setup(void) {
  const InternedName all[] = {{&nodes_name, "nodes"}};
  return intern_names(all, sizeof all / sizeof all[0]);
}

/* What of a value's type inference may find more of. */
typedef struct Openness {
  bool is_unknown;  /* element type, rank or a dimension */
  bool may_be_list; /* it may be a list of numbers, or one number, which are propagated from node to node */
} Openness;

/* Of the type, borrowed; false with an exception set. */
static bool openness_of(PyObject* type, Openness* out) {
  const GraphTensorType* tensor = graph_tensor_type_of(type);
  if (tensor == NULL) {
    *out = (Openness){type == Py_None, true};
    return true;
  }
  if (graph_field(tensor->element_type, "element_type") == NULL || graph_field(tensor->dims, "dims") == NULL)
    return false;
  const int has_elements = PyObject_IsTrue(tensor->element_type);
  const Py_ssize_t rank = tensor->dims == Py_None ? 0 : PyObject_Size(tensor->dims);
  *out = (Openness){!has_elements || tensor->static_dims == Py_None, rank < 2};
  return has_elements >= 0 && rank >= 0;
}

static const GraphValue* typed_value_of(PyObject* object) {
  const GraphValue* value = graph_value_of(object);
  return value != NULL && graph_field(value->type, "type") != NULL ? value : NULL;
}

static bool append(PyObject* list, PyObject* item) { return item != NULL && PyList_Append(list, item) == 0; }

/* ---- what a node reads --------------------------------------------------------------------------------- */

/* Appends what was said of these values: their types, and which one it is of those that may be lists. */
static bool add_reads(PyObject* values, PyObject* found) {
  for (Py_ssize_t at = 0; at < PyList_Size(values); ++at) {
    PyObject* object = PyList_GetItem(values, at);
    if (object == Py_None) {
      if (!append(found, Py_None)) return false;
      continue;
    }
    const GraphValue* value = typed_value_of(object);
    Openness openness;
    if (value == NULL || graph_field(value->is_constant, "is_constant") == NULL ||
        !append(found, value->type) || !openness_of(value->type, &openness)) {
      return false;
    }
    if (!openness.may_be_list) continue;
    PyObject* which = PyTuple_Pack(2, object, value->is_constant);
    const bool added = append(found, which);
    Py_XDECREF(which);
    if (!added) return false;
  }
  return true;
}

static PyObject* reads_of(PyObject* object);

static bool add_reads_of_bodies(PyObject* subgraphs, PyObject* found) {
  PyObject* bodies = PyDict_Values(subgraphs);
  bool is_good = bodies != NULL;
  for (Py_ssize_t at = 0; is_good && at < PyList_Size(bodies); ++at) {
    PyObject* nodes = PyObject_GetAttr(PyList_GetItem(bodies, at), nodes_name);
    is_good = nodes != NULL && graph_is_list(nodes, "nodes");
    for (Py_ssize_t i = 0; is_good && i < PyList_Size(nodes); ++i) {
      PyObject* reads = reads_of(PyList_GetItem(nodes, i));
      is_good = append(found, reads);
      Py_XDECREF(reads);
    }
    Py_XDECREF(nodes);
  }
  Py_XDECREF(bodies);
  return is_good;
}

/* Of all that a node reads, and the nodes of its bodies; a new reference. */
static PyObject* reads_of(PyObject* object) {
  const GraphNode* node = graph_node_of(object);
  if (node == NULL || !graph_is_list(node->inputs, "inputs") ||
      !graph_is_list(node->implicit_inputs, "implicit_inputs") ||
      graph_field(node->subgraphs, "subgraphs") == NULL || Py_EnterRecursiveCall(" in what a node reads")) {
    return NULL;
  }
  PyObject *found = PyList_New(0), *made = NULL;
  if (found != NULL && add_reads(node->inputs, found) && add_reads(node->implicit_inputs, found) &&
      (PyDict_Size(node->subgraphs) == 0 || add_reads_of_bodies(node->subgraphs, found))) {
    made = PyList_AsTuple(found);
  }
  Py_XDECREF(found);
  Py_LeaveRecursiveCall();
  return made;
}

/* ---- what a node makes --------------------------------------------------------------------------------- */

/* What a node makes of which inference may find more, and what may be lists. */
typedef struct OpenEnds {
  PyObject *unknown, *lists; /* new lists; NULL: none */
} OpenEnds;

static void drop_ends(OpenEnds* ends) {
  Py_XDECREF(ends->unknown);
  Py_XDECREF(ends->lists);
  *ends = (OpenEnds){NULL, NULL};
}

static bool add_to(PyObject** list, PyObject* item) {
  if (*list == NULL) *list = PyList_New(0);
  return *list != NULL && append(*list, item);
}

static bool add_ends(const GraphNode* node, bool all, OpenEnds* ends) {
  for (Py_ssize_t at = 0; at < PyList_Size(node->outputs); ++at) {
    PyObject* object = PyList_GetItem(node->outputs, at);
    if (object == Py_None) continue;
    const GraphValue* value = typed_value_of(object);
    Openness openness;
    if (value == NULL || !openness_of(value->type, &openness)) return false;
    if ((all || openness.is_unknown) && !add_to(&ends->unknown, object)) return false;
    if (!all && openness.may_be_list && !add_to(&ends->lists, object)) return false;
  }
  return true;
}

/* Of what is in its bodies nobody knows it: a node that has some counts as if it made something unknown. */
static bool ends_of(PyObject* object, OpenEnds* ends) {
  const GraphNode* node = graph_node_of(object);
  *ends = (OpenEnds){NULL, NULL};
  if (node == NULL || !graph_is_list(node->outputs, "outputs") ||
      graph_field(node->subgraphs, "subgraphs") == NULL) {
    return false;
  }
  if (add_ends(node, false, ends) &&
      (ends->unknown != NULL || PyDict_Size(node->subgraphs) == 0 || add_ends(node, true, ends))) {
    return true;
  }
  drop_ends(ends);
  return false;
}

/* ---- methods of the module ----------------------------------------------------------------------------- */

static bool note_node(PyObject* seen, PyObject* node) {
  OpenEnds ends;
  if (!ends_of(node, &ends)) return false;
  const bool is_open = ends.unknown != NULL || ends.lists != NULL;
  drop_ends(&ends);
  if (!is_open) return true;
  PyObject* reads = reads_of(node);
  const bool noted = reads != NULL && PyDict_SetItem(seen, node, reads) == 0;
  Py_XDECREF(reads);
  return noted;
}

/* note_reads(seen: dict, nodes): what these nodes read now is what inference has seen of them. */
PyObject* call_note_reads(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *seen, *nodes;
  if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &seen, &PyList_Type, &nodes)) return NULL;
  for (Py_ssize_t at = 0; at < PyList_Size(nodes); ++at) {
    if (!note_node(seen, PyList_GetItem(nodes, at))) return NULL;
  }
  Py_RETURN_NONE;
}

/* The walk over a graph's nodes. */
typedef struct Walk {
  PyObject *seen, *chosen;
  PyObject* touched; /* set: values of which more may be known once inference has gone through the chosen */
  bool told;         /* whether a chosen node makes something unknown */
  int onward;
} Walk;

/* 1: one of the values is among those touched; 0: none; -1: an exception is set. */
static int reads_touched(const Walk* walk, PyObject* values) {
  for (Py_ssize_t at = 0; at < PyList_Size(values); ++at) {
    const int is_touched = PySet_Contains(walk->touched, PyList_GetItem(values, at));
    if (is_touched != 0) return is_touched;
  }
  return 0;
}

/* Whether inference has seen a node as it is now; -1: an exception is set. */
static int is_as_seen(const Walk* walk, PyObject* object) {
  PyObject* before;
  const int was_seen = dict_get(walk->seen, object, &before);
  if (was_seen <= 0) return was_seen;
  PyObject* now = reads_of(object);
  int is_same = now != NULL ? PyObject_RichCompareBool(before, now, Py_EQ) : -1;
  Py_XDECREF(now);
  Py_DECREF(before);
  const GraphNode* node = graph_node_of(object);
  if (is_same > 0 && PySet_Size(walk->touched) > 0) {
    int touched = reads_touched(walk, node->inputs);
    if (touched == 0) touched = reads_touched(walk, node->implicit_inputs);
    is_same = touched < 0 ? -1 : !touched;
  }
  return is_same;
}

static bool touch(Walk* walk, PyObject* values) {
  for (Py_ssize_t at = 0; values != NULL && at < PyList_Size(values); ++at) {
    if (PySet_Add(walk->touched, PyList_GetItem(values, at)) < 0) return false;
  }
  return true;
}

static bool walk_node(Walk* walk, PyObject* node) {
  OpenEnds ends;
  if (!ends_of(node, &ends)) return false;
  bool is_good = true;
  if (ends.unknown != NULL || ends.lists != NULL) {
    const int is_same = is_as_seen(walk, node);
    is_good = is_same > 0 || (is_same == 0 && PyDict_SetItem(walk->chosen, node, Py_None) == 0 &&
                              touch(walk, ends.lists) && (!walk->onward || touch(walk, ends.unknown)));
    if (is_same == 0 && ends.unknown != NULL) walk->told = true;
  }
  drop_ends(&ends);
  return is_good;
}

/* unseen_nodes(nodes, seen: dict, onward) -> (dict whose keys are the nodes that read something else than
 * inference saw last, whether one of them makes something unknown). onward: with those that follow from what
 * is unknown. */
PyObject* call_unseen_nodes(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* nodes;
  Walk walk = {.told = false};
  if (!PyArg_ParseTuple(args, "O!O!p", &PyList_Type, &nodes, &PyDict_Type, &walk.seen, &walk.onward))
    return NULL;
  walk.chosen = PyDict_New();
  walk.touched = PySet_New(NULL);
  bool is_good = walk.chosen != NULL && walk.touched != NULL;
  for (Py_ssize_t at = 0; is_good && at < PyList_Size(nodes); ++at) {
    is_good = walk_node(&walk, PyList_GetItem(nodes, at));
  }
  PyObject* result = is_good ? Py_BuildValue("(OO)", walk.chosen, walk.told ? Py_True : Py_False) : NULL;
  Py_XDECREF(walk.chosen);
  Py_XDECREF(walk.touched);
  return result;
}
