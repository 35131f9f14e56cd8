#include "post.h"

#include <limits>

namespace ephost {

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
  for (const Post& have : posts_of(*node)) {
    names.push_back(have.name);
    alpha.push_back(have.alpha);
    beta.push_back(have.beta);
  }
  names.push_back(post.name);
  alpha.push_back(post.alpha);
  beta.push_back(post.beta);
  node->attributes["post"] = names;
  node->attributes["post_alpha"] = alpha;
  node->attributes["post_beta"] = beta;
}

std::optional<Post> activation(const Node& node) {
  if (!node.domain.empty() || node.in(0) == nullptr) {
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

}  // namespace ephost
