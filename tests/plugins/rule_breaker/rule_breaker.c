/* A plugin that breaks one rule of the layer `validate` on request, for the layer's tests. It never ships.
 *
 * RULE_BREAKER in the environment names the mode; without one it is a good plugin, which claims each float32
 * Add as a group of its own. What it does wrong is what the layer has to stop: most modes are not survived
 * without it. The tests read the table of modes: the rule that each breaks stands in it. */
#include <pthread.h>
#include <stdio.h>

#include "../../../plugins/common/registry.h"

#define MODES(MODE)                              \
  MODE(status_twice, "EPV-OWN-001")              \
  MODE(info_after_release, "EPV-OWN-002")        \
  MODE(status_after_release, "EPV-OWN-002")      \
  MODE(returns_released_status, "EPV-OWN-002")   \
  MODE(takes_over_released, "EPV-OWN-002")       \
  MODE(releases_output, "EPV-OWN-003")           \
  MODE(releases_node, "EPV-OWN-003")             \
  MODE(releases_returned_status, "EPV-OWN-004")  \
  MODE(releases_attribute, "EPV-OWN-004")        \
  MODE(leaves_info, "EPV-OWN-005")               \
  MODE(leaves_statuses, "EPV-OWN-006")           \
  MODE(keeps_context, "EPV-PHASE-001")           \
  MODE(uses_context_in_thread, "EPV-PHASE-001")  \
  MODE(keeps_input, "EPV-PHASE-002")             \
  MODE(keeps_output, "EPV-PHASE-002")            \
  MODE(keeps_graph, "EPV-PHASE-003")             \
  MODE(writes_behind, "EPV-BOUND-001")           \
  MODE(writes_far_behind, "EPV-BOUND-001")       \
  MODE(writes_before, "EPV-BOUND-002")           \
  MODE(writes_input, "EPV-BOUND-003")            \
  MODE(writes_nothing, "EPV-BOUND-004")          \
  MODE(writes_half, "EPV-BOUND-004")             \
  MODE(reads_behind, "EPV-BOUND-005")            \
  MODE(kernel_reads_behind, "EPV-BOUND-005")     \
  MODE(asks_for_no_output, "EPV-OUT-001")        \
  MODE(other_rank, "EPV-OUT-002")                \
  MODE(kernel_writes_behind, "EPV-BOUND-001")    \
  MODE(kernel_gives_other_rank, "EPV-OUT-002")   \
  MODE(kernel_keeps_info, "EPV-PHASE-003")       \
  MODE(newer_function, "EPV-VER-001")            \
  MODE(ep_without_release_infos, "EPV-VER-002")  \
  MODE(ep_without_compile, "EPV-VER-002")        \
  MODE(info_without_compute, "EPV-VER-002")      \
  MODE(factory_without_create_ep, "EPV-VER-002") \
  MODE(factory_without_release, "EPV-VER-002")   \
  MODE(info_of_version_0, "EPV-VER-003")         \
  MODE(null_handle, "EPV-ARG-001")               \
  MODE(null_context, "EPV-ARG-001")              \
  MODE(null_refused, "EPV-ARG-002")              \
  MODE(no_such_code, "EPV-ARG-003")              \
  MODE(status_of_ok, "EPV-ARG-004")              \
  MODE(vendor_empty, "EPV-ANS-001")              \
  MODE(ep_name_null, "EPV-ANS-001")              \
  MODE(no_ep, "EPV-ANS-002")                     \
  MODE(no_compute_info, "EPV-ANS-002")           \
  MODE(too_many_devices, "EPV-ANS-003")          \
  MODE(ep_of_other_name, "EPV-ANS-004")          \
  MODE(no_such_layout, "EPV-ANS-005")            \
  MODE(device_twice, "EPV-ANS-006")              \
  MODE(claims_nothing_known, "EPV-CLAIM-001")    \
  MODE(claims_null, "EPV-CLAIM-001")             \
  MODE(claims_twice, "EPV-CLAIM-002")            \
  MODE(claims_in_two_groups, "EPV-CLAIM-002")    \
  MODE(claims_empty_group, "EPV-CLAIM-003")      \
  MODE(claims_around, "EPV-CLAIM-004")           \
  MODE(claims_of_another_ep, "EPV-CLAIM-005")    \
  MODE(kernel_is_missing, "EPV-CLAIM-006")       \
  MODE(context_of_other_domain, "EPV-CTX-001")   \
  MODE(context_without_data, "EPV-CTX-002")      \
  MODE(context_without_source, "EPV-CTX-002")    \
  MODE(context_of_other_source, "EPV-CTX-003")   \
  MODE(allocates_twice, "EPV-ALLOC-001")         \
  MODE(allocates_crooked, "EPV-ALLOC-002")       \
  MODE(allocator_without_info, "EPV-ALLOC-003")  \
  MODE(refuses_copy, "EPV-XFER-001")             \
  MODE(aware_without_streams, "EPV-STREAM-001")  \
  /* These end the process. */                   \
  MODE(called_after_release, "EPV-OWN-007")

