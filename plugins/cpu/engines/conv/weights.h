// The weights of a convolution as the model has them, whatever form of them is left: an original is freed
// once one of the implementations has packed it, and another shape may need another implementation.
#ifndef EPHOST_CPU_ENGINES_CONV_WEIGHTS_H_
#define EPHOST_CPU_ENGINES_CONV_WEIGHTS_H_

#include "cpu/engines/conv/problem.h"

namespace ephost::cpu {

// The constant itself where it has its content. Error(ORT_FAIL) where nothing is left.
TensorPtr original_conv_weights(const TensorPtr& constant, const ConvProblem& problem);

}  // namespace ephost::cpu

#endif
