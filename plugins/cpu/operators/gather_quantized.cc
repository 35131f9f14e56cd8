// com.microsoft's GatherBlockQuantized: rows of a table of 4- or 8-bit weights in blocks, as floats. What
// language models look embeddings up in.
#include <atomic>

#include "cpu/engines/indices.h"
#include "cpu/engines/nbits_weights.h"
#include "cpu/operator.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

constexpr int kData = 0, kIndices = 1, kScales = 2, kZeros = 3;

struct Table {
  NBitsSizes sizes;                // A line is a column of these.
  int64_t entries = 0, lines = 0;  // Of the first axis; of an entry.

  explicit Table(const Node& node) {
    sizes.bits = node.i("bits", 4);
    sizes.block = node.i("block_size", 128);
  }
  int64_t line_bytes() const { return sizes.k * sizes.bits / 8; }
  int64_t code(const uint8_t* line, int64_t i) const {
    return sizes.bits == 8 ? line[i] : line[i / 2] >> i % 2 * 4 & 15;
  }
};

std::string supports(const Node& node) {
  const Table table(node);
  const int64_t block = table.sizes.block;
  if (table.sizes.bits != 4 && table.sizes.bits != 8) return "weights of other than 4 or 8 bits";
  if (block < 16 || (block & (block - 1)) != 0) return "a block_size that cannot be";
  if (node.i("gather_axis", 0) != 0) return "entries of another axis than the first";
  return "";
}

Kernel gather(Prepare& p) {
  Table table(p.node);
  const Dims data = p.dims(kData), indices = p.dims(kIndices), scales = p.dims(kScales);
  p.expect(p.type(kData) == DType::kUint8, "its data are not uint8");
  p.expect(data.size() >= 2 && p.axis(p.node.i("quantize_axis", 1), data.size()) == data.size() - 1,
           "the axis of the blocks is not the last one");
  table.entries = data[0];
  table.lines = count(data, 1, data.size() - 1);
  table.sizes.k = data.back() * 8 / table.sizes.bits;
  Dims expected = data;
  expected.back() = table.sizes.blocks();
  p.expect(scales == expected, "there is not one scale for each block");
  const bool zeros = p.has(kZeros);
  expected.back() = table.sizes.zero_bytes();
  p.expect(!zeros || (p.dims(kZeros) == expected && p.type(kZeros) == DType::kUint8),
           "there is not one zero point for each block");
  Dims out = indices;
  out.insert(out.end(), data.begin() + 1, data.end());
  out.back() = table.sizes.k;
  const DType type = p.type(kScales);
  const bool wide = p.type(kIndices) == DType::kInt64;
  p.expect(wide || p.type(kIndices) == DType::kInt32, "its indices are neither int32 nor int64");
  p.out(0, type, out);
  const int64_t n = count(indices), size = table.lines * table.sizes.k;
  const std::string label = p.node.label();
  return [=](const Args& args) {
    const NBitsSizes& sizes = table.sizes;
    std::atomic<bool> bad{false};
    with_one_of<float, Half, BFloat16>(type, [&](auto element) {
      using T = decltype(element);
      const auto read_line = [&](int64_t line, T* y) {
        const uint8_t* const from = args.in<uint8_t>(kData) + line * table.line_bytes();
        const T* const steps = args.in<T>(kScales) + line * sizes.blocks();
        const uint8_t* const points = zeros ? args.in<uint8_t>(kZeros) + line * sizes.zero_bytes() : nullptr;
        for (int64_t block = 0; block < sizes.blocks(); ++block) {
          const float step = static_cast<float>(steps[block]);
          const int64_t zero = zeros ? table.code(points, block) : int64_t{1} << (sizes.bits - 1);
          const int64_t stop = std::min(sizes.k, (block + 1) * sizes.block);
          for (int64_t j = block * sizes.block; j < stop; ++j) {
            y[j] = static_cast<T>(step * static_cast<float>(table.code(from, j) - zero));
          }
        }
      };
      parallel_for(n, std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const int64_t entry = wrapped(index_at(args.in(kIndices), wide, i), table.entries, &bad);
          if (bad.load(std::memory_order_relaxed)) return;
          for (int64_t line = 0; line < table.lines; ++line) {
            read_line(entry * table.lines + line, args.out<T>() + i * size + line * sizes.k);
          }
        }
      });
    });
    if (bad) beyond(label);
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "GatherBlockQuantized",
                 .supports = supports,
                 .prepare = gather,
                 .types = {DType::kUint8, DType::kInt32, DType::kInt64, DType::kFloat, DType::kFloat16,
                           DType::kBFloat16}});
});

}  // namespace ephost::cpu
