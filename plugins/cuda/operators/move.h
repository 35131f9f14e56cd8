#ifndef EPHOST_CUDA_OPERATORS_MOVE_H_
#define EPHOST_CUDA_OPERATORS_MOVE_H_

#include "cuda/operator.h"

namespace ephost::cuda {

/* Queues a transposition; dims are those of `from`, perm as ONNX has it. */
void transpose(Planner& planner, const Place& from, const Place& to, size_t size, const Dims& dims,
               const std::vector<size_t>& perm);

}  // namespace ephost::cuda

#endif
