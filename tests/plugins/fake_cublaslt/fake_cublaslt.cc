/* A stand-in for cuBLASLt on the make-believe CUDA driver: products of column-major matrices in the plainest
 * way, queued on the driver's streams. It reads the descriptors that plugins/cuda fills in by the numbers
 * that NVIDIA's documentation gives them, so a wrong layout, transposition, distance or epilogue shows as a
 * wrong product. It has no algorithm for products with more than 4096 columns, as the real one has none for
 * some. */
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* Of the driver, which is in the process already: runs f(data) when the stream comes to it, and end(data) at
 * last. */
extern "C" void fake_cuda_enqueue(CUstream stream, const char* name, void (*f)(void*), void* data,
                                  void (*end)(void*));

namespace {

enum Status { kSuccess = 0, kInvalidValue = 7, kNotSupported = 15 };
enum { kReal32 = 0, kReal16 = 2, kBrain16 = 14 };

struct Operation { /* fits the 32 words of the real one */
  int32_t compute, scale, transpose_a, transpose_b;
  uint32_t epilogue;
  const void* bias;
};
static_assert(sizeof(Operation) <= 32 * 8, "copied as an opaque structure of that size");

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batches = 1;
  int64_t offset = 0;
};

struct Preference {
  uint64_t workspace = 0;
};

struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

float get(const void* data, int64_t i, int type) {
  if (type == kReal32) return static_cast<const float*>(data)[i];
  if (type == kReal16) return __half2float(static_cast<const __half*>(data)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}

void put(void* data, int64_t i, int type, float value) {
  if (type == kReal32) {
    static_cast<float*>(data)[i] = value;
  } else if (type == kReal16) {
    static_cast<__half*>(data)[i] = __float2half_rn(value);
  } else {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
  }
}

struct Product {
  Operation operation;
  Layout a, b, d;
  const void *from_a, *from_b;
  void* to;
  float alpha;
};

/* D = alpha * op(A) op(B) + bias for each row of D, all column-major. */
void multiply(void* data) {
  Product* p = static_cast<Product*>(data);
  const int64_t depth = static_cast<int64_t>(p->operation.transpose_a ? p->a.rows : p->a.columns);
  for (int32_t batch = 0; batch < p->d.batches; ++batch) {
    for (int64_t row = 0; row < static_cast<int64_t>(p->d.rows); ++row) {
      for (int64_t column = 0; column < static_cast<int64_t>(p->d.columns); ++column) {
        float sum = 0;
        for (int64_t i = 0; i < depth; ++i) {
          const int64_t in_a = p->operation.transpose_a ? i + row * p->a.leading : row + i * p->a.leading;
          const int64_t in_b =
              p->operation.transpose_b ? column + i * p->b.leading : i + column * p->b.leading;
          sum += get(p->from_a, batch * p->a.offset + in_a, p->a.type) *
                 get(p->from_b, batch * p->b.offset + in_b, p->b.type);
        }
        sum *= p->alpha;
        if (p->operation.epilogue == 4) sum += get(p->operation.bias, row, p->d.type);
        put(p->to, batch * p->d.offset + row + column * p->d.leading, p->d.type, sum);
      }
    }
  }
}

bool fits(const Operation* operation, const Layout* a, const Layout* b, const Layout* d) {
  const uint64_t rows = operation->transpose_a ? a->columns : a->rows;
  const uint64_t depth = operation->transpose_a ? a->rows : a->columns;
  const uint64_t other = operation->transpose_b ? b->columns : b->rows;
  const uint64_t columns = operation->transpose_b ? b->rows : b->columns;
  const auto dense = [](const Layout* l) { return l->leading >= static_cast<int64_t>(l->rows); };
  return rows == d->rows && columns == d->columns && depth == other && dense(a) && dense(b) && dense(d) &&
         a->batches == d->batches && b->batches == d->batches &&
         (operation->epilogue == 1 || operation->epilogue == 4);
}

void end(void* data) { delete static_cast<Product*>(data); }

}  // namespace

EXPORT int cublasLtCreate(void** handle) {
  *handle = new int(0);
  return kSuccess;
}

