// Convolutions of float32 of every kind, transposed ones too, by products of matrices, channels last: the
// inputs under the taps of some pixels are the rows that weights in panels are multiplied with. They are read
// where they lie in lines of pixels whose windows are inside of the image, or are single pixels; others are
// copied.
#ifndef EPHOST_CPU_ENGINES_CONV_MATRICES_H_
#define EPHOST_CPU_ENGINES_CONV_MATRICES_H_

#include "cpu/engines/conv/problem.h"
#include "cpu/engines/epilogue_rows.h"

namespace ephost::cpu {

// The weights of each group in panels (see GemmBlock), rows by taps, then inputs; `constant` must have its
// content or a packed form of another implementation, unless they are there already.
std::shared_ptr<void> matrix_weights(const TensorPtr& constant, const ConvProblem& problem);
bool has_matrix_weights(const TensorPtr& constant, const ConvProblem& problem);
// The original made from them.
TensorPtr matrix_original(const TensorPtr& constant, const ConvProblem& problem);
// Reads input 0, weights 1, bias 2 if the problem says so, operands of the post-ops from input `operands` on.
// Weights that are no constant are packed in each run.
Kernel matrices(Prepare& p, const ConvProblem& problem, const PostOps& post_ops, int operands);

}  // namespace ephost::cpu

#endif
