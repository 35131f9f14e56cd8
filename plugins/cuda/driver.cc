#include "cuda/driver.h"

namespace ephost::cuda {

namespace {

/* A driver runs code that was compiled with a toolkit of its own major version or an older one. */
constexpr int kOldestDriver = CUDA_VERSION / 1000 * 1000;

#ifdef _WIN32
constexpr char kLibrary[] = "nvcuda.dll";
#else
constexpr char kLibrary[] = "libcuda.so.1";
#endif

std::string visible_devices() {
  const std::string list = environment("CUDA_VISIBLE_DEVICES");
  const bool set = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  return set ? " (CUDA_VISIBLE_DEVICES is '" + list + "')" : "";
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string Driver::name_of(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return "CUDA error " + std::to_string(static_cast<int>(result));
  }
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) {
    return name;
  }
  return std::string(name) + " (" + text + ")";
}

bool Driver::load(Obstacle* obstacle) {
  const std::string chosen = environment("EPHOST_CUDA_LIBRARY");
  const std::string name = chosen.empty() ? kLibrary : chosen;
  if (!library_.open(name)) {
    *obstacle = {OrtDeviceEpIncompatibility_MISSING_DEPENDENCY, 0,
                 "there is no NVIDIA driver: " + library_.why()};
    return false;
  }
  const char* missing = nullptr;
#define EPHOST_CUDA_FIND(name) EPHOST_CUDA_FIND_(name)
/* NOLINTBEGIN(bugprone-macro-parentheses): `name` is that of a member */
#define EPHOST_CUDA_FIND_(name)                                  \
  name = reinterpret_cast<decltype(name)>(library_.find(#name)); \
  if (name == nullptr && missing == nullptr) missing = #name;
  EPHOST_CUDA_FUNCTIONS(EPHOST_CUDA_FIND)
  /* NOLINTEND(bugprone-macro-parentheses) */
#undef EPHOST_CUDA_FIND
#undef EPHOST_CUDA_FIND_
  if (missing == nullptr) {
    return true;
  }
  obstacle->reasons = OrtDeviceEpIncompatibility_DRIVER_INCOMPATIBLE;
  obstacle->text = "the NVIDIA driver is too old: " + name + " has no " + missing;
  int version = 0;
  if (cuDriverGetVersion != nullptr && cuDriverGetVersion(&version) == CUDA_SUCCESS) {
    obstacle->text += "; it is for CUDA " + version_text(version) + ", and " + version_text(kOldestDriver) +
                      " or newer is needed";
  }
  return false;
}

bool Driver::initialise(Obstacle* obstacle) {
  /* The version first: it can be asked before cuInit, and explains why that may fail. */
  CUresult result = cuDriverGetVersion(&version_);
  if (result == CUDA_SUCCESS && version_ < kOldestDriver) {
    *obstacle = {OrtDeviceEpIncompatibility_DRIVER_INCOMPATIBLE, 0,
                 "the NVIDIA driver is too old: it is for CUDA " + version_text(version_) + ", and " +
                     version_text(kOldestDriver) + " or newer is needed"};
    return false;
  }
  result = cuInit(0);
  if (result == CUDA_SUCCESS) {
    result = cuDeviceGetCount(&num_devices_);
  }
  if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && num_devices_ == 0)) {
    *obstacle = {OrtDeviceEpIncompatibility_DEVICE_INCOMPATIBLE, CUDA_ERROR_NO_DEVICE,
                 "the NVIDIA driver shows no device" + visible_devices()};
    return false;
  }
  if (result != CUDA_SUCCESS) {
    *obstacle = {OrtDeviceEpIncompatibility_DRIVER_INCOMPATIBLE, static_cast<int32_t>(result),
                 "the NVIDIA driver cannot be initialised: " + name_of(result)};
    return false;
  }
  return true;
}

std::unique_ptr<Driver> Driver::open(Obstacle* obstacle) {
  std::unique_ptr<Driver> driver(new Driver);
  if (!driver->load(obstacle) || !driver->initialise(obstacle)) {
    return nullptr;
  }
  return driver;
}

}  // namespace ephost::cuda
