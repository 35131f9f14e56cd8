/* OrtInteropApi: memory and semaphores of graphics APIs. All that the host does is to hand each call on to
 * the importer of the EP's factory, and to say so where there is none. */
#include "native.h"

struct OrtExternalResourceImporter {
  OrtExternalResourceImporterImpl* impl; /* owned */
  const OrtEpDevice* ep_device;
};

#define FACTORY_MEMBER(factory, since, member) \
  ((factory)->ort_version_supported >= (since) ? (factory)->member : NULL)

static OrtStatus* no_interop(const OrtEpDevice* ep_device, const char* what) {
  return status_new(ORT_NOT_IMPLEMENTED, "%s has no %s", ep_device->ep_name, what);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, CreateExternalResourceImporterForDevice)(
    const OrtEpDevice* ep_device, OrtExternalResourceImporter** out_importer) {
  REQUIRE_ARG(out_importer);
  *out_importer = NULL;
  REQUIRE_ARG(ep_device && ep_device->factory);
  OrtEpFactory* factory = ep_device->factory;
  OrtExternalResourceImporterImpl* impl = NULL;
  if (FACTORY_MEMBER(factory, 24, CreateExternalResourceImporterForDevice)) {
    OrtStatus* status = factory->CreateExternalResourceImporterForDevice(factory, ep_device, &impl);
    if (status) return status;
  }
  if (!impl) return NULL; /* as in onnxruntime: there is none, and that is no error */
  OrtExternalResourceImporter* importer = host_calloc(1, sizeof *importer);
  if (!importer) {
    if (impl->Release) impl->Release(impl);
    return status_no_memory();
  }
  importer->impl = impl;
  importer->ep_device = ep_device;
  handle_count(HANDLE_OTHER, 1);
  *out_importer = importer;
  return NULL;
}

void ORT_API_CALL SLOT(OrtInteropApi, ReleaseExternalResourceImporter)(OrtExternalResourceImporter* input) {
  if (!input) return;
  if (input->impl->Release) input->impl->Release(input->impl);
  host_free(input);
  handle_count(HANDLE_OTHER, -1);
}

#define REQUIRE_FUNCTION(importer, member) \
  if (!(importer)->impl->member) return no_interop((importer)->ep_device, #member)

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, CanImportMemory)(const OrtExternalResourceImporter* importer,
                                                             OrtExternalMemoryHandleType handle_type,
                                                             bool* out_supported) {
  REQUIRE_ARG(out_supported);
  *out_supported = false;
  REQUIRE_ARG(importer);
  REQUIRE_FUNCTION(importer, CanImportMemory);
  *out_supported = importer->impl->CanImportMemory(importer->impl, handle_type);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, ImportMemory)(OrtExternalResourceImporter* importer,
                                                          const OrtExternalMemoryDescriptor* desc,
                                                          OrtExternalMemoryHandle** out_handle) {
  REQUIRE_ARG(out_handle);
  *out_handle = NULL;
  REQUIRE_ARG(importer && desc);
  REQUIRE_FUNCTION(importer, ImportMemory);
  return importer->impl->ImportMemory(importer->impl, desc, out_handle);
}

void ORT_API_CALL SLOT(OrtInteropApi, ReleaseExternalMemoryHandle)(OrtExternalMemoryHandle* input) {
  if (input && input->Release) input->Release(input);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi,
                             CreateTensorFromMemory)(OrtExternalResourceImporter* importer,
                                                     const OrtExternalMemoryHandle* mem_handle,
                                                     const OrtExternalTensorDescriptor* tensor_desc,
                                                     OrtValue** out_tensor) {
  REQUIRE_ARG(out_tensor);
  *out_tensor = NULL;
  REQUIRE_ARG(importer && mem_handle && tensor_desc);
  REQUIRE_FUNCTION(importer, CreateTensorFromMemory);
  return importer->impl->CreateTensorFromMemory(importer->impl, mem_handle, tensor_desc, out_tensor);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, CanImportSemaphore)(const OrtExternalResourceImporter* importer,
                                                                OrtExternalSemaphoreType type,
                                                                bool* out_supported) {
  REQUIRE_ARG(out_supported);
  *out_supported = false;
  REQUIRE_ARG(importer);
  REQUIRE_FUNCTION(importer, CanImportSemaphore);
  *out_supported = importer->impl->CanImportSemaphore(importer->impl, type);
  return NULL;
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, ImportSemaphore)(OrtExternalResourceImporter* importer,
                                                             const OrtExternalSemaphoreDescriptor* desc,
                                                             OrtExternalSemaphoreHandle** out_handle) {
  REQUIRE_ARG(out_handle);
  *out_handle = NULL;
  REQUIRE_ARG(importer && desc);
  REQUIRE_FUNCTION(importer, ImportSemaphore);
  return importer->impl->ImportSemaphore(importer->impl, desc, out_handle);
}

void ORT_API_CALL SLOT(OrtInteropApi, ReleaseExternalSemaphoreHandle)(OrtExternalSemaphoreHandle* input) {
  if (input && input->Release) input->Release(input);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, WaitSemaphore)(OrtExternalResourceImporter* importer,
                                                           OrtExternalSemaphoreHandle* semaphore_handle,
                                                           OrtSyncStream* stream, uint64_t value) {
  REQUIRE_ARG(importer && semaphore_handle && stream);
  REQUIRE_FUNCTION(importer, WaitSemaphore);
  return importer->impl->WaitSemaphore(importer->impl, semaphore_handle, stream, value);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, SignalSemaphore)(OrtExternalResourceImporter* importer,
                                                             OrtExternalSemaphoreHandle* semaphore_handle,
                                                             OrtSyncStream* stream, uint64_t value) {
  REQUIRE_ARG(importer && semaphore_handle && stream);
  REQUIRE_FUNCTION(importer, SignalSemaphore);
  return importer->impl->SignalSemaphore(importer->impl, semaphore_handle, stream, value);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi,
                             InitGraphicsInteropForEpDevice)(const OrtEpDevice* ep_device,
                                                             const OrtGraphicsInteropConfig* config) {
  REQUIRE_ARG(ep_device && ep_device->factory && config);
  OrtEpFactory* factory = ep_device->factory;
  if (!FACTORY_MEMBER(factory, 25, InitGraphicsInterop)) return no_interop(ep_device, "graphics interop");
  return factory->InitGraphicsInterop(factory, ep_device, config);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, DeinitGraphicsInteropForEpDevice)(const OrtEpDevice* ep_device) {
  REQUIRE_ARG(ep_device && ep_device->factory);
  OrtEpFactory* factory = ep_device->factory;
  if (!FACTORY_MEMBER(factory, 25, DeinitGraphicsInterop)) return no_interop(ep_device, "graphics interop");
  return factory->DeinitGraphicsInterop(factory, ep_device);
}
