/* The walk over a graph's nodes on which the types of what they make are found, and what most nodes of most
 * graphs make: elementwise operators' outputs. The rules of all others, and whatever happens rarely, are
 * Python's (ephost.model.type_rules). Written against CPython's limited API. */
#define _GNU_SOURCE
#include "type_rules.h"

#include <limits.h>

#include "graph_objects.h"

static struct { PyObject *made, *settled, *list_of, *refuse_size; /* methods of the finder */ } names;

bool type_rules_setup(void) {
  const InternedName all[] = {{&names.made, "made"},
                              {&names.settled, "settled"},
                              {&names.list_of, "list_of"},
                              {&names.refuse_size, "refuse_size"}};
  return intern_names(all, sizeof all / sizeof all[0]);
}

typedef enum Answer {
  FAILED = -1, /* with an exception set */
  UNSURE,
  SURE,
} Answer;

enum { ELEMENT_INT32 = 6, ELEMENT_INT64 = 7 };

/* ---- shapes -------------------------------------------------------------------------------------------- */

static bool is_one(PyObject* number) {
  int overflow;
  return PyLong_AsLongLongAndOverflow(number, &overflow) == 1;
}

/* What two dimensions, neither of them left out, are broadcast to: borrowed, Py_None where it is not known.
 */
static Answer broadcast_dim(PyObject* one, PyObject* other, PyObject** out) {
  const bool is_number = PyLong_Check(one), is_other_number = PyLong_Check(other);
  *out = one;
  if (one == other || (is_other_number && is_one(other))) return SURE;
  *out = other;
  if (is_number && is_one(one)) return SURE;
  *out = is_number ? one : other;
  if (is_number != is_other_number) return SURE;
  const int equal = PyObject_RichCompareBool(one, other, Py_EQ);
  if (equal < 0) return FAILED;
  if (!equal && is_number) return UNSURE;
  *out = equal ? one : Py_None; /* two names */
  return SURE;
}

/* The shape, a new tuple, that two are broadcast to. */
static Answer broadcast(PyObject* one, PyObject* other, PyObject** out) {
  if (one == other) {
    *out = Py_NewRef(one);
    return SURE;
  }
  const Py_ssize_t left = PyTuple_Size(one), right = PyTuple_Size(other);
  const Py_ssize_t rank = left > right ? left : right;
  *out = PyTuple_New(rank);
  Answer answer = *out != NULL ? SURE : FAILED;
  for (Py_ssize_t back = 1; answer == SURE && back <= rank; ++back) {
    PyObject* a = back <= left ? PyTuple_GetItem(one, left - back) : NULL;
    PyObject* b = back <= right ? PyTuple_GetItem(other, right - back) : NULL;
    PyObject* dim = a != NULL ? a : b;
    if (a != NULL && b != NULL) answer = broadcast_dim(a, b, &dim);
    if (answer == SURE && PyTuple_SetItem(*out, rank - back, Py_NewRef(dim)) < 0) answer = FAILED;
  }
  if (answer != SURE) Py_CLEAR(*out);
  return answer;
}

/* broadcast(shape, shape) -> the shape that they are broadcast to; None where they do not fit. */
PyObject* call_broadcast(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *one, *other, *made;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &one, &PyTuple_Type, &other)) return NULL;
  return broadcast(one, other, &made) == UNSURE ? Py_NewRef(Py_None) : made;
}

/* ---- what a walk knows --------------------------------------------------------------------------------- */

typedef struct Walk {
  PyObject* found;         /* dict: value -> the type that was found for it */
  PyObject* finder;        /* Python's part of this */
  PyObject* alike;         /* dict: operator's name -> the first version of which elementwise() is right */
  PyObject* element_types; /* those that there are */
  PyObject* tensor_type;   /* callable(element_type, dims) -> type */
} Walk;

/* The type of what a node reads, a new reference. */
static Answer type_of(const Walk* walk, PyObject* object, PyObject** out) {
  const GraphValue* value = graph_value_of(object);
  if (value == NULL) return FAILED;
  PyObject* kind;
  const int is_found = dict_get(walk->found, object, &kind);
  if (is_found < 0) return FAILED;
  if (!is_found) kind = Py_XNewRef(graph_field(value->type, "type"));
  if (kind == NULL) return FAILED;
  const GraphTensorType* tensor = graph_tensor_type_of(kind);
  const bool is_whole = tensor != NULL && tensor->element_type != NULL && tensor->dims != NULL &&
                        (tensor->dims == Py_None || PyTuple_Check(tensor->dims));
  const int is_known = is_whole ? PySet_Contains(walk->element_types, tensor->element_type) : 0;
  if (is_known > 0) {
    *out = kind;
    return SURE;
  }
  Py_DECREF(kind);
  return is_known < 0 ? FAILED : UNSURE;
}

