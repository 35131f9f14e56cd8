/* A stand-in for cuDNN's graphs of operations on the make-believe CUDA driver: convolutions in the plainest
 * way, queued on the driver's streams. It reads the descriptors that plugins/cuda fills in by the numbers
 * that NVIDIA gives them, so a wrong dimension, stride, padding or type shows as an error or as a wrong
 * result.
 *
 * For each convolution it offers twenty kernels, in this order: eighteen that round float32 (their launch is
 * told as "cudnn_rounding"), one that cannot be had, and one that is exact ("cudnn_exact") and needs room. It
 * has none for windows that are dilated. */
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

/* Of the driver, which is in the process already: runs f(data) when the stream comes to it, and end(data) at
 * last. */
extern "C" void fake_cuda_enqueue(CUstream stream, const char* name, void (*f)(void*), void* data,
                                  void (*end)(void*));

namespace {

enum Status {
  kSuccess = 0,
  kBadParameter = 2000,
  kNotFinalized = 2004,
  kWrongType = 2010,
  kNotSupported = 3000
};
enum Kind {
  kConvolution = 1,
  kEngine,
  kConfig,
  kHeuristic,
  kPlan,
  kForward = 10,
  kGraph = 15,
  kPack,
  kTensor
};
enum { kFloat = 0, kHalf = 2, kBfloat = 9 };
constexpr int64_t kRoom = 4096;

struct Descriptor {
  int kind = 0;
  bool final = false;
  std::map<int, std::vector<int64_t>> integers; /* enumerations and pointers, too */
  /* Descriptors that it was given, as they were then: the caller may end them. */
  std::map<int, std::shared_ptr<const Descriptor>> parts;
  int kernel = -1;                         /* of an engine, a config or a plan: which of the three */
  std::shared_ptr<const Descriptor> graph; /* what it is for */
};

struct Handle {
  CUstream stream = nullptr;
};

/* What an attribute is set with: bytes an element by its type, 0 for types that nothing here has. */
size_t size_of_type(int type) {
  switch (type) {
    case 0:  /* a handle */
    case 3:  /* int64 */
    case 6:  /* a pointer */
    case 15: /* a descriptor */
      return 8;
    case 1: /* a data type */
    case 4: /* float */
    case 7: /* a mode of convolution */
    case 8: /* a mode of heuristics */
      return 4;
    default:
      return 0;
  }
}

/* The type that each attribute has to have. */
int type_of(int attribute) {
  switch (attribute) {
    case 400:
    case 800:
      return 0;
    case 100:
    case 901:
      return 1;
    case 700:
    case 701:
      return 4;
    case 1001:
    case 1003:
      return 6;
    case 101:
      return 7;
    case 200:
      return 8;
    case 201:
    case 401:
    case 702:
    case 703:
    case 704:
    case 705:
    case 801:
      return 15;
    default:
      return 3;
  }
}

const std::vector<int64_t>& list(const Descriptor* of, int attribute) {
  static const std::vector<int64_t> kNone;
  const auto found = of->integers.find(attribute);
  return found == of->integers.end() ? kNone : found->second;
}

int64_t one(const Descriptor* of, int attribute) {
  const std::vector<int64_t>& values = list(of, attribute);
  return values.size() == 1 ? values[0] : -1;
}

std::shared_ptr<const Descriptor> shared(const Descriptor* of, int attribute) {
  const auto found = of->parts.find(attribute);
  return found == of->parts.end() || !found->second->final ? nullptr : found->second;
}

const Descriptor* descriptor(const Descriptor* of, int attribute) { return shared(of, attribute).get(); }

float get(const void* data, int64_t i, int64_t type) {
  if (type == kFloat) return static_cast<const float*>(data)[i];
  if (type == kHalf) return __half2float(static_cast<const __half*>(data)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}

void put(void* data, int64_t i, int64_t type, float value) {
  if (type == kFloat) {
    static_cast<float*>(data)[i] = value;
  } else if (type == kHalf) {
    static_cast<__half*>(data)[i] = __float2half_rn(value);
  } else {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
  }
}

struct Tensor {
  std::vector<int64_t> dims, strides;
  int64_t type = 0;
  void* data = nullptr;
  int64_t at(int64_t a, int64_t b, int64_t y, int64_t x) const {
    return a * strides[0] + b * strides[1] + y * strides[2] + x * strides[3];
  }
};

struct Work {
  Tensor in, weights, out;
  std::vector<int64_t> dilations, strides, before;
  void* room = nullptr;
};

void convolve(void* data) {
  Work* work = static_cast<Work*>(data);
  const Tensor &in = work->in, &weights = work->weights, &out = work->out;
  std::memset(work->room, 0x5a, kRoom);
  const int64_t each = weights.dims[1], groups = in.dims[1] / each, of_group = out.dims[1] / groups;
  for (int64_t n = 0; n < out.dims[0]; ++n) {
    for (int64_t k = 0; k < out.dims[1]; ++k) {
      for (int64_t y = 0; y < out.dims[2]; ++y) {
        for (int64_t x = 0; x < out.dims[3]; ++x) {
          float sum = 0;
          for (int64_t c = 0; c < each; ++c) {
            for (int64_t i = 0; i < weights.dims[2]; ++i) {
              for (int64_t j = 0; j < weights.dims[3]; ++j) {
                const int64_t row = y * work->strides[0] + i * work->dilations[0] - work->before[0];
                const int64_t column = x * work->strides[1] + j * work->dilations[1] - work->before[1];
                if (row < 0 || row >= in.dims[2] || column < 0 || column >= in.dims[3]) continue;
                sum += get(in.data, in.at(n, k / of_group * each + c, row, column), in.type) *
                       get(weights.data, weights.at(k, c, i, j), weights.type);
              }
            }
          }
          put(out.data, out.at(n, k, y, x), out.type, sum);
        }
      }
    }
  }
}

Tensor tensor(const Descriptor* of) { return {list(of, 902), list(of, 903), one(of, 901), nullptr}; }

/* Whether a forward convolution says all that it has to, and its shapes fit. */
bool fits(const Descriptor* forward) {
  const Descriptor *convolution = descriptor(forward, 702), *w = descriptor(forward, 703),
                   *x = descriptor(forward, 704), *y = descriptor(forward, 705);
  if (convolution == nullptr || w == nullptr || x == nullptr || y == nullptr || one(convolution, 106) != 2 ||
      one(convolution, 100) != kFloat || one(convolution, 101) != 1) {
    return false;
  }
  const Tensor in = tensor(x), weights = tensor(w), out = tensor(y);
  if (in.type != weights.type || in.type != out.type || in.dims[0] != out.dims[0] ||
      weights.dims[0] != out.dims[1] || in.dims[1] % weights.dims[1] != 0) {
    return false;
  }
  for (size_t d = 0; d < 2; ++d) {
    const int64_t window = (weights.dims[d + 2] - 1) * list(convolution, 102)[d] + 1;
    const int64_t padded = in.dims[d + 2] + list(convolution, 105)[d] + list(convolution, 104)[d];
    if (out.dims[d + 2] != (padded - window) / list(convolution, 103)[d] + 1) return false;
  }
  return true;
}

void end(void* data) { delete static_cast<Work*>(data); }

const Descriptor* forward_of(const Descriptor* graph) { return descriptor(graph, 801); }

}  // namespace

EXPORT int cudnnCreate(void** handle) {
  *handle = new Handle;
  return kSuccess;
}

EXPORT int cudnnDestroy(void* handle) {
  delete static_cast<Handle*>(handle);
  return kSuccess;
}

EXPORT int cudnnSetStream(void* handle, CUstream stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return kSuccess;
}

EXPORT const char* cudnnGetErrorString(int status) {
  return status == kSuccess        ? "CUDNN_STATUS_SUCCESS"
         : status == kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == kWrongType    ? "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE"
                                   : "CUDNN_STATUS_BAD_PARAM";
}

EXPORT int cudnnBackendCreateDescriptor(int kind, void** made) {
  Descriptor* own = new Descriptor;
  own->kind = kind;
  *made = own;
  return kSuccess;
}

EXPORT int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return kSuccess;
}

