// Mixtures of experts: each token goes through the few of many small networks that a router likes best.
#ifndef EPHOST_CPU_ENGINES_EXPERTS_H_
#define EPHOST_CPU_ENGINES_EXPERTS_H_

#include <memory>
#include <string>
#include <vector>

#include "cpu/operator.h"

namespace ephost::cpu {

// What stands between an expert's two matrices.
struct Activation {
  std::string name;
  bool gated;      // SwiGLU, of
  int64_t fusion;  // 0: two matrices, 1: one whose rows take turns, 2: one above the other.
  float alpha, beta, limit;
  bool limits_activated;  // The limit is that of the activated numbers, not of those before.

  explicit Activation(const Node& node);
  // Why the node asks for none that there is, or "".
  std::string supports() const;
  bool takes_two() const { return gated && fusion == 0; }
  // Rows of the first matrix of an expert of so many inner numbers.
  int64_t width(int64_t inner) const { return gated && fusion != 0 ? 2 * inner : inner; }
  // One token: what the first matrix makes, of `width`, and the second if it takes two; into `to`, of
  // `inner`.
  void apply(const float* up, const float* gate, int64_t inner, float* to) const;
};

// One matrix [n, k] of each expert.
class ExpertMatrix {
 public:
  virtual ~ExpertMatrix() = default;
  virtual size_t scratch(int64_t rows) const = 0;  // Bytes for so many rows.
  // y [m, n] = x [m, k] times the rows of an expert's matrix, plus its bias. On several threads.
  virtual void multiply(const Args& args, int64_t expert, const float* x, int64_t m, float* y,
                        void* scratch) const = 0;
};

// Error unless a matrix's bias has these dimensions; `matrix` is "first", ...
void expect_bias(const Prepare& p, const char* matrix, const Dims& dims, const Dims& wanted);

struct Mixture {
  Activation activation;
  int64_t rows, hidden, experts, best;
  int64_t inner = 0;
  // The shares of the best in all (softmax) may be divided by their sum; QMoE mostly does.
  bool normalize = false;
  std::shared_ptr<const ExpertMatrix> up, gate, down;  // [width, hidden], likewise or null, [hidden, inner].

  // Of a node whose first inputs are tokens [..., hidden] and the router's scores [tokens, experts]; declares
  // the output. Matrices and `inner` are left to the operator.
  explicit Mixture(Prepare& p);
  // Floats of a token: itself, the first matrices' rows, the activation's, the last's.
  int64_t floats() const {
    return count({2 * hidden + (gate != nullptr ? 2 : 1) * activation.width(inner) + inner});
  }
  // Asks for what `run` needs.
  void reserve(Prepare& p) const;
  // With the weights [tokens, experts] of what the experts say, or null: the router's own.
  void run(const Args& args, const float* weights) const;
};

}  // namespace ephost::cpu

#endif
