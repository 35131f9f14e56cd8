// Convolutions by plain loops: for whatever nothing else does.
#ifndef EPHOST_CPU_ENGINES_CONV_LOOPS_H_
#define EPHOST_CPU_ENGINES_CONV_LOOPS_H_

#include "cpu/engines/conv/problem.h"

namespace ephost::cpu {

// Reads input 0, weights 1, and bias 2 if there is one, all of them plain. The weights come from `weights`,
// as the model has them, if it is not null. For float and double.
template <typename T>
Kernel conv_loops(const ConvProblem& problem, const TensorPtr& weights);

}  // namespace ephost::cpu

#endif
