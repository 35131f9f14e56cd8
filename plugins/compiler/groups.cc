#include "groups.h"

#include <algorithm>

namespace ephost {

std::vector<std::vector<const Node*>> group_nodes(const Graph& graph,
                                                  const std::function<bool(const Node&)>& refused) {
  std::unordered_map<const Node*, size_t> level;  // 2k: in our group k; 2k + 1: what others run after it.
  std::vector<std::vector<const Node*>> groups;
  for (const Node* node : graph.nodes) {
    const bool theirs = refused(*node);
    size_t after = 0;
    for (const std::vector<Value*>* list : {&node->inputs, &node->implicit}) {
      for (const Value* value : *list) {
        if (value == nullptr || value->producer == nullptr) {
          continue;
        }
        const size_t before = level.at(value->producer);
        after = std::max(after, before + (!theirs && before % 2 == 1 ? 1 : 0));
      }
    }
    level[node] = theirs ? after | 1 : after;
    if (!theirs) {
      groups.resize(std::max(groups.size(), after / 2 + 1));
      groups[after / 2].push_back(node);
    }
  }
  return groups;
}

}  // namespace ephost
