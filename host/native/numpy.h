/* numpy's C API, for the files of ephost._call: call.c imports it for all of them. */
#ifndef EPHOST_NATIVE_NUMPY_H_
#define EPHOST_NATIVE_NUMPY_H_

#include "call.h"

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL ephost_numpy_api
#ifndef EPHOST_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#endif
