// The plugin's border: factory, EP, what is claimed, and the fused nodes that the host runs.
#include <algorithm>
#include <cstring>

#include "cpu/program/program.h"
#include "cpu/runtime/stop.h"
#include "cpu/simd/simd.h"
#include "ephost/plugin.h"
#include "toolkit/claim.h"
#include "toolkit/context_io.h"
#include "toolkit/import.h"
#include "toolkit/options.h"

namespace ephost::cpu {
namespace {

// The lowest version whose OrtEp has all members that are set here; hosts before it do not read the last
// ones.
constexpr uint32_t kEpVersion = 25;

struct Factory : OrtEpFactory {
  Api api;
  std::string name;
  const OrtLogger* logger = nullptr;
};

struct Ep : OrtEp {
  const Factory* factory = nullptr;
  const OrtLogger* logger = nullptr;
  Options options;
  bool one_by_one = false;  // Each node on its own: to see which one is at fault.
};

const Factory& self(const OrtEpFactory* factory) { return *static_cast<const Factory*>(factory); }

// ---- What is claimed

// Why a subgraph cannot be run as part of its node; "" if it can.
std::string why_not(const Ep& ep, const Graph& graph);

// Why a node cannot be run here, with all its subgraphs; "" if it can.
std::string why_not(const Ep& ep, const Node& node) {
  std::string why;
  if (Registry::get().find(node, &why) == nullptr) {
    return why;
  }
  for (const auto& [name, graph] : node.subgraphs) {
    why = why_not(ep, *graph);
    if (!why.empty()) {
      return "its subgraph '" + name + "' has " + why;
    }
  }
  return "";
}

std::string why_not(const Ep& ep, const Graph& graph) {
  for (const std::vector<Value*>* list : {&graph.inputs, &graph.outputs, &graph.outer}) {
    for (const Value* value : *list) {
      if (!value->tensor) {
        return "'" + value->name + "', which is not a tensor";
      }
    }
  }
  for (const Node* node : graph.nodes) {
    const std::string why =
        is_others(ep.factory->api, *node, ep.factory->name) ? "it is another EP's" : why_not(ep, *node);
    if (!why.empty()) {
      return node->label() + ": " + why;
    }
  }
  return "";
}

// Whether a node can be done together with all its subgraphs.
bool whole(const Ep& ep, const OrtNode* origin) {
  const Api& api = ep.factory->api;
  Node node;
  const char *domain = nullptr, *type = nullptr;
  size_t count = 0;
  api.check(api.ort->Node_GetDomain(origin, &domain));
  api.check(api.ort->Node_GetOperatorType(origin, &type));
  api.check(api.ort->Node_GetSinceVersion(origin, &node.version));
  api.check(api.ort->Node_GetNumSubgraphs(origin, &count));
  node.domain = domain == nullptr || std::strcmp(domain, "ai.onnx") == 0 ? "" : domain;
  node.type = type;
  if (!Registry::get().knows(node)) {
    return false;
  }
  std::vector<const OrtGraph*> graphs(count);
  std::vector<const char*> names(count);
  api.check(api.ort->Node_GetSubgraphs(origin, graphs.data(), count, names.data()));
  return std::all_of(graphs.begin(), graphs.end(),
                     [&](const OrtGraph* graph) { return why_not(ep, *import_graph(api, graph)).empty(); });
}

// Whether it is a function over a sequence, which has its body as an attribute.
bool maps_sequence(const Api& api, const OrtNode* node) {
  const char* type = nullptr;
  api.check(api.ort->Node_GetOperatorType(node, &type));
  return std::strcmp(type, "SequenceMap") == 0;
}

void claim(const Ep& ep, const OrtGraph* origin, OrtEpGraphSupportInfo* support) {
  const Api& api = ep.factory->api;
  const OrtNode* parent = nullptr;
  api.check(api.ort->Graph_GetParentNode(origin, &parent));
  if (parent != nullptr && whole(ep, parent)) {
    return;  // Hosts ask about subgraphs first: this one will be claimed with its node.
  }
  if (parent != nullptr && maps_sequence(api, parent)) {
    return;  // onnxruntime inlines such functions after it asks, and does not find our nodes then.
  }
  const std::unique_ptr<Graph> graph = import_graph(api, origin);
  ephost::claim(
      {api, ep.logger, "cpu", ep.factory->name, ep.one_by_one}, *graph,
      [&](const Node& node) { return why_not(ep, node); }, support);
}

// ---- What is run

struct Compiled : OrtNodeComputeInfo {
  const Ep* ep = nullptr;
  std::unique_ptr<Program> program;
  Binding binding;
};

class HostIo final : public Io {
 public:
  HostIo(const Api& api, const Compiled& compiled, OrtKernelContext* context)
      : context_(api, compiled.binding, context), inputs_(context_.num_inputs()) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      ContextIo::Input input = context_.input(i);
      inputs_[i] = {{input.type, std::move(input.dims)}, input.data};
    }
  }
  const Desc& input(size_t i) override { return inputs_[i].desc; }
  void* input_data(size_t i) override { return inputs_[i].data; }
  void* output(size_t i, DType type, const Dims& dims) override { return context_.output(i, type, dims); }
  void finish() const { context_.finish(); }

