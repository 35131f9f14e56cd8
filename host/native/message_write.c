/* Messages to protobuf's wire format, the fields in the order of their numbers. */
#define _GNU_SOURCE
#include <string.h>

#include "heap.h"
#include "messages.h"

typedef struct Writer {
  char* data;
  size_t size;
  size_t room;
} Writer;

enum { MOST_VARINT = 10 }; /* bytes of one */

static char* room_for(Writer* writer, size_t size) {
  if (writer->room - writer->size < size) {
    size_t room = (writer->size + size) * 2;
    char* data = room < size ? NULL : host_realloc(writer->data, room);
    if (data == NULL) {
      PyErr_NoMemory();
      return NULL;
    }
    writer->data = data;
    writer->room = room;
  }
  return writer->data + writer->size;
}

static bool write_bytes(Writer* writer, const void* data, size_t size) {
  char* to = room_for(writer, size);
  if (to == NULL) return false;
  if (size != 0) memcpy(to, data, size);
  writer->size += size;
  return true;
}

static size_t put_varint(char* to, uint64_t value) {
  size_t size = 0;
  for (; value > 0x7F; value >>= 7) to[size++] = (char)(value | 0x80);
  to[size++] = (char)value;
  return size;
}

static bool write_varint(Writer* writer, uint64_t value) {
  char* to = room_for(writer, MOST_VARINT);
  if (to == NULL) return false;
  writer->size += put_varint(to, value);
  return true;
}

static bool write_tag(Writer* writer, const MessageField* field, unsigned wire) {
  return write_varint(writer, (uint64_t)field->number << 3 | wire);
}

static bool write_long(Writer* writer, const MessageField* field, const void* data, size_t size) {
  return write_tag(writer, field, WIRE_BYTES) && write_varint(writer, size) &&
         write_bytes(writer, data, size);
}

/* Puts the length of what was written since `begin` before it. */
static bool insert_length(Writer* writer, size_t begin) {
  char digits[MOST_VARINT];
  size_t length = writer->size - begin;
  size_t size = put_varint(digits, length);
  if (room_for(writer, size) == NULL) return false;
  memmove(writer->data + begin + size, writer->data + begin, length);
  memcpy(writer->data + begin, digits, size);
  writer->size += size;
  return true;
}

static bool write_text(Writer* writer, const MessageField* field, PyObject* text) {
  Py_ssize_t size;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data != NULL) return write_long(writer, field, data, (size_t)size);
  if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
  PyErr_Clear(); /* it was read from bytes that are no text */
  PyObject* bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
  if (bytes == NULL) return false;
  bool done = write_long(writer, field, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
  Py_DECREF(bytes);
  return done;
}

static bool write_as_it_is(Writer* writer, PyObject* bytes) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(bytes, &buffer, PyBUF_SIMPLE) < 0) return false;
  const bool done = write_bytes(writer, buffer.buf, (size_t)buffer.len);
  PyBuffer_Release(&buffer);
  return done;
}

static bool write_buffer(Writer* writer, const MessageField* field, PyObject* object) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(object, &buffer, PyBUF_SIMPLE) < 0) return false;
  bool done = true;
  if (field->kind == FIELD_INT32_ARRAY || field->kind == FIELD_INT64_ARRAY) {
    size_t element = field->kind == FIELD_INT32_ARRAY ? 4 : 8;
    done = write_tag(writer, field, WIRE_BYTES);
    size_t begin = writer->size;
    for (size_t at = 0; done && at + element <= (size_t)buffer.len; at += element) {
      int32_t narrow;
      int64_t wide;
      memcpy(element == 4 ? (void*)&narrow : (void*)&wide, (char*)buffer.buf + at, element);
      done = write_varint(writer, (uint64_t)(element == 4 ? narrow : wide));
    }
    done = done && insert_length(writer, begin);
  } else {
    done = write_long(writer, field, buffer.buf, (size_t)buffer.len);
  }
  PyBuffer_Release(&buffer);
  return done;
}

static bool write_fields(Writer* writer, const MessageType* type, PyObject* message, int depth);

