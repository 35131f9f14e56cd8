/* Values on their way between Python and the C half.
 *
 * numpy arrays come in without a copy: a value borrows the array's memory while the run lasts. Outputs go out
 * without a copy: the array that the caller gets keeps the buffer that the kernel wrote alive. Only memory
 * that the run itself borrowed (a feed or a weight that is an output as it is, a value in the arena) is
 * copied. */
#define _GNU_SOURCE
#include "python_values.h"

#include <string.h>

#include "heap.h"
#include "memory.h"
#include "numpy.h"
#include "status.h"

#define BUFFER_CAPSULE "ephost.buffer"

CallState call_state;

/* ---- errors -------------------------------------------------------------------------------------------- */

/* Raises the status as a Python exception and releases it. */
void raise_status(OrtStatus* status) {
  enum { OF_NODE = 1 << 19 }; /* errors.py's */
  PyObject* message =
      PyUnicode_DecodeUTF8(status->message, (Py_ssize_t)strlen(status->message), "backslashreplace");
  PyObject* error =
      message != NULL ? PyObject_CallFunction(call_state.status_error, "iO",
                                              (int)status->code | (status->is_of_node ? OF_NODE : 0), message)
                      : NULL;
  Py_XDECREF(message);
  ephost_api.ReleaseStatus(status);
  if (error == NULL) return;
  PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_DECREF(error);
}

/* Turns the exception that is set into a status and clears it. */
OrtStatus* status_from_exception(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* code_object = value != NULL ? PyObject_GetAttrString(value, "code") : NULL;
  long code = code_object != NULL && PyLong_Check(code_object) ? PyLong_AsLong(code_object) : ORT_FAIL;
  PyErr_Clear();
  PyObject* text = value != NULL ? PyObject_Str(value) : NULL;
  const char* message = text != NULL ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  PyObject* type_name = type != NULL ? PyObject_GetAttrString(type, "__name__") : NULL;
  const char* name = type_name != NULL ? PyUnicode_AsUTF8AndSize(type_name, NULL) : NULL;
  if (code <= ORT_OK || code > ORT_NOT_FOUND) code = ORT_FAIL;
  OrtStatus* status =
      code_object != NULL
          ? status_new((OrtErrorCode)code, "%s", message != NULL ? message : "unknown error")
          : status_new(ORT_FAIL, "%s: %s", name != NULL ? name : "exception", message != NULL ? message : "");
  PyErr_Clear();
  Py_XDECREF(code_object);
  Py_XDECREF(text);
  Py_XDECREF(type_name);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return status;
}

/* ---- long work --------------------------------------------------------------------------------------- */

/* Other threads, an event loop's for one, must not wait for the GIL while much data is gone through: what
 * takes longer than a tenth of a millisecond or so lets go of it. */
#define MANY_BYTES ((size_t)1 << 18)
#define MANY_ITEMS ((size_t)1 << 10)

void copy_bytes(void* to, const void* from, size_t count) {
  if (count < MANY_BYTES) {
    if (count) memcpy(to, from, count);
    return;
  }
  Py_BEGIN_ALLOW_THREADS
  memcpy(to, from, count);
  Py_END_ALLOW_THREADS
}

/* Makes the clear value a copy, in new memory of the CPU's, of a tensor that is there. False without memory.
 */
