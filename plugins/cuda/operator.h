/* The contract of an operator: what it takes, and the steps that it becomes once all shapes are known. Each
 * file in operators/ registers its own. */
#ifndef EPHOST_CUDA_OPERATOR_H_
#define EPHOST_CUDA_OPERATOR_H_

#include "cuda/planner.h"

namespace ephost::cuda {

struct Operator {
  const char* domain = "";
  const char* type = "";
  int since = 1;                                       /* the opset version that it takes at least */
  std::string (*supports)(const Node& node) = nullptr; /* "", or why not */
  void (*plan)(Planner& planner, const Node& node) = nullptr;
  bool elementwise = false; /* a link of a chain: Planner::end_chain */
  size_t host_inputs =
      0; /* the plan follows from the content of this input and of those behind it; 0: of none */
};

/* Adds operators while the library is loaded. */
struct Registered {
  explicit Registered(const std::vector<Operator>& operators);
};

/* NULL where there is none. */
const Operator* find_operator(const Node& node);
/* Why a node cannot be run here, or "". */
std::string why_not(const Node& node);

}  // namespace ephost::cuda

#endif
