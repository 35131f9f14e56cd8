/* A plugin's factories: made by its library, looked at, and asked for their devices. Each step is one call
 * from Python, which is told only whether all is well; what is not, it finds in what was given, and explains.
 */
#define _GNU_SOURCE
#include <string.h>

#include "abi.h"
#include "devices.h"
#include "exceptions.h"
#include "forks.h"
#include "key_values.h"
#include "python.h"
#include "status.h"

const char* ephost_factory_lacks(const OrtEpFactory* factory) {
#define LACKS(member) \
  if (PLUGIN_MEMBER(OrtEpFactory, factory, member) == NULL) return #member
  LACKS(GetName);
  LACKS(GetVendor);
  LACKS(GetSupportedDevices);
  LACKS(CreateEp);
  LACKS(ReleaseEp);
#undef LACKS
  return NULL;
}

/* Whether `count` pointers, at most `room`, are none of them NULL or equal. */
static bool all_differ(void* const* pointers, size_t count, size_t room) {
  if (count > room) return false;
  for (size_t i = 0; i < count; ++i) {
    if (pointers[i] == NULL) return false;
    for (size_t j = 0; j < i; ++j) {
      if (pointers[j] == pointers[i]) return false;
    }
  }
  return true;
}

bool ephost_create_factories(CreateEpApiFactoriesFn create, const char* name, const OrtLogger* logger,
                             EphostFactories* out) {
  memset(out, 0, sizeof *out);
  const int64_t process = fork_process();
  out->status = ephost_guard_CreateEpApiFactoriesFn(create, name, ephost_get_api_base(), logger, out->made,
                                                    EPHOST_MAX_FACTORIES, &out->number);
  fork_end_child(process, "CreateEpFactories of a plugin");
  if (out->status != NULL || out->number == 0 ||
      !all_differ((void* const*)out->made, out->number, EPHOST_MAX_FACTORIES))
    return false;
  for (size_t i = 0; i < out->number; ++i) {
    const uint32_t version = out->made[i]->ort_version_supported;
    if (version < EPHOST_FIRST_VERSION || version > EPHOST_API_VERSION_SERVED ||
        ephost_factory_lacks(out->made[i]) != NULL)
      return false;
  }
  return true;
}

bool ephost_ask_devices(OrtEpFactory* factory, const OrtHardwareDevice* const* hardware, size_t count,
                        EphostOffer* out) {
  memset(out, 0, sizeof *out);
  out->ep_name = GUARDED(OrtEpFactory, GetName)(factory);
  const bool is_named = out->ep_name != NULL && *out->ep_name != '\0';
  out->vendor = is_named ? GUARDED(OrtEpFactory, GetVendor)(factory) : NULL;
  out->status = outcome(NULL);
  if (out->status != NULL || out->vendor == NULL || *out->vendor == '\0') return false;
  const int64_t process = fork_process();
  out->status = GUARDED(OrtEpFactory, GetSupportedDevices)(factory, hardware, count, out->devices,
                                                           EPHOST_MAX_EP_DEVICES, &out->number);
  fork_end_child(process, "OrtEpFactory::GetSupportedDevices of a plugin");
  return out->status == NULL && all_differ((void* const*)out->devices, out->number, EPHOST_MAX_EP_DEVICES);
}

OrtStatus* ephost_complete_ep_device(OrtEpFactory* factory, OrtEpDevice* device, const char* library_path) {
  if (library_path != NULL && !key_values_set(device->metadata, "library_path", library_path))
    return status_no_memory();
  if (key_values_get(device->metadata, "version") != NULL ||
      PLUGIN_MEMBER(OrtEpFactory, factory, GetVersion) == NULL)
    return NULL;
  const char* version = GUARDED(OrtEpFactory, GetVersion)(factory);
  const bool is_kept =
      version == NULL || *version == '\0' || key_values_set(device->metadata, "version", version);
  return outcome(is_kept ? NULL : status_no_memory());
}
