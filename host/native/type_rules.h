/* Types of what a graph's nodes make: see ephost.model.type_rules. */
#ifndef EPHOST_NATIVE_TYPE_RULES_H_
#define EPHOST_NATIVE_TYPE_RULES_H_

#include "call.h"

bool type_rules_setup(void); /* false with an exception set */

/* Methods of the module. */
PyObject* call_broadcast(PyObject* module, PyObject* args);
PyObject* call_find_types(PyObject* module, PyObject* args);

#endif
