#include "cpu/program/fold.h"

#include "cpu/program/program.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

// A constant is not folded into one larger than this, unless it shrinks.
constexpr size_t kMaxFoldedBytes = size_t{64} << 20;

// Whether `fuse` will have a product read the matrix as it is, which spares a copy.
bool is_left_to_product(const Node& node) {
  const Value *matrix = node.in(0), *turned = node.out();
  if (!node.is("Transpose") || !node.has("perm") || matrix == nullptr || turned == nullptr ||
      turned->is_output || turned->consumers.size() != 1) {
    return false;
  }
  const Tensor& content = *matrix->constant;
  const Node& reader = *turned->consumers[0];
  return content.type == DType::kFloat && content.dims.size() == 2 && reader.is("MatMul") &&
         reader.in(1) == turned && reader.out() != nullptr && reader.out()->type == DType::kFloat;
}

}  // namespace

void fold_constants(Graph* graph, Fold what) {
  for (Node* node : graph->nodes) {
    // What most nodes fail at comes first.
    const auto constant = [](const Value* value) { return value == nullptr || value->constant != nullptr; };
    if (!std::all_of(node->inputs.begin(), node->inputs.end(), constant) || !node->subgraphs.empty()) {
      continue;
    }
    const Operator* op = Registry::get().find(*node);
    if (op == nullptr || !op->pure || !op->foldable ||
        (what == Fold::kBeforeFusion && is_left_to_product(*node))) {
      continue;
    }
    // A program of this one node, with no inputs: its plan computes everything while it is made, or its run
    // does.
    auto single = std::make_unique<Graph>();
    std::vector<Value*> in, out;
    size_t bytes = 0;
    for (const Value* value : node->inputs) {
      in.push_back(value == nullptr ? nullptr : single->add_constant(value->constant, value->name));
      bytes += value == nullptr ? 0 : value->constant->bytes();
    }
    for (const Value* value : node->outputs) {
      out.push_back(value == nullptr ? nullptr : single->add_value(value->name));
    }
    for (Value* value : out) {
      if (value != nullptr) {
        value->is_output = true;
        single->outputs.push_back(value);
      }
    }
    Node* copy = single->add_node(node->domain, node->type, in, out, node->name);
    copy->version = node->version;
    copy->attributes = node->attributes;
    copy->body = node->body;
    struct Sink final : Io {
      const Desc& input(size_t) override { fail("a constant has no inputs"); }
      void* input_data(size_t) override { fail("a constant has no inputs"); }
      void* output(size_t i, DType type, const Dims& dims) override {
        if (static_cast<size_t>(count(dims)) * size_of(type) > limit) {
          throw TooLarge{};
        }
        results.resize(std::max(results.size(), i + 1));
        results[i] = make_tensor(type, dims);
        return mutable_data(results[i]);
      }
      struct TooLarge {};
      size_t limit = 0;
      std::vector<TensorPtr> results;
    } sink;
    sink.limit = std::max(bytes, kMaxFoldedBytes);
    const TextScope texts;
    try {
      Options plainly;
      plainly.fuse = false;
      Program program(std::move(single), plainly, Program::kNoFolding);
      program.run(sink);
    } catch (const Sink::TooLarge&) {
      continue;
    } catch (const Error&) {
      continue;  // It will fail in the run as well, and be reported there.
    }
    size_t next = 0;
    for (Value* value : node->outputs) {
      if (value != nullptr) {
        value->constant = own_texts(sink.results[next++]);
        value->type = value->constant->type;
        value->has_shape = true;
        value->dims = value->constant->dims;
        value->producer = nullptr;
      }
    }
    std::fill(node->outputs.begin(), node->outputs.end(), nullptr);
    graph->remove(node);
  }
  graph->nodes.erase(
      std::remove_if(graph->nodes.begin(), graph->nodes.end(), [](const Node* n) { return n->removed; }),
      graph->nodes.end());
  // Subgraphs see the constants of the graphs around them.
  for (Node* node : graph->nodes) {
    for (auto& [name, subgraph] : node->subgraphs) {
      for (Value* value : subgraph->outer) {
        if (value->outer != nullptr) value->constant = value->outer->constant;
      }
    }
  }
}

}  // namespace ephost::cpu
