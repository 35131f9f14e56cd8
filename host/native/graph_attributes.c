/* Attributes from Python's objects to OrtOpAttr. All of a graph come in one call, and a list is converted at
 * once: an ensemble of trees has millions of numbers in a few attributes. Written against CPython's limited
 * API. */
#define _GNU_SOURCE
#include "graph_attributes.h"

#include <string.h>

#include "abi.h"
#include "graph_nodes.h"
#include "graph_objects.h"
#include "graph_values.h"
#include "heap.h"
#include "messages.h"
#include "python.h"

/* The attributes of schemas and messages that are read here, interned. */
static struct { PyObject *attribute, *defaults, *name, *type, *i, *f, *s, *ints, *floats, *strings; } names;

bool graph_attributes_setup(void) {
  const InternedName all[] = {
      {&names.attribute, "attribute"},
      {&names.defaults, "defaults"},
      {&names.name, "name"},
      {&names.type, "type"},
      {&names.i, "i"},
      {&names.f, "f"},
      {&names.s, "s"},
      {&names.ints, "ints"},
      {&names.floats, "floats"},
      {&names.strings, "strings"},
  };
  return intern_names(all, sizeof all / sizeof all[0]);
}

/* AttributeProto.AttributeType of ONNX. */
enum { FLOAT = 1, INT = 2, STRING = 3, FLOATS = 6, INTS = 7, STRINGS = 8 };

/* Memory for what one attribute is made of, used again for the next. */
typedef struct Room {
  void* data;
  size_t size;
} Room;

static void* room_for(Room* room, size_t count, size_t each) {
  const size_t size = (count + 1) * each; /* never none, which would look like no memory */
  if (size > room->size) {
    void* grown = host_realloc(room->data, size);
    if (grown == NULL) {
      PyErr_NoMemory();
      return NULL;
    }
    *room = (Room){grown, size};
  }
  return room->data;
}

static bool put_number(char* to, FieldKind kind, PyObject* number) {
  if (kind == FIELD_FLOAT) {
    const float narrow = (float)PyFloat_AsDouble(number);
    memcpy(to, &narrow, sizeof narrow);
    return narrow != -1 || PyErr_Occurred() == NULL;
  }
  const int64_t whole = PyLong_AsLongLong(number);
  memcpy(to, &whole, sizeof whole);
  return whole != -1 || PyErr_Occurred() == NULL;
}

/* The numbers of a list, or of the array that is in its place: int64_t or float. `array` is to be released
 * when they are not needed any more. NULL with an exception set. */
static const void* numbers_of(PyObject* list, FieldKind kind, Room* room, Py_buffer* array, size_t* count) {
  const size_t each = kind == FIELD_FLOAT ? sizeof(float) : sizeof(int64_t);
  if (!PyList_Check(list)) {
    if (!message_numbers(list, kind, array)) return NULL;
    *count = (size_t)array->len / each;
    return array->buf;
  }
  *count = (size_t)PyList_Size(list);
  char* numbers = room_for(room, *count, each);
  for (size_t at = 0; numbers != NULL && at < *count; ++at) {
    if (!put_number(numbers + at * each, kind, PyList_GetItem(list, (Py_ssize_t)at))) return NULL;
  }
  return numbers;
}

static bool add_numbers(OrtNode* node, const char* name, FieldKind kind, PyObject* list, Room* room) {
  Py_buffer array = {0};
  size_t count;
  const void* numbers = numbers_of(list, kind, room, &array, &count);
  const bool done =
      numbers != NULL && (kind == FIELD_FLOAT ? ephost_node_add_floats(node, name, numbers, count)
                                              : ephost_node_add_ints(node, name, numbers, count));
  PyBuffer_Release(&array);
  return done;
}

static bool add_strings(OrtNode* node, const char* name, PyObject* list, Room* room) {
  const Py_ssize_t count = PyList_Size(list);
  const char** texts = room_for(room, (size_t)count, sizeof *texts + sizeof(size_t));
  if (texts == NULL) return false;
  size_t* lengths = (size_t*)(void*)(texts + count);
  for (Py_ssize_t at = 0; at < count; ++at) {
    char* text;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(PyList_GetItem(list, at), &text, &length) < 0) return false;
    texts[at] = text;
    lengths[at] = (size_t)length;
  }
  return ephost_node_add_strings(node, name, texts, lengths, (size_t)count);
}

static bool add_string(OrtNode* node, const char* name, PyObject* value) {
  char* text;
  Py_ssize_t length;
  if (PyBytes_AsStringAndSize(value, &text, &length) < 0) return false;
  return ephost_node_add_string(node, name, text, (size_t)length);
}

static bool add_int(OrtNode* node, const char* name, PyObject* value) {
  const int64_t number = PyLong_AsLongLong(value);
  return PyErr_Occurred() == NULL && ephost_node_add_int(node, name, number);
}

static bool add_float(OrtNode* node, const char* name, PyObject* value) {
  const double number = PyFloat_AsDouble(value);
  return PyErr_Occurred() == NULL && ephost_node_add_float(node, name, (float)number);
}

