/* ephost._call.Binding: what a runner's inputs and outputs are bound to, for any number of runs. */
#define _GNU_SOURCE
#include <string.h>

#include "heap.h"
#include "memory.h"
#include "runner.h"

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

/* Whether a step or the caller takes a value. */
static bool is_read(const Plan* plan, int32_t slot) {
  for (size_t i = 0; i < plan->step_count; ++i)
    for (size_t j = 0; j < plan->steps[i].input_count; ++j)
      if (plan->steps[i].inputs[j] == slot) return true;
  for (size_t i = 0; i < plan->output_count; ++i)
    if (plan->outputs[i] == slot || plan->device_outputs[i] == slot) return true;
  return false;
}

/* Puts what is fed for the inputs into the binding. What nobody reads may be left out. */
static int bind_inputs(Runner* runner, Binding* binding, PyObject* feed) {
  Py_ssize_t found = 0;
  bool missing = false;
  for (size_t i = 0; i < runner->input_count; ++i) {
    PyObject* object;
    const int there = dict_get(feed, runner->inputs[i].name, &object);
    if (there < 0) return -1;
    if (there == 0) {
      missing = missing || (runner->inputs[i].required && is_read(runner->plan, runner->plan->inputs[i]));
      if (!runner->inputs[i].may_be_nothing) continue;
      object = Py_NewRef(Py_None);
    } else {
      ++found;
    }
    const OrtValue* value = wrapped_value(object);
    bool as_it_is =
        value != NULL && input_spec_fits(&runner->inputs[i], value) && memory_info_is_cpu(value->memory_info);
    binding->inputs[binding->input_count++] =
        (BoundInput){.index = i, .object = object, .value = as_it_is ? value : NULL};
  }
  if (!missing && found == PyDict_Size(feed)) return 0;
  runner_raise_feed_error(runner, feed);
  return -1;
}

/* Puts one wanted output into the binding: (name, an OrtValue to write to, None for a new value on the CPU,
 * True for one where it is made). */
static int bind_output(Runner* runner, Binding* binding, PyObject* pair) {
  const Plan* plan = runner->plan;
  PyObject *name, *object;
  if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "OO", &name, &object)) {
    if (PyErr_Occurred() == NULL)
      PyErr_SetString(PyExc_TypeError, "an output is a pair of its name and a target");
    return -1;
  }
  Py_ssize_t index = runner_output_index(runner, name);
  if (index < 0) return -1;
  int32_t device_slot = plan->device_outputs[index];
  BoundOutput output = {.slot = plan->outputs[index]};
  if (object == Py_True) {
    if (device_slot >= 0) output.slot = device_slot;
  } else if (object != Py_None) {
    OrtValue* target = (OrtValue*)(uintptr_t)wrapped_value(object);
    if (target == NULL) {
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
    if (is_numbers && is_cpu && fits && plan->slots[output.slot].constant == NULL) output.target = target;
    output.object = Py_NewRef(object);
  }
  binding->on_device = binding->on_device || output.slot != plan->outputs[index];
  binding->slots[binding->output_count] = output.slot;
  binding->outputs[binding->output_count++] = output;
  return 0;
}

static PyObject* binding_new(Runner* runner, PyObject* feed, PyObject* outputs) {
  size_t count = (size_t)PyList_Size(outputs);
  allocfunc allocate = (allocfunc)PyType_GetSlot(binding_type, Py_tp_alloc);
  Binding* binding = (Binding*)allocate(binding_type, 0);
  if (binding == NULL) return NULL;
  binding->serial = runner->serial;
  binding->inputs = host_malloc((runner->input_count ? runner->input_count : 1) * sizeof *binding->inputs);
  binding->outputs = host_malloc((count ? count : 1) * sizeof *binding->outputs);
  binding->slots = host_malloc((count ? count : 1) * sizeof *binding->slots);
  if (binding->inputs == NULL || binding->outputs == NULL || binding->slots == NULL) {
    PyErr_NoMemory();
    goto failed;
  }
  if (bind_inputs(runner, binding, feed) < 0) goto failed;
  for (size_t i = 0; i < count; ++i) {
    PyObject* pair = PyList_GetItem(outputs, (Py_ssize_t)i);
    if (pair == NULL || bind_output(runner, binding, pair) < 0) goto failed;
  }
  return (PyObject*)binding;
failed:
  Py_DECREF((PyObject*)binding);
  return NULL;
}

