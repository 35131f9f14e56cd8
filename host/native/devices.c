/* Hardware devices, EP devices, and what a plugin says about a device that it can't use. */
#include <string.h>

#include "abi.h"
#include "devices.h"
#include "exceptions.h"
#include "heap.h"
#include "key_values.h"
#include "memory.h"
#include "python.h"
#include "status.h"

/* ---- hardware devices ---------------------------------------------------------------------------------- */

void ORT_API_CALL SLOT(OrtEpApi, ReleaseHardwareDevice)(OrtHardwareDevice* input) {
  if (input == NULL) return;
  host_free(input->vendor);
  key_values_free(input->metadata);
  handle_count(HANDLE_HARDWARE_DEVICE, -1);
  host_free(input);
}

/* Copies the name and the metadata; either may be NULL. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, CreateHardwareDevice)(OrtHardwareDeviceType type, uint32_t vendor_id,
                                                             uint32_t device_id, const char* vendor_name,
                                                             const OrtKeyValuePairs* metadata,
                                                             OrtHardwareDevice** hardware_device) {
  REQUIRE_ARG(hardware_device != NULL);
  *hardware_device = NULL;
  REQUIRE_ARG((int)type >= OrtHardwareDeviceType_CPU && type <= OrtHardwareDeviceType_NPU);
  OrtHardwareDevice* device = host_malloc(sizeof(*device));
  if (device == NULL) return status_no_memory();
  handle_count(HANDLE_HARDWARE_DEVICE, +1);
  *device =
      (OrtHardwareDevice){type, vendor_id, device_id, host_strdup(vendor_name != NULL ? vendor_name : ""),
                          key_values_copy(metadata)};
  if (device->vendor == NULL || device->metadata == NULL) {
    SLOT(OrtEpApi, ReleaseHardwareDevice)(device);
    return status_no_memory();
  }
  *hardware_device = device;
  return NULL;
}

OrtHardwareDeviceType ORT_API_CALL SLOT(OrtApi, HardwareDevice_Type)(const OrtHardwareDevice* device) {
  return device != NULL ? device->type : OrtHardwareDeviceType_CPU;
}

uint32_t ORT_API_CALL SLOT(OrtApi, HardwareDevice_VendorId)(const OrtHardwareDevice* device) {
  return device != NULL ? device->vendor_id : 0;
}

const char* ORT_API_CALL SLOT(OrtApi, HardwareDevice_Vendor)(const OrtHardwareDevice* device) {
  return device != NULL ? device->vendor : "";
}

uint32_t ORT_API_CALL SLOT(OrtApi, HardwareDevice_DeviceId)(const OrtHardwareDevice* device) {
  return device != NULL ? device->device_id : 0;
}

const OrtKeyValuePairs* ORT_API_CALL SLOT(OrtApi, HardwareDevice_Metadata)(const OrtHardwareDevice* device) {
  return device != NULL ? device->metadata : NULL;
}

/* ---- EP devices ---------------------------------------------------------------------------------------- */

void ORT_API_CALL SLOT(OrtEpApi, ReleaseEpDevice)(OrtEpDevice* input) {
  if (input == NULL) return;
  host_free(input->ep_name);
  host_free(input->ep_vendor);
  key_values_free(input->metadata);
  key_values_free(input->options);
  handle_count(HANDLE_EP_DEVICE, -1);
  host_free(input);
}

/* What the factory says of itself through a getter that it may lack; NULL for nothing. */
#define ASK_FACTORY(factory, member) \
  (PLUGIN_MEMBER(OrtEpFactory, factory, member) != NULL ? GUARDED(OrtEpFactory, member)(factory) : NULL)

