// The compilers' own form of a graph: made from the host's (import.h), rewritten by passes, then planned.
//
// Nodes and values know each other. A value has one producer (a node) or none (an input, a constant, a value
// of an outer graph), and knows its consumers, once for each use. All pointers are valid as long as the graph
// is: removing a node takes it out of the lists but does not free it.
#ifndef EPHOST_TOOLKIT_GRAPH_H_
#define EPHOST_TOOLKIT_GRAPH_H_

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "toolkit/types.h"

namespace ephost {

struct Graph;
struct Node;

// Who reads a value, once for each use, in the order in which the uses came. Removing a use costs the same
// however many there are: in a long list it is only noted, and goes when the list is next read.
class Uses {
 public:
  size_t size() const { return list_.size() - gone_count_; }
  bool empty() const { return size() == 0; }
  Node* operator[](size_t i) const { return read()[i]; }
  std::vector<Node*>::const_iterator begin() const { return read().begin(); }
  std::vector<Node*>::const_iterator end() const { return read().end(); }
  void push_back(Node* node) { list_.push_back(node); }
  // The first `count` uses by `node`, which are there.
  void remove(const Node* node, size_t count);
  // All of them; none is left.
  std::vector<Node*> take();

 private:
  const std::vector<Node*>& read() const;

  mutable std::vector<Node*> list_;
  mutable std::unique_ptr<std::unordered_map<const Node*, size_t>>
      gone_;  // Uses in `list_` that are none any more.
  mutable size_t gone_count_ = 0;
};

struct Value {
  std::string name;
  DType type = DType::kUndefined;  // kUndefined too where it is not a tensor: see `tensor`.
  bool tensor = true;              // False for sequences, optionals, maps and sparse tensors.
  bool has_shape = false;          // Whether `dims` means anything: a scalar has none either.
  Dims dims;                       // -1: not known.
  TensorPtr constant;              // Null unless its content is known.
  Node* producer = nullptr;
  Uses consumers;  // Once for each use, uses by subgraphs (Node::implicit) included.
  bool is_input = false;
  bool is_output = false;  // Of the graph: such a value must keep its content.
  bool is_outer = false;   // Of an outer graph.
  Value* outer = nullptr;  // That value there, if the outer graph was imported as well.
  size_t index = 0;        // In Graph::values.

  bool is_scalar() const { return has_shape && (dims.empty() || (dims.size() == 1 && dims[0] == 1)); }
};

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, TensorPtr>;

// A node's attributes, by name. They are few: a list is quicker to make, to copy and to search than a table.
// What `find` and the operators return is valid until one is added.
class Attributes {
 public:
  using Entry = std::pair<std::string, Attribute>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries) : entries_(entries) {}

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  std::vector<Entry>::const_iterator find(std::string_view name) const;
  const Attribute& at(std::string_view name) const;
  Attribute& operator[](std::string_view name);  // Made if it is not there.
  // One that is not there yet: nothing is looked for, which matters where a node has thousands.
  void add(std::string name, Attribute value) { entries_.emplace_back(std::move(name), std::move(value)); }
  void erase(std::string_view name);
  void clear() { entries_.clear(); }
  void reserve(size_t count) { entries_.reserve(count); }

 private:
  std::vector<Entry> entries_;
};

struct Node {
  std::string domain;  // "" is ONNX's own; "ephost" holds what passes make.
  std::string type;
  std::string name;
  int version = 1;             // The opset version that the operator's definition came with.
  std::vector<Value*> inputs;  // Null where an optional one is left out.
  std::vector<Value*> outputs;
  std::vector<Value*> implicit;  // What the subgraphs read of this graph.
  Attributes attributes;
  std::vector<std::pair<std::string, std::shared_ptr<Graph>>> subgraphs;  // By the attribute's name.
  // What a node that a pass made of several stands for; its inputs are those of the node, in their order.
  std::shared_ptr<const Graph> body;
  const OrtNode* origin = nullptr;  // The host's, during GetCapability only.
  bool removed = false;
  size_t index = 0;  // Among all nodes that its graph ever had: see Graph::num_nodes.

  bool is(const char* op) const { return domain.empty() && type == op; }
  bool is(const char* of, const char* op) const { return domain == of && type == op; }
  Value* in(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  Value* out(size_t i = 0) const { return i < outputs.size() ? outputs[i] : nullptr; }

  // Attributes, with the default for one that is not there. Error when it has another type.
  bool has(std::string_view attribute) const { return attributes.find(attribute) != attributes.end(); }
  int64_t i(std::string_view attribute, int64_t otherwise) const;
  float f(std::string_view attribute, float otherwise) const;
  std::string s(std::string_view attribute, const std::string& otherwise) const;
  Ints ints(std::string_view attribute, const Ints& otherwise) const;
  // Lists as the node has them, which may be long; empty where there is none.
  const std::vector<int64_t>& ints(std::string_view attribute) const;
  const std::vector<float>& floats(std::string_view attribute) const;
  const std::vector<std::string>& strings(std::string_view attribute) const;
  TensorPtr t(std::string_view attribute) const;  // Null if it is not there.
  Graph* subgraph(std::string_view attribute) const;
  // "Conv 'name'", for messages.
  std::string label() const;
};

struct Graph {
  std::vector<std::unique_ptr<Value>> values;
  std::vector<Node*> nodes;  // In topological order, apart from those added since the last `sort`.
  std::vector<Value*> inputs, outputs;
  std::vector<Value*> outer;  // Values of outer graphs that this one or its subgraphs read.
  Graph* parent = nullptr;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Value* add_value(std::string_view name);
  Value* find(std::string_view name) const;
  // A value with this content.
  Value* add_constant(TensorPtr tensor, const std::string& name = "");
  // A new node; its outputs must have no producer yet. Call `sort` before reading `nodes` again.
  Node* add_node(std::string domain, std::string type, std::vector<Value*> in, std::vector<Value*> out,
                 std::string name = "");
  // How many were added, those removed since included.
  size_t num_nodes() const { return storage_.size(); }
  // A value like `model` (type and shape), for the output of a new node.
  Value* add_like(const Value* model);

  void set_input(Node* node, size_t i, Value* value);
  void set_output(Node* node, size_t i, Value* value);
  // Makes every consumer of `from` read `to`. Not for graph outputs: see `steal_output`.
  void replace_uses(Value* from, Value* to);
  // Makes `node` the producer of output `value` in place of the node that was.
  void steal_output(Node* node, size_t i, Value* value);
  // Takes the node out; its outputs lose their producer.
  void remove(Node* node);
  // Removes the nodes whose outputs nobody reads.
  void remove_unused();
  // Brings `nodes` into topological order, keeping the present one where it can.
  void sort();
  // Empty, or what is wrong with the lists of this graph: for tests, and after each pass in debug builds.
  std::string check() const;

 private:
  std::vector<std::unique_ptr<Node>> storage_;
  std::unordered_map<std::string_view, Value*> names_;  // The keys are the values' own names.
};

// The only consumer of a value that is not a graph output; null if there is none or more than one.
Node* only_consumer(const Value* value);
// The content of a constant with one element, as float or integer. False if it is not one.
bool scalar(const Value* value, float* out);
bool scalar(const Value* value, int64_t* out);
// The content of a constant of an integer type. False if it is not one.
bool integers(const Value* value, std::vector<int64_t>* out);

}  // namespace ephost

#endif
