// Rows of weights of a few bits in another order than their groups: some quantisers take the rows first that
// matter most, and the model names each row's group.
#ifndef EPHOST_CPU_ENGINES_NBITS_ORDER_H_
#define EPHOST_CPU_ENGINES_NBITS_ORDER_H_

#include "cpu/engines/nbits_weights.h"

namespace ephost::cpu {

class NBitsOrder {
 public:
  // Of each of the k rows its group; null where groups are the blocks that the rows lie in anyway.
  // Error(ORT_FAIL) for a group that is not there.
  static std::shared_ptr<NBitsOrder> of(const NBitsSizes& sizes, const int32_t* groups);

  // Those of the weights with the rows of a group side by side, in one block or more of their own, of which
  // the last may have places that no row takes. `k` counts these too.
  const NBitsSizes& sizes() const { return sizes_; }
  // Codes, scales and zero points as NBitsWeights takes them.
  NBitsWeights arrange(const Tensor& codes, const Tensor& scales, const Tensor* zeros) const;
  // x [rows, k of the model] as to [rows, k of sizes()], with zeros at places that no row takes.
  void gather(const float* x, int64_t rows, float* to) const;

 private:
  explicit NBitsOrder(const NBitsSizes& sizes) : given_(sizes), sizes_(sizes) {}

  NBitsSizes given_, sizes_;
  std::vector<int64_t> rows_;    // By place; -1: none.
  std::vector<int64_t> groups_;  // By block.
};

}  // namespace ephost::cpu

#endif
