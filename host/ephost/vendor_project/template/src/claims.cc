#include "claims.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace plugin {
namespace {

// Why we cannot compile a node; "" where we can. In doubt we leave it: that is no error, somebody else runs
// it.
std::string refusal(const Host& host, const OrtNode* node, const std::vector<const OrtValueInfo*>& inputs,
                    const std::vector<const OrtValueInfo*>& outputs) {
  const Operator* found = operator_of(host, node);
  if (found == nullptr) {
    return "its operator, or the version of it, is not known";
  }
  const char* owner = nullptr;
  host.check(host.api->Node_GetEpName(node, &owner));
  if (owner != nullptr && owner[0] != '\0' && std::string(owner) != kName) {
    return "another execution provider has it";
  }
  if (inputs.size() != found->inputs || outputs.size() != 1) {
    return "it has another number of inputs or outputs than its operator";
  }
  const auto fits = [&](const OrtValueInfo* value) { return is_float_tensor(host, value); };
  if (!std::all_of(inputs.begin(), inputs.end(), fits) || !fits(outputs[0])) {
    return "only float32 tensors are done";
  }
  return "";
}

// Sets of numbers that grow together.
class Sets {
 public:
  explicit Sets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t find(size_t item) {
    while (parent_[item] != item) {
      item = parent_[item] = parent_[parent_[item]];
    }
    return item;
  }
  void join(size_t a, size_t b) { parent_[find(b)] = find(a); }

 private:
  std::vector<size_t> parent_;
};

}  // namespace

// The host runs a group as a whole. So no path from one of its nodes to another may lead through a node
// outside: that one would wait for the group, and the group for it. To have no such path, each node gets a
// level, which grows along every edge between a node that we take and one that we do not:
//
//     level(node) = max over the nodes that it depends on of level(before) + (taken(before) != taken(node))
//
// A group is nodes that we take, of one level, connected by edges among them. A path that left it would pass
// a node that we do not take and come back two levels higher. This looks at each edge once. It may make two
// groups of what could be one; a compiler that gains much by large groups can merge them, and has to look for
// detours then.
void claim(const Host& host, const Options& options, const OrtLogger* logger, const OrtGraph* graph,
           OrtEpGraphSupportInfo* support) {
  const std::vector<const OrtNode*> nodes = nodes_of(host, graph);
  const bool tells = host.logs(logger, ORT_LOGGING_LEVEL_INFO);
  std::unordered_map<std::string, size_t> producer;  // of each value, the node that computes it
  std::vector<bool> taken(nodes.size());
  std::vector<size_t> level(nodes.size());
  Sets groups(nodes.size());

  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<const OrtValueInfo*> reads = inputs_of(host, nodes[i]);
    const std::vector<const OrtValueInfo*> outputs = outputs_of(host, nodes[i]);
    const std::string why = refusal(host, nodes[i], reads, outputs);
    taken[i] = why.empty();
    if (tells && !taken[i]) {
      host.log(logger, ORT_LOGGING_LEVEL_INFO,
               "my_ep: " + describe(host, nodes[i]) + " is not taken: " + why);
    }
    const std::vector<const OrtValueInfo*> implicit = implicit_inputs_of(host, nodes[i]);
    reads.insert(reads.end(), implicit.begin(), implicit.end());
    std::vector<size_t> before;
    for (const OrtValueInfo* value : reads) {
      const auto found = value == nullptr ? producer.end() : producer.find(name_of(host, value));
      if (found != producer.end()) {  // else an input or a constant of the graph
        before.push_back(found->second);
        level[i] = std::max(level[i], level[found->second] + (taken[found->second] != taken[i] ? 1 : 0));
      }
    }
    for (const size_t other : before) {
      if (taken[i] && taken[other] && level[i] == level[other]) {
        groups.join(other, i);
      }
    }
    for (const OrtValueInfo* value : outputs) {
      if (value != nullptr) {
        producer[name_of(host, value)] = i;
      }
    }
  }

  std::vector<std::vector<const OrtNode*>> members(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (taken[i]) {
      members[groups.find(i)].push_back(nodes[i]);
    }
  }
  // Compile copies constants, so they need be no inputs of the fused nodes, and the host may drop its own.
  OrtNodeFusionOptions fusion = {};
  fusion.ort_version_supported = kApiVersion;
  fusion.drop_constant_initializers = true;
  for (const std::vector<const OrtNode*>& group : members) {
    if (group.empty()) {
      continue;
    }
    if (group.size() >= options.min_group) {
      host.check(
          host.ep_api->EpGraphSupportInfo_AddNodesToFuse(support, group.data(), group.size(), &fusion));
    } else if (tells) {
      for (const OrtNode* node : group) {
        host.log(logger, ORT_LOGGING_LEVEL_INFO,
                 "my_ep: " + describe(host, node) + " is not taken: its group is smaller than min_group");
      }
    }
  }
}

}  // namespace plugin
