/* OrtSyncStream: a queue of a device's work, as a plugin made it. */
#include <stdatomic.h>

#include "abi.h"
#include "devices.h"
#include "heap.h"
#include "memory.h"
#include "python.h"
#include "status.h"
#include "streams.h"

OrtSyncStream* stream_new(OrtSyncStreamImpl* impl, const OrtMemoryDevice* device,
                          const OrtEpDevice* ep_device) {
  OrtSyncStream* stream = host_calloc(1, sizeof *stream);
  if (stream == NULL) return NULL;
  stream->impl = impl;
  stream->device = device;
  stream->ep_device = ep_device;
  handle_count(HANDLE_SYNC_STREAM, 1);
  return stream;
}

void ORT_API_CALL SLOT(OrtApi, ReleaseSyncStream)(OrtSyncStream* input) {
  if (input == NULL) return;
  if (input->impl != NULL) GUARDED(OrtSyncStreamImpl, Release)(input->impl);
  host_free(input);
  handle_count(HANDLE_SYNC_STREAM, -1);
}

void* ORT_API_CALL SLOT(OrtApi, SyncStream_GetHandle)(OrtSyncStream* stream) {
  if (stream == NULL) return NULL;
  return stream->impl != NULL ? GUARDED(OrtSyncStreamImpl, GetHandle)(stream->impl) : stream->user_handle;
}

/* Makes the stream of an EP's device: the EP's own function for it comes first, then its factory's. *out
 * stays NULL, without an error, when neither has one. */
OrtStatus* stream_for(OrtEp* ep, OrtEpFactory* factory, const OrtMemoryDevice* device,
                      const OrtKeyValuePairs* options, const OrtEpDevice* ep_device, OrtSyncStream** out) {
  OrtSyncStreamImpl* impl = NULL;
  OrtStatus* status = NULL;
  *out = NULL;
  if (ep != NULL && PLUGIN_MEMBER(OrtEp, ep, CreateSyncStreamForDevice) != NULL) {
    status = GUARDED(OrtEp, CreateSyncStreamForDevice)(ep, device, &impl);
  } else if (factory != NULL && PLUGIN_MEMBER(OrtEpFactory, factory, CreateSyncStreamForDevice) != NULL) {
    status = GUARDED(OrtEpFactory, CreateSyncStreamForDevice)(factory, device, options, &impl);
  }
  if (status != NULL || impl == NULL) return status;
  *out = stream_new(impl, device, ep_device);
  if (*out) return NULL;
  GUARDED(OrtSyncStreamImpl, Release)(impl);
  return status_no_memory();
}

OrtStatus* stream_wait_on_host(OrtSyncStream* stream) {
  OrtSyncNotificationImpl* notification = NULL;
  OrtStatus* status = GUARDED(OrtSyncStreamImpl, CreateNotification)(stream->impl, &notification);
  if (status == NULL && notification == NULL)
    status = status_new(ORT_EP_FAIL, "CreateNotification of a stream gave NULL");
  if (status != NULL) return status;
  status = GUARDED(OrtSyncNotificationImpl, Activate)(notification);
  if (status == NULL) status = GUARDED(OrtSyncNotificationImpl, WaitOnHost)(notification);
  GUARDED(OrtSyncNotificationImpl, Release)(notification);
  if (status == NULL) atomic_fetch_add(&stream->sync_id, 1);
  return status;
}

OrtStatus* ephost_stream_wait(OrtSyncStream* stream) { return stream_wait_on_host(stream); }

OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateSyncStreamForEpDevice)(const OrtEpDevice* ep_device,
                                                                  const OrtKeyValuePairs* stream_options,
                                                                  OrtSyncStream** stream) {
  REQUIRE_ARG(ep_device != NULL && stream != NULL);
  *stream = NULL;
  const OrtMemoryInfo* memory = ep_device->default_memory;
  if (memory == NULL) {
    return status_new(ORT_INVALID_ARGUMENT, "the device of %s has no memory of its own, and so no stream",
                      ep_device->ep_name);
  }
  OrtStatus* status =
      stream_for(NULL, ep_device->factory, &memory->device, stream_options, ep_device, stream);
  if (status == NULL && *stream == NULL) {
    status = status_new(ORT_NOT_IMPLEMENTED, "%s makes no streams", ep_device->ep_name);
  }
  return status;
}

const OrtSyncStreamImpl* ORT_API_CALL SLOT(OrtEpApi, SyncStream_GetImpl)(const OrtSyncStream* stream) {
  return stream != NULL ? stream->impl : NULL;
}

uint64_t ORT_API_CALL SLOT(OrtEpApi, SyncStream_GetSyncId)(const OrtSyncStream* stream) {
  return stream != NULL ? atomic_load(&stream->sync_id) : 0;
}

/* Always 0, which is "never": the host makes no stream wait for another one, only itself. What an arena of
 * one stream has freed is another stream's when the run has ended and the arena was told so, not before. */
uint64_t ORT_API_CALL SLOT(OrtEpApi, GetSyncIdForLastWaitOnSyncStream)(const OrtSyncStream* producer_stream,
                                                                       const OrtSyncStream* consumer_stream) {
  (void)producer_stream, (void)consumer_stream;
  return 0;
}
