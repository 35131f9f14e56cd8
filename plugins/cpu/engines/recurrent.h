// What recurrent networks of floats and of bytes have in common: activations by name, the cell of an LSTM,
// the lengths of sequences.
#ifndef EPHOST_CPU_ENGINES_RECURRENT_H_
#define EPHOST_CPU_ENGINES_RECURRENT_H_

#include <cstdint>
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

// x[i] within [-bound, bound]; 0 is no bound.
void clip_gate(float bound, float* x, int64_t n);

// The new state of an LSTM, made of a step's products.
struct LstmCell {
  const Gate* activations;  // Of the gates i, o and f; of the cell's; of the state.
  const float* peepholes;   // [3][hidden], of i, o and f; or null.
  int64_t hidden;
  float clip;
  bool input_forget;

  // Units [first, first + count) of one sequence. The gates i, o, f and c of these lie `step` apart; c and h
  // are the whole sequence's, [hidden].
  void update(float* gates, int64_t step, int64_t first, int64_t count, float* h, float* c) const;
};

// The longest of `batch` sequences; throws, by the node's label, where a length is none in [0, steps].
int64_t longest_sequence(const int32_t* lengths, int64_t batch, int64_t steps, const std::string& label);

}  // namespace ephost::cpu

#endif
