/* Steps on the reference fallback: a node's inputs as Python's objects, its callable, its results as values.
 */
#define _GNU_SOURCE
#include "fallback.h"

#include <string.h>

#include "python_values.h"
#include "status.h"

/* The options of the run that this thread is in. */
static THREAD_LOCAL const OrtRunOptions* inherited_options;

const OrtRunOptions* fallback_run_options(void) { return inherited_options; }

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
    OrtValue own = {0};
    if (input->buffer != NULL && input->data == made.data && input->nbytes == made.nbytes &&
        input == &frame->storage[step->inputs[i]]) {
      buffer_retain(input->buffer);
      if (!value_init_tensor(&own, made.element_type, made.dims, made.rank, input->buffer, NULL,
                             made.memory_info)) {
        buffer_release(input->buffer);
      }
    } else {
      copy_tensor(&own, &made);
    }
    value_clear(&made);
    if (own.type == ONNX_TYPE_UNKNOWN) {
      PyErr_NoMemory();
      return -1;
    }
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
  if (python_is_leaving()) return status_new(ORT_FAIL, "the interpreter is shutting down");
  PyGILState_STATE gil = PyGILState_Ensure();
  const OrtRunOptions* outer_options = inherited_options;
  inherited_options = frame->options;
  OrtStatus* status = NULL;
  PyObject* results = NULL;
  PyObject* inputs = PyList_New((Py_ssize_t)step->input_count);
  for (size_t i = 0; inputs != NULL && i < step->input_count; ++i) {
    PyObject* item;
    if (step->inputs[i] < 0) {
      item = Py_NewRef(Py_None);
    } else {
      item = value_to_python(frame->values[step->inputs[i]], VIEW);
    }
    if (item == NULL || PyList_SetItem(inputs, (Py_ssize_t)i, item) < 0) goto done;
  }
  if (inputs == NULL) goto done;
  results = PyObject_CallFunctionObjArgs(step->object, inputs, NULL);
  if (results == NULL) goto done;
  if (!PyList_Check(results) || (size_t)PyList_Size(results) < step->output_count) {
    PyErr_Format(PyExc_RuntimeError, "the operator gave no list of %zu values", step->output_count);
    goto done;
  }
  for (size_t i = 0; i < step->output_count; ++i) {
    if (store_output(frame, step, i, PyList_GetItem(results, (Py_ssize_t)i)) < 0) goto done;
  }
done:
  if (PyErr_Occurred() != NULL) status = status_from_exception();
  Py_XDECREF(inputs);
  Py_XDECREF(results);
  inherited_options = outer_options;
  PyGILState_Release(gil);
  return status;
}

static void python_release(void* object) {
  if (python_is_leaving()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject*)object);
  PyGILState_Release(gil);
}

void fallback_install(void) {
  plan_python_step = python_step;
  plan_python_release = python_release;
}
