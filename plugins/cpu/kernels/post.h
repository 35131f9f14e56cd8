// The chains of activations and additions of compiler/post.h, for kernels.
#ifndef EPHOST_CPU_POST_H_
#define EPHOST_CPU_POST_H_

#include "../../compiler/post.h"
#include "dnn.h"

namespace ephost::cpu {

// The chain for oneDNN. Additions read operands of these descriptors.
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
