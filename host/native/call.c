/* ephost._call: the way from Python into a run and back, written against CPython's limited API and numpy's C
 * API because each run of a small model is mostly this way.
 *
 * numpy arrays come in without a copy: a value borrows the array's memory while the run lasts. Outputs go out
 * without a copy: the array that the caller gets keeps the buffer that the kernel wrote alive. Only memory
 * that the run itself borrowed (a feed or a weight that is an output as it is, a value in the arena) is
 * copied. */
#define _GNU_SOURCE
#include "call.h"

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>
#include <string.h>

#include "plan.h"

#define BUFFER_CAPSULE "ephost.buffer"
#define ELEMENT_TYPES 27
/* up to here an output of known shape is allocated by numpy, before the run */
#define SMALL_OUTPUT_BYTES 4096

static struct {
  PyObject* status_error;   /* callable(code, message) -> exception */
  PyObject* address_name;   /* "_address", interned */
  PyTypeObject* value_type; /* ephost.OrtValue: what `address_name` of an instance says is a value */
  PyObject* object_dtype;   /* numpy's "O" */
  PyArray_Descr* dtypes[ELEMENT_TYPES]; /* by element type; NULL where there is none */
  int type_numbers[ELEMENT_TYPES];
} state;

/* The options of the run that this thread is in, for the runs of subgraphs inside it. */
static THREAD_LOCAL const OrtRunOptions* inherited_options;

static atomic_bool finalizing; /* set by Python's atexit */

bool python_is_leaving(void) { return atomic_load(&finalizing); }

/* ---- errors -------------------------------------------------------------------------------------------- */

/* Raises the status as a Python exception and releases it. */
static void raise_status(OrtStatus* status) {
  PyObject* error = PyObject_CallFunction(state.status_error, "is", (int)status->code, status->message);
  ephost_api.ReleaseStatus(status);
  if (!error) return;
  PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_DECREF(error);
}

/* Turns the exception that is set into a status and clears it. `prefix` may be NULL. */
static OrtStatus* status_from_exception(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* code_object = value ? PyObject_GetAttrString(value, "code") : NULL;
  long code = code_object && PyLong_Check(code_object) ? PyLong_AsLong(code_object) : ORT_FAIL;
  PyErr_Clear();
  PyObject* text = value ? PyObject_Str(value) : NULL;
  const char* message = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  PyObject* type_name = type ? PyObject_GetAttrString(type, "__name__") : NULL;
  const char* name = type_name ? PyUnicode_AsUTF8AndSize(type_name, NULL) : NULL;
  if (code <= ORT_OK || code > ORT_NOT_FOUND) code = ORT_FAIL;
  OrtStatus* status = code_object
                          ? status_new((OrtErrorCode)code, "%s", message ? message : "unknown error")
                          : status_new(ORT_FAIL, "%s: %s", name ? name : "exception", message ? message : "");
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

static void copy_bytes(void* to, const void* from, size_t count) {
  if (count < MANY_BYTES) {
    if (count) memcpy(to, from, count);
    return;
  }
  Py_BEGIN_ALLOW_THREADS
  memcpy(to, from, count);
  Py_END_ALLOW_THREADS
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

static PyObject* strings_to_array(const OrtValue* value) {
  npy_intp dims[NPY_MAXDIMS > 32 ? 32 : NPY_MAXDIMS];
  for (size_t i = 0; i < value->rank; ++i) dims[i] = (npy_intp)value->dims[i];
  Py_INCREF(state.object_dtype);
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr*)state.object_dtype, (int)value->rank,
                                         dims, NULL, NULL, 0, NULL);
  if (!array) return NULL;
  PyObject** items = PyArray_DATA((PyArrayObject*)array);
  const StringElement* strings = value->data;
  for (size_t i = 0; i < value->element_count; ++i) {
    const char* text = strings[i].text ? strings[i].text : "";
    PyObject* item = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strings[i].length, "surrogateescape");
    if (!item) {
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

/* A new array of the value's shape; with `data` over that memory, kept alive by `base` (a reference is taken
 * over). */
static PyObject* new_array(const OrtValue* value, void* data, PyObject* base, bool writable) {
  npy_intp dims[32];
  if (value->rank > 32) {
    Py_XDECREF(base);
    PyErr_Format(PyExc_ValueError, "a tensor of rank %zu has no numpy array", value->rank);
    return NULL;
  }
  for (size_t i = 0; i < value->rank; ++i) dims[i] = (npy_intp)value->dims[i];
  int type = (int)value->element_type;
  PyArray_Descr* dtype = type > 0 && type < ELEMENT_TYPES ? state.dtypes[type] : NULL;
  if (!dtype) {
    Py_XDECREF(base);
    PyErr_Format(PyExc_TypeError, "tensors of element type %d have no numpy dtype", type);
    return NULL;
  }
  Py_INCREF((PyObject*)dtype);
  PyObject* array =
      PyArray_NewFromDescr(&PyArray_Type, dtype, (int)value->rank, dims, NULL, data,
                           data && writable ? NPY_ARRAY_CARRAY : (data ? NPY_ARRAY_CARRAY_RO : 0), NULL);
  if (!array) {
    Py_XDECREF(base);
    return NULL;
  }
  if (base && PyArray_SetBaseObject((PyArrayObject*)array, base) < 0) {
    Py_DECREF(array);
    return NULL;
  }
  return array;
}

typedef enum Ownership {
  SHARE_BUFFER, /* the array keeps the value's buffer alive */
  VIEW,         /* the array is valid while the run lasts: for the fallback's inputs */
  COPY,
} Ownership;

static PyObject* value_to_python(const OrtValue* value, Ownership ownership);

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
    if (array && value->element_count) {
      uint8_t* elements = PyArray_DATA((PyArrayObject*)array);
      Py_BEGIN_ALLOW_THREADS
      unpack(elements, value->data, value->element_count, (unsigned)bits, signed_packed(value->element_type));
      Py_END_ALLOW_THREADS
    }
    return array;
  }
  if (ownership == COPY || value->nbytes == 0 || (ownership == SHARE_BUFFER && !value->buffer)) {
    PyObject* array = new_array(value, NULL, NULL, true);
    if (array) copy_bytes(PyArray_DATA((PyArrayObject*)array), value->data, value->nbytes);
    return array;
  }
  PyObject* base = NULL;
  if (value->buffer) {
    base = PyCapsule_New(value->buffer, BUFFER_CAPSULE, capsule_drop_buffer);
    if (!base) return NULL;
    buffer_retain(value->buffer);
  }
  return new_array(value, value->data, base, ownership == SHARE_BUFFER);
}

static PyObject* value_to_python(const OrtValue* value, Ownership ownership) {
  switch (value->type) {
    case ONNX_TYPE_TENSOR:
      return tensor_to_python(value, ownership);
    case ONNX_TYPE_SEQUENCE: {
      PyObject* list = PyList_New((Py_ssize_t)value->item_count);
      for (size_t i = 0; list && i < value->item_count; ++i) {
        PyObject* item = value_to_python(value->items[i], ownership == SHARE_BUFFER ? COPY : ownership);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
          Py_DECREF(list);
          return NULL;
        }
      }
      return list;
    }
    case ONNX_TYPE_MAP: {
      PyObject* dict = NULL;
      PyObject* keys = value_to_python(value->items[0], COPY);
      PyObject* values = keys ? value_to_python(value->items[1], COPY) : NULL;
      PyObject* key_list = values ? PyObject_CallMethod(keys, "tolist", NULL) : NULL;
      PyObject* value_list = key_list ? PyObject_CallMethod(values, "tolist", NULL) : NULL;
      if (value_list) dict = PyDict_New();
      for (Py_ssize_t i = 0; dict && i < PyList_Size(key_list); ++i) {
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
  if (atomic_load(&finalizing)) return; /* the interpreter is going: its memory goes with it */
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject*)buffer->context);
  PyGILState_Release(gil);
}

