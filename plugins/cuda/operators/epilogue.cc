#include "cuda/operators/epilogue.h"

#include "cuda/operators/chains.h"
#include "toolkit/passes/epilogue.h"

namespace ephost::cuda {

const Value* before_posts(Planner& planner, const Node& node) {
  return node.has("post") ? planner.between(node.out()->type) : node.out();
}

void plan_posts(Planner& planner, const Node& node, const Value* raw, size_t operands) {
  if (raw == node.out()) {
    return;
  }
  Planner::Chain chain;
  chain.type = node.out()->type;
  chain.dims = planner.dims(raw);
  chain.operands = {raw};
  chain.reads = {raw};
  chain.label = node.label();
  for (const PostOp& post_op : post_ops_of(node)) {
    if (chain.steps.size() == kMaxSteps || chain.operands.size() == kMaxOperands) {
      const Value* middle = planner.between(chain.type);
      planner.emit(middle, chain);
      chain.steps.clear();
      chain.operands = {middle};
      chain.reads = {middle};
    }
    if (post_op.binary()) {
      ChainStep step = step_of(Op::kAdd);
      step.operand = static_cast<uint8_t>(chain.operands.size());
      chain.operands.push_back(node.in(operands++));
      chain.steps.push_back(step);
    } else {
      chain.steps.push_back(step_of(op_of(*post_op.activation), post_op.alpha, post_op.beta));
    }
  }
  planner.emit(node.out(), chain);
}

}  // namespace ephost::cuda
