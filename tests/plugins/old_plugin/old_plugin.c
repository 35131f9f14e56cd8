/* A plugin EP of an older API version, for testing hosts: built against headers that were cut down to
 * API_VERSION, so that its structs end where those of that version did. Never ships.
 *
 * Behind each struct that the host gets lies a word that is no pointer: a host that reads a member newer than
 * the struct calls it. From version 23 on, which is the first whose EPs can compile, it takes Neg of float32.
 */
#include <stdlib.h>
#include <string.h>

#include "ephost/ephost.h"
#include "ephost/plugin.h"

#define EP_NAME "old_plugin"
#define BEHIND UINT64_C(0xbadbadbadbadbad)

#define TRY(call)                   \
  do {                              \
    OrtStatus* try_status = (call); \
    if (try_status != NULL) {       \
      return try_status;            \
    }                               \
  } while (0)

typedef struct Factory {
  OrtEpFactory base;
  uint64_t behind[24];
  const OrtApi* api;
  const OrtEpApi* ep_api;
} Factory;

typedef struct Ep {
  OrtEp base;
  uint64_t behind[24];
  const Factory* factory;
} Ep;

static void poison(uint64_t* words) {
  for (size_t i = 0; i < 24; ++i) {
    words[i] = BEHIND;
  }
}

#if API_VERSION >= 23
typedef struct Program {
  OrtNodeComputeInfo base;
  uint64_t behind[24];
  const OrtApi* api;
} Program;

static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* this_ptr, OrtNodeComputeContext* context,
                                            void** state) {
  (void)context;
  *state = this_ptr;
  return NULL;
}

static void ORT_API_CALL release_state(OrtNodeComputeInfo* this_ptr, void* state) {
  (void)this_ptr, (void)state;
}