EXPORT int cudnnBackendSetAttribute(void* to, int attribute, int type, int64_t count, const void* values) {
  Descriptor* own = static_cast<Descriptor*>(to);
  const size_t size = size_of_type(type);
  if (own->final || count < 1) return kBadParameter;
  if (size == 0 || type != type_of(attribute)) return kWrongType;
  if (type == 15) {
    if (count != 1) return kBadParameter;
    own->parts[attribute] =
        std::make_shared<const Descriptor>(**static_cast<const Descriptor* const*>(values));
    return kSuccess;
  }
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = 0;
    std::memcpy(&value, static_cast<const char*>(values) + static_cast<size_t>(i) * size, size);
    kept.push_back(value);
  }
  own->integers[attribute] = kept;
  return kSuccess;
}

EXPORT int cudnnBackendFinalize(void* descriptor_) {
  Descriptor* own = static_cast<Descriptor*>(descriptor_);
  if (own->kind == kTensor) {
    const size_t rank = list(own, 902).size();
    if (rank != 4 || list(own, 903).size() != rank || one(own, 906) < 0 || one(own, 900) != 16 ||
        (one(own, 901) != kFloat && one(own, 901) != kHalf && one(own, 901) != kBfloat)) {
      return kBadParameter;
    }
  } else if (own->kind == kConvolution) {
    for (int attribute = 102; attribute <= 105; ++attribute) {
      if (list(own, attribute).size() != 2) return kBadParameter;
    }
  } else if (own->kind == kForward) {
    if (!fits(own)) return kBadParameter;
  } else if (own->kind == kGraph) {
    if (one(own, 800) == -1 || forward_of(own) == nullptr) return kBadParameter;
  } else if (own->kind == kHeuristic) {
    own->graph = shared(own, 201);
    if (own->graph == nullptr) return kNotFinalized;
    const Descriptor* convolution = descriptor(forward_of(own->graph.get()), 702);
    const int64_t mode = one(own, 200);
    if ((mode != 2 && mode != 3) || list(convolution, 102) != std::vector<int64_t>{1, 1})
      return kNotSupported;
  } else if (own->kind == kPlan) {
    const Descriptor* config = descriptor(own, 401);
    if (one(own, 400) == -1 || config == nullptr || config->kernel == 1) return kNotSupported;
    own->kernel = config->kernel;
    own->graph = config->graph;
  } else if (own->kind == kPack) {
    if (list(own, 1000).size() != 3 || list(own, 1001).size() != 3 || one(own, 1003) == -1)
      return kBadParameter;
  }
  own->final = true;
  return kSuccess;
}

