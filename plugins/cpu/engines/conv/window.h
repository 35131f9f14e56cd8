// Sliding windows, as convolutions and pooling have them: strides, dilations and pads of the model's
// attributes.
#ifndef EPHOST_CPU_ENGINES_CONV_WINDOW_H_
#define EPHOST_CPU_ENGINES_CONV_WINDOW_H_

#include "cpu/operator.h"

namespace ephost::cpu {

// Of a size, a stride or a pad: products of two do not overflow.
constexpr int64_t kMostInWindow = (int64_t{1} << 31) - 1;

struct Window {
  Dims in, out, kernel, strides, dilations, begin, end;  // Of the spatial dimensions.

  size_t rank() const { return in.size(); }
  // What the kernel spans with its dilation.
  int64_t span(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

// Error(ORT_INVALID_ARGUMENT) that names the node.
void expect(const Node& node, bool condition, const char* message);
// Whether there may be so many groups: times a number of channels they do not overflow.
inline bool is_group_count(int64_t groups) { return 0 < groups && groups <= kMostInWindow; }
// The window of a node over an input of shape [N, C, spatial...]. `end` is what was asked for, less or more
// where `ceil_mode` makes the last windows reach further: see `reach`. Where a kernel may be `larger` than
// the padded input, by less than a stride, it is cut as such windows are: so onnxruntime pools.
Window window_of(const Node& node, const Dims& input, const Dims& kernel, bool larger = false);
// Pads at the end with which the output size comes out exactly, negative where input at the end is not read.
int64_t reach(const Window& window, size_t i);

}  // namespace ephost::cpu

#endif
