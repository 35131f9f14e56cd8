// The plugin's border: factory, EP, what is claimed, and the fused nodes that the host runs.
#include <cstring>

#include "../compiler/import.h"
#include "code_pages.h"
#include "ephost/plugin.h"
#include "program.h"

namespace ephost::cpu {
namespace {

// The lowest version that has all that is called here.
constexpr uint32_t kApiVersion = 24;
// The lowest version whose OrtEp has all members that are set here; hosts before it do not read the last
// ones.
constexpr uint32_t kEpVersion = 25;
#ifndef EPHOST_VERSION
#define EPHOST_VERSION "0.1.0"
#endif

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

void log(const Ep& ep, OrtLoggingLevel level, const std::string& text) {
  static const ORTCHAR_T kFile[] = {'c', 'p', 'u', '\0'};
  const OrtApi* ort = ep.factory->api.ort;
  if (OrtStatus* status = ort->Logger_LogMessage(ep.logger, level, text.c_str(), kFile, 0, "cpu")) {
    ort->ReleaseStatus(status);
  }
}

// ---- What is claimed

constexpr char kBelongs[] = "it belongs to ";

// Why a subgraph cannot be run as part of its node; "" if it can.
std::string why_not(const Ep& ep, const Graph& graph);

// Why a node cannot be run here, with all its subgraphs; "" if it can.
std::string why_not(const Ep& ep, const Node& node) {
  const char* owner = nullptr;
  ep.factory->api.check(ep.factory->api.ort->Node_GetEpName(node.origin, &owner));
  if (owner != nullptr && owner[0] != '\0' && ep.factory->name != owner) {
    return kBelongs + std::string(owner);
  }
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
      if (!value->tensor || value->type == DType::kString) {
        return "'" + value->name + "', which is not a tensor of numbers";
      }
    }
  }
  for (const Node* node : graph.nodes) {
    const std::string why = why_not(ep, *node);
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

// Whether a node takes or gives only tensors, as far as the host says.
bool only_tensors(const Api& api, const OrtNode* node) {
  size_t inputs = 0, outputs = 0;
  api.check(api.ort->Node_GetNumInputs(node, &inputs));
  api.check(api.ort->Node_GetNumOutputs(node, &outputs));
  std::vector<const OrtValueInfo*> all(inputs + outputs);
  if (inputs > 0) api.check(api.ort->Node_GetInputs(node, all.data(), inputs));
  if (outputs > 0) api.check(api.ort->Node_GetOutputs(node, all.data() + inputs, outputs));
  return std::all_of(all.begin(), all.end(), [&](const OrtValueInfo* info) {
    const OrtTypeInfo* type = nullptr;
    ONNXType kind = ONNX_TYPE_UNKNOWN;
    if (info != nullptr) api.check(api.ort->GetValueInfoTypeInfo(info, &type));
    if (type != nullptr) api.check(api.ort->GetOnnxTypeFromTypeInfo(type, &kind));
    return kind == ONNX_TYPE_TENSOR || kind == ONNX_TYPE_UNKNOWN;
  });
}

// Claims groups that may be run one after the other: group k has the nodes that need nobody else's node
// between them and group k - 1. Two nodes of one group are never connected by way of a node that is not ours.
void claim(const Ep& ep, const OrtGraph* origin, OrtEpGraphSupportInfo* support) {
  const Api& api = ep.factory->api;
  const OrtNode* parent = nullptr;
  api.check(api.ort->Graph_GetParentNode(origin, &parent));
  if (parent != nullptr && whole(ep, parent)) {
    return;  // Hosts ask about subgraphs first: this one will be claimed with its node.
  }
  if (parent != nullptr && !only_tensors(api, parent)) {
    return;  // onnxruntime inlines functions over sequences after it asks, and does not find our nodes then.
  }
  const std::unique_ptr<Graph> graph = import_graph(api, origin);
  std::unordered_map<const Node*, size_t> level;
  std::vector<std::vector<const OrtNode*>> groups;
  for (const Node* node : graph->nodes) {
    const std::string why = why_not(ep, *node);
    size_t after = 0;
    for (const std::vector<Value*>* list : {&node->inputs, &node->implicit}) {
      for (const Value* value : *list) {
        if (value != nullptr && value->producer != nullptr) {
          const auto found = level.find(value->producer);
          const bool theirs = found->second % 2 == 1;
          // Levels: 2k for our group k, 2k + 1 for what others run after it.
          after = std::max(after, why.empty() && theirs ? found->second + 1 : found->second);
        }
      }
    }
    if (!why.empty()) {
      level[node] = after | 1;
      if (why.rfind(kBelongs, 0) != 0) {
        log(ep, ORT_LOGGING_LEVEL_INFO, "not taken: " + node->label() + ": " + why);
      }
      continue;
    }
    level[node] = after;
    groups.resize(std::max(groups.size(), after / 2 + 1));
    groups[after / 2].push_back(node->origin);
  }
  OrtNodeFusionOptions options{};
  options.ort_version_supported = kApiVersion;
  options.drop_constant_initializers = true;
  for (const std::vector<const OrtNode*>& group : groups) {
    if (ep.one_by_one) {
      for (const OrtNode* node : group) {
        api.check(api.ep->EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, &options));
      }
    } else if (!group.empty()) {
      api.check(api.ep->EpGraphSupportInfo_AddNodesToFuse(support, group.data(), group.size(), &options));
    }
  }
}

// ---- What is run

struct Compiled : OrtNodeComputeInfo {
  const Ep* ep = nullptr;
  std::unique_ptr<Program> program;
  // The fused node's inputs and outputs by the numbers of the program's: the host may order them differently,
  // and leave out inputs that are constants.
  std::vector<size_t> inputs, outputs;
};

class ContextIo final : public Io {
 public:
  ContextIo(const Api& api, const Compiled& compiled, OrtKernelContext* context)
      : api_(api), compiled_(compiled), context_(context), inputs_(compiled.inputs.size()) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const OrtValue* value = nullptr;
      ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
      const int64_t* dims = nullptr;
      size_t rank = 0;
      const void* data = nullptr;
      Input& input = inputs_[i];
      if (compiled.program->input(i)->constant != nullptr) {
        continue;
      }
      api.check(api.ort->KernelContext_GetInput(context, compiled.inputs[i], &value));
      if (value == nullptr) {
        invalid("the input '" + compiled.program->input(i)->name + "' is missing");
      }
      api.check(api.ort->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank));
      api.check(api.ort->GetTensorData(value, &data));
      input.desc.type = static_cast<DType>(type);
      input.desc.dims.assign(dims, dims + rank);
      std::memcpy(&input.data, &data, sizeof data);  // Never written to.
    }
  }
  const Desc& input(size_t i) override { return inputs_[i].desc; }
  void* input_data(size_t i) override { return inputs_[i].data; }
  void* output(size_t i, DType type, const Dims& dims) override {
    OrtValue* value = nullptr;
    void* data = nullptr;
    ONNXTensorElementDataType given = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    const int64_t* given_dims = nullptr;
    size_t rank = 0;
    api_.check(
        api_.ort->KernelContext_GetOutput(context_, compiled_.outputs[i], dims.data(), dims.size(), &value));
    // The host makes it of the type that the graph declares, and nothing says that this is what the nodes
    // make.
    api_.check(api_.ort->GetTensorElementTypeAndShapeDataReference(value, &given, &given_dims, &rank));
    if (static_cast<DType>(given) != type) {
      invalid("the output '" + compiled_.program->graph().outputs[i]->name + "' is declared as " +
              name_of(static_cast<DType>(given)) + ", and is " + name_of(type));
    }
    api_.check(api_.ort->GetTensorMutableData(value, &data));
    return data;
  }

 private:
  struct Input {
    Desc desc;
    void* data = nullptr;
  };
  const Api& api_;
  const Compiled& compiled_;
  OrtKernelContext* context_;
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
    ContextIo io(api, compiled, context);
    compiled.program->run(io);
  });
}

