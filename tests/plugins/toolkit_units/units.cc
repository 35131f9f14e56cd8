// Passes over a graph of two nodes, one after the other, as functions that ctypes can call.
#include "toolkit/passes/pass.h"

#include <algorithm>

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace ephost;

namespace {

void leave_it(Graph*) {}

// Takes the first node's output away from the second, the way that a pass must not.
void forget_a_use(Graph* graph) { graph->nodes[0]->out()->consumers.take(); }

void forget_a_producer(Graph* graph) { graph->nodes[1]->out()->producer = graph->nodes[0]; }

void lose_the_output(Graph* graph) { graph->remove(graph->nodes[1]); }

// Behind the one that reads it: left for the sort.
void replace_the_first(Graph* graph) {
  Node* old = graph->nodes[0];
  Value* read = old->out();
  Node* made = graph->add_node("", "Neg", {old->in(0)}, {graph->add_like(read)}, "made");
  graph->replace_uses(read, made->out());
  graph->remove(old);
}

}  // namespace

// What running a pass says: "" if nothing.
EXPORT const char* run(const char* which) {
  static std::string said;
  static constexpr Pass kPasses[] = {{"leave_it", leave_it},
                                     {"forget_a_use", forget_a_use},
                                     {"forget_a_producer", forget_a_producer},
                                     {"lose_the_output", lose_the_output},
                                     {"replace_the_first", replace_the_first}};
  Graph graph;
  Value *x = graph.add_value("x"), *y = graph.add_value("y"), *z = graph.add_value("z");
  x->is_input = z->is_output = true;
  graph.inputs = {x};
  graph.outputs = {z};
  graph.add_node("", "Abs", {x}, {y}, "first");
  graph.add_node("", "Exp", {y}, {z}, "second");
  said.clear();
  try {
    const Pass* pass = std::find_if(std::begin(kPasses), std::end(kPasses),
                                    [&](const Pass& one) { return std::string(one.name) == which; });
    run_passes(&graph, {*pass});
  } catch (const Error& error) {
    said = error.what();
  }
  return said.c_str();
}

// The readers that a value of so many has when every second one is removed.
EXPORT size_t remove_readers(size_t count) {
  Graph graph;
  Value* x = graph.add_value("x");
  x->is_input = true;
  graph.inputs = {x};
  for (size_t i = 0; i < count; ++i) graph.add_node("", "Abs", {x}, {graph.add_like(x)}, "");
  for (size_t i = 0; i < count; i += 2) graph.remove(graph.nodes[i]);
  return x->consumers.size();
}
