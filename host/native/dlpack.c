/* Tensors to and from other libraries as DLPack hands them over: a struct in a PyCapsule, which whoever takes
 * the tensor renames and, when done with it, deletes through the struct's own function. The structs are those
 * of DLPack 1.1, declared anew. */
#define _GNU_SOURCE
#include "call.h"
#include "heap.h"
#include "status.h"
#include "value.h"

typedef struct DlDevice {
  int32_t type;
  int32_t number;
} DlDevice;

typedef struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  uint8_t code; /* of the elements: what kind of number */
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: contiguous */
  uint64_t byte_offset;
} DlTensor;

typedef struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(struct DlManaged* self);
} DlManaged;

typedef struct DlVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct DlVersioned* self);
  uint64_t flags;
  DlTensor tensor;
} DlVersioned;

enum { DL_READ_ONLY = 1 }; /* a flag */

#define PLAIN_NAME "dltensor"
#define VERSIONED_NAME "dltensor_versioned"
#define OWNER_NAME "ephost.dlpack_owner"

enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_COMPLEX, DL_BOOL };

static const struct {
  uint8_t type, code, bits;
} element_types[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, DL_FLOAT, 32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, DL_UINT, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, DL_INT, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, DL_UINT, 16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, DL_INT, 16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, DL_INT, 32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, DL_INT, 64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, DL_BOOL, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, DL_FLOAT, 16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, DL_FLOAT, 64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, DL_UINT, 32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, DL_UINT, 64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64, DL_COMPLEX, 64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128, DL_COMPLEX, 128},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, DL_BFLOAT, 16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN, 10, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ, 11, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2, 12, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ, 13, 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0, 14, 8},
};
#define ELEMENT_TYPE_COUNT (sizeof element_types / sizeof *element_types)

/* ---- out ----------------------------------------------------------------------------------------------- */

/* What is handed out, in one block: the struct of either kind and the shape. */
typedef struct Export {
  union {
    DlManaged plain;
    DlVersioned versioned;
  } as;
  PyObject* owner; /* keeps the memory */
  int64_t shape[];
} Export;

/* May be called by any thread, also while Python is going. */
static void export_free(Export* out) {
  if (out == NULL) return;
  if (!python_is_leaving()) {
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(out->owner);
    PyGILState_Release(gil);
  }
  host_free(out);
}

static void delete_plain(DlManaged* self) { export_free(self != NULL ? self->context : NULL); }

static void delete_versioned(DlVersioned* self) { export_free(self != NULL ? self->context : NULL); }

/* A capsule that nobody took still has its first name. */
static void drop_export(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, PLAIN_NAME)) {
    DlManaged* managed = PyCapsule_GetPointer(capsule, PLAIN_NAME);
    if (managed->deleter != NULL) managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, VERSIONED_NAME)) {
    DlVersioned* managed = PyCapsule_GetPointer(capsule, VERSIONED_NAME);
    if (managed->deleter != NULL) managed->deleter(managed);
  }
}

/* dlpack_export(address of a native value, owner, device type, device number, versioned, read_only) ->
 * capsule. That the tensor is only to be read a capsule without a version cannot say. */
PyObject* call_dlpack_export(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *address, *owner;
  int type, number, versioned, read_only;
  if (!PyArg_ParseTuple(args, "OOiipp", &address, &owner, &type, &number, &versioned, &read_only))
    return NULL;
  const OrtValue* value = PyLong_AsVoidPtr(address);
  if (value == NULL) {
    if (PyErr_Occurred() == NULL) PyErr_SetString(PyExc_ValueError, "no value");
    return NULL;
  }
  size_t found = 0;
  while (found < ELEMENT_TYPE_COUNT &&
         (value->type != ONNX_TYPE_TENSOR || element_types[found].type != (uint8_t)value->element_type)) {
    ++found;
  }
  if (found == ELEMENT_TYPE_COUNT) {
    PyErr_SetString(PyExc_BufferError, "DLPack has no type for the elements");
    return NULL;
  }
  Export* out = host_calloc(1, sizeof *out + value->rank * sizeof *out->shape);
  if (out == NULL) return PyErr_NoMemory();
  for (size_t i = 0; i < value->rank; ++i) out->shape[i] = value->dims[i];
  DlTensor tensor = {.data = value->nbytes ? value->data : NULL,
                     .device = {type, number},
                     .rank = (int32_t)value->rank,
                     .code = element_types[found].code,
                     .bits = element_types[found].bits,
                     .lanes = 1,
                     .shape = out->shape};
  out->owner = Py_NewRef(owner);
  PyObject* capsule;
  if (versioned) {
    out->as.versioned = (DlVersioned){.major = 1,
                                      .minor = 1,
                                      .context = out,
                                      .deleter = delete_versioned,
                                      .flags = read_only ? DL_READ_ONLY : 0,
                                      .tensor = tensor};
    capsule = PyCapsule_New(&out->as.versioned, VERSIONED_NAME, drop_export);
  } else {
    out->as.plain = (DlManaged){.tensor = tensor, .context = out, .deleter = delete_plain};
    capsule = PyCapsule_New(&out->as.plain, PLAIN_NAME, drop_export);
  }
  if (capsule == NULL) export_free(out);
  return capsule;
}

/* ---- in ------------------------------------------------------------------------------------------------ */

