/* The CUDA driver with a notebook: what plugins/cuda asks of it is counted, and passed on.
 *
 * For tests on a GPU. EPHOST_CUDA_LIBRARY names this library, which is linked to the driver, so that a
 * function which is not here is found there. Reports are of the form of the make-believe driver's
 * (tests/plugins/fake_cuda). */
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::mutex lock;
std::map<std::string, long> counts;
std::map<const void*, std::string> kernels;
std::vector<std::string> launched;

void* driver_function(const char* name) {
  static void* const kDriver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* found = kDriver == nullptr ? nullptr : dlsym(kDriver, name);
  if (found == nullptr) {
    (void)std::fprintf(stderr, "spy_cuda: the driver has no %s\n", name);
    std::abort();
  }
  return found;
}

void count(const char* name) {
  const std::lock_guard<std::mutex> hold(lock);
  ++counts[name];
}

long made(const char* by, const char* undone_by) { return counts[by] - counts[undone_by]; }

}  // namespace

/* cuda.h defines many names as macros for the versioned ones. */
#define TEXT(name) TEXT_(name)
#define TEXT_(name) #name

#define PASS_ON(name, parameters, arguments)                                                  \
  EXPORT CUresult CUDAAPI name parameters {                                                   \
    static const auto kReal = reinterpret_cast<decltype(&name)>(driver_function(TEXT(name))); \
    const CUresult result = kReal arguments;                                                  \
    if (result == CUDA_SUCCESS) {                                                             \
      count(TEXT(name));                                                                      \
    }                                                                                         \
    return result;                                                                            \
  }

PASS_ON(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device))
PASS_ON(cuDevicePrimaryCtxRelease, (CUdevice device), (device))
PASS_ON(cuMemAllocFromPoolAsync, (CUdeviceptr * address, size_t size, CUmemoryPool pool, CUstream stream),
        (address, size, pool, stream))
PASS_ON(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), (address, stream))
PASS_ON(cuMemHostAlloc, (void** address, size_t size, unsigned flags), (address, size, flags))
PASS_ON(cuMemFreeHost, (void* address), (address))
PASS_ON(cuStreamCreate, (CUstream * stream, unsigned flags), (stream, flags))
PASS_ON(cuStreamDestroy, (CUstream stream), (stream))
PASS_ON(cuStreamSynchronize, (CUstream stream), (stream))
PASS_ON(cuEventCreate, (CUevent * event, unsigned flags), (event, flags))
PASS_ON(cuEventDestroy, (CUevent event), (event))
PASS_ON(cuEventSynchronize, (CUevent event), (event))

EXPORT CUresult CUDAAPI cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  static const auto kReal =
      reinterpret_cast<decltype(&cuLibraryGetKernel)>(driver_function("cuLibraryGetKernel"));
  const CUresult result = kReal(kernel, library, name);
  if (result == CUDA_SUCCESS) {
    const std::lock_guard<std::mutex> hold(lock);
    kernels[*kernel] = name;
  }
  return result;
}

EXPORT CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                                       unsigned threads_x, unsigned threads_y, unsigned threads_z,
                                       unsigned shared, CUstream stream, void** parameters, void** extra) {
  static const auto kReal = reinterpret_cast<decltype(&cuLaunchKernel)>(driver_function("cuLaunchKernel"));
  {
    const std::lock_guard<std::mutex> hold(lock);
    const auto found = kernels.find(function);
    launched.push_back(found == kernels.end() ? "unknown" : found->second);
  }
  return kReal(function, x, y, z, threads_x, threads_y, threads_z, shared, stream, parameters, extra);
}

EXPORT const char* cuda_report() {
  const std::lock_guard<std::mutex> hold(lock);
  static std::string text;
  text = "blocks=" + std::to_string(made(TEXT(cuMemAllocFromPoolAsync), TEXT(cuMemFreeAsync))) +
         " streams=" + std::to_string(made(TEXT(cuStreamCreate), TEXT(cuStreamDestroy))) +
         " events=" + std::to_string(made(TEXT(cuEventCreate), TEXT(cuEventDestroy))) +
         " pinned=" + std::to_string(made(TEXT(cuMemHostAlloc), TEXT(cuMemFreeHost))) +
         " contexts=" + std::to_string(made(TEXT(cuDevicePrimaryCtxRetain), TEXT(cuDevicePrimaryCtxRelease)));
  for (const auto& entry : counts) {
    text += " " + entry.first + "=" + std::to_string(entry.second);
  }
  for (const std::string& name : launched) {
    text += " launch=" + name;
  }
  return text.c_str();
}
