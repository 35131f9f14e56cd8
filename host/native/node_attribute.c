/* The values of nodes' attributes, which rules ask for by the thousand while a model opens. Written against
 * CPython's limited API. */
#define _GNU_SOURCE
#include "node_attribute.h"

#include "graph_objects.h"

/* The fields that hold values, by the attribute's type: ONNX's AttributeProto. */
static const char* const value_fields[] = {
    [1] = "f",
    [2] = "i",
    [3] = "s",
    [4] = "t",
    [5] = "g",
    [6] = "floats",
    [7] = "ints",
    [8] = "strings",
    [9] = "tensors",
    [10] = "graphs",
    [11] = "sparse_tensor",
    [12] = "sparse_tensors",
    [13] = "tp",
    [14] = "type_protos",
};
enum { TYPES = sizeof value_fields / sizeof value_fields[0], TYPE_FLOATS = 6, TYPE_INTS = 7 };

static PyObject* fields[TYPES]; /* these names, interned */
static struct { PyObject *name, *type, *ref_attr_name, *attribute; } names;

bool node_attribute_setup(void) {
  const InternedName all[] = {{&names.name, "name"},
                              {&names.type, "type"},
                              {&names.ref_attr_name, "ref_attr_name"},
                              {&names.attribute, "attribute"}};
  bool done = intern_names(all, sizeof all / sizeof all[0]);
  for (size_t at = 1; done && at < TYPES; ++at) {
    done = (fields[at] = PyUnicode_InternFromString(value_fields[at])) != NULL;
  }
  return done;
}

/* Raises a ValueError of an attribute by its name. */
static void refuse(PyObject* attribute, const char* format) {
  PyObject* name = graph_attribute(attribute, names.name);
  if (name != NULL) PyErr_Format(PyExc_ValueError, format, name);
  Py_XDECREF(name);
}

/* attribute_value(attribute) -> a number, bytes or a message, or a list of these. Raises ValueError where it
 * has no type, or stands for an attribute of a function's. */
PyObject* call_attribute_value(PyObject* module, PyObject* attribute) {
  (void)module;
  PyObject* stands_for = graph_attribute(attribute, names.ref_attr_name);
  const int is_reference = stands_for != NULL ? PyObject_IsTrue(stands_for) : -1;
  Py_XDECREF(stands_for);
  if (is_reference != 0) {
    if (is_reference > 0) refuse(attribute, "the attribute '%U' stands for one of a function's");
    return NULL;
  }
  PyObject* type = graph_attribute(attribute, names.type);
  const long kind = type != NULL ? PyLong_AsLong(type) : -1;
  Py_XDECREF(type);
  if (PyErr_Occurred() != NULL) return NULL;
  if (kind <= 0 || kind >= TYPES) {
    refuse(attribute, "the attribute '%U' has no type");
    return NULL;
  }
  PyObject* value = graph_attribute(attribute, fields[kind]);
  if (value == NULL || (kind != TYPE_FLOATS && kind != TYPE_INTS)) return value;
  PyObject* list = PySequence_List(value); /* many numbers are an array.array */
  Py_DECREF(value);
  return list;
}

/* Whether an attribute has this name; -1: an exception is set. */
static int is_named(PyObject* attribute, PyObject* name) {
  PyObject* own = graph_attribute(attribute, names.name);
  const int is_same = own == NULL ? -1 : own == name ? 1 : PyObject_RichCompareBool(own, name, Py_EQ);
  Py_XDECREF(own);
  return is_same;
}

static PyObject* value_among(PyObject* attributes, PyObject* name, PyObject* otherwise) {
  for (Py_ssize_t at = 0; at < PyList_Size(attributes); ++at) {
    PyObject* attribute = PyList_GetItem(attributes, at);
    const int is_it = is_named(attribute, name);
    if (is_it != 0) return is_it > 0 ? call_attribute_value(NULL, attribute) : NULL;
  }
  return Py_NewRef(otherwise);
}

PyObject* graph_node_attribute(PyObject* object, PyObject* args) {
  PyObject *name, *otherwise = Py_None;
  if (!PyArg_ParseTuple(args, "U|O", &name, &otherwise)) return NULL;
  const GraphNode* node = graph_node_of(object);
  if (node == NULL || graph_field(node->message, "message") == NULL) return NULL;
  PyObject *attributes = graph_attribute(node->message, names.attribute), *value = NULL;
  if (attributes != NULL && graph_is_list(attributes, "attribute")) {
    value = value_among(attributes, name, otherwise);
  }
  Py_XDECREF(attributes);
  return value;
}