static ONNXTensorElementDataType element_type_of(PyArrayObject* array) {
  int number = PyArray_TYPE(array);
  for (int type = 1; type < ELEMENT_TYPES; ++type) {
    if (state.dtypes[type] && state.type_numbers[type] == number) return (ONNXTensorElementDataType)type;
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
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  }
}

#define MAX_RANK 32

/* Raises InvalidArgument for an array of more dimensions than a tensor here may have. */
static int check_rank(PyArrayObject* array) {
  int rank = PyArray_NDIM(array);
  if (rank <= MAX_RANK) return 0;
  raise_status(status_new(ORT_INVALID_ARGUMENT, "an array of rank %d makes no tensor: the highest rank is %d",
                          rank, MAX_RANK));
  return -1;
}

static int strings_from_array(PyObject* object, OrtValue* value) {
  PyArrayObject* array =
      (PyArrayObject*)PyArray_FROMANY(object, NPY_OBJECT, 0, 0, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_FORCECAST);
  if (!array) return -1;
  int result = -1;
  size_t count = (size_t)PyArray_SIZE(array);
  int64_t dims[MAX_RANK];
  int rank = PyArray_NDIM(array);
  for (int i = 0; i < rank; ++i) dims[i] = PyArray_DIM(array, i);
  OrtValue* strings = NULL;
  OrtStatus* status = ephost_api.CreateTensorAsOrtValue(ephost_cpu_allocator(), dims, (size_t)rank,
                                                        ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &strings);
  PyObject** items = PyArray_DATA(array);
  for (size_t i = 0; !status && i < count; ++i) {
    PyObject* text = PyUnicode_Check(items[i])
                         ? PyUnicode_AsEncodedString(items[i], "utf-8", "surrogateescape")
                     : PyBytes_Check(items[i]) ? Py_NewRef(items[i])
                                               : NULL;
    if (!text) {
      if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "element %zu of a tensor of strings is no str", i);
      goto done;
    }
    char *bytes = NULL, *target = NULL;
    Py_ssize_t length = 0;
    PyBytes_AsStringAndSize(text, &bytes, &length);
    status = ephost_api.GetResizedStringTensorElementBuffer(strings, i, (size_t)length, &target);
    if (!status && length) memcpy(target, bytes, (size_t)length);
    Py_DECREF(text);
    rest_after(i);
  }
  if (status) {
    raise_status(status);
    goto done;
  }
  value_move(value, strings);
  result = 0;
done:
  if (strings) ephost_api.ReleaseValue(strings);
  Py_DECREF(array);
  return result;
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
    if (!plain) return -1;
  }
  int64_t dims[MAX_RANK];
  int rank = PyArray_NDIM(plain);
  for (int i = 0; i < rank; ++i) dims[i] = PyArray_DIM(plain, i);
  size_t nbytes = 0, bits = element_type_bits(type);
  Buffer* buffer = NULL;
  if (tensor_nbytes(type, dims, (size_t)rank, NULL, &nbytes)) {
    if (bits < 8) {
      buffer = buffer_from_cpu(nbytes);
      if (buffer) {
        const uint8_t* elements = PyArray_DATA(plain);
        size_t count = (size_t)PyArray_SIZE(plain);
        Py_BEGIN_ALLOW_THREADS
        pack(buffer->data, elements, count, nbytes, (unsigned)bits);
        Py_END_ALLOW_THREADS
      }
    } else {
      buffer = buffer_adopt(PyArray_DATA(plain), nbytes, buffer_drop_object, plain);
      if (buffer) {
        Py_INCREF((PyObject*)plain);
        buffer->is_misaligned = !PyArray_ISALIGNED(plain);
      }
    }
  }
  Py_DECREF((PyObject*)plain);
  if (!buffer || !value_init_tensor(value, type, dims, (size_t)rank, buffer, NULL, &ephost_cpu_memory_info)) {
    buffer_release(buffer);
    PyErr_NoMemory();
    return -1;
  }
  return 0;
}

/* The native value behind an ephost.OrtValue, which keeps its address in `_address`; NULL for other objects.
 */
static const OrtValue* wrapped_value(PyObject* object) {
  if (Py_TYPE(object) != state.value_type &&
      (!state.value_type || !PyType_IsSubtype(Py_TYPE(object), state.value_type))) {
    return NULL;
  }
  PyObject* address = PyObject_GetAttr(object, state.address_name);
  if (!address) {
    PyErr_Clear();
    return NULL;
  }
  const OrtValue* value = PyLong_Check(address) ? PyLong_AsVoidPtr(address) : NULL;
  Py_DECREF(address);
  if (PyErr_Occurred()) PyErr_Clear();
  return value;
}

static int value_from_python(PyObject* object, OrtValue* value);

