// com.microsoft's MatMulNBits with four bits: what exporters make of the weights of language models.
#include "../simd/simd.h"
#include "as_float.h"
#include "kernels.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kPanel = 16;    // Columns of a NibbleBlock.
constexpr int64_t kFewRows = 8;   // So many rows are multiplied without unpacking the weights.
constexpr int64_t kStrip = 256;   // Rows of weights that are unpacked at a time.
constexpr int64_t kTogether = 4;  // Panels that are unpacked at a time.

struct Sizes {
  int64_t k, n, block;
  int64_t blocks() const { return (k + block - 1) / block; }
  int64_t panels() const { return (n + kPanel - 1) / kPanel; }
};

Sizes sizes_of(const Node& node) { return {node.i("K", 0), node.i("N", 0), node.i("block_size", 0)}; }

struct Weights {
  std::vector<uint8_t> bits;         // By panel, as NibbleBlock has them.
  std::vector<float> scales, zeros;  // By panel and block.
};

std::vector<float> as_floats(const Tensor& tensor) {
  std::vector<float> all(static_cast<size_t>(count(tensor.dims)));
  if (tensor.type == DType::kFloat) {
    std::copy_n(tensor.as<float>(), all.size(), all.data());
  } else {
    to_float(tensor.type, tensor.data, all.data(), static_cast<int64_t>(all.size()));
  }
  return all;
}

// Column by column in the model: blocks of bytes, the earlier of two rows in the low half; so are zeros.
std::shared_ptr<Weights> weights_of(const Node& node) {
  const Sizes sizes = sizes_of(node);
  const TensorPtr bits = node.in(1)->constant, scales = node.in(2)->constant,
                  zeros = node.in(3) == nullptr ? nullptr : node.in(3)->constant;
  return Prepare::packed<Weights>(
      bits, "nibbles of " + std::to_string(reinterpret_cast<uintptr_t>(scales.get())), [&] {
        auto made = std::make_shared<Weights>();
        const int64_t blocks = sizes.blocks(), bytes = sizes.block / 2, zero_bytes = (blocks + 1) / 2;
        made->bits.resize(static_cast<size_t>(sizes.panels() * sizes.k * kPanel / 2));
        made->scales.resize(static_cast<size_t>(sizes.panels() * blocks * kPanel));
        made->zeros.resize(made->scales.size());
        const std::vector<float> all_scales = as_floats(*scales);
        const std::vector<float> float_zeros =
            zeros == nullptr || zeros->type == DType::kUint8 ? std::vector<float>{} : as_floats(*zeros);
        const uint8_t* from = bits->as<uint8_t>();
        parallel_for(sizes.panels(), 1, [&](int64_t q, int64_t end) {
          for (; q < end; ++q) {
            uint8_t* to = made->bits.data() + q * sizes.k * kPanel / 2;
            for (int64_t j = 0; j < std::min(kPanel, sizes.n - q * kPanel); ++j) {
              const int64_t column = q * kPanel + j;
              const uint8_t* of_column = from + column * blocks * bytes;
              for (int64_t p = 0; p < sizes.k; ++p) {
                const int byte = of_column[p / sizes.block * bytes + p % sizes.block / 2];
                const int value = p % 2 == 0 ? byte & 15 : byte >> 4;
                uint8_t& target = to[p * kPanel / 2 + j % 8];
                target = static_cast<uint8_t>(target | (j < 8 ? value : value << 4));
              }
              for (int64_t i = 0; i < blocks; ++i) {
                const size_t at = static_cast<size_t>((q * blocks + i) * kPanel + j);
                const size_t of_block = static_cast<size_t>(column * blocks + i);
                made->scales[at] = all_scales[of_block];
                float zero = 8;
                if (!float_zeros.empty()) {
                  zero = float_zeros[of_block];
                } else if (zeros != nullptr) {
                  const int byte = zeros->as<uint8_t>()[column * zero_bytes + i / 2];
                  zero = static_cast<float>(i % 2 == 0 ? byte & 15 : byte >> 4);
                }
                made->zeros[at] = zero;
              }
            }
          }
        });
        return made;
      });
}