#define NAME_OF(mode, rule) static const char mode[] = #mode;
MODES(NAME_OF)

static const char kEpName[] = "rule_breaker";

static bool breaks(const char* mode) {
  const char* wanted = getenv("RULE_BREAKER");
  return wanted != NULL && strcmp(wanted, mode) == 0;
}

static bool is_known_mode(void) {
#define IS_IT(mode, rule) breaks(mode) ||
  const char* wanted = getenv("RULE_BREAKER");
  return MODES(IS_IT) wanted == NULL || wanted[0] == '\0';
}

static bool has_kernels(void) {
  const char* wanted = getenv("RULE_BREAKER");
  return wanted != NULL && strncmp(wanted, "kernel_", 7) == 0;
}

typedef struct Breaker { /* what the factory has beside what all have */
  Factory factory;
  OrtMemoryInfo* memory_info;
  OrtKernelRegistry* registry;
  const OrtKernelInfo* kept_info;
  const OrtKernelContext* kept_context;
  const OrtValue* kept_value;
  const OrtGraph* kept_graph;
  OrtStatus* returned;
  bool is_asked_for_streams;
  const char*(ORT_API_CALL* kept_name)(const OrtEpFactory*);
} Breaker;

typedef struct Ep {
  OrtEp base;
  Breaker* breaker;
} Ep;

typedef struct Info {
  OrtNodeComputeInfo base;
  Breaker* breaker;
} Info;

typedef struct Kernel {
  OrtKernelImpl base;
  Breaker* breaker;
} Kernel;

typedef struct Allocator {
  OrtAllocator base;
  const OrtMemoryInfo* info;
  void* memory;
} Allocator;

typedef struct Transfer {
  OrtDataTransferImpl base;
  const OrtApi* api;
} Transfer;

/* ---- Running ------------------------------------------------------------------------------------------- */

static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* this_ptr, OrtNodeComputeContext* context,
                                            void** state) {
  (void)context;
  *state = this_ptr;
  return NULL;
}

static void ORT_API_CALL release_state(OrtNodeComputeInfo* this_ptr, void* state) {
  (void)this_ptr, (void)state;
}

