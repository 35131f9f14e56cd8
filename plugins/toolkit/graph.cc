#include "toolkit/graph.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "toolkit/half.h"

namespace ephost {
namespace {

template <typename T>
const T& attribute(const Node& node, std::string_view name, const T& otherwise) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) {
    return otherwise;
  }
  if (const T* value = std::get_if<T>(&found->second)) {
    return *value;
  }
  invalid(node.label() + ": attribute '" + std::string(name) +
          "' has another type than its operator defines");
}

template <typename T>
const std::vector<T>& list(const Node& node, std::string_view name) {
  static const std::vector<T> none;
  return attribute(node, name, none);
}

void drop_use(Value* value, const Node* node) {
  if (value != nullptr) {
    value->consumers.remove(node, 1);
  }
}

// Lists of uses up to here are searched, which is quicker than to note what goes.
constexpr size_t kShort = 64;

void erase_first(std::vector<Node*>& list, const Node* node, size_t count) {
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const Node* use) { return use == node && count != 0 && count-- != 0; }),
             list.end());
}

}  // namespace

void Uses::remove(const Node* node, size_t count) {
  if (gone_ == nullptr && list_.size() <= kShort) {
    erase_first(list_, node, count);
    return;
  }
  if (gone_ == nullptr) {
    gone_ = std::make_unique<std::unordered_map<const Node*, size_t>>();
  }
  (*gone_)[node] += count;
  gone_count_ += count;
}

std::vector<Node*> Uses::take() {
  read();
  return std::exchange(list_, {});
}

const std::vector<Node*>& Uses::read() const {
  if (gone_ != nullptr) {
    list_.erase(std::remove_if(list_.begin(), list_.end(),
                               [&](const Node* use) {
                                 const auto found = gone_->find(use);
                                 return found != gone_->end() && found->second != 0 && found->second-- != 0;
                               }),
                list_.end());
    gone_.reset();
    gone_count_ = 0;
  }
  return list_;
}

std::vector<Attributes::Entry>::const_iterator Attributes::find(std::string_view name) const {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.first == name; });
}

const Attribute& Attributes::at(std::string_view name) const {
  const auto found = find(name);
  if (found == end()) {
    fail("there is no attribute '" + std::string(name) + "'");
  }
  return found->second;
}

Attribute& Attributes::operator[](std::string_view name) {
  const auto found = find(name);
  return found == end() ? entries_.emplace_back(name, Attribute()).second
                        : entries_[static_cast<size_t>(found - begin())].second;
}

void Attributes::erase(std::string_view name) {
  if (const auto found = find(name); found != end()) {
    entries_.erase(found);
  }
}

int64_t Node::i(std::string_view name, int64_t otherwise) const { return attribute(*this, name, otherwise); }
float Node::f(std::string_view name, float otherwise) const { return attribute(*this, name, otherwise); }
std::string Node::s(std::string_view name, const std::string& otherwise) const {
  return attribute(*this, name, otherwise);
}
Ints Node::ints(std::string_view name, const Ints& otherwise) const {
  return has(name) ? Ints(ints(name)) : otherwise;
}
const std::vector<int64_t>& Node::ints(std::string_view name) const { return list<int64_t>(*this, name); }
const std::vector<float>& Node::floats(std::string_view name) const { return list<float>(*this, name); }
const std::vector<std::string>& Node::strings(std::string_view name) const {
  return list<std::string>(*this, name);
}
TensorPtr Node::t(std::string_view name) const { return attribute(*this, name, TensorPtr()); }

Graph* Node::subgraph(std::string_view attribute) const {
  for (const auto& [name, graph] : subgraphs) {
    if (name == attribute) {
      return graph.get();
    }
  }
  return nullptr;
}

std::string Node::label() const { return (domain.empty() ? "" : domain + ".") + type + " '" + name + "'"; }

Value* Graph::add_value(std::string_view name) {
  values.push_back(std::make_unique<Value>());
  Value* value = values.back().get();
  value->index = values.size() - 1;
  value->name = name;
  if (name.empty() || !names_.try_emplace(value->name, value).second) {
    value->name = (name.empty() ? "v" : value->name) + "#" + std::to_string(value->index);
    names_[value->name] = value;
  }
  return value;
}

Value* Graph::find(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : found->second;
}

Value* Graph::add_constant(TensorPtr tensor, const std::string& name) {
  Value* value = add_value(name);
  value->type = tensor->type;
  value->has_shape = true;
  value->dims = tensor->dims;
  value->constant = std::move(tensor);
  return value;
}

