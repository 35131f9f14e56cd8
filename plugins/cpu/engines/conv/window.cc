#include "cpu/engines/conv/window.h"

namespace ephost::cpu {

namespace {

// Of one dimension's numbers: sums and products of two of them fit into 64 bits.
constexpr int64_t kMost = kMostInWindow;

}  // namespace

void expect(const Node& node, bool condition, const char* message) {
  if (!condition) {
    invalid(node.label() + ": " + message);
  }
}

Window window_of(const Node& node, const Dims& input, const Dims& kernel, bool larger) {
  const size_t rank = kernel.size();
  expect(node, input.size() == rank + 2, "the input's rank does not fit the kernel's");
  expect(node, node.ints("kernel_shape", kernel) == kernel, "kernel_shape is not what the weights have");
  Window w;
  w.in.assign(input.begin() + 2, input.end());
  w.kernel = kernel;
  w.strides = node.ints("strides", Dims(rank, 1));
  w.dilations = node.ints("dilations", Dims(rank, 1));
  const Dims pads = node.ints("pads", Dims(2 * rank, 0));
  expect(node, w.strides.size() == rank && w.dilations.size() == rank && pads.size() == 2 * rank,
         "strides, dilations or pads do not fit the kernel's rank");
  w.begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(rank));
  w.end.assign(pads.begin() + static_cast<ptrdiff_t>(rank), pads.end());
  const std::string mode = node.s("auto_pad", "NOTSET");
  const bool ceil = node.i("ceil_mode", 0) != 0;
  double taps = 1;
  for (size_t i = 0; i < rank; ++i) {
    expect(node, w.strides[i] > 0 && w.dilations[i] > 0 && w.kernel[i] > 0,
           "strides, dilations and kernel sizes are positive");
    expect(node, w.strides[i] <= kMost && w.dilations[i] <= kMost && w.kernel[i] <= kMost,
           "strides, dilations and kernel sizes are below 2^31");
    expect(node,
           -kMost <= w.begin[i] && w.begin[i] <= kMost && -kMost <= w.end[i] && w.end[i] <= kMost &&
               w.in[i] <= kMost,
           "pads and sizes are below 2^31");
    expect(node, w.span(i) <= kMost, "the dilated kernel spans more than 2^31 elements");
    taps *= static_cast<double>(w.kernel[i]);
    expect(node, taps <= static_cast<double>(kMost), "the kernel has more than 2^31 elements");
    if (mode == "VALID") {
      w.begin[i] = w.end[i] = 0;
    } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const int64_t out = (w.in[i] + w.strides[i] - 1) / w.strides[i];
      const int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + w.span(i) - w.in[i]);
      w.begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.end[i] = total - w.begin[i];
    }
    const int64_t room = w.in[i] + w.begin[i] + w.end[i] - w.span(i);
    expect(node, room >= 0 || larger, "the kernel is larger than the padded input");
    int64_t out = (ceil ? room + w.strides[i] - 1 : room) / w.strides[i] + 1;
    expect(node, out >= 0, "the kernel is larger than the padded input by more than a stride");
    if (ceil && (out - 1) * w.strides[i] >= w.in[i] + w.begin[i]) {
      --out;  // A window that would begin behind the input.
    }
    w.out.push_back(out);
  }
  return w;
}

int64_t reach(const Window& w, size_t i) {
  return (w.out[i] - 1) * w.strides[i] + w.span(i) - w.in[i] - w.begin[i];
}

}  // namespace ephost::cpu
