/* The CUDA driver, opened at run time: this library is built without linking to it, so that it loads, and
 * says what is missing, on machines without one. */
#ifndef EPHOST_CUDA_DRIVER_H_
#define EPHOST_CUDA_DRIVER_H_

#include <cuda.h>

#include <memory>
#include <string>

#include "cuda/shared_library.h"
#include "toolkit/api.h"

namespace ephost::cuda {

/* The functions that we use. cuda.h defines most of these names as macros for the versioned ones
 * ("cuMemFree_v2"): the table below expands them, so a type and the symbol that it is looked up by belong
 * together. */
#define EPHOST_CUDA_FUNCTIONS(F) \
  F(cuInit)                      \
  F(cuDriverGetVersion)          \
  F(cuGetErrorName)              \
  F(cuGetErrorString)            \
  F(cuDeviceGetCount)            \
  F(cuDeviceGet)                 \
  F(cuDeviceGetName)             \
  F(cuDeviceTotalMem)            \
  F(cuDeviceGetAttribute)        \
  F(cuDeviceGetPCIBusId)         \
  F(cuDeviceGetUuid)             \
  F(cuDeviceCanAccessPeer)       \
  F(cuDevicePrimaryCtxRetain)    \
  F(cuDevicePrimaryCtxRelease)   \
  F(cuCtxPushCurrent)            \
  F(cuCtxPopCurrent)             \
  F(cuMemGetInfo)                \
  F(cuMemPoolCreate)             \
  F(cuMemPoolDestroy)            \
  F(cuMemPoolSetAttribute)       \
  F(cuMemPoolGetAttribute)       \
  F(cuMemPoolSetAccess)          \
  F(cuMemPoolTrimTo)             \
  F(cuMemAllocFromPoolAsync)     \
  F(cuMemFreeAsync)              \
  F(cuMemHostAlloc)              \
  F(cuMemFreeHost)               \
  F(cuMemcpyHtoDAsync)           \
  F(cuMemcpyDtoHAsync)           \
  F(cuMemcpyDtoDAsync)           \
  F(cuMemcpyPeerAsync)           \
  F(cuMemsetD8Async)             \
  F(cuStreamCreate)              \
  F(cuStreamDestroy)             \
  F(cuStreamSynchronize)         \
  F(cuStreamWaitEvent)           \
  F(cuEventCreate)               \
  F(cuEventDestroy)              \
  F(cuEventRecord)               \
  F(cuEventQuery)                \
  F(cuEventSynchronize)          \
  F(cuLibraryLoadData)           \
  F(cuLibraryUnload)             \
  F(cuLibraryGetKernel)          \
  F(cuLaunchKernel)              \
  F(cuStreamBeginCapture)        \
  F(cuStreamEndCapture)          \
  F(cuStreamIsCapturing)         \
  F(cuGraphInstantiate)          \
  F(cuGraphLaunch)               \
  F(cuGraphExecDestroy)          \
  F(cuGraphDestroy)

/* Why there is nothing to run on; `reasons` are bits of OrtDeviceEpIncompatibilityReason. */
struct Obstacle {
  uint32_t reasons = OrtDeviceEpIncompatibility_NONE;
  int32_t code = 0; /* a CUresult; 0 where none came */
  std::string text;
};

class Driver {
 public:
  /* Opens and initialises the driver. NULL, with *obstacle filled, when it is missing, too old, or shows no
   * device. EPHOST_CUDA_LIBRARY in the environment names another library than the system's. */
  static std::unique_ptr<Driver> open(Obstacle* obstacle);

#define EPHOST_CUDA_MEMBER(name) EPHOST_CUDA_MEMBER_(name)
#define EPHOST_CUDA_MEMBER_(name) decltype(&::name) name = nullptr; /* NOLINT(bugprone-macro-parentheses) */
  EPHOST_CUDA_FUNCTIONS(EPHOST_CUDA_MEMBER)
#undef EPHOST_CUDA_MEMBER
#undef EPHOST_CUDA_MEMBER_

  int version() const { return version_; } /* 13000 for CUDA 13.0 */
  int num_devices() const { return num_devices_; }
  /* "CUDA_ERROR_X (its description)". */
  std::string name_of(CUresult result) const;

 private:
  Driver() = default;
  bool load(Obstacle* obstacle);
  bool initialise(Obstacle* obstacle);

  SharedLibrary library_;
  int version_ = 0, num_devices_ = 0;
};

/* "13.0" for 13000. */
std::string version_text(int version);

}  // namespace ephost::cuda

#endif