Value* Graph::add_like(const Value* model) {
  Value* value = add_value(model->name);
  value->type = model->type;
  value->has_shape = model->has_shape;
  value->dims = model->dims;
  return value;
}

Node* Graph::add_node(std::string domain, std::string type, std::vector<Value*> in, std::vector<Value*> out,
                      std::string name) {
  storage_.push_back(std::make_unique<Node>());
  Node* node = storage_.back().get();
  node->index = storage_.size() - 1;
  node->domain = std::move(domain);
  node->type = std::move(type);
  node->name = name.empty() && !out.empty() && out[0] != nullptr ? out[0]->name : std::move(name);
  node->inputs = std::move(in);
  node->outputs = std::move(out);
  for (Value* value : node->inputs) {
    if (value != nullptr) {
      value->consumers.push_back(node);
    }
  }
  for (Value* value : node->outputs) {
    if (value != nullptr) {
      value->producer = node;
    }
  }
  nodes.push_back(node);
  return node;
}

void Graph::set_input(Node* node, size_t i, Value* value) {
  if (i >= node->inputs.size()) {
    node->inputs.resize(i + 1, nullptr);
  }
  drop_use(node->inputs[i], node);
  node->inputs[i] = value;
  if (value != nullptr) {
    value->consumers.push_back(node);
  }
}

void Graph::set_output(Node* node, size_t i, Value* value) {
  if (i >= node->outputs.size()) {
    node->outputs.resize(i + 1, nullptr);
  }
  if (node->outputs[i] != nullptr && node->outputs[i]->producer == node) {
    node->outputs[i]->producer = nullptr;
  }
  node->outputs[i] = value;
  if (value != nullptr) {
    value->producer = node;
  }
}

void Graph::steal_output(Node* node, size_t i, Value* value) {
  if (Node* before = value->producer; before != nullptr && before != node) {
    std::replace(before->outputs.begin(), before->outputs.end(), value, static_cast<Value*>(nullptr));
    value->producer = nullptr;
  }
  set_output(node, i, value);
}

void Graph::replace_uses(Value* from, Value* to) {
  const std::vector<Node*> uses = from->consumers.take();
  for (Node* node : uses) {
    for (std::vector<Value*>* list : {&node->inputs, &node->implicit}) {
      for (Value*& value : *list) {
        if (value == from) {
          value = to;
          to->consumers.push_back(node);
        }
      }
    }
    for (const auto& [name, graph] : node->subgraphs) {
      for (Value* inner : graph->outer) {
        if (inner->outer == from) {
          inner->outer = to;
          inner->constant = to->constant;
        }
      }
    }
  }
}

void Graph::remove(Node* node) {
  // A node may read one value thousands of times: each loses all of its uses at once.
  std::vector<Value*> read = node->inputs;
  read.insert(read.end(), node->implicit.begin(), node->implicit.end());
  std::sort(read.begin(), read.end(), std::less<>());
  for (auto value = read.begin(); value != read.end();) {
    const auto next = std::find_if(value, read.end(), [&](const Value* other) { return other != *value; });
    if (*value != nullptr) {
      (*value)->consumers.remove(node, static_cast<size_t>(next - value));
    }
    value = next;
  }
  for (Value* value : node->outputs) {
    if (value != nullptr && value->producer == node) {
      value->producer = nullptr;
    }
  }
  node->inputs.clear();
  node->implicit.clear();
  node->outputs.clear();
  node->removed = true;
}

void Graph::remove_unused() {
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const auto used = [](const Value* value) {
      return value != nullptr && (value->is_output || !value->consumers.empty());
    };
    if (!(*node)->removed && std::none_of((*node)->outputs.begin(), (*node)->outputs.end(), used)) {
      remove(*node);
    }
  }
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), [](const Node* node) { return node->removed; }),
              nodes.end());
}