bool copy_tensor(OrtValue* to, const OrtValue* from) {
  if (from->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return value_copy(to, from, NULL);
  if (!value_alloc_tensor(to, from->element_type, from->dims, from->rank, NULL)) return false;
  copy_bytes(to->data, from->data, from->nbytes);
  return true;
}

/* To be called after each item of a loop that works on Python objects: lets others have their turn. */
static void rest_after(size_t item) {
  if ((item + 1) % MANY_ITEMS) return;
  Py_BEGIN_ALLOW_THREADS
  Py_END_ALLOW_THREADS
}

/* ---- values to Python ---------------------------------------------------------------------------------- */

static void capsule_drop_buffer(PyObject* capsule) {
  buffer_release(PyCapsule_GetPointer(capsule, BUFFER_CAPSULE));
}

/* Whether an array can have the value's rank; else with an exception set. */
static bool array_has_rank(const OrtValue* value) {
  if (value->rank <= MAX_RANK) return true;
  raise_status(status_new(ORT_INVALID_ARGUMENT,
                          "a tensor of rank %zu has no numpy array: the highest rank is %d", value->rank,
                          MAX_RANK));
  return false;
}

static PyObject* strings_to_array(const OrtValue* value) {
  npy_intp dims[MAX_RANK];
  if (!array_has_rank(value)) return NULL;
  for (size_t i = 0; i < value->rank; ++i) dims[i] = (npy_intp)value->dims[i];
  Py_INCREF(call_state.object_dtype);
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr*)call_state.object_dtype,
                                         (int)value->rank, dims, NULL, NULL, 0, NULL);
  if (array == NULL) return NULL;
  PyObject** items = PyArray_DATA((PyArrayObject*)array);
  const StringElement* strings = value->data;
  for (size_t i = 0; i < value->element_count; ++i) {
    const char* text = strings[i].text != NULL ? strings[i].text : "";
    PyObject* item = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strings[i].length, "surrogateescape");
    if (item == NULL) {
      Py_DECREF(array);
      return NULL;
    }
    PyObject* before = items[i];
    items[i] = item;
    Py_XDECREF(before);
    rest_after(i);
  }
  return array;
}

static void unpack(uint8_t* out, const uint8_t* packed, size_t count, unsigned bits, bool is_signed) {
  unsigned per_byte = 8 / bits, mask = (1u << bits) - 1, sign = 1u << (bits - 1);
  for (size_t i = 0; i < count; ++i) {
    unsigned element = (unsigned)(packed[i / per_byte] >> (i % per_byte * bits)) & mask;
    if (is_signed && (element & sign)) element |= 0xFFu & ~mask;
    out[i] = (uint8_t)element;
  }
}

static void pack(uint8_t* out, const uint8_t* elements, size_t count, size_t nbytes, unsigned bits) {
  unsigned per_byte = 8 / bits, mask = (1u << bits) - 1;
  if (nbytes) memset(out, 0, nbytes);
  for (size_t i = 0; i < count; ++i) {
    out[i / per_byte] |= (uint8_t)((elements[i] & mask) << (i % per_byte * bits));
  }
}

static bool signed_packed(ONNXTensorElementDataType type) {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2;
}

bool dtypes_add(PyObject* dtypes) {
  for (int type = 1; type < ELEMENT_TYPES; ++type) {
    if (atomic_load(&call_state.dtypes[type]) != NULL) continue;
    PyObject* key = PyLong_FromLong(type);
    PyObject* dtype = key != NULL ? PyDict_GetItemWithError(dtypes, key) : NULL;
    Py_XDECREF(key);
    if (dtype == NULL) {
      if (PyErr_Occurred() != NULL) return false;
      continue;
    }
    if (!PyArray_DescrCheck(dtype)) {
      PyErr_SetString(PyExc_TypeError, "element types are told as numpy dtypes");
      return false;
    }
    PyArray_Descr *known = NULL, *told = (PyArray_Descr*)Py_NewRef(dtype);
    atomic_store(&call_state.type_numbers[type], told->type_num);
    if (!atomic_compare_exchange_strong(&call_state.dtypes[type], &known, told)) Py_DECREF((PyObject*)told);
  }
  return true;
}

/* Python imports ml_dtypes, while another thread may ask as well, and adds nothing. */
static bool ask_for_more_dtypes(void) {
  if (atomic_load(&call_state.asked)) return true;
  PyObject* dtypes = PyObject_CallNoArgs(call_state.more_dtypes);
  bool done = dtypes != NULL && dtypes_add(dtypes);
  Py_XDECREF(dtypes);
  if (done) atomic_store(&call_state.asked, true);
  return done;
}