 private:
  struct Input {
    Desc desc;
    void* data = nullptr;
  };
  ContextIo context_;
  std::vector<Input> inputs_;
};

OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* info, OrtNodeComputeContext*,
                                     void** state) noexcept {
  *state = info;
  return nullptr;
}

OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* info, void*, OrtKernelContext* context) noexcept {
  const Compiled& compiled = *static_cast<const Compiled*>(info);
  const Api& api = compiled.ep->factory->api;
  return guard(api, [&] {
    const TextScope texts;  // The run's strings have to be there until `finish` is done.
    HostIo io(api, compiled, context);
    compiled.program->run(io);
    io.finish();
  });
}

void ORT_API_CALL release_state(OrtNodeComputeInfo*, void*) noexcept {}

std::unique_ptr<Compiled> compile(const Ep& ep, const OrtGraph* origin, const OrtNode* fused) {
  const Api& api = ep.factory->api;
  auto compiled = std::make_unique<Compiled>();
  static_cast<OrtNodeComputeInfo&>(*compiled) = OrtNodeComputeInfo{};
  compiled->ort_version_supported = kApiVersion;
  compiled->CreateState = create_state;
  compiled->Compute = compute;
  compiled->ReleaseState = release_state;
  compiled->ep = &ep;
  compiled->program = std::make_unique<Program>(import_graph(api, origin), ep.options);
  Program& program = *compiled->program;
  std::vector<const Value*> inputs;
  for (size_t i = 0; i < program.num_inputs(); ++i) inputs.push_back(program.input(i));
  const std::vector<Value*>& outputs = program.graph().outputs;
  compiled->binding = Binding(api, fused, std::move(inputs), {outputs.begin(), outputs.end()});
  program.load();
  return compiled;
}

// ---- The EP

const char* ORT_API_CALL ep_name(const OrtEp* ep) noexcept {
  return static_cast<const Ep*>(ep)->factory->name.c_str();
}

OrtStatus* ORT_API_CALL ep_get_capability(OrtEp* ep, const OrtGraph* graph,
                                          OrtEpGraphSupportInfo* support) noexcept {
  const Ep& self = *static_cast<const Ep*>(ep);
  return guard(self.factory->api, [&] { claim(self, graph, support); });
}

void ORT_API_CALL ep_release_compute_infos(OrtEp*, OrtNodeComputeInfo** infos, size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) {
    delete static_cast<Compiled*>(infos[i]);
    infos[i] = nullptr;
  }
}

OrtStatus* ORT_API_CALL ep_compile(OrtEp* ep, const OrtGraph** graphs, const OrtNode** fused, size_t count,
                                   OrtNodeComputeInfo** infos, OrtNode**) noexcept {
  const Ep& self = *static_cast<const Ep*>(ep);
  size_t done = 0;
  OrtStatus* status = guard(self.factory->api, [&] {
    for (; done < count; ++done) {
      infos[done] = compile(self, graphs[done], fused[done]).release();
    }
  });
  if (status != nullptr) {
    ep_release_compute_infos(ep, infos, done);
  }
  return status;
}

// ---- Stopping a run
//
// The ABI tells an EP with which options a run is made, but has no function that says whether that run has
// been told to stop. Hosts that have this entry answer it at any time; for others it is an entry that nobody
// has set.

constexpr char kTerminated[] = "ephost.run_terminated";

