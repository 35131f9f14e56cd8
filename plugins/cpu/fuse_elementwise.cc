// Trees of elementwise nodes become one node, which makes one pass over memory.
#include <algorithm>
#include <unordered_set>

#include "fuse.h"
#include "kernels/lower.h"

namespace ephost::cpu {
namespace {

// What one pass can hold: see evaluate.
constexpr size_t kMaxInputs = 16;
constexpr size_t kMaxNodes = 32;

bool candidate(const Node& node) {
  // The second input of CastLike has no part in the shape, unlike all inputs of a fused node.
  return !node.removed && is_elementwise(node) && node.type != "CastLike" && node.outputs.size() == 1 &&
         node.out() != nullptr && node.out()->type != DType::kUndefined &&
         Registry::get().find(node) != nullptr;
}

// Whether both have the same shape, as far as the model says: else the smaller one would be computed over and
// over for each of its repetitions.
bool same_shape(const Value& a, const Value& b) { return a.has_shape && b.has_shape && a.dims == b.dims; }

class Tree {
 public:
  explicit Tree(Node* root) : root_(root), nodes_{root}, inside_{root} {
    for (size_t k = 0; k < nodes_.size(); ++k) {
      for (const Value* value : nodes_[k]->inputs) take(value);
    }
    // Consumers come before producers here, but a producer may have been found before its last consumer.
  }

  bool worth_it() const { return nodes_.size() > 1; }

  // Puts one node in the place of all; gives up where they do not make an expression together.
  void fuse(Graph* graph) {
    auto body = std::make_shared<Graph>();
    std::unordered_map<const Value*, Value*> inside;
    std::vector<Value*> inputs;
    const auto copy = [&](const Value* value) {
      Value* mine = body->add_value(value->name);
      mine->type = value->type;
      mine->has_shape = value->has_shape;
      mine->dims = value->dims;
      mine->constant = value->constant;
      inside[value] = mine;
      return mine;
    };
    std::vector<Node*> order;
    for (Node* node : graph->nodes) {
      if (inside_.count(node) != 0) order.push_back(node);
    }
    for (const Node* node : order) {
      for (Value* value : node->inputs) {
        if (value == nullptr || inside.count(value) != 0 || inside_.count(value->producer) != 0) continue;
        inputs.push_back(value);
        body->inputs.push_back(copy(value));
        body->inputs.back()->is_input = true;
      }
    }
    if (inputs.size() > kMaxInputs) {
      return;
    }
    for (const Node* node : order) {
      std::vector<Value*> in;
      for (const Value* value : node->inputs) in.push_back(value == nullptr ? nullptr : inside.at(value));
      Node* mine = body->add_node(node->domain, node->type, std::move(in), {copy(node->out())}, node->name);
      mine->version = node->version;
      mine->attributes = node->attributes;
    }
    body->outputs.push_back(inside.at(root_->out()));
    body->outputs.back()->is_output = true;

    Node trial;
    trial.body = body;
    try {
      Expression expression;
      std::vector<int> shaped;
      expression.cast(lower_body(trial, &expression, &shaped), root_->out()->type);
    } catch (const Error&) {
      return;
    }
    Value* out = root_->out();
    Node* fused = graph->add_node("ephost", "Elementwise", inputs, {graph->add_like(out)}, root_->name);
    fused->body = body;
    graph->steal_output(fused, 0, out);
    for (Node* node : nodes_) graph->remove(node);
  }

 private:
  void take(const Value* value) {
    Node* producer = value == nullptr ? nullptr : value->producer;
    if (producer == nullptr || inside_.count(producer) != 0 || nodes_.size() >= kMaxNodes ||
        value->is_output || !candidate(*producer) || !same_shape(*value, *root_->out())) {
      return;
    }
    const auto ours = [&](Node* node) { return inside_.count(node) != 0; };
    if (std::all_of(value->consumers.begin(), value->consumers.end(), ours)) {
      nodes_.push_back(producer);
      inside_.insert(producer);
    }
  }

  Node* root_;
  std::vector<Node*> nodes_;  // Each is read by those before it only.
  std::unordered_set<const Node*> inside_;
};

}  // namespace

void fuse_elementwise(Graph* graph) {
  graph->sort();
  const std::vector<Node*> nodes = graph->nodes;
  for (size_t n = nodes.size(); n-- > 0;) {
    if (candidate(*nodes[n])) {
      Tree tree(nodes[n]);
      if (tree.worth_it()) tree.fuse(graph);
    }
  }
}

}  // namespace ephost::cpu