static int value_from_list(PyObject* list, OrtValue* value) {
  Py_ssize_t count = PySequence_Size(list);
  if (count < 0) return -1;
  OrtValue** items = host_calloc(count ? (size_t)count : 1, sizeof *items);
  if (!items) {
    PyErr_NoMemory();
    return -1;
  }
  Py_ssize_t done = 0;
  for (; done < count; ++done) {
    PyObject* item = PySequence_GetItem(list, done);
    items[done] = item ? value_new() : NULL;
    int failed = !items[done] || value_from_python(item, items[done]) < 0;
    Py_XDECREF(item);
    if (failed) {
      if (!PyErr_Occurred()) PyErr_NoMemory();
      for (Py_ssize_t i = 0; i <= done; ++i) {
        if (items[i]) ephost_api.ReleaseValue(items[i]);
      }
      host_free(items);
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
  PyObject* key_array = keys ? PyArray_FROM_O(keys) : NULL;
  PyObject* value_array = values ? PyArray_FROM_O(values) : NULL;
  OrtValue** items = host_calloc(2, sizeof *items);
  int result = -1;
  if (key_array && value_array && items) {
    items[0] = value_new();
    items[1] = value_new();
    if (items[0] && items[1] && value_from_python(key_array, items[0]) == 0 &&
        value_from_python(value_array, items[1]) == 0) {
      value->type = ONNX_TYPE_MAP;
      value->items = items;
      value->item_count = 2;
      items = NULL;
      result = 0;
    }
  }
  if (result < 0 && !PyErr_Occurred()) PyErr_NoMemory();
  for (int i = 0; items && i < 2; ++i) {
    if (items[i]) ephost_api.ReleaseValue(items[i]);
  }
  host_free(items);
  Py_XDECREF(keys);
  Py_XDECREF(values);
  Py_XDECREF(key_array);
  Py_XDECREF(value_array);
  return result;
}

static int value_from_python(PyObject* object, OrtValue* value) {
  if (PyArray_Check(object)) return value_from_array((PyArrayObject*)object, value);
  if (object == Py_None) {
    value->type = ONNX_TYPE_OPTIONAL;
    return 0;
  }
  if (PyList_Check(object) || PyTuple_Check(object)) return value_from_list(object, value);
  if (PyDict_Check(object)) return value_from_dict(object, value);
  const OrtValue* wrapped = wrapped_value(object);
  if (wrapped) {
    if (value_share(value, wrapped)) return 0;
    PyErr_NoMemory();
    return -1;
  }
  PyObject* array = PyArray_FROM_O(object);
  if (!array) return -1;
  int result = value_from_array((PyArrayObject*)array, value);
  Py_DECREF(array);
  return result;
}

/* ---- the reference fallback ---------------------------------------------------------------------------- */

/* Whether the value's memory lies inside another one's. */
static bool lies_inside(const OrtValue* value, const OrtValue* other) {
  if (value->type != ONNX_TYPE_TENSOR || other->type != ONNX_TYPE_TENSOR || !value->nbytes || !other->nbytes)
    return false;
  const char *data = value->data, *begin = other->data;
  return data >= begin && data < begin + other->nbytes;
}

/* Puts what a reference operator returned into its slot. An array that is a view of one of the step's inputs
 * must not outlive that input's memory: it is copied, unless both can share the input's buffer. */
static int store_output(Frame* frame, const Step* step, size_t index, PyObject* object) {
  int32_t slot = step->outputs[index];
  if (slot < 0) return 0;
  OrtValue made = {0};
  if (value_from_python(object, &made) < 0) return -1;
  for (size_t i = 0; i < step->input_count; ++i) {
    if (step->inputs[i] < 0) continue;
    const OrtValue* input = frame->values[step->inputs[i]];
    if (!lies_inside(&made, input)) continue;
    Buffer* buffer = NULL;
    if (input->buffer && input->data == made.data && input->nbytes == made.nbytes &&
        input == &frame->storage[step->inputs[i]]) {
      buffer = input->buffer;
      buffer_retain(buffer);
    } else {
      buffer = buffer_from_cpu(made.nbytes);
      if (buffer) copy_bytes(buffer->data, made.data, made.nbytes);
    }
    OrtValue own = {0};
    if (!buffer ||
        !value_init_tensor(&own, made.element_type, made.dims, made.rank, buffer, NULL, made.memory_info)) {
      buffer_release(buffer);
      value_clear(&made);
      PyErr_NoMemory();
      return -1;
    }
    value_clear(&made);
    value_move(&made, &own);
    break;
  }
  OrtValue* target = &frame->storage[slot];
  uint8_t preallocated = frame->preallocated[slot];
  if (preallocated & PREALLOCATED_BOUND) {
    bool fits = made.type == ONNX_TYPE_TENSOR && made.element_type == target->element_type &&
                made.rank == target->rank && made.nbytes == target->nbytes &&
                (made.rank == 0 || memcmp(made.dims, target->dims, made.rank * sizeof *made.dims) == 0);
    if (fits) copy_bytes(target->data, made.data, made.nbytes);
    value_clear(&made);
    if (!fits) {
      PyErr_Format(PyExc_ValueError, "output %zu has another type or shape than the value bound to it",
                   index);
      return -1;
    }
    frame->preallocated[slot] |= PREALLOCATED_GIVEN;
    return 0;
  }
  frame->preallocated[slot] = 0;
  value_clear(target);
  value_move(target, &made);
  return 0;
}

static OrtStatus* python_step(const Step* step, Frame* frame) {
  if (atomic_load(&finalizing)) return status_new(ORT_FAIL, "the interpreter is shutting down");
  PyGILState_STATE gil = PyGILState_Ensure();
  const OrtRunOptions* outer_options = inherited_options;
  inherited_options = frame->options;
  OrtStatus* status = NULL;
  PyObject* results = NULL;
  PyObject* inputs = PyList_New((Py_ssize_t)step->input_count);
  for (size_t i = 0; inputs && i < step->input_count; ++i) {
    PyObject* item;
    if (step->inputs[i] < 0) {
      item = Py_NewRef(Py_None);
    } else {
      item = value_to_python(frame->values[step->inputs[i]], VIEW);
    }
    if (!item || PyList_SetItem(inputs, (Py_ssize_t)i, item) < 0) goto done;
  }
  if (!inputs) goto done;
  results = PyObject_CallFunctionObjArgs(step->object, inputs, NULL);
  if (!results) goto done;
  if (!PyList_Check(results) || (size_t)PyList_Size(results) < step->output_count) {
    PyErr_Format(PyExc_RuntimeError, "the operator gave no list of %zu values", step->output_count);
    goto done;
  }
  for (size_t i = 0; i < step->output_count; ++i) {
    if (store_output(frame, step, i, PyList_GetItem(results, (Py_ssize_t)i)) < 0) goto done;
  }
done:
  if (PyErr_Occurred()) status = status_from_exception();
  Py_XDECREF(inputs);
  Py_XDECREF(results);
  inherited_options = outer_options;
  PyGILState_Release(gil);
  return status;
}

static void python_release(void* object) {
  if (atomic_load(&finalizing)) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject*)object);
  PyGILState_Release(gil);
}

/* ---- Runner: one session's plan, ready to be called ---------------------------------------------------- */

typedef struct InputSpec {
  PyObject* name;
  int type_number; /* numpy's; -1: not a plain tensor, always the slow way */
  int rank;        /* -1: not known */
  int64_t* dims;   /* -1: any */
  ONNXTensorElementDataType element_type;
  bool required;
} InputSpec;

typedef struct Runner {
  PyObject_HEAD
  Plan* plan;             /* NULL once the session is closed */
  PyObject* owner;        /* keeps the plan alive: the session's native part */
  PyObject* convert;      /* callable(index, object) -> array or OrtValue; raises what is wrong with a feed */
  PyObject* feed_error;   /* callable(feed) -> exception, for missing and unknown names */
  PyObject* output_names; /* tuple */
  PyObject* output_index; /* dict: name -> index */
  InputSpec* inputs;
  size_t input_count;
  size_t required_count;
  uint64_t serial; /* no other runner of this process has it */
} Runner;

static void input_spec_clear(InputSpec* spec) {
  Py_CLEAR(spec->name);
  host_free(spec->dims);
}

static void runner_dealloc(PyObject* self) {
  Runner* runner = (Runner*)self;
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  for (size_t i = 0; i < runner->input_count; ++i) input_spec_clear(&runner->inputs[i]);
  host_free(runner->inputs);
  Py_CLEAR(runner->owner);
  Py_CLEAR(runner->convert);
  Py_CLEAR(runner->feed_error);
  Py_CLEAR(runner->output_names);
  Py_CLEAR(runner->output_index);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF((PyObject*)type);
}

static int runner_traverse(PyObject* self, visitproc visit, void* arg) {
  Runner* runner = (Runner*)self;
  Py_VISIT(runner->owner);
  Py_VISIT(runner->convert);
  Py_VISIT(runner->feed_error);
  Py_VISIT((PyObject*)Py_TYPE(self));
  return 0;
}

