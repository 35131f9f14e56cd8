#include "cpu/engines/conv/problem.h"

#include <algorithm>

namespace ephost::cpu {

ConvProblem convolution(const Node& node, const Dims& source, const Dims& weights) {
  ConvProblem c;
  c.source = source;
  c.weights = weights;
  c.groups = node.i("group", 1);
  c.biased = node.in(2) != nullptr;
  expect(node, c.weights.size() >= 3 && c.source.size() == c.weights.size(),
         "input and weights have the same rank, at least 3");
  expect(node,
         is_group_count(c.groups) && c.source[1] == c.weights[1] * c.groups && c.weights[0] % c.groups == 0,
         "the channels of input, weights and groups do not fit each other");
  c.window = window_of(node, c.source, Dims(c.weights.begin() + 2, c.weights.end()));
  c.target = {c.source[0], c.weights[0]};
  c.target.insert(c.target.end(), c.window.out.begin(), c.window.out.end());
  return c;
}

ConvProblem transposed_convolution(const Node& node, const Dims& source, const Dims& weights) {
  ConvProblem c;
  c.transposed = true;
  c.source = source;
  c.weights = weights;
  c.groups = node.i("group", 1);
  c.biased = node.in(2) != nullptr;
  expect(node, c.weights.size() >= 3 && c.source.size() == c.weights.size(),
         "input and weights have the same rank, at least 3");
  expect(node, is_group_count(c.groups) && c.source[1] == c.weights[0] && c.weights[0] % c.groups == 0,
         "the channels of input, weights and groups do not fit each other");
  const size_t rank = c.weights.size() - 2;
  Window& w = c.window;
  w.in.assign(c.source.begin() + 2, c.source.end());
  w.kernel.assign(c.weights.begin() + 2, c.weights.end());
  expect(node, node.ints("kernel_shape", w.kernel) == w.kernel, "kernel_shape is not what the weights have");
  w.strides = node.ints("strides", Dims(rank, 1));
  w.dilations = node.ints("dilations", Dims(rank, 1));
  const Dims extra = node.ints("output_padding", Dims(rank, 0));
  const Dims shape = node.ints("output_shape");
  const Dims pads = node.ints("pads", Dims(2 * rank, 0));
  expect(node,
         w.strides.size() == rank && w.dilations.size() == rank && pads.size() == 2 * rank &&
             extra.size() == rank && (shape.empty() || shape.size() >= rank),
         "strides, dilations, pads or output sizes do not fit the kernel's rank");
  const std::string mode = node.s("auto_pad", "NOTSET");
  for (size_t i = 0; i < rank; ++i) {
    expect(node, w.strides[i] > 0 && w.dilations[i] > 0 && w.kernel[i] > 0,
           "strides, dilations and kernel sizes are positive");
    for (int64_t size : {w.in[i], w.kernel[i], w.strides[i], w.dilations[i], w.span(i), extra[i], pads[i],
                         pads[rank + i], shape.empty() ? 0 : shape[shape.size() - rank + i]}) {
      expect(node, -kMostInWindow <= size && size <= kMostInWindow,
             "sizes, strides, dilations and pads are below 2^31");
    }
    const int64_t full = (w.in[i] - 1) * w.strides[i] + w.span(i) + extra[i];
    int64_t begin = pads[i], out = full - pads[i] - pads[rank + i];
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (!shape.empty() || same) {
      out = shape.empty() ? w.in[i] * w.strides[i] : shape[shape.size() - rank + i];
      const int64_t total = std::max<int64_t>(0, full - out);
      begin = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else if (mode == "VALID") {
      begin = 0;
      out = full;
    }
    expect(node, out >= 0, "the pads are larger than the output");
    w.begin.push_back(begin);
    w.end.push_back((w.in[i] - 1) * w.strides[i] + w.span(i) - begin - out);
    w.out.push_back(out);
  }
  c.target = {c.source[0], c.weights[1] * c.groups};
  c.target.insert(c.target.end(), w.out.begin(), w.out.end());
  return c;
}

namespace {

void exchange(ConvProblem* c) {
  for (Dims* dims : {&c->source, &c->weights, &c->target}) std::swap((*dims)[2], (*dims)[3]);
  Window& w = c->window;
  for (Dims* dims : {&w.in, &w.out, &w.kernel, &w.strides, &w.dilations, &w.begin, &w.end}) {
    std::swap((*dims)[0], (*dims)[1]);
  }
  c->turned = !c->turned;
}

}  // namespace

ConvProblem turned(ConvProblem c) {
  const Window& w = c.window;
  const bool is_column =
      w.rank() == 2 && w.in[1] == 1 && w.out[1] == 1 && w.kernel[1] == 1 && w.begin[1] == 0 && w.end[1] == 0;
  if (is_column && !c.turned) exchange(&c);
  return c;
}

ConvProblem unturned(ConvProblem c) {
  if (c.turned) exchange(&c);
  return c;
}

}  // namespace ephost::cpu