/* A list of the types of all inputs, None for those that are left out. */
static Answer types_of(const Walk* walk, const GraphNode* node, PyObject** out) {
  if (!graph_is_list(node->inputs, "inputs")) return FAILED;
  const Py_ssize_t count = PyList_Size(node->inputs);
  PyObject* types = PyList_New(count);
  Answer answer = types != NULL ? SURE : FAILED;
  for (Py_ssize_t at = 0; answer == SURE && at < count; ++at) {
    PyObject *value = PyList_GetItem(node->inputs, at), *kind = Py_None;
    if (value == NULL) {
      answer = FAILED;
    } else if (value == Py_None) {
      Py_INCREF(kind);
    } else {
      answer = type_of(walk, value, &kind);
    }
    if (answer == SURE && PyList_SetItem(types, at, kind) < 0) answer = FAILED;
  }
  if (answer != SURE) Py_CLEAR(types);
  *out = types;
  return answer;
}

/* ---- elementwise operators ----------------------------------------------------------------------------- */

/* Whether a node's output is its inputs, which are all of one type, broadcast. */
static Answer is_elementwise(const Walk* walk, const GraphNode* node) {
  if (graph_field(node->op_type, "op_type") == NULL || graph_field(node->domain, "domain") == NULL ||
      graph_field(node->since_version, "since_version") == NULL) {
    return FAILED;
  }
  if (node->custom != Py_None || PyUnicode_GetLength(node->domain) != 0) return UNSURE;
  PyObject* since;
  const int found = dict_get(walk->alike, node->op_type, &since);
  if (found <= 0) return found < 0 ? FAILED : UNSURE;
  const int is_since = PyObject_RichCompareBool(node->since_version, since, Py_GE);
  Py_DECREF(since);
  return is_since < 0 ? FAILED : is_since ? SURE : UNSURE;
}

/* The type of its output, a new reference. */
static Answer elementwise(const Walk* walk, PyObject* types, PyObject** out) {
  const Py_ssize_t count = PyList_Size(types);
  PyObject* first = count > 0 ? PyList_GetItem(types, 0) : NULL;
  const GraphTensorType* kind = first != NULL ? graph_tensor_type_of(first) : NULL;
  if (kind == NULL) return UNSURE;
  PyObject* dims = Py_NewRef(kind->dims); /* Py_None: not even their number is known */
  Answer answer = SURE;
  for (Py_ssize_t at = 0; answer == SURE && at < count; ++at) {
    PyObject* item = PyList_GetItem(types, at);
    const GraphTensorType* other = item == first ? kind : graph_tensor_type_of(item);
    if (other == NULL) {
      answer = UNSURE;
    } else if (other != kind) {
      const int is_same = PyObject_RichCompareBool(kind->element_type, other->element_type, Py_EQ);
      answer = is_same < 0 ? FAILED : is_same ? SURE : UNSURE;
    }
    if (answer != SURE || other->dims == dims || dims == Py_None) continue;
    PyObject* made = NULL;
    if (other->dims == Py_None) {
      made = Py_NewRef(Py_None);
    } else {
      answer = broadcast(dims, other->dims, &made);
    }
    Py_DECREF(dims);
    dims = made;
  }
  if (answer == SURE) {
    *out = dims == kind->dims
               ? Py_NewRef(first)
               : PyObject_CallFunctionObjArgs(walk->tensor_type, kind->element_type, dims, NULL);
    if (*out == NULL) answer = FAILED;
  }
  Py_XDECREF(dims);
  return answer;
}

/* ---- the walk ------------------------------------------------------------------------------------------ */

/* Whether 64 bits hold all dimensions that are numbers; else Python says what is wrong. */
static bool has_sizes(const Walk* walk, PyObject* node, PyObject* value, PyObject* kind, PyObject* dims) {
  for (Py_ssize_t at = 0, rank = dims != Py_None ? PyTuple_Size(dims) : 0; at < rank; ++at) {
    PyObject* dim = PyTuple_GetItem(dims, at);
    if (!PyLong_Check(dim)) continue;
    int overflow;
    const long long size = PyLong_AsLongLongAndOverflow(dim, &overflow);
    if (!overflow && size != LLONG_MIN) continue;
    Py_XDECREF(PyObject_CallMethodObjArgs(walk->finder, names.refuse_size, node, value, kind, NULL));
    return false;
  }
  return true;
}

static bool may_be_list(const GraphTensorType* kind) {
  if (kind->dims == Py_None || PyTuple_Size(kind->dims) > 1) return false;
  const long element_type = PyLong_AsLong(kind->element_type);
  return element_type == ELEMENT_INT32 || element_type == ELEMENT_INT64;
}

