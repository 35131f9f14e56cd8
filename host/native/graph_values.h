/* Methods of the module ephost._call that show values of the pipeline's graph to plugins. */
#ifndef EPHOST_NATIVE_GRAPH_VALUES_H_
#define EPHOST_NATIVE_GRAPH_VALUES_H_

#include "call.h"

bool graph_values_setup(void); /* false with an exception set */

/* initializer_value(held, in_file, value, reads_files) -> address of the native value of an initializer,
 * which one of the dicts `held` and `in_file` has for the value: it is made, over numpy's memory, where there
 * is none yet. Data that lies in the model's file is copied first, unless it is for who reads files: that
 * one's values are in `in_file`, which is None where there is no such file. */
PyObject* call_initializer_value(PyObject* module, PyObject* args);

/* drop_unread(nodes, held, in_file): takes the data, and the native values, of constants that these nodes
 * read and no node of the graph does. */
PyObject* call_drop_unread(PyObject* module, PyObject* args);

/* graph_add_values(graph, values, is_outer, infos, type_info, held, in_file, reads_files): adds values to an
 * OrtGraph, and puts the addresses of what was made in the dict `infos`. What is no tensor has the
 * OrtTypeInfo whose address type_info(type) gives. Initializers are got as initializer_value does; who reads
 * files is shown where in the model's file they lie, everybody where in files of external data. */
PyObject* call_graph_add_values(PyObject* module, PyObject* args);

/* The address that a dict has for a key; NULL with an exception set. */
void* graph_address(PyObject* addresses, PyObject* key);
/* Puts an address in a dict; false with an exception set. */
bool graph_put_address(PyObject* addresses, PyObject* key, void* address);

#endif
