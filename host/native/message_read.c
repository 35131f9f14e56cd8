/* Messages from protobuf's wire format, in one pass. What is read may be anybody's: every length is checked
 * before it is used, and messages in messages are counted. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>

#include "heap.h"
#include "messages.h"

typedef struct Reader {
  const uint8_t* begin; /* of all that is read */
  PyObject* view;       /* a memoryview of it; NULL: bytes are copied */
  Py_ssize_t smallest_view;
} Reader;

/* A part of the bytes: what is left of a message. */
typedef struct Part {
  const uint8_t* at;
  const uint8_t* end;
} Part;

/* Unknown fields of one message, one after the other. */
typedef struct Bytes {
  char* data;
  size_t size;
  size_t room;
} Bytes;

static bool corrupt(void) {
  PyErr_SetString(PyExc_ValueError, "the wire format is corrupt");
  return false;
}

/* Of the tenth byte all but one bit is beyond 64 bits, and dropped. */
static bool read_varint(Part* part, uint64_t* out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 70 && part->at < part->end; shift += 7) {
    uint8_t byte = *part->at++;
    value |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) {
      *out = value;
      return true;
    }
  }
  return corrupt();
}

static bool read_tag(Part* part, unsigned* number, unsigned* wire) {
  uint64_t tag;
  if (part->at < part->end && *part->at < 0x80)
    tag = *part->at++;
  else if (!read_varint(part, &tag))
    return false;
  *number = (unsigned)(tag >> 3);
  *wire = (unsigned)(tag & 7);
  return tag > UINT32_MAX ? corrupt() : true;
}

/* The bytes behind a tag of WIRE_BYTES. */
static bool read_part(Part* part, Part* out) {
  uint64_t length;
  if (!read_varint(part, &length)) return false;
  if (length > (uint64_t)(part->end - part->at)) return corrupt();
  out->at = part->at;
  part->at += length;
  out->end = part->at;
  return true;
}

static bool read_fixed(Part* part, void* out, size_t size) {
  if ((size_t)(part->end - part->at) < size) return corrupt();
  memcpy(out, part->at, size);
  part->at += size;
  return true;
}

static bool too_deep(void) {
  PyErr_SetString(PyExc_ValueError, "messages lie too deep in messages");
  return false;
}

static bool skip_value(Part* part, unsigned number, unsigned wire, int depth) {
  uint64_t ignored;
  Part bytes;
  switch (wire) {
    case WIRE_VARINT:
      return read_varint(part, &ignored);
    case WIRE_FIXED64:
      return read_fixed(part, &ignored, 8);
    case WIRE_FIXED32:
      return read_fixed(part, &ignored, 4);
    case WIRE_BYTES:
      return read_part(part, &bytes);
    case WIRE_GROUP:
      if (depth >= MESSAGE_MOST_DEPTH) return too_deep();
      for (;;) {
        unsigned inner, inner_wire;
        if (!read_tag(part, &inner, &inner_wire)) return false;
        if (inner_wire == WIRE_END_GROUP) return inner == number ? true : corrupt();
        if (!skip_value(part, inner, inner_wire, depth + 1)) return false;
      }
    default:
      return corrupt();
  }
}

static bool keep_unknown(Bytes* unknown, const uint8_t* begin, const uint8_t* end) {
  size_t size = (size_t)(end - begin);
  if (unknown->room - unknown->size < size) {
    size_t room = (unknown->size + size) * 2;
    char* data = host_realloc(unknown->data, room);
    if (data == NULL) {
      PyErr_NoMemory();
      return false;
    }
    unknown->data = data;
    unknown->room = room;
  }
  memcpy(unknown->data + unknown->size, begin, size);
  unknown->size += size;
  return true;
}

static PyObject* text(Part part) {
  return PyUnicode_DecodeUTF8((const char*)part.at, part.end - part.at, "surrogateescape");
}

static PyObject* bytes_of(Reader* reader, Part part, bool viewed, PyObject* message) {
  Py_ssize_t size = part.end - part.at;
  if (!viewed || reader->view == NULL || size < reader->smallest_view)
    return PyBytes_FromStringAndSize((const char*)part.at, size);
  Py_ssize_t begin = part.at - reader->begin;
  PyObject* place = PyLong_FromSsize_t(begin);
  if (place == NULL || PyObject_SetAttr(message, message_names.place, place) < 0) {
    Py_XDECREF(place);
    return NULL;
  }
  Py_DECREF(place);
  return PySequence_GetSlice(reader->view, begin, begin + size);
}