/* Notes the type of what a node makes; takes the reference to the type over. */
static Answer note_type(const Walk* walk, PyObject* node, PyObject* types, PyObject* object, PyObject* kind) {
  const GraphValue* value = graph_value_of(object);
  if (value == NULL || graph_field(value->type, "type") == NULL) {
    Py_DECREF(kind);
    return FAILED;
  }
  const GraphTensorType* tensor = graph_tensor_type_of(kind);
  if (tensor == NULL) { /* that of a sequence or what is optional */
    const Answer answer = kind == Py_None                                 ? UNSURE
                          : PyDict_SetItem(walk->found, object, kind) < 0 ? FAILED
                                                                          : SURE;
    Py_DECREF(kind);
    return answer;
  }
  const int is_known = PySet_Contains(walk->element_types, tensor->element_type);
  if (is_known <= 0) { /* an attribute says it */
    Py_DECREF(kind);
    return is_known < 0 ? FAILED : UNSURE;
  }
  const bool may_settle = value->type != kind && (value->type != Py_None || tensor->static_dims == Py_None);
  if (may_settle) {
    PyObject* settled = PyObject_CallMethodObjArgs(walk->finder, names.settled, object, kind, NULL);
    Py_DECREF(kind);
    kind = settled;
    tensor = kind != NULL ? graph_tensor_type_of(kind) : NULL;
    if (tensor == NULL) {
      Py_XDECREF(kind);
      return kind == NULL ? FAILED : UNSURE;
    }
  }
  Answer answer =
      has_sizes(walk, node, object, kind, tensor->dims) && PyDict_SetItem(walk->found, object, kind) == 0
          ? SURE
          : FAILED;
  if (answer == SURE && may_be_list(tensor)) {
    PyObject* done = PyObject_CallMethodObjArgs(walk->finder, names.list_of, node, types, object, kind, NULL);
    if (done == NULL) answer = FAILED;
    Py_XDECREF(done);
  }
  Py_DECREF(kind);
  return answer;
}

/* Notes the types of what a node makes as its operator's rule says. */
static Answer by_rule(const Walk* walk, PyObject* object, const GraphNode* node, PyObject* types) {
  PyObject* said = PyObject_CallMethodObjArgs(walk->finder, names.made, object, types, NULL);
  PyObject* made = said != NULL ? PySequence_List(said) : NULL;
  Py_XDECREF(said);
  if (made == NULL) return FAILED;
  const Py_ssize_t count = PyList_Size(node->outputs);
  Answer answer = PyList_Size(made) >= count ? SURE : UNSURE;
  for (Py_ssize_t at = 0; answer == SURE && at < count; ++at) {
    PyObject* value = PyList_GetItem(node->outputs, at);
    if (value == Py_None) continue;
    answer = note_type(walk, object, types, value, Py_NewRef(PyList_GetItem(made, at)));
  }
  Py_DECREF(made);
  return answer;
}

static Answer find_of_node(const Walk* walk, PyObject* object) {
  const GraphNode* node = graph_node_of(object);
  if (node == NULL || !graph_is_list(node->outputs, "outputs")) return FAILED;
  PyObject* types;
  Answer answer = types_of(walk, node, &types);
  if (answer != SURE) return answer;
  answer = is_elementwise(walk, node);
  if (answer == UNSURE) {
    answer = by_rule(walk, object, node, types);
  } else if (answer == SURE) {
    PyObject *kind, *value = PyList_Size(node->outputs) == 1 ? PyList_GetItem(node->outputs, 0) : Py_None;
    answer = value == Py_None ? UNSURE : elementwise(walk, types, &kind);
    if (answer == SURE) answer = note_type(walk, object, types, value, kind);
  }
  Py_DECREF(types);
  return answer;
}

/* find_types(nodes, found, finder, (alike, element_types, tensor_type)) -> whether the types of all that the
 * nodes make were found. The finder's methods:
 *   made(node, types) -> the types of what a node makes, by its operator's rule;
 *   settled(value, type) -> the type, with what was known of the value before, and names for unknown
 * dimensions; list_of(node, types, value, type): notes the numbers of what may be a list of such;
 *   refuse_size(node, value, type): raises. */
PyObject* call_find_types(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* nodes;
  Walk walk;
  if (!PyArg_ParseTuple(args, "O!O!O(O!O!O)", &PyList_Type, &nodes, &PyDict_Type, &walk.found, &walk.finder,
                        &PyDict_Type, &walk.alike, &PyFrozenSet_Type, &walk.element_types,
                        &walk.tensor_type)) {
    return NULL;
  }
  Answer answer = SURE;
  for (Py_ssize_t at = 0; answer == SURE && at < PyList_Size(nodes); ++at) {
    PyObject* node = Py_NewRef(PyList_GetItem(nodes, at)); /* rules are Python's: the list may change */
    answer = find_of_node(&walk, node);
    Py_DECREF(node);
  }
  return answer == FAILED ? NULL : PyBool_FromLong(answer == SURE);
}
