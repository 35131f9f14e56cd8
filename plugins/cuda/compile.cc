/* What an EP claims of a graph, and the fused nodes that the host then runs. */
#include <algorithm>

#include "cuda/ep.h"
#include "cuda/operator.h"
#include "toolkit/claim.h"
#include "toolkit/context_io.h"
#include "toolkit/import.h"
#include "toolkit/passes/epilogue.h"
#include "toolkit/passes/pass.h"
#include "toolkit/passes/written_out.h"

namespace ephost::cuda {

namespace {

Ep& self(OrtEp* base) { return *reinterpret_cast<Ep*>(base); }

/* ---- Claiming ------------------------------------------------------------------------------------------ */

OrtStatus* ORT_API_CALL get_capability(OrtEp* base, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  const Ep& ep = self(base);
  const Api& api = ep.factory->api;
  return guard(api, [&] {
    const std::unique_ptr<Graph> imported = import_graph(api, graph);
    claim(
        {api, ep.logger, "cuda", kEpName, false}, *imported, [](const Node& node) { return why_not(node); },
        support);
  });
}

/* ---- Running ------------------------------------------------------------------------------------------- */

struct Compiled {
  OrtNodeComputeInfo base = {}; /* first: the host knows it by this */
  Ep* ep = nullptr;
  std::unique_ptr<Program> program;
  Binding binding;
};

Compiled& self(OrtNodeComputeInfo* base) { return *reinterpret_cast<Compiled*>(base); }

class HostIo final : public Io {
 public:
  HostIo(const Api& api, const Compiled& compiled, OrtKernelContext* context)
      : context_(api, compiled.binding, context), inputs_(context_.num_inputs()) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      ContextIo::Input input = context_.input(i);
      inputs_[i] = {{input.type, std::move(input.dims)}, reinterpret_cast<CUdeviceptr>(input.data)};
    }
  }
  const Desc& input(size_t i) override { return inputs_[i].desc; }
  CUdeviceptr input_data(size_t i) override { return inputs_[i].data; }
  CUdeviceptr output(size_t i, const Desc& desc) override {
    return reinterpret_cast<CUdeviceptr>(context_.output(i, desc.type, desc.dims));
  }

 private:
  struct Input {
    Desc desc;
    CUdeviceptr data = 0;
  };
  ContextIo context_;
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
  const Api& api = ep.factory->api;
  return guard(api, [&] {
    Device& device = ep.device();
    const Scope scope(device);
    void* handle = nullptr;
    api.check(api.ort->KernelContext_GetGPUComputeStream(context, &handle));
    Stream* stream = handle == nullptr ? nullptr : device.find(reinterpret_cast<CUstream>(handle));
    HostIo io(api, compiled, context);
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
  const Api& api = ep.factory->api;
  auto compiled = std::make_unique<Compiled>();
  compiled->base.ort_version_supported = kApiVersion;
  compiled->base.CreateState = create_state;
  compiled->base.Compute = compute;
  compiled->base.ReleaseState = release_state;
  compiled->ep = &ep;
  std::unique_ptr<Graph> graph = import_graph(api, origin);
  run_passes(graph.get(), {{"fuse_written_out", fuse_written_out},
                           {"fold_into_convolutions", fold_into_convolutions},
                           {"fuse_convolutions", fuse_convolutions},
                           {"fuse_products", fuse_products}});
  tell_what_is_missing(ep, *graph);
  compiled->program = std::make_unique<Program>(std::move(graph), ep.pool(), *ep.mine->libraries, ep.options);
  const Program& program = *compiled->program;
  std::vector<const Value*> inputs;
  for (size_t i = 0; i < program.num_inputs(); ++i) {
    inputs.push_back(program.input(i));
  }
  const std::vector<Value*>& outputs = program.graph().outputs;
  compiled->binding = Binding(api, fused, std::move(inputs), {outputs.begin(), outputs.end()});
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
  OrtStatus* status = guard(ep.factory->api, [&] {
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

}  // namespace ephost::cuda
