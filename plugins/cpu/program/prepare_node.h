// What an operator's `prepare` gets from the planner.
#ifndef EPHOST_CPU_PROGRAM_PREPARE_NODE_H_
#define EPHOST_CPU_PROGRAM_PREPARE_NODE_H_

#include <algorithm>

#include "cpu/program/planner.h"

namespace ephost::cpu {

// A model may leave out the last ones of a node's outputs, which a kernel asks for all the same: more than
// any operator has, of those that have a number of them.
constexpr size_t kOutputs = 8;

class PrepareNode final : public Prepare {
 public:
  PrepareNode(Planner* planner, const Node& of, const Operator& op)
      : Prepare(of),
        planner_(*planner),
        descs_(planner->room_.descs),
        most_(std::max(of.outputs.size(), kOutputs)),
        outs_(planner->room_.outs) {
    descs_.clear();
    outs_.clear();
    outs_.reserve(most_);  // References to them last.
    outs_.resize(of.outputs.size());
    descs_.resize(of.inputs.size());
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      if (of.inputs[i] != nullptr) {
        descs_[i] = planner->known(of.inputs[i]).desc;
        if (!op.any_layout) {
          descs_[i].layout = Layout::kPlain;
        }
      }
    }
  }

  const Desc& in(int i) const override {
    expect(i >= 0 && i < inputs() && has(i), "an input that the operator needs is left out");
    return descs_[static_cast<size_t>(i)];
  }
  const Desc& require(int i, Layout layout) override {
    in(i);
    descs_[static_cast<size_t>(i)].layout = layout;
    return descs_[static_cast<size_t>(i)];
  }
  const void* content(int i) const override {
    in(i);
    const TensorPtr& tensor = planner_.known(node.inputs[static_cast<size_t>(i)]).content;
    return tensor == nullptr ? nullptr : tensor->data;
  }
  TensorPtr constant(int i) const override {
    in(i);
    return node.inputs[static_cast<size_t>(i)]->constant;
  }
  Desc& out(int o, DType type, const Dims& dims, Layout layout) override {
    PlannedOutput& output = at(o);
    output.desc = {type, dims, layout};
    output.declared = true;
    ephost::count(dims);  // Throws for what cannot be.
    return output.desc;
  }
  void alias(int o, int i, size_t offset) override {
    at(o).alias = i;
    at(o).offset = offset;
  }
  void in_place(int o, int i) override { at(o).in_place.push_back(i); }
  void give(int o, TensorPtr content) override {
    out(o, content->type, content->dims, Layout::kPlain);
    at(o).content = std::move(content);
  }
  void scratch(size_t bytes) override { scratch_ = bytes; }
  void method(const char* name) override { method_ = name; }
  int threads() const override {
    const int most = planner_.program_.options_.threads;
    return most > 0 ? most : default_threads();
  }

  bool passing() const override { return planner_.plan()->passing; }

  const std::vector<Desc>& descs() const { return descs_; }
  std::vector<PlannedOutput>& outs() { return outs_; }
  size_t scratch_bytes() const { return scratch_; }
  const char* method_name() const { return method_; }

 private:
  PlannedOutput& at(int o) {
    const auto number = static_cast<size_t>(o);
    expect(number < most_, "there is no such output");
    if (number >= outs_.size()) outs_.resize(number + 1);
    return outs_[number];
  }

  Planner& planner_;
  std::vector<Desc>& descs_;
  size_t most_;
  std::vector<PlannedOutput>& outs_;
  size_t scratch_ = 0;
  const char* method_ = nullptr;
};

}  // namespace ephost::cpu

#endif
