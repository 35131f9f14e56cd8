#include "toolkit/import.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "toolkit/context_io.h"
#include "toolkit/text.h"

namespace ephost {
namespace {

struct Files {
  std::filesystem::path model;  // Empty where it is in no file.
  std::map<std::string, std::shared_ptr<MappedFile>> mapped;

  std::shared_ptr<MappedFile> open(const std::string& path) {
    const auto [entry, is_new] = mapped.try_emplace(path);
    if (is_new) entry->second = MappedFile::open(path);
    if (is_new && entry->second != nullptr) {
      std::error_code none;
      entry->second->lasts = model.empty() || !std::filesystem::equivalent(model, path, none);
    }
    return entry->second;
  }
};
constexpr size_t kWorthMapping = size_t{1} << 16;  // Bytes; less is read through the host.

std::unique_ptr<Graph> import_graph(const Api& api, const OrtGraph* origin, Graph* parent, Files* files);

struct Reader {
  const Api& api;
  Files* files;  // Mapped so far.

  // What the node that is read reads and writes: kept for the next one, as room.
  std::vector<const OrtValueInfo*> infos = {};
  std::vector<const OrtOpAttr*> attributes = {};

  std::string text(OrtStatus*(ORT_API_CALL* get)(const OrtNode*, const char**), const OrtNode* node) const {
    const char* out = nullptr;
    api.check(get(node, &out));
    return out == nullptr ? "" : out;
  }

  std::string_view name(const OrtValueInfo* info) const {
    const char* out = nullptr;
    api.check(api.ort->GetValueInfoName(info, &out));
    return out == nullptr ? "" : out;
  }

  void read_type(const OrtValueInfo* info, Value* value) const {
    const OrtTypeInfo* type = nullptr;
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    api.check(api.ort->GetValueInfoTypeInfo(info, &type));
    if (type == nullptr) {
      return;
    }
    ONNXType kind = ONNX_TYPE_UNKNOWN;
    api.check(api.ort->GetOnnxTypeFromTypeInfo(type, &kind));
    value->tensor = kind == ONNX_TYPE_TENSOR || kind == ONNX_TYPE_UNKNOWN;
    api.check(api.ort->CastTypeInfoToTensorInfo(type, &tensor));
    if (tensor == nullptr || kind != ONNX_TYPE_TENSOR) {
      return;
    }
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    api.check(api.ort->GetTensorElementType(tensor, &element));
    value->type = static_cast<DType>(element);
    value->has_shape = api.ort->TensorTypeAndShape_HasShape(tensor);
    if (value->has_shape) {
      size_t rank = 0;
      api.check(api.ort->GetDimensionsCount(tensor, &rank));
      value->dims.assign(rank, -1);
      if (rank > 0) {
        api.check(api.ort->GetDimensions(tensor, value->dims.data(), rank));
      }
      for (int64_t& dim : value->dims) {
        dim = dim < 0 ? -1 : dim;
      }
    }
  }

  // The value of this name; made, with its type, when it is first met.
  Value* value(Graph* graph, const OrtValueInfo* info) const {
    if (info == nullptr) {
      return nullptr;
    }
    const std::string_view key = name(info);
    if (key.empty()) {
      return nullptr;
    }
    if (Value* known = graph->find(key)) {
      return known;
    }
    Value* made = graph->add_value(key);
    read_type(info, made);
    return made;
  }

