/* ephost._call.Runner: checks what a caller feeds, runs the plan, and takes what it made to Python. */
#define _GNU_SOURCE
#include "runner.h"

#include <string.h>

#include "abi.h"
#include "fallback.h"
#include "heap.h"
#include "isolation.h"
#include "memory.h"
#include "signals.h"
#include "status.h"

/* up to here an output of known shape is allocated by numpy, before the run */
#define SMALL_OUTPUT_BYTES 4096

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
 * inputs: tuple of (name, element_type, dims tuple with -1 for any, or None, required, may be nothing) */
static PyObject* runner_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *plan, *owner, *convert, *feed_error, *inputs, *output_names;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "OOOOO!O!", &plan, &owner, &convert, &feed_error, &PyTuple_Type, &inputs,
                        &PyTuple_Type, &output_names)) {
    return NULL;
  }
  Plan* pointer = PyLong_AsVoidPtr(plan);
  if (pointer == NULL) {
    if (PyErr_Occurred() == NULL) PyErr_SetString(PyExc_ValueError, "no plan");
    return NULL;
  }
  if ((size_t)PyTuple_Size(inputs) != pointer->input_count ||
      (size_t)PyTuple_Size(output_names) != pointer->output_count) {
    PyErr_SetString(PyExc_ValueError, "the plan has other inputs or outputs");
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Runner* runner = (Runner*)allocate(type, 0);
  if (runner == NULL) return NULL;
  static atomic_uint_least64_t last_serial;
  runner->serial = atomic_fetch_add(&last_serial, 1) + 1;
  runner->plan = pointer;
  runner->owner = Py_NewRef(owner);
  runner->convert = Py_NewRef(convert);
  runner->feed_error = Py_NewRef(feed_error);
  runner->output_names = Py_NewRef(output_names);
  runner->output_index = PyDict_New();
  Py_ssize_t input_count = PyTuple_Size(inputs);
  runner->inputs = host_calloc(input_count ? (size_t)input_count : 1, sizeof *runner->inputs);
  if (runner->inputs == NULL || runner->output_index == NULL) goto failed;
  for (Py_ssize_t i = 0; i < PyTuple_Size(output_names); ++i) {
    PyObject* index = PyLong_FromSsize_t(i);
    int set =
        index != NULL ? PyDict_SetItem(runner->output_index, PyTuple_GetItem(output_names, i), index) : -1;
    Py_XDECREF(index);
    if (set < 0) goto failed;
  }
  for (Py_ssize_t i = 0; i < input_count; ++i) {
    InputSpec* spec = &runner->inputs[i];
    PyObject *name, *dims;
    int element_type, required, may_be_nothing;
    if (!PyArg_ParseTuple(PyTuple_GetItem(inputs, i), "OiOpp", &name, &element_type, &dims, &required,
                          &may_be_nothing))
      goto failed;
    spec->name = Py_NewRef(name);
    runner->input_count = (size_t)i + 1;
    spec->required = required != 0;
    spec->may_be_nothing = may_be_nothing != 0;
    spec->element_type = (ONNXTensorElementDataType)element_type;
    bool plain = dtype_of(element_type) != NULL && element_type_bits(spec->element_type) >= 8;
    if (PyErr_Occurred() != NULL) goto failed;
    spec->type_number = plain ? call_state.type_numbers[element_type] : -1;
    spec->rank = -1;
    if (dims != Py_None) {
      Py_ssize_t rank = PyTuple_Size(dims);
      if (rank < 0) goto failed;
      spec->dims = host_malloc((rank ? (size_t)rank : 1) * sizeof *spec->dims);
      if (spec->dims == NULL) goto failed;
      spec->rank = (int)rank;
      for (Py_ssize_t k = 0; k < rank; ++k) {
        spec->dims[k] = PyLong_AsLongLong(PyTuple_GetItem(dims, k));
        if (PyErr_Occurred() != NULL) goto failed;
      }
    }
  }
  return (PyObject*)runner;
failed:
  if (PyErr_Occurred() == NULL) PyErr_NoMemory();
  Py_DECREF((PyObject*)runner);
  return NULL;
}

