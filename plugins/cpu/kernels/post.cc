#include "post.h"

#include <cmath>

namespace ephost::cpu {

std::vector<Post> posts_of(const Node& node) {
  if (!node.has("post")) {
    return {};
  }
  const std::vector<std::string> names = node.strings("post");
  const std::vector<float> alpha = node.floats("post_alpha"), beta = node.floats("post_beta");
  std::vector<Post> posts;
  for (size_t i = 0; i < names.size(); ++i) {
    posts.push_back({names[i], alpha.at(i), beta.at(i)});
  }
  return posts;
}

void append_post(Node* node, const Post& post) {
  std::vector<std::string> names;
  std::vector<float> alpha, beta;
  if (node->has("post")) {
    names = node->strings("post");
    alpha = node->floats("post_alpha");
    beta = node->floats("post_beta");
  }
  names.push_back(post.name);
  alpha.push_back(post.alpha);
  beta.push_back(post.beta);
  node->attributes["post"] = names;
  node->attributes["post_alpha"] = alpha;
  node->attributes["post_beta"] = beta;
}

std::optional<Post> activation(const Node& node) {
  if (!node.domain.empty() || node.inputs.empty() || node.inputs[0] == nullptr) {
    return std::nullopt;
  }
  const std::string& type = node.type;
  if (type == "Relu") return Post{"relu", 0, 0};
  if (type == "LeakyRelu") return Post{"relu", node.f("alpha", 0.01f), 0};
  if (type == "Sigmoid") return Post{"sigmoid", 0, 0};
  if (type == "Tanh") return Post{"tanh", 0, 0};
  if (type == "Elu") return Post{"elu", node.f("alpha", 1.0f), 0};
  if (type == "Softplus") return Post{"softplus", 1, 0};
  if (type == "HardSigmoid") return Post{"hardsigmoid", node.f("alpha", 0.2f), node.f("beta", 0.5f)};
  if (type == "HardSwish") return Post{"hardswish", 1.0f / 6, 0.5f};
  if (type == "Mish") return Post{"mish", 0, 0};
  if (type == "Gelu") {
    return Post{node.s("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu_erf", 0, 0};
  }
  if (type == "Clip") {
    float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
    if (node.version < 11) {
      low = node.f("min", low);
      high = node.f("max", high);
    } else if ((node.in(1) != nullptr && !scalar(node.in(1), &low)) ||
               (node.in(2) != nullptr && !scalar(node.in(2), &high))) {
      return std::nullopt;
    }
    if (!(low <= high)) {
      return std::nullopt;
    }
    return Post{"clip", low, high};
  }
  return std::nullopt;
}

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
      ops.append_binary(post.name == "add" ? Algorithm::binary_add : Algorithm::binary_mul,
                        operands.at(next++));
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
    const bool add = post.name == "add";
    parallel_for(n, kGrain / 8, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        int64_t rest = i, at = 0;
        for (size_t d = dims.size(); d-- > 0;) {
          at += rest % dims[d] * steps[d];
          rest /= dims[d];
        }
        values[i] = add ? values[i] + data[at] : values[i] * data[at];
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