/* What is wrong before anything is computed; what it returns is returned. */
static OrtStatus* break_with_handles(Breaker* breaker, const OrtKernelContext* context) {
  const OrtApi* api = breaker->factory.api;
  size_t count = 0;
  OrtStatus* status = NULL;
  const OrtValue* value = NULL;
  if (breaks(status_twice) || breaks(status_after_release) || breaks(returns_released_status)) {
    status = api->CreateStatus(ORT_FAIL, "rule_breaker");
    api->ReleaseStatus(status);
    if (breaks(status_twice)) {
      api->ReleaseStatus(status);
    } else if (breaks(status_after_release)) {
      (void)api->GetErrorMessage(status);
    } else {
      return status;
    }
  }
  if (breaks(info_after_release) || breaks(leaves_info)) {
    OrtMemoryInfo* info = NULL;
    const char* name = NULL;
    TRY(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info));
    if (breaks(info_after_release)) {
      api->ReleaseMemoryInfo(info);
      return api->MemoryInfoGetName(info, &name);
    }
  }
  if (breaks(leaves_statuses)) {
    (void)api->KernelContext_GetInput(context, 1000, &value);
    (void)api->KernelContext_GetInput(context, 1001, &value);
  }
  if (breaks(releases_returned_status)) {
    if (breaker->returned == NULL) {
      breaker->returned = api->CreateStatus(ORT_FAIL, "rule_breaker: the first time");
      return breaker->returned;
    }
    api->ReleaseStatus(breaker->returned);
  }
  breaker->kept_context = context;
  if (breaks(keeps_input) && breaker->kept_value != NULL) {
    const void* data = NULL;
    TRY(api->GetTensorData(breaker->kept_value, &data));
  }
  if (breaks(null_handle)) {
    (void)api->GetErrorMessage(NULL);
  }
  if (breaks(null_context)) {
    return api->KernelContext_GetInputCount(NULL, &count);
  }
  if (breaks(null_refused)) {
    OrtAllocator* allocator = NULL;
    return api->KernelContext_GetAllocator(context, NULL, &allocator);
  }
  if (breaks(no_such_code) || breaks(status_of_ok)) {
    api->ReleaseStatus(api->CreateStatus(breaks(status_of_ok) ? ORT_OK : (OrtErrorCode)77, "rule_breaker"));
  }
  return NULL;
}