/* Whether the value is a tensor of numbers such as the input takes. */
bool input_spec_fits(const InputSpec* spec, const OrtValue* value) {
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
bool is_memory_of(const Plan* plan, int32_t slot, const OrtValue* value) {
  const OrtMemoryInfo* memory = slot < 0 ? NULL : plan->slots[slot].memory;
  if (memory == NULL || !memory_device_equal(&memory->device, &value->memory_info->device)) return false;
  const EphostRemoteMemory* remote = remote_memory_of(plan->slots[slot].allocator);
  return remote == NULL || remote_memory_has(remote, value);
}

/* The feed for one input as Python makes it fit: on the CPU, but for what is no OrtValue and lies on a
 * device.
 */
static PyObject* converted(Runner* runner, size_t index, PyObject* object) {
  return PyObject_CallFunction(runner->convert, "nO", (Py_ssize_t)index, object);
}

/* Whether the array is of that type of numpy's, lies as a tensor does, and has such a shape, which is given.
 */
static bool array_fits(const InputSpec* spec, int type_number, PyArrayObject* array, int64_t* dims) {
  int rank = PyArray_NDIM(array);
  if (PyArray_TYPE(array) != type_number || !PyArray_IS_C_CONTIGUOUS(array) || !PyArray_ISALIGNED(array) ||
      !PyArray_ISNOTSWAPPED(array) || rank > MAX_RANK || (spec->rank >= 0 && spec->rank != rank)) {
    return false;
  }
  for (int i = 0; i < rank; ++i) {
    dims[i] = PyArray_DIM(array, i);
    if (spec->rank >= 0 && spec->dims[i] >= 0 && spec->dims[i] != dims[i]) return false;
  }
  return true;
}

/* Makes the input a tensor over the array's memory when it is just the array that the model wants. */
static bool bind_array(const InputSpec* spec, OrtValue* value, PyArrayObject* array) {
  int rank = PyArray_NDIM(array);
  int64_t dims[MAX_RANK];
  if (!array_fits(spec, spec->type_number, array, dims)) return false;
  return value_init_tensor(value, spec->element_type, dims, (size_t)rank, NULL, PyArray_DATA(array),
                           &ephost_cpu_memory_info);
}

/* The same with a native value: on the CPU, or where the device that reads the input has it. */
static bool bind_value(Runner* runner, Frame* frame, size_t index, const OrtValue* given) {
  if (!input_spec_fits(&runner->inputs[index], given)) return false;
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
  const OrtValue* given = fitting != NULL ? wrapped_value(fitting) : NULL;
  if (given != NULL && given->type == ONNX_TYPE_TENSOR && !memory_info_is_cpu(given->memory_info)) {
    if (bind_value(runner, frame, index, given)) {
      frame->held[index] = fitting;
      return 0;
    }
    PyObject* copy = converted(runner, index, fitting);
    Py_DECREF(fitting);
    fitting = copy;
  }
  if (fitting == NULL) return -1;
  int result = value_from_python(fitting, &frame->storage[runner->plan->inputs[index]]);
  Py_DECREF(fitting);
  return result;
}

/* Makes the input a tensor of the array's texts when they are texts, in just the shape that the model wants.
 * 1: done; 0: it is something else; -1: an exception is set. */
static int bind_texts(const InputSpec* spec, OrtValue* value, PyArrayObject* array) {
  int64_t dims[MAX_RANK];
  if (spec->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING ||
      !array_fits(spec, NPY_OBJECT, array, dims))
    return 0;
  return value_from_texts(array, value);
}

/* The feed for one input, without a copy and without a new object where it is just the array that the model
 * wants. */
int runner_bind_feed(Runner* runner, Frame* frame, size_t index, PyObject* object) {
  size_t slot = (size_t)runner->plan->inputs[index];
  OrtValue* value = &frame->storage[slot];
  frame->values[slot] = value;
  const OrtValue* given = wrapped_value(object);
  if (given != NULL
          ? bind_value(runner, frame, index, given)
          : PyArray_Check(object) && bind_array(&runner->inputs[index], value, (PyArrayObject*)object)) {
    frame->held[index] = Py_NewRef(object); /* another thread may change the dict while the run lasts */
    return 0;
  }
  int texts = PyArray_Check(object) ? bind_texts(&runner->inputs[index], value, (PyArrayObject*)object) : 0;
  if (texts != 0) return texts > 0 ? 0 : -1;
  return bind_converted(runner, frame, index, object);
}

/* Raises what the names of a feed lack, or have too much. */
void runner_raise_feed_error(Runner* runner, PyObject* feed) {
  PyObject* error = PyObject_CallFunctionObjArgs(runner->feed_error, feed, NULL);
  if (error != NULL) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_XDECREF(error);
}

/* How many entries of a feed are None under names that are no input's: programs feed those of optional inputs
 * of which a model has none. */
static Py_ssize_t nothings_beside(const Runner* runner, PyObject* feed) {
  if (PyDict_Size(feed) == (Py_ssize_t)runner->input_count) return 0;
  Py_ssize_t count = 0, position = 0;
  PyObject *key, *value;
  BEGIN_ALONE(feed);
  while (PyDict_Next(feed, &position, &key, &value)) {
    bool known = value != Py_None;
    for (size_t i = 0; i < runner->input_count && !known; ++i) {
      known = PyUnicode_Check(key) && PyUnicode_Compare(key, runner->inputs[i].name) == 0;
    }
    count += !known;
  }
  END_ALONE();
  return count;
}

static int bind_dict(Runner* runner, Frame* frame, PyObject* feed) {
  Py_ssize_t found = 0;
  bool missing = false;
  for (size_t i = 0; i < runner->input_count; ++i) {
    PyObject* object;
    const int there = dict_get(feed, runner->inputs[i].name, &object);
    if (there < 0) return -1;
    if (there > 0) {
      const InputSpec* const spec = &runner->inputs[i];
      const bool left_out = object == Py_None && !spec->required && !spec->may_be_nothing;
      int result = left_out ? 0 : runner_bind_feed(runner, frame, i, object);
      Py_DECREF(object);
      if (result < 0) return -1;
      ++found;
    } else if (runner->inputs[i].required) {
      missing = true;
    } else if (runner->inputs[i].may_be_nothing && runner_bind_feed(runner, frame, i, Py_None) < 0) {
      return -1;
    }
  }
  if (missing || found + nothings_beside(runner, feed) != PyDict_Size(feed)) {
    runner_raise_feed_error(runner, feed);
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
  if (dict == NULL) return -1;
  int result = bind_dict(runner, frame, dict);
  Py_DECREF(dict);
  return result;
}

/* An array for an output whose shape the graph declares, when it is small: the kernel writes into numpy's
 * memory. A new reference, or NULL (without an exception) when the output is not of that kind. */
static PyObject* small_output(Frame* frame, int32_t index) {
  const Slot* slot = &frame->plan->slots[index];
  if (slot->dims == NULL || slot->memory != NULL || frame->preallocated[index] || slot->constant != NULL ||
      slot->rank > 32 || element_type_bits(slot->element_type) < 8) {
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
  PyArray_Descr* dtype = dtype_of((int)slot->element_type);
  if (dtype == NULL) {
    PyErr_Clear();
    return NULL;
  }
  Py_INCREF((PyObject*)dtype);
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, dtype, (int)slot->rank, dims, NULL, NULL, 0, NULL);
  if (array == NULL) {
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
    /* An input that a worker alone reads has one slot, wherever it is. */
    if (frame->given[i] && plan->device_inputs[i] != plan->inputs[i] && frame->needed[plan->inputs[i]] &&
        bind_converted(runner, frame, i, frame->held[i]) < 0) {
      return -1;
    }
  }
  return 0;
}

/* Runs the frame for the outputs in these slots, some of which may be on a device. -1: an exception is set.
 */
int runner_execute(Runner* runner, Frame* frame, PyObject* options, const int32_t* slots, size_t count,
                   bool on_device) {
  const OrtRunOptions* run_options = runner->plan->is_body ? fallback_run_options() : NULL;
  bool only = on_device || frame->given_count;
  if (options != NULL && options != Py_None) {
    run_options = PyLong_AsVoidPtr(options);
    if (PyErr_Occurred() != NULL) return -1;
    only = only ||
           (run_options != NULL && atomic_load_explicit(&run_options->only_fetches, memory_order_relaxed));
  }
  if (only && find_route(runner, frame, slots, count) < 0) return -1;
  OrtStatus* status;
  const bool is_outermost = !runner->plan->is_body;
  const SignalWatch before = is_outermost ? watch_signals() : (SignalWatch){0, false};
  PyThreadState* thread = PyEval_SaveThread();
  frame->python_thread = thread;
  status = plan_execute(frame, run_options);
  frame->python_thread = NULL;
  PyEval_RestoreThread(thread);
  if (is_outermost) unwatch_signals(before);
  if (PyErr_Occurred() != NULL || fallback_raise_passing()) {
    if (status != NULL) ephost_api.ReleaseStatus(status);
    return -1;
  }
  if (status != NULL) raise_status(status);
  return status != NULL ? -1 : 0;
}

/* Gives the frame back and lets go of the arrays that the run borrowed. */
void runner_finish(Frame* frame) {
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
Py_ssize_t runner_output_index(Runner* runner, PyObject* name) {
  if (PyUnicode_Check(name)) {
    PyObject* index = PyDict_GetItemWithError(runner->output_index, name);
    if (index != NULL) return PyLong_AsSsize_t(index);
  }
  /* As text, whatever it is: a mapping would be a feed there. */
  PyObject* text = PyErr_Occurred() == NULL ? PyObject_Str(name) : NULL;
  if (text != NULL) {
    runner_raise_feed_error(runner, text);
    Py_DECREF(text);
  }
  return -1;
}

/* The slots of the wanted outputs; NULL names: all. `slots` has room for `count`. */
static int output_slots(Runner* runner, PyObject* names, Py_ssize_t count, int32_t* slots) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (names == NULL) {
      slots[i] = runner->plan->outputs[i];
      continue;
    }
    PyObject* name = PySequence_GetItem(names, i);
    if (name == NULL) return -1;
    Py_ssize_t index = runner_output_index(runner, name);
    Py_DECREF(name);
    if (index < 0) return -1;
    slots[i] = runner->plan->outputs[index];
  }
  return 0;
}

enum { RUNNER_CLOSED = -1 };

bool runner_enter(Runner* runner) {
  int runs = atomic_load(&runner->runs);
  while (runs != RUNNER_CLOSED) {
    if (atomic_compare_exchange_weak(&runner->runs, &runs, runs + 1)) return true;
  }
  raise_status(status_new(ORT_FAIL, "the session is closed"));
  return false;
}

void runner_leave(Runner* runner) { atomic_fetch_sub(&runner->runs, 1); }

void runner_no_frame(const Runner* runner, OrtStatus* failed) {
  if (failed != NULL) {
    raise_status(failed);
    return;
  }
  PyErr_Format(PyExc_MemoryError, "there is no memory for a run, which takes %zu bytes for values in between",
               runner->plan->arena_bytes);
}

/* Runs for the outputs of these names, a list or a tuple; NULL: all. */
static PyObject* run_for(Runner* runner, PyObject* names, PyObject* feed, PyObject* options) {
  Py_ssize_t count = names != NULL ? PySequence_Size(names) : 0;
  if (count < 0 || !runner_enter(runner)) return NULL;
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
  OrtStatus* failed = NULL;
  if (count > STACK_OUTPUTS) {
    slots = host_malloc((size_t)count * sizeof *slots);
    arrays = host_malloc((size_t)count * sizeof *arrays);
  }
  if (slots == NULL || arrays == NULL || (frame = frame_acquire(runner->plan, &failed)) == NULL) {
    runner_no_frame(runner, failed);
    count = 0;
    goto done;
  }
  for (Py_ssize_t i = 0; i < count; ++i) arrays[i] = NULL;
  if (output_slots(runner, names, count, slots) < 0 || bind_feeds(runner, frame, feed) < 0) goto done;
  for (Py_ssize_t i = 0; i < count; ++i) arrays[i] = small_output(frame, slots[i]);
  if (runner_execute(runner, frame, options, slots, (size_t)count, false) < 0) goto done;
  /* What an EP replays has no results but in the memory that the caller bound for the run it recorded. */
  list = PyList_New(frame->replayed ? 0 : count);
  for (Py_ssize_t i = 0; list != NULL && !frame->replayed && i < count; ++i) {
    PyObject* item;
    if (arrays[i] != NULL && frame->preallocated[slots[i]]) {
      item = arrays[i];
      arrays[i] = NULL;
    } else {
      item = fetch(frame, slots[i]);
    }
    if (item == NULL || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
  }
done:
  if (arrays != NULL) {
    for (Py_ssize_t i = 0; i < count; ++i) Py_XDECREF(arrays[i]);
  }
  if (frame != NULL) runner_finish(frame);
  if (slots != stack_slots) host_free(slots);
  if (arrays != stack_arrays) host_free(arrays);
  runner_leave(runner);
  return list;
}

/* run(output_names or None, feed, run_options address or None) -> list */
static PyObject* runner_run(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs < 2 || nargs > 3) {
    PyErr_SetString(PyExc_TypeError, "run takes output names, a feed and run options");
    return NULL;
  }
  PyObject *names = args[0], *options = nargs > 2 ? args[2] : NULL;
  if (names == Py_None) return run_for((Runner*)self, NULL, args[1], options);
  if (PyList_Check(names) || PyTuple_Check(names)) return run_for((Runner*)self, names, args[1], options);
  /* A set, the keys of a dict, what a generator gives. */
  PyObject* list = PyUnicode_Check(names) || PyBytes_Check(names) ? NULL : PySequence_List(names);
  if (list == NULL) {
    if (PyErr_Occurred() == NULL || PyErr_ExceptionMatches(PyExc_TypeError))
      PyErr_Format(PyExc_TypeError, "output names are a list of str, or None for all, not %R", names);
    return NULL;
  }
  PyObject* results = run_for((Runner*)self, list, args[1], options);
  Py_DECREF(list);
  return results;
}

/* close() -> bool: from now on nobody runs the plan, which may then be freed; False while somebody does. */
static PyObject* runner_close(PyObject* self, PyObject* args) {
  Runner* runner = (Runner*)self;
  (void)args;
  int runs = 0;
  const bool closed = atomic_compare_exchange_strong(&runner->runs, &runs, RUNNER_CLOSED);
  return PyBool_FromLong(closed || runs == RUNNER_CLOSED);
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

PyObject* runner_make_type(void) { return PyType_FromSpec(&runner_spec); }
