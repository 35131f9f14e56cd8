#include "toolkit/context_io.h"

#include <cstring>

namespace ephost {
namespace {

// Positions of values among those of the fused node.
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

}  // namespace

Binding::Binding(const Api& api, const OrtNode* fused, std::vector<const Value*> inputs,
                 std::vector<const Value*> outputs)
    : input_values_(std::move(inputs)), output_values_(std::move(outputs)) {
  size_t num_inputs = 0, num_outputs = 0;
  api.check(api.ort->Node_GetNumInputs(fused, &num_inputs));
  api.check(api.ort->Node_GetNumOutputs(fused, &num_outputs));
  std::vector<const OrtValueInfo*> in(num_inputs), out(num_outputs);
  if (num_inputs > 0) api.check(api.ort->Node_GetInputs(fused, in.data(), num_inputs));
  if (num_outputs > 0) api.check(api.ort->Node_GetOutputs(fused, out.data(), num_outputs));
  inputs_ = positions(api, in, input_values_, false);
  outputs_ = positions(api, out, output_values_, true);
}

HostTexts::HostTexts(const Api& api, const OrtValue* value, size_t count) {
  size_t bytes = 0;
  if (count == 0) {
    return;
  }
  api.check(api.ort->GetStringTensorDataLength(value, &bytes));
  characters.reset(new char[bytes]);
  std::vector<size_t> begins(count);
  api.check(api.ort->GetStringTensorContent(value, characters.get(), bytes, begins.data(), count));
  views.reserve(count);
  for (size_t k = 0; k < count; ++k) {
    const size_t end = k + 1 < count ? begins[k + 1] : bytes;
    if (begins[k] > end || end > bytes) {
      fail("the host's strings lie beyond their tensor");
    }
    views.emplace_back(characters.get() + begins[k], end - begins[k]);
  }
}

ContextIo::Input ContextIo::input(size_t i) {
  Input input;
  if (binding_.input_values_[i]->constant != nullptr) {
    return input;
  }
  const OrtValue* value = nullptr;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  const void* data = nullptr;
  api_.check(api_.ort->KernelContext_GetInput(context_, binding_.inputs_[i], &value));
  if (value == nullptr) {
    invalid("the input '" + binding_.input_values_[i]->name + "' is missing");
  }
  api_.check(api_.ort->GetTensorElementTypeAndShapeDataReference(value, &type, &dims, &rank));
  input.type = static_cast<DType>(type);
  input.dims.assign(dims, dims + rank);
  if (input.type == DType::kString) {
    const size_t n = static_cast<size_t>(count(input.dims));
    auto& [held, elements] = texts_.emplace_back(HostTexts(api_, value, n), std::vector<Text>(n));
    for (size_t k = 0; k < n; ++k) elements[k].at = &held.views[k];
    input.data = elements.data();
    return input;
  }
  api_.check(api_.ort->GetTensorData(value, &data));
  std::memcpy(&input.data, &data, sizeof data);
  return input;
}

void* ContextIo::output(size_t i, DType type, const Dims& dims) {
  OrtValue* value = nullptr;
  void* data = nullptr;
  ONNXTensorElementDataType given = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* given_dims = nullptr;
  size_t rank = 0;
  api_.check(
      api_.ort->KernelContext_GetOutput(context_, binding_.outputs_[i], dims.data(), dims.size(), &value));
  // The host makes it of the type that the graph declares, and nothing says that this is what the nodes make.
  api_.check(api_.ort->GetTensorElementTypeAndShapeDataReference(value, &given, &given_dims, &rank));
  if (static_cast<DType>(given) != type) {
    invalid("the output '" + binding_.output_values_[i]->name + "' is declared as " +
            name_of(static_cast<DType>(given)) + ", and is " + name_of(type));
  }
  if (type == DType::kString) {
    return unfinished_.emplace_back(value, std::vector<Text>(static_cast<size_t>(count(dims)))).second.data();
  }
  api_.check(api_.ort->GetTensorMutableData(value, &data));
  return data;
}

void ContextIo::finish() const {
  for (const auto& [value, elements] : unfinished_) {
    for (size_t k = 0; k < elements.size(); ++k) {
      const std::string_view text = elements[k].view();
      char* to = nullptr;
      api_.check(api_.ort->GetResizedStringTensorElementBuffer(value, k, text.size(), &to));
      if (!text.empty()) std::memcpy(to, text.data(), text.size());
    }
  }
}

}  // namespace ephost
