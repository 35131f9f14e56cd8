#include "toolkit/passes/invariants.h"

#include <algorithm>

namespace ephost {
namespace {

// What this value is a copy of.
const Value* copied(const Value* value) {
  while (value->producer != nullptr && value->producer->is("Identity") && value->producer->in(0) != nullptr) {
    value = value->producer->in(0);
  }
  return value;
}

// Where the states of a node and of its body begin and how many there are.
struct States {
  size_t first = 0, skipped_outputs = 0, count = 0;
};

bool find_states(const Node& node, const Graph& body, States* states) {
  if (node.is("Loop")) {
    *states = {2, 1, node.inputs.size() < 2 ? 0 : node.inputs.size() - 2};
  } else if (node.is("Scan") && node.version >= 9) {
    const int64_t scanned = node.i("num_scan_inputs", 0);
    if (scanned < 0 || static_cast<size_t>(scanned) > node.inputs.size()) return false;
    *states = {0, 0, node.inputs.size() - static_cast<size_t>(scanned)};
  } else {
    return false;
  }
  // What does not fit is for the operator to complain of.
  return body.inputs.size() == node.inputs.size() &&
         body.outputs.size() >= states->skipped_outputs + states->count;
}

void take_out(Graph* graph, Node* node, Graph* body, const States& states, size_t s) {
  Value* const outside = node->inputs[states.first + s];
  Value* const inside = body->inputs[states.first + s];
  // A node may read a value more often than once: each use is in the list.
  if (std::find(node->implicit.begin(), node->implicit.end(), outside) == node->implicit.end()) {
    node->implicit.push_back(outside);
    outside->consumers.push_back(node);
  }
  if (node->is("Loop")) node->version = std::max(node->version, 11);  // Before, each had a state at least.
  graph->set_input(node, states.first + s, nullptr);
  node->inputs.erase(node->inputs.begin() + static_cast<ptrdiff_t>(states.first + s));
  if (s < node->outputs.size()) {
    if (Value* const result = node->outputs[s]) {
      if (result->is_output) {
        Node* const copy =
            graph->add_node("", "Identity", {outside}, {graph->add_like(result)}, result->name);
        copy->version = 16;
        graph->steal_output(copy, 0, result);
      } else {
        graph->replace_uses(result, outside);
        result->producer = nullptr;
      }
    }
    node->outputs.erase(node->outputs.begin() + static_cast<ptrdiff_t>(s));
  }

  body->inputs.erase(body->inputs.begin() + static_cast<ptrdiff_t>(states.first + s));
  const auto handed_on = body->outputs.begin() + static_cast<ptrdiff_t>(states.skipped_outputs + s);
  Value* const last = *handed_on;
  body->outputs.erase(handed_on);
  last->is_output = std::find(body->outputs.begin(), body->outputs.end(), last) != body->outputs.end();
  inside->is_input = false;
  inside->is_outer = true;
  inside->outer = outside;
  inside->constant = outside->constant;
  body->outer.push_back(inside);
}

}  // namespace

void read_invariants_from_outside(Graph* graph) {
  for (Node* node : std::vector<Node*>(graph->nodes)) {
    // A state may go through an inner loop, which hands it on as it is.
    for (const auto& [name, inner] : node->subgraphs) read_invariants_from_outside(inner.get());
    Graph* const body = node->subgraph("body");
    States states;
    if (body == nullptr || !find_states(*node, *body, &states)) continue;
    for (size_t s = states.count; s-- > 0;) {
      const Value *outside = node->inputs[states.first + s], *inside = body->inputs[states.first + s];
      const Value* last = body->outputs[states.skipped_outputs + s];
      if (outside != nullptr && outside->tensor && inside->tensor && copied(last) == inside) {
        take_out(graph, node, body, states, s);
      }
    }
  }
  graph->sort();
}

}  // namespace ephost
