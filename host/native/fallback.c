/* Steps on the reference fallback: a node's inputs as Python's objects, its callable, its results as values.
 */
#define _GNU_SOURCE
#include "fallback.h"

#include <stdatomic.h>
#include <string.h>

#include "call.h"
#include "forks.h"
#include "lock.h"
#include "options.h"
#include "python_values.h"
#include "signals.h"
#include "status.h"

/* The options of the run that this thread is in. */
static THREAD_LOCAL const OrtRunOptions* inherited_options;

const OrtRunOptions* fallback_run_options(void) { return inherited_options; }

/* ---- stopping ---- */

/* A thread in a step. Python's code may go round for ever and ask nobody: it is stopped by an exception from
 * outside. */
typedef struct Stoppable {
  const OrtRunOptions* options;
  unsigned long thread;
  bool stopped;
  struct Stoppable* next;
} Stoppable;

static Stoppable* stoppables; /* under the lock */
static SpinLock stoppables_lock = ATOMIC_FLAG_INIT;
static atomic_int stoppable_count; /* how many there are */
static PyObject* terminated_type;  /* what is raised: no Exception, which operators catch to go on */
static PyObject* no_code;          /* does nothing, and so gives what is waiting a place to be raised at */

void fallback_hold(bool hold) { spin_hold(&stoppables_lock, hold); }

/* Whoever has the lock may have to wait until all threads have stopped: one that waits for it lets itself be
 * stopped. */
static void lock_stoppables(void) {
  while (!spin_try_lock(&stoppables_lock)) {
    Py_BEGIN_ALLOW_THREADS
    host_yield();
    Py_END_ALLOW_THREADS
  }
}

/* `terminate` is set before. Either this sees the step's count, or the step sees `terminate`: a step counts
 * itself first. */
static void stop_python(const OrtRunOptions* options) {
  if (atomic_load(&stoppable_count) == 0 || python_is_leaving()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  lock_stoppables();
  for (Stoppable* each = stoppables; each != NULL; each = each->next) {
    if (each->options != options || each->stopped) continue;
    each->stopped = true;
    PyThreadState_SetAsyncExc(each->thread, terminated_type);
  }
  spin_unlock(&stoppables_lock);
  PyGILState_Release(gil);
}

/* With an exception set where the run is to stop at once. */
static void begin_stoppable(Stoppable* step, const OrtRunOptions* options) {
  lock_stoppables();
  *step = (Stoppable){options, PyThread_get_thread_ident(), false, stoppables};
  stoppables = step;
  spin_unlock(&stoppables_lock);
  atomic_fetch_add(&stoppable_count, 1);
  atomic_thread_fence(memory_order_seq_cst); /* what follows reads with no order of its own */
  if (options != NULL && run_is_terminated(options)) PyErr_SetNone(terminated_type);
}

/* Takes the exception back that the thread was sent. PyThreadState_SetAsyncExc with NULL would leave the
 * interpreter looking for one for good: slower, and with a profiler in a circle without end. So one is sent
 * again, which cannot have come yet, and caught here. What else comes meanwhile stays, unless there was
 * something before. */
static void take_back(unsigned long thread) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyThreadState_SetAsyncExc(thread, terminated_type);
  PyObject* globals = PyDict_New();
  for (bool came = globals == NULL; !came;) {
    PyObject* nothing = PyEval_EvalCode(no_code, globals, globals);
    Py_XDECREF(nothing);
    if (nothing != NULL) continue;
    came = PyErr_ExceptionMatches(terminated_type) != 0;
    if (came || type != NULL) {
      PyErr_Clear();
    } else {
      PyErr_Fetch(&type, &value, &traceback);
    }
  }
  Py_XDECREF(globals);
  PyErr_Restore(type, value, traceback);
}

/* `is_inner`: there is a step around it on this thread, which has to end as well. */
static void end_stoppable(Stoppable* step, bool is_inner) {
  lock_stoppables();
  Stoppable** at = &stoppables;
  while (*at != step) at = &(*at)->next;
  *at = step->next;
  spin_unlock(&stoppables_lock);
  atomic_fetch_sub(&stoppable_count, 1);
  /* One that has not come yet would come later, anywhere. */
  if (step->stopped && !is_inner) take_back(step->thread);
}

