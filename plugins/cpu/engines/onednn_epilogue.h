// The chains of activations and additions of toolkit/passes/epilogue.h inside of oneDNN's primitives.
#ifndef EPHOST_CPU_ENGINES_ONEDNN_EPILOGUE_H_
#define EPHOST_CPU_ENGINES_ONEDNN_EPILOGUE_H_

#include "cpu/engines/onednn.h"
#include "toolkit/passes/epilogue.h"

namespace ephost::cpu {

// The chain for oneDNN. Additions read operands of these descriptors.
void add_post_ops(const PostOps& post_ops, const std::vector<dnn::Md>& operands, dnnl::primitive_attr* attr);

}  // namespace ephost::cpu

#endif