EXPORT int cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return kSuccess;
}

EXPORT const char* cublasLtGetStatusName(int status) {
  return status == kSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
}

EXPORT int cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  if ((compute != 68 && compute != 77) || scale != kReal32) return kInvalidValue;
  uint64_t* words = static_cast<uint64_t*>(std::calloc(32, sizeof(uint64_t)));
  *reinterpret_cast<Operation*>(words) = {compute, scale, 0, 0, 1, nullptr};
  *made = words;
  return kSuccess;
}

EXPORT int cublasLtMatmulDescDestroy(void* operation) {
  std::free(operation);
  return kSuccess;
}

EXPORT int cublasLtMatmulDescSetAttribute(void* operation, int attribute, const void* value, size_t size) {
  Operation* own = static_cast<Operation*>(operation);
  void* member = attribute == 3   ? static_cast<void*>(&own->transpose_a)
                 : attribute == 4 ? static_cast<void*>(&own->transpose_b)
                 : attribute == 7 ? static_cast<void*>(&own->epilogue)
                 : attribute == 8 ? static_cast<void*>(&own->bias)
                                  : nullptr;
  if (member == nullptr || size != (attribute == 8 ? sizeof(void*) : 4)) return kInvalidValue;
  std::memcpy(member, value, size);
  return kSuccess;
}

EXPORT int cublasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading) {
  if (type != kReal32 && type != kReal16 && type != kBrain16) return kInvalidValue;
  Layout* layout = new Layout;
  layout->type = type;
  layout->rows = rows;
  layout->columns = columns;
  layout->leading = leading;
  *made = layout;
  return kSuccess;
}

EXPORT int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return kSuccess;
}

EXPORT int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t size) {
  Layout* own = static_cast<Layout*>(layout);
  if (attribute == 5 && size == sizeof own->batches) {
    std::memcpy(&own->batches, value, size);
  } else if (attribute == 6 && size == sizeof own->offset) {
    std::memcpy(&own->offset, value, size);
  } else {
    return kInvalidValue;
  }
  return kSuccess;
}

EXPORT int cublasLtMatmulPreferenceCreate(void** made) {
  *made = new Preference;
  return kSuccess;
}

EXPORT int cublasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<Preference*>(preference);
  return kSuccess;
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                                size_t size) {
  if (attribute != 1 || size != sizeof(uint64_t)) return kInvalidValue;
  std::memcpy(&static_cast<Preference*>(preference)->workspace, value, size);
  return kSuccess;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, void* operation, void* a, void* b, void* c, void* d,
                                          void* preference, int wanted, Heuristic* found, int* count) {
  *count = 0;
  const Layout* of_d = static_cast<Layout*>(d);
  if (c != d || wanted < 1 ||
      !fits(static_cast<Operation*>(operation), static_cast<Layout*>(a), static_cast<Layout*>(b), of_d)) {
    return kInvalidValue;
  }
  if (of_d->rows > 4096) return kNotSupported;
  std::memset(found, 0, sizeof *found);
  found->algorithm[0] = 0x600d;
  found->workspace = static_cast<Preference*>(preference)->workspace >= 1024 ? 1024 : 0;
  *count = 1;
  return kSuccess;
}

EXPORT int cublasLtMatmul(void*, void* operation, const void* alpha, const void* from_a, void* a,
                          const void* from_b, void* b, const void* beta, const void*, void*, void* to,
                          void* d, const void* algorithm, void* room, size_t bytes, CUstream stream) {
  const Operation* own = static_cast<Operation*>(operation);
  if (*static_cast<const uint64_t*>(algorithm) != 0x600d || *static_cast<const float*>(beta) != 0 ||
      (bytes > 0 && room == nullptr) || (own->epilogue == 4 && own->bias == nullptr)) {
    return kInvalidValue;
  }
  fake_cuda_enqueue(
      stream, "cublasLtMatmul", multiply,
      new Product{*own, *static_cast<Layout*>(a), *static_cast<Layout*>(b), *static_cast<Layout*>(d), from_a,
                  from_b, to, *static_cast<const float*>(alpha)},
      end);
  return kSuccess;
}