static int runner_clear(PyObject* self) {
  Runner* runner = (Runner*)self;
  Py_CLEAR(runner->owner);
  Py_CLEAR(runner->convert);
  Py_CLEAR(runner->feed_error);
  return 0;
}

/* Runner(plan, owner, convert, feed_error, inputs, output_names)
 * inputs: tuple of (name, element_type, dims tuple with -1 for any, or None, required) */
static PyObject* runner_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *plan, *owner, *convert, *feed_error, *inputs, *output_names;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "OOOOO!O!", &plan, &owner, &convert, &feed_error, &PyTuple_Type, &inputs,
                        &PyTuple_Type, &output_names)) {
    return NULL;
  }
  Plan* pointer = PyLong_AsVoidPtr(plan);
  if (!pointer) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no plan");
    return NULL;
  }
  if ((size_t)PyTuple_Size(inputs) != pointer->input_count ||
      (size_t)PyTuple_Size(output_names) != pointer->output_count) {
    PyErr_SetString(PyExc_ValueError, "the plan has other inputs or outputs");
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Runner* runner = (Runner*)allocate(type, 0);
  if (!runner) return NULL;
  static uint64_t last_serial; /* under the GIL */
  runner->serial = ++last_serial;
  runner->plan = pointer;
  runner->owner = Py_NewRef(owner);
  runner->convert = Py_NewRef(convert);
  runner->feed_error = Py_NewRef(feed_error);
  runner->output_names = Py_NewRef(output_names);
  runner->output_index = PyDict_New();
  Py_ssize_t input_count = PyTuple_Size(inputs);
  runner->inputs = host_calloc(input_count ? (size_t)input_count : 1, sizeof *runner->inputs);
  if (!runner->inputs || !runner->output_index) goto failed;
  for (Py_ssize_t i = 0; i < PyTuple_Size(output_names); ++i) {
    PyObject* index = PyLong_FromSsize_t(i);
    int set = index ? PyDict_SetItem(runner->output_index, PyTuple_GetItem(output_names, i), index) : -1;
    Py_XDECREF(index);
    if (set < 0) goto failed;
  }
  for (Py_ssize_t i = 0; i < input_count; ++i) {
    InputSpec* spec = &runner->inputs[i];
    PyObject *name, *dims;
    int element_type, required;
    if (!PyArg_ParseTuple(PyTuple_GetItem(inputs, i), "OiOp", &name, &element_type, &dims, &required))
      goto failed;
    spec->name = Py_NewRef(name);
    runner->input_count = (size_t)i + 1;
    spec->required = required != 0;
    if (spec->required) ++runner->required_count;
    spec->element_type = (ONNXTensorElementDataType)element_type;
    bool plain = element_type > 0 && element_type < ELEMENT_TYPES && state.dtypes[element_type] &&
                 element_type_bits(spec->element_type) >= 8;
    spec->type_number = plain ? state.type_numbers[element_type] : -1;
    spec->rank = -1;
    if (dims != Py_None) {
      Py_ssize_t rank = PyTuple_Size(dims);
      if (rank < 0) goto failed;
      spec->dims = host_malloc((rank ? (size_t)rank : 1) * sizeof *spec->dims);
      if (!spec->dims) goto failed;
      spec->rank = (int)rank;
      for (Py_ssize_t k = 0; k < rank; ++k) {
        spec->dims[k] = PyLong_AsLongLong(PyTuple_GetItem(dims, k));
        if (PyErr_Occurred()) goto failed;
      }
    }
  }
  return (PyObject*)runner;
failed:
  if (!PyErr_Occurred()) PyErr_NoMemory();
  Py_DECREF((PyObject*)runner);
  return NULL;
}

/* Whether the value is a tensor of numbers such as the input takes. */
static bool tensor_fits(const InputSpec* spec, const OrtValue* value) {
  if (value->type != ONNX_TYPE_TENSOR || spec->type_number < 0 || value->element_type != spec->element_type) {
    return false;
  }
  if (spec->rank < 0) return true;
  if (value->rank != (size_t)spec->rank) return false;
  for (size_t i = 0; i < value->rank; ++i) {
    if (spec->dims[i] >= 0 && spec->dims[i] != value->dims[i]) return false;
  }
  return true;
}

/* Whether the value is in the memory that the slot is in; no slot: false. */
static bool is_memory_of(const Plan* plan, int32_t slot, const OrtValue* value) {
  const OrtMemoryInfo* memory = slot < 0 ? NULL : plan->slots[slot].memory;
  return memory && memory_device_equal(&memory->device, &value->memory_info->device);
}

/* The feed for one input as Python makes it fit: on the CPU, but for what is no OrtValue and lies on a
 * device.
 */
static PyObject* converted(Runner* runner, size_t index, PyObject* object) {
  return PyObject_CallFunction(runner->convert, "nO", (Py_ssize_t)index, object);
}

/* Makes the input a tensor over the array's memory when it is just the array that the model wants. */
static bool bind_array(const InputSpec* spec, OrtValue* value, PyArrayObject* array) {
  int rank = PyArray_NDIM(array);
  if (PyArray_TYPE(array) != spec->type_number || !PyArray_IS_C_CONTIGUOUS(array) ||
      !PyArray_ISALIGNED(array) || !PyArray_ISNOTSWAPPED(array) || rank > MAX_RANK ||
      (spec->rank >= 0 && spec->rank != rank)) {
    return false;
  }
  int64_t dims[MAX_RANK];
  for (int i = 0; i < rank; ++i) {
    dims[i] = PyArray_DIM(array, i);
    if (spec->rank >= 0 && spec->dims[i] >= 0 && spec->dims[i] != dims[i]) return false;
  }
  return value_init_tensor(value, spec->element_type, dims, (size_t)rank, NULL, PyArray_DATA(array),
                           &ephost_cpu_memory_info);
}

/* The same with a native value: on the CPU, or where the device that reads the input has it. */
static bool bind_value(Runner* runner, Frame* frame, size_t index, const OrtValue* given) {
  if (!tensor_fits(&runner->inputs[index], given)) return false;
  if (memory_info_is_cpu(given->memory_info)) {
    return value_init_tensor(&frame->storage[runner->plan->inputs[index]], given->element_type, given->dims,
                             given->rank, NULL, given->data, given->memory_info);
  }
  int32_t slot = runner->plan->device_inputs[index];
  if (!is_memory_of(runner->plan, slot, given) || !value_share(&frame->storage[slot], given)) return false;
  frame->given[index] = true;
  ++frame->given_count;
  return true;
}

/* The feed for one input as Python makes it fit, on the CPU. */
static int bind_converted(Runner* runner, Frame* frame, size_t index, PyObject* object) {
  PyObject* fitting = converted(runner, index, object);
  const OrtValue* given = fitting ? wrapped_value(fitting) : NULL;
  if (given && given->type == ONNX_TYPE_TENSOR && !memory_info_is_cpu(given->memory_info)) {
    if (bind_value(runner, frame, index, given)) {
      frame->held[index] = fitting;
      return 0;
    }
    PyObject* copy = converted(runner, index, fitting);
    Py_DECREF(fitting);
    fitting = copy;
  }
  if (!fitting) return -1;
  int result = value_from_python(fitting, &frame->storage[runner->plan->inputs[index]]);
  Py_DECREF(fitting);
  return result;
}

/* The feed for one input, without a copy and without a new object where it is just the array that the model
 * wants. */
