#include "cpu/engines/nbits_product.h"

#include <algorithm>
#include <vector>

#include "cpu/engines/product.h"
#include "cpu/runtime/parallel.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kPanel = NBits::kPanel;
constexpr int64_t kFewRows = 8;   // So many rows of float32 are multiplied without unpacking the weights.
constexpr int64_t kStrip = 256;   // Rows of weights that are unpacked at a time.
constexpr int64_t kTogether = 4;  // Panels that are unpacked at a time.

struct Product {
  const NBitsWeights& weights;
  const float* x;
  int64_t rows;
  const float* bias;
  float* y;

  const NBitsSizes& sizes() const { return weights.sizes(); }
  NBits::Panel panel(int64_t q) const {
    NBits::Panel made = weights.panel(q);
    made.m = rows;
    made.bias = bias == nullptr ? nullptr : bias + q * kPanel;
    made.c = y + q * kPanel;
    made.c_row = sizes().n;
    return made;
  }
  // Panels that are worth a thread of their own.
  int64_t grain() const { return std::max<int64_t>(1, 4 * kGrain / (sizes().k * kPanel)); }
};

void bytes(const Product& product, void* scratch) {
  const NBitsRows rows(product.sizes(), product.rows, scratch);
  rows.quantize(product.x);
  parallel_for(product.sizes().panels(), product.grain(), [&](int64_t q, int64_t end) {
    for (; q < end; ++q) simd().nbits.byte_product(rows.as_bytes(product.panel(q)));
  });
}

void as_they_are(const Product& product, void* scratch) {
  const NBitsRows rows(product.sizes(), product.rows, scratch);
  rows.sum(product.x);
  parallel_for(product.sizes().panels(), product.grain(), [&](int64_t q, int64_t end) {
    for (; q < end; ++q) simd().nbits.product(rows.as_floats(product.panel(q), product.x));
  });
}

// Strips of some panels are unpacked to where the products of other matrices find theirs.
void unpacked(const Product& product) {
  const NBitsSizes& sizes = product.sizes();
  const Simd& table = simd();
  const int64_t width = table.panel, together = std::max(kTogether, width / kPanel);
  const int64_t panels = sizes.panels(), groups = (panels + together - 1) / together;
  parallel_for(groups, 1, [&](int64_t item, int64_t end) {
    static thread_local std::vector<float> room;
    room.resize(static_cast<size_t>(together * kPanel * kStrip));
    for (; item < end; ++item) {
      const int64_t first = item * together, last = std::min(panels, first + together);
      const NBits::Panel of_first = product.panel(first);
      for (int64_t p = 0; p < sizes.k; p += kStrip) {
        const int64_t strip = std::min(kStrip, sizes.k - p);
        for (int64_t q = first; q < last; ++q) {
          const int64_t column = (q - first) * kPanel;
          table.nbits.unpack(product.weights.panel(q), p, p + strip,
                             room.data() + column / width * width * strip + column % width, width);
        }
        GemmBlock g{};
        g.m = product.rows;
        g.n = std::min(sizes.n, last * kPanel) - first * kPanel;
        g.k = strip;
        g.a = product.x + p;
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

}  // namespace

NBitsMethod nbits_method(const NBitsSizes& sizes, int64_t rows, int64_t accuracy_level) {
  if (accuracy_level >= 4 && sizes.block <= NBits::kMostBlock) return NBitsMethod::kBytes;
  return rows <= kFewRows ? NBitsMethod::kAsTheyAre : NBitsMethod::kUnpacked;
}

const char* name_of(NBitsMethod method) {
  switch (method) {
    case NBitsMethod::kBytes:
      return "inputs as bytes";
    case NBitsMethod::kAsTheyAre:
      return "weights as they are";
    case NBitsMethod::kUnpacked:
      break;
  }
  return "weights unpacked by strips";
}

size_t nbits_scratch(const NBitsSizes& sizes, int64_t rows) { return NBitsRows::bytes(sizes, rows); }

void nbits_product(NBitsMethod method, const NBitsWeights& weights, const float* x, int64_t rows,
                   const float* bias, float* y, void* scratch) {
  const Product product{weights, x, rows, bias, y};
  switch (method) {
    case NBitsMethod::kBytes:
      return bytes(product, scratch);
    case NBitsMethod::kAsTheyAre:
      return as_they_are(product, scratch);
    case NBitsMethod::kUnpacked:
      return unpacked(product);
  }
}

}  // namespace ephost::cpu
