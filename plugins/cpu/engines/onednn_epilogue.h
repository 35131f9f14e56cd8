// The chains of activations and additions of toolkit/passes/epilogue.h, for kernels.
#ifndef EPHOST_CPU_ENGINES_ONEDNN_EPILOGUE_H_
#define EPHOST_CPU_ENGINES_ONEDNN_EPILOGUE_H_

#include "cpu/engines/onednn.h"
#include "toolkit/passes/epilogue.h"

namespace ephost::cpu {

// The chain for oneDNN. Additions read operands of these descriptors.
void add_post_ops(const std::vector<PostOp>& post_ops, const std::vector<dnn::Md>& operands,
                  dnnl::primitive_attr* attr);
// What an activation of a chain makes of a number.
float apply_post_op(const PostOp& post_op, float x);
// The same chain, slowly, on plain tensors, with operands that are broadcast to the output: for shapes that
// oneDNN does not do. `values` holds count(dims) elements.
void apply_post_ops(const std::vector<PostOp>& post_ops, const std::vector<Dims>& operand_dims,
                    const std::vector<const float*>& operands, const Dims& dims, float* values);
// The shape of the output after the chain: operands may be larger than it was.
Dims posted(const std::vector<Dims>& operand_dims, const Dims& dims);

}  // namespace ephost::cpu

#endif