PyArray_Descr* dtype_of(int element_type) {
  if (element_type <= 0 || element_type >= ELEMENT_TYPES ||
      element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    return NULL;
  }
  if (atomic_load(&call_state.dtypes[element_type]) == NULL && !ask_for_more_dtypes()) return NULL;
  return atomic_load(&call_state.dtypes[element_type]);
}

/* A new array of the value's shape; with `data` over that memory, kept alive by `base` (a reference is taken
 * over). */
static PyObject* new_array(const OrtValue* value, void* data, PyObject* base, bool writable) {
  npy_intp dims[MAX_RANK];
  if (!array_has_rank(value)) {
    Py_XDECREF(base);
    return NULL;
  }
  for (size_t i = 0; i < value->rank; ++i) dims[i] = (npy_intp)value->dims[i];
  int type = (int)value->element_type;
  PyArray_Descr* dtype = dtype_of(type);
  if (dtype == NULL) {
    Py_XDECREF(base);
    if (PyErr_Occurred() == NULL)
      PyErr_Format(PyExc_TypeError, "tensors of element type %d have no numpy dtype", type);
    return NULL;
  }
  Py_INCREF((PyObject*)dtype);
  PyObject* array = PyArray_NewFromDescr(
      &PyArray_Type, dtype, (int)value->rank, dims, NULL, data,
      data != NULL && writable ? NPY_ARRAY_CARRAY : (data != NULL ? NPY_ARRAY_CARRAY_RO : 0), NULL);
  if (array == NULL) {
    Py_XDECREF(base);
    if (PyErr_ExceptionMatches(
            PyExc_ValueError)) { /* no elements, and dimensions whose product is too large */
      PyErr_Clear();
      raise_status(
          status_new(ORT_FAIL, "numpy has no array of a tensor's shape, whose dimensions are too large"));
    }
    return NULL;
  }
  if (base != NULL && PyArray_SetBaseObject((PyArrayObject*)array, base) < 0) {
    Py_DECREF(array);
    return NULL;
  }
  return array;
}

