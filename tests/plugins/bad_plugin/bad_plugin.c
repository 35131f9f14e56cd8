/* A plugin that does one wrong thing on request, for testing hosts. It never ships.
 *
 * The environment variable EPHOST_BAD names the mode; it is read at each use, so a test can change it between
 * two calls. Without a mode the plugin is a good one: it claims every float32 Add as a group of its own and
 * adds tensors of the same shape.
 *
 * EPHOST_FAULT has one of its functions end the process (../faults.h).
 *
 * The tests read the table of modes from this file: for each, its name and what it does. Two more faults are
 * builds of their own: -DCreateEpFactories=Other and -DReleaseEpFactory=Other make libraries without one of
 * the two symbols. */
#define _GNU_SOURCE /* for ../reaches.h */
#include <stdio.h>

#include "../../../plugins/common/factory.h"
#include "../faults.h"
#include "../reaches.h"

#define MODES(MODE)                                                                                         \
  /* Registration. */                                                                                       \
  MODE(factories_fail, "CreateEpFactories returns an error")                                                \
  MODE(factories_none, "CreateEpFactories succeeds with no factory")                                        \
  MODE(factories_too_many, "CreateEpFactories claims to have made one factory more than there is room for") \
  MODE(factories_garbage, "CreateEpFactories claims to have made SIZE_MAX factories")                       \
  MODE(factories_null, "CreateEpFactories says one factory and leaves its pointer NULL")                    \
  MODE(factories_twice, "CreateEpFactories reports one factory twice")                                      \
  MODE(factories_fail_not_utf8, "CreateEpFactories returns an error whose text is not UTF-8")               \
  MODE(factory_release_fails, "ReleaseEpFactory releases the factory and returns an error")                 \
  MODE(factory_without_name, "the factory's GetName is NULL")                                               \
  MODE(factory_name_null, "the factory's GetName returns NULL")                                             \
  MODE(factory_name_empty, "the factory's GetName returns an empty string")                                 \
  MODE(factory_without_vendor, "the factory's GetVendor is NULL")                                           \
  MODE(factory_vendor_null, "the factory's GetVendor returns NULL")                                         \
  MODE(factory_version_null, "the factory's GetVersion returns NULL")                                       \
  MODE(factory_without_devices, "GetSupportedDevices is NULL")                                              \
  MODE(factory_without_create_ep, "CreateEp is NULL")                                                       \
  MODE(factory_without_release_ep, "ReleaseEp is NULL")                                                     \
  MODE(devices_fail, "GetSupportedDevices returns an error")                                                \
  MODE(devices_none, "GetSupportedDevices succeeds with no device")                                         \
  MODE(devices_overrun, "GetSupportedDevices reports one device more than there is room for")               \
  MODE(devices_null, "GetSupportedDevices reports one device and leaves its pointer NULL")                  \
  MODE(devices_twice, "GetSupportedDevices reports one pointer twice")                                      \
  MODE(asks_api_999, "CreateEpFactories asks for API version 999, and fails if it is given one")            \
  MODE(answers_any_host, "CreateEpFactories makes a factory also for a host that refused it every version") \
  MODE(asks_api_33, "CreateEpFactories needs API version 33, and CreateEp calls a function of it")          \
  /* ort_version_supported of the factory and the EP. */                                                    \
  MODE(version_0, "0 in both")                                                                              \
  MODE(version_1, "1 in both")                                                                              \
  MODE(version_22_factory, "22 in the factory, and garbage in all members that came later")                 \
  MODE(version_23_ep, "23 in the EP, and garbage in all members that came later")                           \
  MODE(version_9999, "9999 in both")                                                                        \
  /* Making a session. */                                                                                   \
  MODE(create_ep_fails, "CreateEp returns an error")                                                        \
  MODE(create_ep_refuses, "CreateEp returns ORT_INVALID_ARGUMENT")                                          \
  MODE(create_ep_null, "CreateEp succeeds and leaves the EP NULL")                                          \
  MODE(calls_missing_slot, "CreateEp calls a function that the host lacks, and returns what it said")       \
  MODE(ep_without_name, "the EP's GetName is NULL")                                                         \
  MODE(ep_name_null, "the EP's GetName returns NULL")                                                       \
  MODE(ep_name_differs, "the EP calls itself otherwise than its factory does")                              \
  MODE(ep_without_capability, "GetCapability is NULL")                                                      \
  MODE(ep_without_compile, "Compile is NULL, and there is no kernel registry")                              \
  MODE(ep_without_release_infos, "ReleaseNodeComputeInfos is NULL")                                         \
  MODE(registry_null, "GetKernelRegistry succeeds with NULL, and Compile is NULL")                          \
  MODE(registry_fails, "GetKernelRegistry returns an error")                                                \
  MODE(capability_fails, "GetCapability returns an error at once")                                          \
  MODE(capability_fails_late, "GetCapability returns an error after its claims")                            \
  MODE(claim_none, "GetCapability claims nothing")                                                          \
  MODE(claim_null, "GetCapability claims the node NULL")                                                    \
  MODE(claim_unknown, "GetCapability claims a pointer that the host never gave it")                         \
  MODE(claim_from_subgraph,                                                                                 \
       "GetCapability claims a node of a subgraph while asked about the graph around it")                   \
  MODE(claim_empty, "GetCapability claims a group of no nodes")                                             \
  MODE(claim_twice_in_group, "GetCapability names each node twice in its group")                            \
  MODE(claim_in_two_groups, "GetCapability claims each node in two groups")                                 \
  MODE(claim_fused_and_single, "GetCapability claims each node in a group and as a single node")            \
  MODE(claim_single, "GetCapability claims single nodes, for which no kernel is registered")                \
  MODE(claim_all_as_one, "GetCapability claims all Adds as one group, connected or not, circle or not")     \
  MODE(compile_fails, "Compile returns an error, and leaves nothing")                                       \
  MODE(compile_nothing, "Compile succeeds and leaves all compute infos NULL")                               \
  MODE(compile_one_short, "Compile succeeds and leaves the last compute info NULL")                         \
  MODE(info_version_0, "the compute infos say version 0")                                                   \
  MODE(info_without_create_state, "CreateState is NULL")                                                    \
  MODE(info_without_compute, "Compute is NULL")                                                             \
  MODE(info_without_release_state, "ReleaseState is NULL")                                                  \
  MODE(create_state_fails, "CreateState returns an error")                                                  \
  /* Running. */                                                                                            \
  MODE(run_start_fails, "OnRunStart returns an error")                                                      \
  MODE(run_options_told, "OnRunStart returns an error that says what the run's options say")                \
  MODE(run_end_fails, "OnRunEnd returns an error")                                                          \
  MODE(compute_fails, "Compute returns an error with a message")                                            \
  MODE(compute_reaches,                                                                                     \
       "Compute tries what ../reaches.h has, and returns an error that says what came of it")               \
  MODE(compute_no_output, "Compute succeeds without asking for its output")                                 \
  MODE(compute_input_range, "Compute asks for input 1000 and passes on what it is told")                    \
  MODE(compute_output_range, "Compute asks for output 1000 and passes on what it is told")                  \
  MODE(compute_negative_shape, "Compute asks for an output with a negative dimension")                      \
  MODE(compute_huge_shape, "Compute asks for an output of 2**80 elements")                                  \
  MODE(compute_other_shape, "Compute asks for an output with one dimension more than the model says")       \
  MODE(compute_two_shapes, "Compute asks for its output twice, with different shapes")                      \
  /* No fault: for tests of the host's log. */                                                              \
  MODE(logs, "every stage logs a message")

