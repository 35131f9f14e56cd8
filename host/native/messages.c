/* The types of ONNX's messages, as ephost/messages.py declares them. */
#define _GNU_SOURCE
#include "messages.h"

#include <string.h>

#include "heap.h"

MessageNames message_names;
static const char capsule_name[] = "ephost.message_type";

bool messages_setup(void) {
  const InternedName all[] = {{&message_names.unknown, "_unknown"}, {&message_names.place, "place"}};
  return intern_names(all, sizeof all / sizeof all[0]);
}

static MessageType* type_of(PyObject* capsule) { return PyCapsule_GetPointer(capsule, capsule_name); }

/* message_type(class) -> a capsule, whose fields message_fields sets. Neither is ever freed. */
PyObject* call_message_type(PyObject* module, PyObject* class) {
  (void)module;
  if (!PyType_Check(class)) {
    PyErr_SetString(PyExc_TypeError, "message_type takes a class");
    return NULL;
  }
  MessageType* type = host_calloc(1, sizeof *type);
  if (type == NULL) return PyErr_NoMemory();
  type->class = (PyTypeObject*)Py_NewRef(class);
  type->allocate = (allocfunc)PyType_GetSlot(type->class, Py_tp_alloc);
  memset(type->index, -1, sizeof type->index);
  return PyCapsule_New(type, capsule_name, NULL);
}

static bool read_field(PyObject* row, MessageField* field) {
  const char* name;
  int kind;
  PyObject* inner;
  long long most;
  if (!PyArg_ParseTuple(row, "sIiIOL", &name, &field->number, &kind, &field->flags, &inner, &most))
    return false;
  if (kind < 0 || kind >= FIELD_KIND_COUNT || field->number == 0 || field->number >= MESSAGE_MOST_NUMBER) {
    PyErr_Format(PyExc_ValueError, "the field '%s' has no such kind or number", name);
    return false;
  }
  field->kind = (FieldKind)kind;
  field->most = most;
  if (kind == FIELD_MESSAGE && (field->type = type_of(inner)) == NULL) return false;
  field->name = PyUnicode_InternFromString(name);
  return field->name != NULL;
}

/* message_fields(capsule, rows by number: (name, number, kind, flags, capsule of a message's type or None,
 * largest value of an enum)) */
PyObject* call_message_fields(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *capsule, *rows;
  if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyTuple_Type, &rows)) return NULL;
  MessageType* type = type_of(capsule);
  if (type == NULL) return NULL;
  Py_ssize_t count = PyTuple_Size(rows);
  if (type->fields != NULL || count > MESSAGE_MOST_FIELDS) {
    PyErr_SetString(PyExc_ValueError, "the fields of a message are set once, and are not many");
    return NULL;
  }
  MessageField* fields = host_calloc((size_t)count + 1, sizeof *fields);
  if (fields == NULL) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!read_field(PyTuple_GetItem(rows, i), &fields[i])) {
      for (Py_ssize_t k = 0; k < i; ++k) Py_DECREF(fields[k].name);
      host_free(fields);
      return NULL;
    }
  }
  for (Py_ssize_t i = 0; i < count; ++i) type->index[fields[i].number] = (signed char)i;
  type->fields = fields;
  type->count = (size_t)count;
  Py_RETURN_NONE;
}

/* message_read(capsule, bytes, smallest_view) -> a message. Bytes of that size and more, of fields that say
 * so, are views; 0: none are. Raises ValueError for what is no such message. */
PyObject* call_message_read(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *capsule, *data;
  Py_ssize_t smallest_view;
  if (!PyArg_ParseTuple(args, "OOn", &capsule, &data, &smallest_view)) return NULL;
  MessageType* type = type_of(capsule);
  return type == NULL ? NULL : message_read(type, data, smallest_view);
}

/* message_write(capsule, message) -> bytes */
PyObject* call_message_write(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *capsule, *message;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &message)) return NULL;
  MessageType* type = type_of(capsule);
  return type == NULL ? NULL : message_write(type, message);
}