static int bind_feed(Runner* runner, Frame* frame, size_t index, PyObject* object) {
  size_t slot = (size_t)runner->plan->inputs[index];
  OrtValue* value = &frame->storage[slot];
  frame->values[slot] = value;
  const OrtValue* given = wrapped_value(object);
  if (given ? bind_value(runner, frame, index, given)
            : PyArray_Check(object) && bind_array(&runner->inputs[index], value, (PyArrayObject*)object)) {
    frame->held[index] = Py_NewRef(object); /* another thread may change the dict while the run lasts */
    return 0;
  }
  return bind_converted(runner, frame, index, object);
}

/* Raises what the names of a feed lack, or have too much. */
static void raise_feed_error(Runner* runner, PyObject* feed) {
  PyObject* error = PyObject_CallFunctionObjArgs(runner->feed_error, feed, NULL);
  if (error) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_XDECREF(error);
}

static int bind_dict(Runner* runner, Frame* frame, PyObject* feed) {
  Py_ssize_t found = 0;
  bool missing = false;
  for (size_t i = 0; i < runner->input_count; ++i) {
    PyObject* object = PyDict_GetItemWithError(feed, runner->inputs[i].name);
    if (object) {
      Py_INCREF(object); /* a conversion may let another thread change the dict */
      int result = bind_feed(runner, frame, i, object);
      Py_DECREF(object);
      if (result < 0) return -1;
      ++found;
    } else if (PyErr_Occurred()) {
      return -1;
    } else if (runner->inputs[i].required) {
      missing = true;
    }
  }
  if (missing || found != PyDict_Size(feed)) {
    raise_feed_error(runner, feed);
    return -1;
  }
  return 0;
}

static int bind_feeds(Runner* runner, Frame* frame, PyObject* feed) {
  if (PyDict_Check(feed)) return bind_dict(runner, frame, feed);
  if (!PyMapping_Check(feed) || !PyObject_HasAttrString(feed, "keys")) {
    PyErr_Format(PyExc_TypeError, "the input feed is a dict of name to value, not %R",
                 (PyObject*)Py_TYPE(feed));
    return -1;
  }
  PyObject* dict = PyObject_CallFunctionObjArgs((PyObject*)&PyDict_Type, feed, NULL);
  if (!dict) return -1;
  int result = bind_dict(runner, frame, dict);
  Py_DECREF(dict);
  return result;
}

/* An array for an output whose shape the graph declares, when it is small: the kernel writes into numpy's
 * memory. A new reference, or NULL (without an exception) when the output is not of that kind. */
static PyObject* small_output(Frame* frame, int32_t index) {
  const Slot* slot = &frame->plan->slots[index];
  int type = (int)slot->element_type;
  if (!slot->dims || slot->memory || frame->preallocated[index] || slot->constant || slot->rank > 32 ||
      type <= 0 || type >= ELEMENT_TYPES || !state.dtypes[type] ||
      element_type_bits(slot->element_type) < 8) {
    return NULL;
  }
  OrtValue* value = &frame->storage[index];
  size_t nbytes;
  if (value->type != ONNX_TYPE_UNKNOWN ||
      !tensor_nbytes(slot->element_type, slot->dims, slot->rank, NULL, &nbytes) || nbytes == 0 ||
      nbytes > SMALL_OUTPUT_BYTES) {
    return NULL;
  }
  npy_intp dims[32];
  for (size_t i = 0; i < slot->rank; ++i) dims[i] = (npy_intp)slot->dims[i];
  Py_INCREF((PyObject*)state.dtypes[type]);
  PyObject* array =
      PyArray_NewFromDescr(&PyArray_Type, state.dtypes[type], (int)slot->rank, dims, NULL, NULL, 0, NULL);
  if (!array) {
    PyErr_Clear();
    return NULL;
  }
  if (!value_init_tensor(value, slot->element_type, slot->dims, slot->rank, NULL,
                         PyArray_DATA((PyArrayObject*)array), &ephost_cpu_memory_info)) {
    Py_DECREF(array);
    return NULL;
  }
  frame->preallocated[index] = PREALLOCATED_GUESS;
  return array;
}

/* Finds out what the run of these outputs needs, and brings inputs that were given on a device to those
 * steps that read them on the CPU. -1: an exception is set. */
static int find_route(Runner* runner, Frame* frame, const int32_t* slots, size_t count) {
  const Plan* plan = runner->plan;
  if (!frame_fetch_only(frame, slots, count)) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; frame->given_count && i < plan->input_count; ++i) {
    if (frame->given[i] && frame->needed[plan->inputs[i]] &&
        bind_converted(runner, frame, i, frame->held[i]) < 0) {
      return -1;
    }
  }
  return 0;
}

/* Runs the frame for the outputs in these slots, some of which may be on a device. -1: an exception is set.
 */
static int execute(Runner* runner, Frame* frame, PyObject* options, const int32_t* slots, size_t count,
                   bool on_device) {
  const OrtRunOptions* run_options = runner->plan->is_body ? inherited_options : NULL;
  bool only = on_device || frame->given_count;
  if (options && options != Py_None) {
    run_options = PyLong_AsVoidPtr(options);
    if (PyErr_Occurred()) return -1;
    only = only || (run_options && atomic_load_explicit(&run_options->only_fetches, memory_order_relaxed));
  }
  if (only && find_route(runner, frame, slots, count) < 0) return -1;
  OrtStatus* status;
  Py_BEGIN_ALLOW_THREADS
  status = plan_execute(frame, run_options);
  Py_END_ALLOW_THREADS
  if (PyErr_Occurred()) {
    if (status) ephost_api.ReleaseStatus(status);
    return -1;
  }
  if (status) raise_status(status);
  return status ? -1 : 0;
}

/* Gives the frame back and lets go of the arrays that the run borrowed. */
static void finish(Frame* frame) {
  /* What was given on a device first: it may be the last that its owner waits for. */
  for (size_t i = 0; frame->given_count && i < frame->plan->input_count; ++i) {
    if (frame->given[i]) value_clear(&frame->storage[frame->plan->device_inputs[i]]);
  }
  for (size_t i = 0; i < frame->plan->input_count; ++i) {
    PyObject* object = frame->held[i];
    frame->held[i] = NULL;
    Py_XDECREF(object);
  }
  frame_release(frame);
}

static PyObject* fetch(Frame* frame, int32_t slot) {
  return value_to_python(frame->values[slot], frame_borrows(frame, slot) ? COPY : SHARE_BUFFER);
}

#define STACK_OUTPUTS 16

/* The index of the output with this name, -1 with an exception set when there is none. */
static Py_ssize_t output_index(Runner* runner, PyObject* name) {
  PyObject* index = PyDict_GetItemWithError(runner->output_index, name);
  if (index) return PyLong_AsSsize_t(index);
  if (!PyErr_Occurred()) {
    PyObject* error = PyObject_CallFunction(runner->feed_error, "O", name);
    if (error) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
    Py_XDECREF(error);
  }
  return -1;
}

/* The slots of the wanted outputs; NULL names: all. `slots` has room for `count`. */
static int output_slots(Runner* runner, PyObject* names, Py_ssize_t count, int32_t* slots) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!names) {
      slots[i] = runner->plan->outputs[i];
      continue;
    }
    PyObject* name = PySequence_GetItem(names, i);
    if (!name) return -1;
    Py_ssize_t index = output_index(runner, name);
    Py_DECREF(name);
    if (index < 0) return -1;
    slots[i] = runner->plan->outputs[index];
  }
  return 0;
}

