/* ONNX's messages as Python objects: what reading and writing them share. */
#ifndef EPHOST_NATIVE_MESSAGES_H_
#define EPHOST_NATIVE_MESSAGES_H_

#include "call.h"

/* What a field holds; ephost/messages.py has the same numbers. */
typedef enum FieldKind {
  FIELD_INT64,
  FIELD_INT32,
  FIELD_ENUM, /* closed: a number that it does not know is an unknown field */
  FIELD_FLOAT,
  FIELD_STRING,
  FIELD_WORD, /* a string that many messages share: interned */
  FIELD_BYTES,
  FIELD_MESSAGE,
  /* repeated numbers as the bytes of an array */
  FIELD_FLOAT_ARRAY,
  FIELD_DOUBLE_ARRAY,
  FIELD_INT32_ARRAY,
  FIELD_INT64_ARRAY, /* of unsigned numbers as well */
  FIELD_KIND_COUNT,
} FieldKind;

enum {
  FIELD_REPEATED = 1, /* a list; not for arrays, which always are */
  FIELD_EAGER = 2,    /* the list is there also when it is empty */
  FIELD_VIEWED = 4,   /* large bytes, and messages that have some, which may be views of what is read */
  FIELD_ONEOF = 8,    /* setting it unsets the message's others with this mark */
  FIELD_LONG = 16,    /* a list of int64 or float; many in a row are an array.array instead */
};

enum {
  MESSAGE_MOST_FIELDS = 32, /* of a message */
  MESSAGE_MOST_NUMBER = 32, /* of a field */
  MESSAGE_MOST_DEPTH = 100, /* as protobuf's own parser has it */
};

typedef struct MessageType MessageType;
typedef struct MessageField {
  PyObject* name; /* interned */
  FieldKind kind;
  unsigned flags;
  unsigned number;
  int64_t most;            /* of an enum: the largest known value */
  const MessageType* type; /* of messages */
} MessageField;

/* Made once for each class of messages and never freed. */
struct MessageType {
  PyTypeObject* class;
  allocfunc allocate;
  MessageField* fields; /* by number, as they are written */
  size_t count;
  signed char index[MESSAGE_MOST_NUMBER]; /* of a field by its number; -1: unknown */
};

typedef struct MessageNames {
  PyObject* unknown; /* attribute: the bytes of unknown fields */
  PyObject* place;   /* attribute: where bytes that are a view begin */
} MessageNames;
extern MessageNames message_names;

/* A wire type; groups have been out of use since before ONNX. */
enum { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP, WIRE_END_GROUP, WIRE_FIXED32 };

/* message_read.c, message_write.c */
/* The numbers of an array.array that is in the place of a list; to be released. False with TypeError for
 * another object. */
bool message_numbers(PyObject* array, FieldKind kind, Py_buffer* out);
PyObject* message_read(const MessageType* type, PyObject* data, Py_ssize_t smallest_view);
PyObject* message_write(const MessageType* type, PyObject* message);

/* messages.c: methods of the module. */
bool messages_setup(void);
PyObject* call_message_type(PyObject* module, PyObject* class);
PyObject* call_message_fields(PyObject* module, PyObject* args);
PyObject* call_message_read(PyObject* module, PyObject* args);
PyObject* call_message_write(PyObject* module, PyObject* args);

#endif