void ORT_API_CALL release_state(OrtNodeComputeInfo*, void*) noexcept {}

// Positions of the program's values among those of the fused node, by name.
std::vector<size_t> positions(const Api& api, const std::vector<const OrtValueInfo*>& infos,
                              const std::vector<const Value*>& values, bool required) {
  std::unordered_map<std::string, size_t> by_name;
  for (size_t i = 0; i < infos.size(); ++i) {
    const char* name = nullptr;
    if (infos[i] != nullptr) {
      api.check(api.ort->GetValueInfoName(infos[i], &name));
      by_name.emplace(name, i);
    }
  }
  std::vector<size_t> out;
  for (const Value* value : values) {
    const auto found = by_name.find(value->name);
    if (found == by_name.end() && (required || value->constant == nullptr)) {
      invalid("the fused node has no '" + value->name + "'");
    }
    out.push_back(found == by_name.end() ? 0 : found->second);
  }
  return out;
}

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

  size_t inputs = 0, outputs = 0;
  api.check(api.ort->Node_GetNumInputs(fused, &inputs));
  api.check(api.ort->Node_GetNumOutputs(fused, &outputs));
  std::vector<const OrtValueInfo*> in(inputs), out(outputs);
  if (inputs > 0) api.check(api.ort->Node_GetInputs(fused, in.data(), inputs));
  if (outputs > 0) api.check(api.ort->Node_GetOutputs(fused, out.data(), outputs));
  std::vector<const Value*> in_values,
      out_values(program.graph().outputs.begin(), program.graph().outputs.end());
  for (size_t i = 0; i < program.num_inputs(); ++i) {
    in_values.push_back(program.input(i));
  }
  compiled->inputs = positions(api, in, in_values, false);
  compiled->outputs = positions(api, out, out_values, true);
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
      const char* const keys[] = {"op_name", "method"};
      const char* const values[] = {step.op.c_str(), step.method.c_str()};
      OrtProfilingEvent* event = nullptr;
      self.api.check(self.api.ep->CreateProfilingEvent(
          OrtProfilingEventCategory_KERNEL, -1, -1, step.name.c_str(), step.start_ns / 1000,
          (step.start_ns + step.duration_ns) / 1000 - step.start_ns / 1000, keys, values,
          step.method.empty() ? 1 : 2, &event));
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