static bool is_closed(const Runner* runner) {
  if (runner->plan) return false;
  raise_status(status_new(ORT_FAIL, "the session is closed"));
  return true;
}

/* run(output_names or None, feed, run_options address or None) -> list */
static PyObject* runner_run(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  Runner* runner = (Runner*)self;
  if (nargs < 2 || nargs > 3) {
    PyErr_SetString(PyExc_TypeError, "run takes output names, a feed and run options");
    return NULL;
  }
  PyObject* names = args[0] == Py_None ? NULL : args[0];
  if (names && PyUnicode_Check(names)) {
    PyErr_Format(PyExc_TypeError, "output names are a list of str, or None for all, not the str %R", names);
    return NULL;
  }
  Py_ssize_t count = names ? PySequence_Size(names) : 0;
  if (count < 0 || is_closed(runner)) return NULL;
  if (count == 0) { /* as in onnxruntime, an empty list asks for all of them */
    names = NULL;
    count = (Py_ssize_t)runner->plan->output_count;
  }
  int32_t stack_slots[STACK_OUTPUTS];
  PyObject* stack_arrays[STACK_OUTPUTS];
  int32_t* slots = stack_slots;
  PyObject** arrays = stack_arrays;
  PyObject* list = NULL;
  Frame* frame = NULL;
  if (count > STACK_OUTPUTS) {
    slots = host_malloc((size_t)count * sizeof *slots);
    arrays = host_malloc((size_t)count * sizeof *arrays);
  }
  if (!slots || !arrays || !(frame = frame_acquire(runner->plan))) {
    PyErr_NoMemory();
    count = 0;
    goto done;
  }
  for (Py_ssize_t i = 0; i < count; ++i) arrays[i] = NULL;
  if (output_slots(runner, names, count, slots) < 0 || bind_feeds(runner, frame, args[1]) < 0) goto done;
  for (Py_ssize_t i = 0; i < count; ++i) arrays[i] = small_output(frame, slots[i]);
  if (execute(runner, frame, nargs > 2 ? args[2] : NULL, slots, (size_t)count, false) < 0) goto done;
  /* What an EP replays has no results but in the memory that the caller bound for the run it recorded. */
  list = PyList_New(frame->replayed ? 0 : count);
  for (Py_ssize_t i = 0; list && !frame->replayed && i < count; ++i) {
    PyObject* item;
    if (arrays[i] && frame->preallocated[slots[i]]) {
      item = arrays[i];
      arrays[i] = NULL;
    } else {
      item = fetch(frame, slots[i]);
    }
    if (!item || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
  }
done:
  if (arrays) {
    for (Py_ssize_t i = 0; i < count; ++i) Py_XDECREF(arrays[i]);
  }
  if (frame) finish(frame);
  if (slots != stack_slots) host_free(slots);
  if (arrays != stack_arrays) host_free(arrays);
  return list;
}

/* ---- Binding: what a runner's inputs and outputs are bound to, for any number of runs ------------------ */

typedef struct BoundInput {
  size_t index;          /* of the runner's inputs */
  PyObject* object;      /* what is bound */
  const OrtValue* value; /* of `object`, when runs can read it where it is; NULL: each run binds it anew */
} BoundInput;

typedef struct BoundOutput {
  int32_t slot;     /* where a run makes it */
  PyObject* object; /* what is bound, or NULL */
  OrtValue* target; /* of `object`, when runs write there; NULL: they make a value */
} BoundOutput;

/* Nothing of it changes once it is made, so that threads may share it. It keeps what is bound alive, but not
 * the runner: a session that is opened anew frees what it had. */
typedef struct Binding {
  PyObject_HEAD
  uint64_t serial; /* of the runner that it was made for */
  BoundInput* inputs;
  size_t input_count;
  BoundOutput* outputs;
  int32_t* slots; /* of the outputs */
  size_t output_count;
  bool on_device; /* an output stays on a device */
} Binding;

static PyTypeObject* binding_type;

static int binding_clear(PyObject* self) {
  Binding* binding = (Binding*)self;
  for (size_t i = 0; i < binding->input_count; ++i) Py_CLEAR(binding->inputs[i].object);
  for (size_t i = 0; i < binding->output_count; ++i) Py_CLEAR(binding->outputs[i].object);
  binding->input_count = binding->output_count = 0; /* the addresses in it went with the objects */
  return 0;
}

static int binding_traverse(PyObject* self, visitproc visit, void* arg) {
  Binding* binding = (Binding*)self;
  for (size_t i = 0; i < binding->input_count; ++i) Py_VISIT(binding->inputs[i].object);
  for (size_t i = 0; i < binding->output_count; ++i) Py_VISIT(binding->outputs[i].object);
  Py_VISIT((PyObject*)Py_TYPE(self));
  return 0;
}

static void binding_dealloc(PyObject* self) {
  Binding* binding = (Binding*)self;
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  binding_clear(self);
  host_free(binding->inputs);
  host_free(binding->outputs);
  host_free(binding->slots);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF((PyObject*)type);
}

/* Puts what is fed for the inputs into the binding. */
static int bind_inputs(Runner* runner, Binding* binding, PyObject* feed) {
  bool missing = false;
  for (size_t i = 0; i < runner->input_count; ++i) {
    PyObject* object = PyDict_GetItemWithError(feed, runner->inputs[i].name);
    if (!object) {
      if (PyErr_Occurred()) return -1;
      missing = missing || runner->inputs[i].required;
      continue;
    }
    const OrtValue* value = wrapped_value(object);
    bool as_it_is = value && tensor_fits(&runner->inputs[i], value) && memory_info_is_cpu(value->memory_info);
    binding->inputs[binding->input_count++] =
        (BoundInput){.index = i, .object = Py_NewRef(object), .value = as_it_is ? value : NULL};
  }
  if (!missing && binding->input_count == (size_t)PyDict_Size(feed)) return 0;
  raise_feed_error(runner, feed);
  return -1;
}

/* Puts one wanted output into the binding: (name, an OrtValue to write to, None for a new value on the CPU,
 * True for one where it is made). */
static int bind_output(Runner* runner, Binding* binding, PyObject* pair) {
  const Plan* plan = runner->plan;
  PyObject *name, *object;
  if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "OO", &name, &object)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an output is a pair of its name and a target");
    return -1;
  }
  Py_ssize_t index = output_index(runner, name);
  if (index < 0) return -1;
  int32_t device_slot = plan->device_outputs[index];
  BoundOutput output = {.slot = plan->outputs[index]};
  if (object == Py_True) {
    if (device_slot >= 0) output.slot = device_slot;
  } else if (object != Py_None) {
    OrtValue* target = (OrtValue*)(uintptr_t)wrapped_value(object);
    if (!target) {
      PyErr_Format(PyExc_TypeError, "an output is bound to an OrtValue, not to %R", object);
      return -1;
    }
    /* A tensor of another device than where the output is made is copied to afterwards, as is all that is no
     * tensor of numbers; what is of another type is refused then. */
    bool is_numbers =
        target->type == ONNX_TYPE_TENSOR && target->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    bool is_cpu = !is_numbers || memory_info_is_cpu(target->memory_info);
    if (!is_cpu && is_memory_of(plan, device_slot, target)) {
      output.slot = device_slot;
      is_cpu = true;
    }
    ONNXTensorElementDataType made = plan->slots[output.slot].element_type;
    bool fits = made == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED || made == target->element_type;
    if (is_numbers && is_cpu && fits && !plan->slots[output.slot].constant) output.target = target;
    output.object = Py_NewRef(object);
  }
  binding->on_device = binding->on_device || output.slot != plan->outputs[index];
  binding->slots[binding->output_count] = output.slot;
  binding->outputs[binding->output_count++] = output;
  return 0;
}

