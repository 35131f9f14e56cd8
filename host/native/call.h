/* What the files of the module ephost._call share. */
#ifndef EPHOST_CALL_H_
#define EPHOST_CALL_H_

#include <pyconfig.h>
/* Without the GIL the limited API begins with 3.15, where objects have no size any more. */
#if !defined(Py_LIMITED_API) && !defined(Py_GIL_DISABLED)
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* What a dict has for a key, as a new reference: another thread may change the dict. 1: it has; 0: it has
 * not; -1: an exception is set. */
static inline int dict_get(PyObject* dict, PyObject* key, PyObject** value) {
#ifdef Py_GIL_DISABLED
  return PyDict_GetItemRef(dict, key, value);
#else
  *value = Py_XNewRef(PyDict_GetItemWithError(dict, key));
  return *value != NULL ? 1 : PyErr_Occurred() != NULL ? -1 : 0;
#endif
}

/* Between these two no other thread changes the object, as long as no code of Python's runs. */
#ifdef Py_GIL_DISABLED
#define BEGIN_ALONE(object) Py_BEGIN_CRITICAL_SECTION(object)
#define END_ALONE() Py_END_CRITICAL_SECTION()
#else
#define BEGIN_ALONE(object) {
#define END_ALONE() }
#endif

/* Once Python's atexit has run: from then on no thread may ask for the interpreter. */
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
PyObject* call_dlpack_is_read_only(PyObject* module, PyObject* capsule);
PyObject* call_dlpack_take(PyObject* module, PyObject* capsule);

#endif
