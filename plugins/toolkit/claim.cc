#include "toolkit/claim.h"

#include <algorithm>

namespace ephost {

std::vector<std::vector<const Node*>> convex_groups(const Graph& graph,
                                                    const std::function<bool(const Node&)>& refused) {
  // By node. 2k: in our group k; 2k + 1: what others run after it.
  std::vector<size_t> level(graph.num_nodes());
  std::vector<std::vector<const Node*>> groups;
  for (const Node* node : graph.nodes) {
    const bool theirs = refused(*node);
    size_t after = 0;
    for (const std::vector<Value*>* list : {&node->inputs, &node->implicit}) {
      for (const Value* value : *list) {
        if (value == nullptr || value->producer == nullptr) {
          continue;
        }
        const size_t before = level[value->producer->index];
        after = std::max(after, before + (!theirs && before % 2 == 1 ? 1 : 0));
      }
    }
    level[node->index] = theirs ? after | 1 : after;
    if (!theirs) {
      groups.resize(std::max(groups.size(), after / 2 + 1));
      groups[after / 2].push_back(node);
    }
  }
  return groups;
}

bool is_others(const Api& api, const Node& node, const std::string& ep_name) {
  const char* owner = nullptr;
  api.check(api.ort->Node_GetEpName(node.origin, &owner));
  return owner != nullptr && owner[0] != '\0' && ep_name != owner;
}

void claim(const Claimant& by, const Graph& graph, const std::function<std::string(const Node&)>& why_not,
           OrtEpGraphSupportInfo* support) {
  const Api& api = by.api;
  const auto refused = [&](const Node& node) {
    if (is_others(api, node, by.ep_name)) {
      return true;
    }
    const std::string why = why_not(node);
    if (!why.empty()) {
      api.log(by.logger, ORT_LOGGING_LEVEL_INFO, by.plugin, "not taken: " + node.label() + ": " + why);
    }
    return !why.empty();
  };
  OrtNodeFusionOptions options{};
  options.ort_version_supported = kApiVersion;
  options.drop_constant_initializers = true;
  for (const std::vector<const Node*>& group : convex_groups(graph, refused)) {
    std::vector<const OrtNode*> nodes;
    for (const Node* node : group) nodes.push_back(node->origin);
    const size_t size = by.one_by_one ? 1 : nodes.size();
    for (size_t i = 0; i < nodes.size(); i += size) {
      api.check(api.ep->EpGraphSupportInfo_AddNodesToFuse(support, &nodes[i], size, &options));
    }
  }
}

}  // namespace ephost
