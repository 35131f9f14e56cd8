/* How records get their fields (ephost.records). Written against CPython's limited API. */
#include "records.h"

static struct {
  PyObject *fields, *defaults, *factories; /* the names of what a class of records has */
} names;

/* Raises a TypeError of a class by its name, of which the format takes one object more. */
static void refuse(PyObject* type, const char* format, PyObject* more) {
  PyObject* name = PyType_GetName((PyTypeObject*)type);
  if (name != NULL) PyErr_Format(PyExc_TypeError, format, name, more);
  Py_XDECREF(name);
}

/* The names that a class does not have, or a record has by place already. */
static void refuse_named(PyObject* type, PyObject* fields, Py_ssize_t placed, PyObject* named) {
  PyObject *name, *value, *first = NULL;
  for (Py_ssize_t at = 0; PyDict_Next(named, &at, &name, &value);) {
    Py_ssize_t place = PySequence_Index(fields, name);
    PyErr_Clear();
    if (place >= placed) continue;
    if (first == NULL || PyUnicode_Compare(name, first) < 0) first = name;
  }
  refuse(type, "%U has no field '%U', or has it twice", first);
}

/* The value of a field that is not given by place, new; NULL with an exception set. */
static PyObject* value_of(PyObject* type, PyObject* field, PyObject* named, Py_ssize_t* used) {
  PyObject* value = named == NULL ? NULL : PyDict_GetItemWithError(named, field);
  if (value != NULL) ++*used;
  if (value != NULL || PyErr_Occurred() != NULL) return Py_XNewRef(value);
  PyObject* found = PyObject_GetAttr(type, names.defaults);
  if (found == NULL) return NULL;
  value = Py_XNewRef(PyDict_GetItemWithError(found, field));
  Py_DECREF(found);
  if (value != NULL || PyErr_Occurred() != NULL) return value;
  found = PyObject_GetAttr(type, names.factories);
  if (found == NULL) return NULL;
  PyObject* factory = PyDict_GetItemWithError(found, field);
  if (factory != NULL) {
    value = PyObject_CallNoArgs(factory);
  } else if (PyErr_Occurred() == NULL) {
    refuse(type, "%U lacks a value for '%U'", field);
  }
  Py_DECREF(found);
  return value;
}

static int set_fields(PyObject* self, PyObject* fields, PyObject* values, PyObject* named) {
  PyObject* type = (PyObject*)Py_TYPE(self);
  const Py_ssize_t count = PyTuple_Size(fields), placed = PyTuple_Size(values);
  if (count < 0) return -1;
  if (placed > count) {
    PyObject* numbers = PyUnicode_FromFormat("%zd fields, not %zd", count, placed);
    if (numbers != NULL) refuse(type, "%U has %U", numbers);
    Py_XDECREF(numbers);
    return -1;
  }
  Py_ssize_t used = 0;
  for (Py_ssize_t at = 0; at < count; ++at) {
    PyObject* field = PyTuple_GetItem(fields, at);
    PyObject* value =
        at < placed ? Py_NewRef(PyTuple_GetItem(values, at)) : value_of(type, field, named, &used);
    if (value == NULL) return -1;
    /* Past a class's own way to set attributes, which refuses where fields are set once. */
    const int set = PyObject_GenericSetAttr(self, field, value);
    Py_DECREF(value);
    if (set < 0) return -1;
  }
  if (named == NULL || used == PyDict_Size(named)) return 0;
  refuse_named(type, fields, placed, named);
  return -1;
}

static int record_init(PyObject* self, PyObject* values, PyObject* named) {
  PyObject* fields = PyObject_GetAttr((PyObject*)Py_TYPE(self), names.fields);
  if (fields == NULL) return -1;
  const int done = set_fields(self, fields, values, named);
  Py_DECREF(fields);
  return done;
}

static PyType_Slot record_slots[] = {{Py_tp_init, (void*)record_init}, {0, NULL}};

static PyType_Spec record_spec = {
    .name = "ephost._call.Fields",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = record_slots,
};

bool records_setup(PyObject* module) {
  static const InternedName wanted[] = {
      {&names.fields, "_fields"}, {&names.defaults, "_defaults"}, {&names.factories, "_factories"}};
  if (!intern_names(wanted, sizeof wanted / sizeof wanted[0])) return false;
  PyObject* type = PyType_FromSpec(&record_spec);
  const bool added = type != NULL && PyModule_AddObjectRef(module, "Fields", type) == 0;
  Py_XDECREF(type);
  return added;
}
