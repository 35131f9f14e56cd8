/* sample_compiler: a plugin EP that claims groups of elementwise operators and compiles each into one
 * program.
 *
 * Write an EP this way if it wants to see several nodes at once: a graph compiler, or hardware with
 * a graph format of its own. After Compile the host knows a group only as one fused node. Here the gain is
 * memory traffic: run one by one, the operators of  y = tanh(a * b + c)  write and read each intermediate
 * tensor in full; the program goes over memory once, a tile at a time, and intermediate values never leave
 * the cache. The order of events, with a file for each:
 *
 * 1. This file: the library is registered, and a session asks for an EP.
 * 2. partition.c, GetCapability: find convex groups of nodes that we can do.
 * 3. program.c, Compile: turn each group into a list of instructions.
 * 4. execute.c, Compute: in each run find the shapes, then execute.
 *
 * graph.c reads the host's graph for 2 and 3. */
#include <stdio.h>

#include "partition.h"
#include "program.h"

static const char kEpName[] = "sample_compiler";

typedef struct Ep {
  OrtEp base; /* First, as in Factory. */
  const Factory* factory;
  const OrtLogger* logger; /* The session's; valid as long as the EP is. */
} Ep;

/* Tells the session's log. What a logger says must not make a session fail, so its own errors are dropped. */
static void log_program(const Ep* ep, const Program* program) {
  static const ORTCHAR_T kFile[] = {'s', 'a', 'm', 'p', 'l', 'e', '_', 'c',
                                    'o', 'm', 'p', 'i', 'l', 'e', 'r', '\0'};
  char text[96];
  (void)snprintf(text, sizeof text, "sample_compiler: compiled %zu nodes, %zu tiles", program->num_code,
                 program->num_tiles);
  OrtStatus* status =
      program->api->Logger_LogMessage(ep->logger, ORT_LOGGING_LEVEL_INFO, text, kFile, __LINE__, __func__);
  if (status != NULL) {
    program->api->ReleaseStatus(status);
  }
}

/* State is for what a kernel keeps from run to run. A program keeps nothing, so it is its own state. */
static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* this_ptr, OrtNodeComputeContext* context,
                                            void** compute_state) {
  (void)context;
  *compute_state = this_ptr;
  return NULL;
}

static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* this_ptr, void* compute_state,
                                       OrtKernelContext* context) {
  (void)this_ptr;
  return run_program((const Program*)compute_state, context);
}

static void ORT_API_CALL release_state(OrtNodeComputeInfo* this_ptr, void* compute_state) {
  (void)this_ptr, (void)compute_state;
}

static void ORT_API_CALL ep_release_compute_infos(OrtEp* this_ptr, OrtNodeComputeInfo** infos, size_t count) {
  (void)this_ptr;
  for (size_t i = 0; i < count; ++i) {
    free_program((Program*)infos[i]);
    infos[i] = NULL;
  }
}

/* Called once, with all our groups. Either every group gets its compute info, or the call fails and leaves
 * nothing. */
static OrtStatus* ORT_API_CALL ep_compile(OrtEp* this_ptr, const OrtGraph** graphs,
                                          const OrtNode** fused_nodes, size_t count,
                                          OrtNodeComputeInfo** infos, OrtNode** ep_context_nodes) {
  const Ep* ep = (const Ep*)this_ptr;
  (void)ep_context_nodes; /* For EPs that can store compiled code in the model. */
  for (size_t i = 0; i < count; ++i) {
    Program* program = NULL;
    OrtStatus* status = make_program(ep->factory->api, graphs[i], fused_nodes[i], &program);
    if (status != NULL) {
      ep_release_compute_infos(this_ptr, infos, i);
      return status;
    }
    program->base.ort_version_supported = API_VERSION;
    program->base.CreateState = create_state;
    program->base.Compute = compute;
    program->base.ReleaseState = release_state;
    infos[i] = &program->base;
    log_program(ep, program);
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL ep_get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                                 OrtEpGraphSupportInfo* support) {
  return partition_graph(((const Ep*)this_ptr)->factory, graph, support);
}

static const char* ORT_API_CALL ep_name(const OrtEp* this_ptr) {
  (void)this_ptr;
  return kEpName;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** out) {
  const Factory* factory = (const Factory*)this_ptr;
  (void)devices, (void)ep_metadata, (void)num_devices, (void)session_options;
  Ep* ep = (Ep*)calloc(1, sizeof *ep); /* Zeroed: what we don't set is NULL, and NULL means "the default". */
  if (ep == NULL) {
    return out_of_memory(factory->api);
  }
  ep->base.ort_version_supported = API_VERSION;
  ep->base.GetName = ep_name;
  ep->base.GetCapability = ep_get_capability;
  ep->base.Compile = ep_compile;
  ep->base.ReleaseNodeComputeInfos = ep_release_compute_infos;
  ep->factory = factory;
  ep->logger = logger;
  *out = &ep->base;
  return NULL;
}

static void ORT_API_CALL release_ep(OrtEpFactory* this_ptr, OrtEp* ep) {
  (void)this_ptr;
  free(ep);
}

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  free(factory);
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  (void)registered_name, (void)default_logger;
  *num_factories = 0;
  const OrtApi* api = ort_api_base->GetApi(API_VERSION);
  if (api == NULL) {
    return host_too_old(ort_api_base);
  }
  if (max_factories < 1) {
    return api->CreateStatus(ORT_INVALID_ARGUMENT, "sample_compiler needs room for one factory");
  }
  Factory* factory = (Factory*)calloc(1, sizeof *factory);
  if (factory == NULL) {
    return out_of_memory(api);
  }
  factory_init(factory, api, kEpName);
  factory->base.CreateEp = create_ep;
  factory->base.ReleaseEp = release_ep;
  factories[0] = &factory->base;
  *num_factories = 1;
  return NULL;
}
