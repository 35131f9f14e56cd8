#include "window.h"

namespace ephost::cpu {

void expect(const Node& node, bool condition, const char* message) {
  if (!condition) {
    invalid(node.label() + ": " + message);
  }
}

Window window_of(const Node& node, const Dims& input, const Dims& kernel) {
  const size_t rank = kernel.size();
  expect(node, input.size() == rank + 2, "the input's rank does not fit the kernel's");
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
  for (size_t i = 0; i < rank; ++i) {
    expect(node, w.strides[i] > 0 && w.dilations[i] > 0 && w.kernel[i] > 0,
           "strides, dilations and kernel sizes are positive");
    if (mode == "VALID") {
      w.begin[i] = w.end[i] = 0;
    } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const int64_t out = (w.in[i] + w.strides[i] - 1) / w.strides[i];
      const int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + w.span(i) - w.in[i]);
      w.begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.end[i] = total - w.begin[i];
    }
    const int64_t room = w.in[i] + w.begin[i] + w.end[i] - w.span(i);
    expect(node, room >= 0, "the kernel is larger than the padded input");
    int64_t out = (ceil ? room + w.strides[i] - 1 : room) / w.strides[i] + 1;
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
