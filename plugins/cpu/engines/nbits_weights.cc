#include "cpu/engines/nbits_weights.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "cpu/engines/as_float.h"
#include "cpu/runtime/parallel.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kPanel = NBits::kPanel;

int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Eight codes of two bits as eight of four.
uint32_t apart(uint32_t x) {
  x = (x | x << 8) & 0x00ff00ff;
  x = (x | x << 4) & 0x0f0f0f0f;
  return (x | x << 2) & 0x33333333;
}

// Eight codes of four bits, of which byte i gets the i-th and, above it, the (i + 4)-th.
uint32_t halves_side_by_side(uint32_t x) {
  x = (x & 0xff0000ff) | (x & 0x0000ff00) << 8 | (x & 0x00ff0000) >> 8;
  return (x & 0xf00ff00f) | (x & 0x00f000f0) << 4 | (x & 0x0f000f00) >> 4;
}

}  // namespace

std::vector<float> numbers_of(const Tensor& tensor) {
  std::vector<float> all(static_cast<size_t>(count(tensor.dims)));
  if (tensor.type == DType::kFloat) {
    std::copy_n(tensor.as<float>(), all.size(), all.data());
  } else {
    to_float(tensor.type, tensor.data, all.data(), static_cast<int64_t>(all.size()));
  }
  return all;
}

std::vector<float> zeros_of(const NBitsSizes& sizes, const Tensor* zeros) {
  if (zeros == nullptr) return {};
  if (zeros->type != DType::kUint8) return numbers_of(*zeros);
  std::vector<float> all(static_cast<size_t>(sizes.n * sizes.blocks()));
  parallel_for(sizes.n, std::max<int64_t>(1, kGrain / sizes.blocks()), [&](int64_t column, int64_t end) {
    for (; column < end; ++column) {
      const uint8_t* from = zeros->as<uint8_t>() + column * sizes.zero_bytes();
      float* to = all.data() + column * sizes.blocks();
      for (int64_t i = 0; i < sizes.blocks(); ++i)
        to[i] = static_cast<float>(nbits_code(from, i, sizes.bits));
    }
  });
  return all;
}

std::shared_ptr<NBitsWeights> NBitsWeights::of(const NBitsSizes& sizes, const TensorPtr& codes,
                                               const TensorPtr& scales, const TensorPtr& zeros) {
  const auto named = [](const TensorPtr& tensor) {
    return std::to_string(reinterpret_cast<uintptr_t>(tensor.get()));
  };
  const std::string key = "n bits of " + named(scales) + " and " + named(zeros);
  return Prepare::packed<NBitsWeights>(
      codes, key, [&] { return std::make_shared<NBitsWeights>(sizes, *codes, *scales, zeros.get()); });
}

NBitsWeights::NBitsWeights(const NBitsSizes& sizes, const Tensor& codes, const Tensor& scales,
                           const Tensor* zeros)
    : sizes_(sizes), bits_(sizes.bits == 8 ? 8 : 4) {
  panel_bytes_ = rounded_up(sizes.k, NBits::kStep) * kPanel * bits_ / 8;
  const int64_t blocks = sizes.blocks();
  codes_ = allocate_lasting(static_cast<size_t>(sizes.panels() * panel_bytes_));
  scales_.resize(static_cast<size_t>(sizes.panels() * blocks * kPanel));
  zeros_.resize(zeros == nullptr ? 0 : scales_.size());
  const std::vector<float> all_scales = numbers_of(scales), all_zeros = zeros_of(sizes, zeros);
  parallel_for(sizes.panels(), 1, [&](int64_t q, int64_t end) {
    for (; q < end; ++q) {
      fill_codes(q, codes.as<uint8_t>());
      for (int64_t j = 0; j < std::min(kPanel, sizes.n - q * kPanel); ++j) {
        const int64_t column = q * kPanel + j;
        for (int64_t i = 0; i < blocks; ++i) {
          const size_t at = static_cast<size_t>((q * blocks + i) * kPanel + j);
          const size_t of_block = static_cast<size_t>(column * blocks + i);
          scales_[at] = all_scales[of_block];
          if (zeros != nullptr) zeros_[at] = all_zeros[of_block];
        }
      }
    }
  });
}

