#include "cuda/operators/epilogue.h"

#include "cuda/operators/chains.h"
#include "toolkit/passes/epilogue.h"

namespace ephost::cuda {

const Value* before_posts(Planner& planner, const Node& node, bool more) {
  return more || node.has("post") ? planner.between(node.out()->type) : node.out();
}

void plan_posts(Planner& planner, const Node& node, const Value* raw, size_t operands, const Value* bias) {
  if (raw == node.out()) {
    return;
  }
  Planner::Chain chain;
  chain.type = node.out()->type;
  chain.dims = planner.dims(raw);
  chain.operands = {raw};
  chain.reads = {raw};
  chain.label = node.label();
  /* The chain may wait for those of the next nodes, and holds what it reads until then. */
  const auto add = [&](const Value* value, const Dims& dims) {
    const Value* held = planner.between(chain.type);
    planner.alias(held, value, dims);
    ChainStep step = step_of(Op::kAdd);
    step.operand = static_cast<uint8_t>(chain.operands.size());
    chain.operands.push_back(held);
    chain.reads.push_back(held);
    chain.steps.push_back(step);
  };
  if (bias != nullptr) {
    Dims by_channel(chain.dims.size() - 1, 1);
    by_channel[0] = chain.dims[1];
    add(bias, by_channel);
  }
  for (const PostOp& post_op : post_ops_of(node)) {
    if (chain.steps.size() == kMaxSteps || chain.operands.size() == kMaxOperands) {
      const Value* middle = planner.between(chain.type);
      planner.emit(middle, chain);
      chain.steps.clear();
      chain.operands = {middle};
      chain.reads = {middle};
    }
    if (post_op.binary()) {
      const Value* other = node.in(operands++);
      add(other, planner.dims(other));
    } else {
      chain.steps.push_back(step_of(op_of(*post_op.activation), post_op.alpha, post_op.beta));
    }
  }
  planner.end_chain(node.out(), std::move(chain), nullptr);
}

}  // namespace ephost::cuda
