#ifndef EPHOST_DEVICE_H_
#define EPHOST_DEVICE_H_

#include "ephost/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct OrtDataTransferImpl {
  uint32_t ort_version_supported;
  EPHOST_SINCE(23)
  void(ORT_API_CALL* Release)(OrtDataTransferImpl* this_ptr);
  bool(ORT_API_CALL* CanCopy)(const OrtDataTransferImpl* this_ptr, const OrtMemoryDevice* src_memory_device, const OrtMemoryDevice* dst_memory_device);
  OrtStatus*(ORT_API_CALL* CopyTensors)(OrtDataTransferImpl* this_ptr, const OrtValue** src_tensors, OrtValue** dst_tensors, OrtSyncStream** streams, size_t num_tensors);
};

struct OrtSyncNotificationImpl {
  uint32_t ort_version_supported;
  EPHOST_SINCE(23)
  void(ORT_API_CALL* Release)(OrtSyncNotificationImpl* this_ptr);
  OrtStatus*(ORT_API_CALL* Activate)(OrtSyncNotificationImpl* this_ptr);
  OrtStatus*(ORT_API_CALL* WaitOnDevice)(OrtSyncNotificationImpl* this_ptr, OrtSyncStream* consumer_stream);
  OrtStatus*(ORT_API_CALL* WaitOnHost)(OrtSyncNotificationImpl* this_ptr);
};

struct OrtSyncStreamImpl {
  uint32_t ort_version_supported;
  EPHOST_SINCE(23)
  void(ORT_API_CALL* Release)(OrtSyncStreamImpl* this_ptr);
  void*(ORT_API_CALL* GetHandle)(OrtSyncStreamImpl* this_ptr);
  OrtStatus*(ORT_API_CALL* CreateNotification)(OrtSyncStreamImpl* this_ptr, OrtSyncNotificationImpl** notification);
  OrtStatus*(ORT_API_CALL* Flush)(OrtSyncStreamImpl* this_ptr);
  OrtStatus*(ORT_API_CALL* OnSessionRunEnd)(OrtSyncStreamImpl* this_ptr);
};

#ifdef __cplusplus
}
#endif

#endif
