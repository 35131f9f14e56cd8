/* The base of the host's classes of a few fields. */
#ifndef EPHOST_NATIVE_RECORDS_H_
#define EPHOST_NATIVE_RECORDS_H_

#include "call.h"

bool records_setup(PyObject* module); /* gives it the type Fields; false with an exception set */

#endif
