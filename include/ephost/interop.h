/* Sharing memory and semaphores with Direct3D 12 and Vulkan. */
#ifndef EPHOST_INTEROP_H_
#define EPHOST_INTEROP_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Argument of InitGraphicsInteropForEpDevice. Zero it first; nothing is taken over. */
struct OrtGraphicsInteropConfig {
  /* ORT_API_VERSION. */
  uint32_t version;

  /* Which API the queue is of. */
  OrtGraphicsApi graphics_api;

  /* Its native command queue (an ID3D12CommandQueue*, say); NULL where the API has none to share. */
  void* command_queue;

  /* More by name; NULL: none. */
  const OrtKeyValuePairs* additional_options;
};

/* Memory of a graphics API that an EP may import. Nothing is taken over. */
struct OrtExternalMemoryDescriptor {
  /* ORT_API_VERSION. */
  uint32_t version;

  /* What native_handle is. */
  OrtExternalMemoryHandleType handle_type;

  /* The shared handle, or a file descriptor in pointer form. Stays the caller's. */
  void* native_handle;

  /* Size of the whole memory, and where the part to use begins. */
  size_t size_bytes;
  size_t offset_bytes;
};

/* A semaphore or fence of a graphics API that an EP may import. Nothing is taken over. */
struct OrtExternalSemaphoreDescriptor {
  /* ORT_API_VERSION. */
  uint32_t version;

  /* What native_handle is. */
  OrtExternalSemaphoreType type;

  /* As above. */
  void* native_handle;
};

/* A tensor in imported memory. */
struct OrtExternalTensorDescriptor {
  /* ORT_API_VERSION. */
  uint32_t version;

  /* Not strings. */
  ONNXTensorElementDataType element_type;

  /* Dimensions, all known. The array is read during the call only; NULL when rank is 0. */
  const int64_t* shape;
  size_t rank;

  /* Where the tensor begins, counted from the descriptor's offset. */
  size_t offset_bytes;
};

/* Imported memory. The EP makes it as the head of a struct of its own. */
struct OrtExternalMemoryHandle {
  /* The API version the EP was compiled with. */
  uint32_t version;

  /* The device that imported it; borrowed. */
  const OrtEpDevice* ep_device;

  /* What was imported, a copy. */
  OrtExternalMemoryDescriptor descriptor;

  /* Frees it, called once, after the tensors in it are gone. Not NULL. */
  void (ORT_API_CALL* Release)(OrtExternalMemoryHandle* handle);
};

/* An imported semaphore. The EP makes it as the head of a struct of its own. */
struct OrtExternalSemaphoreHandle {
  /* The API version the EP was compiled with. */
  uint32_t version;

  /* The device that imported it; borrowed. */
  const OrtEpDevice* ep_device;

  /* What was imported, a copy. */
  OrtExternalSemaphoreDescriptor descriptor;

  /* Frees it, called once, when nothing waits for it. Not NULL. */
  void (ORT_API_CALL* Release)(OrtExternalSemaphoreHandle* handle);
};

/* What an EP implements to share memory and semaphores with graphics APIs. Made by OrtEpFactory's
   CreateExternalResourceImporterForDevice. */
struct OrtExternalResourceImporterImpl {
  /* The API version the EP was compiled with: later members are not read. */
  uint32_t ort_version_supported;

  EPHOST_SINCE(24)

  /* Whether this kind of handle can be imported at all. */
  bool (ORT_API_CALL* CanImportMemory)(const OrtExternalResourceImporterImpl* this_ptr,
                                       OrtExternalMemoryHandleType handle_type);

  /* Imports it; the host gives the result to ReleaseMemory. On error *out_handle stays NULL. */
  OrtStatus* (ORT_API_CALL* ImportMemory)(OrtExternalResourceImporterImpl* this_ptr,
                                          const OrtExternalMemoryDescriptor* desc,
                                          OrtExternalMemoryHandle** out_handle);

  /* Takes what ImportMemory gave. */
  void (ORT_API_CALL* ReleaseMemory)(OrtExternalResourceImporterImpl* this_ptr,
                                     OrtExternalMemoryHandle* handle);

  /* A tensor in that memory, without a copy; it must be released before the memory. */
  OrtStatus* (ORT_API_CALL* CreateTensorFromMemory)(OrtExternalResourceImporterImpl* this_ptr,
      const OrtExternalMemoryHandle* mem_handle, const OrtExternalTensorDescriptor* tensor_desc,
      OrtValue** out_tensor);

  /* Whether this kind of semaphore can be imported at all. */
  bool (ORT_API_CALL* CanImportSemaphore)(const OrtExternalResourceImporterImpl* this_ptr,
                                          OrtExternalSemaphoreType type);

