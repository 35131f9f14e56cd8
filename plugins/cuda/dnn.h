/* Convolutions on cuDNN 9; as in blas.h, what is used of its ABI is declared here. */
#ifndef EPHOST_CUDA_DNN_H_
#define EPHOST_CUDA_DNN_H_

#include <cuda.h>

#include <memory>
#include <mutex>
#include <string>

#include "cuda/kernels/arguments.h"
#include "cuda/shared_library.h"
#include "toolkit/types.h"

namespace ephost::cuda {

class Dnn {
 public:
  class Conv {
   public:
    Conv(Dnn& dnn, DType type, int64_t images, const ConvArguments& shape, bool bias, bool tf32);
    ~Conv();
    Conv(const Conv&) = delete;
    Conv& operator=(const Conv&) = delete;
    size_t workspace() const { return workspace_; }
    void run(CUstream stream, const void* in, const void* weights, const void* bias, void* out,
             void* room) const;

   private:
    void describe(DType type, int64_t images, const ConvArguments& shape, bool tf32);
    void destroy();
    Dnn& dnn_;
    const bool has_bias_;
    void *in_ = nullptr, *out_ = nullptr, *bias_ = nullptr, *filter_ = nullptr, *conv_ = nullptr;
    int algorithm_ = 0;
    size_t workspace_ = 0;
  };

  /* NULL, with *why set, where the library cannot be used. The device's context must be current. */
  static std::unique_ptr<Dnn> open(std::string* why);
  ~Dnn();

  std::shared_ptr<Conv> convolution(DType type, int64_t images, const ConvArguments& shape, bool bias,
                                    bool tf32) {
    return std::make_shared<Conv>(*this, type, images, shape, bias, tf32);
  }

 private:
  Dnn() = default;
  void check(int status, const char* what) const;

  /* cudnnConvolutionFwdAlgoPerf_t, padding and all. */
  struct Performance { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math;
    int reserved[3];
  };
  SharedLibrary library_;
  std::mutex lock_; /* a handle belongs to one stream at a time */
  void* handle_ = nullptr;
  int (*create_)(void**) = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*set_stream_)(void*, CUstream) = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*tensor_create_)(void**) = nullptr;
  int (*tensor_destroy_)(void*) = nullptr;
  int (*tensor_set_)(void*, int, int, int, int, int, int) = nullptr;
  int (*filter_create_)(void**) = nullptr;
  int (*filter_destroy_)(void*) = nullptr;
  int (*filter_set_)(void*, int, int, int, int, int, int) = nullptr;
  int (*conv_create_)(void**) = nullptr;
  int (*conv_destroy_)(void*) = nullptr;
  int (*conv_set_)(void*, int, int, int, int, int, int, int, int) = nullptr;
  int (*conv_groups_)(void*, int) = nullptr;
  int (*conv_math_)(void*, int) = nullptr;
  int (*choose_)(void*, void*, void*, void*, void*, int, int*, Performance*) = nullptr;
  int (*forward_)(void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t,
                  const void*, void*, void*) = nullptr;
  int (*add_)(void*, const void*, void*, const void*, const void*, void*, void*) = nullptr;
};

}  // namespace ephost::cuda

#endif
