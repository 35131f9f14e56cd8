/* An importer of "external" memory, which is the process's own, and a program that uses it through the host.
 */
#include "interop.h"

typedef struct Importer {
  OrtExternalResourceImporterImpl base;
  const Factory* factory;
  const OrtEpDevice* ep_device;
} Importer;

static bool ORT_API_CALL can_import(const OrtExternalResourceImporterImpl* this_ptr,
                                    OrtExternalMemoryHandleType type) {
  (void)this_ptr;
  trace("importer: CanImportMemory of %d", (int)type);
  return type == ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE;
}

static bool ORT_API_CALL can_import_semaphore(const OrtExternalResourceImporterImpl* this_ptr,
                                              OrtExternalSemaphoreType type) {
  (void)this_ptr, (void)type;
  trace("importer: CanImportSemaphore");
  return false;
}

static void ORT_API_CALL release_memory(OrtExternalMemoryHandle* handle) {
  trace("importer: memory released");
  free(handle);
}

static OrtStatus* ORT_API_CALL import(OrtExternalResourceImporterImpl* this_ptr,
                                      const OrtExternalMemoryDescriptor* desc,
                                      OrtExternalMemoryHandle** out) {
  const Importer* importer = (const Importer*)this_ptr;
  trace("importer: ImportMemory of %zu bytes", desc->size_bytes);
  OrtExternalMemoryHandle* handle = (OrtExternalMemoryHandle*)calloc(1, sizeof *handle);
  if (handle == NULL) {
    return out_of_memory(importer->factory->api);
  }
  handle->version = API_VERSION;
  handle->ep_device = importer->ep_device;
  handle->descriptor = *desc;
  handle->Release = release_memory;
  *out = handle;
  return NULL;
}

static OrtStatus* ORT_API_CALL tensor_from(OrtExternalResourceImporterImpl* this_ptr,
                                           const OrtExternalMemoryHandle* handle,
                                           const OrtExternalTensorDescriptor* desc, OrtValue** out) {
  const Importer* importer = (const Importer*)this_ptr;
  const OrtApi* api = importer->factory->api;
  OrtMemoryInfo* info = NULL;
  unsigned char* data = (unsigned char*)handle->descriptor.native_handle + desc->offset_bytes;
  trace("importer: CreateTensorFromMemory at %zu", desc->offset_bytes);
  TRY(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info));
  OrtStatus* status =
      api->CreateTensorWithDataAsOrtValue(info, data, handle->descriptor.size_bytes - desc->offset_bytes,
                                          desc->shape, desc->rank, desc->element_type, out);
  api->ReleaseMemoryInfo(info);
  return status;
}

static void ORT_API_CALL release_importer(OrtExternalResourceImporterImpl* this_ptr) {
  trace("importer: Release");
  free(this_ptr);
}

OrtStatus* ORT_API_CALL importer_create(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device,
                                        OrtExternalResourceImporterImpl** out) {
  const Factory* factory = (const Factory*)this_ptr;
  *out = NULL;
  trace("CreateExternalResourceImporterForDevice");
  if (!mode("interop")) {
    return NULL;
  }
  Importer* importer = (Importer*)calloc(1, sizeof *importer);
  if (importer == NULL) {
    return out_of_memory(factory->api);
  }
  importer->base.ort_version_supported = API_VERSION;
  importer->base.CanImportMemory = can_import;
  importer->base.ImportMemory = import;
  importer->base.CreateTensorFromMemory = tensor_from;
  importer->base.CanImportSemaphore = can_import_semaphore;
  importer->base.Release = release_importer;
  importer->factory = factory;
  importer->ep_device = ep_device;
  *out = &importer->base;
  return NULL;
}

OrtStatus* ORT_API_CALL interop_init(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device,
                                     const OrtGraphicsInteropConfig* config) {
  (void)this_ptr, (void)ep_device;
  trace("InitGraphicsInterop of API %d", (int)config->graphics_api);
  return NULL;
}

OrtStatus* ORT_API_CALL interop_deinit(OrtEpFactory* this_ptr, const OrtEpDevice* ep_device) {
  (void)this_ptr, (void)ep_device;
  trace("DeinitGraphicsInterop");
  return NULL;
}

static void told(const OrtApi* api, const char* what, OrtStatus* status) {
  if (status != NULL) {
    trace("%s: error %d", what, (int)api->GetErrorCode(status));
    api->ReleaseStatus(status);
  }
}

void interop_use(const OrtApi* api, const OrtEpDevice* ep_device) {
  const OrtInteropApi* interop = api->GetInteropApi();
  OrtExternalResourceImporter* importer = NULL;
  OrtExternalMemoryHandle* memory = NULL;
  OrtValue* tensor = NULL;
  float numbers[4] = {1, 2, 3, 4};
  const int64_t dims[] = {2};
  bool supported = false;
  const OrtGraphicsInteropConfig config = {.version = API_VERSION, .graphics_api = ORT_GRAPHICS_API_D3D12};
  told(api, "init", interop->InitGraphicsInteropForEpDevice(ep_device, &config));
  told(api, "create", interop->CreateExternalResourceImporterForDevice(ep_device, &importer));
  trace("importer is %s", importer != NULL ? "there" : "NULL");
  if (importer != NULL) {
    told(api, "can import",
         interop->CanImportMemory(importer, ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE, &supported));
    trace("memory can%s be imported", supported ? "" : "not");
    told(api, "can import",
         interop->CanImportSemaphore(importer, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE, &supported));
    trace("semaphores can%s be imported", supported ? "" : "not");
    const OrtExternalMemoryDescriptor described = {
        API_VERSION, ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE, numbers, sizeof numbers, 0};
    told(api, "import", interop->ImportMemory(importer, &described, &memory));
  }
  if (memory != NULL) {
    const OrtExternalTensorDescriptor of_tensor = {API_VERSION, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, dims, 1,
                                                   2 * sizeof(float)};
    const void* data = NULL;
    told(api, "tensor", interop->CreateTensorFromMemory(importer, memory, &of_tensor, &tensor));
    if (tensor != NULL) {
      told(api, "data", api->GetTensorData(tensor, &data));
      trace("the tensor is %s", data == numbers + 2 ? "in the memory" : "elsewhere");
      api->ReleaseValue(tensor);
    }
    interop->ReleaseExternalMemoryHandle(memory);
  }
  if (importer != NULL) {
    const OrtExternalSemaphoreDescriptor described = {API_VERSION, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE,
                                                      numbers};
    OrtExternalSemaphoreHandle* semaphore = NULL;
    told(api, "semaphore", interop->ImportSemaphore(importer, &described, &semaphore));
    interop->ReleaseExternalResourceImporter(importer);
  }
  told(api, "deinit", interop->DeinitGraphicsInteropForEpDevice(ep_device));
}