/* The wire type in which the elements of a field of this kind come. */
static unsigned wire_of(FieldKind kind) {
  switch (kind) {
    case FIELD_INT64:
    case FIELD_INT32:
    case FIELD_ENUM:
    case FIELD_INT32_ARRAY:
    case FIELD_INT64_ARRAY:
      return WIRE_VARINT;
    case FIELD_FLOAT:
    case FIELD_FLOAT_ARRAY:
      return WIRE_FIXED32;
    case FIELD_DOUBLE_ARRAY:
      return WIRE_FIXED64;
    default:
      return WIRE_BYTES;
  }
}

static PyObject* number_of(Part* part, FieldKind kind) {
  if (kind == FIELD_FLOAT) {
    float value;
    return read_fixed(part, &value, sizeof value) ? PyFloat_FromDouble(value) : NULL;
  }
  uint64_t value;
  if (!read_varint(part, &value)) return NULL;
  return PyLong_FromLongLong(kind == FIELD_INT64 ? (int64_t)value : (int32_t)(uint32_t)value);
}

static bool append_new(PyObject* list, PyObject* item) {
  if (item == NULL) return false;
  bool done = PyList_Append(list, item) == 0;
  Py_DECREF(item);
  return done;
}

/* To a list, or to the array that a field with FIELD_LONG may have in its place. */
static bool append_number(PyObject* list, PyObject* item) {
  if (item == NULL || PyList_Check(list)) return append_new(list, item);
  PyObject* done = PyObject_CallMethod(list, "append", "O", item);
  Py_DECREF(item);
  Py_XDECREF(done);
  return done != NULL;
}

/* What is in a list without being packed comes one by one behind a tag, mostly all in a row: whether another
 * one follows behind the tag that begins at `tag` and had `size` bytes. */
static bool comes_again(Part* rest, const uint8_t* tag, size_t size) {
  if ((size_t)(rest->end - rest->at) < size || memcmp(rest->at, tag, size) != 0) return false;
  rest->at += size;
  return true;
}

static bool read_numbers(PyObject* list, Part* rest, FieldKind kind, const uint8_t* tag) {
  const size_t size = (size_t)(rest->at - tag);
  do {
    if (!append_number(list, number_of(rest, kind))) return false;
  } while (comes_again(rest, tag, size));
  return true;
}

/* Numbers in a row from which on they are an array: objects of Python's take six times as much memory, and
 * longer than all else of a large forest. */
enum { LONG_ROW = 1024 };

/* A row of numbers: where it is, and the tag that each has, unless they are packed. */
typedef struct Row {
  Part part;
  FieldKind kind;
  const uint8_t* tag;
  size_t tag_size; /* 0: packed */
} Row;

static bool next_number(Row* row, void* out) {
  if (row->kind == FIELD_FLOAT) return read_fixed(&row->part, out, sizeof(float));
  return read_varint(&row->part, out);
}

static bool goes_on(Row* row) {
  return row->tag_size > 0 ? comes_again(&row->part, row->tag, row->tag_size) : row->part.at < row->part.end;
}

static PyObject* array_of(FieldKind kind, PyObject* bytes) {
  static _Atomic(PyObject*) known; /* never freed; imported when the first one is made */
  PyObject* class = atomic_load(&known);
  if (class == NULL) {
    PyObject* module = PyImport_ImportModule("array");
    class = module != NULL ? PyObject_GetAttrString(module, "array") : NULL;
    Py_XDECREF(module);
    if (class == NULL) return NULL;
    atomic_store(&known, class);
  }
  return PyObject_CallFunction(class, "sO", kind == FIELD_FLOAT ? "f" : "q", bytes);
}

/* The array of a long row, behind which `rest` is left then. NULL without an exception for a short row, whose
 * numbers are still to be read. */
