/* What passes put behind products and convolutions (toolkit/passes/epilogue.h). */
#ifndef EPHOST_CUDA_OPERATORS_EPILOGUE_H_
#define EPHOST_CUDA_OPERATORS_EPILOGUE_H_

#include "cuda/operator.h"

namespace ephost::cuda {

/* What the node itself writes: its output, or a value that the chain behind it reads; there is one, too,
 * where `more` says so. */
const Value* before_posts(Planner& planner, const Node& node, bool more = false);
/* The chain behind it; `operands` is the number of its first input that an addition reads. `bias`, one
 * element for each channel, is added before. */
void plan_posts(Planner& planner, const Node& node, const Value* raw, size_t operands,
                const Value* bias = nullptr);

}  // namespace ephost::cuda

#endif