/* Where the content of an attribute of that type is; NULL for what Python adds. */
static PyObject* field_of(long type) {
  switch (type) {
    case FLOAT:
      return names.f;
    case INT:
      return names.i;
    case STRING:
      return names.s;
    case FLOATS:
      return names.floats;
    case INTS:
      return names.ints;
    case STRINGS:
      return names.strings;
    default:
      return NULL;
  }
}

static bool add_content(OrtNode* node, const char* name, long type, PyObject* content, Room* room) {
  if (type == STRINGS && !PyList_Check(content)) {
    PyErr_Format(PyExc_TypeError, "the attribute %s is no list", name);
    return false;
  }
  switch (type) {
    case FLOAT:
      return add_float(node, name, content);
    case INT:
      return add_int(node, name, content);
    case STRING:
      return add_string(node, name, content);
    case FLOATS:
      return add_numbers(node, name, FIELD_FLOAT, content, room);
    case INTS:
      return add_numbers(node, name, FIELD_INT64, content, room);
    default:
      return add_strings(node, name, content, room);
  }
}

typedef struct Adding {
  PyObject* node; /* the pipeline's */
  OrtNode* made;
  PyObject* other;
  Room room;
} Adding;

static bool add_attribute(Adding* adding, PyObject* attribute) {
  PyObject* number = graph_attribute(attribute, names.type);
  const long type = number != NULL ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred() != NULL) return false;
  PyObject* field = field_of(type);
  if (field == NULL) {
    PyObject* address = PyLong_FromVoidPtr(adding->made);
    PyObject* done = address != NULL
                         ? PyObject_CallFunctionObjArgs(adding->other, adding->node, attribute, address, NULL)
                         : NULL;
    Py_XDECREF(address);
    Py_XDECREF(done);
    return done != NULL;
  }
  PyObject *held = NULL, *name = graph_attribute(attribute, names.name);
  const char* text = name != NULL ? graph_text(name, &held) : NULL;
  PyObject* content = text != NULL ? graph_attribute(attribute, field) : NULL;
  const bool done = content != NULL && add_content(adding->made, text, type, content, &adding->room);
  if (!done && PyErr_Occurred() == NULL) PyErr_NoMemory();
  Py_XDECREF(content);
  Py_XDECREF(held);
  Py_XDECREF(name);
  return done;
}

/* Whether one of the attributes has the name; -1 with an exception set. */
static int is_given(PyObject* attributes, PyObject* name) {
  int given = 0;
  for (Py_ssize_t at = 0; given == 0 && at < PyList_Size(attributes); ++at) {
    PyObject* other = graph_attribute(PyList_GetItem(attributes, at), names.name);
    given = other != NULL ? PyObject_RichCompareBool(other, name, Py_EQ) : -1;
    Py_XDECREF(other);
  }
  return given;
}

static bool add_default(Adding* adding, PyObject* given, PyObject* attribute) {
  PyObject* name = graph_attribute(attribute, names.name);
  const int is_there = name != NULL ? is_given(given, name) : -1;
  Py_XDECREF(name);
  return is_there > 0 || (is_there == 0 && add_attribute(adding, attribute));
}

static bool add_all(Adding* adding, PyObject* given, PyObject* defaults) {
  if (!PyList_Check(given) || !PyTuple_Check(defaults)) {
    PyErr_SetString(PyExc_TypeError, "attributes are a list, and defaults a tuple");
    return false;
  }
  for (Py_ssize_t at = 0; at < PyList_Size(given); ++at) {
    if (!add_attribute(adding, PyList_GetItem(given, at))) return false;
  }
  for (Py_ssize_t at = 0; at < PyTuple_Size(defaults); ++at) {
    if (!add_default(adding, given, PyTuple_GetItem(defaults, at))) return false;
  }
  return true;
}

PyObject* call_graph_add_attributes(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *nodes, *schemas, *pointers;
  Adding adding = {0};
  if (!PyArg_ParseTuple(args, "O!O!O!O", &PyList_Type, &nodes, &PyList_Type, &schemas, &PyDict_Type,
                        &pointers, &adding.other)) {
    return NULL;
  }
  bool done = PyList_Size(nodes) == PyList_Size(schemas);
  if (!done) PyErr_SetString(PyExc_ValueError, "each node has one schema");
  for (Py_ssize_t at = 0; done && at < PyList_Size(nodes); ++at) {
    adding.node = PyList_GetItem(nodes, at);
    const GraphNode* node = graph_node_of(adding.node);
    PyObject* index = node != NULL ? graph_field(node->index, "index") : NULL;
    adding.made = index != NULL ? graph_address(pointers, index) : NULL;
    PyObject* message = adding.made != NULL ? graph_field(node->message, "message") : NULL;
    PyObject* given = message != NULL ? graph_attribute(message, names.attribute) : NULL;
    PyObject* defaults = given != NULL ? PyObject_GetAttr(PyList_GetItem(schemas, at), names.defaults) : NULL;
    done = defaults != NULL && add_all(&adding, given, defaults);
    Py_XDECREF(given);
    Py_XDECREF(defaults);
  }
  host_free(adding.room.data);
  if (!done) return NULL;
  Py_RETURN_NONE;
}
