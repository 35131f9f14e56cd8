/* The pipeline's nodes, values and types of tensors as structs. The classes Node, Value and TensorType
 * (ephost.model.graph) are made of these types, so that C makes and reads them by the thousands without a
 * call into Python. */
#ifndef EPHOST_NATIVE_GRAPH_OBJECTS_H_
#define EPHOST_NATIVE_GRAPH_OBJECTS_H_

#include "call.h"

/* Each field is an attribute of the same name, which the classes describe; NULL only where Python has deleted
 * it. */
typedef struct GraphValue {
  PyObject_HEAD
  PyObject *name, *type, *producer, *producer_output, *consumers, *initializer, *external;
  PyObject *is_input, *is_output, *is_constant, *is_disputed, *is_listed, *awaits_producer;
} GraphValue;

typedef struct GraphNode {
  PyObject_HEAD
  PyObject *index, *message, *op_type, *domain, *name, *since_version, *inputs, *outputs, *implicit_inputs;
  PyObject* captured; /* in Python with an underscore */
  PyObject *subgraphs, *ep_name, *custom;
  PyObject *from_layout, *is_hosts, *left_to_host, *is_edited;
  Py_ssize_t place; /* C's alone: where it is in the list that was walked last */
} GraphNode;

typedef struct GraphTensorType {
  PyObject_HEAD
  PyObject *element_type, *dims, *static_dims;
  PyObject* native; /* in Python with an underscore */
} GraphTensorType;

/* The object as what it has to be: NULL with TypeError for another. */
GraphValue* graph_value_of(PyObject* object);
GraphNode* graph_node_of(PyObject* object);
/* NULL, without an exception, for another type, as that of a sequence. */
GraphTensorType* graph_tensor_type_of(PyObject* object);

/* New ones, of the classes that Python has named (set_graph_classes), with all fields at their defaults but
 * for the names that are given; the value's producer is set. NULL with an exception set. */
GraphValue* graph_value_new(PyObject* name);
GraphNode* graph_node_new(void);

/* An attribute, as a new reference, of an object that mostly has it, but whose class would be asked for one
 * that it has not (__getattr__), which makes PyObject_GetAttr slow. */
PyObject* graph_attribute(PyObject* object, PyObject* name);

/* A field as it is, borrowed: NULL with AttributeError where it was deleted. */
PyObject* graph_field(PyObject* field, const char* name);
/* Whether a field is a list; false with TypeError. */
bool graph_is_list(PyObject* field, const char* name);
/* Puts a new reference to the object in a field. */
void graph_set(PyObject** field, PyObject* object);

bool graph_objects_setup(PyObject* module); /* gives it the types; false with an exception set */
/* set_graph_classes(node, value) */
PyObject* call_set_graph_classes(PyObject* module, PyObject* args);

#endif
