/* One session's execution provider on one GPU. */
#ifndef EPHOST_CUDA_EP_H_
#define EPHOST_CUDA_EP_H_

#include <memory>
#include <string>

#include "factory.h"
#include "options.h"

namespace ephost_cuda {

struct Ep {
  OrtEp base = {}; /* first: the host knows an Ep by it */
  const Factory* factory = nullptr;
  const OrtLogger* logger = nullptr; /* the session's */
  const DeviceMemory* mine = nullptr;
  Options options;

  Device& device() const { return *mine->device; }
  void log(OrtLoggingLevel level, const std::string& text) const;
};

}  // namespace ephost_cuda

#endif
