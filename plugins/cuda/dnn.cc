#include "cuda/dnn.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "cuda/libraries.h"
#include "toolkit/api.h"

namespace ephost::cuda {

namespace {

/* cudnnDataType_t, cudnnConvolutionMode_t */
enum { kFloat = 0, kHalf = 2, kBfloat = 9 };
enum { kCrossCorrelation = 1 };
/* cudnnBackendDescriptorType_t */
enum {
  kConvolution = 1,
  kEngine = 2,
  kConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kForward = 10,
  kGraph = 15,
  kPack = 16,
  kTensor = 17
};
/* cudnnBackendAttributeType_t */
enum {
  kIsHandle = 0,
  kIsDataType = 1,
  kIsInt64 = 3,
  kIsFloat = 4,
  kIsPointer = 6,
  kIsConvolutionMode = 7,
  kIsHeuristicMode = 8,
  kIsNote = 11,
  kIsDescriptor = 15
};
/* cudnnBackendAttributeName_t */
enum {
  kComputeType = 100,
  kMode = 101,
  kDilations = 102,
  kStrides = 103,
  kPaddingAfter = 104,
  kPaddingBefore = 105,
  kSpatialDims = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardWeights = 703,
  kForwardIn = 704,
  kForwardOut = 705,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNumber = 1301,
  kEngineNotes = 1303
};
/* cudnnBackendHeurMode_t: kernels that are good as a rule, and those that take what no other does */
enum { kFallback = 2, kBest = 3 };
/* cudnnBackendNumericalNote_t */
enum { kTensorCore = 0, kRoundsInputs = 1, kMostNotes = 16 };

constexpr int64_t kIn = 1, kWeights = 2, kOut = 3; /* tensors by number */
constexpr int64_t kMostWorkspace = int64_t{256} << 20;
constexpr size_t kMostTried = 12;

int data_type(DType type) {
  return type == DType::kFloat ? kFloat : type == DType::kFloat16 ? kHalf : kBfloat;
}

}  // namespace

/* ---- Descriptors --------------------------------------------------------------------------------------- */

Dnn::Descriptor::Descriptor(const Dnn& dnn, int type) : dnn_(dnn) {
  dnn.check(dnn.make_(type, &raw_), "make a descriptor");
}

Dnn::Descriptor::~Descriptor() { (void)dnn_.end_(raw_); }

void Dnn::Descriptor::set(int attribute, int type, int64_t count, const void* values) {
  dnn_.check(dnn_.set_(raw_, attribute, type, count, values), "describe a convolution");
}

void Dnn::Descriptor::set(int attribute, const Descriptor& of) { set(attribute, kIsDescriptor, 1, &of.raw_); }

bool Dnn::Descriptor::finalize() { return dnn_.finalize_(raw_) == 0; }

void Dnn::Descriptor::finish() { dnn_.check(dnn_.finalize_(raw_), "describe a convolution"); }

int64_t Dnn::Descriptor::get(int attribute, int type, int64_t most, void* values) const {
  int64_t count = 0;
  dnn_.check(dnn_.get_(raw_, attribute, type, most, &count, values), "tell of a convolution");
  return count;
}

/* ---- The library --------------------------------------------------------------------------------------- */

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
  find(&dnn->make_, "cudnnBackendCreateDescriptor");
  find(&dnn->end_, "cudnnBackendDestroyDescriptor");
  find(&dnn->finalize_, "cudnnBackendFinalize");
  find(&dnn->set_, "cudnnBackendSetAttribute");
  find(&dnn->get_, "cudnnBackendGetAttribute");
  find(&dnn->execute_, "cudnnBackendExecute");
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

/* ---- Convolutions -------------------------------------------------------------------------------------- */

namespace {

using Descriptor = Dnn::Descriptor;

/* Images, weights or results: channels, rows and columns as they lie, in this order. */
void describe(Descriptor& tensor, int64_t number, int type, const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size() - 1; d > 0; --d) {
    strides[d - 1] = strides[d] * dims[d];
  }
  const int64_t alignment = Dnn::Conv::kAlignment, rank = static_cast<int64_t>(dims.size());
  tensor.set(kTensorId, kIsInt64, 1, &number);
  tensor.set(kTensorType, kIsDataType, 1, &type);
  tensor.set(kTensorAlignment, kIsInt64, 1, &alignment);
  tensor.set(kTensorDims, kIsInt64, rank, dims.data());
  tensor.set(kTensorStrides, kIsInt64, rank, strides.data());
  tensor.finish();
}

struct Engine {
  int64_t number = -1;
  bool rounds = false; /* float32 to fewer bits, on its way */
};

Engine engine_of(const Dnn& dnn, const Descriptor& config) {
  Descriptor engine(dnn, kEngine);
  void* raw = engine.raw();
  (void)config.get(kConfigEngine, kIsDescriptor, 1, &raw);
  Engine found;
  (void)engine.get(kEngineNumber, kIsInt64, 1, &found.number);
  int notes[kMostNotes] = {};
  const int64_t count = engine.get(kEngineNotes, kIsNote, kMostNotes, notes);
  for (int64_t i = 0; i < count && i < kMostNotes; ++i) {
    found.rounds |= notes[i] == kTensorCore || notes[i] == kRoundsInputs;
  }
  return found;
}

/* What tells convolutions apart of which another kernel may be the quickest: their sizes, those of images by
 * powers of two. */
std::vector<int64_t> sizes_of(const Dnn::Shape& shape) {
  const ConvArguments& a = shape.args;
  int64_t magnitude = 0;
  for (int64_t pixels = shape.images * a.out_height * a.out_width; pixels > 1; pixels /= 2) {
    ++magnitude;
  }
  return {static_cast<int64_t>(shape.type),
          shape.tf32,
          magnitude,
          a.channels,
          a.out_channels,
          a.group,
          a.window_y,
          a.window_x,
          a.stride_y,
          a.stride_x,
          a.dilation_y,
          a.dilation_x,
          a.pad_y,
          a.pad_x,
          shape.after_y,
          shape.after_x};
}

}  // namespace