#define NAME_OF(mode, what) static const char mode[] = #mode;
MODES(NAME_OF)

static const char kEpName[] = "bad_plugin";

static bool bad(const char* mode) {
  const char* wanted = getenv("EPHOST_BAD");
  return wanted != NULL && strcmp(wanted, mode) == 0;
}

/* A mode that the table lacks does not compile. One in the environment that the table lacks makes the
 * registration fail: a test with a typing mistake must not pass. */
static bool known_mode(void) {
#define IS_IT(mode, what) bad(mode) ||
  const char* wanted = getenv("EPHOST_BAD");
  return MODES(IS_IT) wanted == NULL || wanted[0] == '\0';
}

typedef struct Ep {
  OrtEp base;
  const Factory* factory;
  const OrtLogger* logger;
} Ep;

typedef struct Info {
  OrtNodeComputeInfo base;
  const Ep* ep;
} Info;

static OrtStatus* fail(const OrtApi* api, const char* text) { return api->CreateStatus(ORT_EP_FAIL, text); }

static void log_stage(const OrtApi* api, const OrtLogger* logger, const char* stage) {
  fault(stage);
  if (bad(logs)) {
    const ORTCHAR_T file[] = {'b', 'a', 'd', '_', 'p', 'l', 'u', 'g', 'i', 'n', '.', 'c', 0};
    OrtStatus* status =
        api->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_WARNING, stage, file, __LINE__, stage);
    if (status != NULL) {
      api->ReleaseStatus(status);
    }
  }
}

