#include "post.h"

#include <algorithm>
#include <cmath>

namespace ephost::cpu {

void add_posts(const std::vector<Post>& posts, const std::vector<dnn::Md>& operands,
               dnnl::primitive_attr* attr) {
  using Algorithm = dnnl::algorithm;
  static const std::unordered_map<std::string, Algorithm> kAlgorithms = {
      {"relu", Algorithm::eltwise_relu},           {"sigmoid", Algorithm::eltwise_logistic},
      {"tanh", Algorithm::eltwise_tanh},           {"elu", Algorithm::eltwise_elu},
      {"softplus", Algorithm::eltwise_soft_relu},  {"hardsigmoid", Algorithm::eltwise_hardsigmoid},
      {"hardswish", Algorithm::eltwise_hardswish}, {"mish", Algorithm::eltwise_mish},
      {"gelu_tanh", Algorithm::eltwise_gelu_tanh}, {"gelu_erf", Algorithm::eltwise_gelu_erf},
      {"clip", Algorithm::eltwise_clip},           {"swish", Algorithm::eltwise_swish},
      {"linear", Algorithm::eltwise_linear},
  };
  dnnl::post_ops ops;
  size_t next = 0;
  for (const Post& post : posts) {
    if (post.binary()) {
      ops.append_binary(Algorithm::binary_add, operands.at(next++));
    } else {
      ops.append_eltwise(kAlgorithms.at(post.name), post.alpha, post.beta);
    }
  }
  attr->set_post_ops(ops);
}

namespace {

float apply(const Post& post, float x) {
  const auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
  if (post.name == "relu") return x < 0 ? x * post.alpha : x;
  if (post.name == "sigmoid") return sigmoid(x);
  if (post.name == "tanh") return std::tanh(x);
  if (post.name == "elu") return x < 0 ? post.alpha * std::expm1(x) : x;
  if (post.name == "softplus") return x > 30 ? x : std::log1p(std::exp(x));
  if (post.name == "hardsigmoid") return std::clamp(post.alpha * x + post.beta, 0.0f, 1.0f);
  if (post.name == "hardswish") return x * std::clamp(post.alpha * x + post.beta, 0.0f, 1.0f);
  if (post.name == "mish") return x * std::tanh(x > 30 ? x : std::log1p(std::exp(x)));
  if (post.name == "gelu_tanh") {
    return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  }
  if (post.name == "gelu_erf") return 0.5f * x * (1 + std::erf(x * 0.7071067812f));
  if (post.name == "clip") return std::clamp(x, post.alpha, post.beta);
  if (post.name == "swish") return x * sigmoid(post.alpha * x);
  return post.alpha * x + post.beta;  // "linear"
}

}  // namespace

void apply_posts(const std::vector<Post>& posts, const std::vector<Dims>& operand_dims,
                 const std::vector<const float*>& operands, const Dims& dims, float* values) {
  const int64_t n = count(dims);
  size_t next = 0;
  for (const Post& post : posts) {
    if (!post.binary()) {
      parallel_for(n, kGrain / 16, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) values[i] = apply(post, values[i]);
      });
      continue;
    }
    // The operand's step along each dimension of the output: 0 where it is broadcast.
    const Dims& from = operand_dims[next];
    const float* data = operands[next++];
    Dims steps(dims.size(), 0);
    int64_t step = 1;
    for (size_t i = from.size(); i-- > 0;) {
      steps[i + dims.size() - from.size()] = from[i] == 1 ? 0 : step;
      step *= from[i];
    }
    parallel_for(n, kGrain / 8, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        int64_t rest = i, at = 0;
        for (size_t d = dims.size(); d-- > 0;) {
          at += rest % dims[d] * steps[d];
          rest /= dims[d];
        }
        values[i] += data[at];
      }
    });
  }
}

Dims posted(const std::vector<Dims>& operand_dims, const Dims& dims) {
  Dims out = dims;
  for (const Dims& operand : operand_dims) {
    if (operand.size() > out.size()) {
      out.insert(out.begin(), operand.size() - out.size(), 1);
    }
    for (size_t i = 0; i < operand.size(); ++i) {
      int64_t& dim = out[i + out.size() - operand.size()];
      if (dim != operand[i] && dim != 1 && operand[i] != 1) {
        invalid("shapes " + to_string(dims) + " and " + to_string(operand) + " do not fit each other");
      }
      dim = dim == 1 ? operand[i] : dim;
    }
  }
  return out;
}

}  // namespace ephost::cpu
