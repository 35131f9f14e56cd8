// com.microsoft's MatMulNBits: what exporters make of the weights of language models.
#include "cpu/engines/as_float.h"
#include "cpu/engines/nbits_weights.h"
#include "cpu/engines/product.h"
#include "cpu/operator.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kPanel = NBits::kPanel;
constexpr int64_t kFewRows = 8;   // So many rows of float32 are multiplied without unpacking the weights.
constexpr int64_t kStrip = 256;   // Rows of weights that are unpacked at a time.
constexpr int64_t kTogether = 4;  // Panels that are unpacked at a time.

NBitsSizes sizes_of(const Node& node) {
  return {node.i("K", 0), node.i("N", 0), node.i("block_size", 0), node.i("bits", 4)};
}

std::shared_ptr<NBitsWeights> weights_of(const Node& node) {
  const TensorPtr zeros = node.in(3) == nullptr ? nullptr : node.in(3)->constant;
  return NBitsWeights::of(sizes_of(node), node.in(1)->constant, node.in(2)->constant, zeros);
}

std::string supports(const Node& node) {
  const NBitsSizes sizes = sizes_of(node);
  if (sizes.bits != 2 && sizes.bits != 4 && sizes.bits != 8) return "weights of other than 2, 4 or 8 bits";
  if (sizes.k <= 0 || sizes.n <= 0 || sizes.block < 16 || sizes.block % 16 != 0)
    return "sizes that cannot be";
  if (node.i("weight_prepacked", 0) != 0) return "weights in a form of some other machine";
  if (node.in(4) != nullptr) return "an order of groups";
  for (size_t i : {0, 1, 2}) {
    if (node.in(i) == nullptr) return "an input that it needs is left out";
  }
  for (size_t i : {1, 2, 3}) {
    if (node.in(i) != nullptr && node.in(i)->constant == nullptr) return "weights that are not constant";
  }
  // What the constants have bounds what is asked for, without products that could be too large.
  const TensorPtr codes = node.in(1)->constant, scales = node.in(2)->constant;
  if (codes->type != DType::kUint8 || sizes.k > INT32_MAX || sizes.n > INT32_MAX || sizes.block > INT32_MAX ||
      sizes.n > count(codes->dims) / sizes.block_bytes() / sizes.blocks() ||
      count(codes->dims) != sizes.n * sizes.blocks() * sizes.block_bytes()) {
    return "weights that do not have the sizes it names";
  }
  const int64_t blocks = sizes.n * sizes.blocks();
  if (scales->type == DType::kUint8 || count(scales->dims) != blocks) {
    return "scales that do not have the sizes it names";
  }
  if (node.in(3) != nullptr) {
    const TensorPtr zeros = node.in(3)->constant;
    if (count(zeros->dims) != (zeros->type == DType::kUint8 ? sizes.n * sizes.zero_bytes() : blocks)) {
      return "zero points that do not have the sizes it names";
    }
  }
  return "";
}

// Some rows and all columns of a product.
struct Product {
  NBitsSizes sizes;
  int64_t rows;
  std::shared_ptr<NBitsWeights> weights;
  bool biased;

  NBits::Panel panel(int64_t q, const Args& args) const {
    NBits::Panel made = weights->panel(q);
    made.m = rows;
    made.bias = biased ? args.in<float>(5) + q * kPanel : nullptr;
    made.c = args.out<float>(0) + q * kPanel;
    made.c_row = sizes.n;
    return made;
  }
  // Panels that are worth a thread of their own.
  int64_t grain() const { return std::max<int64_t>(1, 4 * kGrain / (sizes.k * kPanel)); }
};

// From accuracy level 4 on a host may round inputs to bytes: by row and block.
void bytes(const Product& product, const Args& args) {
  const NBitsRows rows(product.sizes, product.rows, args.scratch());
  rows.quantize(args.in<float>(0));
  parallel_for(product.sizes.panels(), product.grain(), [&](int64_t q, int64_t end) {
    for (; q < end; ++q) simd().nbits.byte_product(rows.as_bytes(product.panel(q, args)));
  });
}

