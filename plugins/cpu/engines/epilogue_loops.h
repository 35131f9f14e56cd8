// The chains of activations and additions of toolkit/passes/epilogue.h on whole plain tensors: for shapes
// that kernels do not do while they compute.
#ifndef EPHOST_CPU_ENGINES_EPILOGUE_LOOPS_H_
#define EPHOST_CPU_ENGINES_EPILOGUE_LOOPS_H_

#include "cpu/operator.h"
#include "toolkit/passes/epilogue.h"

namespace ephost::cpu {

// What an activation of a chain makes of a number.
float apply_post_op(const PostOp& post_op, float x);
// The chain, with operands that are broadcast to the output. `values` holds count(dims) elements.
void apply_post_ops(const PostOps& post_ops, const std::vector<Dims>& operand_dims,
                    const std::vector<const float*>& operands, const Dims& dims, float* values);
// The shape of the output after the chain: operands may be larger than it was.
Dims posted(const std::vector<Dims>& operand_dims, const Dims& dims);

}  // namespace ephost::cpu

#endif