/* bind(feed: dict name -> object, outputs: list of pairs) -> Binding */
PyObject* runner_bind(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  Runner* runner = (Runner*)self;
  if (nargs != 2 || !PyDict_Check(args[0]) || !PyList_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "bind takes a dict of inputs and a list of outputs");
    return NULL;
  }
  if (!runner_enter(runner)) return NULL;
  PyObject* binding = binding_new(runner, args[0], args[1]);
  runner_leave(runner);
  return binding;
}

/* made(binding) -> bool: whether this runner made it and can run it */
PyObject* runner_made(PyObject* self, PyObject* object) {
  bool made = Py_TYPE(object) == binding_type && ((Binding*)object)->serial == ((Runner*)self)->serial;
  return PyBool_FromLong(made);
}

/* A new native value with what the run left in the slot, for the caller to own. */
static OrtValue* take_value(const Frame* frame, int32_t slot) {
  const OrtValue* source = frame->values[slot];
  OrtValue* value = value_new();
  if (value == NULL) return NULL;
  bool copies = frame_borrows(frame, slot) && source->type == ONNX_TYPE_TENSOR &&
                memory_info_is_cpu(source->memory_info);
  if (copies ? copy_tensor(value, source) : value_share(value, source)) return value;
  ephost_api.ReleaseValue(value);
  return NULL;
}

/* run_bound(binding, options) -> None when every output was written where it is bound, else the addresses of
 * new native values, 0 for those that were. The binding lives while its caller, who has it, is in here. */
PyObject* runner_run_bound(PyObject* self, PyObject* const* args, Py_ssize_t nargs) {
  Runner* runner = (Runner*)self;
  if (nargs != 2 || Py_TYPE(args[0]) != binding_type || ((Binding*)args[0])->serial != runner->serial) {
    PyErr_SetString(PyExc_TypeError, "run_bound takes a binding that the runner made, and run options");
    return NULL;
  }
  const Binding* binding = (const Binding*)args[0];
  if (!runner_enter(runner)) return NULL;
  PyObject* result = NULL;
  OrtStatus* failed = NULL;
  Frame* frame = frame_acquire(runner->plan, &failed);
  if (frame == NULL) {
    runner_no_frame(runner, failed);
    runner_leave(runner);
    return NULL;
  }
  for (size_t i = 0; i < binding->input_count; ++i) {
    const BoundInput* input = &binding->inputs[i];
    if (input->value != NULL) {
      frame->values[runner->plan->inputs[input->index]] = (OrtValue*)(uintptr_t)input->value;
    } else if (runner_bind_feed(runner, frame, input->index, input->object) < 0) {
      goto done;
    }
  }
  bool made = false; /* a value that is not written where the caller wants it */
  for (size_t i = 0; i < binding->output_count; ++i) {
    const BoundOutput* output = &binding->outputs[i];
    OrtValue* storage = &frame->storage[output->slot];
    if (output->target == NULL || frame->values[output->slot] != storage ||
        storage->type != ONNX_TYPE_UNKNOWN) {
      made = true; /* also when the output is an input as it is, or wanted twice */
      continue;
    }
    if (!value_share(storage, output->target)) {
      PyErr_NoMemory();
      goto done;
    }
    frame->preallocated[output->slot] = PREALLOCATED_BOUND;
  }
  if (runner_execute(runner, frame, args[1], binding->slots, binding->output_count, binding->on_device) < 0) {
    goto done;
  }
  if (!made) {
    result = Py_NewRef(Py_None);
    goto done;
  }
  result = PyList_New(frame->replayed ? 0 : (Py_ssize_t)binding->output_count);
  for (size_t i = 0; result != NULL && !frame->replayed && i < binding->output_count; ++i) {
    const BoundOutput* output = &binding->outputs[i];
    OrtValue* value = NULL;
    if (output->target == NULL || !(frame->preallocated[output->slot] & PREALLOCATED_BOUND) ||
        frame->storage[output->slot].data != output->target->data) {
      value = take_value(frame, output->slot);
      if (value == NULL) {
        PyErr_NoMemory();
        Py_CLEAR(result);
        break;
      }
    }
    PyObject* address = PyLong_FromVoidPtr(value);
    if (address == NULL || PyList_SetItem(result, (Py_ssize_t)i, address) < 0) Py_CLEAR(result);
  }
done:
  runner_finish(frame);
  runner_leave(runner);
  return result;
}

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

/* A new reference; the type stays for the life of the process. */
PyObject* binding_make_type(void) {
  binding_type = (PyTypeObject*)PyType_FromSpec(&binding_spec);
  return Py_XNewRef((PyObject*)binding_type);
}
