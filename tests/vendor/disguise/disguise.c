/* Stands between a host that cannot be told of hardware and a plugin that takes only some: the plugin hears
 * that the machine's processor is something else. So a plugin that looks for Intel's devices, or for a GPU
 * where a driver draws on the processor, is tested in onnxruntime, too. It never ships.
 *
 * DISGUISE_PLUGIN is the plugin's library. DISGUISE_TYPE, DISGUISE_VENDOR and DISGUISE_VENDOR_ID are what it
 * hears of a processor; what is not set stays as it is. Nothing else that it hears or says is changed. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ephost/ephost.h"

static const OrtApiBase* real_base;
static const OrtApi* real_api;
static OrtApi api;
static CreateEpApiFactoriesFn real_create;
static ReleaseEpApiFactoryFn real_release;
static void* library; /* the plugin's */
static size_t living; /* factories of it */

static bool is_processor(const OrtHardwareDevice* device) {
  return real_api->HardwareDevice_Type(device) == OrtHardwareDeviceType_CPU;
}

static OrtHardwareDeviceType ORT_API_CALL type_of(const OrtHardwareDevice* device) {
  const char* said = getenv("DISGUISE_TYPE");
  return said != NULL && is_processor(device) ? (OrtHardwareDeviceType)atoi(said)
                                              : real_api->HardwareDevice_Type(device);
}

static const char* ORT_API_CALL vendor_of(const OrtHardwareDevice* device) {
  const char* said = getenv("DISGUISE_VENDOR");
  return said != NULL && is_processor(device) ? said : real_api->HardwareDevice_Vendor(device);
}

static uint32_t ORT_API_CALL vendor_id_of(const OrtHardwareDevice* device) {
  const char* said = getenv("DISGUISE_VENDOR_ID");
  return said != NULL && is_processor(device) ? (uint32_t)strtoul(said, NULL, 0)
                                              : real_api->HardwareDevice_VendorId(device);
}

/* The host's table is as long as its own version says, which is at least that of these headers. */
static const OrtApi* ORT_API_CALL get_api(uint32_t version) {
  const OrtApi* table = real_base->GetApi(version);
  if (table == NULL || real_base->GetApi(ORT_API_VERSION) == NULL) {
    return table;
  }
  real_api = real_base->GetApi(ORT_API_VERSION);
  api = *real_api;
  api.HardwareDevice_Type = type_of;
  api.HardwareDevice_Vendor = vendor_of;
  api.HardwareDevice_VendorId = vendor_id_of;
  return &api;
}

static const char* ORT_API_CALL get_version_string(void) { return real_base->GetVersionString(); }

static const OrtApiBase base = {.GetApi = get_api, .GetVersionString = get_version_string};

__attribute__((visibility("default"))) OrtStatus* CreateEpFactories(
    const char* registered_name, const OrtApiBase* ort_api_base, const OrtLogger* default_logger,
    OrtEpFactory** factories, size_t max_factories, size_t* num_factories) {
  const char* path = getenv("DISGUISE_PLUGIN");
  if (library == NULL && path != NULL && (library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) != NULL) {
    *(void**)&real_create = dlsym(library, "CreateEpFactories");
    *(void**)&real_release = dlsym(library, "ReleaseEpFactory");
  }
  real_base = ort_api_base;
  if (library == NULL || real_create == NULL || real_release == NULL) {
    const char* why = dlerror();
    return ort_api_base->GetApi(1)->CreateStatus(ORT_FAIL, why != NULL ? why : "DISGUISE_PLUGIN is not set");
  }
  OrtStatus* status =
      real_create(registered_name, &base, default_logger, factories, max_factories, num_factories);
  living += status == NULL ? *num_factories : 0;
  return status;
}

/* With the last factory the plugin leaves the process, as it would if the host had opened it. */
__attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  OrtStatus* status = real_release(factory);
  if (--living == 0) {
    (void)dlclose(library);
    library = NULL;
  }
  return status;
}
