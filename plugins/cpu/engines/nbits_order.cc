#include "cpu/engines/nbits_order.h"

#include <algorithm>
#include <string>

#include "cpu/runtime/parallel.h"

namespace ephost::cpu {

std::shared_ptr<NBitsOrder> NBitsOrder::of(const NBitsSizes& sizes, const int32_t* groups) {
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(sizes.blocks()));
  bool is_plain = true;
  for (int64_t row = 0; row < sizes.k; ++row) {
    const int64_t group = groups[row];
    if (group < 0 || group >= sizes.blocks()) {
      fail(std::string("row ") + std::to_string(row) + " of the weights is in group " +
           std::to_string(group) + " of " + std::to_string(sizes.blocks()));
    }
    members[static_cast<size_t>(group)].push_back(row);
    is_plain = is_plain && group == row / sizes.block;
  }
  if (is_plain) return nullptr;
  auto made = std::shared_ptr<NBitsOrder>(new NBitsOrder(sizes));
  const auto block = static_cast<size_t>(sizes.block);
  for (size_t group = 0; group < members.size(); ++group) {
    const size_t blocks = (members[group].size() + block - 1) / block;
    members[group].resize(blocks * block, -1);
    made->rows_.insert(made->rows_.end(), members[group].begin(), members[group].end());
    made->groups_.insert(made->groups_.end(), blocks, static_cast<int64_t>(group));
  }
  made->sizes_.k = static_cast<int64_t>(made->rows_.size());
  return made;
}

NBitsWeights NBitsOrder::arrange(const Tensor& codes, const Tensor& scales, const Tensor* zeros) const {
  const int64_t n = given_.n, bits = given_.bits, blocks = sizes_.blocks();
  const int64_t from_bytes = given_.blocks() * given_.block_bytes(), to_bytes = blocks * sizes_.block_bytes();
  const std::vector<float> all_scales = numbers_of(scales), all_zeros = zeros_of(given_, zeros);
  std::vector<uint8_t> to_codes(static_cast<size_t>(n * to_bytes));
  std::vector<float> to_scales(static_cast<size_t>(n * blocks)),
      to_zeros(zeros == nullptr ? 0 : to_scales.size());
  parallel_for(n, std::max<int64_t>(1, kGrain / sizes_.k), [&](int64_t column, int64_t end) {
    for (; column < end; ++column) {
      const uint8_t* from = codes.as<uint8_t>() + column * from_bytes;
      uint8_t* to = to_codes.data() + column * to_bytes;
      for (int64_t place = 0; place < sizes_.k; ++place) {
        const int64_t row = rows_[static_cast<size_t>(place)];
        const int code = row < 0 ? 0 : nbits_code(from, row, bits);
        to[place * bits / 8] = static_cast<uint8_t>(to[place * bits / 8] | code << (place * bits % 8));
      }
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t group = groups_[static_cast<size_t>(i)];
        const auto at = static_cast<size_t>(column * blocks + i);
        const auto of_group = static_cast<size_t>(column * given_.blocks() + group);
        to_scales[at] = all_scales[of_group];
        if (zeros != nullptr) to_zeros[at] = all_zeros[of_group];
      }
    }
  });
  const auto set = [](Tensor* tensor, DType type, int64_t elements, const void* data) {
    tensor->type = type;
    tensor->dims = {elements};
    tensor->data = data;
  };
  Tensor arranged[3];
  set(&arranged[0], DType::kUint8, n * to_bytes, to_codes.data());
  set(&arranged[1], DType::kFloat, n * blocks, to_scales.data());
  set(&arranged[2], DType::kFloat, n * blocks, to_zeros.data());
  return {sizes_, arranged[0], arranged[1], zeros == nullptr ? nullptr : arranged + 2};
}

void NBitsOrder::gather(const float* x, int64_t rows, float* to) const {
  parallel_for(rows, std::max<int64_t>(1, kGrain / sizes_.k), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const float* from = x + i * given_.k;
      std::transform(rows_.begin(), rows_.end(), to + i * sizes_.k,
                     [from](int64_t row) { return row < 0 ? 0 : from[row]; });
    }
  });
}

}  // namespace ephost::cpu
