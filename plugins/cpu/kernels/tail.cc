#include "tail.h"

namespace ephost::cpu {

Tail::Tail(const std::vector<Post>& posts) {
  static const std::unordered_map<std::string, Op> kOperations = {
      {"sigmoid", Op::kSigmoid},
      {"tanh", Op::kTanh},
      {"elu", Op::kElu},
      {"softplus", Op::kSoftplus},
      {"hardsigmoid", Op::kHardSigmoid},
      {"mish", Op::kMish},
      {"gelu_tanh", Op::kGeluTanh},
      {"gelu_erf", Op::kGelu},
      {"clip", Op::kClip},
      {"swish", Op::kSwish},
      {"linear", Op::kAffine},
      {"add", Op::kAdd},
  };
  const Simd& table = simd();
  const auto add = [&](Op op, float a, float b) {
    steps_.push_back({table.ops[static_cast<int>(op)], {a, b}, op == Op::kAdd});
  };
  for (const Post& post : posts) {
    if (post.name == "relu") {
      add(post.alpha == 0 ? Op::kRelu : Op::kLeakyRelu, post.alpha, 0);
    } else if (post.name == "hardswish") {
      // The only one that models have.
      add(Op::kHardSwish, 0, 0);
    } else {
      add(kOperations.at(post.name), post.alpha, post.beta);
    }
  }
}

void Tail::run(float* out, const float* const* operands, int64_t offset, int64_t n) const {
  for (const Step& step : steps_) {
    const void* in[2] = {out + offset, nullptr};
    if (step.binary) {
      in[1] = *operands++ + offset;
    }
    step.function(in, out + offset, n, step.params);
  }
}

}  // namespace ephost::cpu
