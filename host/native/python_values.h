/* Values on their way between Python and the C half. All need a thread that is attached to the interpreter.
 */
#ifndef EPHOST_NATIVE_PYTHON_VALUES_H_
#define EPHOST_NATIVE_PYTHON_VALUES_H_

#include <stdatomic.h>

#include "numpy.h"
#include "value.h"

#define ELEMENT_TYPES 27
#define MAX_RANK 32 /* of a tensor here, and of numpy's arrays of old */

/* What Python has told at its import. */
typedef struct CallState {
  PyObject* status_error;   /* callable(code, message) -> exception */
  PyObject* address_name;   /* "_address", interned */
  PyTypeObject* value_type; /* ephost.OrtValue: what `address_name` of an instance says is a value */
  PyObject* object_dtype;   /* numpy's "O" */
  PyObject* more_dtypes;    /* callable() -> dict of all dtypes */
  atomic_bool asked;        /* whether it was called */
  _Atomic(PyArray_Descr*) dtypes[ELEMENT_TYPES]; /* by element type; read with dtype_of */
  atomic_int type_numbers[ELEMENT_TYPES];        /* of those that are known */
} CallState;
extern CallState call_state;

/* Adds those of a dict of element type -> dtype that are not known yet. False with an exception set. */
bool dtypes_add(PyObject* dtypes);
/* The dtype of an element type, borrowed. Asks Python for ml_dtypes' types when the first of them is met.
 * NULL: there is none; with an exception set, Python failed to say. */
PyArray_Descr* dtype_of(int element_type);

/* Raises the status as a Python exception and releases it. */
void raise_status(OrtStatus* status);
/* Turns the exception that is set into a status and clears it. */
OrtStatus* status_from_exception(void);

/* memcpy; lets go of the GIL while it is long. */
void copy_bytes(void* to, const void* from, size_t count);
/* Makes the clear value a copy, in new memory of the CPU's, of a tensor that is there. False without memory.
 */
bool copy_tensor(OrtValue* to, const OrtValue* from);

typedef enum Ownership {
  SHARE_BUFFER, /* the array keeps the value's buffer alive */
  VIEW,         /* the array is valid while the run lasts: for the fallback's inputs */
  COPY,
} Ownership;
/* A new array, list, dict or None; NULL with an exception set. */
PyObject* value_to_python(const OrtValue* value, Ownership ownership);
/* Makes a clear value a tensor of strings: of an array of objects that lies as a tensor does. 1: done; 0: an
 * element is neither str nor bytes, and the value is clear; -1: an exception is set. */
int value_from_texts(PyArrayObject* array, OrtValue* value);
/* Makes the clear value what an object is: an array, a list, a dict, None, an ephost.OrtValue, or what numpy
 * makes an array of. Arrays are borrowed and kept alive. -1 with an exception set. */
int value_from_python(PyObject* object, OrtValue* value);
/* The native value behind an ephost.OrtValue; NULL for other objects. */
const OrtValue* wrapped_value(PyObject* object);

#endif
