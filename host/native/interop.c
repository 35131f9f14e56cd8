/* OrtInteropApi: memory and semaphores of graphics APIs. All that the host does is to hand each call on to
 * the importer of the EP's factory, and to say so where there is none. */
#include "abi.h"
#include "devices.h"
#include "exceptions.h"
#include "heap.h"
#include "status.h"

struct OrtExternalResourceImporter {
  OrtExternalResourceImporterImpl* impl; /* owned */
  const OrtEpDevice* ep_device;
};

static OrtStatus* no_interop(const OrtEpDevice* ep_device, const char* what) {
  return status_new(ORT_NOT_IMPLEMENTED, "%s has no %s", ep_device->ep_name, what);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, CreateExternalResourceImporterForDevice)(
    const OrtEpDevice* ep_device, OrtExternalResourceImporter** out_importer) {
  REQUIRE_ARG(out_importer != NULL);
  *out_importer = NULL;
  REQUIRE_ARG(ep_device && ep_device->factory);
  OrtEpFactory* factory = ep_device->factory;
  OrtExternalResourceImporterImpl* impl = NULL;
  if (PLUGIN_MEMBER(OrtEpFactory, factory, CreateExternalResourceImporterForDevice) != NULL) {
    OrtStatus* status =
        GUARDED(OrtEpFactory, CreateExternalResourceImporterForDevice)(factory, ep_device, &impl);
    if (status != NULL) return status;
  }
  if (impl == NULL) return NULL; /* as in onnxruntime: there is none, and that is no error */
  OrtExternalResourceImporter* importer = host_calloc(1, sizeof *importer);
  if (importer == NULL) {
    if (impl->Release != NULL) GUARDED(OrtExternalResourceImporterImpl, Release)(impl);
    return status_no_memory();
  }
  importer->impl = impl;
  importer->ep_device = ep_device;
  handle_count(HANDLE_OTHER, 1);
  *out_importer = importer;
  return NULL;
}

void ORT_API_CALL SLOT(OrtInteropApi, ReleaseExternalResourceImporter)(OrtExternalResourceImporter* input) {
  if (input == NULL) return;
  if (input->impl->Release != NULL) GUARDED(OrtExternalResourceImporterImpl, Release)(input->impl);
  host_free(input);
  handle_count(HANDLE_OTHER, -1);
}

#define REQUIRE_FUNCTION(importer, member) \
  if ((importer)->impl->member == NULL) return no_interop((importer)->ep_device, #member)

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, CanImportMemory)(const OrtExternalResourceImporter* importer,
                                                             OrtExternalMemoryHandleType handle_type,
                                                             bool* out_supported) {
  REQUIRE_ARG(out_supported != NULL);
  *out_supported = false;
  REQUIRE_ARG(importer != NULL);
  REQUIRE_FUNCTION(importer, CanImportMemory);
  *out_supported = GUARDED(OrtExternalResourceImporterImpl, CanImportMemory)(importer->impl, handle_type);
  return outcome(NULL);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, ImportMemory)(OrtExternalResourceImporter* importer,
                                                          const OrtExternalMemoryDescriptor* desc,
                                                          OrtExternalMemoryHandle** out_handle) {
  REQUIRE_ARG(out_handle != NULL);
  *out_handle = NULL;
  REQUIRE_ARG(importer != NULL && desc != NULL);
  REQUIRE_FUNCTION(importer, ImportMemory);
  return GUARDED(OrtExternalResourceImporterImpl, ImportMemory)(importer->impl, desc, out_handle);
}

