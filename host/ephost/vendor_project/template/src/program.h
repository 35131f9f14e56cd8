// Compile and Compute: what a group of nodes becomes, and one run of it. A compiler of your own, or a
// device's graph format, takes this file's place.
#ifndef PROGRAM_H_
#define PROGRAM_H_

#include "graph.h"

namespace plugin {

using Shape = std::vector<int64_t>;

// A group of nodes as a list of steps. It does not change after it is made, so threads may run it at once.
class Program {
 public:
  // `graph` holds the group's nodes, `fused_node` its inputs and outputs in the order in which Compute
  // numbers them. Throws Error (ORT_EP_FAIL) for what was not claimed. `host` has to live as long as the
  // program.
  Program(const Host& host, const OrtGraph* graph, const OrtNode* fused_node);

  // One run. Throws Error: ORT_INVALID_ARGUMENT where shapes do not fit together.
  void run(OrtKernelContext* context) const;

  size_t size() const { return steps_.size(); }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  struct Value {
    size_t input = kNone;     // of the fused node, if it is one
    size_t output = kNone;    // of the fused node, if it is one
    size_t last_use = kNone;  // the last step that reads it: its memory can go then
    bool constant = false;
    Shape shape;              // of a constant, as its elements are
    std::vector<float> data;  // our copy: the host may free its own when Compile is done
  };
  struct Step {
    const Operator* op;
    std::vector<size_t> inputs;
    size_t output;
  };
  struct Tensor;

  void add_constant(const OrtValueInfo* info, Value* value) const;
  Tensor read_input(const OrtKernelContext* context, size_t index) const;
  Tensor make_result(OrtKernelContext* context, const Value& value, Shape shape) const;

  const Host* host_;
  std::vector<Value> values_;
  std::vector<Step> steps_;
};

}  // namespace plugin

#endif
