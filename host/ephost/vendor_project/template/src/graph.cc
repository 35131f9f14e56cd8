#include "graph.h"

namespace plugin {
namespace {

using Count = OrtStatus*(ORT_API_CALL*)(const OrtNode*, size_t*);
using Get = OrtStatus*(ORT_API_CALL*)(const OrtNode*, const OrtValueInfo**, size_t);

std::vector<const OrtValueInfo*> values(const Host& host, const OrtNode* node, Count count, Get get) {
  size_t number = 0;
  host.check(count(node, &number));
  std::vector<const OrtValueInfo*> found(number);
  if (number > 0) {
    host.check(get(node, found.data(), number));
  }
  return found;
}

}  // namespace

std::vector<const OrtNode*> nodes_of(const Host& host, const OrtGraph* graph) {
  size_t number = 0;
  host.check(host.api->Graph_GetNumNodes(graph, &number));
  std::vector<const OrtNode*> nodes(number);
  if (number > 0) {
    host.check(host.api->Graph_GetNodes(graph, nodes.data(), number));
  }
  return nodes;
}

std::vector<const OrtValueInfo*> inputs_of(const Host& host, const OrtNode* node) {
  return values(host, node, host.api->Node_GetNumInputs, host.api->Node_GetInputs);
}

std::vector<const OrtValueInfo*> outputs_of(const Host& host, const OrtNode* node) {
  return values(host, node, host.api->Node_GetNumOutputs, host.api->Node_GetOutputs);
}

std::vector<const OrtValueInfo*> implicit_inputs_of(const Host& host, const OrtNode* node) {
  return values(host, node, host.api->Node_GetNumImplicitInputs, host.api->Node_GetImplicitInputs);
}

std::string name_of(const Host& host, const OrtValueInfo* value) {
  const char* name = nullptr;
  host.check(host.api->GetValueInfoName(value, &name));
  return name;
}

std::string describe(const Host& host, const OrtNode* node) {
  const char* name = nullptr;
  const char* type = nullptr;
  host.check(host.api->Node_GetName(node, &name));
  host.check(host.api->Node_GetOperatorType(node, &type));
  return std::string("node '") + name + "' (" + type + ")";
}

const Operator* operator_of(const Host& host, const OrtNode* node) {
  const char* domain = nullptr;
  const char* type = nullptr;
  int since = 0;
  host.check(host.api->Node_GetDomain(node, &domain));
  host.check(host.api->Node_GetOperatorType(node, &type));
  host.check(host.api->Node_GetSinceVersion(node, &since));
  return find_operator(domain, type, since);
}

bool is_float_tensor(const Host& host, const OrtValueInfo* value) {
  const OrtTypeInfo* type = nullptr;  // belongs to the value
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  if (value == nullptr) {
    return false;
  }
  host.check(host.api->GetValueInfoTypeInfo(value, &type));
  if (type == nullptr) {
    return false;  // the model does not say
  }
  host.check(host.api->CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor == nullptr) {
    return false;  // a sequence, a map, an optional
  }
  host.check(host.api->GetTensorElementType(tensor, &element));
  return element == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

}  // namespace plugin
