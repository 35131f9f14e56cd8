/* What an EP with memory or queues of its own implements: copies, streams and notifications. */
#ifndef EPHOST_DEVICE_H_
#define EPHOST_DEVICE_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies tensors between an EP's devices and host memory. Made by OrtEpFactory's CreateDataTransfer, used by
   all sessions and threads. */
struct OrtDataTransferImpl {
  /* The API version the EP was compiled with: later members are not read. */
  uint32_t ort_version_supported;

  EPHOST_SINCE(23)

  /* Frees it, called once. */
  void (ORT_API_CALL* Release)(OrtDataTransferImpl* this_ptr);

  /* Whether it copies from one of these memories to the other. Asked often: keep it cheap. */
  bool (ORT_API_CALL* CanCopy)(const OrtDataTransferImpl* this_ptr, const OrtMemoryDevice* src_memory_device,
                               const OrtMemoryDevice* dst_memory_device);

  /* Copies each source into the destination of the same index: allocated, same type and shape. streams is
     NULL or has an entry for each, which may be NULL: then the copy must be done on return, with a stream it
     need only be queued. */
  OrtStatus* (ORT_API_CALL* CopyTensors)(OrtDataTransferImpl* this_ptr, const OrtValue** src_tensors,
                                         OrtValue** dst_tensors, OrtSyncStream** streams, size_t num_tensors);
};

/* A point in a stream that others can wait for (a CUDA event, say). Made by OrtSyncStreamImpl's
   CreateNotification. */
struct OrtSyncNotificationImpl {
  /* The API version the EP was compiled with. */
  uint32_t ort_version_supported;

  EPHOST_SINCE(23)

  /* Frees it, called once. */
  void (ORT_API_CALL* Release)(OrtSyncNotificationImpl* this_ptr);

  /* Marks the point: after all work queued on its stream so far. May be called again for a later point. */
  OrtStatus* (ORT_API_CALL* Activate)(OrtSyncNotificationImpl* this_ptr);

  /* Makes work queued on consumer_stream from now on wait for the point; does not block the caller. */
  OrtStatus* (ORT_API_CALL* WaitOnDevice)(OrtSyncNotificationImpl* this_ptr, OrtSyncStream* consumer_stream);

  /* Blocks the calling thread until the point is reached. */
  OrtStatus* (ORT_API_CALL* WaitOnHost)(OrtSyncNotificationImpl* this_ptr);
};

/* A queue of work on a device, in order (a CUDA stream, say). Used by one thread at a time. */
struct OrtSyncStreamImpl {
  /* The API version the EP was compiled with. */
  uint32_t ort_version_supported;

  EPHOST_SINCE(23)

  /* Frees it, called once, after its notifications. */
  void (ORT_API_CALL* Release)(OrtSyncStreamImpl* this_ptr);

  /* The device's own handle; the stream's, not to be freed. */
  void* (ORT_API_CALL* GetHandle)(OrtSyncStreamImpl* this_ptr);

  /* A new notification for this stream, owned by the host, which calls its Release. */
  OrtStatus* (ORT_API_CALL* CreateNotification)(OrtSyncStreamImpl* this_ptr,
                                                OrtSyncNotificationImpl** notification);

  /* Hands all queued work to the device; does not wait for it. */
  OrtStatus* (ORT_API_CALL* Flush)(OrtSyncStreamImpl* this_ptr);

  /* A run that used the stream is over: per-run memory may be freed. NULL: nothing to do. */
  OrtStatus* (ORT_API_CALL* OnSessionRunEnd)(OrtSyncStreamImpl* this_ptr);
};

#ifdef __cplusplus
}
#endif

#endif