static PyObject* long_row(Row row, Part* rest) {
  const size_t each = row.kind == FIELD_FLOAT ? sizeof(float) : sizeof(int64_t);
  uint64_t number = 0;
  size_t count = 0;
  if (row.part.at == row.part.end) return NULL;
  Row counted = row;
  do {
    if (!next_number(&counted, &number)) return NULL;
    ++count;
  } while (goes_on(&counted));
  if (count < LONG_ROW) return NULL;
  if (count > (size_t)PY_SSIZE_T_MAX / each) return PyErr_NoMemory();
  PyObject* bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * each));
  if (bytes == NULL) return NULL;
  char* to = PyBytes_AsString(bytes);
  do {
    if (!next_number(&row, &number)) break; /* which it was counted with */
    memcpy(to, &number, each);
    to += each;
  } while (goes_on(&row));
  PyObject* made = array_of(row.kind, bytes);
  Py_DECREF(bytes);
  if (made != NULL && row.tag_size > 0) *rest = row.part;
  return made;
}

/* Texts that are equal in a row, as names of branches and leaves in a tree are, become one object. */
static bool read_texts(PyObject* list, Part* rest, const uint8_t* tag) {
  const size_t size = (size_t)(rest->at - tag);
  PyObject* last = NULL; /* lent by the list */
  do {
    Part part;
    if (!read_part(rest, &part)) return false;
    const Py_ssize_t length = part.end - part.at;
    const bool is_same = last != NULL && PyBytes_Size(last) == length &&
                         memcmp(PyBytes_AsString(last), part.at, (size_t)length) == 0;
    PyObject* text = is_same ? Py_NewRef(last) : PyBytes_FromStringAndSize((const char*)part.at, length);
    last = text;
    if (!append_new(list, text)) return false;
  } while (comes_again(rest, tag, size));
  return true;
}

/* Room for `count` more elements at the end of an array of bytes. */
static char* grown(PyObject* array, size_t count, size_t size) {
  Py_ssize_t before = PyByteArray_Size(array);
  if (count > (size_t)(PY_SSIZE_T_MAX - before) / size) {
    PyErr_NoMemory();
    return NULL;
  }
  if (PyByteArray_Resize(array, before + (Py_ssize_t)(count * size)) < 0) return NULL;
  return PyByteArray_AsString(array) + before;
}

/* Adds the elements of `part`: one, or a packed field. */
static bool add_to_array(PyObject* array, Part part, FieldKind kind) {
  size_t nbytes = (size_t)(part.end - part.at);
  if (kind == FIELD_FLOAT_ARRAY || kind == FIELD_DOUBLE_ARRAY) {
    size_t size = kind == FIELD_FLOAT_ARRAY ? 4 : 8;
    if (nbytes % size != 0) return corrupt();
    char* to = grown(array, nbytes / size, size);
    if (to == NULL) return false;
    if (nbytes != 0) memcpy(to, part.at, nbytes);
    return true;
  }
  size_t count = 0;
  for (const uint8_t* at = part.at; at < part.end; ++at) count += *at < 0x80;
  size_t size = kind == FIELD_INT32_ARRAY ? 4 : 8;
  char* to = grown(array, count, size);
  if (to == NULL) return false;
  while (part.at < part.end) {
    uint64_t value;
    if (!read_varint(&part, &value)) return false;
    uint32_t narrow = (uint32_t)value;
    memcpy(to, size == 4 ? (void*)&narrow : (void*)&value, size);
    to += size;
  }
  return true;
}

/* What the message has of a field: lent, NULL when it has none. */
static PyObject* present(PyObject* message, PyObject* name) {
  PyObject* fields = PyObject_GenericGetDict(message, NULL);
  if (fields == NULL) return NULL;
  PyObject* found = PyDict_GetItemWithError(fields, name);
  Py_DECREF(fields);
  return found;
}

static bool read_into(Reader* reader, const MessageType* type, PyObject* message, Part part, int depth,
                      bool is_new, bool viewed);

static PyObject* new_message(Reader* reader, const MessageType* type, Part part, int depth, bool viewed) {
  PyObject* message = type->allocate(type->class, 0);
  if (message == NULL || read_into(reader, type, message, part, depth, true, viewed)) return message;
  Py_DECREF(message);
  return NULL;
}

/* One message being read. */
typedef struct Reading {
  Reader* reader;
  const MessageType* type;
  PyObject* message;
  int depth;
  bool is_new; /* nothing was set before; else a second part of it is read */
  bool viewed;
  PyObject* lists[MESSAGE_MOST_FIELDS]; /* lists and arrays, lent */
  int chosen;                           /* the field of the oneof that is set; -1: none */
  Bytes unknown;
} Reading;

static bool set_new(Reading* reading, const MessageField* field, PyObject* value) {
  if (value == NULL) return false;
  bool done = PyObject_SetAttr(reading->message, field->name, value) == 0;
  Py_DECREF(value);
  return done;
}

