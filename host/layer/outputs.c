/* Inputs and outputs of a Compute.
 *
 * An output in the processor's memory is lent to the plugin as another tensor: the layer's own, between two
 * guards and full of a pattern. After Compute what is in it goes to the host's. Where the host's lies over an
 * input, as it may for operators that work in place, the plugin gets it as it is: whether both are one
 * decides what a kernel does. Inputs are compared by a hash, and may be lent as well (inputs.c). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

enum { GUARD = 256, PATTERN = 4096, STEP = 16, HASHED_WHOLE = 4 << 20, HASHED_PART = 1 << 20 };

typedef struct Declared { /* of one output of a fused node */
  int64_t* dims;          /* -1: not said */
  size_t rank;
  bool has_shape;
} Declared;

struct DeclaredOutputs {
  bool are_needed; /* all of them, as a fused node's are */
  size_t count;
  Declared outputs[];
};

typedef struct Output {
  struct Output* next;
  size_t index;
  OrtValue* real;
  OrtValue* lent; /* NULL: the real one was */
  char* memory;   /* with the guards */
  char* target;
  size_t bytes;
} Output;

typedef struct Input {
  struct Input* next;
  size_t index;
  const char* data; /* the host's */
  size_t bytes;
  uint64_t hash;
  LentInput* lent; /* NULL: the real one was */
} Input;

struct Computing {
  Computing* next;
  OrtKernelContext* context;
  const DeclaredOutputs* declared;
  pthread_mutex_t mutex; /* kernels may ask from several threads */
  Output* outputs;
  Input* inputs;
  size_t output_count;
  bool* asked; /* NULL: it is not known how many there are, or they need not be asked for */
  bool knows_inputs;
};

_Atomic(bool) checks_bounds;
static Computing* all;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char pattern[PATTERN];
static pthread_once_t pattern_once = PTHREAD_ONCE_INIT;

static bool good(OrtStatus* status) {
  if (status == NULL) return true;
  real_OrtApi->ReleaseStatus(status);
  return false;
}
#define GOOD(call) good(real_OrtApi->call)

static void make_pattern(void) {
  uint64_t bits = 0x9E3779B97F4A7C15U;
  for (size_t i = 0; i < PATTERN; ++i) {
    bits = bits * 6364136223846793005U + 1442695040888963407U;
    pattern[i] = (char)(bits >> 56 | 2); /* no 0 and no 1, which are what outputs are full of */
  }
}

static void fill(char* to, size_t bytes) {
  for (size_t at = 0; at < bytes; at += PATTERN)
    memcpy(to + at, pattern, bytes - at < PATTERN ? bytes - at : PATTERN);
}

/* Where the first byte is that differs from the pattern; `bytes` when none does. */
static size_t first_written(const char* data, size_t bytes) {
  for (size_t at = 0; at < bytes; ++at) {
    if (data[at] != pattern[at % PATTERN]) return at;
  }
  return bytes;
}

/* How many bytes of an output still are the pattern, in steps; `where`: the first of them. */
static size_t left_unwritten(const char* data, size_t bytes, size_t* where) {
  size_t left = 0;
  for (size_t at = 0; at < bytes; at += STEP) {
    size_t length = bytes - at < STEP ? bytes - at : STEP;
    if (length < STEP && (at != 0 || length < 4)) break; /* too little to be sure of */
    if (memcmp(data + at, pattern + at % PATTERN, length) == 0) {
      if (left == 0) *where = at;
      left += length;
    }
  }
  return left;
}

static uint64_t hash_part(const char* data, size_t bytes, uint64_t seed) {
  uint64_t lanes[4] = {seed, seed ^ 0xC2B2AE3D27D4EB4FU, seed ^ 0x165667B19E3779F9U,
                       seed ^ 0x27D4EB2F165667C5U};
  size_t at = 0;
  for (; at + 32 <= bytes; at += 32) {
    uint64_t words[4];
    memcpy(words, data + at, sizeof words);
    for (size_t lane = 0; lane < 4; ++lane) {
      lanes[lane] = (lanes[lane] ^ words[lane]) * 0x9E3779B185EBCA87U;
      lanes[lane] ^= lanes[lane] >> 29;
    }
  }
  for (; at < bytes; ++at) lanes[0] = (lanes[0] ^ (unsigned char)data[at]) * 0x100000001B3U;
  return lanes[0] ^ lanes[1] * 3 ^ lanes[2] * 5 ^ lanes[3] * 7;
}

