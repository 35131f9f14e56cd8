/* The attributes of the pipeline's nodes (ephost.messages.AttributeProto), on their way to the graph that
 * plugins read. */
#ifndef EPHOST_GRAPH_ATTRIBUTES_H_
#define EPHOST_GRAPH_ATTRIBUTES_H_

#include "call.h"

bool graph_attributes_setup(void); /* false with an exception set */

/* graph_add_attributes(nodes, schemas, pointers, other): what each node's message gives, in its order, then
 * those of its schema's defaults that it does not give. `pointers` has the addresses of the OrtNodes by
 * the nodes' indices. other(node, attribute, address of the OrtNode) adds what is neither a number nor text,
 * nor a list of these.
 */
PyObject* call_graph_add_attributes(PyObject* module, PyObject* args);

#endif
