/* The pipeline's nodes from messages (ephost.messages.NodeProto). */
#ifndef EPHOST_NATIVE_GRAPH_LOAD_H_
#define EPHOST_NATIVE_GRAPH_LOAD_H_

#include "call.h"

bool graph_load_setup(void); /* false with an exception set */

/* make_nodes(messages, values, index, operators, operator_of, constant, define, check) -> (nodes, those with
 * graphs in their attributes): nodes with the values that they make, which the dict `values` gets, but
 * without what they read. The first one has that index. What an operator is `operators` knows by its domain
 * and name in messages: (domain, version, and how many inputs and outputs a node has at least and at most
 * that need not be checked), or None for a constant; operator_of(domain, name) says it, and puts it there,
 * where it does not. constant(message) takes a constant, define(name) gives the value of a name that there is
 * already. check(node) looks at what is not plain: it has attributes, leaves out an input or has other
 * counts. */
PyObject* call_make_nodes(PyObject* module, PyObject* args);

/* link_inputs(nodes, values of their graph and of those around it): gives nodes the values that their
 * messages name. Returns None, or the first node that reads what there is not, with the name. */
PyObject* call_link_inputs(PyObject* module, PyObject* args);

#endif
