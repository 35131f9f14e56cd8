// Weights of two, four or eight bits in the form that simd/nbits.h multiplies.
#ifndef EPHOST_CPU_ENGINES_NBITS_WEIGHTS_H_
#define EPHOST_CPU_ENGINES_NBITS_WEIGHTS_H_

#include <memory>
#include <vector>

#include "cpu/operator.h"
#include "cpu/simd/nbits.h"

namespace ephost::cpu {

struct NBitsSizes {
  int64_t k = 0, n = 0, block = 0;
  int64_t bits = 4;  // 2, 4 or 8.
  int64_t blocks() const { return (k + block - 1) / block; }
  int64_t panels() const { return (n + NBits::kPanel - 1) / NBits::kPanel; }
  // Bytes of a block of a column, and of a column's zero points, as the model has them.
  int64_t block_bytes() const { return block * bits / 8; }
  int64_t zero_bytes() const { return (blocks() * bits + 7) / 8; }
};

// The i-th of numbers of so many bits, the first in the lowest.
inline int nbits_code(const uint8_t* from, int64_t i, int64_t bits) {
  return from[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
}

// A tensor of floating numbers of any type.
std::vector<float> numbers_of(const Tensor& tensor);
// Zero points as the model has them, see NBitsWeights::of: [n][blocks]; nothing for null.
std::vector<float> zeros_of(const NBitsSizes& sizes, const Tensor* zeros);

class NBitsWeights {
 public:
  // Made once of the constants of a session: codes [n][blocks][block_bytes], scales [n][blocks] of any
  // floating type, and zero points: bytes [n][zero_bytes], numbers [n][blocks] of a floating type, or null.
  static std::shared_ptr<NBitsWeights> of(const NBitsSizes& sizes, const TensorPtr& codes,
                                          const TensorPtr& scales, const TensorPtr& zeros);
  NBitsWeights(const NBitsSizes& sizes, const Tensor& codes, const Tensor& scales, const Tensor* zeros);

  const NBitsSizes& sizes() const { return sizes_; }
  // Columns from NBits::kPanel * q on.
  NBits::Panel panel(int64_t q) const;

 private:
  void fill_codes(int64_t q, const uint8_t* from);

  NBitsSizes sizes_;
  int bits_;  // As they are kept: two bits take four.
  int64_t panel_bytes_;
  std::shared_ptr<void> codes_;        // Bytes, by panel.
  std::vector<float> scales_, zeros_;  // By panel and block; without zeros where all are alike.
};

// What products need of the rows of an input, in memory that somebody else has.
class NBitsRows {
 public:
  static size_t bytes(const NBitsSizes& sizes, int64_t rows);
  NBitsRows(const NBitsSizes& sizes, int64_t rows, void* memory);

  // Both on several threads.
  void quantize(const float* x) const;
  void sum(const float* x) const;
  // After quantize.
  NBits::Bytes as_bytes(const NBits::Panel& panel) const;
  // After sum, of the same x.
  NBits::Floats as_floats(const NBits::Panel& panel, const float* x) const;

 private:
  NBitsSizes sizes_;
  int64_t rows_, row_;
  float *scales_, *sums_;
  int8_t* bytes_;
};

}  // namespace ephost::cpu

#endif
