// com.microsoft.MoE: mixtures of experts whose weights are floats.
#include <algorithm>
#include <string>
#include <vector>

#include "cpu/engines/as_float.h"
#include "cpu/engines/experts.h"
#include "cpu/engines/product.h"
#include "cpu/operator.h"
#include "cpu/runtime/threads.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

enum Inputs { kX, kRouter, kUp, kUpBias, kDown, kDownBias, kGate, kGateBias };

// y [m, n] = a [m, k] times the rows of w [n, k], plus a bias.
void by_rows(const float* a, int64_t m, int64_t k, const float* w, int64_t n, const float* bias, float* y) {
  for (int64_t i = 0; i < m * n && k == 0; ++i) y[i] = bias == nullptr ? 0 : bias[i % n];
  if (m == 0 || k == 0) return;
  const Simd& table = simd();
  const int64_t width = table.panel;
  constexpr int64_t kFew = 4;  // That are multiplied sooner than panels are made.
  if (m <= kFew) {
    constexpr int64_t kColumns = 32;
    const int64_t grain = std::max<int64_t>(1, kGrain / (m * k * kColumns + 1));
    parallel_for((n + kColumns - 1) / kColumns, grain, [&](int64_t part, int64_t end) {
      GemmBlock block{};
      const int64_t first = part * kColumns;
      block.m = m;
      block.n = std::min(n, end * kColumns) - first;
      block.k = k;
      block.a = a;
      block.a_row = k;
      block.a_step = 1;
      block.b = w + first * k;
      block.b_panel = k;
      block.c = y + first;
      block.c_row = n;
      block.bias = bias == nullptr ? nullptr : bias + first;
      table.gemm_dots(block);
    });
    return;
  }
  // Of more, these are packed, which are less than the weights, and multiplied from the other side.
  static thread_local std::vector<float> panels;
  const int64_t panel = width * k, count = (m + width - 1) / width;
  panels.resize(static_cast<size_t>(count * panel));
  float* const packed = panels.data();
  parallel_for(count, std::max<int64_t>(1, kGrain / (panel + 1)), [&](int64_t q, int64_t end) {
    for (; q < end; ++q) {
      const int64_t first = q * width;
      table.gemm_pack(a + first * k, 1, k, k, std::min(width, m - first), packed + q * panel);
    }
  });
  const int64_t rows = table.rows;
  parallel_for((n + rows - 1) / rows, 1, [&](int64_t part, int64_t end) {
    static thread_local std::vector<float> room;
    room.resize(static_cast<size_t>(rows * m));
    for (; part < end; ++part) {
      GemmBlock block{};
      const int64_t first = part * rows;
      block.m = std::min(rows, n - first);
      block.n = m;
      block.k = k;
      block.a = w + first * k;
      block.a_row = k;
      block.a_step = 1;
      block.b = packed;
      block.b_step = width;
      block.b_panel = panel;
      block.c = room.data();
      block.c_row = m;
      gemm_in_blocks(block);
      for (int64_t i = 0; i < m; ++i) {
        float* const to = y + i * n + first;
        for (int64_t j = 0; j < block.m; ++j) {
          to[j] = room[static_cast<size_t>(j * m + i)] + (bias == nullptr ? 0 : bias[first + j]);
        }
      }
    }
  });
}

// The matrices [experts, n, k] of an input, and the bias [experts, n] of another if it is there.
class FloatMatrix final : public ExpertMatrix {
 public:
  FloatMatrix(const Prepare& p, const char* name, int weights, int bias)
      : weights_(weights), bias_(p.has(bias) ? bias : -1), n_(p.dims(weights)[1]), k_(p.dims(weights)[2]) {
    if (bias_ >= 0) expect_bias(p, name, p.dims(bias), {p.dims(weights)[0], n_});
  }
  size_t scratch(int64_t) const override { return 0; }
  void multiply(const Args& args, int64_t expert, const float* x, int64_t m, float* y, void*) const override {
    const float* const bias = bias_ < 0 ? nullptr : args.in<float>(bias_) + expert * n_;
    by_rows(x, m, k_, args.in<float>(weights_) + expert * n_ * k_, n_, bias, y);
  }

 private:
  int weights_, bias_;
  int64_t n_, k_;
};

std::string supports(const Node& node) {
  const Activation activation(node);
  if (const std::string why_not = activation.supports(); !why_not.empty()) return why_not;
  if (node.i("use_sparse_mixer", 0) != 0) return "a sparse mixer";
  if ((node.in(kGate) != nullptr) != activation.takes_two())
    return "a third matrix where SwiGLU has one, or none";
  return one_float_type(node, {0, 1, 2, 3, 4, 5, 6, 7});
}

Kernel moe(Prepare& p) {
  Mixture mixture(p);
  const Dims up = p.dims(kUp), down = p.dims(kDown);
  p.expect(up.size() == 3 && down.size() == 3, "the experts' weights have three dimensions");
  mixture.inner = down[2];
  p.expect(up == Dims({mixture.experts, mixture.activation.width(mixture.inner), mixture.hidden}) &&
               down == Dims({mixture.experts, mixture.hidden, mixture.inner}),
           "the experts' matrices do not fit each other, the input or the router");
  p.expect(!p.has(kGate) || p.dims(kGate) == up, "the third matrix has the shape of the first");
  mixture.normalize = p.node.i("normalize_routing_weights", 0) != 0;
  mixture.up = std::make_shared<FloatMatrix>(p, "first", kUp, kUpBias);
  mixture.down = std::make_shared<FloatMatrix>(p, "second", kDown, kDownBias);
  if (p.has(kGate)) mixture.gate = std::make_shared<FloatMatrix>(p, "third", kGate, kGateBias);
  mixture.reserve(p);
  return [mixture](const Args& args) { mixture.run(args, nullptr); };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "MoE",
                 .supports = supports,
                 .prepare = with_halves(moe),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16}});
});

}  // namespace ephost::cpu
