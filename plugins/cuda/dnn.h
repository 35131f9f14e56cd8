/* Convolutions on cuDNN 9, by its graphs of operations; as in blas.h, what is used of its ABI is declared
 * here. */
#ifndef EPHOST_CUDA_DNN_H_
#define EPHOST_CUDA_DNN_H_

#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/kernels/arguments.h"
#include "cuda/shared_library.h"
#include "toolkit/types.h"

namespace ephost::cuda {

class Dnn {
 public:
  class Descriptor; /* of cuDNN's, with attributes */
  class Conv;

  /* NULL, with *why set, where the library cannot be used. The device's context must be current. */
  static std::unique_ptr<Dnn> open(std::string* why);
  ~Dnn();

  /* Without the bias, with padding also behind the rows and columns of each of the images. */
  struct Shape {
    DType type;
    int64_t images;
    ConvArguments args;
    int32_t after_y, after_x;
    bool tf32; /* whether float32 may be rounded to that */
  };
  /* NULL where cuDNN has no kernel. `seconds_of`, unless it is empty, tells how long one takes: it is asked
   * of all that there are when a convolution of about this size is met first. */
  std::shared_ptr<Conv> convolution(const Shape& shape, const std::function<double(const Conv&)>& seconds_of);

 private:
  struct Kernel {
    std::shared_ptr<Conv> conv;
    int64_t engine = -1;
  };
  Dnn() = default;
  void check(int status, const char* what) const;
  std::unique_ptr<Descriptor> graph_of(const Shape& shape);
  std::vector<Kernel> kernels(const Shape& shape, int64_t engine, size_t most);

  SharedLibrary library_;
  std::mutex lock_; /* a handle belongs to one stream at a time */
  void* handle_ = nullptr;
  std::map<std::vector<int64_t>, int64_t> quickest_; /* the engine, by the sizes of a convolution */
  int (*create_)(void**) = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*set_stream_)(void*, CUstream) = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*make_)(int, void**) = nullptr;
  int (*end_)(void*) = nullptr;
  int (*finalize_)(void*) = nullptr;
  int (*set_)(void*, int, int, int64_t, const void*) = nullptr;
  int (*get_)(const void*, int, int, int64_t, int64_t*, void*) = nullptr;
  int (*execute_)(void*, void*, void*) = nullptr;
};

class Dnn::Descriptor {
 public:
  Descriptor(const Dnn& dnn, int type);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void set(int attribute, int type, int64_t count, const void* values);
  void set(int attribute, const Descriptor& of); /* another descriptor */
  /* Whether it can be used now, which cuDNN denies of what it has no kernel for. */
  bool finalize();
  /* The same where that cannot be: an error otherwise. */
  void finish();
  /* How many of `most` values there were. */
  int64_t get(int attribute, int type, int64_t most, void* values) const;
  void* raw() const { return raw_; }

 private:
  const Dnn& dnn_;
  void* raw_ = nullptr;
};

class Dnn::Conv {
 public:
  Conv(Dnn& dnn, std::unique_ptr<Descriptor> plan, size_t workspace);
  size_t workspace() const { return workspace_; }
  /* All addresses are multiples of kAlignment. */
  void run(CUstream stream, const void* in, const void* weights, void* out, void* room) const;
  static constexpr int64_t kAlignment = 16;

 private:
  Dnn& dnn_;
  const std::unique_ptr<Descriptor> plan_;
  const size_t workspace_;
};

}  // namespace ephost::cuda

#endif
