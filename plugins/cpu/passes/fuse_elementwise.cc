// Trees of elementwise nodes become one node, which makes one pass over memory.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cpu/engines/lower.h"
#include "cpu/passes/fuse.h"

namespace ephost::cpu {
namespace {

// What one pass can hold: see evaluate.
constexpr size_t kMaxInputs = 16;
constexpr size_t kMaxNodes = 32;

// Whether it may find at run time that it divides an integer by 0: that has to be looked for in its operand.
bool may_divide_by_zero(const Node& node) {
  const DType type = node.out() == nullptr ? DType::kUndefined : node.out()->type;
  int64_t divisor = 0;
  return (node.is("Div") || node.is("Mod")) && !kFloats.has(type) &&
         !(scalar(node.in(1), &divisor) && divisor != 0);
}

// Whether its bias or its limits may turn out not to fit: a fused node has no place to look.
bool may_not_fit(const Node& node) {
  for (size_t limit : {1, 2}) {
    if (node.is("Clip") && node.in(limit) != nullptr && !node.in(limit)->is_scalar()) return true;
  }
  const Value *x = node.in(0), *bias = node.in(1);
  if (!has_bias(node) || bias == nullptr) return false;
  return x == nullptr || !x->has_shape || x->dims.empty() || !bias->has_shape || bias->dims.size() != 1 ||
         bias->dims[0] < 0 || bias->dims[0] != x->dims.back();
}

bool has_texts(const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [](const Value* value) { return value != nullptr && value->type == DType::kString; });
}

bool candidate(const Node& node) {
  // The second input of CastLike has no part in the shape, unlike all inputs of a fused node.
  return !node.removed && is_elementwise(node) && node.type != "CastLike" && !may_divide_by_zero(node) &&
         !may_not_fit(node) && !has_texts(node) && node.outputs.size() == 1 && node.out() != nullptr &&
         node.out()->type != DType::kUndefined && Registry::get().find(node) != nullptr;
}

// Whether both have the same shape, as far as the model says: else the smaller one would be computed over and
// over for each of its repetitions.
bool same_shape(const Value& a, const Value& b) { return a.has_shape && b.has_shape && a.dims == b.dims; }

class Tree {
 public:
  // Of at most so many nodes.
  Tree(Node* root, size_t most) : root_(root), most_(most), nodes_{root}, inside_{root} {
    for (size_t k = 0; k < nodes_.size(); ++k) {
      for (const Value* value : nodes_[k]->inputs) take(value);
    }
    // Consumers come before producers here, but a producer may have been found before its last consumer.
  }

  bool worth_it() const { return nodes_.size() > 1; }

  // Puts one node in the place of all. False where they do not make an expression together, or one that is
  // too large for a pass. `positions` has the order of the graph's nodes, by their index.
  bool fuse(Graph* graph, const std::vector<size_t>& positions) {
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
    std::vector<Node*> order = nodes_;
    std::sort(order.begin(), order.end(),
              [&](const Node* a, const Node* b) { return positions[a->index] < positions[b->index]; });
    for (const Node* node : order) {
      for (Value* value : node->inputs) {
        if (value == nullptr || inside.count(value) != 0 || inside_.count(value->producer) != 0) continue;
        inputs.push_back(value);
        body->inputs.push_back(copy(value));
        body->inputs.back()->is_input = true;
      }
    }
    if (inputs.size() > kMaxInputs) {
      return false;
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
      Indices shaped;
      expression.cast(lower_body(trial, &expression, &shaped), root_->out()->type);
      if (!expression.fits_one_pass()) return false;
    } catch (const Error&) {
      return false;
    }
    Value* out = root_->out();
    Node* fused = graph->add_node("ephost", "Elementwise", inputs, {graph->add_like(out)}, root_->name);
    fused->body = body;
    graph->steal_output(fused, 0, out);
    for (Node* node : nodes_) graph->remove(node);
    return true;
  }

 private:
  void take(const Value* value) {
    Node* producer = value == nullptr ? nullptr : value->producer;
    if (producer == nullptr || inside_.count(producer) != 0 || nodes_.size() >= most_ || value->is_output ||
        !candidate(*producer) || !same_shape(*value, *root_->out())) {
      return;
    }
    const auto ours = [&](Node* node) { return inside_.count(node) != 0; };
    if (std::all_of(value->consumers.begin(), value->consumers.end(), ours)) {
      nodes_.push_back(producer);
      inside_.insert(producer);
    }
  }

  Node* root_;
  size_t most_;
  std::vector<Node*> nodes_;  // Each is read by those before it only.
  std::unordered_set<const Node*> inside_;
};

}  // namespace

void fuse_elementwise(Graph* graph) {
  graph->sort();
  const std::vector<Node*> nodes = graph->nodes;
  std::vector<size_t> positions(graph->num_nodes());
  for (size_t n = 0; n < nodes.size(); ++n) positions[nodes[n]->index] = n;
  for (size_t n = nodes.size(); n-- > 0;) {
    if (!candidate(*nodes[n])) {
      continue;
    }
    for (size_t most = kMaxNodes; most > 1; most /= 2) {
      Tree tree(nodes[n], most);
      if (!tree.worth_it() || tree.fuse(graph, positions)) break;
    }
  }
}

}  // namespace ephost::cpu