static PyObject* tensor_to_python(const OrtValue* value, Ownership ownership) {
  if (value->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return strings_to_array(value);
  if (!memory_info_is_cpu(value->memory_info)) {
    PyErr_Format(PyExc_RuntimeError, "the value is on %s: copy it to the CPU first",
                 value->memory_info->name);
    return NULL;
  }
  size_t bits = element_type_bits(value->element_type);
  if (bits < 8) {
    PyObject* array = new_array(value, NULL, NULL, true);
    if (array != NULL && value->element_count) {
      uint8_t* elements = PyArray_DATA((PyArrayObject*)array);
      Py_BEGIN_ALLOW_THREADS
      unpack(elements, value->data, value->element_count, (unsigned)bits, signed_packed(value->element_type));
      Py_END_ALLOW_THREADS
    }
    return array;
  }
  if (ownership == COPY || value->nbytes == 0 || (ownership == SHARE_BUFFER && value->buffer == NULL)) {
    PyObject* array = new_array(value, NULL, NULL, true);
    if (array != NULL) copy_bytes(PyArray_DATA((PyArrayObject*)array), value->data, value->nbytes);
    return array;
  }
  PyObject* base = NULL;
  if (value->buffer != NULL) {
    base = PyCapsule_New(value->buffer, BUFFER_CAPSULE, capsule_drop_buffer);
    if (base == NULL) return NULL;
    buffer_retain(value->buffer);
  }
  return new_array(value, value->data, base, ownership == SHARE_BUFFER);
}

/* Whether `item_of` knows the tensor's elements: those that maps have. */
static bool has_items(const OrtValue* tensor) {
  return tensor->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ||
         tensor->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ||
         tensor->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
}

/* An element as an int, a float or a str. */
static PyObject* item_of(const OrtValue* tensor, size_t i) {
  switch (tensor->element_type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return PyLong_FromLongLong(((const int64_t*)tensor->data)[i]);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return PyFloat_FromDouble(((const float*)tensor->data)[i]);
    default: {
      const StringElement* string = (const StringElement*)tensor->data + i;
      return PyUnicode_DecodeUTF8(string->text != NULL ? string->text : "", (Py_ssize_t)string->length,
                                  "surrogateescape");
    }
  }
}

/* A map of the types that most have, without arrays in between. */
static PyObject* dict_of(const OrtValue* keys, const OrtValue* values) {
  PyObject* dict = PyDict_New();
  for (size_t i = 0; dict != NULL && i < keys->element_count; ++i) {
    PyObject* key = item_of(keys, i);
    PyObject* item = key != NULL ? item_of(values, i) : NULL;
    if (item == NULL || PyDict_SetItem(dict, key, item) < 0) Py_CLEAR(dict);
    Py_XDECREF(key);
    Py_XDECREF(item);
  }
  return dict;
}

/* The keys of a map in their order, as onnxruntime's maps have them, each with None. */
static PyObject* dict_of_keys(PyObject* names) {
  PyObject* sorted = PySequence_List(names);
  PyObject* dict = sorted != NULL && PyList_Sort(sorted) == 0 ? PyDict_New() : NULL;
  for (Py_ssize_t i = 0; dict != NULL && i < PyList_Size(sorted); ++i) {
    if (PyDict_SetItem(dict, PyList_GetItem(sorted, i), Py_None) < 0) Py_CLEAR(dict);
  }
  Py_XDECREF(sorted);
  return dict;
}

/* A zipped sequence of maps, each a copy of a first dict with values of its own: their keys are made once. */
static PyObject* dicts_of(const OrtValue* sequence) {
  const OrtValue *keys = sequence->items[0], *values = sequence->items[1];
  const size_t rows = value_item_count(sequence), width = keys->element_count;
  const float* scores = values->data;
  PyObject* list = PyList_New((Py_ssize_t)rows);
  PyObject* names = PyTuple_New((Py_ssize_t)width);
  bool ok = list != NULL && names != NULL;
  for (size_t i = 0; ok && i < width; ++i) {
    PyObject* name = item_of(keys, i);
    ok = name != NULL && PyTuple_SetItem(names, (Py_ssize_t)i, name) == 0;
  }
  PyObject* first = ok ? dict_of_keys(names) : NULL;
  ok = first != NULL;
  for (size_t row = 0; ok && row < rows; ++row) {
    PyObject* dict = PyDict_Copy(first);
    ok = dict != NULL && PyList_SetItem(list, (Py_ssize_t)row, dict) == 0;
    for (size_t i = 0; ok && i < width; ++i) {
      PyObject* score = PyFloat_FromDouble(scores[row * width + i]);
      ok = score != NULL && PyDict_SetItem(dict, PyTuple_GetItem(names, (Py_ssize_t)i), score) == 0;
      Py_XDECREF(score);
    }
    rest_after(row);
  }
  Py_XDECREF(names);
  Py_XDECREF(first);
  if (!ok) Py_CLEAR(list);
  return list;
}

PyObject* value_to_python(const OrtValue* value, Ownership ownership) {
  if (value->is_zipped) return dicts_of(value);
  switch (value->type) {
    case ONNX_TYPE_TENSOR:
      return tensor_to_python(value, ownership);
    case ONNX_TYPE_SEQUENCE: {
      PyObject* list = PyList_New((Py_ssize_t)value->item_count);
      for (size_t i = 0; list != NULL && i < value->item_count; ++i) {
        PyObject* item = value_to_python(value->items[i], ownership == SHARE_BUFFER ? COPY : ownership);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
          Py_DECREF(list);
          return NULL;
        }
      }
      return list;
    }
    case ONNX_TYPE_MAP: {
      /* Operators are told of the type of the values: numpy's scalars have it, Python's do not. */
      const bool typed = ownership == VIEW;
      if (!typed && has_items(value->items[0]) && has_items(value->items[1]))
        return dict_of(value->items[0], value->items[1]);
      PyObject* dict = NULL;
      PyObject* keys = value_to_python(value->items[0], COPY);
      PyObject* values = keys != NULL ? value_to_python(value->items[1], COPY) : NULL;
      PyObject* key_list = values != NULL ? PyObject_CallMethod(keys, "tolist", NULL) : NULL;
      PyObject* value_list = NULL;
      if (key_list != NULL)
        value_list = typed ? PySequence_List(values) : PyObject_CallMethod(values, "tolist", NULL);
      if (value_list != NULL) dict = PyDict_New();
      for (Py_ssize_t i = 0; dict != NULL && i < PyList_Size(key_list); ++i) {
        if (PyDict_SetItem(dict, PyList_GetItem(key_list, i), PyList_GetItem(value_list, i)) < 0)
          Py_CLEAR(dict);
      }
      Py_XDECREF(keys);
      Py_XDECREF(values);
      Py_XDECREF(key_list);
      Py_XDECREF(value_list);
      return dict;
    }
    case ONNX_TYPE_UNKNOWN:
    case ONNX_TYPE_OPTIONAL:
      Py_RETURN_NONE;
    default:
      PyErr_Format(PyExc_TypeError, "values of ONNX type %d have no Python form", (int)value->type);
      return NULL;
  }
}

