/* What every plugin EP has to have, whatever it computes: a factory that finds its devices.
 *
 * Both samples include this file, so each of them shows only what is its own. A plugin is a shared library
 * with two exported functions; everything here is `static`, because two plugins in one process must not see
 * each other's names.
 *
 * There is no global variable, and that is deliberate: one process may hold two hosts (ephost beside
 * onnxruntime), and both may load this library. What the host gave us therefore lives in the factory, which
 * one host owns. */
#ifndef SAMPLES_FACTORY_H_
#define SAMPLES_FACTORY_H_

#include <stdlib.h>
#include <string.h>

#include "ephost/ephost.h"
#include "ephost/plugin.h"

/* The version that the plugin says it is of. The build gives it: ephost's own, for its bundled plugins. */
#ifndef EPHOST_VERSION
#define EPHOST_VERSION "0.0.0"
#endif

/* The lowest API version that has all we call (kernel registries and the cheap shape reference came with 24).
 * Asking for the lowest, and not for the ORT_API_VERSION of the header, lets older hosts load us. The same
 * number goes into `ort_version_supported` of every struct we hand out: it tells the host how many members it
 * may read. */
#ifndef API_VERSION
#define API_VERSION 24
#endif

/* Hands an error on to the caller, who then owns the status. */
#define TRY(call)                   \
  do {                              \
    OrtStatus* try_status = (call); \
    if (try_status != NULL) {       \
      return try_status;            \
    }                               \
  } while (0)

/* The same where something must be freed first: needs `OrtStatus* status` and a label `done`. */
#define TRY_OR_DONE(call) \
  do {                    \
    status = (call);      \
    if (status != NULL) { \
      goto done;          \
    }                     \
  } while (0)

/* One per registered library. The host sees only `base`, so it must come first: a pointer to one is a pointer
 * to the other. Everything but `base` is ours, and never changes after CreateEpFactories: any thread may read
 * it. */
typedef struct Factory {
  OrtEpFactory base;
  const OrtApi* api;
  const OrtEpApi* ep_api;
  const char* ep_name;
} Factory;

/* A status for a failed allocation. The host copies the text. */
static inline OrtStatus* out_of_memory(const OrtApi* api) {
  return api->CreateStatus(ORT_FAIL, "out of memory");
}

static inline const char* ORT_API_CALL factory_name(const OrtEpFactory* this_ptr) {
  return ((const Factory*)this_ptr)->ep_name;
}

static inline const char* ORT_API_CALL factory_vendor(const OrtEpFactory* this_ptr) {
  (void)this_ptr;
  return "ephost";
}

/* The PCI vendor id of the hardware's maker; software that runs on any CPU has none. */
static inline uint32_t ORT_API_CALL factory_vendor_id(const OrtEpFactory* this_ptr) {
  (void)this_ptr;
  return 0;
}

static inline const char* ORT_API_CALL factory_version(const OrtEpFactory* this_ptr) {
  (void)this_ptr;
  return EPHOST_VERSION;
}

/* The host shows every device of the machine; we answer with one OrtEpDevice for each that we can use. Those
 * we return belong to the host from then on; those we created before an error are still ours to release. */
static inline OrtStatus* ORT_API_CALL factory_devices(OrtEpFactory* this_ptr,
                                                      const OrtHardwareDevice* const* devices,
                                                      size_t num_devices, OrtEpDevice** ep_devices,
                                                      size_t max_ep_devices, size_t* num_ep_devices) {
  Factory* factory = (Factory*)this_ptr;
  size_t found = 0;
  OrtStatus* status = NULL;
  for (size_t i = 0; i < num_devices && found < max_ep_devices && status == NULL; ++i) {
    if (factory->api->HardwareDevice_Type(devices[i]) == OrtHardwareDeviceType_CPU) {
      /* The two NULLs: metadata that applications can select by, and default options for sessions. */
      status = factory->ep_api->CreateEpDevice(this_ptr, devices[i], NULL, NULL, &ep_devices[found]);
      found += status == NULL;
    }
  }
  if (status != NULL) {
    while (found > 0) {
      factory->ep_api->ReleaseEpDevice(ep_devices[--found]);
    }
  }
  *num_ep_devices = found;
  return status;
}

/* Our tensors are in the host's memory, so nothing has to be copied between devices. A NULL member would say
 * the same, but onnxruntime (1.31 at least) calls it without looking. */
static inline OrtStatus* ORT_API_CALL factory_data_transfer(OrtEpFactory* this_ptr,
                                                            OrtDataTransferImpl** data_transfer) {
  (void)this_ptr;
  *data_transfer = NULL;
  return NULL;
}

/* What CreateEpFactories answers to a host without our API version. Such a host still has the table of
 * version 1, which is enough to make an error with; if it lacks even that, no factories is all that we can
 * say. */
static inline OrtStatus* host_too_old(const OrtApiBase* base) {
  const OrtApi* oldest = base->GetApi(1);
  return oldest == NULL
             ? NULL
             : oldest->CreateStatus(ORT_FAIL, "this plugin needs a host with API version 24 (1.24)");
}

/* Fills in the members that both samples share. `factory` must be zeroed: a NULL member means "not offered".
 */
static inline void factory_init(Factory* factory, const OrtApi* api, const char* ep_name) {
  factory->base.ort_version_supported = API_VERSION;
  factory->base.GetName = factory_name;
  factory->base.GetVendor = factory_vendor;
  factory->base.GetVendorId = factory_vendor_id;
  factory->base.GetVersion = factory_version;
  factory->base.GetSupportedDevices = factory_devices;
  factory->base.CreateDataTransfer = factory_data_transfer;
  factory->api = api;
  factory->ep_api = api->GetEpApi();
  factory->ep_name = ep_name;
}

/* True when `value` is known to be a float32 tensor with a known rank of at most `max_rank`; its dimensions
 * may still be open. An optional input that is left out is NULL. A status means that the host itself failed.
 */
static inline OrtStatus* is_float_tensor(const OrtApi* api, const OrtValueInfo* value, size_t max_rank,
                                         bool* answer) {
  const OrtTypeInfo* type = NULL;
  const OrtTensorTypeAndShapeInfo* tensor = NULL;
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  *answer = false;
  if (value == NULL) {
    return NULL;
  }
  TRY(api->GetValueInfoTypeInfo(value, &type)); /* Belongs to the value. */
  if (type == NULL) {
    return NULL;
  }
  TRY(api->CastTypeInfoToTensorInfo(type, &tensor)); /* NULL for sequences, maps and optionals. */
  if (tensor == NULL || !api->TensorTypeAndShape_HasShape(tensor)) {
    return NULL;
  }
  TRY(api->GetTensorElementType(tensor, &element));
  TRY(api->GetDimensionsCount(tensor, &rank));
  *answer = element == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT && rank <= max_rank;
  return NULL;
}

#endif
