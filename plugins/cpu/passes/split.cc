#include "cpu/passes/split.h"

#include <algorithm>

namespace ephost::cpu {
namespace {

constexpr size_t kMostInputs = 16;

// The number as a constant of a floating type that is not a half.
Value* constant_like(Graph* graph, double number, DType type) {
  const TensorPtr tensor = make_tensor(type, {});
  if (type == DType::kDouble) {
    *static_cast<double*>(mutable_data(tensor)) = number;
  } else {
    *static_cast<float*>(mutable_data(tensor)) = static_cast<float>(number);
  }
  return graph->add_constant(tensor);
}

class Chain {
 public:
  Chain(Graph* graph, Node* wide) : graph_(*graph), wide_(*wide), like_(*wide->out()) {}

  void build() {
    // Halves are combined as floats, as one node does, and rounded once.
    const bool halves = is_half(wide_.in(0)->type);
    const DType type = halves ? DType::kFloat : like_.type;
    std::vector<Value*> rest = wide_.inputs;
    if (halves) {
      for (Value*& value : rest) value = add("Cast", {value}, type, value);
    }
    const Value* all = shape_of_all();
    const bool mean = wide_.is("Mean");
    const size_t count = rest.size();
    Value* made = nullptr;
    for (size_t next = 0; next < count;) {
      std::vector<Value*> in;
      if (made != nullptr) in.push_back(made);
      while (in.size() < kMostInputs && next < count) in.push_back(rest[next++]);
      made = add(mean ? "Sum" : wide_.type, std::move(in), type, all);
    }
    if (mean) {
      Value* share = constant_like(&graph_, 1.0 / static_cast<double>(count), type);
      made = add("Mul", {made, share}, type, all);
    }
    if (halves) made = add("Cast", {made}, like_.type, all);
    Node* last = made->producer;
    graph_.steal_output(last, 0, wide_.out());
    graph_.remove(&wide_);
  }

 private:
  // What has the shape of all that the chain makes; null where inputs are broadcast, or nobody knows.
  const Value* shape_of_all() const {
    const bool same = std::all_of(wide_.inputs.begin(), wide_.inputs.end(), [&](const Value* value) {
      return value->has_shape && like_.has_shape && value->dims == like_.dims;
    });
    return same ? &like_ : nullptr;
  }
  Value* add(const std::string& op, std::vector<Value*> in, DType type, const Value* shape) {
    Value* out = graph_.add_value(like_.name);
    out->type = type;
    out->has_shape = shape != nullptr && shape->has_shape;
    if (out->has_shape) out->dims = shape->dims;
    Node* node = graph_.add_node("", op, std::move(in), {out}, wide_.name);
    node->version = 13;
    if (op == "Cast") node->attributes["to"] = static_cast<int64_t>(type);
    return out;
  }

  Graph& graph_;
  Node& wide_;
  const Value& like_;
};

}  // namespace

void split_wide_nodes(Graph* graph) {
  for (Node* node : std::vector<Node*>(graph->nodes)) {
    const bool wide = node->inputs.size() > kMostInputs && node->out() != nullptr &&
                      (node->is("Sum") || node->is("Mean") || node->is("Max") || node->is("Min"));
    const bool whole = std::all_of(node->inputs.begin(), node->inputs.end(),
                                   [](const Value* value) { return value != nullptr; });
    if (!node->removed && wide && whole) Chain(graph, node).build();
  }
  graph->sort();
}

}  // namespace ephost::cpu