static bool write_value(Writer* writer, const MessageField* field, PyObject* value, int depth) {
  switch (field->kind) {
    case FIELD_INT64:
    case FIELD_INT32:
    case FIELD_ENUM: {
      long long number = PyLong_AsLongLong(value);
      if (number == -1 && PyErr_Occurred() != NULL) return false;
      return write_tag(writer, field, WIRE_VARINT) && write_varint(writer, (uint64_t)number);
    }
    case FIELD_FLOAT: {
      double number = PyFloat_AsDouble(value);
      if (number == -1 && PyErr_Occurred() != NULL) return false;
      float narrow = (float)number;
      return write_tag(writer, field, WIRE_FIXED32) && write_bytes(writer, &narrow, sizeof narrow);
    }
    case FIELD_STRING:
    case FIELD_WORD:
      return write_text(writer, field, value);
    case FIELD_MESSAGE: {
      if (!write_tag(writer, field, WIRE_BYTES)) return false;
      size_t begin = writer->size;
      return write_fields(writer, field->type, value, depth + 1) && insert_length(writer, begin);
    }
    default:
      return write_buffer(writer, field, value);
  }
}

bool message_numbers(PyObject* array, FieldKind kind, Py_buffer* out) {
  if (PyObject_GetBuffer(array, out, PyBUF_FORMAT) < 0) {
    PyErr_Format(PyExc_TypeError, "%R is no list of numbers", (PyObject*)Py_TYPE(array));
    return false;
  }
  const bool fits = out->format != NULL && strcmp(out->format, kind == FIELD_FLOAT ? "f" : "q") == 0;
  if (!fits) {
    PyErr_SetString(PyExc_TypeError, "an array of other numbers than the field has");
    PyBuffer_Release(out);
  }
  return fits;
}

static bool write_array(Writer* writer, const MessageField* field, PyObject* array) {
  Py_buffer numbers;
  if (!message_numbers(array, field->kind, &numbers)) return false;
  bool done = true;
  for (Py_ssize_t at = 0; done && at < numbers.len; at += numbers.itemsize) {
    const char* from = (const char*)numbers.buf + at;
    if (field->kind == FIELD_FLOAT) {
      done = write_tag(writer, field, WIRE_FIXED32) && write_bytes(writer, from, sizeof(float));
    } else {
      uint64_t number;
      memcpy(&number, from, sizeof number);
      done = write_tag(writer, field, WIRE_VARINT) && write_varint(writer, number);
    }
  }
  PyBuffer_Release(&numbers);
  return done;
}

static bool write_list(Writer* writer, const MessageField* field, PyObject* list, int depth) {
  if (!PyList_Check(list) && (field->flags & FIELD_LONG) != 0) return write_array(writer, field, list);
  if (!PyList_Check(list)) {
    PyErr_Format(PyExc_TypeError, "the field '%U' is no list", field->name);
    return false;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    PyObject* item = Py_NewRef(PyList_GetItem(list, i));
    bool done = write_value(writer, field, item, depth);
    Py_DECREF(item);
    if (!done) return false;
  }
  return true;
}

static bool write_fields(Writer* writer, const MessageType* type, PyObject* message, int depth) {
  if (Py_TYPE(message) != type->class || depth > MESSAGE_MOST_DEPTH) {
    PyErr_Format(PyExc_TypeError, "a message of another type, or too deep in others: %R",
                 (PyObject*)Py_TYPE(message));
    return false;
  }
  PyObject* fields = PyObject_GenericGetDict(message, NULL);
  if (fields == NULL) return false;
  bool done = true;
  for (size_t i = 0; done && i < type->count; ++i) {
    const MessageField* field = &type->fields[i];
    PyObject* value = PyDict_GetItemWithError(fields, field->name);
    if (value == NULL) {
      done = PyErr_Occurred() == NULL;
      continue;
    }
    Py_INCREF(value);
    if (field->kind >= FIELD_FLOAT_ARRAY) {
      done = PyObject_Size(value) == 0 || write_buffer(writer, field, value);
    } else if ((field->flags & FIELD_REPEATED) != 0) {
      done = write_list(writer, field, value, depth);
    } else {
      done = write_value(writer, field, value, depth);
    }
    Py_DECREF(value);
  }
  PyObject* unknown = done ? PyDict_GetItemWithError(fields, message_names.unknown) : NULL;
  if (unknown != NULL) {
    done = write_as_it_is(writer, unknown);
  } else if (PyErr_Occurred() != NULL) {
    done = false;
  }
  Py_DECREF(fields);
  return done;
}

PyObject* message_write(const MessageType* type, PyObject* message) {
  Writer writer = {0};
  PyObject* bytes = NULL;
  if (write_fields(&writer, type, message, 1))
    bytes = PyBytes_FromStringAndSize(writer.data, (Py_ssize_t)writer.size);
  host_free(writer.data);
  return bytes;
}
