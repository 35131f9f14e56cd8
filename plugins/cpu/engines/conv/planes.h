// Convolutions of float32 whose outputs have few input channels each, on plain images with steps of 1 along
// rows: some output channels and some pixels of a row at a time, in registers. For wide kernels, as along a
// signal's time, oneDNN multiplies matrices that it copies the windows to.
#ifndef EPHOST_CPU_ENGINES_CONV_PLANES_H_
#define EPHOST_CPU_ENGINES_CONV_PLANES_H_

#include "cpu/engines/conv/problem.h"
#include "cpu/engines/epilogue_rows.h"

namespace ephost::cpu {

// Whether a convolution is one, by what does not depend on the shapes of inputs.
bool is_planes(const ConvProblem& problem);
// The weights in the model's order; `constant` must have its content, unless they are there already.
std::shared_ptr<void> plane_weights(const TensorPtr& constant);
bool has_plane_weights(const TensorPtr& constant);
// The original made from them.
TensorPtr plane_original(const TensorPtr& constant);
// Reads input 0, weights 1, bias 2 if the problem says so, operands of the post-ops from input `operands` on,
// as large as the output, which is at least kPlaneWidth wide.
Kernel planes(Prepare& p, const ConvProblem& problem, const std::vector<PostOp>& post_ops, int operands);

}  // namespace ephost::cpu

#endif