/* What ends the program rather than the node (KeyboardInterrupt, SystemExit), on its way past plans and EPs,
 * which know statuses only. */
static THREAD_LOCAL PyObject* passing;

/* What is set, for the program that called the run. */
static void let_pass(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(passing);
  passing = Py_XNewRef(value);
  PyErr_Restore(type, value, traceback);
}

/* The exception that is set, as a status. */
static OrtStatus* step_status(void) {
  if (PyErr_ExceptionMatches(terminated_type)) {
    PyErr_Clear();
    return status_new(ORT_FAIL, "the run was terminated through its RunOptions");
  }
  if (!PyErr_ExceptionMatches(PyExc_Exception)) let_pass();
  return status_from_exception();
}

/* Whether Python calls the handlers of signals in this thread: the main one's, which may be another after a
 * fork. False with an exception set, too. */
static bool has_handlers(void) {
  PyObject* threading = PyImport_ImportModule("threading");
  PyObject* main_thread = threading != NULL ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
  PyObject* ident = main_thread != NULL ? PyObject_GetAttrString(main_thread, "ident") : NULL;
  const bool has =
      ident != NULL && PyLong_Check(ident) && PyLong_AsUnsignedLong(ident) == PyThread_get_thread_ident();
  Py_XDECREF(ident);
  Py_XDECREF(main_thread);
  Py_XDECREF(threading);
  return has;
}

static int64_t run_handlers(int64_t now) {
  if (python_is_leaving()) return INT64_MAX;
  PyGILState_STATE gil = PyGILState_Ensure();
  int64_t next = PyErr_CheckSignals() == 0 && has_handlers() ? now + SIGNAL_LOOK_NS : INT64_MAX;
  if (PyErr_Occurred() != NULL) { /* of a handler: also has_handlers calls Python's code, where one may run */
    let_pass();
    next = 0;
  }
  PyErr_Clear();
  PyGILState_Release(gil);
  return next;
}

bool fallback_raise_passing(void) {
  PyObject* exception = passing;
  passing = NULL;
  if (exception == NULL) return false;
  PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
  Py_DECREF(exception);
  return true;
}

/* ---- steps ---- */

/* Whether the value's memory lies inside another one's. */
static bool lies_inside(const OrtValue* value, const OrtValue* other) {
  if (value->type != ONNX_TYPE_TENSOR || other->type != ONNX_TYPE_TENSOR || !value->nbytes || !other->nbytes)
    return false;
  const char *data = value->data, *begin = other->data;
  return data >= begin && data < begin + other->nbytes;
}

/* Makes a tensor that is a view of one of the step's inputs, whose memory it must not outlive, a copy, unless
 * both can share the input's buffer. False without memory. */
static bool detach_tensor(const Frame* frame, const Step* step, OrtValue* made) {
  for (size_t i = 0; i < step->input_count; ++i) {
    if (step->inputs[i] < 0) continue;
    const OrtValue* input = frame->values[step->inputs[i]];
    if (!lies_inside(made, input)) continue;
    OrtValue own = {0};
    if (input->buffer != NULL && input->data == made->data && input->nbytes == made->nbytes &&
        input == &frame->storage[step->inputs[i]]) {
      buffer_retain(input->buffer);
      if (!value_init_tensor(&own, made->element_type, made->dims, made->rank, input->buffer, NULL,
                             made->memory_info)) {
        buffer_release(input->buffer);
      }
    } else {
      copy_tensor(&own, made);
    }
    value_clear(made);
    if (own.type == ONNX_TYPE_UNKNOWN) return false;
    value_move(made, &own);
    break;
  }
  return true;
}

/* The same of all tensors in a value that Python's objects have been made into, and nobody shares yet. */
static bool detach(const Frame* frame, const Step* step, OrtValue* made) {
  if (made->type == ONNX_TYPE_TENSOR) return detach_tensor(frame, step, made);
  for (size_t i = 0; i < made->item_count; ++i) {
    if (!detach(frame, step, made->items[i])) return false;
  }
  return true;
}