/* The list or array of a field, which is put there first if there is none. */
static PyObject* list_of(Reading* reading, int index) {
  if (reading->lists[index] != NULL) return reading->lists[index];
  const MessageField* field = &reading->type->fields[index];
  PyObject* found = reading->is_new ? NULL : present(reading->message, field->name);
  if (found == NULL) {
    if (PyErr_Occurred() != NULL) return NULL;
    found = field->kind >= FIELD_FLOAT_ARRAY ? PyByteArray_FromStringAndSize(NULL, 0) : PyList_New(0);
    if (found == NULL) return NULL;
    int failed = PyObject_SetAttr(reading->message, field->name, found);
    Py_DECREF(found); /* the message has it */
    if (failed < 0) return NULL;
  }
  return reading->lists[index] = found;
}

/* Unsets what the oneof had, unless it is this field. */
static bool choose(Reading* reading, int index) {
  if (reading->chosen >= 0 && reading->chosen != index &&
      PyObject_SetAttr(reading->message, reading->type->fields[reading->chosen].name, NULL) < 0)
    return false;
  reading->chosen = index;
  return true;
}

static bool is_viewed(const Reading* reading, const MessageField* field) {
  return reading->viewed && (field->flags & FIELD_VIEWED) != 0;
}

static bool read_message_field(Reading* reading, const MessageField* field, Part part, PyObject* list) {
  bool viewed = is_viewed(reading, field);
  int depth = reading->depth + 1;
  if (depth > MESSAGE_MOST_DEPTH) return too_deep();
  if (list != NULL) return append_new(list, new_message(reading->reader, field->type, part, depth, viewed));
  /* Of two in a row, the fields are merged. */
  PyObject* before = present(reading->message, field->name);
  if (before != NULL) return read_into(reading->reader, field->type, before, part, depth, false, viewed);
  if (PyErr_Occurred() != NULL) return false;
  return set_new(reading, field, new_message(reading->reader, field->type, part, depth, viewed));
}

/* Reads an array in the place of an empty list. False without an exception: there are few numbers, and none
 * was read. */
static bool read_long_row(Reading* reading, int index, Row row, Part* rest) {
  const MessageField* field = &reading->type->fields[index];
  PyObject* list = reading->lists[index];
  if ((field->flags & FIELD_LONG) == 0 || !PyList_Check(list) || PyList_Size(list) > 0) return false;
  PyObject* array = long_row(row, rest);
  if (array == NULL) return false;
  const bool done = PyObject_SetAttr(reading->message, field->name, array) == 0;
  reading->lists[index] = done ? array : NULL;
  Py_DECREF(array); /* the message has it */
  return done;
}

/* A field that the type has, behind its tag, in a wire type that fits. */
static bool read_field(Reading* reading, int index, Part* rest, unsigned wire, const uint8_t* start) {
  const MessageField* field = &reading->type->fields[index];
  bool is_array = field->kind >= FIELD_FLOAT_ARRAY;
  PyObject* list = NULL;
  if (is_array || (field->flags & FIELD_REPEATED) != 0) {
    list = list_of(reading, index);
    if (list == NULL) return false;
  } else if ((field->flags & FIELD_ONEOF) != 0 && !choose(reading, index)) {
    return false;
  }
  if (list != NULL && field->kind == FIELD_BYTES) return read_texts(list, rest, start);
  Part part = *rest;
  if (wire == WIRE_BYTES) {
    if (!read_part(rest, &part)) return false;
  } else if (is_array) {
    if (!skip_value(rest, field->number, wire, 0)) return false;
    part.end = rest->at;
  }
  if (is_array) return add_to_array(list, part, field->kind);
  PyObject* value;
  switch (field->kind) {
    case FIELD_MESSAGE:
      return read_message_field(reading, field, part, list);
    case FIELD_STRING:
    case FIELD_WORD:
      value = text(part);
      if (value != NULL && field->kind == FIELD_WORD) PyUnicode_InternInPlace(&value);
      break;
    case FIELD_BYTES:
      value = bytes_of(reading->reader, part, is_viewed(reading, field), reading->message);
      break;
    case FIELD_ENUM: {
      uint64_t number;
      if (!read_varint(rest, &number)) return false;
      int32_t known = (int32_t)(uint32_t)number;
      if (known < 0 || known > field->most) return keep_unknown(&reading->unknown, start, rest->at);
      value = PyLong_FromLong(known);
      break;
    }
    default:
      if (wire == WIRE_BYTES) { /* packed */
        if (read_long_row(reading, index, (Row){part, field->kind, NULL, 0}, rest)) return true;
        if (PyErr_Occurred() != NULL) return false;
        while (part.at < part.end) {
          if (!append_number(list, number_of(&part, field->kind))) return false;
        }
        return true;
      }
      if (list != NULL) {
        Row row = {*rest, field->kind, start, (size_t)(rest->at - start)};
        if (read_long_row(reading, index, row, rest)) return true;
        return PyErr_Occurred() == NULL && read_numbers(list, rest, field->kind, start);
      }
      value = number_of(rest, field->kind);
  }
  return list != NULL ? append_new(list, value) : set_new(reading, field, value);
}

