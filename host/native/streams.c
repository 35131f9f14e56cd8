/* OrtSyncStream: a queue of a device's work, as a plugin made it. */
#include "native.h"
#include "python.h"

OrtSyncStream* stream_new(OrtSyncStreamImpl* impl, const OrtMemoryDevice* device,
                          const OrtEpDevice* ep_device) {
  OrtSyncStream* stream = host_calloc(1, sizeof *stream);
  if (!stream) return NULL;
  stream->impl = impl;
  stream->device = device;
  stream->ep_device = ep_device;
  handle_count(HANDLE_SYNC_STREAM, 1);
  return stream;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseSyncStream)(OrtSyncStream* input) {
  if (!input) return;
  if (input->impl) input->impl->Release(input->impl);
  host_free(input);
  handle_count(HANDLE_SYNC_STREAM, -1);
}

void* ORT_API_CALL SLOT(OrtApi, SyncStream_GetHandle)(OrtSyncStream* stream) {
  if (!stream) return NULL;
  return stream->impl ? stream->impl->GetHandle(stream->impl) : stream->user_handle;
}

/* Makes the stream of an EP's device: the EP's own function for it comes first, then its factory's. *out
 * stays NULL, without an error, when neither has one. */
OrtStatus* stream_for(OrtEp* ep, OrtEpFactory* factory, const OrtMemoryDevice* device,
                      const OrtKeyValuePairs* options, const OrtEpDevice* ep_device, OrtSyncStream** out) {
  OrtSyncStreamImpl* impl = NULL;
  OrtStatus* status = NULL;
  *out = NULL;
  if (ep && ep->ort_version_supported >= 23 && ep->CreateSyncStreamForDevice) {
    status = ep->CreateSyncStreamForDevice(ep, device, &impl);
  } else if (factory && factory->ort_version_supported >= 23 && factory->CreateSyncStreamForDevice) {
    status = factory->CreateSyncStreamForDevice(factory, device, options, &impl);
  }
  if (status || !impl) return status;
  *out = stream_new(impl, device, ep_device);
  if (*out) return NULL;
  impl->Release(impl);
  return status_no_memory();
}

OrtStatus* stream_wait_on_host(OrtSyncStream* stream) {
  OrtSyncNotificationImpl* notification = NULL;
  OrtStatus* status = stream->impl->CreateNotification(stream->impl, &notification);
  if (!status && !notification) status = status_new(ORT_EP_FAIL, "CreateNotification of a stream gave NULL");
  if (status) return status;
  status = notification->Activate(notification);
  if (!status) status = notification->WaitOnHost(notification);
  notification->Release(notification);
  if (!status) atomic_fetch_add(&stream->sync_id, 1);
  return status;
}

OrtStatus* ephost_stream_wait(OrtSyncStream* stream) { return stream_wait_on_host(stream); }

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateSyncStreamForEpDevice)(const OrtEpDevice* ep_device,
                                                                  const OrtKeyValuePairs* stream_options,
                                                                  OrtSyncStream** stream) {
  REQUIRE_ARG(ep_device && stream);
  *stream = NULL;
  const OrtMemoryInfo* memory = ep_device->default_memory;
  if (!memory) {
    return status_new(ORT_INVALID_ARGUMENT, "the device of %s has no memory of its own, and so no stream",
                      ep_device->ep_name);
  }
  OrtStatus* status =
      stream_for(NULL, ep_device->factory, &memory->device, stream_options, ep_device, stream);
  if (!status && !*stream) {
    status = status_new(ORT_NOT_IMPLEMENTED, "%s makes no streams", ep_device->ep_name);
  }
  return status;
}

const OrtSyncStreamImpl* ORT_API_CALL SLOT(OrtEpApi, SyncStream_GetImpl)(const OrtSyncStream* stream) {
  return stream ? stream->impl : NULL;
}

uint64_t ORT_API_CALL SLOT(OrtEpApi, SyncStream_GetSyncId)(const OrtSyncStream* stream) {
  return stream ? atomic_load(&stream->sync_id) : 0;
}

/* The host lets streams wait for each other only through itself, so that a consumer has seen all of a
 * producer. */
uint64_t ORT_API_CALL SLOT(OrtEpApi, GetSyncIdForLastWaitOnSyncStream)(const OrtSyncStream* producer_stream,
                                                                       const OrtSyncStream* consumer_stream) {
  return producer_stream && consumer_stream ? atomic_load(&producer_stream->sync_id) : 0;
}