  // A large constant where it lies in a file, so that the host need not read it. Null if it does not.
  TensorPtr read_file(const OrtValueInfo* info, const Value& value) const {
    const bool open = std::any_of(value.dims.begin(), value.dims.end(), [](int64_t dim) { return dim < 0; });
    if (files == nullptr || size_of(value.type) == 0 || value.type == DType::kString || !value.has_shape ||
        open) {
      return nullptr;
    }
    const size_t bytes = static_cast<size_t>(count(value.dims)) * size_of(value.type);
    if (bytes < kWorthMapping) {
      return nullptr;
    }
    OrtExternalInitializerInfo* found = nullptr;
    api.check(api.ort->ValueInfo_GetExternalInitializerInfo(info, &found));
    if (found == nullptr) {
      return nullptr;
    }
    const std::unique_ptr<OrtExternalInitializerInfo, void(ORT_API_CALL*)(OrtExternalInitializerInfo*)> held(
        found, api.ort->ReleaseExternalInitializerInfo);
    const std::basic_string<ORTCHAR_T> wide = api.ort->ExternalInitializerInfo_GetFilePath(found);
    const std::string path(wide.begin(), wide.end());
    const int64_t offset = api.ort->ExternalInitializerInfo_GetFileOffset(found);
    const std::shared_ptr<MappedFile> file = files->open(path);
    // Hosts may name files that are not there (memory has such names in some), or give relative paths.
    if (file == nullptr || api.ort->ExternalInitializerInfo_GetByteSize(found) != bytes || offset < 0 ||
        static_cast<size_t>(offset) > file->bytes() || file->bytes() - static_cast<size_t>(offset) < bytes) {
      return nullptr;
    }
    auto tensor = std::make_shared<Tensor>();
    tensor->type = value.type;
    tensor->dims = value.dims;
    tensor->data = file->data() + offset;
    tensor->file = file;
    return tensor;
  }

  void read_constant(const OrtValueInfo* info, Value* value) const {
    if (value->constant != nullptr || value->producer != nullptr) {
      return;
    }
    bool constant = false;
    api.check(api.ort->ValueInfo_IsConstantInitializer(info, &constant));
    if (constant) {
      value->constant = read_file(info, *value);
      if (value->constant != nullptr) {
        return;
      }
      const OrtValue* content = nullptr;
      api.check(api.ort->ValueInfo_GetInitializerValue(info, &content));
      if (content != nullptr) {
        value->constant = import_tensor(api, content);
        if (value->constant != nullptr) {
          value->type = value->constant->type;
          value->has_shape = true;
          value->dims = value->constant->dims;
        }
      }
    }
  }

  template <typename T>
  std::vector<T> read_array(const OrtOpAttr* attribute, OrtOpAttrType type) const {
    // Most lists fit here. How much room a longer one needs the host says by an error, whose text takes
    // longer to make than all else.
    std::array<T, 256 / sizeof(T)> few;
    size_t bytes = 0;
    OrtStatus* const status = api.ort->ReadOpAttr(attribute, type, few.data(), sizeof few, &bytes);
    if (status == nullptr) {
      return std::vector<T>(few.data(), few.data() + bytes / sizeof(T));
    }
    api.ort->ReleaseStatus(status);
    std::vector<T> data(bytes / sizeof(T));
    if (!data.empty()) {
      api.check(api.ort->ReadOpAttr(attribute, type, data.data(), bytes, &bytes));
    }
    return data;
  }

