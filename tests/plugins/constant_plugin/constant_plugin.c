/* A plugin whose factory lies in memory that nobody can write. It has no devices. */
#include "ephost/plugin.h"

static const char* ORT_API_CALL name(const OrtEpFactory* factory) {
  (void)factory;
  return "constant_plugin";
}

static OrtStatus* ORT_API_CALL supported_devices(OrtEpFactory* factory,
                                                 const OrtHardwareDevice* const* devices, size_t num_devices,
                                                 OrtEpDevice** ep_devices, size_t max_ep_devices,
                                                 size_t* num_ep_devices) {
  (void)factory, (void)devices, (void)num_devices, (void)ep_devices, (void)max_ep_devices;
  *num_ep_devices = 0;
  return NULL;
}

static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* factory, const OrtHardwareDevice* const* devices,
                                         const OrtKeyValuePairs* const* ep_metadata, size_t num_devices,
                                         const OrtSessionOptions* options, const OrtLogger* logger,
                                         OrtEp** ep) {
  (void)factory, (void)devices, (void)ep_metadata, (void)num_devices, (void)options, (void)logger;
  *ep = NULL;
  return NULL;
}

static void ORT_API_CALL release_ep(OrtEpFactory* factory, OrtEp* ep) { (void)factory, (void)ep; }

static const OrtEpFactory constant = {
    .ort_version_supported = 22,
    .GetName = name,
    .GetVendor = name,
    .GetSupportedDevices = supported_devices,
    .CreateEp = create_ep,
    .ReleaseEp = release_ep,
};

OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                             const OrtLogger* default_logger, OrtEpFactory** factories, size_t max_factories,
                             size_t* num_factories) {
  (void)registered_name, (void)default_logger, (void)ort_api_base, (void)max_factories;
  factories[0] = (OrtEpFactory*)(uintptr_t)&constant;
  *num_factories = 1;
  return NULL;
}

OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  (void)factory;
  return NULL;
}