static OrtStatus* add(Breaker* breaker, OrtKernelContext* context) {
  const OrtApi* api = breaker->factory.api;
  const OrtValue* inputs[2] = {NULL, NULL};
  const int64_t* dims = NULL;
  float* data[2] = {NULL, NULL};
  size_t rank = 0, count = 1, num_inputs = 0;
  OrtValue* output = NULL;
  void* sum = NULL;
  ONNXTensorElementDataType type;
  TRY(break_with_handles(breaker, context));
  TRY(api->KernelContext_GetInputCount(context, &num_inputs));
  for (size_t i = 0; i < 2; ++i) {
    TRY(api->KernelContext_GetInput(context, i < num_inputs ? i : 0, &inputs[i]));
    TRY(api->GetTensorElementTypeAndShapeDataReference(inputs[i], &type, &dims, &rank));
    TRY(api->GetTensorMutableData((OrtValue*)(uintptr_t)inputs[i], &sum));
    data[i] = (float*)sum;
  }
  if (breaks(asks_for_no_output)) {
    return NULL;
  }
  int64_t shape[9] = {1};
  for (size_t i = 0; i < rank && i < 8; ++i) {
    shape[i + 1] = dims[i];
    count *= (size_t)dims[i];
  }
  const bool longer = breaks(other_rank) || breaks(kernel_gives_other_rank);
  TRY(api->KernelContext_GetOutput(context, 0, longer ? shape : shape + 1, rank + longer, &output));
  TRY(api->GetTensorMutableData(output, &sum));
  for (size_t i = 0; i < (breaks(writes_half) ? count / 2 : count) && !breaks(writes_nothing); ++i) {
    ((float*)sum)[i] = data[0][i] + data[1][i];
  }
  if (breaks(reads_behind) || breaks(kernel_reads_behind)) {
    ((float*)sum)[0] += 0 * ((volatile float*)data[1])[count + 16];
  }
  if (breaks(writes_behind) || breaks(kernel_writes_behind)) {
    ((float*)sum)[count] = 1;
  } else if (breaks(writes_far_behind)) {
    ((float*)sum)[count + 50] = 1;
  } else if (breaks(writes_before)) {
    ((float*)sum)[-1] = 1;
  } else if (breaks(writes_input)) {
    data[0][0] += 1;
  } else if (breaks(releases_output)) {
    api->ReleaseValue(output);
  } else if (breaks(keeps_input)) {
    breaker->kept_value = inputs[0];
  } else if (breaks(keeps_output)) {
    breaker->kept_value = output;
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* this_ptr, void* state, OrtKernelContext* context) {
  (void)state;
  return add(((Info*)this_ptr)->breaker, context);
}

static OrtStatus* ORT_API_CALL kernel_compute(OrtKernelImpl* this_ptr, OrtKernelContext* context) {
  Breaker* breaker = ((Kernel*)this_ptr)->breaker;
  size_t count = 0;
  if (breaks(kernel_keeps_info)) {
    TRY(breaker->factory.api->KernelInfo_GetInputCount(breaker->kept_info, &count));
  }
  return add(breaker, context);
}

static void ORT_API_CALL kernel_release(OrtKernelImpl* this_ptr) { free(this_ptr); }

static OrtStatus* ORT_API_CALL kernel_create(void* state, const OrtKernelInfo* info, OrtKernelImpl** out) {
  Breaker* breaker = (Breaker*)state;
  Kernel* kernel = (Kernel*)calloc(1, sizeof *kernel);
  if (kernel == NULL) {
    return out_of_memory(breaker->factory.api);
  }
  kernel->base.ort_version_supported = API_VERSION;
  kernel->base.Compute = kernel_compute;
  kernel->base.Release = kernel_release;
  kernel->breaker = breaker;
  breaker->kept_info = info;
  *out = &kernel->base;
  return NULL;
}

/* What a host does with a device's memory, on the factory as the host has it: with the layer in between. */
static OrtStatus* use_allocator(Breaker* breaker) {
  OrtEpFactory* factory = &breaker->factory.base;
  OrtAllocator* allocator = NULL;
  TRY(factory->CreateAllocator(factory, breaker->memory_info, NULL, &allocator));
  (void)allocator->Info(allocator);
  void* memory = allocator->Alloc(allocator, 100);
  if (breaks(allocates_twice)) {
    (void)allocator->Alloc(allocator, 100);
  }
  allocator->Free(allocator, memory);
  (void)allocator->Alloc(allocator, 100);
  factory->ReleaseAllocator(factory, allocator);
  return NULL;
}

static OrtStatus* use_transfer(Breaker* breaker) {
  const OrtApi* api = breaker->factory.api;
  OrtEpFactory* factory = &breaker->factory.base;
  OrtDataTransferImpl* transfer = NULL;
  OrtAllocator* allocator = NULL;
  OrtValue* value = NULL;
  const int64_t shape[] = {2};
  TRY(factory->CreateDataTransfer(factory, &transfer));
  TRY(api->GetAllocatorWithDefaultOptions(&allocator));
  TRY(api->CreateTensorAsOrtValue(allocator, shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  const OrtValue* from = value;
  OrtStatus* status = transfer->CopyTensors(transfer, &from, &value, NULL, 1);
  api->ReleaseValue(value);
  if (status != NULL) {
    api->ReleaseStatus(status);
  }
  transfer->Release(transfer);
  return NULL;
}

static bool ORT_API_CALL is_stream_aware(const OrtEpFactory* factory) {
  return ((const Breaker*)factory)->is_asked_for_streams;
}

static OrtStatus* ORT_API_CALL run_start(OrtEp* this_ptr, const OrtRunOptions* options) {
  Breaker* breaker = ((Ep*)this_ptr)->breaker;
  const char* name = NULL;
  (void)options;
  if (breaks(keeps_graph)) {
    OrtStatus* status = breaker->factory.api->Graph_GetName(breaker->kept_graph, &name);
    if (status != NULL) {
      breaker->factory.api->ReleaseStatus(status);
    }
  }
  if (breaks(refuses_copy)) {
    return use_transfer(breaker);
  }
  if (breaks(aware_without_streams)) { /* a host that went by it would call NULL */
    breaker->is_asked_for_streams = true;
    (void)breaker->factory.base.IsStreamAware(&breaker->factory.base);
    breaker->is_asked_for_streams = false;
  }
  return breaker->memory_info != NULL ? use_allocator(breaker) : NULL;
}

static void* use_context(void* argument) {
  const Breaker* breaker = (const Breaker*)argument;
  size_t count = 0;
  OrtStatus* status = breaker->factory.api->KernelContext_GetInputCount(breaker->kept_context, &count);
  if (status != NULL) {
    breaker->factory.api->ReleaseStatus(status);
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL run_end(OrtEp* this_ptr, const OrtRunOptions* options, bool sync_stream) {
  Breaker* breaker = ((Ep*)this_ptr)->breaker;
  int is_tensor = 0;
  size_t count = 0;
  (void)options, (void)sync_stream;
  pthread_t thread;
  if (breaks(uses_context_in_thread) && pthread_create(&thread, NULL, use_context, breaker) == 0) {
    pthread_join(thread, NULL);
  }
  if (breaks(keeps_context)) {
    return breaker->factory.api->KernelContext_GetInputCount(breaker->kept_context, &count);
  }
  return breaks(keeps_output) ? breaker->factory.api->IsTensor(breaker->kept_value, &is_tensor) : NULL;
}

/* ---- Making a session ---------------------------------------------------------------------------------- */

static void ORT_API_CALL release_infos(OrtEp* this_ptr, OrtNodeComputeInfo** infos, size_t count) {
  (void)this_ptr;
  for (size_t i = 0; i < count; ++i) {
    free(infos[i]);
  }
}

static OrtStatus* add_text(const OrtApi* api, OrtOpAttr** attributes, size_t* count, const char* name,
                           const char* text) {
  TRY(api->CreateOpAttr(name, text, (int)strlen(text), ORT_OP_ATTR_STRING, &attributes[*count]));
  ++*count;
  return NULL;
}

/* Makes an EPContext node, and releases it. */
static OrtStatus* make_context_node(const OrtApi* api) {
  const OrtModelEditorApi* editor = api->GetModelEditorApi();
  const char* const names[] = {"x"};
  OrtOpAttr* attributes[3] = {NULL, NULL, NULL};
  OrtNode* node = NULL;
  size_t count = 0;
  if (!breaks(context_without_data)) {
    TRY(add_text(api, attributes, &count, "ep_cache_context", "compiled"));
  }
  if (!breaks(context_without_source)) {
    const char* source = breaks(context_of_other_source) ? "somebody" : kEpName;
    TRY(add_text(api, attributes, &count, "source", source));
  }
  const OrtOpAttr* first = attributes[0];
  const char* domain = breaks(context_of_other_domain) ? "" : "com.microsoft";
  if (breaks(takes_over_released)) {
    api->ReleaseOpAttr(attributes[0]);
  }
  TRY(editor->CreateNode("EPContext", domain, "compiled", names, 1, names, 1, attributes, count, &node));
  if (breaks(releases_attribute)) {
    api->ReleaseOpAttr((OrtOpAttr*)(uintptr_t)first);
  }
  api->ReleaseNode(node);
  return NULL;
}

static OrtStatus* ORT_API_CALL compile(OrtEp* this_ptr, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                       size_t count, OrtNodeComputeInfo** infos, OrtNode** ep_context_nodes) {
  Breaker* breaker = ((Ep*)this_ptr)->breaker;
  const OrtApi* api = breaker->factory.api;
  (void)ep_context_nodes;
  breaker->kept_graph = graphs[0];
  if (breaks(releases_node)) {
    api->ReleaseNode((OrtNode*)(uintptr_t)fused_nodes[0]);
  }
  TRY(make_context_node(api));
  for (size_t i = 0; i < count; ++i) {
    infos[i] = NULL;
    if (breaks(no_compute_info)) {
      continue;
    }
    Info* info = (Info*)calloc(1, sizeof *info);
    if (info == NULL) {
      release_infos(this_ptr, infos, i);
      return out_of_memory(api);
    }
    info->base.ort_version_supported = breaks(info_of_version_0) ? 0 : API_VERSION;
    info->base.CreateState = create_state;
    info->base.Compute = breaks(info_without_compute) ? NULL : compute;
    info->base.ReleaseState = release_state;
    info->breaker = breaker;
    infos[i] = &info->base;
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                              OrtEpGraphSupportInfo* support) {
  static const union {
    char bytes[256];
    double alignment;
  } kNothing = {{0}};
  const Factory* factory = &((Ep*)this_ptr)->breaker->factory;
  const OrtApi* api = factory->api;
  const OrtEpApi* ep_api = factory->ep_api;
  const OrtNode* nodes[64] = {NULL};
  const OrtNode* wanted[64] = {NULL};
  size_t count = 0, found = 0;
  const OrtNodeFusionOptions options = {API_VERSION, false};
  OrtStatus* status = NULL;
  TRY(api->Graph_GetNumNodes(graph, &count));
  if (count == 0 || count > 64) {
    return NULL;
  }
  TRY(api->Graph_GetNodes(graph, nodes, count));
  for (size_t i = 0; i < count; ++i) {
    const char* type = NULL;
    const OrtValueInfo* inputs[2] = {NULL, NULL};
    bool is_float = false;
    TRY(api->Node_GetOperatorType(nodes[i], &type));
    if (strcmp(type, "Add") == 0) {
      TRY(api->Node_GetInputs(nodes[i], inputs, 2));
      TRY(is_float_tensor(api, inputs[0], 8, &is_float));
    }
    if (is_float || (breaks(claims_of_another_ep) && strcmp(type, "EPContext") == 0)) {
      wanted[found++] = nodes[i];
    }
  }
  if (breaks(claims_empty_group)) {
    status = ep_api->EpGraphSupportInfo_AddNodesToFuse(support, nodes, 0, &options);
  } else if (breaks(claims_around) && found != 0) {
    status = ep_api->EpGraphSupportInfo_AddNodesToFuse(support, wanted, found, &options);
  }
  for (size_t i = 0; i < found && status == NULL && !breaks(claims_around); ++i) {
    const OrtNode* group[2] = {wanted[i], wanted[i]};
    if (breaks(claims_null)) {
      group[0] = NULL;
    } else if (breaks(claims_nothing_known)) {
      group[0] = (const OrtNode*)(const void*)&kNothing;
    }
    if (has_kernels()) {
      status = ep_api->EpGraphSupportInfo_AddSingleNode(support, wanted[i]);
      continue;
    }
    for (int again = breaks(claims_in_two_groups); again >= 0 && status == NULL; --again) {
      status =
          ep_api->EpGraphSupportInfo_AddNodesToFuse(support, group, breaks(claims_twice) ? 2 : 1, &options);
    }
  }
  return status;
}

static OrtStatus* ORT_API_CALL get_registry(OrtEp* this_ptr, const OrtKernelRegistry** registry) {
  *registry = ((Ep*)this_ptr)->breaker->registry;
  return NULL;
}

static OrtStatus* ORT_API_CALL get_layout(OrtEp* this_ptr, OrtEpDataLayout* layout) {
  (void)this_ptr;
  const int answer = breaks(no_such_layout) ? 7 : OrtEpDataLayout_NCHW;
  memcpy(layout, &answer, sizeof answer);
  return NULL;
}

static const char* ORT_API_CALL ep_name(const OrtEp* this_ptr) {
  (void)this_ptr;
  return breaks(ep_name_null) ? NULL : breaks(ep_of_other_name) ? "some_other_name" : kEpName;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** out) {
  Breaker* breaker = (Breaker*)this_ptr;
  (void)devices, (void)ep_metadata, (void)num_devices, (void)session_options, (void)logger;
  *out = NULL;
  if (breaks(no_ep)) {
    return NULL;
  }
  Ep* ep = (Ep*)calloc(1, sizeof *ep);
  if (ep == NULL) {
    return out_of_memory(breaker->factory.api);
  }
  ep->base.GetName = ep_name;
  ep->base.GetCapability = get_capability;
  ep->base.Compile = breaks(ep_without_compile) || has_kernels() ? NULL : compile;
  ep->base.ReleaseNodeComputeInfos = breaks(ep_without_release_infos) || has_kernels() ? NULL : release_infos;
  ep->base.GetKernelRegistry = has_kernels() ? get_registry : NULL;
  ep->base.GetPreferredDataLayout = get_layout;
  ep->base.OnRunStart = run_start;
  ep->base.OnRunEnd = run_end;
  ep->base.ort_version_supported = API_VERSION;
  ep->breaker = breaker;
  *out = &ep->base;
  return NULL;
}

static void ORT_API_CALL release_ep(OrtEpFactory* this_ptr, OrtEp* ep) {
  (void)this_ptr;
  free(ep);
}

/* ---- A memory of its own ------------------------------------------------------------------------------- */

static void* ORT_API_CALL allocate(OrtAllocator* this_ptr, size_t size) {
  Allocator* allocator = (Allocator*)this_ptr;
  (void)size;
  return (char*)allocator->memory + (breaks(allocates_crooked) ? 1 : 0);
}

static void ORT_API_CALL free_memory(OrtAllocator* this_ptr, void* memory) { (void)this_ptr, (void)memory; }

static const OrtMemoryInfo* ORT_API_CALL where(const OrtAllocator* this_ptr) {
  return breaks(allocator_without_info) ? NULL : ((const Allocator*)this_ptr)->info;
}

static OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory* this_ptr, const OrtMemoryInfo* info,
                                                const OrtKeyValuePairs* options, OrtAllocator** out) {
  Breaker* breaker = (Breaker*)this_ptr;
  (void)options;
  Allocator* allocator = (Allocator*)calloc(1, sizeof *allocator);
  if (allocator == NULL || (allocator->memory = aligned_alloc(64, 1 << 16)) == NULL) {
    free(allocator);
    return out_of_memory(breaker->factory.api);
  }
  allocator->base.version = API_VERSION;
  allocator->base.Alloc = allocate;
  allocator->base.Free = free_memory;
  allocator->base.Info = where;
  allocator->info = info;
  *out = &allocator->base;
  return NULL;
}

static void ORT_API_CALL release_allocator(OrtEpFactory* this_ptr, OrtAllocator* allocator) {
  (void)this_ptr;
  free(((Allocator*)allocator)->memory);
  free(allocator);
}

static void ORT_API_CALL release_transfer(OrtDataTransferImpl* this_ptr) { free(this_ptr); }

static bool ORT_API_CALL can_copy(const OrtDataTransferImpl* this_ptr, const OrtMemoryDevice* from,
                                  const OrtMemoryDevice* to) {
  (void)this_ptr, (void)from, (void)to;
  return true;
}

static OrtStatus* ORT_API_CALL copy_tensors(OrtDataTransferImpl* this_ptr, const OrtValue** from,
                                            OrtValue** to, OrtSyncStream** streams, size_t count) {
  (void)from, (void)to, (void)streams, (void)count;
  return ((Transfer*)this_ptr)->api->CreateStatus(ORT_NOT_IMPLEMENTED, "rule_breaker copies nothing");
}

static OrtStatus* ORT_API_CALL create_transfer(OrtEpFactory* this_ptr, OrtDataTransferImpl** out) {
  Breaker* breaker = (Breaker*)this_ptr;
  *out = NULL;
  if (!breaks(refuses_copy)) {
    return NULL;
  }
  Transfer* transfer = (Transfer*)calloc(1, sizeof *transfer);
  if (transfer == NULL) {
    return out_of_memory(breaker->factory.api);
  }
  transfer->base.ort_version_supported = API_VERSION;
  transfer->base.Release = release_transfer;
  transfer->base.CanCopy = can_copy;
  transfer->base.CopyTensors = copy_tensors;
  transfer->api = breaker->factory.api;
  *out = &transfer->base;
  return NULL;
}

/* ---- Registration -------------------------------------------------------------------------------------- */

static const char* ORT_API_CALL vendor(const OrtEpFactory* this_ptr) {
  return breaks(vendor_empty) ? "" : factory_vendor(this_ptr);
}

static OrtStatus* ORT_API_CALL get_devices(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                           size_t num_devices, OrtEpDevice** ep_devices,
                                           size_t max_ep_devices, size_t* num_ep_devices) {
  Breaker* breaker = (Breaker*)this_ptr;
  breaker->kept_name = this_ptr->GetName; /* with the layer, the layer's */
  TRY(factory_devices(this_ptr, devices, num_devices, ep_devices, max_ep_devices, num_ep_devices));
  if (breaks(device_twice) && *num_ep_devices == 1 && max_ep_devices > 1) {
    ep_devices[1] = ep_devices[0];
    *num_ep_devices = 2;
  }
  if (breaks(too_many_devices)) {
    *num_ep_devices = max_ep_devices + 1;
  }
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  Breaker* breaker = (Breaker*)factory;
  if (breaks(called_after_release)) {
    (void)breaker->kept_name(factory);
  }
  breaker->factory.api->ReleaseMemoryInfo(breaker->memory_info);
  breaker->factory.ep_api->ReleaseKernelRegistry(breaker->registry);
  free(breaker);
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  const OrtApi* api = ort_api_base->GetApi(breaks(newer_function) ? 23 : API_VERSION);
  (void)registered_name, (void)default_logger, (void)max_factories;
  *num_factories = 0;
  if (api == NULL) {
    return host_too_old(ort_api_base);
  }
  if (!is_known_mode()) {
    return api->CreateStatus(ORT_FAIL, "rule_breaker: RULE_BREAKER is not one of its modes");
  }
  Breaker* breaker = (Breaker*)calloc(1, sizeof *breaker);
  if (breaker == NULL) {
    return out_of_memory(api);
  }
  factory_init(&breaker->factory, api, kEpName);
  OrtEpFactory* factory = &breaker->factory.base;
  factory->GetVendor = vendor;
  factory->GetSupportedDevices = get_devices;
  factory->CreateEp = breaks(factory_without_create_ep) ? NULL : create_ep;
  factory->ReleaseEp = release_ep;
  factory->CreateDataTransfer = create_transfer;
  factory->IsStreamAware = is_stream_aware;
  if (breaks(factory_without_release)) {
    factory->CreateAllocator = create_allocator;
  }
  if (breaks(allocates_twice) || breaks(allocates_crooked) || breaks(allocator_without_info)) {
    factory->CreateAllocator = create_allocator;
    factory->ReleaseAllocator = release_allocator;
    OrtStatus* status =
        api->CreateMemoryInfo_V2("rule_breaker", OrtMemoryInfoDeviceType_CPU, 0x4242, 0,
                                 OrtDeviceMemoryType_DEFAULT, 64, OrtDeviceAllocator, &breaker->memory_info);
    if (status != NULL) {
      free(breaker);
      return status;
    }
  }
  if (has_kernels()) {
    static const KernelRow kAdd = {"Add", "", 7, 14, "T", 0, false, false};
    const OrtEpApi* ep_api = breaker->factory.ep_api;
    OrtStatus* status = ep_api->CreateKernelRegistry(&breaker->registry);
    if (status == NULL && !breaks(kernel_is_missing)) {
      status = register_kernel(ep_api, breaker->registry, kEpName, &kAdd, kernel_create, breaker);
    }
    if (status != NULL) {
      ep_api->ReleaseKernelRegistry(breaker->registry);
      free(breaker);
      return status;
    }
  }
  factories[0] = factory;
  *num_factories = 1;
  return NULL;
}
