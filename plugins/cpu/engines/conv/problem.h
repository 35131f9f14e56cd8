// A convolution of a node, transposed or not, with all that its attributes and shapes say.
#ifndef EPHOST_CPU_ENGINES_CONV_PROBLEM_H_
#define EPHOST_CPU_ENGINES_CONV_PROBLEM_H_

#include "cpu/engines/conv/window.h"

namespace ephost::cpu {

struct ConvProblem {
  Window window;
  Dims source, weights, target;  // As ONNX has them.
  int64_t groups = 1;
  bool transposed = false, biased = false;
  bool turned = false;  // See `turned`.
};

// Of Conv and ConvTranspose. Error(ORT_INVALID_ARGUMENT) that names the node where shapes do not fit each
// other.
ConvProblem convolution(const Node& node, const Dims& source, const Dims& weights);
ConvProblem transposed_convolution(const Node& node, const Dims& source, const Dims& weights);

// A column as a line: where the width is 1, height and width change places. No byte of any layout moves, but
// oneDNN's kernels for AVX2 compute several columns at a time, and never several lines: for one column they
// take three times as long.
ConvProblem turned(ConvProblem problem);
// As it was before that.
ConvProblem unturned(ConvProblem problem);

}  // namespace ephost::cpu

#endif
