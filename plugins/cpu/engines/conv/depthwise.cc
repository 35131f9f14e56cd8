#include "cpu/engines/conv/depthwise.h"

#include <algorithm>

namespace ephost::cpu {
namespace {

constexpr const char* kKey = "depthwise";
constexpr int64_t kMostLines = 64;  // Of a kernel.

struct Weights {
  std::shared_ptr<void> memory;
};

}  // namespace

bool is_depthwise(const Dims& weights, int64_t groups) {
  const int64_t group = weights[1];
  return weights.size() >= 3 && weights.size() <= 5 && count(weights, 2, weights.size() - 1) <= kMostLines &&
         (group == 1 || group == 2 || group == 4) && weights[0] == groups * group &&
         weights[0] >= kDepthwiseChannels;
}

bool has_depthwise_weights(const TensorPtr& constant) {
  const std::lock_guard lock(constant->packed_mutex);
  return constant->packed.count(kKey) != 0;
}

// Calls move(i, j) for each weight: i is its place in the model, [channels][group][taps], and j in
// [taps][group][channels].
template <typename Move>
static void for_weights(const Dims& dims, const Move& move) {
  const int64_t channels = dims[0], group = dims[1], taps = count(dims, 2, dims.size());
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t g = 0; g < group; ++g) {
      int64_t i = g * taps + t, j = (t * group + g) * channels;
      for (const int64_t end = j + channels; j < end; ++j, i += group * taps) move(i, j);
    }
  }
}

std::shared_ptr<void> depthwise_weights(const TensorPtr& constant, const TensorPtr& original) {
  const auto make = [&] {
    const Tensor& given = original == nullptr ? *constant : *original;
    if (given.data == nullptr) fail("a weight is gone before it was packed");
    auto made = std::make_shared<Weights>();
    made->memory = allocate_lasting(static_cast<size_t>(count(constant->dims)) * sizeof(float));
    float* const to = static_cast<float*>(made->memory.get());
    const float* const from = given.as<float>();
    for_weights(constant->dims, [&](int64_t i, int64_t j) { to[j] = from[i]; });
    return made;
  };
  return Prepare::packed<Weights>(constant, kKey, make)->memory;
}

TensorPtr depthwise_original(const TensorPtr& constant) {
  const float* const from = static_cast<const float*>(depthwise_weights(constant).get());
  TensorPtr made = make_tensor(DType::kFloat, constant->dims);
  float* const to = static_cast<float*>(mutable_data(made));
  for_weights(constant->dims, [&](int64_t i, int64_t j) { to[i] = from[j]; });
  return made;
}

Kernel depthwise(Prepare& p, const Window& window, const Dims& target, bool biased, const PostOps& post_ops,
                 int operands) {
  p.require(0, Layout::kChannelsLast);
  for (int i = operands; i < p.inputs(); ++i) p.require(i, Layout::kChannelsLast);
  p.out(0, DType::kFloat, target, Layout::kChannelsLast);
  const std::shared_ptr<void> weights = depthwise_weights(p.constant(1));
  // Height and depth; what is missing is 1.
  const size_t rank = window.rank();
  const auto of = [&](const Dims& dims, size_t from_last, int64_t otherwise) {
    return from_last < rank ? dims[rank - 1 - from_last] : otherwise;
  };
  const int64_t in_height = of(window.in, 1, 1), out_height = of(window.out, 1, 1),
                kernel = of(window.kernel, 1, 1), stride = of(window.strides, 1, 1),
                dilation = of(window.dilations, 1, 1), top = of(window.begin, 1, 0);
  const int64_t in_depth = of(window.in, 2, 1), out_depth = of(window.out, 2, 1),
                kernel_z = of(window.kernel, 2, 1), stride_z = of(window.strides, 2, 1),
                dilation_z = of(window.dilations, 2, 1), front = of(window.begin, 2, 0);
  FloatDepthwiseLine line{};
  line.lines = kernel_z * kernel;
  line.group = p.dims(1)[1];
  line.kernel = window.kernel.back();
  line.weights = static_cast<const float*>(weights.get());
  line.in_width = window.in.back();
  line.stride = window.strides.back();
  line.dilation = window.dilations.back();
  line.left = window.begin.back();
  line.channels = target[1];
  // Lines of the output are what threads share; parts of them, where there are few.
  const int64_t width = window.out.back(), rows = target[0] * out_depth * out_height,
                threads = std::max(1, p.threads());
  const int64_t parts = std::clamp<int64_t>(rows >= 4 * threads || threads == 1 ? 1 : 4 * threads / rows, 1,
                                            std::max<int64_t>(1, width / 32));
  const int64_t work = width / parts * line.channels * line.lines * line.kernel * line.group / 4;
  const RowEpilogue epilogue(post_ops);
  const int ends = p.inputs();
  return [=](const Args& args) {
    const float *x = args.in<float>(0), *bias = biased ? args.in<float>(2) : nullptr;
    float* y = args.out<float>(0);
    const float* others[16] = {};
    for (int i = operands; i < ends; ++i) others[i - operands] = args.in<float>(i);
    parallel_for(rows * parts, std::max<int64_t>(1, kGrain / (work + 1)), [&](int64_t i, int64_t end) {
      const float* from[kMostLines];
      for (; i < end; ++i) {
        const int64_t row = i / parts, part = i % parts, n = row / out_height / out_depth;
        const int64_t begin = row % out_height * stride - top,
                      begin_z = row / out_height % out_depth * stride_z - front;
        for (int64_t k = 0; k < line.lines; ++k) {
          const int64_t at = begin + k % kernel * dilation, at_z = begin_z + k / kernel * dilation_z;
          const bool inside = at >= 0 && at < in_height && at_z >= 0 && at_z < in_depth;
          const int64_t place = (n * in_depth + at_z) * in_height + at;
          from[k] = inside ? x + place * line.in_width * line.channels : nullptr;
        }
        FloatDepthwiseLine here = line;
        here.from = from;
        here.bias = bias;
        here.first = width * part / parts;
        here.last = width * (part + 1) / parts;
        here.y = y + row * width * line.channels;
        simd().float_depthwise(here);
        const int64_t at = (row * width + here.first) * line.channels;
        if (!epilogue.empty()) epilogue.run(y, others, at, (here.last - here.first) * line.channels);
      }
    });
  };
}

}  // namespace ephost::cpu