/* Of a large input the beginning and the end. */
static uint64_t hash(const char* data, size_t bytes) {
  if (bytes <= HASHED_WHOLE) return hash_part(data, bytes, bytes);
  return hash_part(data, HASHED_PART, bytes) ^ hash_part(data + bytes - HASHED_PART, HASHED_PART, ~bytes);
}

static bool element_type(const OrtValue* value, ONNXTensorElementDataType* type) {
  if (host_version() >= 24) {
    const int64_t* dims = NULL;
    size_t rank = 0;
    return GOOD(GetTensorElementTypeAndShapeDataReference(value, type, &dims, &rank));
  }
  OrtTensorTypeAndShapeInfo* shape = NULL;
  if (!GOOD(GetTensorTypeAndShape(value, &shape))) return false;
  bool known = GOOD(GetTensorElementType(shape, type));
  real_OrtApi->ReleaseTensorTypeAndShapeInfo(shape);
  return known;
}

/* The bytes of a tensor in the processor's memory; false for any other value. */
static bool bytes_of(const OrtValue* value, char** data, size_t* bytes) {
  int is_tensor = 0;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  const OrtMemoryInfo* info = NULL;
  OrtMemoryInfoDeviceType device = OrtMemoryInfoDeviceType_GPU;
  void* start = NULL;
  if (!GOOD(IsTensor(value, &is_tensor)) || !is_tensor || !element_type(value, &type)) return false;
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return false;
  if (!GOOD(GetTensorMemoryInfo(value, &info)) || info == NULL) return false;
  real_OrtApi->MemoryInfoGetDeviceType(info, &device);
  if (device != OrtMemoryInfoDeviceType_CPU) return false;
  if (!GOOD(GetTensorMutableData((OrtValue*)(uintptr_t)value, &start)) || start == NULL) return false;
  *data = start;
  return GOOD(GetTensorSizeInBytes(value, bytes));
}

/* ---- what was declared ---- */

static void read_declared(Declared* output, const OrtTypeInfo* type) {
  const OrtTensorTypeAndShapeInfo* shape = NULL;
  size_t rank = 0;
  if (!GOOD(CastTypeInfoToTensorInfo(type, &shape)) || shape == NULL) return;
  /* An older host does not tell a scalar from what is not known. */
  if (host_version() < 24 || !real_OrtApi->TensorTypeAndShape_HasShape(shape)) return;
  if (!GOOD(GetDimensionsCount(shape, &rank))) return;
  output->dims = calloc(rank + 1, sizeof *output->dims);
  output->rank = rank;
  output->has_shape = output->dims != NULL && GOOD(GetDimensions(shape, output->dims, rank));
}

static DeclaredOutputs* new_declared(size_t count, bool are_needed) {
  DeclaredOutputs* declared = calloc(1, sizeof *declared + count * sizeof declared->outputs[0]);
  if (declared != NULL) {
    declared->count = count;
    declared->are_needed = are_needed;
  }
  return declared;
}

void outputs_declared(const void* maker, const OrtNode* fused) {
  size_t count = 0;
  if (maker == NULL || fused == NULL || !GOOD(Node_GetNumOutputs(fused, &count))) return;
  const OrtValueInfo** values = calloc(count + 1, sizeof *values);
  DeclaredOutputs* declared = new_declared(count, true);
  if (values != NULL && declared != NULL && GOOD(Node_GetOutputs(fused, values, count))) {
    for (size_t i = 0; i < count; ++i) {
      const OrtTypeInfo* type = NULL;
      if (values[i] != NULL && GOOD(GetValueInfoTypeInfo(values[i], &type)) && type != NULL) {
        read_declared(&declared->outputs[i], type);
      }
    }
    declared = object_attach(maker, declared);
  }
  outputs_undeclare(declared);
  free((void*)values);
}