std::string supports(const Node& node) {
  const Sizes sizes = sizes_of(node);
  if (node.i("bits", 4) != 4) return "weights of other than four bits";
  if (sizes.k <= 0 || sizes.n <= 0 || sizes.block < 16 || sizes.block % 2 != 0) return "sizes that cannot be";
  if (node.i("weight_prepacked", 0) != 0) return "weights in a form of some other machine";
  if (node.in(4) != nullptr) return "an order of groups";
  for (size_t i : {0, 1, 2}) {
    if (node.in(i) == nullptr) return "an input that it needs is left out";
  }
  for (size_t i : {1, 2, 3}) {
    if (node.in(i) != nullptr && node.in(i)->constant == nullptr) return "weights that are not constant";
  }
  const int64_t blocks = sizes.n * sizes.blocks();
  const TensorPtr bits = node.in(1)->constant, scales = node.in(2)->constant;
  if (bits->type != DType::kUint8 || count(bits->dims) != blocks * (sizes.block / 2)) {
    return "weights that do not have the sizes it names";
  }
  if (scales->type == DType::kUint8 || count(scales->dims) != blocks) {
    return "scales that do not have the sizes it names";
  }
  if (node.in(3) != nullptr) {
    const TensorPtr zeros = node.in(3)->constant;
    const int64_t bytes = sizes.n * ((sizes.blocks() + 1) / 2);
    if (count(zeros->dims) != (zeros->type == DType::kUint8 ? bytes : blocks)) {
      return "zero points that do not have the sizes it names";
    }
  }
  return "";
}

Kernel n_bits(Prepare& p) {
  const Sizes sizes = sizes_of(p.node);
  Dims dims = p.dims(0);
  p.expect(!dims.empty() && dims.back() == sizes.k, "an input that does not fit the weights");
  const int64_t rows = count(dims, 0, dims.size() - 1);
  dims.back() = sizes.n;
  p.out(0, DType::kFloat, dims);
  const std::shared_ptr<Weights> weights = weights_of(p.node);
  const bool biased = p.inputs() > 5 && p.has(5);
  p.expect(!biased || p.in(5).count() == sizes.n, "the bias has not one element for each column");
  const int64_t panels = sizes.panels(), blocks = sizes.blocks();
  const auto block_of = [=](int64_t q, const float* bias) {
    NibbleBlock g{};
    g.m = rows;
    g.k = sizes.k;
    g.block = sizes.block;
    g.a_row = sizes.k;
    g.b = weights->bits.data() + q * sizes.k * kPanel / 2;
    g.scales = weights->scales.data() + q * blocks * kPanel;
    g.zeros = weights->zeros.data() + q * blocks * kPanel;
    g.c_row = sizes.n;
    g.columns = static_cast<int>(std::min(kPanel, sizes.n - q * kPanel));
    g.bias = bias == nullptr ? nullptr : bias + q * kPanel;
    return g;
  };
  if (rows == 0) return [](const Args&) {};
  if (rows <= kFewRows) {
    return [=](const Args& args) {
      const float* bias = biased ? args.in<float>(5) : nullptr;
      parallel_for(panels, std::max<int64_t>(1, 4 * kGrain / (sizes.k * kPanel)),
                   [&](int64_t q, int64_t end) {
                     for (; q < end; ++q) {
                       NibbleBlock g = block_of(q, bias);
                       g.a = args.in<float>(0);
                       g.c = args.out<float>(0) + q * kPanel;
                       simd().nibble_product(g);
                     }
                   });
    };
  }
  // Strips of some panels are unpacked to where the products of other matrices find theirs.
  const int64_t width = simd().panel, together = std::max(kTogether, width / kPanel);
  const int64_t groups = (panels + together - 1) / together;
  return [=](const Args& args) {
    const float* bias = biased ? args.in<float>(5) : nullptr;
    const Simd& table = simd();
    parallel_for(groups, 1, [&](int64_t item, int64_t end) {
      static thread_local std::vector<float> room;
      room.resize(static_cast<size_t>(together * kPanel * kStrip));
      for (; item < end; ++item) {
        const int64_t first = item * together, last = std::min(panels, first + together);
        for (int64_t p = 0; p < sizes.k; p += kStrip) {
          const int64_t strip = std::min(kStrip, sizes.k - p);
          for (int64_t q = first; q < last; ++q) {
            const int64_t column = (q - first) * kPanel;
            table.nibble_unpack(block_of(q, nullptr), p, p + strip,
                                room.data() + column / width * width * strip + column % width, width);
          }
          GemmBlock g{};
          g.m = rows;
          g.n = std::min(sizes.n, last * kPanel) - first * kPanel;
          g.k = strip;
          g.a = args.in<float>(0) + p;
          g.a_row = sizes.k;
          g.a_step = 1;
          g.b = room.data();
          g.b_step = width;
          g.b_panel = strip * width;
          g.c = args.out<float>(0) + first * kPanel;
          g.c_row = sizes.n;
          g.bias = p == 0 && bias != nullptr ? bias + first * kPanel : nullptr;
          g.accumulate = p > 0;
          table.gemm(g);
        }
      }
    });
  };
}

}  // namespace

void add_nibbles(Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "MatMulNBits",
                 .supports = supports,
                 .prepare = with_halves(n_bits),
                 .packs = [](const Node&, size_t i) { return i == 1; },
                 .pack = [](const Node& node) { weights_of(node); },
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kUint8, DType::kInt32}});
}

}  // namespace ephost::cpu
