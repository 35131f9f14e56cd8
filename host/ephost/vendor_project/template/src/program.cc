#include "program.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace plugin {
namespace {

size_t element_count(const Shape& shape) {
  size_t count = 1;
  for (const int64_t dim : shape) {
    if (dim == 0) {
      return 0;
    }
  }
  for (const int64_t dim : shape) {
    if (static_cast<uint64_t>(dim) > std::numeric_limits<size_t>::max() / sizeof(float) / count) {
      throw Error(ORT_INVALID_ARGUMENT, "my_ep: a result would be larger than memory can be");
    }
    count *= static_cast<size_t>(dim);
  }
  return count;
}

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + ")";
}

// numpy's rule: shapes are aligned at the right, and where they differ, one of the two is 1.
Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& wide = a.size() >= b.size() ? a : b;
  const Shape& narrow = a.size() >= b.size() ? b : a;
  Shape result = wide;
  const size_t lead = wide.size() - narrow.size();
  for (size_t i = 0; i < narrow.size(); ++i) {
    const int64_t x = wide[lead + i], y = narrow[i];
    if (x != y && x != 1 && y != 1) {
      throw Error(ORT_INVALID_ARGUMENT,
                  "my_ep: the shapes " + text_of(a) + " and " + text_of(b) + " do not fit together");
    }
    result[lead + i] = x == 1 ? y : x;
  }
  return result;
}

// The elements of a tensor, repeated to a shape that it broadcasts to and that is not empty.
std::vector<float> expand(const float* data, const Shape& shape, const Shape& to) {
  const size_t lead = to.size() - shape.size();
  std::vector<size_t> strides(to.size());  // elements to the next index; 0 where one is repeated
  size_t stride = 1;
  for (size_t i = to.size(); i-- > lead;) {
    strides[i] = shape[i - lead] == 1 ? 0 : stride;
    stride *= static_cast<size_t>(shape[i - lead]);
  }
  std::vector<float> made(element_count(to));
  std::vector<int64_t> index(to.size());
  size_t at = 0;
  for (float& element : made) {
    element = data[at];
    for (size_t i = to.size(); i-- > 0;) {
      at += strides[i];
      if (++index[i] < to[i]) {
        break;
      }
      at -= strides[i] * static_cast<size_t>(to[i]);
      index[i] = 0;
    }
  }
  return made;
}

}  // namespace

// A value in one run: the host's memory, a constant's, or our own.
struct Program::Tensor {
  Shape shape;
  const float* data = nullptr;
  float* writable = nullptr;
  std::vector<float> own;
};

Program::Program(const Host& host, const OrtGraph* graph, const OrtNode* fused_node) : host_(&host) {
  std::unordered_map<std::string, size_t> number;  // of each value, by its name
  const auto number_of = [&](const OrtValueInfo* info) -> size_t {
    const auto [entry, is_new] = number.try_emplace(name_of(host, info), values_.size());
    if (is_new) {
      values_.emplace_back();
    }
    return entry->second;
  };

  // A fused node has each input once: of x + x it has one. So values are matched by name.
  const std::vector<const OrtValueInfo*> inputs = inputs_of(host, fused_node);
  for (size_t i = 0; i < inputs.size(); ++i) {
    values_[number_of(inputs[i])].input = i;
  }
  std::vector<bool> computed;
  for (const OrtNode* node : nodes_of(host, graph)) {
    Step step = {operator_of(host, node), {}, kNone};
    const std::vector<const OrtValueInfo*> outputs = outputs_of(host, node);
    const std::vector<const OrtValueInfo*> reads = inputs_of(host, node);
    if (step.op == nullptr || reads.size() != step.op->inputs || outputs.size() != 1) {
      throw Error(ORT_EP_FAIL, "my_ep: asked to compile " + describe(host, node) + ", which was not claimed");
    }
    for (const OrtValueInfo* info : reads) {
      const size_t value = number_of(info);
      computed.resize(values_.size());
      if (values_[value].input == kNone && !computed[value] && !values_[value].constant) {
        add_constant(info, &values_[value]);
      }
      values_[value].last_use = steps_.size();
      step.inputs.push_back(value);
    }
    step.output = number_of(outputs[0]);
    computed.resize(values_.size());
    computed[step.output] = true;
    steps_.push_back(std::move(step));
  }
  const std::vector<const OrtValueInfo*> outputs = outputs_of(host, fused_node);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t value = number_of(outputs[i]);
    computed.resize(values_.size());
    if (!computed[value]) {
      throw Error(ORT_EP_FAIL,
                  "my_ep: no node of the group computes its output '" + name_of(host, outputs[i]) + "'");
    }
    values_[value].output = i;
  }
}

