#include "cpu/engines/conv/planes.h"

#include <algorithm>
#include <cstring>

namespace ephost::cpu {
namespace {

constexpr const char* kKey = "planes";
constexpr int64_t kMostInputs = 4, kMostLines = 256;  // Of an output channel.

struct Weights {
  std::shared_ptr<void> memory;
};

}  // namespace

bool is_planes(const ConvProblem& c) {
  const int64_t height = c.weights.size() == 4 ? c.weights[2] : 1;
  return !c.transposed && (c.weights.size() == 3 || c.weights.size() == 4) && c.weights[1] <= kMostInputs &&
         c.weights[1] * height <= kMostLines && c.window.strides.back() == 1;
}

bool has_plane_weights(const TensorPtr& constant) {
  const std::lock_guard lock(constant->packed_mutex);
  return constant->packed.count(kKey) != 0;
}

std::shared_ptr<void> plane_weights(const TensorPtr& constant) {
  const auto make = [&] {
    if (constant->data == nullptr) fail("a weight is gone before it was packed");
    auto made = std::make_shared<Weights>();
    made->memory = allocate_lasting(constant->bytes());
    std::memcpy(made->memory.get(), constant->data, constant->bytes());
    return made;
  };
  return Prepare::packed<Weights>(constant, kKey, make)->memory;
}

TensorPtr plane_original(const TensorPtr& constant) {
  TensorPtr made = make_tensor(DType::kFloat, constant->dims);
  std::memcpy(mutable_data(made), plane_weights(constant).get(), made->bytes());
  return made;
}

Kernel planes(Prepare& p, const ConvProblem& c, const std::vector<PostOp>& post_ops, int operands) {
  for (int i = operands; i < p.inputs(); ++i) p.require(i, Layout::kPlain);
  p.require(0, Layout::kPlain);
  p.out(0, DType::kFloat, c.target, Layout::kPlain);
  const std::shared_ptr<void> weights = plane_weights(p.constant(1));
  const Window& w = c.window;
  const bool plane = w.rank() == 2;
  const auto first = [&](const Dims& of, int64_t otherwise) { return plane ? of[0] : otherwise; };
  const int64_t in_height = first(w.in, 1), out_height = first(w.out, 1), kernel = first(w.kernel, 1),
                stride = first(w.strides, 1), dilation = first(w.dilations, 1), top = first(w.begin, 0);
  const int64_t in_width = w.in.back(), left = w.begin.back(), width = w.out.back(), batch = c.source[0],
                inputs = c.weights[1], groups = c.groups, outputs = c.weights[0] / groups;
  // Rows of the input with what is added at their ends, as far as windows reach.
  const int64_t padded = width + w.span(w.rank() - 1) - 1, rows = batch * c.source[1] * in_height;
  const int64_t begin = std::max<int64_t>(left, 0), skip = std::max<int64_t>(-left, 0);
  const int64_t copied = std::clamp<int64_t>(in_width - skip, 0, std::max<int64_t>(padded - begin, 0));
  p.scratch(static_cast<size_t>(rows * padded) * sizeof(float));
  PlaneRow row{};
  row.lines = inputs * kernel;
  row.taps = w.kernel.back();
  row.dilation = w.dilations.back();
  row.channels = outputs;
  row.width = width;
  row.plane = out_height * width;
  const int64_t work = outputs * row.lines * row.taps * width / 16;
  const RowEpilogue epilogue(post_ops);
  const int ends = p.inputs();
  return [=, biased = c.biased](const Args& args) {
    const float *x = args.in<float>(0), *bias = biased ? args.in<float>(2) : nullptr;
    float *y = args.out<float>(0), *const lines = args.scratch<float>();
    const float* others[16] = {};
    for (int i = operands; i < ends; ++i) others[i - operands] = args.in<float>(i);
    parallel_for(rows, std::max<int64_t>(1, kGrain / (padded + 1)), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        float* to = lines + i * padded;
        const int64_t zeros = std::min(begin, padded);
        std::fill(to, to + zeros, 0.0f);
        std::copy_n(x + i * in_width + skip, copied, to + zeros);
        std::fill(to + zeros + copied, to + padded, 0.0f);
      }
    });
    parallel_for(
        batch * groups * out_height, std::max<int64_t>(1, kGrain / (work + 1)), [&](int64_t i, int64_t end) {
          const float* from[kMostLines];
          for (; i < end; ++i) {
            const int64_t at = i % out_height, image = i / out_height, group = image % groups;
            for (int64_t k = 0; k < row.lines; ++k) {
              const int64_t line = at * stride - top + k % kernel * dilation;
              from[k] = line < 0 || line >= in_height
                            ? nullptr
                            : lines + ((image * inputs + k / kernel) * in_height + line) * padded;
            }
            const int64_t place = image * outputs * row.plane + at * width;
            PlaneRow here = row;
            here.from = from;
            here.weights = static_cast<const float*>(weights.get()) + group * outputs * row.lines * row.taps;
            here.bias = bias == nullptr ? nullptr : bias + group * outputs;
            here.y = y + place;
            simd().plane_row(here);
            for (int64_t o = 0; o < outputs && !epilogue.empty(); ++o) {
              epilogue.run(y, others, place + o * row.plane, width);
            }
          }
        });
  };
}

}  // namespace ephost::cpu