void outputs_declared_of_kernel(const OrtKernelImpl* kernel, const OrtKernelInfo* info) {
  size_t count = 0;
  if (!GOOD(KernelInfo_GetOutputCount(info, &count))) return;
  DeclaredOutputs* declared = new_declared(count, false);
  for (size_t i = 0; declared != NULL && i < count; ++i) {
    OrtTypeInfo* type = NULL;
    if (!GOOD(KernelInfo_GetOutputTypeInfo(info, i, &type)) || type == NULL) continue; /* left out */
    read_declared(&declared->outputs[i], type);
    real_OrtApi->ReleaseTypeInfo(type);
  }
  outputs_undeclare(object_attach(kernel, declared));
}

void outputs_undeclare(DeclaredOutputs* declared) {
  for (size_t i = 0; declared != NULL && i < declared->count; ++i) free(declared->outputs[i].dims);
  free(declared);
}

static void check_shape(const DeclaredOutputs* declared, size_t index, const int64_t* dims, size_t rank) {
  if (declared == NULL || index >= declared->count || !declared->outputs[index].has_shape) return;
  const Declared* output = &declared->outputs[index];
  bool fits = output->rank == rank;
  for (size_t i = 0; fits && i < rank; ++i) fits = output->dims[i] < 0 || output->dims[i] == dims[i];
  if (fits) return;
  char said[512] = "";
  char given[512] = "";
  for (size_t i = 0; i < output->rank && strlen(said) < 480; ++i) {
    (void)snprintf(said + strlen(said), 32, "%s%lld", i != 0 ? "," : "", (long long)output->dims[i]);
  }
  for (size_t i = 0; i < rank && strlen(given) < 480; ++i) {
    (void)snprintf(given + strlen(given), 32, "%s%lld", i != 0 ? "," : "", (long long)dims[i]);
  }
  found(EPV_OUT_002, NULL, "output %zu has the shape [%s], and the graph says [%s] (-1: not known)", index,
        given, said);
}

/* ---- a call of Compute ---- */

void outputs_begin(Checked* call, OrtKernelContext* context, const void* maker) {
  if (context == NULL) return;
  Computing* computing = calloc(1, sizeof *computing);
  if (computing == NULL) return;
  pthread_once(&pattern_once, make_pattern);
  computing->context = context;
  computing->declared = maker != NULL ? object_attached(maker) : NULL;
  pthread_mutex_init(&computing->mutex, NULL);
  bool are_needed = computing->declared != NULL && computing->declared->are_needed;
  if (are_needed && GOOD(KernelContext_GetOutputCount(context, &computing->output_count))) {
    computing->asked = calloc(computing->output_count + 1, sizeof *computing->asked);
  }
  call->outputs = computing;
  pthread_mutex_lock(&mutex);
  computing->next = all;
  all = computing;
  pthread_mutex_unlock(&mutex);
}

/* Threads of the plugin's and of the host's pool may ask for the call that another is in. */
static Computing* computing_of(const OrtKernelContext* context) {
  for (const Checked* call = innermost; call != NULL; call = call->outer) {
    if (call->outputs != NULL && call->outputs->context == context) return call->outputs;
  }
  pthread_mutex_lock(&mutex);
  Computing* computing = all;
  while (computing != NULL && computing->context != context) computing = computing->next;
  pthread_mutex_unlock(&mutex);
  return computing;
}

/* What is known of an input in the processor's memory; NULL of any other. */
static Input* add_input(Computing* computing, size_t index, const OrtValue* value) {
  for (Input* input = computing->inputs; input != NULL; input = input->next) {
    if (input->index == index) return input;
  }
  char* data = NULL;
  size_t bytes = 0;
  if (value == NULL || !bytes_of(value, &data, &bytes) || bytes == 0) return NULL;
  Input* input = malloc(sizeof *input);
  if (input == NULL) return NULL;
  *input = (Input){computing->inputs, index, data, bytes, hash(data, bytes), NULL};
  computing->inputs = input;
  return input;
}

