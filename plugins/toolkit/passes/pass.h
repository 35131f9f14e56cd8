// Running passes.
#ifndef EPHOST_TOOLKIT_PASSES_PASS_H_
#define EPHOST_TOOLKIT_PASSES_PASS_H_

#include <initializer_list>

#include "toolkit/graph.h"

namespace ephost {

struct Pass {
  const char* name;
  void (*run)(Graph* graph);
};

// Runs passes one after the other, and sorts the graph after each. Builds with EPHOST_CHECK_GRAPHS (debug and
// sanitizer builds) then look at the graph's lists (Graph::check), and throw Error that names the pass where
// it left them wrong.
void run_passes(Graph* graph, std::initializer_list<Pass> passes);

}  // namespace ephost

#endif
