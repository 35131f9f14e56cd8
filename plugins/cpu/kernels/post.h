// What a convolution or matrix product does to its output before it writes it: a chain of activations and
// additions that the passes took out of the graph. A node holds the chain in three attributes:
//   post        names, in order: "add" and "mul" take one more input each, the others are activations.
//   post_alpha, post_beta  the activations' parameters, one of each for every name.
#ifndef EPHOST_CPU_POST_H_
#define EPHOST_CPU_POST_H_

#include "dnn.h"

namespace ephost::cpu {

struct Post {
  std::string name;
  float alpha = 0, beta = 0;
  bool binary() const { return name == "add" || name == "mul"; }
};

std::vector<Post> posts_of(const Node& node);
// Adds a name to the chain of a node.
void append_post(Node* node, const Post& post);
// The activation that this node is, if it is one that can be part of a chain: its parameters are constants.
std::optional<Post> activation(const Node& node);
// The same chain for oneDNN. Binary ones read operands of these descriptors.
void add_posts(const std::vector<Post>& posts, const std::vector<dnn::Md>& operands,
               dnnl::primitive_attr* attr);
// The same chain, slowly, on plain tensors, with operands that are broadcast to the output: for shapes that
// oneDNN does not do. `values` holds count(dims) elements.
void apply_posts(const std::vector<Post>& posts, const std::vector<Dims>& operand_dims,
                 const std::vector<const float*>& operands, const Dims& dims, float* values);
// The shape of the output after the chain: operands may be larger than it was.
Dims posted(const std::vector<Dims>& operand_dims, const Dims& dims);

}  // namespace ephost::cpu

#endif