void Program::add_constant(const OrtValueInfo* info, Value* value) const {
  const OrtApi* api = host_->api;
  const OrtValue* tensor = nullptr;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  const void* data = nullptr;
  host_->check(api->ValueInfo_GetInitializerValue(info, &tensor));
  if (tensor == nullptr) {
    throw Error(ORT_EP_FAIL, "my_ep: the value '" + name_of(*host_, info) +
                                 "' of a group is neither an input, nor a constant, nor a result");
  }
  host_->check(api->GetTensorElementTypeAndShapeDataReference(tensor, &type, &dims, &rank));
  host_->check(api->GetTensorData(tensor, &data));
  if (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    throw Error(ORT_EP_FAIL, "my_ep: the constant '" + name_of(*host_, info) + "' is not of its type");
  }
  value->constant = true;
  value->shape.assign(dims, dims + rank);
  const float* elements = static_cast<const float*>(data);
  value->data.assign(elements, elements + element_count(value->shape));
}

Program::Tensor Program::read_input(const OrtKernelContext* context, size_t index) const {
  const OrtApi* api = host_->api;
  const OrtValue* tensor = nullptr;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  const void* data = nullptr;
  host_->check(api->KernelContext_GetInput(context, index, &tensor));
  host_->check(api->GetTensorElementTypeAndShapeDataReference(tensor, &type, &dims, &rank));
  host_->check(api->GetTensorData(tensor, &data));
  Tensor made;
  made.shape.assign(dims, dims + rank);
  made.data = static_cast<const float*>(data);
  return made;
}

// The host allocates outputs, also empty ones; what stays inside of the group is ours.
Program::Tensor Program::make_result(OrtKernelContext* context, const Value& value, Shape shape) const {
  Tensor made;
  made.shape = std::move(shape);
  if (value.output == kNone) {
    made.own.resize(element_count(made.shape));
    made.writable = made.own.data();
  } else {
    OrtValue* tensor = nullptr;
    void* data = nullptr;
    host_->check(host_->api->KernelContext_GetOutput(context, value.output, made.shape.data(),
                                                     made.shape.size(), &tensor));
    host_->check(host_->api->GetTensorMutableData(tensor, &data));
    made.writable = static_cast<float*>(data);
  }
  made.data = made.writable;
  return made;
}

void Program::run(OrtKernelContext* context) const {
  std::vector<Tensor> tensors(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].input != kNone) {
      tensors[i] = read_input(context, values_[i].input);
    } else if (values_[i].constant) {
      tensors[i].shape = values_[i].shape;
      tensors[i].data = values_[i].data.data();
    }
  }
  for (size_t at = 0; at < steps_.size(); ++at) {
    const Step& step = steps_[at];
    Shape shape = tensors[step.inputs.front()].shape;
    for (const size_t input : step.inputs) {
      shape = broadcast(shape, tensors[input].shape);
    }
    const size_t count = element_count(shape);
    Tensor result = make_result(context, values_[step.output], std::move(shape));
    if (count > 0) {
      const float* operands[2] = {};
      std::vector<float> repeated[2];
      for (size_t k = 0; k < step.inputs.size(); ++k) {
        const Tensor& operand = tensors[step.inputs[k]];
        operands[k] = operand.data;
        if (element_count(operand.shape) != count) {  // else it holds the same elements in the same order
          repeated[k] = expand(operand.data, operand.shape, result.shape);
          operands[k] = repeated[k].data();
        }
      }
      step.op->row(operands[0], operands[1], result.writable, count);
    }
    tensors[step.output] = std::move(result);
    for (const size_t input : step.inputs) {
      if (values_[input].last_use == at) {
        tensors[input].own = {};
      }
    }
  }
}

}  // namespace plugin
