/* What an EP claims of a graph, and the fused nodes that the host then runs. */
#include <algorithm>
#include <set>

#include "../compiler/groups.h"
#include "../compiler/import.h"
#include "../compiler/post.h"
#include "ep.h"
#include "program.h"

namespace ephost_cuda {

namespace {

Ep& self(OrtEp* base) { return *reinterpret_cast<Ep*>(base); }

ephost::Api api_of(const Ep& ep) { return {ep.factory->api, ep.factory->ep_api}; }

/* ---- Claiming ------------------------------------------------------------------------------------------ */

void claim(const Ep& ep, const OrtGraph* origin, OrtEpGraphSupportInfo* support) {
  const ephost::Api api = api_of(ep);
  const std::unique_ptr<Graph> graph = import_graph(api, origin);
  std::set<std::string> told;
  const auto refused = [&](const Node& node) {
    const char* owner = nullptr;
    api.check(api.ort->Node_GetEpName(node.origin, &owner));
    if (owner != nullptr && owner[0] != '\0' && std::string(owner) != kEpName) {
      return true;
    }
    const std::string why = why_not(node);
    if (!why.empty() && told.insert(node.type + why).second) {
      ep.log(ORT_LOGGING_LEVEL_INFO, "not taken: " + node.label() + ": " + why);
    }
    return !why.empty();
  };
  OrtNodeFusionOptions options = {};
  options.ort_version_supported = kApiVersion;
  options.drop_constant_initializers = true;
  for (const std::vector<const Node*>& group : ephost::group_nodes(*graph, refused)) {
    std::vector<const OrtNode*> nodes;
    for (const Node* node : group) {
      nodes.push_back(node->origin);
    }
    if (!nodes.empty()) {
      api.check(api.ep->EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &options));
    }
  }
}

OrtStatus* ORT_API_CALL get_capability(OrtEp* base, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  const Ep& ep = self(base);
  return guarded(ep.factory->api, [&] { claim(ep, graph, support); });
}

/* ---- Running ------------------------------------------------------------------------------------------- */

struct Compiled {
  OrtNodeComputeInfo base = {}; /* first: the host knows it by this */
  Ep* ep = nullptr;
  std::unique_ptr<Program> program;
  std::vector<size_t> inputs, outputs; /* places of the program's values among the fused node's */
};

Compiled& self(OrtNodeComputeInfo* base) { return *reinterpret_cast<Compiled*>(base); }

class ContextIo final : public Io {
 public:
  ContextIo(const ephost::Api& api, const Compiled& compiled, OrtKernelContext* context)
      : api_(api), compiled_(compiled), context_(context), inputs_(compiled.inputs.size()) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (compiled.program->input(i)->constant != nullptr) {
        continue;
      }
      const OrtValue* value = nullptr;
      ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
      const int64_t* dims = nullptr;
      size_t rank = 0;
      const void* data = nullptr;
      api.check(api.ort->KernelContext_GetInput(context, compiled.inputs[i], &value));
      if (value == nullptr) {
        throw Error("cuda: the input '" + compiled.program->input(i)->name + "' is missing",
                    ORT_INVALID_ARGUMENT);
      }
      api.check(api.ort->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank));
      api.check(api.ort->GetTensorData(value, &data));
      inputs_[i] = {{static_cast<DType>(type), Dims(dims, dims + rank)}, reinterpret_cast<CUdeviceptr>(data)};
    }
  }
  const Desc& input(size_t i) override { return inputs_[i].desc; }
  CUdeviceptr input_data(size_t i) override { return inputs_[i].data; }
  CUdeviceptr output(size_t i, const Desc& desc) override {
    OrtValue* value = nullptr;
    void* data = nullptr;
    api_.check(api_.ort->KernelContext_GetOutput(context_, compiled_.outputs[i], desc.dims.data(),
                                                 desc.dims.size(), &value));
    api_.check(api_.ort->GetTensorMutableData(value, &data));
    return reinterpret_cast<CUdeviceptr>(data);
  }

 private:
  struct Input {
    Desc desc;
    CUdeviceptr data = 0;
  };
  const ephost::Api& api_;
  const Compiled& compiled_;
  OrtKernelContext* context_;
  std::vector<Input> inputs_;
};

OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* base, OrtNodeComputeContext*, void** state) {
  *state = base;
  return nullptr;
}

void ORT_API_CALL release_state(OrtNodeComputeInfo*, void*) {}

OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* base, void*, OrtKernelContext* context) {
  const Compiled& compiled = self(base);
  Ep& ep = *compiled.ep;
  const ephost::Api api = api_of(ep);
  return guarded(api.ort, [&] {
    Device& device = ep.device();
    const Scope scope(device);
    void* handle = nullptr;
    api.check(api.ort->KernelContext_GetGPUComputeStream(context, &handle));
    Stream* stream = handle == nullptr ? nullptr : device.find(reinterpret_cast<CUstream>(handle));
    ContextIo io(api, compiled, context);
    if (stream != nullptr) {
      compiled.program->run(io, *stream);
      return;
    }
    /* A host that runs without streams reads the outputs at once. */
    const std::lock_guard<std::mutex> hold(ep.lock);
    if (ep.own_stream == nullptr) {
      ep.own_stream = std::make_unique<Stream>(device, ep.options.user_stream);
    }
    compiled.program->run(io, *ep.own_stream);
    device.check(device.driver().cuStreamSynchronize(ep.own_stream->handle()),
                 "finish the work that was queued");
  });
}