static uint32_t version(void) {
  return bad(version_0) ? 0 : bad(version_1) ? 1 : bad(version_9999) ? 9999 : API_VERSION;
}

/* ---- Running ------------------------------------------------------------------------------------------- */

static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* this_ptr, OrtNodeComputeContext* context,
                                            void** state) {
  const Ep* ep = ((Info*)this_ptr)->ep;
  log_stage(ep->factory->api, ep->logger, "CreateState");
  (void)context;
  if (bad(create_state_fails)) {
    return fail(ep->factory->api, "bad_plugin: CreateState fails");
  }
  *state = this_ptr;
  return NULL;
}

static void ORT_API_CALL release_state(OrtNodeComputeInfo* this_ptr, void* state) {
  const Ep* ep = ((Info*)this_ptr)->ep;
  log_stage(ep->factory->api, ep->logger, "ReleaseState");
  (void)state;
}

static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* this_ptr, void* state, OrtKernelContext* context) {
  static const int64_t kNegative[] = {-1}, kHuge[] = {1 << 20, 1 << 20, 1 << 20, 1 << 20};
  const Ep* ep = ((Info*)this_ptr)->ep;
  const OrtApi* api = ep->factory->api;
  const OrtValue* inputs[2] = {NULL, NULL};
  const int64_t* dims[2] = {NULL, NULL};
  const void* data[2] = {NULL, NULL};
  size_t rank[2] = {0, 0}, count = 1, num_inputs = 0;
  OrtValue* output = NULL;
  void* sum = NULL;
  ONNXTensorElementDataType type;
  (void)state;
  log_stage(api, ep->logger, "Compute");
  if (bad(compute_reaches)) {
    char text[512];
    reach(text, sizeof text);
    return fail(api, text);
  }
  if (bad(compute_fails)) {
    return fail(api, "bad_plugin: Compute fails");
  }
  if (bad(compute_no_output)) {
    return NULL;
  }
  if (bad(compute_input_range)) {
    return api->KernelContext_GetInput(context, 1000, &inputs[0]);
  }
  TRY(api->KernelContext_GetInputCount(context, &num_inputs));
  for (size_t i = 0; i < 2; ++i) { /* A fused node has each of its inputs once: of x + x it has one. */
    TRY(api->KernelContext_GetInput(context, i < num_inputs ? i : 0, &inputs[i]));
    TRY(api->GetTensorElementTypeAndShapeDataReference(inputs[i], &type, &dims[i], &rank[i]));
    TRY(api->GetTensorData(inputs[i], &data[i]));
  }
  if (bad(compute_output_range)) {
    return api->KernelContext_GetOutput(context, 1000, dims[0], rank[0], &output);
  }
  if (bad(compute_negative_shape)) {
    return api->KernelContext_GetOutput(context, 0, kNegative, 1, &output);
  }
  if (bad(compute_huge_shape)) {
    return api->KernelContext_GetOutput(context, 0, kHuge, 4, &output);
  }
  if (rank[0] != rank[1] || rank[0] > 8 ||
      (rank[0] > 0 && memcmp(dims[0], dims[1], rank[0] * sizeof *dims[0]) != 0)) {
    return fail(api, "bad_plugin: it only adds tensors of one shape");
  }
  int64_t shape[9] = {1};
  for (size_t i = 0; i < rank[0]; ++i) {
    shape[i + 1] = dims[0][i];
    count *= (size_t)dims[0][i];
  }
  const bool longer = bad(compute_other_shape);
  if (bad(compute_two_shapes)) {
    TRY(api->KernelContext_GetOutput(context, 0, shape, rank[0] + 1, &output));
  }
  TRY(api->KernelContext_GetOutput(context, 0, longer ? shape : shape + 1, rank[0] + longer, &output));
  TRY(api->GetTensorMutableData(output, &sum));
  for (size_t i = 0; i < count; ++i) {
    ((float*)sum)[i] = ((const float*)data[0])[i] + ((const float*)data[1])[i];
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL run_start(OrtEp* this_ptr, const OrtRunOptions* options) {
  const Ep* ep = (const Ep*)this_ptr;
  log_stage(ep->factory->api, ep->logger, "OnRunStart");
  if (bad(run_options_told)) {
    const OrtApi* api = ep->factory->api;
    const char *tag = "", *entry = api->GetRunConfigEntry(options, "some.entry");
    const char* stopped = api->GetRunConfigEntry(options, "ephost.run_terminated");
    char text[256];
    int severity = 0, verbosity = 0;
    OrtStatus* status = api->RunOptionsGetRunTag(options, &tag);
    if (status == NULL) status = api->RunOptionsGetRunLogSeverityLevel(options, &severity);
    if (status == NULL) status = api->RunOptionsGetRunLogVerbosityLevel(options, &verbosity);
    (void)snprintf(text, sizeof text, "tag '%s', severity %d, verbosity %d, entry '%s', stopped %s", tag,
                   severity, verbosity, entry != NULL ? entry : "none", stopped != NULL ? "1" : "0");
    return status != NULL ? status : fail(api, text);
  }
  return bad(run_start_fails) ? fail(ep->factory->api, "bad_plugin: OnRunStart fails") : NULL;
}

static OrtStatus* ORT_API_CALL run_end(OrtEp* this_ptr, const OrtRunOptions* options, bool sync_stream) {
  const Ep* ep = (const Ep*)this_ptr;
  (void)options, (void)sync_stream;
  log_stage(ep->factory->api, ep->logger, "OnRunEnd");
  return bad(run_end_fails) ? fail(ep->factory->api, "bad_plugin: OnRunEnd fails") : NULL;
}

/* ---- Making a session ---------------------------------------------------------------------------------- */

static void ORT_API_CALL release_infos(OrtEp* this_ptr, OrtNodeComputeInfo** infos, size_t count) {
  const Ep* ep = (const Ep*)this_ptr;
  log_stage(ep->factory->api, ep->logger, "ReleaseNodeComputeInfos");
  for (size_t i = 0; i < count; ++i) {
    free(infos[i]);
  }
}

static OrtStatus* ORT_API_CALL compile(OrtEp* this_ptr, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                       size_t count, OrtNodeComputeInfo** infos, OrtNode** ep_context_nodes) {
  const Ep* ep = (const Ep*)this_ptr;
  const OrtApi* api = ep->factory->api;
  (void)graphs, (void)fused_nodes, (void)ep_context_nodes;
  log_stage(api, ep->logger, "Compile");
  if (bad(compile_fails)) {
    return fail(api, "bad_plugin: Compile fails");
  }
  for (size_t i = 0; i < count; ++i) {
    infos[i] = NULL;
    if (bad(compile_nothing) || (bad(compile_one_short) && i + 1 == count)) {
      continue;
    }
    Info* info = (Info*)calloc(1, sizeof *info);
    if (info == NULL) {
      while (i > 0) {
        free(infos[--i]);
      }
      return out_of_memory(api);
    }
    info->base.ort_version_supported = bad(info_version_0) ? 0 : API_VERSION;
    info->base.CreateState = bad(info_without_create_state) ? NULL : create_state;
    info->base.Compute = bad(info_without_compute) ? NULL : compute;
    info->base.ReleaseState = bad(info_without_release_state) ? NULL : release_state;
    info->ep = ep;
    infos[i] = &info->base;
  }
  return NULL;
}

/* True for a float32 Add. */
static OrtStatus* is_add(const OrtApi* api, const OrtNode* node, bool* answer) {
  const char* type = NULL;
  const OrtValueInfo* inputs[2] = {NULL, NULL};
  *answer = false;
  TRY(api->Node_GetOperatorType(node, &type));
  if (strcmp(type, "Add") == 0) {
    TRY(api->Node_GetInputs(node, inputs, 2));
    TRY(is_float_tensor(api, inputs[0], 8, answer));
  }
  return NULL;
}

/* The first node of the first subgraph of `node`, or NULL. */
static OrtStatus* first_inner_node(const OrtApi* api, const OrtNode* node, const OrtNode** inner) {
  const OrtGraph* graphs[4] = {NULL};
  const OrtNode* nodes[64] = {NULL};
  size_t num_graphs = 0, num_nodes = 0;
  *inner = NULL;
  TRY(api->Node_GetNumSubgraphs(node, &num_graphs));
  if (num_graphs == 0 || num_graphs > 4) {
    return NULL;
  }
  TRY(api->Node_GetSubgraphs(node, graphs, num_graphs, NULL));
  TRY(api->Graph_GetNumNodes(graphs[0], &num_nodes));
  if (num_nodes == 0 || num_nodes > 64) {
    return NULL;
  }
  TRY(api->Graph_GetNodes(graphs[0], nodes, num_nodes));
  *inner = nodes[0];
  return NULL;
}

/* Claims one Add, or claims it wrongly. */
static OrtStatus* claim(const OrtEpApi* ep_api, OrtEpGraphSupportInfo* support, const OrtNode* node) {
  static const union {
    char bytes[256];
    double alignment;
  } kNothing = {{0}};
  const OrtNodeFusionOptions options = {API_VERSION, false};
  const OrtNode* group[2] = {node, node};
  if (bad(claim_null)) {
    group[0] = NULL;
  } else if (bad(claim_unknown)) {
    group[0] = (const OrtNode*)(const void*)&kNothing;
  }
  if (bad(claim_single)) {
    return ep_api->EpGraphSupportInfo_AddSingleNode(support, node);
  }
  const size_t size = bad(claim_empty) ? 0 : bad(claim_twice_in_group) ? 2 : 1;
  TRY(ep_api->EpGraphSupportInfo_AddNodesToFuse(support, group, size, &options));
  if (bad(claim_in_two_groups)) {
    TRY(ep_api->EpGraphSupportInfo_AddNodesToFuse(support, group, size, &options));
  }
  return bad(claim_fused_and_single) ? ep_api->EpGraphSupportInfo_AddSingleNode(support, node) : NULL;
}

static OrtStatus* ORT_API_CALL get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                              OrtEpGraphSupportInfo* support) {
  const Ep* ep = (const Ep*)this_ptr;
  const OrtApi* api = ep->factory->api;
  const OrtEpApi* ep_api = ep->factory->ep_api;
  const OrtNodeFusionOptions options = {API_VERSION, false};
  size_t count = 0, num_adds = 0;
  OrtStatus* status = NULL;
  log_stage(api, ep->logger, "GetCapability");
  if (getenv("EPHOST_BABBLE") != NULL) babble();
  if (bad(capability_fails)) {
    return fail(api, "bad_plugin: GetCapability fails");
  }
  TRY(api->Graph_GetNumNodes(graph, &count));
  const OrtNode** nodes = (const OrtNode**)calloc(2 * count + 1, sizeof *nodes); /* All, then the Adds. */
  if (nodes == NULL) {
    return out_of_memory(api);
  }
  const OrtNode** adds = nodes + count;
  TRY_OR_DONE(api->Graph_GetNodes(graph, nodes, count));
  for (size_t i = 0; i < count; ++i) {
    bool add = false;
    TRY_OR_DONE(is_add(api, nodes[i], &add));
    if (bad(claim_from_subgraph)) {
      const OrtNode* inner = NULL;
      TRY_OR_DONE(first_inner_node(api, nodes[i], &inner));
      if (inner != NULL) {
        TRY_OR_DONE(ep_api->EpGraphSupportInfo_AddNodesToFuse(support, &inner, 1, &options));
      }
    } else if (add && !bad(claim_none)) {
      adds[num_adds++] = nodes[i];
    }
  }
  if (bad(claim_all_as_one)) {
    if (num_adds > 0) {
      TRY_OR_DONE(ep_api->EpGraphSupportInfo_AddNodesToFuse(support, adds, num_adds, &options));
    }
  } else {
    for (size_t i = 0; i < num_adds; ++i) {
      TRY_OR_DONE(claim(ep_api, support, adds[i]));
    }
  }
  if (bad(capability_fails_late)) {
    TRY_OR_DONE(fail(api, "bad_plugin: GetCapability fails after its claims"));
  }
done:
  free((void*)nodes);
  return status;
}

static OrtStatus* ORT_API_CALL get_registry(OrtEp* this_ptr, const OrtKernelRegistry** registry) {
  *registry = NULL;
  return bad(registry_fails)
             ? fail(((const Ep*)this_ptr)->factory->api, "bad_plugin: GetKernelRegistry fails")
             : NULL;
}

static const char* ORT_API_CALL ep_name(const OrtEp* this_ptr) {
  (void)this_ptr;
  return bad(ep_name_null) ? NULL : bad(ep_name_differs) ? "some_other_name" : kEpName;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** out) {
  const Factory* factory = (const Factory*)this_ptr;
  const OrtApi* api = factory->api;
  (void)devices, (void)ep_metadata, (void)num_devices, (void)session_options;
  log_stage(api, logger, "CreateEp");
  *out = NULL;
  if (bad(create_ep_fails)) {
    return fail(api, "bad_plugin: CreateEp fails");
  }
  if (bad(create_ep_refuses)) {
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "bad_plugin: CreateEp does not know that option");
  }
  if (bad(create_ep_null)) {
    return NULL;
  }
  if (bad(asks_api_33)) { /* The first one that the headers here do not know. */
    typedef OrtStatus*(ORT_API_CALL * Newer)(const OrtApi*, int);
    Newer newer = NULL;
    memcpy(&newer, (const char*)factory->api + sizeof(OrtApi), sizeof newer);
    return newer(factory->api, 1);
  }
  if (bad(calls_missing_slot)) {
    return api->SessionOptionsAppendExecutionProvider_MIGraphX(NULL, NULL);
  }
  Ep* ep = (Ep*)calloc(1, sizeof *ep);
  if (ep == NULL) {
    return out_of_memory(api);
  }
  const bool no_compile = bad(ep_without_compile) || bad(registry_null);
  ep->base.GetName = bad(ep_without_name) ? NULL : ep_name;
  ep->base.GetCapability = bad(ep_without_capability) ? NULL : get_capability;
  ep->base.Compile = no_compile ? NULL : compile;
  ep->base.ReleaseNodeComputeInfos = bad(ep_without_release_infos) ? NULL : release_infos;
  ep->base.OnRunStart = run_start;
  ep->base.OnRunEnd = run_end;
  ep->base.GetKernelRegistry = bad(registry_null) || bad(registry_fails) ? get_registry : NULL;
  ep->base.ort_version_supported = version();
  if (bad(version_23_ep)) {
    ep->base.ort_version_supported = 23;
    memset((char*)&ep->base + offsetof(OrtEp, GetKernelRegistry), 0xAB,
           sizeof ep->base - offsetof(OrtEp, GetKernelRegistry));
  }
  ep->factory = factory;
  ep->logger = logger;
  *out = &ep->base;
  return NULL;
}

