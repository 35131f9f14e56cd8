/* A plugin EP that writes down what the host calls, for tests that hold hosts against each other. Never
 * ships.
 *
 * It works on the CPU's memory, with kernels for Mul and Add (float32, equal shapes or one number as the
 * second operand) and for its own operators Twice and Shout. TRACE_PLUGIN in the environment is a list of
 * words, read when each thing happens:
 *
 * pack            kernels pack their constant inputs, and read nothing else afterwards
 * borrow          they say so, and go on reading the original, which the host frees then
 * share           they leave what they packed in the cache, when the host gives one
 * pack_fails      PrePackWeight returns an error
 * share_fails     SetSharedPrePackedWeight returns an error
 * custom_ops      the factory brings the operators of custom_ops.h; Twice and Shout are the EP's
 * bad_ops         it says that it has two domains and gives one
 * capture=N       the EP records the N-th run of each number and replays it from then on
 * shapes_on_cpu   nodes of the CPU may stay when runs are recorded
 * replay_fails    ReplayGraph returns an error
 * profile         the EP has a profiler
 * virtual         it makes a device of its own where the host allows that
 * interop         it imports memory; no_interop: it has no functions for that
 * resource=N      that many bytes are available
 * in_place        kernels may write over their first input
 * constants       kernels look at their constant inputs when they are made
 * nhwc=N          the EP wants channels last; asked about BatchNormalization it answers N
 * control         it has kernels for If, Loop and Scan, which the host makes
 * own_bodies      ... which it makes itself
 * as_cuda         the EP is called CUDAExecutionProvider
 * weightless      it says that it can compile without weights
 * misfit          it says why it does not offer a device
 * options         its devices have default options, and CreateEp writes down what it is given */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "custom_ops.h"
#include "interop.h"

/* ---- The list ------------------------------------------------------------------------------------------ */

/* What the plugin does goes into the file that TRACE_PLUGIN_LINES names, a line each: it may be in a process
 * of its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void trace(const char* format, ...) {
  const char* path = getenv("TRACE_PLUGIN_LINES");
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length < 0 || path == NULL) {
    return;
  }
  pthread_mutex_lock(&lock);
  FILE* file = fopen(path, "a");
  if (file != NULL) {
    (void)fprintf(file, "%s\n", line);
    (void)fclose(file);
  }
  pthread_mutex_unlock(&lock);
}

/* ---- Modes --------------------------------------------------------------------------------------------- */

static const char* find_mode(const char* word) {
  const char* text = getenv("TRACE_PLUGIN");
  const size_t length = strlen(word);
  while (text != NULL && *text != '\0') {
    const size_t n = strcspn(text, " ");
    if (n >= length && memcmp(text, word, length) == 0 && (n == length || text[length] == '=')) {
      return text + length;
    }
    text += n + (text[n] == ' ');
  }
  return NULL;
}

bool mode(const char* word) { return find_mode(word) != NULL; }

int number_of(const char* word, int otherwise) {
  const char* rest = find_mode(word);
  return rest != NULL && *rest == '=' ? atoi(rest + 1) : otherwise;
}

/* ---- The factory --------------------------------------------------------------------------------------- */

typedef struct TraceFactory {
  Factory factory;
  OrtKernelRegistry* registry;
  OrtCustomOpDomain* domain;
  CustomOps ops;
  OrtHardwareDevice* virtual_device;
} TraceFactory;

/* onnxruntime keeps to limits of resources for an EP of this name only. */
static const char* ep_name_now(void) { return mode("as_cuda") ? "CUDAExecutionProvider" : "trace"; }

/* ---- Kernels ------------------------------------------------------------------------------------------- */

typedef struct Kernel {
  OrtKernelImpl base;
  const TraceFactory* factory;
  char op;
  char name[64];
  const float* packed;   /* the negated second operand; ours, or the cache's */
  const float* borrowed; /* the second operand itself, which is the host's */
  size_t packed_size;
  OrtAllocator* allocator; /* that the packed memory is from, when it is ours */
} Kernel;

static OrtStatus* normalise(const Kernel* kernel, OrtKernelContext* context);

static OrtStatus* ORT_API_CALL compute(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  const Kernel* kernel = (const Kernel*)this_ptr;
  if (strchr("nN", kernel->op) != NULL) {
    return normalise(kernel, context);
  }
  const OrtApi* api = kernel->factory->factory.api;
  if (kernel->op == '!') {
    return shout(api, context);
  }
  const OrtValue *a = NULL, *b = NULL;
  OrtValue* y = NULL;
  ONNXTensorElementDataType type;
  const int64_t* dims = NULL;
  size_t rank = 0, a_size = 0, b_size = 0;
  const void *a_data = NULL, *b_data = NULL;
  void* out = NULL;
  TRY(api->KernelContext_GetInput(context, 0, &a));
  TRY(api->GetTensorElementTypeAndShapeDataReference(a, &type, &dims, &rank));
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &y));
  TRY(api->GetTensorData(a, &a_data));
  TRY(api->GetTensorSizeInBytes(a, &a_size));
  TRY(api->GetTensorMutableData(y, &out));
  if (kernel->op != '2') {
    TRY(api->KernelContext_GetInput(context, 1, &b));
    int there = b != NULL;
    if (there) {
      TRY(api->HasValue(b, &there)); /* onnxruntime gives a value that holds nothing */
    }
    trace("Compute '%s'%s%s", kernel->name, out == a_data ? " in place" : "",
          there ? "" : ", its second input is gone");
    if (kernel->packed != NULL || kernel->borrowed != NULL) {
      b_data = kernel->borrowed;
      b_size = kernel->packed_size;
    } else {
      TRY(api->GetTensorData(b, &b_data));
      TRY(api->GetTensorSizeInBytes(b, &b_size));
    }
    if (b_size != a_size && b_size != sizeof(float)) {
      return api->CreateStatus(ORT_INVALID_ARGUMENT, "trace_plugin: the shapes do not fit");
    }
  } else {
    trace("Compute '%s'", kernel->name);
  }
  for (size_t i = 0; i < a_size / sizeof(float); ++i) {
    const size_t k = b_size == a_size ? i : 0;
    const float x = ((const float*)a_data)[i];
    const float z = kernel->op == '2'        ? 2
                    : kernel->packed != NULL ? -kernel->packed[k]
                                             : ((const float*)b_data)[k];
    ((float*)out)[i] = kernel->op == '+' ? x + z : x * z;
  }
  return NULL;
}

