/* The values of the pipeline's graph (ephost.model.graph), on their way to the graph that plugins read, with
 * the data of initializers. Written against CPython's limited API. */
#define _GNU_SOURCE
#include "graph_values.h"

#include "abi.h"
#include "graph_nodes.h"
#include "graph_objects.h"
#include "python.h"
#include "python_values.h"

/* The attributes of types and of what says where data lies that are read here, interned. */
static struct { PyObject *native, *in_model, *path, *offset, *nbytes; } names;

bool graph_values_setup(void) {
  const InternedName all[] = {
      {&names.native, "native"}, {&names.in_model, "in_model"}, {&names.path, "path"},
      {&names.offset, "offset"}, {&names.nbytes, "nbytes"},
  };
  return intern_names(all, sizeof all / sizeof all[0]);
}

void* graph_address(PyObject* addresses, PyObject* key) {
  PyObject* address = PyDict_GetItemWithError(addresses, key);
  if (address != NULL) return PyLong_AsVoidPtr(address);
  if (PyErr_Occurred() == NULL) PyErr_SetObject(PyExc_KeyError, key);
  return NULL;
}

bool graph_put_address(PyObject* addresses, PyObject* key, void* address) {
  PyObject* number = PyLong_FromVoidPtr(address);
  const bool done = number != NULL && PyDict_SetItem(addresses, key, number) == 0;
  Py_XDECREF(number);
  return done;
}

/* ---- initializers -------------------------------------------------------------------------------------- */

typedef struct Constants { /* as Python's */
  PyObject *held, *in_file;
  int reads_files;
} Constants;