static void ORT_API_CALL release_ep(OrtEpFactory* this_ptr, OrtEp* ep) {
  log_stage(((const Factory*)this_ptr)->api, ((const Ep*)ep)->logger, "ReleaseEp");
  free(ep);
}

/* ---- Registration -------------------------------------------------------------------------------------- */

static const char* ORT_API_CALL bad_name(const OrtEpFactory* this_ptr) {
  (void)this_ptr;
  fault("GetName");
  return bad(factory_name_null) ? NULL : bad(factory_name_empty) ? "" : kEpName;
}

static const char* ORT_API_CALL bad_vendor(const OrtEpFactory* this_ptr) {
  return bad(factory_vendor_null) ? NULL : factory_vendor(this_ptr);
}

static const char* ORT_API_CALL bad_version(const OrtEpFactory* this_ptr) {
  return bad(factory_version_null) ? NULL : factory_version(this_ptr);
}

static OrtStatus* ORT_API_CALL bad_devices(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                           size_t num_devices, OrtEpDevice** ep_devices,
                                           size_t max_ep_devices, size_t* num_ep_devices) {
  *num_ep_devices = 0;
  fault("GetSupportedDevices");
  if (bad(devices_fail)) {
    return fail(((const Factory*)this_ptr)->api, "bad_plugin: GetSupportedDevices fails");
  }
  if (bad(devices_none)) {
    return NULL;
  }
  if (bad(devices_null)) {
    ep_devices[0] = NULL;
    *num_ep_devices = 1;
    return NULL;
  }
  TRY(factory_devices(this_ptr, devices, num_devices, ep_devices, max_ep_devices, num_ep_devices));
  if (bad(devices_overrun)) {
    *num_ep_devices =
        max_ep_devices + 1; /* Nothing is written beyond the array: the host has to look at the number. */
  } else if (bad(devices_twice) && *num_ep_devices == 1 && max_ep_devices >= 2) {
    ep_devices[1] = ep_devices[0];
    *num_ep_devices = 2;
  }
  return NULL;
}