static void ORT_API_CALL release_kernel(OrtKernelImpl* this_ptr) {
  Kernel* kernel = (Kernel*)this_ptr;
  trace("Release '%s'", kernel->name);
  if (kernel->allocator != NULL) {
    kernel->allocator->Free(kernel->allocator, (void*)(uintptr_t)kernel->packed);
  }
  free(kernel);
}

static OrtStatus* ORT_API_CALL prepack(OrtKernelImpl* this_ptr, const OrtValue* tensor, int input_index,
                                       OrtAllocator* allocator, OrtSharedPrePackedWeightCache* cache,
                                       bool* is_packed) {
  Kernel* kernel = (Kernel*)this_ptr;
  const Factory* factory = &kernel->factory->factory;
  const void* data = NULL;
  size_t size = 0;
  *is_packed = false;
  trace("PrePackWeight '%s' input %d, %s cache", kernel->name, input_index, cache != NULL ? "a" : "no");
  if (mode("pack_fails")) {
    return factory->api->CreateStatus(ORT_EP_FAIL, "the press is jammed");
  }
  if ((!mode("pack") && !mode("borrow")) || input_index != 1) {
    return NULL;
  }
  TRY(factory->api->GetTensorData(tensor, &data));
  TRY(factory->api->GetTensorSizeInBytes(tensor, &size));
  if (mode("borrow")) {
    kernel->borrowed = (const float*)data;
    kernel->packed_size = size;
    *is_packed = true;
    return NULL;
  }
  float* packed = (float*)allocator->Alloc(allocator, size);
  if (packed == NULL) {
    return out_of_memory(factory->api);
  }
  for (size_t i = 0; i < size / sizeof(float); ++i) {
    packed[i] = -((const float*)data)[i];
  }
  *is_packed = true;
  if (cache != NULL && mode("share")) {
    void* buffers[] = {packed};
    trace("StoreWeightData '%s'", kernel->name);
    return factory->ep_api->SharedPrePackedWeightCache_StoreWeightData(cache, buffers, &size, 1);
  }
  kernel->packed = packed;
  kernel->packed_size = size;
  kernel->allocator = allocator;
  return NULL;
}

static OrtStatus* ORT_API_CALL set_shared(OrtKernelImpl* this_ptr, const void* const* buffers,
                                          const size_t* sizes, size_t num_buffers, int input_index) {
  Kernel* kernel = (Kernel*)this_ptr;
  trace("SetSharedPrePackedWeight '%s' input %d, %zu buffer(s) of %zu bytes", kernel->name, input_index,
        num_buffers, num_buffers > 0 ? sizes[0] : 0);
  if (mode("share_fails") || num_buffers != 1) {
    return kernel->factory->factory.api->CreateStatus(ORT_EP_FAIL, "that is not ours");
  }
  kernel->packed = (const float*)buffers[0];
  kernel->packed_size = sizes[0];
  return NULL;
}

typedef struct KernelKind {
  const char* type;
  const char* domain;
  const char* constraint;
  int first, last;
  char op; /* + * 2 !; if, loop, scan: the host runs these; normalisation in either layout */
} KernelKind;

/* What the host's kernels for Loop and Scan leave to the EP: both work on float32 in the CPU's memory. */
typedef struct LoopHelper {
  OrtLoopKernelHelper base;
  const OrtApi* api;
} LoopHelper;

typedef struct ScanHelper {
  OrtScanKernelHelper base;
  const OrtApi* api;
} ScanHelper;

static void ORT_API_CALL release_loop_helper(OrtLoopKernelHelper* this_ptr) {
  trace("Release of the helper of Loop");
  free(this_ptr);
}

static void ORT_API_CALL release_scan_helper(OrtScanKernelHelper* this_ptr) {
  trace("Release of the helper of Scan");
  free(this_ptr);
}