void Graph::sort() {
  // Depth first from each node in the present order: what a node needs comes right before it if it has not
  // come.
  enum State : uint8_t { kNew, kOnStack, kDone };
  std::vector<Node*> sorted;
  std::vector<State> state(storage_.size(), kNew);
  std::vector<std::pair<Node*, size_t>> stack;
  sorted.reserve(nodes.size());
  const auto has_come = [&](const Value* value) {
    return value == nullptr || value->producer == nullptr || state[value->producer->index] == kDone;
  };
  for (Node* root : nodes) {
    if (root->removed || state[root->index] == kDone) {
      continue;
    }
    // Most graphs are in order already, but for what the last pass changed.
    if (std::all_of(root->inputs.begin(), root->inputs.end(), has_come) &&
        std::all_of(root->implicit.begin(), root->implicit.end(), has_come)) {
      state[root->index] = kDone;
      sorted.push_back(root);
      continue;
    }
    stack.emplace_back(root, 0);
    state[root->index] = kOnStack;
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      const size_t total = node->inputs.size() + node->implicit.size();
      if (next == total) {
        state[node->index] = kDone;
        sorted.push_back(node);
        stack.pop_back();
        continue;
      }
      const Value* value =
          next < node->inputs.size() ? node->inputs[next] : node->implicit[next - node->inputs.size()];
      ++next;
      Node* before = value == nullptr ? nullptr : value->producer;
      if (before != nullptr && state[before->index] == kNew) {
        state[before->index] = kOnStack;
        stack.emplace_back(before, 0);
      } else if (before != nullptr && state[before->index] == kOnStack) {
        invalid(before->label() + " depends on its own output");
      }
    }
  }
  nodes = std::move(sorted);
}

std::string Graph::check() const {
  std::unordered_map<const Value*, size_t> uses;
  std::unordered_map<const Node*, bool> seen;
  for (const Node* node : nodes) {
    for (const std::vector<Value*>* list : {&node->inputs, &node->implicit}) {
      for (const Value* value : *list) {
        if (value != nullptr) {
          ++uses[value];
          if (value->producer != nullptr && !seen[value->producer]) {
            return node->label() + " comes before the producer of '" + value->name + "'";
          }
        }
      }
    }
    for (const Value* value : node->outputs) {
      if (value != nullptr && value->producer != node) {
        return "'" + value->name + "' does not know its producer " + node->label();
      }
    }
    seen[node] = true;
  }
  for (const auto& value : values) {
    if (value->consumers.size() != uses[value.get()]) {
      return "'" + value->name + "' has " + std::to_string(uses[value.get()]) + " uses and knows " +
             std::to_string(value->consumers.size());
    }
    if (value->producer != nullptr && !seen[value->producer]) {
      return "'" + value->name + "' has a producer outside of the graph";
    }
  }
  for (const Value* value : outputs) {
    if (value->producer == nullptr && value->constant == nullptr && !value->is_input && !value->is_outer) {
      return "nobody produces the output '" + value->name + "'";
    }
  }
  return "";
}

Node* only_consumer(const Value* value) {
  return value != nullptr && !value->is_output && value->consumers.size() == 1 ? value->consumers[0]
                                                                               : nullptr;
}

bool scalar(const Value* value, float* out) {
  if (value == nullptr || value->constant == nullptr || count(value->constant->dims) != 1) {
    return false;
  }
  switch (value->constant->type) {
    case DType::kFloat:
      *out = *value->constant->as<float>();
      return true;
    case DType::kDouble:
      *out = static_cast<float>(*value->constant->as<double>());
      return true;
    case DType::kFloat16:
      *out = static_cast<float>(*value->constant->as<Half>());
      return true;
    case DType::kBFloat16:
      *out = static_cast<float>(*value->constant->as<BFloat16>());
      return true;
    default:
      int64_t integer = 0;
      if (!scalar(value, &integer)) {
        return false;
      }
      *out = static_cast<float>(integer);
      return true;
  }
}

bool scalar(const Value* value, int64_t* out) {
  std::vector<int64_t> all;
  if (!integers(value, &all) || all.size() != 1) {
    return false;
  }
  *out = all[0];
  return true;
}

bool integers(const Value* value, std::vector<int64_t>* out) {
  if (value == nullptr || value->constant == nullptr) {
    return false;
  }
  const Tensor& tensor = *value->constant;
  const size_t n = static_cast<size_t>(count(tensor.dims));
  const auto copy = [&](const auto* data) {
    out->assign(data, data + n);
    return true;
  };
  switch (tensor.type) {
    case DType::kInt64:
      return copy(tensor.as<int64_t>());
    case DType::kInt32:
      return copy(tensor.as<int32_t>());
    case DType::kInt8:
      return copy(tensor.as<int8_t>());
    case DType::kUint8:
    case DType::kBool:
      return copy(tensor.as<uint8_t>());
    default:
      return false;
  }
}

}  // namespace ephost
