/* The factory that one registration of the library makes: the devices that it found, or why there are none.
 */
#ifndef EPHOST_CUDA_FACTORY_H_
#define EPHOST_CUDA_FACTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/libraries.h"
#include "ephost/ephost.h"

namespace ephost::cuda {

constexpr char kEpName[] = "cuda";
constexpr uint32_t kNvidia = 0x10de;
/* The oldest compute capability that kernels are compiled for: 7.5 (Turing). */
constexpr int kOldestCapability = 75;

struct DeviceMemory {
  std::unique_ptr<Device> device;
  std::unique_ptr<Libraries> libraries; /* after the device, so that they go before it */
  OrtMemoryInfo* memory = nullptr;      /* its own */
  OrtMemoryInfo* pinned = nullptr;      /* page-locked memory of the host */
};

struct Factory {
  OrtEpFactory base = {}; /* first: the host knows a Factory by it */
  Api api;
  const OrtLogger* logger = nullptr;
  Obstacle obstacle;
  std::unique_ptr<Driver> driver;
  std::vector<DeviceMemory> devices; /* of GPUs that are new enough; in the driver's order */
  std::vector<std::pair<std::string, Obstacle>> refused; /* other GPUs, by PCI bus id */

  ~Factory();

  /* Writes to the host's log; what that answers is of no interest. */
  void log(OrtLoggingLevel level, const std::string& text) const;
  /* The device with a number, as memory infos have it; throws when there is none. */
  Device& device(uint32_t number) const;
  /* Ours that stands for a hardware device of the host's; NULL, with *why filled in, when there is none. */
  const DeviceMemory* match(const OrtHardwareDevice* hardware, Obstacle* why) const;
};

/* The members of `base` for allocators, copies and streams (memory.cc), and for sessions (ep.cc). */
void offer_memory(OrtEpFactory* base);
void offer_sessions(OrtEpFactory* base);

}  // namespace ephost::cuda

#endif
