#ifndef EPHOST_INTEROP_H_
#define EPHOST_INTEROP_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct OrtGraphicsInteropConfig {
  uint32_t version;
  OrtGraphicsApi graphics_api;
  void* command_queue;
  const OrtKeyValuePairs* additional_options;
};

struct OrtExternalMemoryDescriptor {
  uint32_t version;
  OrtExternalMemoryHandleType handle_type;
  void* native_handle;
  size_t size_bytes;
  size_t offset_bytes;
};

struct OrtExternalSemaphoreDescriptor {
  uint32_t version;
  OrtExternalSemaphoreType type;
  void* native_handle;
};

struct OrtExternalTensorDescriptor {
  uint32_t version;
  ONNXTensorElementDataType element_type;
  const int64_t* shape;
  size_t rank;
  size_t offset_bytes;
};

struct OrtExternalMemoryHandle {
  uint32_t version;
  const OrtEpDevice* ep_device;
  OrtExternalMemoryDescriptor descriptor;
  void(ORT_API_CALL* Release)(OrtExternalMemoryHandle* handle);
};

struct OrtExternalSemaphoreHandle {
  uint32_t version;
  const OrtEpDevice* ep_device;
  OrtExternalSemaphoreDescriptor descriptor;
  void(ORT_API_CALL* Release)(OrtExternalSemaphoreHandle* handle);
};

struct OrtExternalResourceImporterImpl {
  uint32_t ort_version_supported;
  EPHOST_SINCE(24)
  bool(ORT_API_CALL* CanImportMemory)(const OrtExternalResourceImporterImpl* this_ptr, OrtExternalMemoryHandleType handle_type);
  OrtStatus*(ORT_API_CALL* ImportMemory)(OrtExternalResourceImporterImpl* this_ptr, const OrtExternalMemoryDescriptor* desc, OrtExternalMemoryHandle** out_handle);
  void(ORT_API_CALL* ReleaseMemory)(OrtExternalResourceImporterImpl* this_ptr, OrtExternalMemoryHandle* handle);
  OrtStatus*(ORT_API_CALL* CreateTensorFromMemory)(OrtExternalResourceImporterImpl* this_ptr, const OrtExternalMemoryHandle* mem_handle, const OrtExternalTensorDescriptor* tensor_desc, OrtValue** out_tensor);
  bool(ORT_API_CALL* CanImportSemaphore)(const OrtExternalResourceImporterImpl* this_ptr, OrtExternalSemaphoreType type);
  OrtStatus*(ORT_API_CALL* ImportSemaphore)(OrtExternalResourceImporterImpl* this_ptr, const OrtExternalSemaphoreDescriptor* desc, OrtExternalSemaphoreHandle** out_handle);
  void(ORT_API_CALL* ReleaseSemaphore)(OrtExternalResourceImporterImpl* this_ptr, OrtExternalSemaphoreHandle* handle);
  OrtStatus*(ORT_API_CALL* WaitSemaphore)(OrtExternalResourceImporterImpl* this_ptr, OrtExternalSemaphoreHandle* handle, OrtSyncStream* stream, uint64_t value);
  OrtStatus*(ORT_API_CALL* SignalSemaphore)(OrtExternalResourceImporterImpl* this_ptr, OrtExternalSemaphoreHandle* handle, OrtSyncStream* stream, uint64_t value);
  void(ORT_API_CALL* Release)(OrtExternalResourceImporterImpl* this_ptr);
};

struct OrtInteropApi {
  EPHOST_SINCE(24)
  OrtStatus*(ORT_API_CALL* CreateExternalResourceImporterForDevice)(const OrtEpDevice* ep_device, OrtExternalResourceImporter** out_importer);
  void(ORT_API_CALL* ReleaseExternalResourceImporter)(OrtExternalResourceImporter* input);
  OrtStatus*(ORT_API_CALL* CanImportMemory)(const OrtExternalResourceImporter* importer, OrtExternalMemoryHandleType handle_type, bool* out_supported);
  OrtStatus*(ORT_API_CALL* ImportMemory)(OrtExternalResourceImporter* importer, const OrtExternalMemoryDescriptor* desc, OrtExternalMemoryHandle** out_handle);
  void(ORT_API_CALL* ReleaseExternalMemoryHandle)(OrtExternalMemoryHandle* input);
  OrtStatus*(ORT_API_CALL* CreateTensorFromMemory)(OrtExternalResourceImporter* importer, const OrtExternalMemoryHandle* mem_handle, const OrtExternalTensorDescriptor* tensor_desc, OrtValue** out_tensor);
  OrtStatus*(ORT_API_CALL* CanImportSemaphore)(const OrtExternalResourceImporter* importer, OrtExternalSemaphoreType type, bool* out_supported);
  OrtStatus*(ORT_API_CALL* ImportSemaphore)(OrtExternalResourceImporter* importer, const OrtExternalSemaphoreDescriptor* desc, OrtExternalSemaphoreHandle** out_handle);
  void(ORT_API_CALL* ReleaseExternalSemaphoreHandle)(OrtExternalSemaphoreHandle* input);
  OrtStatus*(ORT_API_CALL* WaitSemaphore)(OrtExternalResourceImporter* importer, OrtExternalSemaphoreHandle* semaphore_handle, OrtSyncStream* stream, uint64_t value);
  OrtStatus*(ORT_API_CALL* SignalSemaphore)(OrtExternalResourceImporter* importer, OrtExternalSemaphoreHandle* semaphore_handle, OrtSyncStream* stream, uint64_t value);
  EPHOST_SINCE(25)
  OrtStatus*(ORT_API_CALL* InitGraphicsInteropForEpDevice)(const OrtEpDevice* ep_device, const OrtGraphicsInteropConfig* config);
  OrtStatus*(ORT_API_CALL* DeinitGraphicsInteropForEpDevice)(const OrtEpDevice* ep_device);
};

#ifdef __cplusplus
}
#endif

#endif
