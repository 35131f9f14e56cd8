// What a convolution or matrix product does to its output before it writes it: a chain of activations and
// additions that passes took out of the graph ("ephost.Conv", "ephost.MatMul", ...). A node holds the chain
// in three attributes:
//   post                   names, in order: "add" takes one more input, the others are activations.
//   post_alpha, post_beta  the activations' parameters, one of each for every name.
#ifndef EPHOST_COMPILER_POST_H_
#define EPHOST_COMPILER_POST_H_

#include <optional>

#include "graph.h"

namespace ephost {

struct Post {
  // relu (alpha: the slope below 0), sigmoid, tanh, elu (alpha), softplus, hardsigmoid (alpha x + beta
  // between 0 and 1), hardswish (x times that), mish, gelu_tanh, gelu_erf, clip (between alpha and beta),
  // swish (x sigmoid(alpha x)), linear (alpha x + beta); add.
  std::string name;
  float alpha = 0, beta = 0;
  bool binary() const { return name == "add"; }
};

std::vector<Post> posts_of(const Node& node);
// Adds to the chain of a node.
void append_post(Node* node, const Post& post);
// The activation that this node is, if it is one that can be part of a chain: its parameters are constants,
// and its first input is what it works on.
std::optional<Post> activation(const Node& node);

// The passes that make such nodes. Each may be run on its own, and again.

// Folds what follows a Conv or ConvTranspose with constant weights into the weights and the bias:
// BatchNormalization, and products and sums with a constant for each channel. Folds constant padding in
// front.
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
