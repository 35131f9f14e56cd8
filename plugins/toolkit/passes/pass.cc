#include "toolkit/passes/pass.h"

namespace ephost {

void run_passes(Graph* graph, std::initializer_list<Pass> passes) {
  for (const Pass& pass : passes) {
    pass.run(graph);
    graph->sort();
#ifdef EPHOST_CHECK_GRAPHS
    if (const std::string wrong = graph->check(); !wrong.empty()) {
      fail(std::string("the pass ") + pass.name + " left a broken graph: " + wrong);
    }
#endif
  }
}

}  // namespace ephost
