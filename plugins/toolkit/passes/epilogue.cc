#include "toolkit/passes/epilogue.h"

namespace ephost {
namespace {

constexpr char kAdd[] = "Add";

}  // namespace

PostOps post_ops_of(const Node& node) {
  if (!node.has("post")) {
    return {};
  }
  const std::vector<std::string>& names = node.strings("post");
  const std::vector<float>&alpha = node.floats("post_alpha"), &beta = node.floats("post_beta");
  PostOps post_ops;
  for (size_t i = 0; i < names.size(); ++i) {
    const ActivationRow* row = activation_named(names[i]);
    if (row == nullptr && names[i] != kAdd) {
      invalid(node.label() + ": there is no activation '" + names[i] + "'");
    }
    post_ops.push_back(row == nullptr ? PostOp::add() : PostOp{row->activation, alpha.at(i), beta.at(i)});
  }
  return post_ops;
}

void append_post_op(Node* node, const PostOp& post_op) {
  std::vector<std::string> names = node->strings("post");
  std::vector<float> alpha = node->floats("post_alpha"), beta = node->floats("post_beta");
  names.emplace_back(post_op.binary() ? kAdd : row_of(*post_op.activation).name);
  alpha.push_back(post_op.alpha);
  beta.push_back(post_op.beta);
  node->attributes["post"] = names;
  node->attributes["post_alpha"] = alpha;
  node->attributes["post_beta"] = beta;
}

std::optional<PostOp> activation(const Node& node) {
  const std::optional<Activated> found = activation_of(node);
  if (!found.has_value() || !row_of(found->activation).epilogue) {
    return std::nullopt;
  }
  return PostOp{found->activation, found->a, found->b};
}

}  // namespace ephost
