// Convolutions of float32 of each channel, or of a few of them, on their own, in one to three dimensions with
// channels last, by bands of lines. In an image with its channels last, pixels of one channel lie so far
// apart that few of them fit into the first cache at once, so some channels at a time are copied to where
// they are next to each other.
#ifndef EPHOST_CPU_ENGINES_CONV_DEPTHWISE_H_
#define EPHOST_CPU_ENGINES_CONV_DEPTHWISE_H_

#include "cpu/engines/conv/window.h"
#include "cpu/engines/epilogue_rows.h"

namespace ephost::cpu {

// Whether a convolution with weights of these dimensions is one; depends on nothing that only shapes of
// inputs say.
bool is_depthwise(const Dims& weights, int64_t groups);
// The weights as [taps][group][channels], from `original` where that is given; else `constant` must have its
// content, unless they are there already.
std::shared_ptr<void> depthwise_weights(const TensorPtr& constant, const TensorPtr& original = nullptr);
bool has_depthwise_weights(const TensorPtr& constant);
// The original made from them.
TensorPtr depthwise_original(const TensorPtr& constant);
// Reads input 0, weights 1, bias 2 if `biased`, operands of the post-ops from input `operands` on, all of
// them with their channels last and as large as the output.
Kernel depthwise(Prepare& p, const Window& window, const Dims& target, bool biased, const PostOps& post_ops,
                 int operands);

}  // namespace ephost::cpu

#endif
