/* Images that become larger or smaller, and normalisation across channels. */
#include <algorithm>
#include <cmath>

#include "cuda/operators/checks.h"
#include "cuda/operators/epilogue.h"
#include "cuda/operators/geometry.h"
#include "toolkit/half.h"

namespace ephost::cuda {

namespace {

/* ---- ConvTranspose ---- */

std::string transposed(const Node& node) {
  const Value* weights = node.in(1);
  const bool images = weights != nullptr && weights->has_shape && weights->dims.size() == 4;
  if (!images || node.s("auto_pad", "NOTSET") != "NOTSET" || !node.ints("output_shape").empty()) {
    return "other than two spatial dimensions with paddings of their own";
  }
  return first_output_only(node);
}

void plan_conv_transpose(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *weights = node.in(1), *bias = node.in(2);
  const Dims dims = planner.dims(in), filter = planner.dims(weights);
  const std::vector<int64_t> ones(2, 1), zeros(4, 0);
  const Ints strides = node.ints("strides", ones), dilations = node.ints("dilations", ones);
  const Ints pads = node.ints("pads", zeros);
  std::vector<int64_t> more = node.ints("output_padding");
  more.resize(std::max<size_t>(more.size(), 2), 0);
  const int64_t group = node.i("group", 1);
  if (dims.size() != 4 || filter.size() != 4 || filter[0] != dims[1] || group <= 0 || dims[1] % group != 0 ||
      strides.size() != 2 || dilations.size() != 2 || pads.size() != 4 || more.size() != 2) {
    invalid("weights " + to_string(filter) + " do not fit the input " + to_string(dims));
  }
  Dims out = {dims[0], filter[1] * group};
  const std::vector<int64_t> window = node.ints("kernel_shape");
  if (!window.empty() && window != std::vector<int64_t>{filter[2], filter[3]}) {
    invalid("a kernel_shape that is not the weights'");
  }
  if (bias != nullptr && planner.dims(bias) != Dims{out[1]}) {
    invalid("a bias " + to_string(planner.dims(bias)) + " for " + std::to_string(out[1]) + " channels");
  }
  for (size_t d = 0; d < 2; ++d) {
    if (strides[d] <= 0 || dilations[d] <= 0 || more[d] < 0) {
      invalid("a stride or dilation that is not positive, or an output_padding below 0");
    }
    const int64_t reach = (filter[2 + d] - 1) * dilations[d] + 1;
    out.push_back((dims[2 + d] - 1) * strides[d] + more[d] + reach - pads[d] - pads[2 + d]);
    if (out.back() < 0) {
      invalid("paddings that leave nothing");
    }
  }
  ConvArguments args = {};
  args.count = ephost::count(out);
  args.channels = narrow(dims[1]), args.out_channels = narrow(out[1]), args.group = narrow(group);
  args.height = narrow(dims[2]), args.width = narrow(dims[3]);
  args.out_height = narrow(out[2]), args.out_width = narrow(out[3]);
  args.window_y = narrow(filter[2]), args.window_x = narrow(filter[3]);
  args.stride_y = narrow(strides[0]), args.stride_x = narrow(strides[1]);
  args.pad_y = narrow(pads[0]), args.pad_x = narrow(pads[1]);
  args.dilation_y = narrow(dilations[0]), args.dilation_x = narrow(dilations[1]);
  const Place from = planner.read(in), of = planner.read(weights);
  const Place add = bias != nullptr ? planner.read(bias) : Place();
  const Value* target = before_posts(planner, node);
  const Place to = planner.write(target, out);
  const CUfunction function = planner.kernel(std::string("conv_transpose_") + suffix(planner.type(in)));
  if (args.count > 0) {
    planner.step([=](const Launch& launch) {
      ConvArguments now = args;
      now.in = launch.address(from);
      now.weights = launch.address(of);
      now.bias = launch.address(add);
      now.out = launch.address(to);
      launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
    });
  }
  plan_posts(planner, node, target, 3);
}

/* ---- LRN ---- */

void plan_lrn(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const int64_t size = node.i("size", 0);
  if (dims.size() < 2 || size <= 0) {
    invalid("a size that is not positive, or no channels");
  }
  LrnArguments args = {};
  args.count = ephost::count(dims);
  args.channels = narrow(dims[1]);
  args.inner = narrow(ephost::count(dims, 2, dims.size()));
  args.before = narrow(std::min((size - 1) / 2, dims[1]));
  args.after = narrow(std::min(size - 1 - (size - 1) / 2, dims[1]));
  args.alpha = node.f("alpha", 1e-4f) / static_cast<float>(size);
  args.beta = node.f("beta", 0.75f);
  args.bias = node.f("bias", 1.0f);
  const Place from = planner.read(in), to = planner.write(node.out(), dims);
  step_for_each(planner, std::string("lrn_") + suffix(planner.type(in)), args, from, to);
}

/* ---- Resize ---- */

/* Where each element of a dimension comes from. */
struct Samples {
  std::vector<int32_t> low, high;
  std::vector<float> part;
};

/* Where element i lies in what is resized, between its elements. */
template <typename Real>
Real origin(const std::string& mode, int64_t i, Real scale, int64_t size, int64_t out) {
  constexpr Real kHalf = Real{1} / 2;
  const Real x = static_cast<Real>(i), length = static_cast<Real>(size);
  if (mode == "asymmetric") {
    return x / scale;
  }
  if (mode == "align_corners") {
    return out == 1 ? 0 : x * (length - 1) / (scale * length - 1);
  }
  if (mode == "pytorch_half_pixel" && out == 1) {
    return -kHalf;
  }
  return (x + kHalf) / scale - kHalf;
}

/* In floats, as exporters do; what is half-way but for rounding is half-way. */
int32_t nearest_to(float at, const std::string& how, int64_t size) {
  constexpr float kRounding = 1e-6f;
  const float down = std::floor(at);
  float near = down;
  if (how == "ceil") {
    near = std::ceil(at);
  } else if (how == "round_prefer_floor") {
    near = at - down > 0.5f + kRounding ? down + 1 : down;
  } else if (how == "round_prefer_ceil") {
    near = at - down >= 0.5f - kRounding ? down + 1 : down;
  }
  return static_cast<int32_t>(std::clamp(near, 0.0f, static_cast<float>(size - 1)));
}

Samples samples_of(const Node& node, int64_t size, int64_t out, float scale) {
  const std::string mode = node.s("coordinate_transformation_mode", "half_pixel");
  const std::string how = node.s("nearest_mode", "round_prefer_floor");
  const bool linear = node.s("mode", "nearest") == "linear";
  Samples samples;
  for (int64_t i = 0; i < out; ++i) {
    if (!linear) {
      samples.low.push_back(nearest_to(origin<float>(mode, i, scale, size, out), how, size));
      continue;
    }
    const double most = static_cast<double>(size - 1);
    const double at = std::clamp(origin<double>(mode, i, scale, size, out), 0.0, most);
    samples.low.push_back(static_cast<int32_t>(std::floor(at)));
    samples.high.push_back(static_cast<int32_t>(std::min(std::floor(at) + 1, most)));
    samples.part.push_back(static_cast<float>(at - std::floor(at)));
  }
  return samples;
}

/* The scales that a model gives as constants. */
std::vector<float> scales_of(const Value* value) {
  std::vector<float> scales;
  if (value != nullptr && value->constant != nullptr && value->constant->data != nullptr &&
      value->constant->type == DType::kFloat) {
    for (int64_t i = 0; i < ephost::count(value->constant->dims); ++i) {
      scales.push_back(value->constant->as<float>()[i]);
    }
  }
  return scales;
}

std::string resizable(const Node& node) {
  const std::string mode = node.s("mode", "nearest");
  const std::string where = node.s("coordinate_transformation_mode", "half_pixel");
  static const char* const kKnown[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
  if ((mode != "nearest" && mode != "linear") || node.i("antialias", 0) != 0 || !node.ints("axes").empty() ||
      node.s("keep_aspect_ratio_policy", "stretch") != "stretch" ||
      std::none_of(std::begin(kKnown), std::end(kKnown), [&](const char* known) { return where == known; })) {
    return "a mode that there is no kernel for";
  }
  const Value *in = node.in(0), *scales = node.in(2), *sizes = node.in(3);
  if (in == nullptr || !in->has_shape || in->dims.size() != 4) {
    return "other than images of a known rank";
  }
  if (sizes == nullptr) {
    const std::vector<float> known = scales_of(scales);
    if (known.size() != 4 || known[0] != 1.0f || known[1] != 1.0f) {
      return "scales that are not constant, or also of images and channels";
    }
  } else if (!readable(sizes)) {
    return "'" + sizes->name + "' is computed on the device";
  }
  return all_are(node, kReal, 1);
}

void plan_resize(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *sizes = node.in(3);
  const Dims dims = planner.dims(in);
  Dims out = dims;
  std::vector<float> scales(4, 1.0f);
  if (sizes != nullptr) {
    out = planner.content(sizes);
    if (out.size() != 4 || out[0] != dims[0] || out[1] != dims[1]) {
      unsupported("images or channels are resized");
    }
    for (size_t d = 2; d < 4; ++d) {
      scales[d] = static_cast<float>(out[d]) / static_cast<float>(dims[d]);
    }
  } else {
    scales = scales_of(node.in(2));
    for (size_t d = 2; d < 4; ++d) {
      out[d] = static_cast<int64_t>(std::floor(static_cast<float>(dims[d]) * scales[d]));
    }
  }
  ResizeArguments args = {};
  args.count = ephost::count(out);
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  if (args.count == 0) {
    return;
  }
  if (ephost::count(dims) == 0) {
    invalid("an image without elements is made larger");
  }
  args.height = narrow(dims[2]), args.width = narrow(dims[3]);
  args.out_height = narrow(out[2]), args.out_width = narrow(out[3]);
  const bool linear = node.s("mode", "nearest") == "linear";
  Place low[2], high[2], part[2];
  for (size_t d = 0; d < 2; ++d) {
    const Samples samples = samples_of(node, dims[2 + d], out[2 + d], scales[2 + d]);
    low[d] = planner.constant(samples.low.data(), samples.low.size() * sizeof(int32_t));
    if (linear) {
      high[d] = planner.constant(samples.high.data(), samples.high.size() * sizeof(int32_t));
      part[d] = planner.constant(samples.part.data(), samples.part.size() * sizeof(float));
    }
  }
  const CUfunction function = planner.kernel(std::string("resize_") + suffix(planner.type(in)));
  const Place low_y = low[0], low_x = low[1], high_y = high[0], high_x = high[1], part_y = part[0],
              part_x = part[1];
  planner.step([=](const Launch& launch) {
    ResizeArguments now = args;
    now.in = launch.address(from);
    now.out = launch.address(to);
    now.low_y = static_cast<const int32_t*>(launch.address(low_y));
    now.low_x = static_cast<const int32_t*>(launch.address(low_x));
    now.high_y = static_cast<const int32_t*>(launch.address(high_y));
    now.high_x = static_cast<const int32_t*>(launch.address(high_x));
    now.part_y = static_cast<const float*>(launch.address(part_y));
    now.part_x = static_cast<const float*>(launch.address(part_x));
    launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
  });
}

const Registered kRegistered({
    {.type = "ConvTranspose", .supports = transposed, .plan = plan_conv_transpose},
    {.domain = "ephost", .type = "ConvTranspose", .supports = transposed, .plan = plan_conv_transpose},
    {.type = "LRN", .supports = first_output_only, .plan = plan_lrn},
    {.type = "Resize", .since = 11, .supports = resizable, .plan = plan_resize},
});

}  // namespace

}  // namespace ephost::cuda