void few_rows(const Product& product, const Args& args) {
  const NBitsRows rows(product.sizes, product.rows, args.scratch());
  const float* x = args.in<float>(0);
  rows.sum(x);
  parallel_for(product.sizes.panels(), product.grain(), [&](int64_t q, int64_t end) {
    for (; q < end; ++q) simd().nbits.product(rows.as_floats(product.panel(q, args), x));
  });
}

// Strips of some panels are unpacked to where the products of other matrices find theirs.
void unpacked(const Product& product, const Args& args) {
  const NBitsSizes& sizes = product.sizes;
  const Simd& table = simd();
  const int64_t width = table.panel, together = std::max(kTogether, width / kPanel);
  const int64_t panels = sizes.panels(), groups = (panels + together - 1) / together;
  parallel_for(groups, 1, [&](int64_t item, int64_t end) {
    static thread_local std::vector<float> room;
    room.resize(static_cast<size_t>(together * kPanel * kStrip));
    for (; item < end; ++item) {
      const int64_t first = item * together, last = std::min(panels, first + together);
      const NBits::Panel of_first = product.panel(first, args);
      for (int64_t p = 0; p < sizes.k; p += kStrip) {
        const int64_t strip = std::min(kStrip, sizes.k - p);
        for (int64_t q = first; q < last; ++q) {
          const int64_t column = (q - first) * kPanel;
          table.nbits.unpack(product.weights->panel(q), p, p + strip,
                             room.data() + column / width * width * strip + column % width, width);
        }
        GemmBlock g{};
        g.m = product.rows;
        g.n = std::min(sizes.n, last * kPanel) - first * kPanel;
        g.k = strip;
        g.a = args.in<float>(0) + p;
        g.a_row = sizes.k;
        g.a_step = 1;
        g.b = room.data();
        g.b_step = width;
        g.b_panel = strip * width;
        g.c = of_first.c;
        g.c_row = sizes.n;
        g.bias = p == 0 ? of_first.bias : nullptr;
        g.accumulate = p > 0;
        gemm_in_blocks(g);
      }
    }
  });
}

Kernel n_bits(Prepare& p) {
  Product product{.sizes = sizes_of(p.node), .rows = 0, .weights = nullptr, .biased = false};
  Dims dims = p.dims(0);
  p.expect(!dims.empty() && dims.back() == product.sizes.k, "an input that does not fit the weights");
  product.rows = count(dims, 0, dims.size() - 1);
  dims.back() = product.sizes.n;
  p.out(0, DType::kFloat, dims);
  product.weights = weights_of(p.node);
  product.biased = p.inputs() > 5 && p.has(5);
  p.expect(!product.biased || p.in(5).count() == product.sizes.n,
           "the bias has not one element for each column");
  if (product.rows == 0) return [](const Args&) {};
  if (p.node.i("accuracy_level", 0) >= 4 && product.sizes.block <= NBits::kMostBlock) {
    p.method("inputs as bytes");
    p.scratch(NBitsRows::bytes(product.sizes, product.rows));
    return [product](const Args& args) { bytes(product, args); };
  }
  if (product.rows <= kFewRows) {
    p.method("weights as they are");
    p.scratch(NBitsRows::bytes(product.sizes, product.rows));
    return [product](const Args& args) { few_rows(product, args); };
  }
  p.method("weights unpacked by strips");
  return [product](const Args& args) { unpacked(product, args); };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "MatMulNBits",
                 .supports = supports,
                 .prepare = with_halves(n_bits),
                 .packs = [](const Node&, size_t i) { return i == 1; },
                 .pack = [](const Node& node) { weights_of(node); },
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kUint8, DType::kInt32}});
});

}  // namespace ephost::cpu