/* Whether a field's value may come in a wire type. */
static bool fits(const MessageField* field, unsigned wire) {
  unsigned own = wire_of(field->kind);
  bool packable = own != WIRE_BYTES && (field->kind >= FIELD_FLOAT_ARRAY || (field->flags & FIELD_REPEATED));
  return wire == own || (wire == WIRE_BYTES && packable);
}

static bool read_fields(Reading* reading, Part part) {
  const MessageType* type = reading->type;
  while (part.at < part.end) {
    const uint8_t* start = part.at;
    unsigned number, wire;
    if (!read_tag(&part, &number, &wire)) return false;
    if (number == 0) return corrupt(); /* in a group it passes, as with protobuf's own parser */
    int index = number < MESSAGE_MOST_NUMBER ? type->index[number] : -1;
    if (index >= 0 && fits(&type->fields[index], wire)) {
      if (!read_field(reading, index, &part, wire, start)) return false;
    } else {
      if (!skip_value(&part, number, wire, reading->depth)) return false;
      if (!keep_unknown(&reading->unknown, start, part.at)) return false;
    }
  }
  return true;
}

static bool finish(Reading* reading) {
  const MessageType* type = reading->type;
  for (size_t i = 0; reading->is_new && i < type->count; ++i) {
    if ((type->fields[i].flags & FIELD_EAGER) != 0 && list_of(reading, (int)i) == NULL) return false;
  }
  if (reading->unknown.size == 0) return true;
  PyObject* before = present(reading->message, message_names.unknown);
  if (before == NULL && PyErr_Occurred() != NULL) return false;
  const Bytes* unknown = &reading->unknown;
  if (before != NULL && PyByteArray_Check(before)) {
    char* to = grown(before, unknown->size, 1);
    if (to != NULL) memcpy(to, unknown->data, unknown->size);
    return to != NULL;
  }
  /* There may be any number of parts: from the second one on they are put behind the others. */
  PyObject* all = PyBytes_FromStringAndSize(unknown->data, (Py_ssize_t)unknown->size);
  if (all != NULL && before != NULL) {
    PyObject* joined = PyByteArray_Concat(before, all);
    Py_DECREF(all);
    all = joined;
  }
  if (all == NULL) return false;
  bool done = PyObject_SetAttr(reading->message, message_names.unknown, all) == 0;
  Py_DECREF(all);
  return done;
}

static bool read_into(Reader* reader, const MessageType* type, PyObject* message, Part part, int depth,
                      bool is_new, bool viewed) {
  Reading reading = {reader, type, message, depth, is_new, viewed, {0}, -1, {0}};
  for (size_t i = 0; !is_new && i < type->count; ++i) {
    if ((type->fields[i].flags & FIELD_ONEOF) != 0 && present(message, type->fields[i].name) != NULL)
      reading.chosen = (int)i;
    if (PyErr_Occurred() != NULL) return false;
  }
  bool done = read_fields(&reading, part) && finish(&reading);
  host_free(reading.unknown.data);
  return done;
}

PyObject* message_read(const MessageType* type, PyObject* data, Py_ssize_t smallest_view) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0) return NULL;
  Reader reader = {buffer.buf, NULL, smallest_view};
  PyObject* message = NULL;
  if (smallest_view == 0 || (reader.view = PyMemoryView_FromObject(data)) != NULL) {
    Part all = {reader.begin, reader.begin + buffer.len};
    message = new_message(&reader, type, all, 1, smallest_view != 0);
  }
  Py_XDECREF(reader.view);
  PyBuffer_Release(&buffer);
  return message;
}
