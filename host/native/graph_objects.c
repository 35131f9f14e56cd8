/* Nodes, values and types of tensors of the pipeline's graph. Written against CPython's limited API. */
#define _GNU_SOURCE
#include "graph_objects.h"

#include <stddef.h>
#include <structmember.h>

#include "node_attribute.h"

static PyTypeObject *value_type, *node_type, *tensor_type; /* these structs' */
static PyTypeObject *value_class, *node_class;             /* Python's, of which new ones are */

enum {
  VALUE_FIELDS = (sizeof(GraphValue) - sizeof(PyObject)) / sizeof(PyObject*),
  NODE_FIELDS = (offsetof(GraphNode, place) - sizeof(PyObject)) / sizeof(PyObject*),
  TENSOR_TYPE_FIELDS = (sizeof(GraphTensorType) - sizeof(PyObject)) / sizeof(PyObject*),
};

/* What has so many fields behind its head. */
static PyObject** fields_of(PyObject* self) { return (PyObject**)(void*)(self + 1); }

static int visit_fields(PyObject* self, size_t count, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (size_t at = 0; at < count; ++at) Py_VISIT(fields_of(self)[at]);
  return 0;
}

static int clear_fields(PyObject* self, size_t count) {
  for (size_t at = 0; at < count; ++at) Py_CLEAR(fields_of(self)[at]);
  return 0;
}

static void dealloc_fields(PyObject* self, size_t count) {
  PyTypeObject* type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  PyObject_GC_UnTrack(self);
  (void)clear_fields(self, count);
  release(self);
  Py_DECREF(type);
}

static PyObject* allocated(PyTypeObject* type) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return allocate(type, 0);
}

PyObject* graph_field(PyObject* field, const char* name) {
  if (field == NULL) PyErr_SetString(PyExc_AttributeError, name);
  return field;
}

PyObject* graph_attribute(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(object, name);
}

bool graph_is_list(PyObject* field, const char* name) {
  if (field != NULL && PyList_Check(field)) return true;
  PyErr_Format(PyExc_TypeError, "%s is no list", name);
  return false;
}

void graph_set(PyObject** field, PyObject* object) {
  PyObject* before = *field;
  *field = Py_NewRef(object);
  Py_XDECREF(before);
}

/* ---- values -------------------------------------------------------------------------------------------- */