EXPORT int cudnnBackendGetAttribute(const void* from, int attribute, int type, int64_t most, int64_t* count,
                                    void* values) {
  const Descriptor* own = static_cast<const Descriptor*>(from);
  if (attribute == 202 && type == 15 && own->final) { /* configurations */
    if (most == 0) {                                  /* how many there are */
      *count = 20;
      return kSuccess;
    }
    for (*count = 0; *count < 20 && *count < most; ++*count) {
      Descriptor* config = static_cast<Descriptor**>(values)[*count];
      config->kernel = *count < 18 ? 0 : static_cast<int>(*count) - 17;
      config->graph = own->graph;
      config->final = true;
    }
    return kSuccess;
  }
  if (attribute == 300 && type == 15) { /* the engine of one */
    (*static_cast<Descriptor**>(values))->kernel = own->kernel;
    *count = 1;
    return kSuccess;
  }
  if (attribute == 1301 && type == 3) { /* its number */
    *static_cast<int64_t*>(values) = own->kernel + 10;
    *count = 1;
    return kSuccess;
  }
  if (attribute == 1303 && type == 11) { /* what it does to numbers */
    *count = own->kernel == 0 ? 1 : 0;
    if (*count == 1) *static_cast<int*>(values) = 0; /* it uses tensor cores */
    return kSuccess;
  }
  if (attribute == 402 && type == 3 && own->final) {
    *static_cast<int64_t*>(values) = kRoom;
    *count = 1;
    return kSuccess;
  }
  return kBadParameter;
}

EXPORT int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  const Descriptor *own = static_cast<const Descriptor*>(plan), *given = static_cast<const Descriptor*>(pack);
  if (!own->final || !given->final) return kNotFinalized;
  const Descriptor* forward = forward_of(own->graph.get());
  const Descriptor* convolution = descriptor(forward, 702);
  Work* work = new Work;
  const struct {
    int attribute;
    Tensor* to;
  } parts[] = {{704, &work->in}, {703, &work->weights}, {705, &work->out}};
  for (const auto& part : parts) {
    const Descriptor* described = descriptor(forward, part.attribute);
    *part.to = tensor(described);
    for (size_t i = 0; i < 3; ++i) {
      if (list(given, 1000)[i] == one(described, 906)) {
        part.to->data = reinterpret_cast<void*>(list(given, 1001)[i]);
      }
    }
    if (part.to->data == nullptr || reinterpret_cast<uintptr_t>(part.to->data) % 16 != 0) {
      delete work;
      return kBadParameter;
    }
  }
  work->dilations = list(convolution, 102);
  work->strides = list(convolution, 103);
  work->before = list(convolution, 105);
  work->room = reinterpret_cast<void*>(one(given, 1003));
  fake_cuda_enqueue(static_cast<Handle*>(handle)->stream, own->kernel == 0 ? "cudnn_rounding" : "cudnn_exact",
                    convolve, work, end);
  return kSuccess;
}
