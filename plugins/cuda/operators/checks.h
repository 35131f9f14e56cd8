/* What operators ask of their nodes: each answers "", or why a node is not taken. */
#ifndef EPHOST_CUDA_OPERATORS_CHECKS_H_
#define EPHOST_CUDA_OPERATORS_CHECKS_H_

#include "cuda/operator.h"

namespace ephost::cuda {

inline constexpr Types kReal{DType::kFloat, DType::kFloat16, DType::kBFloat16};
inline constexpr Types kInteger{DType::kInt32, DType::kInt64};
inline constexpr Types kMovable{DType::kFloat, DType::kFloat16, DType::kBFloat16,
                                DType::kInt32, DType::kInt64,   DType::kUint8,
                                DType::kInt8,  DType::kBool,    DType::kDouble};

std::string type_problem(const Value* value, Types types);
/* Of the first inputs, and of the first output. */
std::string all_are(const Node& node, Types types, size_t inputs = SIZE_MAX);
std::string rank_problem(const Node& node);
std::string first_output_only(const Node& node);
/* Reals on the device; integers where they follow from shapes. */
std::string arithmetic(const Node& node);
std::string two_reals(const Node& node);
std::string movable(const Node& node);
std::string moved_with_indices(const Node& node);
/* Windows over one or two spatial dimensions. */
std::string window(const Node& node);

/* Whether the content of a tensor of integers can be had before the run of its group: it follows from shapes
 * and inputs, or another provider computes it. */
bool readable(const Value* value, int depth = 0);

/* Whether the content of a tensor of integers follows from shapes: such things are computed on the host. */
bool known(const Value* value, int depth = 0);

}  // namespace ephost::cuda

#endif
