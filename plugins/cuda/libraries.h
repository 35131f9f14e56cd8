/* NVIDIA's cuBLASLt and cuDNN, opened when they are first needed; without them our own kernels do their work.
 */
#ifndef EPHOST_CUDA_LIBRARIES_H_
#define EPHOST_CUDA_LIBRARIES_H_

#include <cuda.h>

#include <memory>
#include <mutex>
#include <string>

#include "cuda/device.h"

namespace ephost::cuda {

struct dim3_t {
  uint32_t x = 1, y = 1, z = 1;
};

class Blas;
class Dnn;

/* Opens a library of NVIDIA's: the one that the environment variable names, else lib<name>.so.<version> by
 * its name, else from the wheel that has it under nvidia/<package>. False, with *why set, when there is none.
 */
bool open_nvidia_library(SharedLibrary* library, const char* variable, const char* package, const char* name,
                         const char* version, std::string* why);

class Libraries {
 public:
  explicit Libraries(Device& device);
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  /* NULL where the library is not there, or does not work; `why_no_...` then says why. Call inside a Scope.
   */
  Blas* blas();
  Dnn* dnn();
  const std::string& why_no_blas() const { return why_no_blas_; }
  const std::string& why_no_dnn() const { return why_no_dnn_; }

 private:
  Device& device_;
  std::mutex lock_;
  bool tried_blas_ = false, tried_dnn_ = false;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<Dnn> dnn_;
  std::string why_no_blas_, why_no_dnn_;
};

}  // namespace ephost::cuda

#endif