/* A new value over the data of an initializer, which the dict has then; NULL with an exception set. */
static OrtValue* make_initializer(PyObject* held, PyObject* item, const GraphValue* value) {
  OrtValue* made = value_new();
  if (made == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  if (value_from_python(value->initializer, made) < 0 || !graph_put_address(held, item, made)) {
    ephost_api.ReleaseValue(made);
    return NULL;
  }
  if (made->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
    ephost_value_align_later(made, value->external != Py_None);
  return made;
}

/* Whether an attribute is true; -1 with an exception set. */
static int is_true(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GetAttr(object, name);
  const int result = found != NULL ? PyObject_IsTrue(found) : -1;
  Py_XDECREF(found);
  return result;
}

/* Whether an initializer still lies in the model's file, mapped; -1 with an exception set. */
static int is_in_model(const Constants* constants, const GraphValue* value) {
  if (value->external == Py_None || constants->in_file == Py_None) return 0;
  if (!PyArray_Check(value->initializer) ||
      PyArray_CHKFLAGS((PyArrayObject*)value->initializer, NPY_ARRAY_OWNDATA))
    return 0;
  return is_true(value->external, names.in_model);
}

static bool copy_data(GraphValue* value) {
  PyObject* copy = PyArray_NewCopy((PyArrayObject*)value->initializer, NPY_CORDER);
  if (copy == NULL) return false;
  graph_set(&value->initializer, copy);
  Py_DECREF(copy);
  return true;
}

static OrtValue* initializer_value(const Constants* constants, PyObject* item, GraphValue* value) {
  PyObject* held = constants->held;
  PyObject* known = PyDict_GetItemWithError(held, item);
  if (known == NULL && PyErr_Occurred() == NULL) {
    if (graph_field(value->initializer, "initializer") == NULL ||
        graph_field(value->external, "external") == NULL)
      return NULL;
    const int in_model = is_in_model(constants, value);
    if (in_model < 0 || (in_model && !constants->reads_files && !copy_data(value))) return NULL;
    if (in_model && constants->reads_files) {
      held = constants->in_file;
      known = PyDict_GetItemWithError(held, item);
    }
  }
  if (known != NULL) return PyLong_AsVoidPtr(known);
  return PyErr_Occurred() == NULL ? make_initializer(held, item, value) : NULL;
}

PyObject* call_initializer_value(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* item;
  Constants constants;
  if (!PyArg_ParseTuple(args, "O!OOp", &PyDict_Type, &constants.held, &constants.in_file, &item,
                        &constants.reads_files))
    return NULL;
  GraphValue* value = graph_value_of(item);
  OrtValue* made = value != NULL ? initializer_value(&constants, item, value) : NULL;
  return made != NULL ? PyLong_FromVoidPtr(made) : NULL;
}

/* Releases what a dict has for a value, if it has something; false with an exception set. */
static bool release_of(PyObject* held, PyObject* item) {
  PyObject* known = PyDict_GetItemWithError(held, item);
  if (known == NULL) return PyErr_Occurred() == NULL;
  OrtValue* value = PyLong_AsVoidPtr(known);
  if (PyDict_DelItem(held, item) < 0) return false;
  ephost_api.ReleaseValue(value);
  return true;
}

static bool drop_unread(const Constants* constants, PyObject* item) {
  GraphValue* value = item != Py_None ? graph_value_of(item) : NULL;
  if (value == NULL) return item == Py_None;
  if (value->is_constant != Py_True || value->is_output == Py_True) return true;
  if (value->consumers == NULL || !PyDict_Check(value->consumers)) {
    PyErr_SetString(PyExc_TypeError, "consumers is no dict");
    return false;
  }
  if (PyDict_Size(value->consumers) > 0) return true;
  if (!release_of(constants->held, item) ||
      (constants->in_file != Py_None && !release_of(constants->in_file, item)))
    return false;
  graph_set(&value->initializer, Py_None);
  graph_set(&value->external, Py_None);
  return true;
}

PyObject* call_drop_unread(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* nodes;
  Constants constants = {0};
  if (!PyArg_ParseTuple(args, "O!O!O", &PyList_Type, &nodes, &PyDict_Type, &constants.held,
                        &constants.in_file))
    return NULL;
  for (Py_ssize_t at = 0; at < PyList_Size(nodes); ++at) {
    const GraphNode* node = graph_node_of(PyList_GetItem(nodes, at));
    if (node == NULL || !graph_is_list(node->inputs, "inputs")) return NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(node->inputs); ++i) {
      if (!drop_unread(&constants, PyList_GetItem(node->inputs, i))) return NULL;
    }
  }
  Py_RETURN_NONE;
}

/* ---- values -------------------------------------------------------------------------------------------- */

typedef struct Adding {
  OrtGraph* graph;
  int is_outer;
  PyObject *infos, *type_info; /* as graph_add_values gets them */
  Constants constants;
} Adding;

/* What TensorType.native gives, mostly from where it is kept: a new reference. */
static PyObject* native_type(PyObject* type, const GraphTensorType* tensor) {
  if (graph_field(tensor->native, "_native") == NULL) return NULL;
  if (tensor->native != Py_None) return Py_NewRef(tensor->native);
  return PyObject_CallMethodObjArgs(type, names.native, NULL);
}

/* NULL with an exception set, or without memory. */
static OrtValueInfo* add_tensor(const Adding* adding, const char* name, PyObject* type,
                                const GraphTensorType* tensor) {
  PyObject* parts = native_type(type, tensor);
  PyObject* address = parts != NULL ? PyTuple_GetItem(parts, 0) : NULL;
  const EphostTensorType* native = address != NULL ? PyLong_AsVoidPtr(address) : NULL;
  OrtValueInfo* made = NULL;
  if (native != NULL)
    made = ephost_graph_add_tensor(adding->graph, name, native->element_type, native->rank, native->dims,
                                   native->symbols);
  Py_XDECREF(parts);
  return made;
}

static OrtValueInfo* add_other(const Adding* adding, const char* name, PyObject* type) {
  if (type == Py_None) return ephost_graph_add_value(adding->graph, name, NULL);
  PyObject* address = PyObject_CallFunctionObjArgs(adding->type_info, type, NULL);
  OrtTypeInfo* info = address != NULL ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(address);
  if (info == NULL) return NULL;
  OrtValueInfo* made = ephost_graph_add_value(adding->graph, name, info);
  if (made == NULL) ephost_api.ReleaseTypeInfo(info);
  return made;
}

static OrtValueInfo* add_info(const Adding* adding, const GraphValue* value) {
  PyObject* held = NULL;
  const char* name = graph_field(value->type, "type") != NULL ? graph_text(value->name, &held) : NULL;
  if (name == NULL) return NULL;
  const GraphTensorType* tensor = graph_tensor_type_of(value->type);
  OrtValueInfo* made =
      tensor != NULL ? add_tensor(adding, name, value->type, tensor) : add_other(adding, name, value->type);
  Py_XDECREF(held);
  if (made == NULL && PyErr_Occurred() == NULL) PyErr_NoMemory();
  return made;
}

static bool set_external_at(OrtValueInfo* info, PyObject* path, int64_t offset, size_t nbytes) {
#ifdef _WIN32
  wchar_t* text = PyUnicode_AsWideCharString(path, NULL);
#else
  PyObject* bytes = PyUnicode_EncodeFSDefault(path);
  const char* text = bytes != NULL ? PyBytes_AsString(bytes) : NULL;
#endif
  const bool done = text != NULL && ephost_value_set_external(info, text, offset, nbytes);
#ifdef _WIN32
  PyMem_Free(text);
#else
  Py_XDECREF(bytes);
#endif
  if (!done && PyErr_Occurred() == NULL) PyErr_NoMemory();
  return done;
}

/* Says in which file the data of an initializer lies. */
static bool set_external(OrtValueInfo* info, PyObject* external) {
  PyObject* path = PyObject_GetAttr(external, names.path);
  PyObject* offset = path != NULL ? PyObject_GetAttr(external, names.offset) : NULL;
  PyObject* nbytes = offset != NULL ? PyObject_GetAttr(external, names.nbytes) : NULL;
  const int64_t begin = nbytes != NULL ? PyLong_AsLongLong(offset) : 0;
  const size_t size = nbytes != NULL && PyErr_Occurred() == NULL ? PyLong_AsSize_t(nbytes) : 0;
  const bool done = PyErr_Occurred() == NULL && set_external_at(info, path, begin, size);
  Py_XDECREF(path);
  Py_XDECREF(offset);
  Py_XDECREF(nbytes);
  return done;
}

static bool set_initializer(const Adding* adding, PyObject* item, GraphValue* value, OrtValueInfo* info) {
  OrtValue* data = initializer_value(&adding->constants, item, value);
  if (data == NULL) return false;
  if (!ephost_value_set_initializer(info, data, false, value->is_constant == Py_True)) {
    PyErr_NoMemory();
    return false;
  }
  if (value->external == Py_None) return true;
  const int is_shown = adding->constants.reads_files ? 1 : !is_true(value->external, names.in_model);
  return PyErr_Occurred() == NULL && (!is_shown || set_external(info, value->external));
}

static bool add_value(const Adding* adding, PyObject* item) {
  GraphValue* value = graph_value_of(item);
  OrtValueInfo* info = value != NULL ? add_info(adding, value) : NULL;
  if (info == NULL || !graph_put_address(adding->infos, item, info)) return false;
  if (adding->is_outer) ephost_value_set_outer_scope(info);
  return value->initializer == Py_None || set_initializer(adding, item, value, info);
}

PyObject* call_graph_add_values(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *graph, *values;
  Adding adding = {0};
  if (!PyArg_ParseTuple(args, "OO!pO!OO!Op", &graph, &PyList_Type, &values, &adding.is_outer, &PyDict_Type,
                        &adding.infos, &adding.type_info, &PyDict_Type, &adding.constants.held,
                        &adding.constants.in_file, &adding.constants.reads_files))
    return NULL;
  adding.graph = PyLong_AsVoidPtr(graph);
  bool done = PyErr_Occurred() == NULL;
  for (Py_ssize_t at = 0; done && at < PyList_Size(values); ++at)
    done = add_value(&adding, PyList_GetItem(values, at));
  if (!done) return NULL;
  Py_RETURN_NONE;
}
