/* Methods of the module ephost._call that walk nodes of the pipeline's graph. */
#ifndef EPHOST_GRAPH_NODES_H_
#define EPHOST_GRAPH_NODES_H_

#include "call.h"

bool graph_nodes_setup(void); /* false with an exception set */
/* A text as C has it: UTF-8, with the bytes that were none as they came, and U+FFFD for a NUL. `*held` keeps
 * it alive, or is NULL where the text itself does. NULL with an exception set. */
const char* graph_text(PyObject* text, PyObject** held);
PyObject* call_depth_first_order(PyObject* module, PyObject* nodes);
PyObject* call_is_ordered(PyObject* module, PyObject* nodes);
/* The order in which a group's inputs and outputs are found, and what they are (ephost.model.groups). */
PyObject* call_group_order(PyObject* module, PyObject* nodes);
PyObject* call_group_interface(PyObject* module, PyObject* args);
/* Adds nodes to an OrtGraph that has their values already: see Builder. */
PyObject* call_graph_add_nodes(PyObject* module, PyObject* args);
/* The graph of some nodes, inputs and outputs of an OrtGraph, for whoever compiles them. */
PyObject* call_graph_view(PyObject* module, PyObject* args);

#endif