void outputs_took(const OrtKernelContext* context, size_t index, const OrtValue** value) {
  Computing* computing = checks_bounds ? computing_of(context) : NULL;
  if (computing == NULL) return;
  pthread_mutex_lock(&computing->mutex);
  Input* input = add_input(computing, index, *value);
  if (input != NULL && input->lent == NULL && checks_reads) {
    input->lent = input_lend(*value, input->data, input->bytes);
  }
  if (input != NULL && input->lent != NULL) *value = input_value(input->lent);
  pthread_mutex_unlock(&computing->mutex);
}

static bool overlap(const char* one, size_t one_bytes, const char* other, size_t other_bytes) {
  return one < other + other_bytes && other < one + one_bytes;
}

/* Whether the bytes are those of an input, also of one that the kernel has not asked for yet. */
static bool is_over_an_input(Computing* computing, const char* data, size_t bytes) {
  size_t count = 0;
  if (!computing->knows_inputs && GOOD(KernelContext_GetInputCount(computing->context, &count))) {
    for (size_t i = 0; i < count; ++i) {
      const OrtValue* value = NULL;
      if (GOOD(KernelContext_GetInput(computing->context, i, &value))) add_input(computing, i, value);
    }
  }
  computing->knows_inputs = true;
  for (const Input* input = computing->inputs; input != NULL; input = input->next) {
    if (overlap(input->data, input->bytes, data, bytes)) return true;
  }
  return false;
}

static OrtValue* new_value(const OrtValue* like, char* data, size_t bytes, const int64_t* dims, size_t rank) {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const OrtMemoryInfo* info = NULL;
  OrtValue* value = NULL;
  if (!element_type(like, &type) || !GOOD(GetTensorMemoryInfo(like, &info))) return NULL;
  return GOOD(CreateTensorWithDataAsOrtValue(info, data, bytes, dims, rank, type, &value)) ? value : NULL;
}

OrtValue* value_over(const OrtValue* like, char* data, size_t bytes) {
  OrtTensorTypeAndShapeInfo* shape = NULL;
  size_t rank = 0;
  if (!GOOD(GetTensorTypeAndShape(like, &shape))) return NULL;
  OrtValue* value = NULL;
  int64_t* dims = GOOD(GetDimensionsCount(shape, &rank)) ? calloc(rank + 1, sizeof *dims) : NULL;
  if (dims != NULL && GOOD(GetDimensions(shape, dims, rank)))
    value = new_value(like, data, bytes, dims, rank);
  free(dims);
  real_OrtApi->ReleaseTensorTypeAndShapeInfo(shape);
  return value;
}

/* The layer's tensor in the place of this one; NULL without memory. */
static OrtValue* between_guards(Output* output, const int64_t* dims, size_t rank) {
  size_t room = ((size_t)2 * GUARD + output->bytes + GUARD - 1) / GUARD * GUARD;
  output->memory = aligned_alloc(GUARD, room);
  if (output->memory == NULL) return NULL;
  fill(output->memory, GUARD);
  fill(output->memory + GUARD, output->bytes);
  fill(output->memory + GUARD + output->bytes, GUARD);
  return new_value(output->real, output->memory + GUARD, output->bytes, dims, rank);
}

void outputs_gave(OrtKernelContext* context, size_t index, const int64_t* dims, size_t rank,
                  OrtValue** value) {
  Computing* computing = computing_of(context);
  if (computing == NULL) return;
  pthread_mutex_lock(&computing->mutex);
  if (computing->asked != NULL && index < computing->output_count) computing->asked[index] = true;
  if (*value != NULL) check_shape(computing->declared, index, dims, rank);
  Output* output = computing->outputs;
  while (output != NULL && output->index != index) output = output->next;
  if (output != NULL) {
    if (output->real == *value && output->lent != NULL) *value = output->lent;
  } else if (checks_bounds && *value != NULL && (output = calloc(1, sizeof *output)) != NULL) {
    output->index = index;
    output->real = *value;
    output->next = computing->outputs;
    computing->outputs = output;
    if (bytes_of(*value, &output->target, &output->bytes) && output->bytes != 0 &&
        !is_over_an_input(computing, output->target, output->bytes)) {
      output->lent = between_guards(output, dims, rank);
      if (output->lent != NULL) *value = output->lent;
    }
  }
  pthread_mutex_unlock(&computing->mutex);
}