/* The tensor in a capsule that nobody has taken yet; NULL with an exception. */
static const DlTensor* peek(PyObject* capsule, bool* versioned) {
  *versioned = PyCapsule_IsValid(capsule, VERSIONED_NAME);
  if (*versioned) {
    const DlVersioned* managed = PyCapsule_GetPointer(capsule, VERSIONED_NAME);
    if (managed->major == 1) return &managed->tensor;
    PyErr_Format(PyExc_BufferError, "the capsule is of version %u of DLPack, which is not known",
                 (unsigned)managed->major);
    return NULL;
  }
  if (PyCapsule_IsValid(capsule, PLAIN_NAME)) {
    return &((const DlManaged*)PyCapsule_GetPointer(capsule, PLAIN_NAME))->tensor;
  }
  PyErr_SetString(PyExc_TypeError, "not a DLPack capsule, or one that was taken before");
  return NULL;
}

/* dlpack_device(capsule) -> (type, number) */
PyObject* call_dlpack_device(PyObject* module, PyObject* capsule) {
  (void)module;
  bool versioned;
  const DlTensor* tensor = peek(capsule, &versioned);
  return tensor != NULL ? Py_BuildValue("(ii)", (int)tensor->device.type, (int)tensor->device.number) : NULL;
}

/* dlpack_is_uint8(capsule) -> whether its elements are bytes; the capsule stays as it is. */
PyObject* call_dlpack_is_uint8(PyObject* module, PyObject* capsule) {
  (void)module;
  bool versioned;
  const DlTensor* tensor = peek(capsule, &versioned);
  return tensor != NULL ? PyBool_FromLong(tensor->code == DL_UINT && tensor->bits == 8 && tensor->lanes == 1)
                        : NULL;
}

/* dlpack_is_read_only(capsule) -> whether it says that nobody may write; one without a version cannot. */
PyObject* call_dlpack_is_read_only(PyObject* module, PyObject* capsule) {
  (void)module;
  bool versioned;
  if (peek(capsule, &versioned) == NULL) return NULL;
  return PyBool_FromLong(
      versioned &&
      (((const DlVersioned*)PyCapsule_GetPointer(capsule, VERSIONED_NAME))->flags & DL_READ_ONLY) != 0);
}

static void drop_owner(PyObject* capsule) {
  void* managed = PyCapsule_GetPointer(capsule, OWNER_NAME);
  if (PyCapsule_GetContext(capsule) != NULL) {
    DlVersioned* versioned = managed;
    if (versioned->deleter != NULL) versioned->deleter(versioned);
  } else {
    DlManaged* plain = managed;
    if (plain->deleter != NULL) plain->deleter(plain);
  }
}

static bool is_contiguous(const DlTensor* tensor) {
  int64_t expected = 1;
  for (int i = tensor->rank; tensor->strides != NULL && i-- > 0;) {
    if (tensor->shape[i] == 0) return true;
    if (tensor->shape[i] != 1 && tensor->strides[i] != expected) return false;
    expected *= tensor->shape[i];
  }
  return true;
}

/* dlpack_take(capsule) -> (address of the first element, ABI's element type, shape, owner): takes the tensor,
 * which the owner keeps. BufferError, with the capsule untouched, for what makes no tensor of ours. */
PyObject* call_dlpack_take(PyObject* module, PyObject* capsule) {
  (void)module;
  bool versioned;
  const DlTensor* tensor = peek(capsule, &versioned);
  if (tensor == NULL) return NULL;
  size_t found = 0;
  while (found < ELEMENT_TYPE_COUNT && (tensor->lanes != 1 || element_types[found].code != tensor->code ||
                                        element_types[found].bits != tensor->bits)) {
    ++found;
  }
  if (found == ELEMENT_TYPE_COUNT) {
    PyErr_Format(PyExc_BufferError, "ONNX has no element type for DLPack's code %d of %d bits",
                 (int)tensor->code, (int)tensor->bits);
    return NULL;
  }
  if (tensor->rank < 0 || !is_contiguous(tensor)) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
    return NULL;
  }
  PyObject* shape = PyTuple_New(tensor->rank);
  for (int i = 0; shape != NULL && i < tensor->rank; ++i) {
    PyObject* dim = PyLong_FromLongLong(tensor->shape[i]);
    if (dim == NULL || PyTuple_SetItem(shape, i, dim) < 0) Py_CLEAR(shape);
  }
  PyObject* address =
      shape != NULL
          ? PyLong_FromVoidPtr(tensor->data != NULL ? (char*)tensor->data + tensor->byte_offset : NULL)
          : NULL;
  if (address == NULL) {
    Py_XDECREF(shape);
    return NULL;
  }
  void* managed = PyCapsule_GetPointer(capsule, versioned ? VERSIONED_NAME : PLAIN_NAME);
  PyObject* owner = PyCapsule_New(managed, OWNER_NAME, NULL);
  if (owner == NULL || PyCapsule_SetContext(owner, versioned ? managed : NULL) < 0 ||
      PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor") < 0 ||
      PyCapsule_SetDestructor(owner, drop_owner) < 0) { /* from here on it is ours */
    Py_XDECREF(owner);
    Py_DECREF(shape);
    Py_DECREF(address);
    return NULL;
  }
  return Py_BuildValue("(NiNN)", address, (int)element_types[found].type, shape, owner);
}
