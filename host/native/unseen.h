/* What of a graph inference has not seen yet: see ephost.model.unseen. */
#ifndef EPHOST_NATIVE_UNSEEN_H_
#define EPHOST_NATIVE_UNSEEN_H_

#include "call.h"

bool unseen_setup(void); /* false with an exception set */

/* Methods of the module. */
PyObject* call_note_reads(PyObject* module, PyObject* args);
PyObject* call_unseen_nodes(PyObject* module, PyObject* args);

#endif