/* bind(feed: dict name -> object, outputs: list of pairs) -> Binding */
static PyObject* runner_bind(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  Runner* runner = (Runner*)self;
  if (nargs != 2 || !PyDict_Check(args[0]) || !PyList_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "bind takes a dict of inputs and a list of outputs");
    return NULL;
  }
  if (is_closed(runner)) return NULL;
  size_t count = (size_t)PyList_Size(args[1]);
  allocfunc allocate = (allocfunc)PyType_GetSlot(binding_type, Py_tp_alloc);
  Binding* binding = (Binding*)allocate(binding_type, 0);
  if (!binding) return NULL;
  binding->serial = runner->serial;
  binding->inputs = host_malloc((runner->input_count ? runner->input_count : 1) * sizeof *binding->inputs);
  binding->outputs = host_malloc((count ? count : 1) * sizeof *binding->outputs);
  binding->slots = host_malloc((count ? count : 1) * sizeof *binding->slots);
  if (!binding->inputs || !binding->outputs || !binding->slots) {
    PyErr_NoMemory();
    goto failed;
  }
  if (bind_inputs(runner, binding, args[0]) < 0) goto failed;
  for (size_t i = 0; i < count; ++i) {
    PyObject* pair = PyList_GetItem(args[1], (Py_ssize_t)i);
    if (!pair || bind_output(runner, binding, pair) < 0) goto failed;
  }
  return (PyObject*)binding;
failed:
  Py_DECREF((PyObject*)binding);
  return NULL;
}

/* made(binding) -> bool: whether this runner made it and can run it */
static PyObject* runner_made(PyObject* self, PyObject* object) {
  bool made = Py_TYPE(object) == binding_type && ((Binding*)object)->serial == ((Runner*)self)->serial;
  return PyBool_FromLong(made);
}

/* A new native value with what the run left in the slot, for the caller to own. */
static OrtValue* take_value(const Frame* frame, int32_t slot) {
  const OrtValue* source = frame->values[slot];
  OrtValue* value = value_new();
  if (!value) return NULL;
  bool taken;
  if (frame_borrows(frame, slot) && source->type == ONNX_TYPE_TENSOR && source->nbytes &&
      source->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING &&
      memory_info_is_cpu(source->memory_info)) {
    Buffer* buffer = buffer_from_cpu(source->nbytes);
    taken = buffer && value_init_tensor(value, source->element_type, source->dims, source->rank, buffer, NULL,
                                        &ephost_cpu_memory_info);
    if (taken) {
      copy_bytes(value->data, source->data, source->nbytes);
    } else {
      buffer_release(buffer);
    }
  } else {
    taken = value_share(value, source);
  }
  if (taken) return value;
  ephost_api.ReleaseValue(value);
  return NULL;
}

/* run_bound(binding, options) -> None when every output was written where it is bound, else the addresses of
 * new native values, 0 for those that were. The binding lives while its caller, who has it, is in here. */
static PyObject* runner_run_bound(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  Runner* runner = (Runner*)self;
  if (nargs != 2 || Py_TYPE(args[0]) != binding_type || ((Binding*)args[0])->serial != runner->serial) {
    PyErr_SetString(PyExc_TypeError, "run_bound takes a binding that the runner made, and run options");
    return NULL;
  }
  const Binding* binding = (const Binding*)args[0];
  if (is_closed(runner)) return NULL;
  PyObject* result = NULL;
  Frame* frame = frame_acquire(runner->plan);
  if (!frame) return PyErr_NoMemory();
  for (size_t i = 0; i < binding->input_count; ++i) {
    const BoundInput* input = &binding->inputs[i];
    if (input->value) {
      frame->values[runner->plan->inputs[input->index]] = (OrtValue*)(uintptr_t)input->value;
    } else if (bind_feed(runner, frame, input->index, input->object) < 0) {
      goto done;
    }
  }
  bool made = false; /* a value that is not written where the caller wants it */
  for (size_t i = 0; i < binding->output_count; ++i) {
    const BoundOutput* output = &binding->outputs[i];
    OrtValue* storage = &frame->storage[output->slot];
    if (!output->target || frame->values[output->slot] != storage || storage->type != ONNX_TYPE_UNKNOWN) {
      made = true; /* also when the output is an input as it is, or wanted twice */
      continue;
    }
    if (!value_share(storage, output->target)) {
      PyErr_NoMemory();
      goto done;
    }
    frame->preallocated[output->slot] = PREALLOCATED_BOUND;
  }
  if (execute(runner, frame, args[1], binding->slots, binding->output_count, binding->on_device) < 0) {
    goto done;
  }
  if (!made) {
    result = Py_NewRef(Py_None);
    goto done;
  }
  result = PyList_New(frame->replayed ? 0 : (Py_ssize_t)binding->output_count);
  for (size_t i = 0; result && !frame->replayed && i < binding->output_count; ++i) {
    const BoundOutput* output = &binding->outputs[i];
    OrtValue* value = NULL;
    if (!output->target || !(frame->preallocated[output->slot] & PREALLOCATED_BOUND) ||
        frame->storage[output->slot].data != output->target->data) {
      value = take_value(frame, output->slot);
      if (!value) {
        PyErr_NoMemory();
        Py_CLEAR(result);
        break;
      }
    }
    PyObject* address = PyLong_FromVoidPtr(value);
    if (!address || PyList_SetItem(result, (Py_ssize_t)i, address) < 0) Py_CLEAR(result);
  }
done:
  finish(frame);
  return result;
}

/* close() -> bool: from now on nobody runs the plan, which may then be freed; False while somebody does.
 * Holding the GIL, no run can be on its way in. */
static PyObject* runner_close(PyObject* self, PyObject* args) {
  Runner* runner = (Runner*)self;
  (void)args;
  if (runner->plan && ephost_plan_active_runs(runner->plan)) Py_RETURN_FALSE;
  runner->plan = NULL;
  Py_RETURN_TRUE;
}

