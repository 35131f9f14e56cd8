// Convolutions with 3x3 kernels and steps of one by Winograd's method: tiles of the input are transformed,
// multiplied by transformed weights in each of their points, which is one matrix product for all tiles, and
// transformed back. Tiles of 4x4 outputs need a quarter of the multiplications and four times the memory for
// weights, tiles of 2x2 less than half and less than twice.
#ifndef EPHOST_CPU_ENGINES_CONV_WINOGRAD_H_
#define EPHOST_CPU_ENGINES_CONV_WINOGRAD_H_

#include "cpu/engines/conv/problem.h"
#include "cpu/engines/epilogue_rows.h"

namespace ephost::cpu {

// Outputs of a tile's side for these weights, or 0 where the method does not fit. Depends on nothing that
// only shapes of inputs say.
int winograd_tile(const ConvProblem& problem);
// Whether an output of this size is worth it.
bool winograd_worth(const ConvProblem& problem, int tile);
// The transformed weights; `constant` must have its content, unless they are there already.
std::shared_ptr<void> winograd_weights(const TensorPtr& constant, int tile);
bool has_winograd_weights(const TensorPtr& constant, int tile);
// The original made from them, to the last bits but one or two: for shapes that the method does not fit.
TensorPtr winograd_original(const TensorPtr& constant, int tile);
// Reads input 0, bias 2 if `biased`, operands from input `operands` on; all in this layout:
// channels last, or in blocks of eight.
Kernel winograd(Prepare& p, const ConvProblem& problem, int tile, Layout layout, bool biased,
                const std::vector<PostOp>& post_ops, int operands);

}  // namespace ephost::cpu

#endif
