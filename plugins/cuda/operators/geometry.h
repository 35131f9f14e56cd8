/* Axes, strides and shapes. */
#ifndef EPHOST_CUDA_OPERATORS_GEOMETRY_H_
#define EPHOST_CUDA_OPERATORS_GEOMETRY_H_

#include "cuda/operator.h"

namespace ephost::cuda {

/* An axis from the model, counted from the end if negative; checked. */
size_t axis_of(int64_t axis, size_t rank);
/* Axes from the second input or the attribute. */
std::vector<int64_t> axes_of(Planner& planner, const Node& node);
std::vector<int64_t> strides_of(const Dims& dims);
Dims broadcast(const Dims& a, const Dims& b);
/* For kernels' numbers; throws Error where it is too large. */
int32_t narrow(int64_t number);

}  // namespace ephost::cuda

#endif
