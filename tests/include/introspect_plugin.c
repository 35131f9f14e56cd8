/* A plugin with one factory and no devices that asks its host questions whose answers are known, and prints
   them: they come out right only if the slots it calls are where the host has them. C and C++. */
#include <stdio.h>
#include <string.h>

#include "ephost/plugin.h"

static const OrtApi* api;
static char registered_as[64];

static const char* ORT_API_CALL get_name(const OrtEpFactory* factory) {
  (void)factory;
  return "introspect_ep";
}

static const char* ORT_API_CALL get_vendor(const OrtEpFactory* factory) {
  (void)factory;
  return "tests";
}

static uint32_t ORT_API_CALL get_vendor_id(const OrtEpFactory* factory) {
  (void)factory;
  return 0;
}

static const char* ORT_API_CALL get_version(const OrtEpFactory* factory) {
  (void)factory;
  return "1.2.3";
}

static OrtStatus* ORT_API_CALL get_supported_devices(OrtEpFactory* factory,
                                                     const OrtHardwareDevice* const* devices,
                                                     size_t num_devices, OrtEpDevice** ep_devices,
                                                     size_t max_ep_devices, size_t* num_ep_devices) {
  (void)factory, (void)ep_devices, (void)max_ep_devices;
  int cpus = 0;
  for (size_t i = 0; i < num_devices; ++i) {
    if (api->HardwareDevice_Type(devices[i]) == OrtHardwareDeviceType_CPU) ++cpus;
  }
  printf("cpus %d\n", cpus);
  *num_ep_devices = 0;
  return NULL;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* factory, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata_pairs, size_t num_devices,
                                         const OrtSessionOptions* session_options, const OrtLogger* logger,
                                         OrtEp** ep) {
  (void)factory, (void)devices, (void)ep_metadata_pairs, (void)num_devices, (void)session_options;
  (void)logger, (void)ep;
  return api->CreateStatus(ORT_NOT_IMPLEMENTED, "it has no devices");
}

static void ORT_API_CALL release_ep(OrtEpFactory* factory, OrtEp* ep) { (void)factory, (void)ep; }

/* onnxruntime 1.31 calls this one without looking whether it is there. */
static OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory* factory,
                                                    OrtDataTransferImpl** data_transfer) {
  (void)factory;
  *data_transfer = NULL;
  return NULL;
}

static OrtEpFactory the_factory;

static void fill_factory(void) {
  the_factory.ort_version_supported = ORT_API_VERSION;
  the_factory.GetName = get_name;
  the_factory.GetVendor = get_vendor;
  the_factory.GetSupportedDevices = get_supported_devices;
  the_factory.CreateEp = create_ep;
  the_factory.ReleaseEp = release_ep;
  the_factory.GetVendorId = get_vendor_id;
  the_factory.GetVersion = get_version;
  the_factory.CreateDataTransfer = create_data_transfer;
}

/* Slots near the ends of the tables, each with an answer that only the right function gives. */
static OrtStatus* ask(void) {
  OrtStatus* status = api->CreateStatus(ORT_EP_FAIL, "a message");
  printf("status %d %s\n", (int)api->GetErrorCode(status), api->GetErrorMessage(status));
  api->ReleaseStatus(status);

  OrtKeyValuePairs* pairs = NULL;
  api->CreateKeyValuePairs(&pairs);
  api->AddKeyValuePair(pairs, "key", "value");
  printf("pair %s\n", api->GetKeyValue(pairs, "key"));
  api->ReleaseKeyValuePairs(pairs);

  printf("experimental %d\n", api->GetExperimentalFunction("ephost_has_no_such_function") != NULL);
  printf("tables %d %d %d\n", api->GetModelEditorApi() != NULL, api->GetCompileApi() != NULL,
         api->GetInteropApi() != NULL);

  const OrtEpApi* ep_api = api->GetEpApi();
  OrtOpSchema* schema = NULL;
  const char* text = NULL;
  size_t count = 0;
  if ((status = ep_api->GetOpSchema("Gemm", 13, "", &schema)) != NULL) return status;
  status = ep_api->OpSchema_GetNumInputs(schema, &count);
  if (!status) status = ep_api->OpSchema_GetInputName(schema, 2, &text);
  if (!status) printf("schema %d %s\n", (int)count, text);
  ep_api->ReleaseOpSchema(schema);
  if (status) return status;

  OrtProfilingEvent* event = NULL;
  const char* const keys[] = {"k"};
  const char* const values[] = {"v"};
  status = ep_api->CreateProfilingEvent(OrtProfilingEventCategory_KERNEL, -1, -1, "an event", 5, 7, keys,
                                        values, 1, &event);
  if (status) return status;
  int64_t microseconds = 0;
  status = ep_api->ProfilingEvent_GetDurationUs(event, &microseconds);
  if (!status) status = ep_api->ProfilingEvent_GetArgValue(event, "k", &text);
  if (!status) printf("event %d %s\n", (int)microseconds, text);
  ep_api->ReleaseProfilingEvent(event);
  return status;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  (void)default_logger;
  api = ort_api_base->GetApi(ORT_API_VERSION);
  if (!api) {
    fprintf(stderr, "%s is older than API version %d\n", ort_api_base->GetVersionString(), ORT_API_VERSION);
    return ort_api_base->GetApi(22)->CreateStatus(ORT_NOT_IMPLEMENTED, "the host is too old");
  }
  if (max_factories < 1) return api->CreateStatus(ORT_INVALID_ARGUMENT, "no room for a factory");
  strncpy(registered_as, registered_name, sizeof registered_as - 1);
  printf("create %s\n", registered_as);
  OrtStatus* status = ask();
  if (status) return status;
  fill_factory();
  factories[0] = &the_factory;
  *num_factories = 1;
  return NULL;
}

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  printf("release %d\n", factory == &the_factory);
  fflush(stdout);
  return NULL;
}
