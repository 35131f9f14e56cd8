// Nodes that are too wide for one pass over memory become several.
#ifndef EPHOST_CPU_PASSES_SPLIT_H_
#define EPHOST_CPU_PASSES_SPLIT_H_

#include "toolkit/graph.h"

namespace ephost::cpu {

// Sum, Mean, Max and Min may have any number of inputs; engines/expression.h reads some dozens at a time.
// They become chains, which combine the inputs in their order, as one node does.
void split_wide_nodes(Graph* graph);

}  // namespace ephost::cpu

#endif
