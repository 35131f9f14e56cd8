#include "ep.h"

#include <memory>

#include "claims.h"
#include "program.h"

namespace plugin {
namespace {

// A compiled group. The host's pointer to an OrtNodeComputeInfo is a pointer to one of these.
struct Group : OrtNodeComputeInfo {
  Group(const Host& of, const OrtGraph* graph, const OrtNode* fused_node);
  const Host* host;
  Program program;
};

// State is what a session's node keeps from run to run. A program keeps nothing, and so is its own state.
OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) {
  *state = self;
  return nullptr;
}

void ORT_API_CALL release_state(OrtNodeComputeInfo*, void*) {}

OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* self, void*, OrtKernelContext* context) {
  const Group* group = static_cast<Group*>(self);
  return guard(group->host->api, [&] { group->program.run(context); });
}

Group::Group(const Host& of, const OrtGraph* graph, const OrtNode* fused_node)
    : OrtNodeComputeInfo{}, host(&of), program(of, graph, fused_node) {
  ort_version_supported = kApiVersion;
  CreateState = create_state;
  Compute = compute;
  ReleaseState = release_state;
}

const char* ORT_API_CALL get_name(const OrtEp*) { return kName; }

OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  const Ep* ep = static_cast<Ep*>(self);
  return guard(ep->host->api, [&] { claim(*ep->host, ep->options, ep->logger, graph, support); });
}

// Called once, with all groups of a graph. Either each gets its compute info, or the call fails and leaves
// nothing.
OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                size_t count, OrtNodeComputeInfo** infos,
                                OrtNode** /*for models compiled ahead of time*/) {
  const Ep* ep = static_cast<Ep*>(self);
  return guard(ep->host->api, [&] {
    std::vector<std::unique_ptr<Group>> groups;
    for (size_t i = 0; i < count; ++i) {
      groups.push_back(std::make_unique<Group>(*ep->host, graphs[i], fused_nodes[i]));
      if (ep->host->logs(ep->logger, ORT_LOGGING_LEVEL_VERBOSE)) {
        ep->host->log(
            ep->logger, ORT_LOGGING_LEVEL_VERBOSE,
            "my_ep: compiled a group of " + std::to_string(groups.back()->program.size()) + " nodes");
      }
    }
    for (size_t i = 0; i < count; ++i) {
      infos[i] = groups[i].release();
    }
  });
}

void ORT_API_CALL release_compute_infos(OrtEp*, OrtNodeComputeInfo** infos, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    delete static_cast<Group*>(infos[i]);
    infos[i] = nullptr;
  }
}

}  // namespace

Ep::Ep(const Host& of, const OrtSessionOptions* session_options, const OrtLogger* log)
    : OrtEp{}, host(&of), logger(log), options(read_options(of, session_options, log)) {
  ort_version_supported = kApiVersion;  // what is not set below is NULL: the default, or not offered
  GetName = get_name;
  GetCapability = get_capability;
  Compile = compile;
  ReleaseNodeComputeInfos = release_compute_infos;
}

}  // namespace plugin