static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* this_ptr, void* state, OrtKernelContext* context) {
  const OrtApi* api = ((const Program*)this_ptr)->api;
  (void)state;
  const OrtValue* x = NULL;
  OrtValue* y = NULL;
  OrtTensorTypeAndShapeInfo* info = NULL;
  int64_t dims[8];
  size_t rank = 0, count = 0;
  const void* from = NULL;
  void* to = NULL;
  TRY(api->KernelContext_GetInput(context, 0, &x));
  TRY(api->GetTensorTypeAndShape(x, &info));
  OrtStatus* status = api->GetDimensionsCount(info, &rank);
  if (status == NULL && rank <= 8) {
    status = api->GetDimensions(info, dims, rank);
  }
  if (status == NULL) {
    status = api->GetTensorShapeElementCount(info, &count);
  }
  api->ReleaseTensorTypeAndShapeInfo(info);
  TRY(status);
  TRY(api->KernelContext_GetOutput(context, 0, dims, rank, &y));
  TRY(api->GetTensorData(x, &from));
  TRY(api->GetTensorMutableData(y, &to));
  for (size_t i = 0; i < count; ++i) {
    ((float*)to)[i] = -((const float*)from)[i];
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                              OrtEpGraphSupportInfo* support) {
  const Factory* factory = ((const Ep*)this_ptr)->factory;
  size_t count = 0;
  TRY(factory->api->Graph_GetNumNodes(graph, &count));
  const OrtNode** nodes = (const OrtNode**)calloc(count + 1, sizeof *nodes);
  OrtStatus* status = nodes != NULL ? factory->api->Graph_GetNodes(graph, nodes, count)
                                    : factory->api->CreateStatus(ORT_FAIL, "out of memory");
  for (size_t i = 0; status == NULL && i < count; ++i) {
    const char* type = NULL;
    status = factory->api->Node_GetOperatorType(nodes[i], &type);
    if (status == NULL && strcmp(type, "Neg") == 0) {
      status = factory->ep_api->EpGraphSupportInfo_AddNodesToFuse(support, &nodes[i], 1, NULL);
    }
  }
  free(nodes);
  return status;
}

static OrtStatus* ORT_API_CALL compile(OrtEp* this_ptr, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                       size_t count, OrtNodeComputeInfo** infos, OrtNode** context_nodes) {
  const Factory* factory = ((const Ep*)this_ptr)->factory;
  (void)graphs, (void)fused_nodes, (void)context_nodes;
  for (size_t i = 0; i < count; ++i) {
    Program* program = (Program*)calloc(1, sizeof *program);
    if (program == NULL) {
      return factory->api->CreateStatus(ORT_FAIL, "out of memory");
    }
    poison(program->behind);
    program->base.ort_version_supported = API_VERSION;
    program->base.CreateState = create_state;
    program->base.Compute = compute;
    program->base.ReleaseState = release_state;
    program->api = factory->api;
    infos[i] = &program->base;
  }
  return NULL;
}

static void ORT_API_CALL release_infos(OrtEp* this_ptr, OrtNodeComputeInfo** infos, size_t count) {
  (void)this_ptr;
  for (size_t i = 0; i < count; ++i) {
    free(infos[i]);
  }
}
#endif

static const char* ORT_API_CALL ep_name(const OrtEp* this_ptr) {
  (void)this_ptr;
  return EP_NAME;
}

static const char* ORT_API_CALL factory_name(const OrtEpFactory* this_ptr) {
  (void)this_ptr;
  return EP_NAME;
}

static const char* ORT_API_CALL vendor(const OrtEpFactory* this_ptr) {
  (void)this_ptr;
  return "ephost";
}

static OrtStatus* ORT_API_CALL supported_devices(OrtEpFactory* this_ptr,
                                                 const OrtHardwareDevice* const* devices, size_t num_devices,
                                                 OrtEpDevice** ep_devices, size_t max_ep_devices,
                                                 size_t* num_ep_devices) {
  const Factory* factory = (const Factory*)this_ptr;
  *num_ep_devices = 0;
  for (size_t i = 0; i < num_devices && *num_ep_devices < max_ep_devices; ++i) {
    if (factory->api->HardwareDevice_Type(devices[i]) == OrtHardwareDeviceType_CPU) {
      TRY(factory->ep_api->CreateEpDevice(this_ptr, devices[i], NULL, NULL, &ep_devices[*num_ep_devices]));
      ++*num_ep_devices;
    }
  }
  return NULL;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** out) {
  const Factory* factory = (const Factory*)this_ptr;
  (void)devices, (void)ep_metadata, (void)num_devices, (void)session_options, (void)logger;
  Ep* ep = (Ep*)calloc(1, sizeof *ep);
  *out = NULL;
  if (ep == NULL) {
    return factory->api->CreateStatus(ORT_FAIL, "out of memory");
  }
  poison(ep->behind);
  ep->base.ort_version_supported = API_VERSION;
  ep->base.GetName = ep_name;
#if API_VERSION >= 23
  ep->base.GetCapability = get_capability;
  ep->base.Compile = compile;
  ep->base.ReleaseNodeComputeInfos = release_infos;
#endif
  ep->factory = factory;
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
  (void)registered_name, (void)default_logger, (void)max_factories;
  const OrtApi* api = ort_api_base->GetApi(API_VERSION);
  Factory* factory = (Factory*)calloc(1, sizeof *factory);
  *num_factories = 0;
  if (factory == NULL) {
    return api->CreateStatus(ORT_FAIL, "out of memory");
  }
  poison(factory->behind);
  factory->base.ort_version_supported = API_VERSION;
  factory->base.GetName = factory_name;
  factory->base.GetVendor = vendor;
  factory->base.GetSupportedDevices = supported_devices;
  factory->base.CreateEp = create_ep;
  factory->base.ReleaseEp = release_ep;
  factory->api = api;
  factory->ep_api = api->GetEpApi();
  factories[0] = &factory->base;
  *num_factories = 1;
  return NULL;
}
