// Transposed convolutions of float32 in steps, one group, in one or two dimensions with channels last, by
// products of matrices. Outputs that are a step apart have the same taps, and what lies between two of them
// are, channels last, neighbours in memory: for each input pixel those are the columns of one product, whose
// rows are the inputs under the taps, as they lie.
#ifndef EPHOST_CPU_ENGINES_CONV_TRANSPOSED_H_
#define EPHOST_CPU_ENGINES_CONV_TRANSPOSED_H_

#include "cpu/engines/conv/window.h"
#include "cpu/engines/epilogue_rows.h"

namespace ephost::cpu {

// Whether a transposed convolution with these weights, [inputs][outputs][kernel...], is done so; depends on
// nothing that only shapes of inputs say.
bool is_deconv(const Dims& weights, const Dims& strides, const Dims& dilations, int64_t groups);
// The matrices; `constant` must have its content, unless they are there already.
std::shared_ptr<void> deconv_weights(const TensorPtr& constant, const Dims& strides);
bool has_deconv_weights(const TensorPtr& constant, const Dims& strides);
// The original made from them.
TensorPtr deconv_original(const TensorPtr& constant, const Dims& strides);
// Reads input 0, weights 1, bias 2 if `biased`, operands of the post-ops from input `operands` on, all of
// them with their channels last and as large as the output.
Kernel deconv(Prepare& p, const Window& window, const Dims& target, bool biased, const PostOps& post_ops,
              int operands);

// The same with kernels that are as large as the steps, and next to no outputs, which would leave a panel
// empty: each output is the dot product of a pixel with some weights.
bool is_dots(const Dims& weights, const Dims& strides, const Dims& dilations, int64_t groups);
// Where nothing is padded or cut away. Its weights are those that depthwise_weights makes.
Kernel deconv_by_dots(Prepare& p, const Window& window, const Dims& target, bool biased,
                      const PostOps& post_ops, int operands);

}  // namespace ephost::cpu

#endif
