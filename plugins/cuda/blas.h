/* Products of matrices on cuBLASLt. Its types and numbers that we use are declared here, so that building
 * needs no headers of it; they are part of its ABI and do not change within a major version. */
#ifndef EPHOST_CUDA_BLAS_H_
#define EPHOST_CUDA_BLAS_H_

#include <cuda.h>

#include <memory>
#include <string>

#include "cuda/shared_library.h"
#include "toolkit/types.h"

namespace ephost::cuda {

class Blas {
 public:
  struct Shape { /* out[m][n] = alpha * A B, row-major, in batches; A is stored as [k][m] where transpose_a is
                    set */
    DType type = DType::kUndefined;
    int64_t m = 0, n = 0, k = 0;
    bool transpose_a = false, transpose_b = false;
    int64_t batches = 1, a_stride = 0, b_stride = 0; /* elements from one matrix to the next; 0 repeats it */
    bool bias = false;                               /* n numbers, added to each row */
    bool tf32 = false;
  };
  class Product {
   public:
    Product(const Blas& blas, const Shape& shape);
    ~Product();
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;
    size_t workspace() const { return workspace_; }
    void run(CUstream stream, const void* a, const void* b, const void* bias, void* out, void* room,
             float alpha) const;

   private:
    friend class Blas;
    void describe(const Shape& shape);
    void choose();
    void destroy();
    const Blas& blas_;
    const bool bias_;
    void *operation_ = nullptr, *a_ = nullptr, *b_ = nullptr, *out_ = nullptr;
    uint64_t algorithm_[8] = {};
    size_t workspace_ = 0;
    bool found_ = false;
  };

  /* NULL, with *why set, where the library cannot be used. The device's context must be current. */
  static std::unique_ptr<Blas> open(std::string* why);
  ~Blas();

  /* NULL where the library has no algorithm for it. */
  std::shared_ptr<Product> product(const Shape& shape) const;
  const std::string& name() const { return library_.name(); }

 private:
  Blas() = default;
  void check(int status, const char* what) const;

  struct Heuristic { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
  };
  SharedLibrary library_;
  void* handle_ = nullptr;
  int (*create_)(void**) = nullptr;
  int (*destroy_)(void*) = nullptr;
  const char* (*status_name_)(int) = nullptr;
  int (*operation_create_)(void**, int, int) = nullptr;
  int (*operation_destroy_)(void*) = nullptr;
  int (*operation_set_)(void*, int, const void*, size_t) = nullptr;
  int (*layout_create_)(void**, int, uint64_t, uint64_t, int64_t) = nullptr;
  int (*layout_destroy_)(void*) = nullptr;
  int (*layout_set_)(void*, int, const void*, size_t) = nullptr;
  int (*preference_create_)(void**) = nullptr;
  int (*preference_destroy_)(void*) = nullptr;
  int (*preference_set_)(void*, int, const void*, size_t) = nullptr;
  int (*heuristic_)(void*, void*, void*, void*, void*, void*, void*, int, Heuristic*, int*) = nullptr;
  int (*matmul_)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*,
                 void*, void*, void*, const void*, void*, size_t, CUstream) = nullptr;
};

}  // namespace ephost::cuda

#endif