static PyMemberDef value_members[] = {
#define FIELD(field) \
  { #field, T_OBJECT_EX, offsetof(GraphValue, field), 0, NULL }
    FIELD(name),
    FIELD(type),
    FIELD(producer),
    FIELD(producer_output),
    FIELD(consumers),
    FIELD(initializer),
    FIELD(external),
    FIELD(is_input),
    FIELD(is_output),
    FIELD(is_constant),
    FIELD(is_disputed),
    FIELD(is_listed),
    FIELD(awaits_producer),
#undef FIELD
    {NULL, 0, 0, 0, NULL},
};
_Static_assert(sizeof value_members / sizeof value_members[0] == VALUE_FIELDS + 1, "a field is missing");

static PyObject* value_new_of(PyTypeObject* type, PyObject* args, PyObject* named) {
  (void)args;
  (void)named;
  GraphValue* self = (GraphValue*)(void*)allocated(type);
  if (self == NULL) return NULL;
  self->name = self->type = self->producer = self->initializer = self->external = Py_None;
  self->is_input = self->is_output = self->is_constant = Py_False;
  self->is_disputed = self->is_listed = self->awaits_producer = Py_False;
  for (size_t at = 0; at < VALUE_FIELDS; ++at) Py_XINCREF(fields_of((PyObject*)self)[at]);
  self->producer_output = PyLong_FromLong(-1);
  self->consumers = PyDict_New();
  if (self->producer_output == NULL || self->consumers == NULL) Py_CLEAR(self);
  return (PyObject*)self;
}

GraphValue* graph_value_new(PyObject* name) {
  GraphValue* self = (GraphValue*)(void*)value_new_of(value_class, NULL, NULL);
  if (self != NULL) graph_set(&self->name, name);
  return self;
}

static int value_traverse(PyObject* self, visitproc visit, void* arg) {
  return visit_fields(self, VALUE_FIELDS, visit, arg);
}
static int value_clear(PyObject* self) { return clear_fields(self, VALUE_FIELDS); }
static void value_dealloc(PyObject* self) { dealloc_fields(self, VALUE_FIELDS); }

GraphValue* graph_value_of(PyObject* object) {
  if (PyObject_TypeCheck(object, value_type)) return (GraphValue*)(void*)object;
  PyErr_Format(PyExc_TypeError, "%R is no value of a graph", (PyObject*)Py_TYPE(object));
  return NULL;
}

static PyType_Slot value_slots[] = {
    {Py_tp_new, (void*)value_new_of},        {Py_tp_dealloc, (void*)value_dealloc},
    {Py_tp_traverse, (void*)value_traverse}, {Py_tp_clear, (void*)value_clear},
    {Py_tp_members, value_members},          {0, NULL},
};

static PyType_Spec value_spec = {
    .name = "ephost._call.GraphValue",
    .basicsize = sizeof(GraphValue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = value_slots,
};

/* ---- nodes --------------------------------------------------------------------------------------------- */

static PyMemberDef node_members[] = {
#define FIELD(field) \
  { #field, T_OBJECT_EX, offsetof(GraphNode, field), 0, NULL }
    FIELD(index),
    FIELD(message),
    FIELD(op_type),
    FIELD(domain),
    FIELD(name),
    FIELD(since_version),
    FIELD(inputs),
    FIELD(outputs),
    FIELD(implicit_inputs),
    {"_captured", T_OBJECT_EX, offsetof(GraphNode, captured), 0, NULL},
    FIELD(subgraphs),
    FIELD(ep_name),
    FIELD(custom),
    FIELD(from_layout),
    FIELD(is_hosts),
    FIELD(left_to_host),
    FIELD(is_edited),
#undef FIELD
    {NULL, 0, 0, 0, NULL},
};
_Static_assert(sizeof node_members / sizeof node_members[0] == NODE_FIELDS + 1, "a field is missing");

static PyObject* node_new_of(PyTypeObject* type, PyObject* args, PyObject* named) {
  (void)args;
  (void)named;
  GraphNode* self = (GraphNode*)(void*)allocated(type);
  if (self == NULL) return NULL;
  self->index = self->message = self->since_version = self->captured = self->custom = Py_None;
  self->from_layout = self->is_hosts = self->left_to_host = self->is_edited = Py_False;
  for (size_t at = 0; at < NODE_FIELDS; ++at) Py_XINCREF(fields_of((PyObject*)self)[at]);
  self->op_type = PyUnicode_FromStringAndSize(NULL, 0); /* one for all */
  if (self->op_type != NULL) {
    self->domain = Py_NewRef(self->op_type);
    self->name = Py_NewRef(self->op_type);
    self->ep_name = Py_NewRef(self->op_type);
  }
  self->inputs = PyList_New(0);
  self->outputs = PyList_New(0);
  self->implicit_inputs = PyList_New(0);
  self->subgraphs = PyDict_New();
  if (PyErr_Occurred() != NULL) Py_CLEAR(self);
  return (PyObject*)self;
}

GraphNode* graph_node_new(void) { return (GraphNode*)(void*)node_new_of(node_class, NULL, NULL); }

static int node_traverse(PyObject* self, visitproc visit, void* arg) {
  return visit_fields(self, NODE_FIELDS, visit, arg);
}
static int node_clear(PyObject* self) { return clear_fields(self, NODE_FIELDS); }
static void node_dealloc(PyObject* self) { dealloc_fields(self, NODE_FIELDS); }

GraphNode* graph_node_of(PyObject* object) {
  if (PyObject_TypeCheck(object, node_type)) return (GraphNode*)(void*)object;
  PyErr_Format(PyExc_TypeError, "%R is no node of a graph", (PyObject*)Py_TYPE(object));
  return NULL;
}

static PyMethodDef node_methods[] = {
    {"attribute", graph_node_attribute, METH_VARARGS,
     "attribute(name, default=None)\n--\n\nAn attribute's value: a number, bytes or a message, or a list of "
     "these."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot node_slots[] = {
    {Py_tp_new, (void*)node_new_of},
    {Py_tp_dealloc, (void*)node_dealloc},
    {Py_tp_traverse, (void*)node_traverse},
    {Py_tp_clear, (void*)node_clear},
    {Py_tp_members, node_members},
    {Py_tp_methods, node_methods},
    {0, NULL},
};

static PyType_Spec node_spec = {
    .name = "ephost._call.GraphNode",
    .basicsize = sizeof(GraphNode),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = node_slots,
};

/* ---- types of tensors ---------------------------------------------------------------------------------- */

static PyMemberDef tensor_type_members[] = {
#define FIELD(field) \
  { #field, T_OBJECT_EX, offsetof(GraphTensorType, field), 0, NULL }
    FIELD(element_type),   FIELD(dims),
    FIELD(static_dims),    {"_native", T_OBJECT_EX, offsetof(GraphTensorType, native), 0, NULL},
#undef FIELD
    {NULL, 0, 0, 0, NULL},
};
_Static_assert(sizeof tensor_type_members / sizeof tensor_type_members[0] == TENSOR_TYPE_FIELDS + 1,
               "a field is missing");

static int tensor_type_traverse(PyObject* self, visitproc visit, void* arg) {
  return visit_fields(self, TENSOR_TYPE_FIELDS, visit, arg);
}
static int tensor_type_clear(PyObject* self) { return clear_fields(self, TENSOR_TYPE_FIELDS); }
static void tensor_type_dealloc(PyObject* self) { dealloc_fields(self, TENSOR_TYPE_FIELDS); }

GraphTensorType* graph_tensor_type_of(PyObject* object) {
  return PyObject_TypeCheck(object, tensor_type) ? (GraphTensorType*)(void*)object : NULL;
}

static PyType_Slot tensor_type_slots[] = {
    {Py_tp_dealloc, (void*)tensor_type_dealloc},
    {Py_tp_traverse, (void*)tensor_type_traverse},
    {Py_tp_clear, (void*)tensor_type_clear},
    {Py_tp_members, tensor_type_members},
    {0, NULL},
};

static PyType_Spec tensor_type_spec = {
    .name = "ephost._call.GraphTensorType",
    .basicsize = sizeof(GraphTensorType),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = tensor_type_slots,
};

/* ---- the classes --------------------------------------------------------------------------------------- */

bool graph_objects_setup(PyObject* module) {
  value_type = value_class = (PyTypeObject*)PyType_FromSpec(&value_spec);
  node_type = node_class = (PyTypeObject*)PyType_FromSpec(&node_spec);
  tensor_type = (PyTypeObject*)PyType_FromSpec(&tensor_type_spec);
  return value_type != NULL && node_type != NULL && tensor_type != NULL &&
         PyModule_AddObjectRef(module, "GraphValue", (PyObject*)value_type) == 0 &&
         PyModule_AddObjectRef(module, "GraphNode", (PyObject*)node_type) == 0 &&
         PyModule_AddObjectRef(module, "GraphTensorType", (PyObject*)tensor_type) == 0;
}

PyObject* call_set_graph_classes(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *node, *value;
  if (!PyArg_ParseTuple(args, "OO", &node, &value)) return NULL;
  if (!PyType_Check(node) || !PyType_IsSubtype((PyTypeObject*)node, node_type) || !PyType_Check(value) ||
      !PyType_IsSubtype((PyTypeObject*)value, value_type)) {
    PyErr_SetString(PyExc_TypeError, "set_graph_classes takes classes made of GraphNode and GraphValue");
    return NULL;
  }
  node_class = (PyTypeObject*)Py_NewRef(node); /* for as long as the process lives */
  value_class = (PyTypeObject*)Py_NewRef(value);
  Py_RETURN_NONE;
}