OrtStatus* ORT_API_CALL ep_on_run_start(OrtEp* ep, const OrtRunOptions* options) noexcept {
  const Factory& factory = *static_cast<const Ep*>(ep)->factory;
  return guard(factory.api, [&] {
    begin_stoppable(
        [](const void* ort, const void* run) {
          return static_cast<const OrtApi*>(ort)->GetRunConfigEntry(static_cast<const OrtRunOptions*>(run),
                                                                    kTerminated) != nullptr;
        },
        factory.api.ort, options);
  });
}

OrtStatus* ORT_API_CALL ep_on_run_end(OrtEp*, const OrtRunOptions* options, bool) noexcept {
  end_stoppable(options);
  return nullptr;
}

// ---- The profiler: steps of fused nodes, between the host's events in its trace

struct Profiler : OrtEpProfilerImpl {
  Api api;
  std::shared_ptr<Recorder> recorder;
};

void ORT_API_CALL release_profiler(OrtEpProfilerImpl* profiler) noexcept {
  delete static_cast<Profiler*>(profiler);
}

OrtStatus* ORT_API_CALL start_profiling(OrtEpProfilerImpl* profiler, int64_t elapsed_ns) noexcept {
  static_cast<Profiler*>(profiler)->recorder->start(elapsed_ns);
  return nullptr;
}

OrtStatus* ORT_API_CALL end_profiling(OrtEpProfilerImpl* profiler,
                                      OrtProfilingEventsContainer* container) noexcept {
  const Profiler& self = *static_cast<const Profiler*>(profiler);
  return guard(self.api, [&] {
    for (const Recorder::Event& step : self.recorder->stop()) {
      std::vector<const char*> keys = {"op_name"}, values = {step.op.c_str()};
      const auto tell = [&](const char* key, const std::string& value) {
        keys.push_back(key);
        values.push_back(value.c_str());
      };
      if (step.of_node) tell("node_name", step.node);
      if (!step.method.empty()) tell("method", step.method);
      OrtProfilingEvent* event = nullptr;
      self.api.check(self.api.ep->CreateProfilingEvent(
          OrtProfilingEventCategory_KERNEL, -1, step.thread, step.name.c_str(), step.start_ns / 1000,
          (step.start_ns + step.duration_ns) / 1000 - step.start_ns / 1000, keys.data(), values.data(),
          keys.size(), &event));
      OrtStatus* status = self.api.ep->ProfilingEventsContainer_AddEvents(container, &event, 1);
      self.api.ep->ReleaseProfilingEvent(event);
      self.api.check(status);
    }
  });
}

OrtStatus* ORT_API_CALL create_profiler(OrtEp* ep, OrtEpProfilerImpl** out) noexcept {
  const Ep& self = *static_cast<const Ep*>(ep);
  return guard(self.factory->api, [&] {
    auto profiler = std::make_unique<Profiler>();
    static_cast<OrtEpProfilerImpl&>(*profiler) = OrtEpProfilerImpl{};
    profiler->ort_version_supported = kEpVersion;
    profiler->Release = release_profiler;
    profiler->StartProfiling = start_profiling;
    profiler->EndProfiling = end_profiling;
    profiler->api = self.factory->api;
    profiler->recorder = self.options.recorder;
    *out = profiler.release();
  });
}

OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* factory, const OrtHardwareDevice* const*,
                                  const OrtKeyValuePairs* const*, size_t, const OrtSessionOptions* options,
                                  const OrtLogger* logger, OrtEp** out) noexcept {
  const Factory& made_by = self(factory);
  return guard(made_by.api, [&] {
    auto ep = std::make_unique<Ep>();
    static_cast<OrtEp&>(*ep) = OrtEp{};
    ep->ort_version_supported = kEpVersion;
    ep->CreateProfiler = create_profiler;
    ep->GetName = ep_name;
    ep->GetCapability = ep_get_capability;
    ep->Compile = ep_compile;
    ep->ReleaseNodeComputeInfos = ep_release_compute_infos;
    ep->OnRunStart = ep_on_run_start;
    ep->OnRunEnd = ep_on_run_end;
    ep->factory = &made_by;
    ep->logger = logger;
    const std::map<std::string, std::string> set = ep_options(made_by.api, options, made_by.name);
    const auto read = [&](const char* key, int64_t otherwise, int64_t most) {
      return number_option(set, key, otherwise, most);
    };
    ep->options.threads = static_cast<int>(read("intra_op_num_threads", 0, 1024));
    ep->options.spin = config_entry(made_by.api, options, "session.intra_op.allow_spinning") != "0";
    ep->options.fuse = read("fusion", 1, 1) != 0;
    ep->options.recorder = std::make_shared<Recorder>();
    ep->options.max_plans = static_cast<size_t>(std::max<int64_t>(1, read("max_shapes", 32, 1 << 20)));
    ep->one_by_one = read("one_by_one", 0, 1) != 0;
    made_by.api.log(
        logger, ORT_LOGGING_LEVEL_INFO, made_by.name.c_str(),
        std::string("kernels are those for ") + simd().name + " (built for " + simd().built + ")");
    if (simd().unknown != nullptr) {
      made_by.api.log(
          logger, ORT_LOGGING_LEVEL_WARNING, made_by.name.c_str(),
          std::string("EPHOST_CPU_ISA: '") + simd().unknown + "' is no instruction set that is known here");
    }
    *out = ep.release();
  });
}

void ORT_API_CALL release_ep(OrtEpFactory*, OrtEp* ep) noexcept { delete static_cast<Ep*>(ep); }

// ---- The factory

OrtStatus* ORT_API_CALL get_devices(OrtEpFactory* factory, const OrtHardwareDevice* const* devices,
                                    size_t count, OrtEpDevice** out, size_t room, size_t* found) noexcept {
  const Api& api = self(factory).api;
  *found = 0;
  return guard(api, [&] {
    for (size_t i = 0; i < count && *found < room && *found < 1; ++i) {
      if (api.ort->HardwareDevice_Type(devices[i]) == OrtHardwareDeviceType_CPU) {
        // To hosts that know these: constants may stay in the model's file, and be transposed.
        KeyValuePairs metadata(api);
        metadata.add("reads_model_files", "1");
        metadata.add("takes_transposed_weights", "1");
        api.check(api.ep->CreateEpDevice(factory, devices[i], metadata.get(), nullptr, &out[*found]));
        ++*found;
      }
    }
  });
}

const char* ORT_API_CALL factory_name(const OrtEpFactory* factory) noexcept {
  return self(factory).name.c_str();
}
const char* ORT_API_CALL factory_vendor(const OrtEpFactory*) noexcept { return "ephost"; }
uint32_t ORT_API_CALL factory_vendor_id(const OrtEpFactory*) noexcept { return 0; }
const char* ORT_API_CALL factory_version(const OrtEpFactory*) noexcept { return EPHOST_VERSION; }
OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory*, OrtDataTransferImpl** out) noexcept {
  *out = nullptr;
  return nullptr;
}

}  // namespace
}  // namespace ephost::cpu

using namespace ephost::cpu;

// The EP's name is the registration name: "CPUExecutionProvider" is what ephost registers it as, and
// onnxruntime has one of its own by that name.
extern "C" EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char* registered_name,
                                                             const OrtApiBase* base, const OrtLogger* logger,
                                                             OrtEpFactory** factories, size_t max_factories,
                                                             size_t* num_factories) {
  *num_factories = 0;
  OrtStatus* refusal = nullptr;
  const ephost::Api api = ephost::api_of(base, "cpu", &refusal);
  if (api.ort == nullptr) {
    return refusal;
  }
  return ephost::guard(api, [&] {
    if (max_factories < 1) {
      ephost::invalid("the CPU plugin needs room for one factory");
    }
    auto factory = std::make_unique<Factory>();
    static_cast<OrtEpFactory&>(*factory) = OrtEpFactory{};
    factory->ort_version_supported = ephost::kApiVersion;
    factory->GetName = factory_name;
    factory->GetVendor = factory_vendor;
    factory->GetVendorId = factory_vendor_id;
    factory->GetVersion = factory_version;
    factory->GetSupportedDevices = get_devices;
    factory->CreateDataTransfer = create_data_transfer;
    factory->CreateEp = create_ep;
    factory->ReleaseEp = release_ep;
    factory->api = api;
    factory->name = registered_name;
    factory->logger = logger;
    factories[0] = factory.release();
    *num_factories = 1;
  });
}

extern "C" EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<Factory*>(factory);
  return nullptr;
}