/* ---- values from Python -------------------------------------------------------------------------------- */

static void buffer_drop_object(Buffer* buffer) {
  if (python_is_leaving()) return; /* the interpreter is going: its memory goes with it */
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject*)buffer->context);
  PyGILState_Release(gil);
}

/* Undefined, with an exception set: Python failed to say which there are. */
static ONNXTensorElementDataType element_type_of(PyArrayObject* array) {
  int number = PyArray_TYPE(array);
  const bool asked = atomic_load(&call_state.asked); /* before the look at what is known */
  for (int type = 1; type < ELEMENT_TYPES; ++type) {
    if (atomic_load_explicit(&call_state.dtypes[type], memory_order_acquire) != NULL &&
        atomic_load_explicit(&call_state.type_numbers[type], memory_order_relaxed) == number)
      return (ONNXTensorElementDataType)type;
  }
  switch (number) { /* C types of the same size under another number */
    case NPY_LONGLONG:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    case NPY_ULONGLONG:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64;
    case NPY_LONG:
      return sizeof(long) == 4 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    case NPY_ULONG:
      return sizeof(long) == 4 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 : ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64;
    default:
      if (number >= NPY_USERDEF && !asked && ask_for_more_dtypes()) return element_type_of(array);
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  }
}

/* Raises InvalidArgument for an array of more dimensions than a tensor here may have. */
static int check_rank(PyArrayObject* array) {
  int rank = PyArray_NDIM(array);
  if (rank <= MAX_RANK) return 0;
  raise_status(status_new(ORT_INVALID_ARGUMENT, "an array of rank %d makes no tensor: the highest rank is %d",
                          rank, MAX_RANK));
  return -1;
}

/* Appends the text of an element, a str or bytes. 1: done; 0: it is neither; -1: an exception is set. */
static int append_text(StringBlock* block, PyObject* item, size_t* out_length) {
  Py_ssize_t length = 0;
  const char* utf8 = PyUnicode_Check(item) ? PyUnicode_AsUTF8AndSize(item, &length) : NULL;
  PyObject* text = NULL; /* what is no str, or one with bytes that no character stands for */
  if (utf8 == NULL) {
    PyErr_Clear();
    text = PyUnicode_Check(item) ? PyUnicode_AsEncodedString(item, "utf-8", "surrogateescape")
           : PyBytes_Check(item) ? Py_NewRef(item)
                                 : NULL;
    if (text == NULL) return PyErr_Occurred() != NULL ? -1 : 0;
    char* bytes = NULL;
    PyBytes_AsStringAndSize(text, &bytes, &length);
    utf8 = bytes;
  }
  const bool appended = string_block_append(block, utf8, (size_t)length);
  Py_XDECREF(text);
  if (!appended) {
    PyErr_NoMemory();
    return -1;
  }
  *out_length = (size_t)length;
  return 1;
}

/* Makes the clear value a tensor of the array's texts. 1: done; 0: the element `other` is no text, and the
 * value is clear; -1: an exception is set. */
