/* The plan of a session (plan.c), the frame of a run (frame.c), and the run itself (run.c). */
#ifndef EPHOST_PLAN_H_
#define EPHOST_PLAN_H_

#include "forks.h"
#include "options.h"
#include "platform.h"
#include "python.h"
#include "streams.h"
#include "threads.h"
#include "value.h"

typedef enum StepKind {
  STEP_COMPILED, /* object: OrtNodeComputeInfo*, state: its compute state */
  STEP_KERNEL,   /* object: OrtKernelImpl* */
  STEP_PYTHON,   /* object: a Python callable, for nodes on the reference fallback */
  STEP_COPY,     /* object: OrtDataTransferImpl*: inputs are copied to outputs, on another device */
  STEP_HOST,     /* object: HostKernel*, for nodes that the host itself runs */
} StepKind;

typedef struct Step Step;
typedef struct Frame Frame;

/* What runs a node in the host itself, without the GIL. */
typedef struct HostKernel {
  OrtStatus* (*run)(const struct HostKernel* kernel, const Step* step, Frame* frame);
  void (*free)(struct HostKernel* kernel);
} HostKernel;

struct Step {
  StepKind kind;
  int ep; /* index into Plan.eps; -1 for the fallback and for custom operators of the host */
  void* object;
  void* state;
  const OrtKernelDef* definition; /* a kernel's, which says what of it may share memory; NULL: nothing may */
  char* node_name;                /* what an error and a profile call it */
  char* op_type;
  bool is_group;   /* those names are of several nodes */
  int32_t* inputs; /* slots; -1: an optional one left out */
  size_t input_count;
  int32_t* outputs;
  size_t output_count;
  /* lifetimes.c: */
  bool* is_read;     /* of each output */
  int32_t* releases; /* slots that nobody reads after this step, in the plan's */
  size_t release_count;
  int32_t* reuses; /* for each output the slot of an input whose memory it may take over; -1: none */
};

/* One value of the graph. */
typedef struct Slot {
  ONNXTensorElementDataType element_type; /* of a tensor; undefined when the graph doesn't say */
  OrtValue* constant;                     /* an initializer; owned */
  bool planned;                           /* its memory is at arena_offset of the frame's arena */
  size_t arena_offset;
  size_t arena_bytes;
  const OrtMemoryInfo* memory; /* where a kernel's output goes; NULL: CPU memory */
  OrtAllocator* allocator;     /* for `memory`; borrowed */
  int64_t* dims;               /* when all are known, else NULL */
  size_t rank;
  int32_t remote_slot; /* 1 + the slot of the same value on a device in a worker process; 0: there is none */
  atomic_bool was_of_other_shape; /* a run has said that its value had another shape than these dims */
} Slot;

typedef struct PlanEp {
  OrtEp* ep;
  char* name;
  OrtAllocator* allocator;     /* for the EP's default memory; NULL: CPU */
  const OrtMemoryInfo* memory; /* its default memory; NULL: CPU */
  OrtEpFactory* factory;       /* that makes its streams, when the EP doesn't; NULL: the EP has no streams */
  bool hears_of_runs;          /* OnRunStart and OnRunEnd are called, where it has them */
} PlanEp;

typedef struct Plan {
  Slot* slots;
  size_t slot_count;
  Step* steps;
  size_t step_count;
  PlanEp* eps;
  size_t ep_count;
  int32_t* inputs;        /* slots of the model's inputs, in order, overridable initializers after them */
  int32_t* device_inputs; /* the same in the memory of an EP that reads them; -1: no such EP */
  size_t input_count;
  int32_t* outputs;
  int32_t* device_outputs; /* the same in the EP's memory in which they are made; -1: the CPU's */
  size_t output_count;
  int32_t* releases; /* what steps release, one after the other */
  size_t arena_bytes;
  struct SharedPool* pool; /* what arenas lie in, for a worker to see; NULL: the host's own memory */
  bool is_served;          /* runs for another process, which names the EP and the node of an error itself */
  ThreadPool* threads;     /* borrowed */
  const OrtLogger* logger;
  OrtRunOptions* default_options; /* what EPs are shown when the caller gave none */
  bool is_body;                   /* runs inside a run of another plan */
  int capture_ep;                 /* the EP that records runs and replays them; -1: none */
  bool exclusive;                 /* an EP said that runs must not overlap */
  Mutex exclusive_lock;
  _Atomic(Frame*) spare_frame; /* taken and given back without the lock; NULL: a run has it */
  Mutex frames_lock;
  ForkWatch frames_watch, profile_watch;
  Frame* free_frames;    /* further ones, of runs at the same time */
  atomic_bool profiling; /* relaxed where a run reads it: a step more or less may be seen */
  Mutex profile_lock;
  OrtEpProfilerImpl** profilers; /* of EPs, told of events; lent, as long as the plan */
  size_t profiler_count;
  int64_t profile_start;
  EphostStepTime* times;
  size_t time_count;
  size_t time_capacity;
} Plan;

typedef struct Scratch {
  struct Scratch* link;
  OrtAllocator* allocator;
  void* block;
} Scratch;

struct OrtKernelContext {
  Frame* frame;
  const Step* step;
  Scratch* scratch; /* given out by GetScratchBuffer, taken back after the step */
};

