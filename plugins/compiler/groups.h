// Which nodes to claim together.
#ifndef EPHOST_COMPILER_GROUPS_H_
#define EPHOST_COMPILER_GROUPS_H_

#include <functional>

#include "graph.h"

namespace ephost {

// Groups of nodes that may be run one after the other: group k has the nodes that need nobody else's node
// between them and group k - 1, so two nodes of one group are never connected by way of a node that is not
// ours. Groups may be empty. `refused` is asked about each node, in topological order, and answers whether it
// is left to others.
std::vector<std::vector<const Node*>> group_nodes(const Graph& graph,
                                                  const std::function<bool(const Node&)>& refused);

}  // namespace ephost

#endif