  void read_attribute(Node* node, const OrtOpAttr* attribute) const {
    const char* key = nullptr;
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    api.check(api.ort->OpAttr_GetName(attribute, &key));
    api.check(api.ort->OpAttr_GetType(attribute, &type));
    Attribute out;
    size_t bytes = 0;
    switch (type) {
      case ORT_OP_ATTR_INT: {
        int64_t value = 0;
        api.check(api.ort->ReadOpAttr(attribute, type, &value, sizeof value, &bytes));
        out = value;
        break;
      }
      case ORT_OP_ATTR_FLOAT: {
        float value = 0;
        api.check(api.ort->ReadOpAttr(attribute, type, &value, sizeof value, &bytes));
        out = value;
        break;
      }
      case ORT_OP_ATTR_STRING: {
        std::vector<char> value = read_array<char>(attribute, type);
        // Some hosts count a terminating zero and some do not. One in the middle is part of the text.
        if (!value.empty() && value.back() == '\0') value.pop_back();
        out = std::string(value.begin(), value.end());
        break;
      }
      case ORT_OP_ATTR_INTS:
        out = read_array<int64_t>(attribute, type);
        break;
      case ORT_OP_ATTR_FLOATS:
        out = read_array<float>(attribute, type);
        break;
      case ORT_OP_ATTR_TENSOR: {
        // The host makes a value of its own for this one, which is ours to release: so the content is copied.
        OrtValue* content = nullptr;
        api.check(api.ort->OpAttr_GetTensorAttributeAsOrtValue(attribute, &content));
        const std::unique_ptr<OrtValue, void(ORT_API_CALL*)(OrtValue*)> held(content, api.ort->ReleaseValue);
        TensorPtr tensor = import_tensor(api, content);
        if (tensor == nullptr) return;
        tensor->own();
        out = tensor;
        break;
      }
      case ORT_OP_ATTR_STRINGS: {
        const std::vector<char> all = read_array<char>(attribute, type);  // Each ends with a zero.
        auto& list = out.emplace<std::vector<std::string>>();
        list.reserve(static_cast<size_t>(std::count(all.begin(), all.end(), '\0')) + 1);
        for (size_t at = 0; at < all.size(); at += list.back().size() + 1) {
          list.emplace_back(all.data() + at, strnlen(all.data() + at, all.size() - at));
        }
        break;
      }
      default:  // Graphs (read as subgraphs), and types that no operator of ours has.
        return;
    }
    node->attributes.add(key, std::move(out));
  }

  void read_node(Graph* graph, const OrtNode* origin) {
    size_t inputs = 0, outputs = 0, implicit = 0, listed = 0, subgraphs = 0;
    int version = 1;
    api.check(api.ort->Node_GetNumInputs(origin, &inputs));
    api.check(api.ort->Node_GetNumOutputs(origin, &outputs));
    api.check(api.ort->Node_GetNumImplicitInputs(origin, &implicit));
    api.check(api.ort->Node_GetNumAttributes(origin, &listed));
    api.check(api.ort->Node_GetNumSubgraphs(origin, &subgraphs));
    api.check(api.ort->Node_GetSinceVersion(origin, &version));

    std::vector<Value*> in_values, out_values;
    in_values.reserve(inputs);
    out_values.reserve(outputs);
    infos.resize(inputs);
    if (inputs > 0) api.check(api.ort->Node_GetInputs(origin, infos.data(), inputs));
    for (const OrtValueInfo* info : infos) {
      Value* known = value(graph, info);
      if (known != nullptr) {
        read_constant(info, known);
      }
      in_values.push_back(known);
    }
    infos.resize(outputs);
    if (outputs > 0) api.check(api.ort->Node_GetOutputs(origin, infos.data(), outputs));
    for (const OrtValueInfo* info : infos) {
      out_values.push_back(value(graph, info));
    }
    std::string domain = text(api.ort->Node_GetDomain, origin);
    if (domain == "ai.onnx") {
      domain.clear();
    }
    Node* node = graph->add_node(domain, text(api.ort->Node_GetOperatorType, origin), std::move(in_values),
                                 std::move(out_values), text(api.ort->Node_GetName, origin));
    node->version = version;
    node->origin = origin;
    infos.resize(implicit);
    if (implicit > 0) api.check(api.ort->Node_GetImplicitInputs(origin, infos.data(), implicit));
    for (const OrtValueInfo* info : infos) {
      if (Value* known = value(graph, info)) {
        read_constant(info, known);
        node->implicit.push_back(known);
        known->consumers.push_back(node);
      }
    }
    attributes.resize(listed);
    if (listed > 0) api.check(api.ort->Node_GetAttributes(origin, attributes.data(), listed));
    node->attributes.reserve(listed);
    for (const OrtOpAttr* attribute : attributes) {
      read_attribute(node, attribute);
    }
    if (subgraphs > 0) {
      std::vector<const OrtGraph*> graphs(subgraphs);
      std::vector<const char*> names(subgraphs);
      api.check(api.ort->Node_GetSubgraphs(origin, graphs.data(), subgraphs, names.data()));
      for (size_t i = 0; i < subgraphs; ++i) {
        node->subgraphs.emplace_back(names[i], import_graph(api, graphs[i], graph, files));
      }
    }
  }
};

}  // namespace

std::unique_ptr<Graph> import_graph(const Api& api, const OrtGraph* origin, Graph* parent) {
  Files files;
  const ORTCHAR_T* model = nullptr;
  api.check(api.ort->Graph_GetModelPath(origin, &model));
  if (model != nullptr) files.model = model;
  return import_graph(api, origin, parent, &files);
}

TensorPtr import_tensor(const Api& api, const OrtValue* value) {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  int is_tensor = 0;
  api.check(api.ort->IsTensor(value, &is_tensor));
  if (is_tensor == 0) {
    return nullptr;
  }
  auto tensor = std::make_shared<Tensor>();
  api.check(api.ort->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank));
  tensor->type = static_cast<DType>(type);
  tensor->dims.assign(dims, dims + rank);
  if (size_of(tensor->type) == 0) {
    return nullptr;
  }
  if (tensor->type == DType::kString) {
    return make_texts(tensor->dims, HostTexts(api, value, static_cast<size_t>(count(tensor->dims))).views);
  }
  api.check(api.ort->GetTensorData(value, &tensor->data));
  return tensor;
}

