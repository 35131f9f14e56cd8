#include "cuda/blas.h"

#include <algorithm>
#include <type_traits>

#include "cuda/libraries.h"
#include "toolkit/api.h"

namespace ephost::cuda {

namespace {

/* cudaDataType_t */
enum { kReal16 = 2, kReal32 = 0, kBrain16 = 14 };
/* cublasComputeType_t */
enum { kCompute32 = 68, kCompute32Tf32 = 77 };
/* cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t */
enum { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8 };
enum { kBatchCount = 5, kBatchOffset = 6 };
enum { kMaxWorkspace = 1 };
/* cublasOperation_t, cublasLtEpilogue_t */
enum { kTransposed = 1, kEpilogueBias = 4 };

constexpr uint64_t kWorkspace = uint64_t{32} << 20; /* what NVIDIA advises for Hopper */

int data_type(DType type) {
  return type == DType::kFloat ? kReal32 : type == DType::kFloat16 ? kReal16 : kBrain16;
}

}  // namespace

void Blas::check(int status, const char* what) const {
  if (status != 0) {
    throw Error(ORT_EP_FAIL, std::string("cuBLASLt cannot ") + what + ": " + status_name_(status));
  }
}

std::unique_ptr<Blas> Blas::open(std::string* why) {
  std::unique_ptr<Blas> blas(new Blas);
  if (!open_nvidia_library(&blas->library_, "EPHOST_CUBLASLT_LIBRARY", "cu13", "cublasLt", "13", why)) {
    return nullptr;
  }
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(blas->library_.find(name));
    if (*function == nullptr && why->empty()) {
      *why = blas->library_.name() + " has no " + name;
    }
  };
  find(&blas->create_, "cublasLtCreate");
  find(&blas->destroy_, "cublasLtDestroy");
  find(&blas->status_name_, "cublasLtGetStatusName");
  find(&blas->operation_create_, "cublasLtMatmulDescCreate");
  find(&blas->operation_destroy_, "cublasLtMatmulDescDestroy");
  find(&blas->operation_set_, "cublasLtMatmulDescSetAttribute");
  find(&blas->layout_create_, "cublasLtMatrixLayoutCreate");
  find(&blas->layout_destroy_, "cublasLtMatrixLayoutDestroy");
  find(&blas->layout_set_, "cublasLtMatrixLayoutSetAttribute");
  find(&blas->preference_create_, "cublasLtMatmulPreferenceCreate");
  find(&blas->preference_destroy_, "cublasLtMatmulPreferenceDestroy");
  find(&blas->preference_set_, "cublasLtMatmulPreferenceSetAttribute");
  find(&blas->heuristic_, "cublasLtMatmulAlgoGetHeuristic");
  find(&blas->matmul_, "cublasLtMatmul");
  if (!why->empty()) {
    return nullptr;
  }
  const int status = blas->create_(&blas->handle_);
  if (status != 0) {
    blas->handle_ = nullptr;
    *why = blas->library_.name() + " cannot be initialised: " + blas->status_name_(status);
    return nullptr;
  }
  return blas;
}

Blas::~Blas() {
  if (handle_ != nullptr) {
    (void)destroy_(handle_);
  }
}

std::shared_ptr<Blas::Product> Blas::product(const Shape& shape) const {
  auto product = std::make_shared<Product>(*this, shape);
  return product->found_ ? product : nullptr;
}

/* cuBLASLt's matrices are column-major, and a row-major matrix is the transpose of a column-major one: so
 * what it is asked for is out^T = B^T A^T, with our B as its first operand. */
Blas::Product::Product(const Blas& blas, const Shape& shape) : blas_(blas), bias_(shape.bias) {
  try {
    describe(shape);
    choose();
  } catch (...) {
    destroy();
    throw;
  }
}

void Blas::Product::describe(const Shape& shape) {
  const int type = data_type(shape.type);
  const int32_t transposed = kTransposed;
  const int compute = shape.tf32 && type == kReal32 ? kCompute32Tf32 : kCompute32;
  blas_.check(blas_.operation_create_(&operation_, compute, kReal32), "describe a product");
  if (shape.transpose_b) {
    blas_.check(blas_.operation_set_(operation_, kTransposeA, &transposed, sizeof transposed), "transpose");
  }
  if (shape.transpose_a) {
    blas_.check(blas_.operation_set_(operation_, kTransposeB, &transposed, sizeof transposed), "transpose");
  }
  if (shape.bias) {
    const uint32_t epilogue = kEpilogueBias;
    blas_.check(blas_.operation_set_(operation_, kEpilogue, &epilogue, sizeof epilogue), "add a bias");
  }
  const auto layout = [&](void** made, int64_t rows, int64_t columns, int64_t stride) {
    blas_.check(
        blas_.layout_create_(made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
        "describe a matrix");
    if (shape.batches > 1) {
      const int32_t count = static_cast<int32_t>(shape.batches);
      blas_.check(blas_.layout_set_(*made, kBatchCount, &count, sizeof count), "set a number of matrices");
      blas_.check(blas_.layout_set_(*made, kBatchOffset, &stride, sizeof stride),
                  "set a distance of matrices");
    }
  };
  /* Rows and columns as stored, column-major: the rows are also the leading dimension. */
  layout(&b_, shape.transpose_b ? shape.k : shape.n, shape.transpose_b ? shape.n : shape.k, shape.b_stride);
  layout(&a_, shape.transpose_a ? shape.m : shape.k, shape.transpose_a ? shape.k : shape.m, shape.a_stride);
  layout(&out_, shape.n, shape.m, shape.m * shape.n);
}

void Blas::Product::choose() {
  void* preference = nullptr;
  blas_.check(blas_.preference_create_(&preference), "make preferences");
  Heuristic best = {};
  int count = 0;
  int status = blas_.preference_set_(preference, kMaxWorkspace, &kWorkspace, sizeof kWorkspace);
  if (status == 0) {
    status = blas_.heuristic_(blas_.handle_, operation_, b_, a_, out_, out_, preference, 1, &best, &count);
  }
  (void)blas_.preference_destroy_(preference);
  found_ = status == 0 && count > 0 && best.state == 0;
  if (found_) {
    std::copy(std::begin(best.algorithm), std::end(best.algorithm), algorithm_);
    workspace_ = best.workspace;
  }
}

Blas::Product::~Product() { destroy(); }

void Blas::Product::destroy() {
  for (void* layout : {a_, b_, out_}) {
    if (layout != nullptr) {
      (void)blas_.layout_destroy_(layout);
    }
  }
  if (operation_ != nullptr) {
    (void)blas_.operation_destroy_(operation_);
  }
}

void Blas::Product::run(CUstream stream, const void* a, const void* b, const void* bias, void* out,
                        void* room, float alpha) const {
  const float beta = 0;
  void* operation = operation_;
  /* The bias is part of the description, which other threads use too: they need one of their own. */
  uint64_t copy[32];
  if (bias_) {
    const uint64_t* from =
        static_cast<const uint64_t*>(operation_); /* cublasLtMatmulDescOpaque_t: plain data */
    std::copy(from, from + 32, copy);
    operation = copy;
    blas_.check(blas_.operation_set_(operation, kBiasPointer, &bias, sizeof bias), "set a bias");
  }
  blas_.check(blas_.matmul_(blas_.handle_, operation, &alpha, b, b_, a, a_, &beta, out, out_, out, out_,
                            algorithm_, workspace_ == 0 ? nullptr : room, workspace_, stream),
              "multiply");
}

}  // namespace ephost::cuda
