/* One session's execution provider on one GPU. */
#ifndef EPHOST_CUDA_EP_H_
#define EPHOST_CUDA_EP_H_

#include <memory>
#include <mutex>
#include <string>

#include "cuda/factory.h"
#include "cuda/options.h"

namespace ephost::cuda {

struct Ep {
  OrtEp base = {}; /* first: the host knows an Ep by it */
  const Factory* factory = nullptr;
  const OrtLogger* logger = nullptr; /* the session's */
  const DeviceMemory* mine = nullptr;
  Options options;
  std::unique_ptr<Pool> own_pool;                 /* where the session has a limit */
  std::unique_ptr<Stream> own_stream;             /* for hosts that give none */
  std::mutex lock;                                /* of own_stream */
  bool told_of_blas = false, told_of_dnn = false; /* while it compiles */

  ~Ep();
  Device& device() const { return *mine->device; }
  Pool& pool() const { return own_pool != nullptr ? *own_pool : device().pool(); }
  void log(OrtLoggingLevel level, const std::string& text) const;
};

/* GetCapability, Compile and what goes with it (compile.cc). */
void offer_compiling(OrtEp* base);

}  // namespace ephost::cuda

#endif