/* ---- Compiling ----------------------------------------------------------------------------------------- */

/* Places of values among those of the fused node, by name. */
std::vector<size_t> places_of(const ephost::Api& api, const std::vector<const OrtValueInfo*>& infos,
                              const std::vector<const Value*>& values) {
  std::unordered_map<std::string, size_t> by_name;
  for (size_t i = 0; i < infos.size(); ++i) {
    const char* name = nullptr;
    if (infos[i] != nullptr) {
      api.check(api.ort->GetValueInfoName(infos[i], &name));
      by_name.emplace(name, i);
    }
  }
  std::vector<size_t> places;
  for (const Value* value : values) {
    const auto found = by_name.find(value->name);
    if (found == by_name.end() && value->constant == nullptr) {
      throw Error("cuda: the fused node has no '" + value->name + "'");
    }
    places.push_back(found == by_name.end() ? 0 : found->second);
  }
  return places;
}

/* Without NVIDIA's libraries models run, and more slowly than anybody would expect. */
void tell_what_is_missing(Ep& ep, const Graph& graph) {
  Libraries& libraries = *ep.mine->libraries;
  const auto has = [&](std::initializer_list<const char*> types) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node* node) {
      return std::any_of(types.begin(), types.end(), [&](const char* type) { return node->type == type; });
    });
  };
  if (!ep.told_of_blas && has({"MatMul", "Gemm"}) && libraries.blas() == nullptr) {
    ep.told_of_blas = true;
    ep.log(ORT_LOGGING_LEVEL_WARNING,
           "products of matrices run on a slow kernel: " + libraries.why_no_blas());
  }
  if (!ep.told_of_dnn && has({"Conv"}) && libraries.dnn() == nullptr) {
    ep.told_of_dnn = true;
    ep.log(ORT_LOGGING_LEVEL_WARNING, "convolutions run on a slow kernel: " + libraries.why_no_dnn());
  }
}

std::unique_ptr<Compiled> compile(Ep& ep, const OrtGraph* origin, const OrtNode* fused) {
  const ephost::Api api = api_of(ep);
  auto compiled = std::make_unique<Compiled>();
  compiled->base.ort_version_supported = kApiVersion;
  compiled->base.CreateState = create_state;
  compiled->base.Compute = compute;
  compiled->base.ReleaseState = release_state;
  compiled->ep = &ep;
  std::unique_ptr<Graph> graph = import_graph(api, origin);
  fold_into_convolutions(graph.get());
  fuse_convolutions(graph.get());
  fuse_products(graph.get());
  graph->remove_unused();
  graph->sort();
  tell_what_is_missing(ep, *graph);
  compiled->program = std::make_unique<Program>(std::move(graph), ep.pool(), *ep.mine->libraries, ep.options);
  const Program& program = *compiled->program;
  size_t num_inputs = 0, num_outputs = 0;
  api.check(api.ort->Node_GetNumInputs(fused, &num_inputs));
  api.check(api.ort->Node_GetNumOutputs(fused, &num_outputs));
  std::vector<const OrtValueInfo*> in(num_inputs), out(num_outputs);
  if (num_inputs > 0) {
    api.check(api.ort->Node_GetInputs(fused, in.data(), num_inputs));
  }
  if (num_outputs > 0) {
    api.check(api.ort->Node_GetOutputs(fused, out.data(), num_outputs));
  }
  std::vector<const Value*> inputs;
  for (size_t i = 0; i < program.num_inputs(); ++i) {
    inputs.push_back(program.input(i));
  }
  compiled->inputs = places_of(api, in, inputs);
  compiled->outputs = places_of(
      api, out, std::vector<const Value*>(program.graph().outputs.begin(), program.graph().outputs.end()));
  return compiled;
}

void ORT_API_CALL release_compute_infos(OrtEp* base, OrtNodeComputeInfo** infos, size_t count) {
  const Scope scope(self(base).device(), std::nothrow);
  for (size_t i = 0; i < count; ++i) {
    delete &self(infos[i]);
    infos[i] = nullptr;
  }
}

OrtStatus* ORT_API_CALL compile_groups(OrtEp* base, const OrtGraph** graphs, const OrtNode** fused,
                                       size_t count, OrtNodeComputeInfo** infos, OrtNode**) {
  Ep& ep = self(base);
  size_t done = 0;
  OrtStatus* status = guarded(ep.factory->api, [&] {
    const Scope scope(ep.device());
    for (; done < count; ++done) {
      infos[done] = &compile(ep, graphs[done], fused[done]).release()->base;
    }
  });
  if (status != nullptr) {
    release_compute_infos(base, infos, done);
  }
  return status;
}

}  // namespace

void offer_compiling(OrtEp* base) {
  base->GetCapability = get_capability;
  base->Compile = compile_groups;
  base->ReleaseNodeComputeInfos = release_compute_infos;
}

}  // namespace ephost_cuda