static int strings_from_objects(PyArrayObject* array, OrtValue* value, size_t* other) {
  int64_t dims[MAX_RANK];
  int rank = PyArray_NDIM(array);
  for (int i = 0; i < rank; ++i) dims[i] = PyArray_DIM(array, i);
  OrtValue* strings = NULL;
  OrtStatus* status = ephost_api.CreateTensorAsOrtValue(ephost_cpu_allocator(), dims, (size_t)rank,
                                                        ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &strings);
  if (status != NULL) {
    raise_status(status);
    return -1;
  }
  PyObject** items = PyArray_DATA(array);
  StringElement* elements = strings->data;
  StringBlock block = {0};
  int result = 1;
  for (size_t i = 0; result > 0 && i < strings->element_count; ++i) {
    *other = i;
    /* numpy may leave out what is None */
    result = append_text(&block, items[i] != NULL ? items[i] : Py_None, &elements[i].length);
    rest_after(i);
  }
  if (result > 0) {
    string_block_give(&block, strings);
    value_move(value, strings);
  }
  string_block_drop(&block);
  ephost_api.ReleaseValue(strings);
  return result;
}

int value_from_texts(PyArrayObject* array, OrtValue* value) {
  size_t other = 0;
  return strings_from_objects(array, value, &other);
}

static int strings_from_array(PyObject* object, OrtValue* value) {
  PyArrayObject* array =
      (PyArrayObject*)PyArray_FROMANY(object, NPY_OBJECT, 0, 0, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_FORCECAST);
  if (array == NULL) return -1;
  size_t other = 0;
  const int result = strings_from_objects(array, value, &other);
  if (result == 0) PyErr_Format(PyExc_TypeError, "element %zu of a tensor of strings is no str", other);
  Py_DECREF(array);
  return result > 0 ? 0 : -1;
}

/* Makes the (clear) value a tensor over the array's memory, which it keeps alive; packs 4-bit and 2-bit
 * types. */
static int value_from_array(PyArrayObject* array, OrtValue* value) {
  if (check_rank(array) < 0) return -1;
  int number = PyArray_TYPE(array);
  if (number == NPY_OBJECT || number == NPY_UNICODE || number == NPY_STRING) {
    return strings_from_array((PyObject*)array, value);
  }
  ONNXTensorElementDataType type = element_type_of(array);
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) {
    if (PyErr_Occurred() == NULL)
      PyErr_Format(PyExc_TypeError, "arrays of dtype %R are no tensors of ONNX",
                   (PyObject*)PyArray_DESCR(array));
    return -1;
  }
  PyArrayObject* plain;
  /* What nobody can write to, a part of a mapped file for one, is copied when a plugin asks for the data. */
  const bool later = !PyArray_ISALIGNED(array) && !PyArray_ISWRITEABLE(array);
  if (PyArray_IS_C_CONTIGUOUS(array) && (PyArray_ISALIGNED(array) || later) && PyArray_ISNOTSWAPPED(array)) {
    plain = (PyArrayObject*)Py_NewRef((PyObject*)array);
  } else {
    plain = (PyArrayObject*)PyArray_FromArray(
        array, NULL, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED);
    if (plain == NULL) return -1;
  }
  int64_t dims[MAX_RANK];
  int rank = PyArray_NDIM(plain);
  for (int i = 0; i < rank; ++i) dims[i] = PyArray_DIM(plain, i);
  size_t nbytes = 0, bits = element_type_bits(type);
  Buffer* buffer = NULL;
  if (tensor_nbytes(type, dims, (size_t)rank, NULL, &nbytes)) {
    if (bits < 8) {
      buffer = buffer_from_cpu(nbytes);
      if (buffer != NULL) {
        const uint8_t* elements = PyArray_DATA(plain);
        size_t count = (size_t)PyArray_SIZE(plain);
        Py_BEGIN_ALLOW_THREADS
        pack(buffer->data, elements, count, nbytes, (unsigned)bits);
        Py_END_ALLOW_THREADS
      }
    } else {
      buffer = buffer_adopt(PyArray_DATA(plain), nbytes, buffer_drop_object, plain);
      if (buffer != NULL) {
        Py_INCREF((PyObject*)plain);
        buffer->is_misaligned = !PyArray_ISALIGNED(plain);
        buffer->is_foreign = true;
      }
    }
  }
  Py_DECREF((PyObject*)plain);
  if (buffer == NULL ||
      !value_init_tensor(value, type, dims, (size_t)rank, buffer, NULL, &ephost_cpu_memory_info)) {
    buffer_release(buffer);
    PyErr_NoMemory();
    return -1;
  }
  return 0;
}

