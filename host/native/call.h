/* What the files of the module ephost._call share. */
#ifndef EPHOST_CALL_H_
#define EPHOST_CALL_H_

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* Once Python's atexit has run: from then on no thread may ask for the GIL. */
bool python_is_leaving(void);

/* Where a text is put as an interned str, and the text. */
typedef struct InternedName {
  PyObject** to;
  const char* text;
} InternedName;
bool intern_names(const InternedName* names, size_t count); /* false with an exception set */

/* dlpack.c: methods of the module. */
PyObject* call_dlpack_export(PyObject* module, PyObject* args);
PyObject* call_dlpack_device(PyObject* module, PyObject* capsule);
PyObject* call_dlpack_is_uint8(PyObject* module, PyObject* capsule);
PyObject* call_dlpack_take(PyObject* module, PyObject* capsule);

#endif