static PyMethodDef runner_methods[] = {
    {"close", runner_close, METH_NOARGS,
     "close() -> bool\n\nEnds the session's runs; False while one is under way."},
    {"run", (PyCFunction)(void (*)(void))runner_run, METH_FASTCALL,
     "run(output_names, feed, run_options) -> list\n\nRuns the session once: arrays in, arrays out."},
    {"bind", (PyCFunction)(void (*)(void))runner_bind, METH_FASTCALL,
     "bind(feed, outputs) -> Binding\n\nWhat runs read and write, checked once."},
    {"made", runner_made, METH_O, "made(binding) -> bool\n\nWhether this runner can run it."},
    {"run_bound", (PyCFunction)(void (*)(void))runner_run_bound, METH_FASTCALL,
     "run_bound(binding, run_options) -> list or None\n\nRuns the session once: native values in and out."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot runner_slots[] = {
    {Py_tp_dealloc, (void*)runner_dealloc}, {Py_tp_traverse, (void*)runner_traverse},
    {Py_tp_clear, (void*)runner_clear},     {Py_tp_methods, runner_methods},
    {Py_tp_new, (void*)runner_new},         {0, NULL},
};

static PyType_Spec runner_spec = {
    .name = "ephost._call.Runner",
    .basicsize = sizeof(Runner),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = runner_slots,
};

static PyType_Slot binding_slots[] = {
    {Py_tp_dealloc, (void*)binding_dealloc},
    {Py_tp_traverse, (void*)binding_traverse},
    {Py_tp_clear, (void*)binding_clear},
    {0, NULL},
};

static PyType_Spec binding_spec = {
    .name = "ephost._call.Binding",
    .basicsize = sizeof(Binding),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = binding_slots,
};

/* ---- the module ---------------------------------------------------------------------------------------- */

/* setup(status_error, dtypes: dict element type -> dtype) */
static PyObject* call_setup(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *error, *dtypes;
  if (!PyArg_ParseTuple(args, "OO!", &error, &PyDict_Type, &dtypes)) return NULL;
  for (int type = 1; type < ELEMENT_TYPES; ++type) {
    PyObject* key = PyLong_FromLong(type);
    PyObject* dtype = key ? PyDict_GetItemWithError(dtypes, key) : NULL;
    Py_XDECREF(key);
    if (!dtype) {
      if (PyErr_Occurred()) return NULL;
      continue;
    }
    if (!PyArray_DescrCheck(dtype)) {
      PyErr_SetString(PyExc_TypeError, "setup takes numpy dtypes");
      return NULL;
    }
    Py_INCREF(dtype);
    Py_XDECREF((PyObject*)state.dtypes[type]);
    state.dtypes[type] = (PyArray_Descr*)dtype;
    state.type_numbers[type] = ((PyArray_Descr*)dtype)->type_num;
  }
  Py_INCREF(error);
  Py_XDECREF(state.status_error);
  state.status_error = error;
  Py_RETURN_NONE;
}

/* set_value_type(type): the class whose instances are native values */
static PyObject* call_set_value_type(PyObject* module, PyObject* type) {
  (void)module;
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "set_value_type takes a class");
    return NULL;
  }
  PyTypeObject* before = state.value_type;
  state.value_type = (PyTypeObject*)Py_NewRef(type);
  Py_XDECREF((PyObject*)before);
  Py_RETURN_NONE;
}

/* finalize(): from now on threads of plugins leave Python alone */
static PyObject* call_finalize(PyObject* module, PyObject* args) {
  (void)module;
  (void)args;
  atomic_store(&finalizing, true);
  Py_RETURN_NONE;
}

/* value_to_object(address) -> array, list, dict or None; shares the value's buffer */
static PyObject* call_value_to_object(PyObject* module, PyObject* address) {
  (void)module;
  const OrtValue* value = PyLong_AsVoidPtr(address);
  if (!value) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no value");
    return NULL;
  }
  return value_to_python(value, SHARE_BUFFER);
}

/* value_from_object(object) -> address of a new native value, to be released by ReleaseValue */
static PyObject* call_value_from_object(PyObject* module, PyObject* object) {
  (void)module;
  OrtValue* value = value_new();
  if (!value) return PyErr_NoMemory();
  if (value_from_python(object, value) < 0) {
    ephost_api.ReleaseValue(value);
    return NULL;
  }
  return PyLong_FromVoidPtr(value);
}

/* What a value's memory was before something else was to be kept with it. */
typedef struct Kept {
  Buffer* inner; /* NULL: the memory is somebody else's */
  PyObject* object;
} Kept;

/* The memory goes first: what is kept may be what frees it. */
static void drop_kept(Buffer* buffer) {
  Kept* kept = buffer->context;
  buffer_release(kept->inner);
  if (!atomic_load(&finalizing)) {
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(kept->object);
    PyGILState_Release(gil);
  }
  host_free(kept);
}

/* value_keep(address of a tensor, object): the object lives as long as anybody shares the tensor's memory */
static PyObject* call_value_keep(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *address, *object;
  if (!PyArg_ParseTuple(args, "OO", &address, &object)) return NULL;
  OrtValue* value = PyLong_AsVoidPtr(address);
  if (!value || value->type != ONNX_TYPE_TENSOR) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no tensor");
    return NULL;
  }
  Kept* kept = host_malloc(sizeof *kept);
  Buffer* buffer = kept ? buffer_adopt(value->data, value->nbytes, drop_kept, kept) : NULL;
  if (!buffer) {
    host_free(kept);
    return PyErr_NoMemory();
  }
  *kept = (Kept){value->buffer, Py_NewRef(object)};
  value->buffer = buffer;
  Py_RETURN_NONE;
}

/* object_address(object) -> address of a new reference to the object, for a step on the fallback */
static PyObject* call_object_address(PyObject* module, PyObject* object) {
  (void)module;
  Py_INCREF(object);
  return PyLong_FromVoidPtr(object);
}

static PyMethodDef module_methods[] = {
    {"setup", call_setup, METH_VARARGS, "setup(status_error, dtypes)"},
    {"set_value_type", call_set_value_type, METH_O, "set_value_type(type)"},
    {"finalize", call_finalize, METH_NOARGS, "finalize()"},
    {"value_to_object", call_value_to_object, METH_O, "value_to_object(address)"},
    {"value_from_object", call_value_from_object, METH_O, "value_from_object(object)"},
    {"value_keep", call_value_keep, METH_VARARGS, "value_keep(address, object)"},
    {"dlpack_export", call_dlpack_export, METH_VARARGS,
     "dlpack_export(address, owner, device_type, device_number, versioned) -> capsule"},
    {"dlpack_device", call_dlpack_device, METH_O, "dlpack_device(capsule) -> (type, number)"},
    {"dlpack_take", call_dlpack_take, METH_O,
     "dlpack_take(capsule) -> (address, element_type, shape, owner)"},
    {"object_address", call_object_address, METH_O, "object_address(object)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    "ephost._call",
    "The way from Python into a run and back.",
    -1,
    module_methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__call(void) {
  import_array();
  PyObject* module = PyModule_Create(&module_definition);
  if (!module) return NULL;
  PyObject* runner = PyType_FromSpec(&runner_spec);
  binding_type = (PyTypeObject*)PyType_FromSpec(&binding_spec);
  state.object_dtype = (PyObject*)PyArray_DescrFromType(NPY_OBJECT);
  state.address_name = PyUnicode_InternFromString("_address");
  if (!runner || !binding_type || !state.object_dtype || !state.address_name ||
      PyModule_AddObjectRef(module, "Runner", runner) < 0 ||
      PyModule_AddObjectRef(module, "Binding", (PyObject*)binding_type) < 0) {
    Py_XDECREF(runner);
    Py_DECREF(module);
    return NULL;
  }
  Py_DECREF(runner);
  plan_python_step = python_step;
  plan_python_release = python_release;
  return module;
}
