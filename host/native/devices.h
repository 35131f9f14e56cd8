/* Hardware devices and EP devices. */
#ifndef EPHOST_NATIVE_DEVICES_H_
#define EPHOST_NATIVE_DEVICES_H_

#include "abi.h"

struct OrtHardwareDevice {
  OrtHardwareDeviceType type;
  uint32_t vendor_id;
  uint32_t device_id;
  char* vendor;
  OrtKeyValuePairs* metadata;
};

/* Made by a plugin through CreateEpDevice inside GetSupportedDevices, owned by the environment afterwards. */
struct OrtEpDevice {
  OrtEpFactory* factory;
  const OrtHardwareDevice* hardware; /* borrowed: the environment's, or a virtual device of the plugin's */
  char* ep_name;                     /* copied when it was made: valid after the library is gone */
  char* ep_vendor;
  OrtKeyValuePairs* metadata;
  OrtKeyValuePairs* options;
  /* from EpDevice_AddAllocatorInfo: the plugin's, as long as the factory; NULL for none */
  const OrtMemoryInfo* default_memory;
  const OrtMemoryInfo* host_accessible_memory;
  const OrtMemoryInfo* read_only_memory;
};

struct OrtDeviceEpIncompatibilityDetails {
  uint32_t reasons;
  int32_t error_code;
  char* notes;
};

#endif