/* The factory must name itself and its vendor. Its version, if it says one, becomes the metadata "version"
 * unless the plugin has set that itself. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, CreateEpDevice)(OrtEpFactory* ep_factory,
                                                       const OrtHardwareDevice* hardware_device,
                                                       const OrtKeyValuePairs* ep_metadata,
                                                       const OrtKeyValuePairs* ep_options,
                                                       OrtEpDevice** ep_device) {
  REQUIRE_ARG(ep_device != NULL);
  *ep_device = NULL;
  REQUIRE_ARG(ep_factory != NULL);
  REQUIRE_ARG(hardware_device != NULL);
  const char* name = ASK_FACTORY(ep_factory, GetName);
  const char* vendor = ASK_FACTORY(ep_factory, GetVendor);
  if (name == NULL || name[0] == '\0') {
    return outcome(status_new(ORT_INVALID_ARGUMENT, "CreateEpDevice: the factory's GetName gives no name"));
  }
  if (vendor == NULL) {
    return outcome(status_new(ORT_INVALID_ARGUMENT,
                              "CreateEpDevice: the GetVendor of the factory of %s gives no vendor", name));
  }
  OrtEpDevice* device = host_calloc(1, sizeof(*device));
  if (device == NULL) return status_no_memory();
  handle_count(HANDLE_EP_DEVICE, +1);
  device->factory = ep_factory;
  device->hardware = hardware_device;
  device->ep_name = host_strdup(name);
  device->ep_vendor = host_strdup(vendor);
  device->metadata = key_values_copy(ep_metadata);
  device->options = key_values_copy(ep_options);
  bool complete = device->ep_name != NULL && device->ep_vendor != NULL && device->metadata != NULL &&
                  device->options != NULL;
  const char* version = complete ? ASK_FACTORY(ep_factory, GetVersion) : NULL;
  if (version != NULL && key_values_get(device->metadata, "version") != NULL) {
    /* onnxruntime refuses it, too: the factory alone says the version. */
    OrtStatus* status = outcome(
        status_new(ORT_INVALID_ARGUMENT,
                   "CreateEpDevice: the metadata of %s has the key \"version\", which the host sets to "
                   "what the factory's GetVersion says: leave it out",
                   name));
    SLOT(OrtEpApi, ReleaseEpDevice)(device);
    return status;
  }
  if (version != NULL) complete = key_values_set(device->metadata, "version", version);
  if (!complete) {
    SLOT(OrtEpApi, ReleaseEpDevice)(device);
    return status_no_memory();
  }
  OrtStatus* status = outcome(NULL); /* of GetVersion */
  if (status != NULL) {
    SLOT(OrtEpApi, ReleaseEpDevice)(device);
    return status;
  }
  *ep_device = device;
  return NULL;
}

/* Borrows the info: plugins know it again by its address when CreateAllocator gets it. A second one of the
 * same kind replaces the first. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi,
                             EpDevice_AddAllocatorInfo)(OrtEpDevice* ep_device,
                                                        const OrtMemoryInfo* allocator_memory_info) {
  REQUIRE_ARG(ep_device != NULL && allocator_memory_info != NULL);
  const OrtMemoryInfo** place = &ep_device->default_memory;
  if (allocator_memory_info->allocator_type == OrtReadOnlyAllocator) {
    place = &ep_device->read_only_memory;
  } else if (allocator_memory_info->device.memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE) {
    place = &ep_device->host_accessible_memory;
  }
  *place = allocator_memory_info;
  return NULL;
}

const char* ORT_API_CALL SLOT(OrtApi, EpDevice_EpName)(const OrtEpDevice* ep_device) {
  return ep_device != NULL ? ep_device->ep_name : "";
}

const char* ORT_API_CALL SLOT(OrtApi, EpDevice_EpVendor)(const OrtEpDevice* ep_device) {
  return ep_device != NULL ? ep_device->ep_vendor : "";
}

const OrtKeyValuePairs* ORT_API_CALL SLOT(OrtApi, EpDevice_EpMetadata)(const OrtEpDevice* ep_device) {
  return ep_device != NULL ? ep_device->metadata : NULL;
}

const OrtKeyValuePairs* ORT_API_CALL SLOT(OrtApi, EpDevice_EpOptions)(const OrtEpDevice* ep_device) {
  return ep_device != NULL ? ep_device->options : NULL;
}

const OrtHardwareDevice* ORT_API_CALL SLOT(OrtApi, EpDevice_Device)(const OrtEpDevice* ep_device) {
  return ep_device != NULL ? ep_device->hardware : NULL;
}

/* NULL when the plugin has not added an allocator for such memory. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, EpDevice_GetMemoryCapacity)(const OrtEpDevice* ep_device,
                                                                 OrtDeviceMemoryType memory_type,
                                                                 uint64_t* first, uint64_t* second) {
  REQUIRE_ARG(ep_device != NULL && (first != NULL || second != NULL));
  OrtEpFactory* factory = ep_device->factory;
  if (factory == NULL || PLUGIN_MEMBER(OrtEpFactory, factory, GetDeviceMemoryCapacity) == NULL) {
    return status_new(ORT_NOT_IMPLEMENTED, "the device's plugin cannot say how much memory it has");
  }
  uint64_t numbers[2] = {0, 0}; /* the caller's stay as they are where the plugin fails */
  OrtStatus* status = GUARDED(OrtEpFactory, GetDeviceMemoryCapacity)(factory, ep_device, memory_type,
                                                                     first != NULL ? &numbers[0] : NULL,
                                                                     second != NULL ? &numbers[1] : NULL);
  if (status != NULL) return status;
  if (first != NULL) *first = numbers[0];
  if (second != NULL) *second = numbers[1];
  return NULL;
}

