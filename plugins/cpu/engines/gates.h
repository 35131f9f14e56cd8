// The activations of recurrent networks, by name.
#ifndef EPHOST_CPU_ENGINES_GATES_H_
#define EPHOST_CPU_ENGINES_GATES_H_

#include <string>
#include <vector>

#include "cpu/simd/simd.h"
#include "toolkit/graph.h"

namespace ephost::cpu {

struct Gate {
  Op op = Op::kTanh;
  float params[2] = {0, 0};

  void apply(float* x, int64_t n) const {
    const void* in[] = {x};
    simd().ops[static_cast<size_t>(op)](in, x, n, params);
  }
};

// The activations that a node names, or `each` for every direction. Parameters are taken from the lists by
// those that have them, in order.
std::vector<Gate> gates_of(const Node& node, size_t directions, const std::vector<std::string>& each);

// "" or which of a node's activations there is not.
std::string known_activations(const Node& node);

}  // namespace ephost::cpu

#endif
