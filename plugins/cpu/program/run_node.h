// What an operator's `run` gets.
#ifndef EPHOST_CPU_PROGRAM_RUN_NODE_H_
#define EPHOST_CPU_PROGRAM_RUN_NODE_H_

#include "cpu/program/program.h"

namespace ephost::cpu {

// Runs an operator whose shapes depend on content, with inputs that are all known.
class RunNode final : public Run {
 public:
  struct Input {
    Desc desc;
    const void* data = nullptr;
  };
  RunNode(Program* program, const Node& of, std::vector<Input> inputs, std::vector<Input> outer)
      : Run(of),
        program_(*program),
        inputs_(std::move(inputs)),
        outer_(std::move(outer)),
        results(of.outputs.size()) {}

  const Desc& in(int i) const override { return checked(i).desc; }
  const void* data(int i) const override { return checked(i).data; }
  void* out(int o, DType type, const Dims& dims) override {
    TensorPtr& result = results.at(static_cast<size_t>(o));
    result = make_tensor(type, dims);
    return mutable_data(result);
  }
  void give(int o, TensorPtr content) override { results.at(static_cast<size_t>(o)) = std::move(content); }
  const Desc& outer(size_t i) const override { return outer_.at(i).desc; }
  const void* outer_data(size_t i) const override { return outer_.at(i).data; }
  Subgraph& subgraph(const char* attribute) const override {
    const Graph* graph = node.subgraph(attribute);
    if (graph == nullptr) {
      invalid(std::string("the subgraph '") + attribute + "' is missing");
    }
    return program_.subgraph(graph);
  }

 private:
  const Input& checked(int i) const {
    if (i < 0 || static_cast<size_t>(i) >= inputs_.size() || !has(i)) {
      invalid("an input that the operator needs is left out");
    }
    return inputs_[static_cast<size_t>(i)];
  }
  Program& program_;
  std::vector<Input> inputs_, outer_;

 public:
  std::vector<TensorPtr> results;
};

}  // namespace ephost::cpu

#endif
