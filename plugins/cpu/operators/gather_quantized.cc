// com.microsoft's GatherBlockQuantized: rows of a table of 4- or 8-bit weights in blocks, as floats. What
// language models look embeddings up in.
#include <atomic>

#include "cpu/operator.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

constexpr int kData = 0, kIndices = 1, kScales = 2, kZeros = 3;

struct Table {
  int64_t bits, block;
  int64_t entries = 0, lines = 0, width = 0;  // Of the first axis; of an entry; elements of a line.

  explicit Table(const Node& node) : bits(node.i("bits", 4)), block(node.i("block_size", 128)) {}
  int64_t bytes() const { return width * bits / 8; }
  int64_t blocks() const { return (width + block - 1) / block; }
  int64_t zero_bytes() const { return (blocks() * bits + 7) / 8; }
  int64_t code(const uint8_t* line, int64_t i) const {
    return bits == 8 ? line[i] : line[i / 2] >> i % 2 * 4 & 15;
  }
};

std::string supports(const Node& node) {
  const Table table(node);
  if (table.bits != 4 && table.bits != 8) return "weights of other than 4 or 8 bits";
  if (table.block < 16 || (table.block & (table.block - 1)) != 0) return "a block_size that cannot be";
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
  table.width = data.back() * 8 / table.bits;
  Dims expected = data;
  expected.back() = table.blocks();
  p.expect(scales == expected, "there is not one scale for each block");
  const bool zeros = p.inputs() > kZeros && p.has(kZeros);
  expected.back() = table.zero_bytes();
  p.expect(!zeros || (p.dims(kZeros) == expected && p.type(kZeros) == DType::kUint8),
           "there is not one zero point for each block");
  Dims out = indices;
  out.insert(out.end(), data.begin() + 1, data.end());
  out.back() = table.width;
  const DType type = p.type(kScales), index_type = p.type(kIndices);
  p.out(0, type, out);
  const int64_t n = count(indices), size = table.lines * table.width;
  const std::string label = p.node.label();
  return [=](const Args& args) {
    std::atomic<bool> beyond{false};
    with_one_of<int32_t, int64_t>(index_type, [&](auto number) {
      using Index = decltype(number);
      with_one_of<float, Half, BFloat16>(type, [&](auto element) {
        using T = decltype(element);
        parallel_for(n, std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            int64_t entry = args.in<Index>(kIndices)[i];
            entry += entry < 0 ? table.entries : 0;
            if (entry < 0 || entry >= table.entries) {
              beyond.store(true, std::memory_order_relaxed);
              continue;
            }
            for (int64_t line = entry * table.lines; line < (entry + 1) * table.lines; ++line) {
              const uint8_t* const from = args.in<uint8_t>(kData) + line * table.bytes();
              const T* const steps = args.in<T>(kScales) + line * table.blocks();
              T* const y = args.out<T>() + i * size + (line - entry * table.lines) * table.width;
              for (int64_t block = 0; block < table.blocks(); ++block) {
                const float step = static_cast<float>(steps[block]);
                const int64_t zero =
                    zeros ? table.code(args.in<uint8_t>(kZeros) + line * table.zero_bytes(), block)
                          : int64_t{1} << (table.bits - 1);
                const int64_t stop = std::min(table.width, (block + 1) * table.block);
                for (int64_t j = block * table.block; j < stop; ++j) {
                  y[j] = static_cast<T>(step * static_cast<float>(table.code(from, j) - zero));
                }
              }
            }
          }
        });
      });
    });
    if (beyond) invalid(label + ": an index is beyond its axis");
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
