/* ephost._call.Passed: a sequence on its way through Python, from one run to another or round a loop. Nobody
 * looks at its elements there, so none of them becomes an object. */
#define _GNU_SOURCE
#include "python_values.h"
#include "status.h"

typedef struct Passed {
  PyObject_HEAD
  OrtValue value;    /* clear once its last reader has it */
  bool for_its_last; /* the next that reads it is the last */
} Passed;

static PyTypeObject* passed_type;

static void passed_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  value_clear(&((Passed*)self)->value);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF((PyObject*)type);
}

static PyObject* passed_for_its_last(PyObject* self, PyObject* args) {
  (void)args;
  ((Passed*)self)->for_its_last = true;
  return Py_NewRef(self);
}

bool is_passed(PyObject* object) { return Py_TYPE(object) == passed_type; }

PyObject* passed_new(OrtValue* value) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(passed_type, Py_tp_alloc);
  Passed* passed = (Passed*)allocate(passed_type, 0);
  if (passed == NULL) return NULL;
  value_move(&passed->value, value);
  return (PyObject*)passed;
}

int value_from_passed(PyObject* object, OrtValue* value) {
  Passed* passed = (Passed*)object;
  if (passed->value.type == ONNX_TYPE_UNKNOWN) {
    PyErr_SetString(PyExc_RuntimeError, "the sequence was handed over before");
    return -1;
  }
  if (passed->for_its_last) {
    value_move(value, &passed->value);
    return 0;
  }
  if (value_share(value, &passed->value)) return 0;
  PyErr_NoMemory();
  return -1;
}

static PyObject* passed_objects(PyObject* self, PyObject* args) {
  (void)args;
  return value_to_python(&((Passed*)self)->value, COPY);
}

static PyMethodDef passed_methods[] = {
    {"objects", passed_objects, METH_NOARGS, "objects() -> list\n\nIts elements as arrays of their own."},
    {"for_its_last", passed_for_its_last, METH_NOARGS,
     "for_its_last() -> itself\n\nFrom here on the next that reads it gets all of it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot passed_slots[] = {
    {Py_tp_dealloc, (void*)passed_dealloc},
    {Py_tp_methods, passed_methods},
    {0, NULL},
};

static PyType_Spec passed_spec = {
    .name = "ephost._call.Passed",
    .basicsize = sizeof(Passed),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = passed_slots,
};

PyObject* passed_make_type(void) {
  PyObject* type = PyType_FromSpec(&passed_spec);
  passed_type = (PyTypeObject*)Py_XNewRef(type);
  return type;
}
