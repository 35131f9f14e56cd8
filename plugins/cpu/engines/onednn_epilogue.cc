#include "cpu/engines/onednn_epilogue.h"

#include <unordered_map>

namespace ephost::cpu {

namespace {

using Algorithm = dnnl::algorithm;

// oneDNN's name of an activation with 1 in the last column of the table.
Algorithm algorithm_of(Activation activation) {
  static const std::unordered_map<Activation, Algorithm> kAlgorithms = {
      {Activation::kRelu, Algorithm::eltwise_relu},
      {Activation::kLeakyRelu, Algorithm::eltwise_relu},
      {Activation::kElu, Algorithm::eltwise_elu},
      {Activation::kHardSigmoid, Algorithm::eltwise_hardsigmoid},
      {Activation::kHardSwish, Algorithm::eltwise_hardswish},
      {Activation::kSigmoid, Algorithm::eltwise_logistic},
      {Activation::kTanh, Algorithm::eltwise_tanh},
      {Activation::kSoftplus, Algorithm::eltwise_soft_relu},
      {Activation::kMish, Algorithm::eltwise_mish},
      {Activation::kGelu, Algorithm::eltwise_gelu_erf},
      {Activation::kGeluTanh, Algorithm::eltwise_gelu_tanh},
      {Activation::kSwish, Algorithm::eltwise_swish},
      {Activation::kClip, Algorithm::eltwise_clip},
      {Activation::kAffine, Algorithm::eltwise_linear},
  };
  return kAlgorithms.at(activation);
}

}  // namespace

void add_post_ops(const PostOps& post_ops, const std::vector<dnn::Md>& operands, dnnl::primitive_attr* attr) {
  dnnl::post_ops ops;
  size_t next = 0;
  for (const PostOp& post_op : post_ops) {
    if (post_op.binary()) {
      ops.append_binary(Algorithm::binary_add, operands.at(next++));
    } else {
      // oneDNN's is log(1 + exp(alpha x)) / alpha.
      const float alpha = post_op.is(Activation::kSoftplus) ? 1 : post_op.alpha;
      ops.append_eltwise(algorithm_of(*post_op.activation), alpha, post_op.beta);
    }
  }
  attr->set_post_ops(ops);
}

}  // namespace ephost::cpu
