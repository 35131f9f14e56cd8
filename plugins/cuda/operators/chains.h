/* Steps of chains of elementwise operators (Planner::Chain). */
#ifndef EPHOST_CUDA_OPERATORS_CHAINS_H_
#define EPHOST_CUDA_OPERATORS_CHAINS_H_

#include "cuda/operator.h"
#include "toolkit/activations.h"

namespace ephost::cuda {

inline ChainStep step_of(Op op, float a = 0, float b = 0) { return {op, kSaved, 0, 0, a, b}; }

/* The operation that an activation is. */
constexpr Op op_of(Activation activation) {
  return static_cast<Op>(static_cast<uint8_t>(activation) + static_cast<uint8_t>(Op::kSave) + 1);
}
#define X(name, ...) static_assert(op_of(Activation::k##name) == Op::k##name);
EPHOST_ACTIVATIONS(X)
#undef X

}  // namespace ephost::cuda

#endif
