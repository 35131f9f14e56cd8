// What the library exports, and the factory: which devices it can use, and execution providers for sessions.
#include "ephost/plugin.h"

#include <memory>

#include "ep.h"

namespace plugin {
namespace {

// One for each registration of the library; any number of threads may use it. Nothing of it is global: a
// process may have two hosts, or register the library twice.
struct Factory : OrtEpFactory {
  explicit Factory(const Host& of);
  Host host;
};

const char* ORT_API_CALL get_name(const OrtEpFactory*) { return kName; }
const char* ORT_API_CALL get_vendor(const OrtEpFactory*) { return kVendor; }
const char* ORT_API_CALL get_version(const OrtEpFactory*) { return kVersion; }
// The PCI number of the maker of the hardware. Software that runs on any CPU has none.
uint32_t ORT_API_CALL get_vendor_id(const OrtEpFactory*) { return 0; }

// Whether we can drive a device. For hardware of your own look at HardwareDevice_VendorId and _DeviceId, too,
// and ask its driver: a machine without it is no error, it is no device.
bool is_ours(const Host& host, const OrtHardwareDevice* device) {
  return host.api->HardwareDevice_Type(device) == OrtHardwareDeviceType_CPU;
}

// The host shows all devices of the machine, and takes over what is made for those that we can use; what was
// made before an error is still ours.
OrtStatus* ORT_API_CALL get_supported_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                              size_t num_devices, OrtEpDevice** ep_devices,
                                              size_t max_ep_devices, size_t* num_ep_devices) {
  const Host& host = static_cast<Factory*>(self)->host;
  size_t found = 0;
  *num_ep_devices = 0;
  OrtStatus* status = guard(host.api, [&] {
    KeyValuePairs metadata(host.api);  // what applications can choose by; the host adds the version
    metadata.add("element_types", "float32");
    KeyValuePairs defaults(host.api);
    publish_defaults(&defaults);
    for (size_t i = 0; i < num_devices && found < max_ep_devices; ++i) {
      if (is_ours(host, devices[i])) {
        host.check(host.ep_api->CreateEpDevice(self, devices[i], metadata.get(), defaults.get(),
                                               &ep_devices[found]));
        ++found;
      }
    }
  });
  if (status != nullptr) {
    while (found > 0) {
      host.ep_api->ReleaseEpDevice(ep_devices[--found]);
    }
  }
  *num_ep_devices = found;
  return status;
}

OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* self, const OrtHardwareDevice* const*,
                                  const OrtKeyValuePairs* const*, size_t, const OrtSessionOptions* options,
                                  const OrtLogger* logger, OrtEp** ep) {
  const Host& host = static_cast<Factory*>(self)->host;
  *ep = nullptr;
  return guard(host.api, [&] { *ep = std::make_unique<Ep>(host, options, logger).release(); });
}

void ORT_API_CALL release_ep(OrtEpFactory*, OrtEp* ep) { delete static_cast<Ep*>(ep); }

// Our tensors are in the host's memory. onnxruntime calls this member without a look whether it is NULL.
OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory*, OrtDataTransferImpl** transfer) {
  *transfer = nullptr;
  return nullptr;
}

Factory::Factory(const Host& of) : OrtEpFactory{}, host(of) {
  ort_version_supported = kApiVersion;
  GetName = get_name;
  GetVendor = get_vendor;
  GetVendorId = get_vendor_id;
  GetVersion = get_version;
  GetSupportedDevices = get_supported_devices;
  CreateEp = create_ep;
  ReleaseEp = release_ep;
  CreateDataTransfer = create_data_transfer;
}

// A host without our version of the API still has the table of version 1, which is enough to say so with.
OrtStatus* too_old(const OrtApiBase* base) {
  const OrtApi* oldest = base->GetApi(1);
  return oldest == nullptr ? nullptr : guard(oldest, [] {
    const std::string version = std::to_string(kApiVersion);
    throw Error(ORT_FAIL, "my_ep needs a host with version " + version + " of the API (onnxruntime 1." +
                              version + " or newer)");
  });
}

}  // namespace
}  // namespace plugin

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* /*registered_name*/, const OrtApiBase* base,
                                                  const OrtLogger* /*logger*/, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  using namespace plugin;
  *num_factories = 0;
  const OrtApi* api = base->GetApi(kApiVersion);
  if (api == nullptr) {
    return too_old(base);
  }
  return guard(api, [&] {
    if (max_factories < 1) {
      throw Error(ORT_INVALID_ARGUMENT, "my_ep needs room for one factory");
    }
    factories[0] = std::make_unique<Factory>(Host{api, api->GetEpApi()}).release();
    *num_factories = 1;
  });
}

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<plugin::Factory*>(factory);
  return nullptr;
}