const OrtMemoryInfo* ORT_API_CALL SLOT(OrtApi, EpDevice_MemoryInfo)(const OrtEpDevice* ep_device,
                                                                    OrtDeviceMemoryType memory_type) {
  if (ep_device == NULL) return NULL;
  if (memory_type == OrtDeviceMemoryType_DEFAULT) return ep_device->default_memory;
  return memory_type == OrtDeviceMemoryType_HOST_ACCESSIBLE ? ep_device->host_accessible_memory : NULL;
}

const OrtMemoryInfo* ephost_ep_device_read_only_memory(const OrtEpDevice* ep_device) {
  return ep_device != NULL ? ep_device->read_only_memory : NULL;
}

OrtEpFactory* ephost_ep_device_factory(const OrtEpDevice* ep_device) {
  return ep_device != NULL ? ep_device->factory : NULL;
}

/* ---- why a device can't be used ------------------------------------------------------------------------ */

OrtDeviceEpIncompatibilityDetails* ephost_incompatibility_details_new(void) {
  OrtDeviceEpIncompatibilityDetails* details = host_calloc(1, sizeof(*details));
  if (details != NULL) handle_count(HANDLE_OTHER, +1);
  return details;
}

void ORT_API_CALL SLOT(OrtApi,
                       ReleaseDeviceEpIncompatibilityDetails)(OrtDeviceEpIncompatibilityDetails* input) {
  if (input == NULL) return;
  host_free(input->notes);
  handle_count(HANDLE_OTHER, -1);
  host_free(input);
}

OrtStatus* ORT_API_CALL SLOT(OrtEpApi, DeviceEpIncompatibilityDetails_SetDetails)(
    OrtDeviceEpIncompatibilityDetails* details, uint32_t reasons_bitmask, int32_t error_code,
    const char* notes) {
  REQUIRE_ARG(details != NULL);
  char* copy = NULL;
  if (notes != NULL && (copy = host_strdup(notes)) == NULL) return status_no_memory();
  host_free(details->notes);
  *details = (OrtDeviceEpIncompatibilityDetails){reasons_bitmask, error_code, copy};
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, DeviceEpIncompatibilityDetails_GetReasonsBitmask)(
    const OrtDeviceEpIncompatibilityDetails* details, uint32_t* reasons_bitmask) {
  REQUIRE_ARG(reasons_bitmask != NULL);
  *reasons_bitmask = 0;
  REQUIRE_ARG(details != NULL);
  *reasons_bitmask = details->reasons;
  return NULL;
}

/* NULL when there are none; valid while the details live. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, DeviceEpIncompatibilityDetails_GetNotes)(
    const OrtDeviceEpIncompatibilityDetails* details, const char** notes) {
  REQUIRE_ARG(notes != NULL);
  *notes = NULL;
  REQUIRE_ARG(details != NULL);
  *notes = details->notes;
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtApi, DeviceEpIncompatibilityDetails_GetErrorCode)(
    const OrtDeviceEpIncompatibilityDetails* details, int32_t* error_code) {
  REQUIRE_ARG(error_code != NULL);
  *error_code = 0;
  REQUIRE_ARG(details != NULL);
  *error_code = details->error_code;
  return NULL;
}