/* Puts what a reference operator returned into its slot. */
static int store_output(Frame* frame, const Step* step, size_t index, PyObject* object) {
  int32_t slot = step->outputs[index];
  if (slot < 0) return 0;
  OrtValue made = {0};
  if (value_from_python(object, &made) < 0) return -1;
  if (!detach(frame, step, &made)) {
    value_clear(&made);
    PyErr_NoMemory();
    return -1;
  }
  /* Others read it as what the graph says it is. */
  ONNXTensorElementDataType expected = frame->plan->slots[slot].element_type;
  if (made.type == ONNX_TYPE_TENSOR && expected != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED &&
      made.element_type != expected) {
    PyArray_Descr *is = dtype_of((int)made.element_type), *should_be = dtype_of((int)expected);
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "the operator made its output %zu of %S, where the graph says %S", index,
                 is != NULL ? (PyObject*)is : Py_None, should_be != NULL ? (PyObject*)should_be : Py_None);
    value_clear(&made);
    return -1;
  }
  OrtStatus* status;
  if (frame->preallocated[slot] & PREALLOCATED_BOUND) { /* it is copied, and may be large */
    Py_BEGIN_ALLOW_THREADS
    status = frame_give(frame, step, index, &made);
    Py_END_ALLOW_THREADS
  } else {
    status = frame_give(frame, step, index, &made);
  }
  if (status != NULL) raise_status(status);
  return status != NULL ? -1 : 0;
}

/* A step's input as the object that its callable gets. */
static PyObject* step_input(Frame* frame, const Step* step, size_t index) {
  const int32_t slot = step->inputs[index];
  return slot >= 0 ? value_to_python(frame->values[slot], VIEW) : Py_NewRef(Py_None);
}

static THREAD_LOCAL bool is_inside; /* this thread is in a step */

static OrtStatus* python_step(const Step* step, Frame* frame) {
  /* A thread that comes back while Python leaves may be ended there. So it would be at the end of the run,
   * too, unless there are functions of a plugin in between: they have to return. */
  PyThreadState* own = frame->python_thread;
  PyGILState_STATE gil = PyGILState_UNLOCKED;
  if (own != NULL) {
    PyEval_RestoreThread(own);
  } else if (python_is_leaving()) {
    return status_new(ORT_FAIL, "the interpreter is shutting down");
  } else {
    gil = PyGILState_Ensure();
  }
  const OrtRunOptions* outer_options = inherited_options;
  inherited_options = frame->options;
  bool is_inner = is_inside;
  is_inside = true;
  Stoppable stoppable;
  OrtStatus* status = NULL;
  PyObject *results = NULL, *inputs = NULL;
  begin_stoppable(&stoppable, frame->options);
  if (PyErr_Occurred() != NULL) goto done;
  inputs = PyList_New((Py_ssize_t)step->input_count);
  for (size_t i = 0; inputs != NULL && i < step->input_count; ++i) {
    PyObject* item = step_input(frame, step, i);
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
  end_stoppable(&stoppable, is_inner);
  if (PyErr_Occurred() != NULL) status = step_status();
  Py_XDECREF(inputs);
  Py_XDECREF(results);
  is_inside = is_inner;
  inherited_options = outer_options;
  if (own != NULL) {
    PyEval_SaveThread();
  } else {
    PyGILState_Release(gil);
  }
  return status;
}

static void python_release(void* object) {
  if (python_is_leaving()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject*)object);
  PyGILState_Release(gil);
}

bool fallback_install(void) {
  terminated_type = PyErr_NewException("ephost._call.RunTerminated", PyExc_BaseException, NULL);
  no_code = Py_CompileString("pass", "<ephost>", Py_file_input);
  if (terminated_type == NULL || no_code == NULL) return false;
  options_stop_python = stop_python;
  signals_run_handlers = run_handlers;
  plan_python_step = python_step;
  plan_python_release = python_release;
  return true;
}
