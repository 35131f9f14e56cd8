/* ephost._call: the way from Python into a run and back, written against CPython's limited API and numpy's C
 * API because each run of a small model is mostly this way. This file is the module; values are in
 * python_values.c, runs in runner.c and binding.c. */
#define _GNU_SOURCE
#define EPHOST_IMPORTS_NUMPY
#include "call.h"

#include <stdatomic.h>

#include "abi.h"
#include "called_ops.h"
#include "fallback.h"
#include "forks.h"
#include "graph_attributes.h"
#include "graph_load.h"
#include "graph_nodes.h"
#include "graph_objects.h"
#include "graph_values.h"
#include "heap.h"
#include "messages.h"
#include "node_attribute.h"
#include "records.h"
#include "runner.h"
#include "type_rules.h"
#include "unseen.h"

static atomic_bool finalizing; /* set by Python's atexit */

bool python_is_leaving(void) { return atomic_load(&finalizing); }

bool intern_names(const InternedName* names, size_t count) {
  for (size_t at = 0; at < count; ++at) {
    *names[at].to = PyUnicode_InternFromString(names[at].text);
    if (*names[at].to == NULL) return false;
  }
  return true;
}

/* setup(status_error, dtypes: dict element type -> dtype, more_dtypes: callable() -> such a dict of all) */
static PyObject* call_setup(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *error, *dtypes, *more;
  if (!PyArg_ParseTuple(args, "OO!O", &error, &PyDict_Type, &dtypes, &more)) return NULL;
  if (!dtypes_add(dtypes)) return NULL;
  Py_XDECREF(call_state.more_dtypes);
  call_state.more_dtypes = Py_NewRef(more);
  atomic_store(&call_state.asked, false);
  Py_XDECREF(call_state.status_error);
  call_state.status_error = Py_NewRef(error);
  Py_RETURN_NONE;
}

/* set_value_type(type): the class whose instances are native values */
static PyObject* call_set_value_type(PyObject* module, PyObject* type) {
  (void)module;
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "set_value_type takes a class");
    return NULL;
  }
  PyTypeObject* before = call_state.value_type;
  call_state.value_type = (PyTypeObject*)Py_NewRef(type);
  Py_XDECREF((PyObject*)before);
  Py_RETURN_NONE;
}

