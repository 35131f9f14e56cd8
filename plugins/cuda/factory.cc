/* The two exported functions, and the answer to the question which devices there are. */
#include "cuda/factory.h"

#include <algorithm>
#include <cctype>

#include "cuda/options.h"
#include "ephost/plugin.h"

namespace ephost::cuda {

namespace {

const Factory& self(const OrtEpFactory* base) { return *reinterpret_cast<const Factory*>(base); }

const char* ORT_API_CALL get_name(const OrtEpFactory*) { return kEpName; }
const char* ORT_API_CALL get_vendor(const OrtEpFactory*) { return "ephost"; }
uint32_t ORT_API_CALL get_vendor_id(const OrtEpFactory*) { return kNvidia; }
const char* ORT_API_CALL get_version(const OrtEpFactory*) { return EPHOST_VERSION; }

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

void describe(const Factory& factory, const Device& device, KeyValuePairs* metadata) {
  metadata->add("cuda_device", std::to_string(device.ordinal()));
  metadata->add("name", device.name());
  metadata->add("pci_bus_id", device.pci_bus_id());
  metadata->add("uuid", device.uuid());
  metadata->add("memory", std::to_string(device.memory()));
  metadata->add("compute_capability", capability_text(device.capability()));
  metadata->add("cuda_driver_version", version_text(factory.driver->version()));
}

OrtStatus* ORT_API_CALL get_supported_devices(OrtEpFactory* base, const OrtHardwareDevice* const* hardware,
                                              size_t num_hardware, OrtEpDevice** ep_devices,
                                              size_t max_ep_devices, size_t* num_ep_devices) {
  const Factory& factory = self(base);
  const OrtEpApi* ep_api = factory.api.ep;
  size_t found = 0;
  *num_ep_devices = 0;
  OrtStatus* status = guard(factory.api, [&] {
    std::vector<const DeviceMemory*> taken;
    for (size_t i = 0; i < num_hardware && found < max_ep_devices; ++i) {
      Obstacle why;
      const DeviceMemory* mine = factory.match(hardware[i], &why);
      if (mine == nullptr) {
        continue;
      }
      taken.push_back(mine);
      KeyValuePairs metadata(factory.api), options(factory.api);
      describe(factory, *mine->device, &metadata);
      for (const OptionDefault& option : option_defaults()) {
        options.add(option.key, option.value);
      }
      factory.api.check(
          ep_api->CreateEpDevice(base, hardware[i], metadata.get(), options.get(), &ep_devices[found]));
      ++found;
      factory.api.check(ep_api->EpDevice_AddAllocatorInfo(ep_devices[found - 1], mine->memory));
      factory.api.check(ep_api->EpDevice_AddAllocatorInfo(ep_devices[found - 1], mine->pinned));
    }
    for (const DeviceMemory& mine : factory.devices) {
      if (std::find(taken.begin(), taken.end(), &mine) == taken.end()) {
        factory.log(ORT_LOGGING_LEVEL_WARNING, "cuda: the host does not know " + mine.device->label() +
                                                   " at " + mine.device->pci_bus_id() +
                                                   ", so it cannot be offered");
      }
    }
  });
  if (status != nullptr) {
    while (found > 0) {
      ep_api->ReleaseEpDevice(ep_devices[--found]);
    }
  }
  *num_ep_devices = found;
  return status;
}

OrtStatus* ORT_API_CALL get_incompatibility(OrtEpFactory* base, const OrtHardwareDevice* hardware,
                                            OrtDeviceEpIncompatibilityDetails* details) {
  const Factory& factory = self(base);
  return guard(factory.api, [&] {
    Obstacle why;
    if (factory.match(hardware, &why) == nullptr) {
      factory.api.check(factory.api.ep->DeviceEpIncompatibilityDetails_SetDetails(
          details, why.reasons, why.code, why.text.c_str()));
    }
  });
}

void make_memory_infos(const Factory& factory, DeviceMemory* mine) {
  const uint32_t number = static_cast<uint32_t>(mine->device->ordinal());
  factory.api.check(factory.api.ort->CreateMemoryInfo_V2(
      "ephost_cuda", OrtMemoryInfoDeviceType_GPU, kNvidia, static_cast<int32_t>(number),
      OrtDeviceMemoryType_DEFAULT, 256, OrtDeviceAllocator, &mine->memory));
  factory.api.check(factory.api.ort->CreateMemoryInfo_V2(
      "ephost_cuda_pinned", OrtMemoryInfoDeviceType_GPU, kNvidia, static_cast<int32_t>(number),
      OrtDeviceMemoryType_HOST_ACCESSIBLE, 256, OrtDeviceAllocator, &mine->pinned));
}

void find_devices(Factory* factory) {
  factory->driver = Driver::open(&factory->obstacle);
  if (factory->driver == nullptr) {
    factory->log(ORT_LOGGING_LEVEL_INFO, "cuda: " + factory->obstacle.text);
    return;
  }
  for (int i = 0; i < factory->driver->num_devices(); ++i) {
    auto device = std::make_unique<Device>(*factory->driver, i);
    Obstacle why;
    if (device->capability() < kOldestCapability) {
      why = {OrtDeviceEpIncompatibility_DEVICE_INCOMPATIBLE, 0,
             device->label() + " has compute capability " + capability_text(device->capability()) + ", and " +
                 capability_text(kOldestCapability) + " or higher is needed"};
    } else if (device->attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0) {
      why = {OrtDeviceEpIncompatibility_DRIVER_INCOMPATIBLE, 0,
             device->label() + " has no pools of memory with this driver"};
    }
    if (!why.text.empty()) {
      factory->log(ORT_LOGGING_LEVEL_INFO, "cuda: " + why.text);
      factory->refused.emplace_back(device->pci_bus_id(), why);
      continue;
    }
    factory->devices.emplace_back();
    factory->devices.back().device = std::move(device);
    factory->devices.back().libraries = std::make_unique<Libraries>(*factory->devices.back().device);
    make_memory_infos(*factory, &factory->devices.back());
  }
}

/* "0000:65:00.0" of whatever form a host writes it in: lower case, with a domain of four digits. */
std::string normal_bus_id(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    return text;
  }
  if (text.find(':', colon + 1) == std::string::npos) {
    return "0000:" + text;
  }
  return colon > 4 ? text.substr(colon - 4) : std::string(4 - colon, '0') + text;
}

}  // namespace