// An entry of the session's configuration; "" if it is not set.
std::string config_entry(const Api& api, const OrtSessionOptions* options, const std::string& key) {
  int found = 0;
  api.check(api.ort->HasSessionConfigEntry(options, key.c_str(), &found));
  if (found == 0) {
    return "";
  }
  size_t size = 0;
  api.check(api.ort->GetSessionConfigEntry(options, key.c_str(), nullptr, &size));
  std::string value(size, '\0');
  api.check(api.ort->GetSessionConfigEntry(options, key.c_str(), value.data(), &size));
  value.resize(strnlen(value.data(), value.size()));
  return value;
}

// An option of this EP: set for the session as "ep.<name in lower case>.<key>". "" if it is not set.
std::string option(const Api& api, const OrtSessionOptions* options, const std::string& ep, const char* key) {
  std::string full = "ep.";
  for (char c : ep) {
    full += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return config_entry(api, options, full + "." + key);
}

int64_t number(const std::string& text, const char* key, int64_t otherwise, int64_t most) {
  if (text.empty()) {
    return otherwise;
  }
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (*end != '\0' || value < 0 || value > most) {
    invalid(std::string("option ") + key + " is '" + text + "', not a number from 0 to " +
            std::to_string(most));
  }
  return value;
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
    ep->factory = &made_by;
    ep->logger = logger;
    const auto read = [&](const char* key, int64_t otherwise, int64_t most) {
      return number(option(made_by.api, options, made_by.name, key), key, otherwise, most);
    };
    ep->options.threads = static_cast<int>(read("intra_op_num_threads", 0, 1024));
    ep->options.spin = config_entry(made_by.api, options, "session.intra_op.allow_spinning") != "0";
    ep->options.fuse = read("fusion", 1, 1) != 0;
    ep->options.recorder = std::make_shared<Recorder>();
    ep->options.max_plans = static_cast<size_t>(std::max<int64_t>(1, read("max_shapes", 32, 1 << 20)));
    ep->one_by_one = read("one_by_one", 0, 1) != 0;
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
        OrtKeyValuePairs* metadata = nullptr;
        api.ort->CreateKeyValuePairs(&metadata);
        api.ort->AddKeyValuePair(metadata, "reads_model_files", "1");
        api.ort->AddKeyValuePair(metadata, "takes_transposed_weights", "1");
        OrtStatus* status = api.ep->CreateEpDevice(factory, devices[i], metadata, nullptr, &out[*found]);
        api.ort->ReleaseKeyValuePairs(metadata);
        api.check(status);
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
  const OrtApi* ort = base->GetApi(kApiVersion);
  if (ort == nullptr) {
    const OrtApi* oldest = base->GetApi(1);
    return oldest == nullptr ? nullptr
                             : oldest->CreateStatus(ORT_FAIL, "this plugin needs a host with API version 24");
  }
  const ephost::Api api{ort, ort->GetEpApi()};
  return ephost::guard(api, [&] {
    if (max_factories < 1) {
      ephost::invalid("the CPU plugin needs room for one factory");
    }
    auto factory = std::make_unique<Factory>();
    static_cast<OrtEpFactory&>(*factory) = OrtEpFactory{};
    factory->ort_version_supported = kApiVersion;
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
    let_go_of_code();
    factories[0] = factory.release();
    *num_factories = 1;
  });
}

extern "C" EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<Factory*>(factory);
  return nullptr;
}