/* The plugin has the host's own, from here on. */
void outputs_preallocated(const OrtKernelContext* context, size_t index, const OrtValue* value) {
  Computing* computing = value != NULL ? computing_of(context) : NULL;
  if (computing == NULL) return;
  pthread_mutex_lock(&computing->mutex);
  if (computing->asked != NULL && index < computing->output_count) computing->asked[index] = true;
  Output* output = computing->outputs;
  while (output != NULL && output->index != index) output = output->next;
  if (output == NULL && (output = calloc(1, sizeof *output)) != NULL) {
    output->index = index;
    output->real = (OrtValue*)(uintptr_t)value;
    output->next = computing->outputs;
    computing->outputs = output;
    (void)bytes_of(value, &output->target, &output->bytes);
  }
  pthread_mutex_unlock(&computing->mutex);
}

static void check_guards(const Output* output) {
  const char* data = output->memory + GUARD;
  size_t behind = first_written(data + output->bytes, GUARD);
  if (behind < GUARD) {
    found(EPV_BOUND_001, NULL, "byte %zu behind output %zu, which has %zu bytes, is written", behind + 1,
          output->index, output->bytes);
  }
  size_t before = GUARD;
  while (before > 0 && output->memory[before - 1] == pattern[before - 1]) --before;
  if (before > 0) {
    found(EPV_BOUND_002, NULL, "byte %zu before output %zu is written", GUARD - before + 1, output->index);
  }
}

static void check_written(const Output* output) {
  size_t where = 0;
  size_t left = left_unwritten(output->memory + GUARD, output->bytes, &where);
  if (left != 0) {
    found(EPV_BOUND_004, NULL, "%zu of the %zu bytes of output %zu are not written, from byte %zu on", left,
          output->bytes, output->index, where);
  }
}

static bool is_over_an_output(const Computing* computing, const Input* input) {
  for (const Output* output = computing->outputs; output != NULL; output = output->next) {
    if (output->target != NULL && overlap(input->data, input->bytes, output->target, output->bytes))
      return true;
  }
  return false;
}

static void check_inputs(const Computing* computing) {
  for (const Input* input = computing->inputs; input != NULL; input = input->next) {
    bool is_own = input->lent != NULL;
    const char* data = is_own ? input_data(input->lent) : input->data;
    if ((is_own || !is_over_an_output(computing, input)) && hash(data, input->bytes) != input->hash) {
      found(EPV_BOUND_003, NULL, "input %zu is not what it was before the call", input->index);
    }
  }
}

static void free_computing(Computing* computing) {
  while (computing->outputs != NULL) {
    Output* output = computing->outputs;
    computing->outputs = output->next;
    if (output->lent != NULL) real_OrtApi->ReleaseValue(output->lent);
    free(output->memory);
    free(output);
  }
  while (computing->inputs != NULL) {
    Input* input = computing->inputs;
    computing->inputs = input->next;
    input_give_back(input->lent, input->index, input->bytes);
    free(input);
  }
  pthread_mutex_destroy(&computing->mutex);
  free(computing->asked);
  free(computing);
}

void outputs_end(Checked* call, bool succeeded) {
  Computing* computing = call->outputs;
  if (computing == NULL) return;
  call->outputs = NULL;
  pthread_mutex_lock(&mutex);
  Computing** at = &all;
  while (*at != computing) at = &(*at)->next;
  *at = computing->next;
  pthread_mutex_unlock(&mutex);
  for (const Output* output = computing->outputs; output != NULL; output = output->next) {
    if (output->lent == NULL) continue;
    check_guards(output);
    if (succeeded) check_written(output);
    memcpy(output->target, output->memory + GUARD, output->bytes);
  }
  check_inputs(computing);
  for (size_t i = 0; succeeded && computing->asked != NULL && i < computing->output_count; ++i) {
    if (!computing->asked[i]) found(EPV_OUT_001, NULL, "Compute succeeds without asking for output %zu", i);
  }
  free_computing(computing);
}