Factory::~Factory() {
  for (DeviceMemory& mine : devices) {
    if (mine.memory != nullptr) {
      api.ort->ReleaseMemoryInfo(mine.memory);
    }
    if (mine.pinned != nullptr) {
      api.ort->ReleaseMemoryInfo(mine.pinned);
    }
  }
}

void Factory::log(OrtLoggingLevel level, const std::string& text) const {
  if (logger != nullptr) {
    api.log(logger, level, "cuda", text);
  }
}

Device& Factory::device(uint32_t number) const {
  for (const DeviceMemory& mine : devices) {
    if (static_cast<uint32_t>(mine.device->ordinal()) == number) {
      return *mine.device;
    }
  }
  invalid("cuda: there is no GPU " + std::to_string(number));
}

const DeviceMemory* Factory::match(const OrtHardwareDevice* hardware, Obstacle* why) const {
  const bool is_nvidia = api.ort->HardwareDevice_Type(hardware) == OrtHardwareDeviceType_GPU &&
                         api.ort->HardwareDevice_VendorId(hardware) == kNvidia;
  if (!is_nvidia) {
    *why = {OrtDeviceEpIncompatibility_DEVICE_INCOMPATIBLE, 0, "it is no NVIDIA GPU"};
    if (driver == nullptr) {
      why->text += ", and " + obstacle.text;
      why->reasons |= obstacle.reasons;
      why->code = obstacle.code;
    }
    return nullptr;
  }
  if (driver == nullptr) {
    *why = obstacle;
    return nullptr;
  }
  const char* where = api.ort->GetKeyValue(api.ort->HardwareDevice_Metadata(hardware), "pci_bus_id");
  if (where == nullptr) {
    /* A host that does not say where its device is: unambiguous where there is one GPU. */
    if (devices.size() == 1 && refused.empty()) {
      return &devices[0];
    }
    *why = {static_cast<uint32_t>(OrtDeviceEpIncompatibility_UNKNOWN), 0,
            "the host gives no pci_bus_id for it, and CUDA shows " +
                std::to_string(devices.size() + refused.size()) + " devices"};
    return nullptr;
  }
  const std::string bus_id = normal_bus_id(where);
  for (const DeviceMemory& mine : devices) {
    if (mine.device->pci_bus_id() == bus_id) {
      return &mine;
    }
  }
  for (const auto& other : refused) {
    if (other.first == bus_id) {
      *why = other.second;
      return nullptr;
    }
  }
  *why = {OrtDeviceEpIncompatibility_DEVICE_INCOMPATIBLE, 0,
          "CUDA does not show this process a device at " + bus_id + " (CUDA_VISIBLE_DEVICES may hide it)"};
  return nullptr;
}

}  // namespace ephost::cuda

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name, const OrtApiBase* ort_api_base,
                                                  const OrtLogger* default_logger, OrtEpFactory** factories,
                                                  size_t max_factories, size_t* num_factories) {
  using namespace ephost;
  using namespace ephost::cuda;
  (void)registered_name;
  *num_factories = 0;
  OrtStatus* refusal = nullptr;
  const ephost::Api api = ephost::api_of(ort_api_base, "cuda", &refusal);
  if (api.ort == nullptr) {
    return refusal;
  }
  if (max_factories < 1) {
    return api.status(ORT_INVALID_ARGUMENT, "cuda: there is no room for a factory");
  }
  return guard(api, [&] {
    auto factory = std::make_unique<Factory>();
    factory->api = api;
    factory->logger = default_logger;
    OrtEpFactory& base = factory->base;
    base.ort_version_supported = kApiVersion;
    base.GetName = get_name;
    base.GetVendor = get_vendor;
    base.GetVendorId = get_vendor_id;
    base.GetVersion = get_version;
    base.GetSupportedDevices = get_supported_devices;
    base.GetHardwareDeviceIncompatibilityDetails = get_incompatibility;
    offer_memory(&base);
    offer_sessions(&base);
    find_devices(factory.get());
    factories[0] = &factory.release()->base;
    *num_factories = 1;
  });
}

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete reinterpret_cast<ephost::cuda::Factory*>(factory);
  return nullptr;
}