  /* Imports it; the host gives the result to ReleaseSemaphore. On error *out_handle stays NULL. */
  OrtStatus* (ORT_API_CALL* ImportSemaphore)(OrtExternalResourceImporterImpl* this_ptr,
                                             const OrtExternalSemaphoreDescriptor* desc,
                                             OrtExternalSemaphoreHandle** out_handle);

  /* Takes what ImportSemaphore gave. */
  void (ORT_API_CALL* ReleaseSemaphore)(OrtExternalResourceImporterImpl* this_ptr,
                                        OrtExternalSemaphoreHandle* handle);

  /* Queue on the stream a wait until the semaphore has reached `value`, or the setting of it. Return at once.
     */
  OrtStatus* (ORT_API_CALL* WaitSemaphore)(OrtExternalResourceImporterImpl* this_ptr,
                                           OrtExternalSemaphoreHandle* handle, OrtSyncStream* stream,
                                           uint64_t value);
  OrtStatus* (ORT_API_CALL* SignalSemaphore)(OrtExternalResourceImporterImpl* this_ptr,
                                             OrtExternalSemaphoreHandle* handle, OrtSyncStream* stream,
                                             uint64_t value);

  /* Frees the importer, called once, after all it imported. */
  void (ORT_API_CALL* Release)(OrtExternalResourceImporterImpl* this_ptr);
};

/* The application's side of OrtExternalResourceImporterImpl. Functions return ORT_NOT_IMPLEMENTED when the EP
   has no importer. */
struct OrtInteropApi {
  EPHOST_SINCE(24)

  /* An importer for an EP device. The caller releases it, after all it imported. */
  OrtStatus* (ORT_API_CALL* CreateExternalResourceImporterForDevice)(const OrtEpDevice* ep_device,
      OrtExternalResourceImporter** out_importer);
  void (ORT_API_CALL* ReleaseExternalResourceImporter)(OrtExternalResourceImporter* input);

  /* Whether this kind of handle can be imported at all. */
  OrtStatus* (ORT_API_CALL* CanImportMemory)(const OrtExternalResourceImporter* importer,
                                             OrtExternalMemoryHandleType handle_type, bool* out_supported);

  /* Imports memory; the caller releases it after the tensors in it. */
  OrtStatus* (ORT_API_CALL* ImportMemory)(OrtExternalResourceImporter* importer,
                                          const OrtExternalMemoryDescriptor* desc,
                                          OrtExternalMemoryHandle** out_handle);
  void (ORT_API_CALL* ReleaseExternalMemoryHandle)(OrtExternalMemoryHandle* input);

  /* A tensor in imported memory, without a copy; the caller releases it with ReleaseValue. */
  OrtStatus* (ORT_API_CALL* CreateTensorFromMemory)(OrtExternalResourceImporter* importer,
      const OrtExternalMemoryHandle* mem_handle, const OrtExternalTensorDescriptor* tensor_desc,
      OrtValue** out_tensor);

  /* Whether this kind of semaphore can be imported at all. */
  OrtStatus* (ORT_API_CALL* CanImportSemaphore)(const OrtExternalResourceImporter* importer,
                                                OrtExternalSemaphoreType type, bool* out_supported);

  /* Imports a semaphore; the caller releases it when nothing waits for it. */
  OrtStatus* (ORT_API_CALL* ImportSemaphore)(OrtExternalResourceImporter* importer,
                                             const OrtExternalSemaphoreDescriptor* desc,
                                             OrtExternalSemaphoreHandle** out_handle);
  void (ORT_API_CALL* ReleaseExternalSemaphoreHandle)(OrtExternalSemaphoreHandle* input);

  /* Queue on the stream a wait until the semaphore has reached `value`, or the setting of it. Return at once.
     */
  OrtStatus* (ORT_API_CALL* WaitSemaphore)(OrtExternalResourceImporter* importer,
                                           OrtExternalSemaphoreHandle* semaphore_handle,
                                           OrtSyncStream* stream, uint64_t value);
  OrtStatus* (ORT_API_CALL* SignalSemaphore)(OrtExternalResourceImporter* importer,
                                             OrtExternalSemaphoreHandle* semaphore_handle,
                                             OrtSyncStream* stream, uint64_t value);

  EPHOST_SINCE(25)

  /* Tell an EP which graphics queue the application uses, before streams of the device are made, and that it
     no longer does, after they are released. */
  OrtStatus* (ORT_API_CALL* InitGraphicsInteropForEpDevice)(const OrtEpDevice* ep_device,
                                                            const OrtGraphicsInteropConfig* config);
  OrtStatus* (ORT_API_CALL* DeinitGraphicsInteropForEpDevice)(const OrtEpDevice* ep_device);
};

#ifdef __cplusplus
}
#endif

#endif