void NBitsWeights::fill_codes(int64_t q, const uint8_t* from) {
  uint8_t* to = static_cast<uint8_t*>(codes_.get()) + q * panel_bytes_;
  // A column's blocks lie without gaps, since they hold whole bytes.
  const int64_t column_bytes = sizes_.blocks() * sizes_.block_bytes();
  const uint8_t* first = from + q * kPanel * column_bytes;
  const int64_t columns = std::min(kPanel, sizes_.n - q * kPanel), bits = sizes_.bits;
  const int64_t rows = bits_ == 8 ? 4 : 8;  // Of a word.
  if (columns < kPanel) std::fill_n(to, panel_bytes_, uint8_t{0});
  for (int64_t p = 0; p < rounded_up(sizes_.k, NBits::kStep); p += rows, to += 4 * kPanel) {
    const int64_t there = std::clamp<int64_t>(sizes_.k - p, 0, rows);
    const auto bytes = static_cast<size_t>((there * bits + 7) / 8);
    const auto kept = static_cast<uint32_t>((uint64_t{1} << there * bits) - 1);
    const bool is_word = bytes == sizeof kept;  // As nearly all are: whose copy is one instruction.
    for (int64_t j = 0; j < columns; ++j) {
      const uint8_t* codes = first + j * column_bytes + p * bits / 8;
      uint32_t word = 0;
      std::memcpy(&word, codes, is_word ? sizeof word : bytes);
      word &= kept;
      if (bits == 2) word = apart(word);
      if (bits_ == 4) word = halves_side_by_side(word);
      std::memcpy(to + j * 4, &word, sizeof word);
    }
  }
}

NBits::Panel NBitsWeights::panel(int64_t q) const {
  const int64_t first = q * sizes_.blocks() * kPanel;
  NBits::Panel made{};
  made.k = sizes_.k;
  made.block = sizes_.block;
  made.bits = bits_;
  made.codes = static_cast<const uint8_t*>(codes_.get()) + q * panel_bytes_;
  made.scales = scales_.data() + first;
  made.zeros = zeros_.empty() ? nullptr : zeros_.data() + first;
  made.zero = static_cast<float>(1 << (sizes_.bits - 1));
  made.columns = static_cast<int>(std::min(kPanel, sizes_.n - q * kPanel));
  return made;
}

size_t NBitsRows::bytes(const NBitsSizes& sizes, int64_t rows) {
  const int64_t row = rounded_up(sizes.k, NBits::kStep);
  return static_cast<size_t>(rows * (row + 2 * sizes.blocks() * static_cast<int64_t>(sizeof(float))));
}

NBitsRows::NBitsRows(const NBitsSizes& sizes, int64_t rows, void* memory)
    : sizes_(sizes),
      rows_(rows),
      row_(rounded_up(sizes.k, NBits::kStep)),
      scales_(static_cast<float*>(memory)),
      sums_(scales_ + rows * sizes.blocks()),
      bytes_(reinterpret_cast<int8_t*>(sums_ + rows * sizes.blocks())) {}

void NBitsRows::quantize(const float* x) const {
  const int64_t blocks = sizes_.blocks();
  parallel_for(rows_, kGrain / std::max<int64_t>(1, sizes_.k), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      simd().nbits.quantize(x + row * sizes_.k, sizes_.k, sizes_.block, bytes_ + row * row_,
                            scales_ + row * blocks, sums_ + row * blocks);
    }
  });
}

void NBitsRows::sum(const float* x) const {
  const int64_t blocks = sizes_.blocks();
  parallel_for(rows_, kGrain / std::max<int64_t>(1, sizes_.k), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      simd().nbits.sum_blocks(x + row * sizes_.k, sizes_.k, sizes_.block, sums_ + row * blocks);
    }
  });
}

NBits::Floats NBitsRows::as_floats(const NBits::Panel& panel, const float* x) const {
  NBits::Floats made{};
  static_cast<NBits::Panel&>(made) = panel;
  made.m = rows_;
  made.a = x;
  made.a_row = sizes_.k;
  made.a_sums = sums_;
  return made;
}

NBits::Bytes NBitsRows::as_bytes(const NBits::Panel& panel) const {
  NBits::Bytes made{};
  static_cast<NBits::Panel&>(made) = panel;
  made.m = rows_;
  made.a = bytes_;
  made.a_row = row_;
  made.a_scales = scales_;
  made.a_sums = sums_;
  return made;
}

}  // namespace ephost::cpu