static OrtStatus* ORT_API_CALL concat_output(OrtLoopKernelHelper* this_ptr, void* stream,
                                             const OrtValue* const* parts, size_t num_parts, void* output,
                                             size_t output_size) {
  const OrtApi* api = ((const LoopHelper*)this_ptr)->api;
  (void)stream, (void)output_size;
  char* end = (char*)output;
  for (size_t i = 0; i < num_parts; ++i) {
    const void* data = NULL;
    size_t size = 0;
    TRY(api->GetTensorData(parts[i], &data));
    TRY(api->GetTensorSizeInBytes(parts[i], &size));
    memcpy(end, data, size);
    end += size;
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL transpose(OrtScanKernelHelper* this_ptr, const size_t* permutation,
                                         size_t rank, const OrtValue* input, OrtSyncStream* stream,
                                         OrtValue* output) {
  const OrtApi* api = ((const ScanHelper*)this_ptr)->api;
  ONNXTensorElementDataType type;
  const int64_t* dims = NULL;
  const void* from = NULL;
  void* to = NULL;
  (void)stream;
  TRY(api->GetTensorElementTypeAndShapeDataReference(input, &type, &dims, &rank));
  TRY(api->GetTensorData(input, &from));
  TRY(api->GetTensorMutableData(output, &to));
  if (rank != 2 || permutation[0] != 1) {
    return api->CreateStatus(ORT_EP_FAIL, "trace_plugin: it only turns matrices");
  }
  for (int64_t i = 0; i < dims[0] * dims[1]; ++i) {
    ((float*)to)[i % dims[1] * dims[0] + i / dims[1]] = ((const float*)from)[i];
  }
  return NULL;
}

/* Of an image with channels last or, in ONNX's domain, second: (x - mean) / sqrt(variance + 1e-5) * scale +
 * b. */
static OrtStatus* normalise(const Kernel* kernel, OrtKernelContext* context) {
  const OrtApi* api = kernel->factory->factory.api;
  const OrtValue* inputs[5];
  const float* data[5];
  OrtValue* y = NULL;
  ONNXTensorElementDataType type;
  const int64_t* dims = NULL;
  size_t rank = 0;
  void* out = NULL;
  for (size_t i = 0; i < 5; ++i) {
    const void* raw = NULL;
    TRY(api->KernelContext_GetInput(context, i, &inputs[i]));
    TRY(api->GetTensorData(inputs[i], &raw));
    data[i] = (const float*)raw;
  }
  TRY(api->GetTensorElementTypeAndShapeDataReference(inputs[0], &type, &dims, &rank));
  if (rank != 4) {
    return api->CreateStatus(ORT_EP_FAIL, "trace_plugin: that is no image");
  }
  trace("Compute '%s' of %d x %d x %d", kernel->name, (int)dims[1], (int)dims[2], (int)dims[3]);
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &y));
  TRY(api->GetTensorMutableData(y, &out));
  const bool last = kernel->op == 'N';
  const int64_t count = dims[0] * dims[1] * dims[2] * dims[3];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = last ? i % dims[3] : i / (dims[2] * dims[3]) % dims[1];
    ((float*)out)[i] = (data[0][i] - data[3][c]) / sqrtf(data[4][c] + 1e-5f) * data[1][c] + data[2][c];
  }
  return NULL;
}

static bool is_control(char op) { return strchr("ils", op) != NULL; }

/* A kernel that the host makes for one of its operators with subgraphs. */
static OrtStatus* create_control(const Factory* factory, char op, const OrtKernelInfo* info,
                                 OrtKernelImpl** out) {
  OrtStatus* status = NULL;
  if (op == 'i') {
    return factory->ep_api->CreateIfKernel(info, out);
  }
  if (op == 'l') {
    LoopHelper* helper = (LoopHelper*)calloc(1, sizeof *helper);
    if (helper == NULL) {
      return out_of_memory(factory->api);
    }
    *helper = (LoopHelper){{API_VERSION, release_loop_helper, concat_output}, factory->api};
    status = factory->ep_api->CreateLoopKernel(info, &helper->base, out);
    if (status != NULL) {
      free(helper);
    }
    return status;
  }
  ScanHelper* helper = (ScanHelper*)calloc(1, sizeof *helper);
  if (helper == NULL) {
    return out_of_memory(factory->api);
  }
  *helper = (ScanHelper){{API_VERSION, release_scan_helper, transpose}, factory->api};
  status = factory->ep_api->CreateScanKernel(info, &helper->base, out);
  if (status != NULL) {
    free(helper);
  }
  return status;
}

static const KernelKind kKinds[] = {
    {"If", "", NULL, 1, 25, 'i'},
    {"Loop", "", NULL, 1, 25, 'l'},
    {"Scan", "", NULL, 9, 25, 's'},
    {"BatchNormalization", "", "T", 9, 15, 'n'},
    {"BatchNormalization", "com.ms.internal.nhwc", "T", 9, 15, 'N'},
    {"Add", "", "T", 7, 22, '+'},
    {"Mul", "", "T", 7, 22, '*'},
    {"Twice", "test.trace", NULL, 1, 1, '2'},
    {"Shout", "test.trace", NULL, 1, 1, '!'},
};
enum { NUM_KINDS = sizeof kKinds / sizeof kKinds[0] };

typedef struct KernelState {
  const TraceFactory* factory;
  const KernelKind* kind;
} KernelState;