/* An output whose memory was there before the run. */
enum Preallocated {
  /* by the host, from the shape that the graph declares: given up when it proves wrong */
  PREALLOCATED_GUESS = 1,
  PREALLOCATED_BOUND = 2, /* by the user: another shape is an error */
  PREALLOCATED_GIVEN = 4, /* the kernel has asked for it */
};

/* What a run that does not run every step has to do with a value. */
enum Need {
  NEED_NOT,
  NEED_READ, /* a step that runs reads it */
  NEED_KEPT, /* the run was asked for it */
};

struct Frame {
  Plan* plan;
  Frame* link;
  const OrtRunOptions* options;
  OrtKernelContext context;
  char* arena;
  OrtValue** values;       /* what each slot holds: the plan's constant or &storage[slot] */
  uint8_t* preallocated;   /* Preallocated flags of each slot */
  bool replayed;           /* an EP repeated a run that it had recorded: no step has run, no slot is set */
  OrtSyncStream** streams; /* one for each of the plan's EPs; NULL for those without */
  /* A body's: those of the run around it, which has the same EPs, so that what one leaves on a device the
   * other may read. NULL: its own. */
  OrtSyncStream** lent_streams;
  bool uploads_on_given; /* a stream that the run's options name reads memory of the CPU */
  bool has_uploaded;     /* another one does */
  bool* given;           /* of each input: it is in its device's slot instead of the CPU's */
  size_t given_count;
  uint8_t* needed; /* Need of each slot in this run; NULL: every step runs */
  uint8_t* needs;  /* the memory for it, with what was worked out last */
  int32_t* route;  /* what that was worked out for: the slots fetched, then those given on a device */
  size_t route_fetched;
  size_t route_given;
  /* Where a run for another process has its outputs: sets `data` for the plan's outputs. NULL: nowhere. */
  OrtStatus* (*provide)(Frame* frame, int32_t slot, ONNXTensorElementDataType element_type,
                        const int64_t* dims, size_t rank, void** data);
  void* provider;
  void** held; /* one for each input: the Python object whose memory the run borrows; runner.c's alone */
  /* The PyThreadState of the thread that runs it for Python's code and has left Python for that, with nothing
   * of a plugin in between. NULL: it is run by others. */
  void* python_thread;
  OrtValue storage[];
};

/* value_clear, without the call for what nearly every value is: a small tensor in the arena. */
/* What an error calls a step, for "%s '%s'". */
#define NODES_OF(step) ((step)->is_group ? "nodes" : "node"), (step)->node_name

static inline void drop_value(OrtValue* value) {
  if (value->buffer == NULL && value->type == ONNX_TYPE_TENSOR && value->dims == value->inline_dims &&
      value->element_type != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    value->type = ONNX_TYPE_UNKNOWN;
  } else if (value->type != ONNX_TYPE_UNKNOWN) {
    value_clear(value);
  }
}

/* The streams of the run's EPs, its own or lent. */
static inline OrtSyncStream** frame_streams(const Frame* frame) {
  return frame->lent_streams != NULL ? frame->lent_streams : frame->streams;
}

/* The stream that an EP's work of this run goes on: the one that the run's options name, when it is of the
 * EP's device, or the frame's own; NULL for none. */
OrtSyncStream* frame_stream(const Frame* frame, int ep);
/* A frame with every slot empty but the constants. NULL where an EP fails, which `failed` says then, or
 * without memory. */
Frame* frame_acquire(Plan* plan, OrtStatus** failed);
/* Takes it back, dropping every value left in it. */
void frame_release(Frame* frame);
/* The value of a step's output with this shape: the memory that was there before the run, the arena's, or new
 * memory of the kind that the slot asks for. The slot must not be -1. */
OrtStatus* frame_output(Frame* frame, const Step* step, size_t index, ONNXTensorElementDataType element_type,
                        const int64_t* dims, size_t rank, OrtValue** out);
/* Whether what the step's input holds is the run's own, and the step the last to see it. */
bool frame_ends(const Frame* frame, const Step* step, size_t index);
/* Makes a tensor, which is taken over also on failure, a step's output, or its content that of the value that
 * is bound to it. The slot must not be -1. */
OrtStatus* frame_give(Frame* frame, const Step* step, size_t index, OrtValue* made);
/* Whether a step writes a slot that is needed. */
bool step_needed(const Plan* plan, const Step* step, const uint8_t* needed);
/* From here on the frame's run runs only the steps that these slots need. False without memory. */
bool frame_fetch_only(Frame* frame, const int32_t* slots, size_t count);
/* Whether the memory of a value is borrowed from the frame or a caller, so that it must be copied to outlive
 * the run. */
bool frame_borrows(const Frame* frame, int32_t slot);
/* Runs every step. The caller has put the inputs into storage. NULL when all went well. Without the GIL. */
OrtStatus* plan_execute(Frame* frame, const OrtRunOptions* options);

/* Set by call.c: runs a step on the reference fallback, taking the GIL. */
extern OrtStatus* (*plan_python_step)(const Step* step, Frame* frame);
/* Set by call.c: drops the reference to a step's Python object, taking the GIL. */
extern void (*plan_python_release)(void* object);

#endif