/* NULL where cuDNN takes no such convolution. */
std::unique_ptr<Descriptor> Dnn::graph_of(const Shape& shape) {
  const ConvArguments& args = shape.args;
  const int dtype = data_type(shape.type), compute = kFloat, mode = kCrossCorrelation;
  Descriptor in(*this, kTensor), weights(*this, kTensor), out(*this, kTensor);
  describe(in, kIn, dtype, {shape.images, args.channels, args.height, args.width});
  describe(weights, kWeights, dtype,
           {args.out_channels, args.channels / args.group, args.window_y, args.window_x});
  describe(out, kOut, dtype, {shape.images, args.out_channels, args.out_height, args.out_width});
  const int64_t rank = 2;
  const int64_t dilations[] = {args.dilation_y, args.dilation_x};
  const int64_t strides[] = {args.stride_y, args.stride_x};
  const int64_t before[] = {args.pad_y, args.pad_x}, after[] = {shape.after_y, shape.after_x};
  Descriptor convolution(*this, kConvolution);
  convolution.set(kSpatialDims, kIsInt64, 1, &rank);
  convolution.set(kComputeType, kIsDataType, 1, &compute);
  convolution.set(kMode, kIsConvolutionMode, 1, &mode);
  convolution.set(kDilations, kIsInt64, rank, dilations);
  convolution.set(kStrides, kIsInt64, rank, strides);
  convolution.set(kPaddingBefore, kIsInt64, rank, before);
  convolution.set(kPaddingAfter, kIsInt64, rank, after);
  convolution.finish();
  const float one = 1, zero = 0;
  Descriptor forward(*this, kForward);
  forward.set(kForwardIn, in);
  forward.set(kForwardWeights, weights);
  forward.set(kForwardOut, out);
  forward.set(kForwardConvolution, convolution);
  forward.set(kForwardAlpha, kIsFloat, 1, &one);
  forward.set(kForwardBeta, kIsFloat, 1, &zero);
  if (!forward.finalize()) {
    return nullptr;
  }
  auto graph = std::make_unique<Descriptor>(*this, kGraph);
  graph->set(kGraphHandle, kIsHandle, 1, &handle_);
  graph->set(kGraphOperations, forward);
  return graph->finalize() ? std::move(graph) : nullptr;
}