/* Few kernels ask for it, and it takes a while. */
static void load_called_operators(void) {
  if (python_is_leaving()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject* module = PyImport_ImportModule("ephost.called_operators");
  if (module == NULL) PyErr_WriteUnraisable(NULL);
  Py_XDECREF(module);
  PyGILState_Release(gil);
}

/* finalize(): from now on threads of plugins leave Python alone */
static PyObject* call_finalize(PyObject* module, PyObject* args) {
  (void)module;
  (void)args;
  atomic_store(&finalizing, true);
  Py_RETURN_NONE;
}

/* value_to_object(address) -> array, list, dict or None; shares the value's buffer */
static PyObject* call_value_to_object(PyObject* module, PyObject* address) {
  (void)module;
  const OrtValue* value = PyLong_AsVoidPtr(address);
  if (value == NULL) {
    if (PyErr_Occurred() == NULL) PyErr_SetString(PyExc_ValueError, "no value");
    return NULL;
  }
  return value_to_python(value, SHARE_BUFFER);
}

/* value_from_object(object) -> address of a new native value, to be released by ReleaseValue */
static PyObject* call_value_from_object(PyObject* module, PyObject* object) {
  (void)module;
  OrtValue* value = value_new();
  if (value == NULL) return PyErr_NoMemory();
  if (value_from_python(object, value) < 0) {
    ephost_api.ReleaseValue(value);
    return NULL;
  }
  return PyLong_FromVoidPtr(value);
}

/* What a value's memory was before something else was to be kept with it. */
typedef struct Kept {
  Buffer* inner; /* NULL: the memory is somebody else's */
  PyObject* object;
} Kept;

/* The memory goes first: what is kept may be what frees it. */
static void drop_kept(Buffer* buffer) {
  Kept* kept = buffer->context;
  buffer_release(kept->inner);
  if (!atomic_load(&finalizing)) {
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(kept->object);
    PyGILState_Release(gil);
  }
  host_free(kept);
}

/* value_keep(address of a tensor, object): the object lives as long as anybody shares the tensor's memory */
static PyObject* call_value_keep(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *address, *object;
  if (!PyArg_ParseTuple(args, "OO", &address, &object)) return NULL;
  OrtValue* value = PyLong_AsVoidPtr(address);
  if (value == NULL || value->type != ONNX_TYPE_TENSOR) {
    if (PyErr_Occurred() == NULL) PyErr_SetString(PyExc_ValueError, "no tensor");
    return NULL;
  }
  Kept* kept = host_malloc(sizeof *kept);
  Buffer* buffer = kept != NULL ? buffer_adopt(value->data, value->nbytes, drop_kept, kept) : NULL;
  if (buffer == NULL) {
    host_free(kept);
    return PyErr_NoMemory();
  }
  *kept = (Kept){value->buffer, Py_NewRef(object)};
  value->buffer = buffer;
  Py_RETURN_NONE;
}

/* object_address(object) -> address of a new reference to the object, for a step on the fallback */
static PyObject* call_object_address(PyObject* module, PyObject* object) {
  (void)module;
  Py_INCREF(object);
  return PyLong_FromVoidPtr(object);
}

static PyMethodDef module_methods[] = {
    {"setup", call_setup, METH_VARARGS, "setup(status_error, dtypes, more_dtypes)"},
    {"set_value_type", call_set_value_type, METH_O, "set_value_type(type)"},
    {"finalize", call_finalize, METH_NOARGS, "finalize()"},
    {"value_to_object", call_value_to_object, METH_O, "value_to_object(address)"},
    {"value_from_object", call_value_from_object, METH_O, "value_from_object(object)"},
    {"value_keep", call_value_keep, METH_VARARGS, "value_keep(address, object)"},
    {"dlpack_export", call_dlpack_export, METH_VARARGS,
     "dlpack_export(address, owner, device_type, device_number, versioned, read_only) -> capsule"},
    {"dlpack_device", call_dlpack_device, METH_O, "dlpack_device(capsule) -> (type, number)"},
    {"dlpack_is_uint8", call_dlpack_is_uint8, METH_O, "dlpack_is_uint8(capsule) -> bool"},
    {"dlpack_is_read_only", call_dlpack_is_read_only, METH_O, "dlpack_is_read_only(capsule) -> bool"},
    {"dlpack_take", call_dlpack_take, METH_O,
     "dlpack_take(capsule) -> (address, element_type, shape, owner)"},
    {"object_address", call_object_address, METH_O, "object_address(object)"},
    {"message_type", call_message_type, METH_O, "message_type(class) -> capsule"},
    {"message_fields", call_message_fields, METH_VARARGS, "message_fields(capsule, rows)"},
    {"message_read", call_message_read, METH_VARARGS, "message_read(capsule, bytes, smallest_view)"},
    {"message_write", call_message_write, METH_VARARGS, "message_write(capsule, message) -> bytes"},
    {"set_graph_classes", call_set_graph_classes, METH_VARARGS, "set_graph_classes(node, value)"},
    {"depth_first_order", call_depth_first_order, METH_O, "depth_first_order(nodes) -> nodes"},
    {"is_ordered", call_is_ordered, METH_O, "is_ordered(nodes) -> whether producers come before readers"},
    {"make_nodes", call_make_nodes, METH_VARARGS,
     "make_nodes(messages, values, index, operators, operator_of, constant, define, check) -> nodes, and "
     "those with graphs"},
    {"link_inputs", call_link_inputs, METH_VARARGS, "link_inputs(nodes, scopes) -> what is missing"},
    {"group_order", call_group_order, METH_O, "group_order(nodes) -> nodes"},
    {"group_interface", call_group_interface, METH_VARARGS,
     "group_interface(nodes, drop_constants) -> inputs, outputs"},
    {"initializer_value", call_initializer_value, METH_VARARGS,
     "initializer_value(held, in_file, value, reads_files) -> address"},
    {"drop_unread", call_drop_unread, METH_VARARGS, "drop_unread(nodes, held, in_file)"},
    {"graph_add_values", call_graph_add_values, METH_VARARGS,
     "graph_add_values(graph, values, is_outer, infos, type_info, held, in_file, reads_files)"},
    {"graph_add_nodes", call_graph_add_nodes, METH_VARARGS,
     "graph_add_nodes(graph, nodes, infos, known, schema_of, left_owner, by_index, pointers) -> schemas"},
    {"graph_view", call_graph_view, METH_VARARGS,
     "graph_view(graph, name, nodes, inputs, outputs, pointers, infos) -> address"},
    {"graph_add_attributes", call_graph_add_attributes, METH_VARARGS,
     "graph_add_attributes(nodes, schemas, pointers, other)"},
    {"broadcast", call_broadcast, METH_VARARGS, "broadcast(shape, shape) -> shape or None"},
    {"find_types", call_find_types, METH_VARARGS,
     "find_types(nodes, found, finder, (alike, element_types, tensor_type)) -> whether all were found"},
    {"note_reads", call_note_reads, METH_VARARGS, "note_reads(seen, nodes)"},
    {"unseen_nodes", call_unseen_nodes, METH_VARARGS, "unseen_nodes(nodes, seen, onward) -> nodes, told"},
    {"attribute_value", call_attribute_value, METH_O, "attribute_value(attribute) -> its value"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    "ephost._call",
    "The way from Python into a run and back.",
    -1,
    module_methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__call(void) {
  import_array();
  PyObject* module = PyModule_Create(&module_definition);
  if (module == NULL) return NULL;
  PyObject *runner = runner_make_type(), *binding = binding_make_type();
  call_state.object_dtype = (PyObject*)PyArray_DescrFromType(NPY_OBJECT);
  call_state.address_name = PyUnicode_InternFromString("_address");
  if (!messages_setup() || !graph_nodes_setup() || !graph_values_setup() || !graph_load_setup() ||
      !graph_attributes_setup() || !graph_objects_setup(module) || !records_setup(module) ||
      !type_rules_setup() || !unseen_setup() || !node_attribute_setup() || runner == NULL ||
      binding == NULL || call_state.object_dtype == NULL || call_state.address_name == NULL ||
      PyModule_AddObjectRef(module, "Runner", runner) < 0 ||
      PyModule_AddObjectRef(module, "Binding", binding) < 0) {
    Py_XDECREF(runner);
    Py_XDECREF(binding);
    Py_DECREF(module);
    return NULL;
  }
  Py_DECREF(runner);
  Py_DECREF(binding);
  if (!fallback_install()) Py_CLEAR(module);
  called_ops_load = load_called_operators;
  forks_setup();
#ifdef Py_GIL_DISABLED
  if (module != NULL && PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) < 0) Py_CLEAR(module);
#endif
  return module;
}