/* The native value behind an ephost.OrtValue, which keeps its address in `_address`; NULL for other objects.
 */
const OrtValue* wrapped_value(PyObject* object) {
  if (Py_TYPE(object) != call_state.value_type &&
      (call_state.value_type == NULL || !PyType_IsSubtype(Py_TYPE(object), call_state.value_type))) {
    return NULL;
  }
  PyObject* address = PyObject_GetAttr(object, call_state.address_name);
  if (address == NULL) {
    PyErr_Clear();
    return NULL;
  }
  const OrtValue* value = PyLong_Check(address) ? PyLong_AsVoidPtr(address) : NULL;
  Py_DECREF(address);
  if (PyErr_Occurred() != NULL) PyErr_Clear();
  return value;
}

static int value_from_list(PyObject* list, OrtValue* value) {
  Py_ssize_t count = PySequence_Size(list);
  if (count < 0) return -1;
  OrtValue** items = items_new((size_t)count);
  if (items == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  Py_ssize_t done = 0;
  for (; done < count; ++done) {
    PyObject* item = PySequence_GetItem(list, done);
    items[done] = item != NULL ? value_new() : NULL;
    int failed = items[done] == NULL || value_from_python(item, items[done]) < 0;
    Py_XDECREF(item);
    if (failed) {
      if (PyErr_Occurred() == NULL) PyErr_NoMemory();
      items_release(items, (size_t)count);
      return -1;
    }
  }
  value->type = ONNX_TYPE_SEQUENCE;
  value->items = items;
  value->item_count = (size_t)count;
  return 0;
}

static int value_from_dict(PyObject* dict, OrtValue* value) {
  PyObject* keys = PyDict_Keys(dict);
  PyObject* values = PyDict_Values(dict);
  PyObject* key_array = keys != NULL ? PyArray_FROM_O(keys) : NULL;
  PyObject* value_array = values != NULL ? PyArray_FROM_O(values) : NULL;
  OrtValue** items = items_new(2);
  int result = -1;
  if (key_array != NULL && value_array != NULL && items != NULL) {
    items[0] = value_new();
    items[1] = value_new();
    if (items[0] != NULL && items[1] != NULL && value_from_python(key_array, items[0]) == 0 &&
        value_from_python(value_array, items[1]) == 0) {
      value->type = ONNX_TYPE_MAP;
      value->items = items;
      value->item_count = 2;
      items = NULL;
      result = 0;
    }
  }
  if (result < 0 && PyErr_Occurred() == NULL) PyErr_NoMemory();
  items_release(items, 2);
  Py_XDECREF(keys);
  Py_XDECREF(values);
  Py_XDECREF(key_array);
  Py_XDECREF(value_array);
  return result;
}

int value_from_python(PyObject* object, OrtValue* value) {
  if (PyArray_Check(object)) return value_from_array((PyArrayObject*)object, value);
  if (object == Py_None) {
    value->type = ONNX_TYPE_OPTIONAL;
    return 0;
  }
  if (PyList_Check(object) || PyTuple_Check(object)) return value_from_list(object, value);
  if (PyDict_Check(object)) return value_from_dict(object, value);
  const OrtValue* wrapped = wrapped_value(object);
  if (wrapped != NULL) {
    if (value_share(value, wrapped)) return 0;
    PyErr_NoMemory();
    return -1;
  }
  PyObject* array = PyArray_FROM_O(object);
  if (array == NULL) return -1;
  int result = value_from_array((PyArrayObject*)array, value);
  Py_DECREF(array);
  return result;
}