namespace {

std::unique_ptr<Graph> import_graph(const Api& api, const OrtGraph* origin, Graph* parent, Files* files) {
  Reader reader{api, files};
  auto graph = std::make_unique<Graph>();
  graph->parent = parent;
  size_t inputs = 0, outputs = 0, initializers = 0, nodes = 0;
  api.check(api.ort->Graph_GetNumInputs(origin, &inputs));
  api.check(api.ort->Graph_GetNumOutputs(origin, &outputs));
  api.check(api.ort->Graph_GetNumInitializers(origin, &initializers));
  api.check(api.ort->Graph_GetNumNodes(origin, &nodes));

  std::vector<const OrtValueInfo*> infos(inputs);
  if (inputs > 0) api.check(api.ort->Graph_GetInputs(origin, infos.data(), inputs));
  for (const OrtValueInfo* info : infos) {
    Value* value = reader.value(graph.get(), info);
    if (value == nullptr) {
      invalid("an input of the graph has no name");
    }
    value->is_input = true;
    graph->inputs.push_back(value);
  }
  infos.resize(initializers);
  if (initializers > 0) api.check(api.ort->Graph_GetInitializers(origin, infos.data(), initializers));
  for (const OrtValueInfo* info : infos) {
    if (Value* value = reader.value(graph.get(), info)) {
      reader.read_constant(info, value);
    }
  }
  if (parent != nullptr) {
    // Older models list a body's initializers among its inputs, where its node hands nothing over.
    std::erase_if(graph->inputs, [](Value* value) {
      value->is_input = value->constant == nullptr;
      return !value->is_input;
    });
  }
  std::vector<const OrtNode*> list(nodes);
  if (nodes > 0) api.check(api.ort->Graph_GetNodes(origin, list.data(), nodes));
  for (const OrtNode* node : list) {
    reader.read_node(graph.get(), node);
  }
  infos.resize(outputs);
  if (outputs > 0) api.check(api.ort->Graph_GetOutputs(origin, infos.data(), outputs));
  for (const OrtValueInfo* info : infos) {
    Value* value = reader.value(graph.get(), info);
    if (value == nullptr) {
      invalid("an output of the graph has no name");
    }
    value->is_output = true;
    graph->outputs.push_back(value);
  }
  // What nobody here produces comes from around us.
  for (const auto& value : graph->values) {
    if (value->producer == nullptr && !value->is_input && value->constant == nullptr) {
      value->is_outer = true;
      value->outer = parent == nullptr ? nullptr : parent->find(value->name);
      if (value->outer != nullptr) {
        value->constant = value->outer->constant;
      }
      graph->outer.push_back(value.get());
    }
  }
  graph->sort();
  return graph;
}

}  // namespace
}  // namespace ephost
