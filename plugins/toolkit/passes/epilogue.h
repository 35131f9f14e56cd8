// What a convolution or matrix product does to its output before it writes it: a chain of activations and
// additions that passes took out of the graph ("ephost.Conv", "ephost.MatMul", ...). A node holds the chain
// in three attributes:
//   post                   names, in order: "Add" takes one more input, the others are activations
//                          (activation_table.h).
//   post_alpha, post_beta  the activations' parameters, one of each for every name.
#ifndef EPHOST_TOOLKIT_PASSES_EPILOGUE_H_
#define EPHOST_TOOLKIT_PASSES_EPILOGUE_H_

#include <optional>

#include "toolkit/activations.h"

namespace ephost {

struct PostOp {
  std::optional<Activation> activation;  // None: an addition.
  float alpha = 0, beta = 0;             // What the table calls a and b.

  static PostOp add() { return {}; }
  bool binary() const { return !activation.has_value(); }
  bool is(Activation one) const { return activation == one; }
};

using PostOps = SmallVector<PostOp, 2>;

PostOps post_ops_of(const Node& node);
// Adds to the chain of a node.
void append_post_op(Node* node, const PostOp& post_op);
// The activation that this node is, if it is one that can be part of a chain.
std::optional<PostOp> activation(const Node& node);

// The passes that make such nodes. Each may be run on its own, and again.

// Folds what follows a Conv or ConvTranspose with constant weights into the weights and the bias:
// BatchNormalization, products, quotients, sums and differences with a constant for each channel. Hosts do
// that with BatchNormalization behind convolutions whose weights the model has, and with Mul, Add (and Pad in
// front) where it is a Conv. What is left is for plugins: weights that were dequantised here, Sub and Div,
// and Mul and Add behind a ConvTranspose.
void fold_into_convolutions(Graph* graph);
// Makes "ephost.Conv" and "ephost.ConvTranspose" of convolutions with activations and an addition behind
// them. Inputs: x, weights, bias or none, one for each "add".
void fuse_convolutions(Graph* graph);
// Makes "ephost.ChannelAffine" (x, factor, term: one element for each channel) of the BatchNormalizations
// that are left, with products, sums, and a Relu or Clip behind them.
void fuse_batch_norms(Graph* graph);
// Makes "ephost.MatMul" of MatMul and Gemm: a, b, bias for each column or none, one for each "add";
// attributes transA and transB (of the last two dimensions).
void fuse_products(Graph* graph);

}  // namespace ephost

#endif