/* At most so many that work, the best first as cuDNN sees it; of one engine alone, unless that is -1. */
std::vector<Dnn::Kernel> Dnn::kernels(const Shape& shape, int64_t engine, size_t most) {
  std::vector<Kernel> found;
  const std::lock_guard<std::mutex> hold(lock_);
  const std::unique_ptr<Descriptor> graph = graph_of(shape);
  if (graph == nullptr) {
    return found;
  }
  const bool exact = shape.type == DType::kFloat && !shape.tf32;
  for (const int how : {kBest, kFallback}) {
    Descriptor heuristic(*this, kHeuristic);
    heuristic.set(kHeuristicGraph, *graph);
    heuristic.set(kHeuristicMode, kIsHeuristicMode, 1, &how);
    if (!heuristic.finalize()) {
      continue;
    }
    /* All of them: the first ones are mostly in TF32, and of no use where that is not allowed. */
    const int64_t count = heuristic.get(kHeuristicResults, kIsDescriptor, 0, nullptr);
    std::vector<std::unique_ptr<Descriptor>> configs;
    std::vector<void*> handles;
    for (int64_t i = 0; i < count; ++i) {
      configs.push_back(std::make_unique<Descriptor>(*this, kConfig));
      handles.push_back(configs.back()->raw());
    }
    const int64_t told =
        count == 0 ? 0 : heuristic.get(kHeuristicResults, kIsDescriptor, count, handles.data());
    for (int64_t i = 0; i < std::min(count, told) && found.size() < most; ++i) {
      const Descriptor& config = *configs[static_cast<size_t>(i)];
      const Engine by = engine_of(*this, config);
      if ((exact && by.rounds) || (engine >= 0 && by.number != engine)) {
        continue;
      }
      auto plan = std::make_unique<Descriptor>(*this, kPlan);
      plan->set(kPlanHandle, kIsHandle, 1, &handle_);
      plan->set(kPlanConfig, config);
      int64_t workspace = 0;
      if (plan->finalize() && plan->get(kPlanWorkspace, kIsInt64, 1, &workspace) == 1 &&
          workspace <= kMostWorkspace) {
        found.push_back(
            {std::make_shared<Conv>(*this, std::move(plan), static_cast<size_t>(workspace)), by.number});
      }
    }
  }
  return found;
}

std::shared_ptr<Dnn::Conv> Dnn::convolution(const Shape& shape,
                                            const std::function<double(const Conv&)>& seconds_of) {
  const auto first = [](const std::vector<Kernel>& list) { return list.empty() ? nullptr : list[0].conv; };
  if (seconds_of == nullptr) {
    return first(kernels(shape, -1, 1));
  }
  const std::vector<int64_t> sizes = sizes_of(shape);
  int64_t known = -1;
  {
    const std::lock_guard<std::mutex> hold(lock_);
    const auto found = quickest_.find(sizes);
    known = found == quickest_.end() ? -1 : found->second;
  }
  if (known >= 0) {
    if (std::shared_ptr<Conv> conv = first(kernels(shape, known, 1))) {
      return conv;
    }
  }
  const std::vector<Kernel> list = kernels(shape, -1, kMostTried);
  const Kernel* best = nullptr;
  double least = 0;
  for (const Kernel& kernel : list) {
    const double seconds = list.size() == 1 ? 0 : seconds_of(*kernel.conv);
    if (best == nullptr || seconds < least) {
      best = &kernel;
      least = seconds;
    }
  }
  if (best == nullptr) {
    return nullptr;
  }
  const std::lock_guard<std::mutex> hold(lock_);
  quickest_[sizes] = best->engine;
  return best->conv;
}

Dnn::Conv::Conv(Dnn& dnn, std::unique_ptr<Descriptor> plan, size_t workspace)
    : dnn_(dnn), plan_(std::move(plan)), workspace_(workspace) {}

void Dnn::Conv::run(CUstream stream, const void* in, const void* weights, void* out, void* room) const {
  const int64_t numbers[] = {kIn, kWeights, kOut};
  const void* const addresses[] = {in, weights, out};
  Descriptor pack(dnn_, kPack);
  pack.set(kPackIds, kIsInt64, 3, numbers);
  pack.set(kPackPointers, kIsPointer, 3, addresses);
  pack.set(kPackWorkspace, kIsPointer, 1, &room);
  pack.finish();
  const std::lock_guard<std::mutex> hold(dnn_.lock_);
  dnn_.check(dnn_.set_stream_(dnn_.handle_, stream), "use a stream");
  dnn_.check(dnn_.execute_(dnn_.handle_, plan_->raw(), pack.raw()), "convolve");
}

}  // namespace ephost::cuda