__attribute__((constructor)) static void on_load(void) { fault("load"); }

__attribute__((destructor)) static void on_unload(void) { fault("unload"); }

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  const OrtApi* api = ((const Factory*)factory)->api;
  fault("ReleaseEpFactory");
  free(factory);
  return bad(factory_release_fails) ? fail(api, "bad_plugin: ReleaseEpFactory fails") : NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  const OrtApi* api = ort_api_base->GetApi(API_VERSION);
  (void)registered_name;
  *num_factories = 0;
  if (api == NULL && !bad(answers_any_host)) {
    return host_too_old(ort_api_base);
  }
  if (api == NULL) { /* it could do nothing but be released */
    Factory* blind = (Factory*)calloc(1, sizeof *blind);
    if (blind == NULL) {
      return NULL;
    }
    blind->base.ort_version_supported = API_VERSION;
    factories[0] = &blind->base;
    *num_factories = 1;
    return NULL;
  }
  log_stage(api, default_logger, "CreateEpFactories");
  if (!known_mode()) {
    return fail(api, "bad_plugin: EPHOST_BAD is not one of its modes");
  }
  if (bad(asks_api_33) && ort_api_base->GetApi(33) == NULL) {
    return fail(api, "bad_plugin: the host is too old");
  }
  if (bad(asks_api_999) && ort_api_base->GetApi(999) != NULL) {
    return fail(api, "bad_plugin: the host has an API version 999");
  }
  if (bad(factories_fail)) {
    return fail(api, "bad_plugin: CreateEpFactories fails");
  }
  if (bad(factories_fail_not_utf8)) {
    return fail(api, "bad_plugin: \xff is no text");
  }
  if (bad(factories_none) || max_factories < 1) {
    return NULL;
  }
  if (bad(factories_null)) {
    factories[0] = NULL;
    *num_factories = 1;
    return NULL;
  }
  Factory* factory = (Factory*)calloc(1, sizeof *factory);
  if (factory == NULL) {
    return out_of_memory(api);
  }
  factory_init(factory, api, kEpName);
  factory->base.GetName = bad(factory_without_name) ? NULL : bad_name;
  factory->base.GetVendor = bad(factory_without_vendor) ? NULL : bad_vendor;
  factory->base.GetVersion = bad_version;
  factory->base.GetSupportedDevices = bad(factory_without_devices) ? NULL : bad_devices;
  factory->base.CreateEp = bad(factory_without_create_ep) ? NULL : create_ep;
  factory->base.ReleaseEp = bad(factory_without_release_ep) ? NULL : release_ep;
  factory->base.ort_version_supported = version();
  if (bad(version_22_factory)) {
    factory->base.ort_version_supported = 22;
    memset((char*)&factory->base + offsetof(OrtEpFactory, GetVendorId), 0xAB,
           sizeof factory->base - offsetof(OrtEpFactory, GetVendorId));
  }
  factories[0] = &factory->base;
  if (bad(factories_twice) && max_factories > 1) {
    factories[1] = &factory->base;
    *num_factories = 2;
    return NULL;
  }
  *num_factories = bad(factories_too_many) ? max_factories + 1 : bad(factories_garbage) ? SIZE_MAX : 1;
  return NULL;
}
