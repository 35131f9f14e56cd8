// What ONNX had on trial up to opset 9 and is no other operator under another name: of images, whose sizes
// and channels have to fit the attributes.
#include "cpu/engines/strided.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

// What lies within a border, from the left, the top, the right and the bottom; or as much as `scale` says
// from the top and the left.
Kernel crop(Prepare& p) {
  const Dims& from = p.dims(0);
  p.expect(from.size() == 4, "the input is not images");
  const Ints border = p.node.ints("border"), size = p.node.ints("scale");
  Dims to = from;
  int64_t offset = 0;
  const Dims strides = strides_of(from);
  for (size_t i : {0, 1}) {
    const int64_t begin = border[1 - i], n = from[2 + i];
    const int64_t length = size.empty() ? n - begin - border[3 - i] : size[i];
    if (length < 0 || begin + length > n) {
      p.invalid("images of " + to_string(from) + " have no place for a border of " + to_string(border) +
                (size.empty() ? "" : " and a scale of " + to_string(size)));
    }
    to[2 + i] = length;
    offset += begin * strides[2 + i];
  }
  p.out(0, p.type(0), to);
  return copy_or_alias(p, {size_of(p.type(0)), to, strides, strides_of(to), offset});
}

std::string why_not_floats(const Node& node) {
  if (node.in(0) == nullptr || node.out() == nullptr) return "its input or output is left out";
  return node.in(0)->type == DType::kFloat ? "" : "its input is not float32";
}

std::string why_not_cropped(const Node& node) {
  if (std::string why = why_not_floats(node); !why.empty()) return why;
  const Ints border = node.ints("border"), size = node.ints("scale");
  if (border.size() != 4 || (!size.empty() && size.size() != 2)) return "its border or scale is incomplete";
  for (int64_t each : border) {
    if (each < 0 || each > INT32_MAX) return "its border is none";
  }
  for (int64_t each : size) {
    if (each <= 0 || each > INT32_MAX) return "its scale is none";
  }
  return "";
}

// A factor, and a bias for each channel.
Kernel scale_images(Prepare& p) {
  const Dims& dims = p.dims(0);
  p.expect(dims.size() == 4, "the input is not images");
  const std::vector<float> bias = p.node.floats("bias");
  if (static_cast<int64_t>(bias.size()) != dims[1]) {
    p.invalid(std::to_string(bias.size()) + " biases for channels of an input of shape " + to_string(dims));
  }
  const float scale = p.node.f("scale", 1);
  const int64_t planes = dims[0] * dims[1], plane = dims[2] * dims[3];
  p.out(0, p.type(0), dims);
  p.in_place(0, 0);
  return [=](const Args& args) {
    parallel_for(planes, kGrain / (plane + 1) + 1, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const float* const x = args.in<float>(0) + i * plane;
        float* const y = args.out<float>(0) + i * plane;
        const float term = bias[static_cast<size_t>(i) % bias.size()];
        for (int64_t k = 0; k < plane; ++k) y[k] = x[k] * scale + term;
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Crop", .supports = why_not_cropped, .prepare = crop, .types = {DType::kFloat}});
  registry->add(
      {.type = "ImageScaler", .supports = why_not_floats, .prepare = scale_images, .types = {DType::kFloat}});
});

}  // namespace ephost::cpu