/* What is known of a kernel's inputs when it is made. */
static OrtStatus* look_at_constants(const Factory* factory, const OrtKernelInfo* info, const char* name) {
  const OrtApi* api = factory->api;
  size_t num_inputs = 0;
  TRY(api->KernelInfo_GetInputCount(info, &num_inputs));
  for (size_t i = 0; i < num_inputs; ++i) {
    int is_constant = 0;
    const OrtValue* value = NULL;
    const void* data = NULL;
    TRY(api->KernelInfoGetConstantInput_tensor(info, i, &is_constant, &value));
    if (is_constant) {
      TRY(api->GetTensorData(value, &data));
      trace("input %zu of '%s' begins with %g", i, name, (double)*(const float*)data);
    }
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL create_kernel(void* state, const OrtKernelInfo* info, OrtKernelImpl** out) {
  const TraceFactory* factory = ((const KernelState*)state)->factory;
  const char op = ((const KernelState*)state)->kind->op;
  if (is_control(op) && !mode("own_bodies")) {
    trace("Create%sKernel", ((const KernelState*)state)->kind->type);
    return create_control(&factory->factory, op, info, out);
  }
  Kernel* kernel = (Kernel*)calloc(1, sizeof *kernel);
  if (kernel == NULL) {
    return out_of_memory(factory->factory.api);
  }
  size_t size = sizeof kernel->name;
  kernel->base.ort_version_supported = API_VERSION;
  kernel->base.Compute = compute;
  kernel->base.Release = release_kernel;
  kernel->base.PrePackWeight = prepack;
  kernel->base.SetSharedPrePackedWeight = mode("no_lender") ? NULL : set_shared;
  kernel->factory = factory;
  kernel->op = op;
  OrtStatus* status = factory->factory.api->KernelInfo_GetNodeName(info, kernel->name, &size);
  if (status != NULL) {
    free(kernel);
    return status;
  }
  trace("CreateKernel '%s'", kernel->name);
  if (mode("constants")) {
    status = look_at_constants(&factory->factory, info, kernel->name);
    if (status != NULL) {
      free(kernel);
      return status;
    }
  }
  *out = &kernel->base;
  return NULL;
}

static KernelState states[NUM_KINDS]; /* of the one factory that a test has */

static OrtStatus* build_registry(TraceFactory* own) {
  TRY(own->factory.ep_api->CreateKernelRegistry(&own->registry));
  for (size_t i = 0; i < NUM_KINDS; ++i) {
    if ((is_control(kKinds[i].op) && !mode("control")) ||
        (strchr("nN", kKinds[i].op) != NULL && !mode("nhwc"))) {
      continue;
    }
    states[i] = (KernelState){own, &kKinds[i]};
    const KernelRow row = {
        .type = kKinds[i].type,
        .domain = kKinds[i].domain,
        .since_first = kKinds[i].first,
        .since_last = kKinds[i].last,
        .type_parameter = kKinds[i].constraint,
        .reusable_inputs = mode("in_place") && (kKinds[i].constraint != NULL || kKinds[i].op == '!')};
    TRY(register_kernel(own->factory.ep_api, own->registry, ep_name_now(), &row, create_kernel, &states[i]));
  }
  return NULL;
}

/* ---- Profiler ------------------------------------------------------------------------------------------ */

typedef struct Profiler {
  OrtEpProfilerImpl base;
  const TraceFactory* factory;
  long started, stopped;
} Profiler;

static void ORT_API_CALL profiler_release(OrtEpProfilerImpl* this_ptr) {
  trace("profiler: Release");
  free(this_ptr);
}

static OrtStatus* ORT_API_CALL profiler_start(OrtEpProfilerImpl* this_ptr, int64_t offset) {
  (void)this_ptr;
  trace("profiler: StartProfiling %s", offset >= 0 ? "with an offset" : "before the host's");
  return NULL;
}

static OrtStatus* ORT_API_CALL profiler_start_event(OrtEpProfilerImpl* this_ptr, uint64_t id) {
  Profiler* profiler = (Profiler*)this_ptr;
  (void)id;
  ++profiler->started;
  trace("profiler: StartEvent");
  return NULL;
}

static OrtStatus* ORT_API_CALL profiler_stop_event(OrtEpProfilerImpl* this_ptr, uint64_t id,
                                                   const OrtProfilingEvent* event) {
  Profiler* profiler = (Profiler*)this_ptr;
  const OrtEpApi* ep_api = profiler->factory->factory.ep_api;
  const char *name = NULL, *type = NULL, *provider = NULL;
  OrtProfilingEventCategory category;
  (void)id;
  ++profiler->stopped;
  TRY(ep_api->ProfilingEvent_GetCategory(event, &category));
  TRY(ep_api->ProfilingEvent_GetName(event, &name));
  TRY(ep_api->ProfilingEvent_GetArgValue(event, "op_name", &type));
  TRY(ep_api->ProfilingEvent_GetArgValue(event, "provider", &provider));
  trace("profiler: StopEvent %s, category %d, op_name %s, provider %s", name, (int)category,
        type != NULL ? type : "-", provider != NULL ? provider : "-");
  return NULL;
}

static OrtStatus* ORT_API_CALL profiler_end(OrtEpProfilerImpl* this_ptr,
                                            OrtProfilingEventsContainer* container) {
  Profiler* profiler = (Profiler*)this_ptr;
  const OrtEpApi* ep_api = profiler->factory->factory.ep_api;
  OrtProfilingEvent* event = NULL;
  trace("profiler: EndProfiling, %ld event(s) open", profiler->started - profiler->stopped);
  TRY(ep_api->CreateProfilingEvent(OrtProfilingEventCategory_KERNEL, -1, -1, "from the trace plugin", 1, 2,
                                   NULL, NULL, 0, &event));
  const OrtProfilingEvent* events[] = {event};
  OrtStatus* status = ep_api->ProfilingEventsContainer_AddEvents(container, events, 1);
  ep_api->ReleaseProfilingEvent(event);
  return status;
}

/* ---- The EP -------------------------------------------------------------------------------------------- */

enum { MAX_GRAPHS = 8 };

typedef struct Ep {
  OrtEp base;
  const TraceFactory* factory;
  int graph; /* of the run under way */
  struct {
    int number, runs;
    bool captured;
  } graphs[MAX_GRAPHS];
} Ep;

static const char* ORT_API_CALL ep_name(const OrtEp* this_ptr) {
  (void)this_ptr;
  return ep_name_now();
}

static OrtStatus* claim(const void* owner, OrtEpGraphSupportInfo* support, const OrtNode* node) {
  const Ep* ep = (const Ep*)owner;
  const Factory* factory = &ep->factory->factory;
  const OrtKernelDef* definition = NULL;
  const char *type = NULL, *name = NULL;
  TRY(factory->api->Node_GetOperatorType(node, &type));
  TRY(factory->api->Node_GetName(node, &name));
  if (strncmp(name, "cpu", 3) == 0) {
    return NULL;
  }
  TRY(factory->ep_api->EpGraphSupportInfo_LookUpKernel(support, node, &definition));
  if (definition == NULL) {
    return NULL;
  }
  trace("claims '%s' (%s)", name, type);
  return factory->ep_api->EpGraphSupportInfo_AddSingleNode(support, node);
}

/* What the host knows of the plugin's own operators. */
static OrtStatus* describe(const Factory* factory, const char* name, int version) {
  OrtOpSchema* schema = NULL;
  int since = 0;
  size_t inputs = 0, outputs = 0, constraints = 0;
  const OrtOpSchemaTypeConstraint* constraint = NULL;
  const char *input = "", *output = "", *param = "-";
  TRY(factory->ep_api->GetOpSchema(name, version, "test.trace", &schema));
  if (schema == NULL) {
    trace("no schema for %s at version %d", name, version);
    return NULL;
  }
  TRY(factory->ep_api->OpSchema_GetSinceVersion(schema, &since));
  TRY(factory->ep_api->OpSchema_GetNumInputs(schema, &inputs));
  TRY(factory->ep_api->OpSchema_GetNumOutputs(schema, &outputs));
  TRY(factory->ep_api->OpSchema_GetInputName(schema, 0, &input));
  TRY(factory->ep_api->OpSchema_GetOutputName(schema, 0, &output));
  TRY(factory->ep_api->OpSchema_GetTypeConstraintCount(schema, &constraints));
  TRY(factory->ep_api->OpSchema_GetInputTypeConstraint(schema, 0, &constraint));
  if (constraint != NULL) {
    TRY(factory->ep_api->OpSchemaTypeConstraint_GetTypeParamName(constraint, &param));
  }
  trace("schema of %s since %d: %zu inputs (%s), %zu outputs (%s), %zu constraints, the first input's is %s",
        name, since, inputs, input, outputs, output, constraints, param);
  factory->ep_api->ReleaseOpSchema(schema);
  return NULL;
}

static OrtStatus* ORT_API_CALL ep_get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                                 OrtEpGraphSupportInfo* support) {
  const Ep* ep = (const Ep*)this_ptr;
  const OrtApi* api = ep->factory->factory.api;
  size_t num_nodes = 0;
  TRY(api->Graph_GetNumNodes(graph, &num_nodes));
  trace("GetCapability of %zu node(s)", num_nodes);
  if (mode("custom_ops")) {
    TRY(describe(&ep->factory->factory, "Twice", 1));
    TRY(describe(&ep->factory->factory, "Blend", 3));
  }
  return claim_each(api, graph, support, claim, ep);
}

static OrtStatus* ORT_API_CALL ep_get_kernel_registry(OrtEp* this_ptr, const OrtKernelRegistry** registry) {
  *registry = ((const Ep*)this_ptr)->factory->registry;
  return NULL;
}

static int graph_of(const Factory* factory, const OrtRunOptions* options) {
  const char* text = factory->api->GetRunConfigEntry(options, "gpu_graph_id");
  return text != NULL ? atoi(text) : 0;
}

static size_t entry_of(const Ep* ep, int number) {
  for (size_t i = 0; i < MAX_GRAPHS; ++i) {
    if (ep->graphs[i].number == number) {
      return i;
    }
  }
  return 0;
}

static OrtStatus* ORT_API_CALL on_run_start(OrtEp* this_ptr, const OrtRunOptions* options) {
  Ep* ep = (Ep*)this_ptr;
  ep->graph = graph_of(&ep->factory->factory, options);
  trace("OnRunStart, graph %d", ep->graph);
  return NULL;
}

static OrtStatus* ORT_API_CALL on_run_end(OrtEp* this_ptr, const OrtRunOptions* options, bool sync) {
  Ep* ep = (Ep*)this_ptr;
  (void)options;
  trace("OnRunEnd, graph %d%s", ep->graph, sync ? ", synchronised" : "");
  if (ep->graph < 0) {
    return NULL;
  }
  size_t at = 0;
  while (at < MAX_GRAPHS - 1 && ep->graphs[at].runs > 0 && ep->graphs[at].number != ep->graph) {
    ++at;
  }
  ep->graphs[at].number = ep->graph;
  if (++ep->graphs[at].runs == number_of("capture", 1)) {
    trace("recorded graph %d", ep->graph);
    ep->graphs[at].captured = true;
  }
  return NULL;
}

static bool ORT_API_CALL is_capture_enabled(const OrtEp* this_ptr) {
  (void)this_ptr;
  trace("IsGraphCaptureEnabled");
  return true;
}

static bool ORT_API_CALL is_captured(const OrtEp* this_ptr, int number) {
  const Ep* ep = (const Ep*)this_ptr;
  const size_t at = entry_of(ep, number);
  const bool captured = ep->graphs[at].number == number && ep->graphs[at].captured;
  trace("IsGraphCaptured %d: %s", number, captured ? "yes" : "no");
  return captured;
}

static OrtStatus* ORT_API_CALL replay(OrtEp* this_ptr, int number) {
  trace("ReplayGraph %d", number);
  if (mode("replay_fails")) {
    return ((const Ep*)this_ptr)->factory->factory.api->CreateStatus(ORT_EP_FAIL, "the tape is torn");
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL release_graph(OrtEp* this_ptr, int number) {
  Ep* ep = (Ep*)this_ptr;
  trace("ReleaseCapturedGraph %d", number);
  ep->graphs[entry_of(ep, number)].captured = false;
  return NULL;
}

static OrtGraphCaptureNodeAssignmentPolicy ORT_API_CALL capture_policy(const OrtEp* this_ptr) {
  (void)this_ptr;
  trace("GetGraphCaptureNodeAssignmentPolicy");
  return mode("shapes_on_cpu") ? OrtGraphCaptureNodeAssignmentPolicy_ALLOW_CPU_FOR_SHAPES
                               : OrtGraphCaptureNodeAssignmentPolicy_ALL_NODES_ON_EP;
}

static OrtStatus* ORT_API_CALL available(const OrtEp* this_ptr, OrtResourceCount* count) {
  (void)this_ptr;
  trace("GetAvailableResource");
  memset(count, 0, sizeof *count);
  count->kind = OrtResourceCountKind_TotalBytes;
  count->value.total_bytes = (uint64_t)number_of("resource", 0);
  return NULL;
}

static OrtStatus* ORT_API_CALL weightless(const OrtEp* this_ptr, OrtWeightlessSupport* support) {
  (void)this_ptr;
  trace("GetWeightlessSupport");
  *support = mode("weightless") ? OrtWeightlessSupport_ALL : OrtWeightlessSupport_NONE;
  return NULL;
}

static OrtStatus* ORT_API_CALL set_dynamic_options(OrtEp* this_ptr, const char* const* keys,
                                                   const char* const* values, size_t count) {
  const OrtApi* api = ((const Ep*)this_ptr)->factory->factory.api;
  for (size_t i = 0; i < count; ++i) {
    trace("SetDynamicOptions %s=%s", keys[i], values[i]);
    if (strcmp(keys[i], "colour") == 0) {
      return api->CreateStatus(ORT_INVALID_ARGUMENT, "it has no colour");
    }
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL preferred_layout(OrtEp* this_ptr, OrtEpDataLayout* layout) {
  (void)this_ptr;
  *layout = mode("nhwc") ? OrtEpDataLayout_NHWC : OrtEpDataLayout_NCHW;
  return NULL;
}

static OrtStatus* ORT_API_CALL should_convert(OrtEp* this_ptr, const char* domain, const char* type,
                                              OrtEpDataLayout layout, int* answer) {
  (void)this_ptr;
  *answer = strcmp(type, "BatchNormalization") == 0 ? number_of("nhwc", -1) : -1;
  trace("ShouldConvertDataLayoutForOp '%s' %s to %s: %d", domain, type,
        layout == OrtEpDataLayout_NHWC ? "NHWC" : "another layout", *answer);
  return NULL;
}

static OrtStatus* ORT_API_CALL sync_ep(OrtEp* this_ptr) {
  (void)this_ptr;
  trace("Sync");
  return NULL;
}

static OrtStatus* ORT_API_CALL create_profiler(OrtEp* this_ptr, OrtEpProfilerImpl** out) {
  const Ep* ep = (const Ep*)this_ptr;
  *out = NULL;
  Profiler* profiler = (Profiler*)calloc(1, sizeof *profiler);
  if (profiler == NULL) {
    return out_of_memory(ep->factory->factory.api);
  }
  trace("CreateProfiler");
  profiler->base.ort_version_supported = API_VERSION;
  profiler->base.Release = profiler_release;
  profiler->base.StartProfiling = profiler_start;
  profiler->base.StartEvent = profiler_start_event;
  profiler->base.StopEvent = profiler_stop_event;
  profiler->base.EndProfiling = profiler_end;
  profiler->factory = ep->factory;
  *out = &profiler->base;
  return NULL;
}

static void trace_option(const OrtApi* api, const OrtSessionOptions* options, const char* name) {
  char key[64], value[64] = "not set";
  size_t size = sizeof value;
  int is_set = 0;
  snprintf(key, sizeof key, "ep.%s.%s", ep_name_now(), name);
  OrtStatus* status = api->HasSessionConfigEntry(options, key, &is_set);
  if (status == NULL && is_set) {
    status = api->GetSessionConfigEntry(options, key, value, &size);
  }
  trace("%s is %s", name, status == NULL ? value : api->GetErrorMessage(status));
  if (status != NULL) {
    api->ReleaseStatus(status);
  }
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** out) {
  const TraceFactory* factory = (const TraceFactory*)this_ptr;
  (void)devices, (void)ep_metadata, (void)num_devices, (void)logger;
  Ep* ep = (Ep*)calloc(1, sizeof *ep);
  if (ep == NULL) {
    return out_of_memory(factory->factory.api);
  }
  trace("CreateEp");
  if (mode("options")) {
    trace_option(factory->factory.api, session_options, "colour");
    trace_option(factory->factory.api, session_options, "power");
  }
  ep->base.ort_version_supported = API_VERSION;
  ep->base.GetName = ep_name;
  ep->base.GetCapability = ep_get_capability;
  ep->base.GetKernelRegistry = ep_get_kernel_registry;
  ep->base.SetDynamicOptions = set_dynamic_options;
  ep->base.GetPreferredDataLayout = preferred_layout;
  ep->base.ShouldConvertDataLayoutForOp = should_convert;
  ep->base.OnRunStart = on_run_start;
  ep->base.OnRunEnd = on_run_end;
  ep->base.Sync = sync_ep;
  if (mode("capture")) {
    ep->base.IsGraphCaptureEnabled = is_capture_enabled;
    ep->base.IsGraphCaptured = is_captured;
    ep->base.ReplayGraph = mode("no_replay") ? NULL : replay;
    ep->base.ReleaseCapturedGraph = release_graph;
    ep->base.GetGraphCaptureNodeAssignmentPolicy = capture_policy;
  }
  if (mode("resource")) {
    ep->base.GetAvailableResource = available;
  }
  ep->base.GetWeightlessSupport = weightless;
  if (mode("profile")) {
    ep->base.CreateProfiler = create_profiler;
  }
  ep->factory = factory;
  *out = &ep->base;
  return NULL;
}

static void ORT_API_CALL release_ep(OrtEpFactory* this_ptr, OrtEp* ep) {
  (void)this_ptr;
  trace("ReleaseEp");
  free(ep);
}

/* ---- What else a factory offers ------------------------------------------------------------------------ */

static OrtStatus* ORT_API_CALL num_domains(OrtEpFactory* this_ptr, size_t* count) {
  (void)this_ptr;
  trace("GetNumCustomOpDomains");
  *count = !mode("custom_ops") ? 0 : mode("bad_ops") ? 2 : 1;
  return NULL;
}

static OrtStatus* ORT_API_CALL get_domains(OrtEpFactory* this_ptr, OrtCustomOpDomain** domains,
                                           size_t count) {
  trace("GetCustomOpDomains of %zu", count);
  if (count > 0) {
    domains[0] = ((TraceFactory*)this_ptr)->domain;
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL misfit(OrtEpFactory* this_ptr, const OrtHardwareDevice* device,
                                      OrtDeviceEpIncompatibilityDetails* details) {
  const Factory* factory = (const Factory*)this_ptr;
  trace("GetHardwareDeviceIncompatibilityDetails of a %d", (int)factory->api->HardwareDevice_Type(device));
  return mode("misfit") ? factory->ep_api->DeviceEpIncompatibilityDetails_SetDetails(
                              details, OrtDeviceEpIncompatibility_DRIVER_INCOMPATIBLE, 42, "too old a driver")
                        : NULL;
}

/* For trace_plugin_interop. */
static const OrtApi* host_api;
static const OrtEpDevice* first_device;

/* Uses OrtInteropApi on the device that was offered first, while the library is registered. */
EPHOST_PLUGIN_EXPORT void trace_plugin_interop(void);
EPHOST_PLUGIN_EXPORT void trace_plugin_interop(void) { interop_use(host_api, first_device); }

/* The CPU, with options that hold where a session gives none. */
static OrtStatus* device_with_options(OrtEpFactory* base, const OrtHardwareDevice* const* devices,
                                      size_t num_devices, OrtEpDevice** ep_devices, size_t max_ep_devices,
                                      size_t* num_ep_devices) {
  const Factory* factory = (const Factory*)base;
  *num_ep_devices = 0;
  for (size_t i = 0; i < num_devices && *num_ep_devices < max_ep_devices; ++i) {
    if (factory->api->HardwareDevice_Type(devices[i]) == OrtHardwareDeviceType_CPU) {
      OrtKeyValuePairs* options = NULL;
      factory->api->CreateKeyValuePairs(&options);
      factory->api->AddKeyValuePair(options, "colour", "blue");
      factory->api->AddKeyValuePair(options, "power", "high");
      OrtStatus* status = factory->ep_api->CreateEpDevice(base, devices[i], NULL, options, &ep_devices[0]);
      factory->api->ReleaseKeyValuePairs(options);
      *num_ep_devices = status == NULL;
      return status;
    }
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL supported_devices(OrtEpFactory* this_ptr,
                                                 const OrtHardwareDevice* const* devices, size_t num_devices,
                                                 OrtEpDevice** ep_devices, size_t max_ep_devices,
                                                 size_t* num_ep_devices) {
  TraceFactory* own = (TraceFactory*)this_ptr;
  const Factory* factory = &own->factory;
  if (mode("options")) {
    TRY(device_with_options(this_ptr, devices, num_devices, ep_devices, max_ep_devices, num_ep_devices));
  } else {
    TRY(factory_devices(this_ptr, devices, num_devices, ep_devices, max_ep_devices, num_ep_devices));
  }
  first_device = *num_ep_devices > 0 ? ep_devices[0] : NULL;
  host_api = factory->api;
  if (!mode("virtual") || *num_ep_devices >= max_ep_devices) {
    return NULL;
  }
  OrtKeyValuePairs *settings = NULL, *metadata = NULL;
  TRY(factory->ep_api->GetEnvConfigEntries(&settings));
  const char* allowed = factory->api->GetKeyValue(settings, "allow_virtual_devices");
  trace("allow_virtual_devices is %s", allowed != NULL ? allowed : "not set");
  if (allowed != NULL && strcmp(allowed, "1") == 0) {
    factory->api->CreateKeyValuePairs(&metadata);
    factory->api->AddKeyValuePair(metadata, "is_virtual", "1");
    OrtStatus* status = factory->ep_api->CreateHardwareDevice(OrtHardwareDeviceType_NPU, 0xBE57, 7, "nobody",
                                                              metadata, &own->virtual_device);
    if (status == NULL) {
      status = factory->ep_api->CreateEpDevice(this_ptr, own->virtual_device, NULL, NULL,
                                               &ep_devices[*num_ep_devices]);
      *num_ep_devices += status == NULL;
    }
    factory->api->ReleaseKeyValuePairs(metadata);
    factory->api->ReleaseKeyValuePairs(settings);
    return status;
  }
  factory->api->ReleaseKeyValuePairs(settings);
  return NULL;
}

/* ---- The exported functions ---------------------------------------------------------------------------- */

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  TraceFactory* own = (TraceFactory*)factory;
  if (own->registry != NULL) {
    own->factory.ep_api->ReleaseKernelRegistry(own->registry);
  }
  if (own->domain != NULL) {
    own->factory.api->ReleaseCustomOpDomain(own->domain);
  }
  if (own->virtual_device != NULL) {
    own->factory.ep_api->ReleaseHardwareDevice(own->virtual_device);
  }
  trace("ReleaseEpFactory");
  free(own);
  return NULL;
}

static OrtStatus* make_domain(const OrtApi* api, CustomOps* ops, const char* ep_name,
                              OrtCustomOpDomain** domain) {
  twice_init(&ops->twice, api, ep_name);
  blend_init(&ops->blend, api);
  shout_init(&ops->shout, api, ep_name);
  borrow_init(&ops->borrow, api);
  TRY(api->CreateCustomOpDomain(mode("ops_of_onnx") ? "" : "test.trace", domain));
  TRY(api->CustomOpDomain_Add(*domain, &ops->twice.base));
  TRY(api->CustomOpDomain_Add(*domain, &ops->blend.base));
  TRY(api->CustomOpDomain_Add(*domain, &ops->shout.base));
  TRY(api->CustomOpDomain_Add(*domain, &ops->borrow.base));
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  (void)registered_name, (void)default_logger;
  *num_factories = 0;
  const OrtApi* api = ort_api_base->GetApi(API_VERSION);
  if (api == NULL || max_factories < 1) {
    return host_too_old(ort_api_base);
  }
  TraceFactory* own = (TraceFactory*)calloc(1, sizeof *own);
  if (own == NULL) {
    return out_of_memory(api);
  }
  factory_init(&own->factory, api, ep_name_now());
  own->factory.base.GetSupportedDevices = supported_devices;
  own->factory.base.CreateEp = create_ep;
  own->factory.base.ReleaseEp = release_ep;
  own->factory.base.GetNumCustomOpDomains = num_domains;
  own->factory.base.GetCustomOpDomains = get_domains;
  if (!mode("no_interop")) {
    own->factory.base.CreateExternalResourceImporterForDevice = importer_create;
    own->factory.base.InitGraphicsInterop = interop_init;
    own->factory.base.DeinitGraphicsInterop = interop_deinit;
  }
  own->factory.base.GetHardwareDeviceIncompatibilityDetails = misfit;
  OrtStatus* status = build_registry(own);
  if (status == NULL && mode("custom_ops")) {
    status = make_domain(api, &own->ops, mode("ops_on_cpu") ? NULL : ep_name_now(), &own->domain);
  }
  if (status != NULL) {
    ReleaseEpFactory(&own->factory.base);
    return status;
  }
  factories[0] = &own->factory.base;
  *num_factories = 1;
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);

static OrtCustomOpDomain* library_domain;
static const OrtApi* library_api;

__attribute__((destructor)) static void release_library_domain(void) {
  if (library_domain != NULL) library_api->ReleaseCustomOpDomain(library_domain);
}

/* The same operators as a library of custom operators, for the CPU. The domain lives as long as the library.
 */
EPHOST_PLUGIN_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  static CustomOps ops;
  const OrtApi* api = base->GetApi(API_VERSION);
  if (api == NULL) {
    return host_too_old(base);
  }
  trace("RegisterCustomOps");
  if (mode("bad_ops")) {
    return api->CreateStatus(ORT_EP_FAIL, "the shop is closed");
  }
  if (library_domain == NULL) {
    TRY(make_domain(api, &ops, NULL, &library_domain));
    library_api = api;
  }
  return api->AddCustomOpDomain(options, library_domain);
}
