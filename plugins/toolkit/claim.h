// Which nodes to claim, and together with which others.
#ifndef EPHOST_TOOLKIT_CLAIM_H_
#define EPHOST_TOOLKIT_CLAIM_H_

#include <functional>

#include "toolkit/api.h"
#include "toolkit/graph.h"

namespace ephost {

// Convex groups of the nodes that are taken: no two nodes of one group are connected by way of a node that is
// left to others, so each group may become one node. Group k has the nodes that need nobody else's node
// between them and group k - 1; groups may be empty. `refused` is asked about each node, in topological
// order, and answers whether it is left to others.
std::vector<std::vector<const Node*>> convex_groups(const Graph& graph,
                                                    const std::function<bool(const Node&)>& refused);

// Whether the host gave the node to another EP already.
bool is_others(const Api& api, const Node& node, const std::string& ep_name);

// How an EP answers GetCapability.
struct Claimant {
  const Api& api;
  const OrtLogger* logger;
  const char* plugin;   // For messages.
  std::string ep_name;  // As OrtEp::GetName has it.
  bool one_by_one;      // Each node a group of its own: to see which one is at fault.
};

// Claims the convex groups of the nodes of which `why_not` says nothing. It is asked about each node that is
// not another EP's, and answers why the node is not taken, which is logged, or "".
void claim(const Claimant& by, const Graph& graph, const std::function<std::string(const Node&)>& why_not,
           OrtEpGraphSupportInfo* support);

}  // namespace ephost

#endif