void ORT_API_CALL SLOT(OrtInteropApi, ReleaseExternalMemoryHandle)(OrtExternalMemoryHandle* input) {
  if (input != NULL && input->Release != NULL) GUARDED(OrtExternalMemoryHandle, Release)(input);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi,
                             CreateTensorFromMemory)(OrtExternalResourceImporter* importer,
                                                     const OrtExternalMemoryHandle* mem_handle,
                                                     const OrtExternalTensorDescriptor* tensor_desc,
                                                     OrtValue** out_tensor) {
  REQUIRE_ARG(out_tensor != NULL);
  *out_tensor = NULL;
  REQUIRE_ARG(importer != NULL && mem_handle != NULL && tensor_desc != NULL);
  REQUIRE_FUNCTION(importer, CreateTensorFromMemory);
  return GUARDED(OrtExternalResourceImporterImpl, CreateTensorFromMemory)(importer->impl, mem_handle,
                                                                          tensor_desc, out_tensor);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, CanImportSemaphore)(const OrtExternalResourceImporter* importer,
                                                                OrtExternalSemaphoreType type,
                                                                bool* out_supported) {
  REQUIRE_ARG(out_supported != NULL);
  *out_supported = false;
  REQUIRE_ARG(importer != NULL);
  REQUIRE_FUNCTION(importer, CanImportSemaphore);
  *out_supported = GUARDED(OrtExternalResourceImporterImpl, CanImportSemaphore)(importer->impl, type);
  return outcome(NULL);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, ImportSemaphore)(OrtExternalResourceImporter* importer,
                                                             const OrtExternalSemaphoreDescriptor* desc,
                                                             OrtExternalSemaphoreHandle** out_handle) {
  REQUIRE_ARG(out_handle != NULL);
  *out_handle = NULL;
  REQUIRE_ARG(importer != NULL && desc != NULL);
  REQUIRE_FUNCTION(importer, ImportSemaphore);
  return GUARDED(OrtExternalResourceImporterImpl, ImportSemaphore)(importer->impl, desc, out_handle);
}

void ORT_API_CALL SLOT(OrtInteropApi, ReleaseExternalSemaphoreHandle)(OrtExternalSemaphoreHandle* input) {
  if (input != NULL && input->Release != NULL) GUARDED(OrtExternalSemaphoreHandle, Release)(input);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, WaitSemaphore)(OrtExternalResourceImporter* importer,
                                                           OrtExternalSemaphoreHandle* semaphore_handle,
                                                           OrtSyncStream* stream, uint64_t value) {
  REQUIRE_ARG(importer != NULL && semaphore_handle != NULL && stream != NULL);
  REQUIRE_FUNCTION(importer, WaitSemaphore);
  return GUARDED(OrtExternalResourceImporterImpl, WaitSemaphore)(importer->impl, semaphore_handle, stream,
                                                                 value);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, SignalSemaphore)(OrtExternalResourceImporter* importer,
                                                             OrtExternalSemaphoreHandle* semaphore_handle,
                                                             OrtSyncStream* stream, uint64_t value) {
  REQUIRE_ARG(importer != NULL && semaphore_handle != NULL && stream != NULL);
  REQUIRE_FUNCTION(importer, SignalSemaphore);
  return GUARDED(OrtExternalResourceImporterImpl, SignalSemaphore)(importer->impl, semaphore_handle, stream,
                                                                   value);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi,
                             InitGraphicsInteropForEpDevice)(const OrtEpDevice* ep_device,
                                                             const OrtGraphicsInteropConfig* config) {
  REQUIRE_ARG(ep_device && ep_device->factory && config);
  OrtEpFactory* factory = ep_device->factory;
  if (PLUGIN_MEMBER(OrtEpFactory, factory, InitGraphicsInterop) == NULL)
    return no_interop(ep_device, "graphics interop");
  return GUARDED(OrtEpFactory, InitGraphicsInterop)(factory, ep_device, config);
}

OrtStatus* ORT_API_CALL SLOT(OrtInteropApi, DeinitGraphicsInteropForEpDevice)(const OrtEpDevice* ep_device) {
  REQUIRE_ARG(ep_device && ep_device->factory);
  OrtEpFactory* factory = ep_device->factory;
  if (PLUGIN_MEMBER(OrtEpFactory, factory, DeinitGraphicsInterop) == NULL)
    return no_interop(ep_device, "graphics interop");
  return GUARDED(OrtEpFactory, DeinitGraphicsInterop)(factory, ep_device);
}
