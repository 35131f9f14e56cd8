/* ephost._call.Runner: one session's plan, ready to be called. All need a thread that is attached to the
 * interpreter. */
#ifndef EPHOST_NATIVE_RUNNER_H_
#define EPHOST_NATIVE_RUNNER_H_

#include <stdatomic.h>

#include "plan.h"
#include "python_values.h"

typedef struct InputSpec {
  PyObject* name;
  int type_number; /* numpy's; -1: not a plain tensor, always the slow way */
  int rank;        /* -1: not known */
  int64_t* dims;   /* -1: any */
  ONNXTensorElementDataType element_type;
  bool required;
  bool may_be_nothing; /* An optional without a default: where it is not fed it holds nothing. */
} InputSpec;

typedef struct Runner {
  PyObject_HEAD
  Plan* plan;             /* to be used between runner_enter and runner_leave */
  atomic_int runs;        /* how many are in between; RUNNER_CLOSED: the session is closed */
  PyObject* owner;        /* keeps the plan alive: the session's native part */
  PyObject* convert;      /* callable(index, object) -> array or OrtValue; raises what is wrong with a feed */
  PyObject* feed_error;   /* callable(feed) -> exception, for missing and unknown names */
  PyObject* output_names; /* tuple */
  PyObject* output_index; /* dict: name -> index */
  InputSpec* inputs;
  size_t input_count;
  uint64_t serial; /* no other runner of this process has it */
} Runner;

/* Whether the value is a tensor of numbers such as the input takes. */
bool input_spec_fits(const InputSpec* spec, const OrtValue* value);
/* Whether the value is in the memory that the slot is in; no slot: false. */
bool is_memory_of(const Plan* plan, int32_t slot, const OrtValue* value);
/* Keeps the plan until runner_leave. False, with an exception set, when the session is closed. */
bool runner_enter(Runner* runner);
void runner_leave(Runner* runner);
/* Raises what the names of a feed lack, or have too much. */
void runner_raise_feed_error(Runner* runner, PyObject* feed);
/* Raises why a run's frame cannot be made: what failed, or for NULL that there is no memory. Takes the
 * status. */
void runner_no_frame(const Runner* runner, OrtStatus* failed);
/* The index of the output with this name, -1 with an exception set when there is none. */
Py_ssize_t runner_output_index(Runner* runner, PyObject* name);
/* The feed for one input, without a copy and without a new object where it is just the array that the model
 * wants. -1 with an exception set. */
int runner_bind_feed(Runner* runner, Frame* frame, size_t index, PyObject* object);
/* Runs the frame for the outputs in these slots, some of which may be on a device. -1: an exception is set.
 */
int runner_execute(Runner* runner, Frame* frame, PyObject* options, const int32_t* slots, size_t count,
                   bool on_device);
/* Gives the frame back and lets go of the arrays that the run borrowed. */
void runner_finish(Frame* frame);
/* The new type; NULL with an exception set. */
PyObject* runner_make_type(void);

/* binding.c: methods of Runner, and the type of what its bind makes. */
PyObject* runner_bind(PyObject* self, PyObject* const* args, Py_ssize_t nargs);
PyObject* runner_made(PyObject* self, PyObject* object);
PyObject* runner_run_bound(PyObject* self, PyObject* const* args, Py_ssize_t nargs);
PyObject* binding_make_type(void);

#endif
