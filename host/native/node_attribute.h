/* The values of nodes' attributes. */
#ifndef EPHOST_NATIVE_NODE_ATTRIBUTE_H_
#define EPHOST_NATIVE_NODE_ATTRIBUTE_H_

#include "call.h"

bool node_attribute_setup(void); /* false with an exception set */

/* A method of the class GraphNode: attribute(name, default=None). */
PyObject* graph_node_attribute(PyObject* node, PyObject* args);
/* A method of the module. */
PyObject* call_attribute_value(PyObject* module, PyObject* attribute);

#endif
