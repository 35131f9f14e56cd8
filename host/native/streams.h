/* Queues of a device's work. */
#ifndef EPHOST_NATIVE_STREAMS_H_
#define EPHOST_NATIVE_STREAMS_H_

#include <stdatomic.h>

#include "abi.h"

struct OrtSyncStream {
  OrtSyncStreamImpl* impl; /* NULL for a stream whose handle a user brought */
  void* user_handle;
  const OrtMemoryDevice* device;
  const OrtEpDevice* ep_device;
  atomic_uint_least64_t sync_id;
  void* owner;
};
/* Takes the implementation over; NULL without memory. ReleaseSyncStream frees it. */
OrtSyncStream* stream_new(OrtSyncStreamImpl* impl, const OrtMemoryDevice* device,
                          const OrtEpDevice* ep_device);
OrtStatus* stream_for(OrtEp* ep, OrtEpFactory* factory, const OrtMemoryDevice* device,
                      const OrtKeyValuePairs* options, const OrtEpDevice* ep_device, OrtSyncStream** out);
/* Returns when all that was queued on the stream so far is done. */
OrtStatus* stream_wait_on_host(OrtSyncStream* stream);

#endif
