// Convolutions of float32 on plain images, transposed or not, whose outputs have few input channels each:
// some output channels and some pixels of a row at a time, in registers. Other ways fill vectors of channels
// up, or multiply matrices that they copy the windows to.
//
// Along rows steps are 1. Of a transposed convolution with steps, outputs that are a step apart have the same
// taps: each set of them is a row of a convolution with steps of 1.
#ifndef EPHOST_CPU_ENGINES_CONV_PLANES_H_
#define EPHOST_CPU_ENGINES_CONV_PLANES_H_

#include "cpu/engines/conv/problem.h"
#include "cpu/engines/epilogue_rows.h"

namespace ephost::cpu {

// Whether a convolution is one, by what does not depend on the shapes of inputs.
bool is_planes(const ConvProblem& problem);
// The weights by sets of outputs; `constant` must have its content, unless they are there already.
std::shared_ptr<void> plane_weights(const TensorPtr& constant, const ConvProblem& problem);
bool has_plane_weights(const TensorPtr& constant, const ConvProblem& problem);
// The original made from them.
TensorPtr plane_original(const TensorPtr& constant, const ConvProblem& problem);
// Reads input 0, weights 1, bias 2 if the problem says so, operands of the post-ops from input `operands` on,
// as large as the output.
Kernel planes(Prepare& p, const ConvProblem& problem, const PostOps& post_ops, int operands);

}  // namespace ephost::cpu

#endif
