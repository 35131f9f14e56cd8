#include "cuda/dnn.h"

#include <type_traits>

#include "cuda/libraries.h"
#include "toolkit/api.h"

namespace ephost::cuda {

namespace {

/* cudnnDataType_t, cudnnTensorFormat_t, cudnnConvolutionMode_t, cudnnMathType_t */
enum { kFloat = 0, kHalf = 2, kBfloat = 9 };
enum { kNchw = 0 };
enum { kCrossCorrelation = 1 };
enum { kTensorOps = 1, kFmaOnly = 3, kDefaultMath = 0 };

constexpr size_t kMostWorkspace = size_t{256} << 20;

int data_type(DType type) {
  return type == DType::kFloat ? kFloat : type == DType::kFloat16 ? kHalf : kBfloat;
}

}  // namespace

void Dnn::check(int status, const char* what) const {
  if (status != 0) {
    throw Error(ORT_EP_FAIL, std::string("cuDNN cannot ") + what + ": " + error_string_(status));
  }
}

std::unique_ptr<Dnn> Dnn::open(std::string* why) {
  std::unique_ptr<Dnn> dnn(new Dnn);
  if (!open_nvidia_library(&dnn->library_, "EPHOST_CUDNN_LIBRARY", "cudnn", "cudnn", "9", why)) {
    return nullptr;
  }
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(dnn->library_.find(name));
    if (*function == nullptr && why->empty()) {
      *why = dnn->library_.name() + " has no " + name;
    }
  };
  find(&dnn->create_, "cudnnCreate");
  find(&dnn->destroy_, "cudnnDestroy");
  find(&dnn->set_stream_, "cudnnSetStream");
  find(&dnn->error_string_, "cudnnGetErrorString");
  find(&dnn->tensor_create_, "cudnnCreateTensorDescriptor");
  find(&dnn->tensor_destroy_, "cudnnDestroyTensorDescriptor");
  find(&dnn->tensor_set_, "cudnnSetTensor4dDescriptor");
  find(&dnn->filter_create_, "cudnnCreateFilterDescriptor");
  find(&dnn->filter_destroy_, "cudnnDestroyFilterDescriptor");
  find(&dnn->filter_set_, "cudnnSetFilter4dDescriptor");
  find(&dnn->conv_create_, "cudnnCreateConvolutionDescriptor");
  find(&dnn->conv_destroy_, "cudnnDestroyConvolutionDescriptor");
  find(&dnn->conv_set_, "cudnnSetConvolution2dDescriptor");
  find(&dnn->conv_groups_, "cudnnSetConvolutionGroupCount");
  find(&dnn->conv_math_, "cudnnSetConvolutionMathType");
  find(&dnn->choose_, "cudnnGetConvolutionForwardAlgorithm_v7");
  find(&dnn->forward_, "cudnnConvolutionForward");
  find(&dnn->add_, "cudnnAddTensor");
  if (!why->empty()) {
    return nullptr;
  }
  const int status = dnn->create_(&dnn->handle_);
  if (status != 0) {
    dnn->handle_ = nullptr;
    *why = dnn->library_.name() + " cannot be initialised: " + dnn->error_string_(status);
    return nullptr;
  }
  return dnn;
}

Dnn::~Dnn() {
  if (handle_ != nullptr) {
    (void)destroy_(handle_);
  }
}

Dnn::Conv::Conv(Dnn& dnn, DType type, int64_t images, const ConvArguments& shape, bool bias, bool tf32)
    : dnn_(dnn), has_bias_(bias) {
  try {
    describe(type, images, shape, tf32);
  } catch (...) {
    destroy();
    throw;
  }
}

void Dnn::Conv::describe(DType type, int64_t images, const ConvArguments& shape, bool tf32) {
  if (images > INT32_MAX) {
    unsupported("a batch of too many images");
  }
  const int dtype = data_type(type), number = static_cast<int>(images);
  dnn_.check(dnn_.tensor_create_(&in_), "describe a tensor");
  dnn_.check(dnn_.tensor_set_(in_, kNchw, dtype, number, shape.channels, shape.height, shape.width),
             "describe the input");
  dnn_.check(dnn_.tensor_create_(&out_), "describe a tensor");
  dnn_.check(
      dnn_.tensor_set_(out_, kNchw, dtype, number, shape.out_channels, shape.out_height, shape.out_width),
      "describe the output");
  if (has_bias_) {
    dnn_.check(dnn_.tensor_create_(&bias_), "describe a tensor");
    dnn_.check(dnn_.tensor_set_(bias_, kNchw, dtype, 1, shape.out_channels, 1, 1), "describe the bias");
  }
  dnn_.check(dnn_.filter_create_(&filter_), "describe a filter");
  dnn_.check(dnn_.filter_set_(filter_, dtype, kNchw, shape.out_channels, shape.channels / shape.group,
                              shape.window_y, shape.window_x),
             "describe the weights");
  dnn_.check(dnn_.conv_create_(&conv_), "describe a convolution");
  dnn_.check(dnn_.conv_set_(conv_, shape.pad_y, shape.pad_x, shape.stride_y, shape.stride_x, shape.dilation_y,
                            shape.dilation_x, kCrossCorrelation, kFloat),
             "describe a convolution");
  dnn_.check(dnn_.conv_groups_(conv_, shape.group), "set the groups");
  dnn_.check(dnn_.conv_math_(conv_, dtype != kFloat ? kTensorOps
                                    : tf32          ? kDefaultMath
                                                    : kFmaOnly),
             "set the math");
  Performance found[8] = {};
  int count = 0;
  const std::lock_guard<std::mutex> hold(dnn_.lock_);
  dnn_.check(dnn_.choose_(dnn_.handle_, in_, filter_, conv_, out_, 8, &count, found), "choose an algorithm");
  for (int i = 0; i < count; ++i) {
    if (found[i].status == 0 && found[i].memory <= kMostWorkspace) {
      algorithm_ = found[i].algorithm;
      workspace_ = found[i].memory;
      dnn_.check(dnn_.conv_math_(conv_, found[i].math), "set the math");
      return;
    }
  }
  unsupported("cuDNN has no algorithm for this convolution");
}

void Dnn::Conv::destroy() {
  for (void* tensor : {in_, out_, bias_}) {
    if (tensor != nullptr) {
      (void)dnn_.tensor_destroy_(tensor);
    }
  }
  if (filter_ != nullptr) {
    (void)dnn_.filter_destroy_(filter_);
  }
  if (conv_ != nullptr) {
    (void)dnn_.conv_destroy_(conv_);
  }
}

Dnn::Conv::~Conv() { destroy(); }

void Dnn::Conv::run(CUstream stream, const void* in, const void* weights, const void* bias, void* out,
                    void* room) const {
  const float one = 1, zero = 0;
  const std::lock_guard<std::mutex> hold(dnn_.lock_);
  dnn_.check(dnn_.set_stream_(dnn_.handle_, stream), "use a stream");
  dnn_.check(dnn_.forward_(dnn_.handle_, &one, in_, in, filter_, weights, conv_, algorithm_, room, workspace_,
                           &zero, out_, out),
             "convolve");
  if (has_bias_) {
    dnn_.check(dnn_.add_(dnn_.handle_, &one, bias_, bias, &one, out_, out), "add a bias");
  }
}

}  // namespace ephost::cuda
