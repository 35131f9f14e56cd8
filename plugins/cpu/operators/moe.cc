// com.microsoft.MoE: each token goes through the few of many small networks that a router likes best.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "cpu/engines/as_float.h"
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

struct Expert {
  std::string activation;
  bool gated;      // SwiGLU, of
  int64_t fusion;  // 0: two matrices, 1: one whose rows take turns, 2: one above the other.
  float alpha, beta, limit;

  explicit Expert(const Node& node)
      : activation(node.s("activation_type", "relu")),
        gated(activation == "swiglu"),
        fusion(gated ? node.i("swiglu_fusion", 0) : 0),
        alpha(node.f("activation_alpha", 1)),
        beta(node.f("activation_beta", 0)),
        limit(node.f("swiglu_limit", std::numeric_limits<float>::infinity())) {}

  bool is_two() const { return gated && fusion == 0; }
  int64_t width(int64_t inner) const { return gated && fusion != 0 ? 2 * inner : inner; }

  // One row: what the first matrix makes, of `width`, and the second if there is one; into `to`, of `inner`.
  void activate(const float* up, const float* gate, int64_t inner, float* to) const {
    const Simd& table = simd();
    const void* const in[] = {to};
    const auto apply = [&](Op op, float a) {
      const float params[] = {a, 0};
      table.ops[static_cast<size_t>(op)](in, to, inner, params);
    };
    if (!gated) {
      std::copy(up, up + inner, to);
      if (activation == "relu") apply(Op::kRelu, 0);
      if (activation == "gelu") apply(Op::kGeluTanh, 0);
      if (activation == "silu") apply(Op::kSwish, 1);
      return;
    }
    const int64_t step = fusion == 1 ? 2 : 1;
    const float* const linear = fusion == 0 ? gate : fusion == 1 ? up + 1 : up + inner;
    for (int64_t i = 0; i < inner; ++i) to[i] = std::min(up[i * step], limit);
    apply(Op::kSwish, alpha);
    for (int64_t i = 0; i < inner; ++i) to[i] *= std::clamp(linear[i * step], -limit, limit) + beta;
  }
};

std::string supports(const Node& node) {
  const Expert expert(node);
  for (const char* name : {"relu", "gelu", "silu", "identity", "swiglu"}) {
    if (expert.activation != name) continue;
    if (node.i("use_sparse_mixer", 0) != 0) return "a sparse mixer";
    if (expert.fusion < 0 || expert.fusion > 2) return "swiglu_fusion is none of 0, 1 and 2";
    if ((node.in(kGate) != nullptr) != expert.is_two()) return "a third matrix where SwiGLU has one, or none";
    return one_float_type(node, {0, 1, 2, 3, 4, 5, 6, 7});
  }
  return "the activation '" + expert.activation + "'";
}

// For each expert the tokens that go there, and with which weights.
struct Routes {
  std::vector<std::vector<int64_t>> tokens;
  std::vector<std::vector<float>> weights;

  Routes(const float* scores, int64_t rows, int64_t experts, int64_t best, bool normalize)
      : tokens(static_cast<size_t>(experts)), weights(static_cast<size_t>(experts)) {
    std::vector<float> shares(static_cast<size_t>(experts));
    std::vector<int64_t> order(static_cast<size_t>(experts));
    for (int64_t t = 0; t < rows; ++t, scores += experts) {
      simd().softmax(scores, nullptr, shares.data(), experts, 1, false);
      std::iota(order.begin(), order.end(), 0);
      // NaN counts as the least, so that there is an order.
      const auto rank = [&](int64_t e) { return std::isnan(scores[e]) ? -INFINITY : scores[e]; };
      std::partial_sort(order.begin(), order.begin() + best, order.end(),
                        [&](int64_t a, int64_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
      float sum = 0;
      for (int64_t i = 0; i < best; ++i) sum += shares[static_cast<size_t>(order[static_cast<size_t>(i)])];
      for (int64_t i = 0; i < best; ++i) {
        const size_t e = static_cast<size_t>(order[static_cast<size_t>(i)]);
        tokens[e].push_back(t);
        weights[e].push_back(normalize ? shares[e] / sum : shares[e]);
      }
    }
  }
};

Kernel moe(Prepare& p) {
  const auto has = [&](int i) { return i < p.inputs() && p.has(i); };
  const Expert expert(p.node);
  const Dims dims = p.dims(kX), router = p.dims(kRouter), up = p.dims(kUp), down = p.dims(kDown);
  p.expect(dims.size() == 2 || dims.size() == 3, "the input has two or three dimensions");
  const int64_t hidden = dims.back(), rows = count(dims, 0, dims.size() - 1);
  p.expect(router.size() == 2 && router[0] == rows, "the router has a row for each token");
  const int64_t experts = router[1], best = p.node.i("k", 1);
  p.expect(best > 0 && best <= experts, "k is from 1 to the number of experts");
  p.expect(up.size() == 3 && down.size() == 3, "the experts' weights have three dimensions");
  const int64_t inner = down[2], width = up[1];
  p.expect(up == Dims({experts, width, hidden}) && down == Dims({experts, hidden, inner}) &&
               width == expert.width(inner),
           "the experts' matrices do not fit each other, the input or the router");
  p.expect(!has(kGate) || p.dims(kGate) == up, "the third matrix has the shape of the first");
  const bool biased = has(kUpBias), down_biased = has(kDownBias), gate_biased = has(kGateBias);
  p.expect(!biased || p.dims(kUpBias) == Dims({experts, width}), "the first bias does not fit its matrix");
  p.expect(!down_biased || p.dims(kDownBias) == Dims({experts, hidden}),
           "the second bias does not fit its matrix");
  p.expect(!gate_biased || p.dims(kGateBias) == Dims({experts, width}),
           "the third bias does not fit its matrix");
  const bool normalize = p.node.i("normalize_routing_weights", 0) != 0, two = expert.is_two();
  p.out(0, p.type(kX), dims);
  const int64_t each = count({2 * hidden + (two ? 2 : 1) * width + inner}), floats = count({rows, each});
  p.scratch(static_cast<size_t>(floats) * sizeof(float));
  return [=](const Args& args) {
    const float* const x = args.in<float>(kX);
    float* const y = args.out<float>(0);
    std::fill(y, y + rows * hidden, 0.0F);
    const Routes routes(args.in<float>(kRouter), rows, experts, best, normalize);
    float* const taken = args.scratch<float>();
    for (int64_t e = 0; e < experts; ++e) {
      const std::vector<int64_t>& tokens = routes.tokens[static_cast<size_t>(e)];
      const std::vector<float>& weights = routes.weights[static_cast<size_t>(e)];
      const int64_t m = static_cast<int64_t>(tokens.size());
      float *const wide = taken + m * hidden, *const other = wide + m * width;
      float *const active = other + (two ? m * width : 0), *const made = active + m * inner;
      for (int64_t i = 0; i < m; ++i) {
        const float* const from = x + tokens[static_cast<size_t>(i)] * hidden;
        std::copy(from, from + hidden, taken + i * hidden);
      }
      const auto bias = [&](bool there, int input, int64_t n) {
        return there ? args.in<float>(input) + e * n : nullptr;
      };
      const int64_t size = e * width * hidden;
      by_rows(taken, m, hidden, args.in<float>(kUp) + size, width, bias(biased, kUpBias, width), wide);
      if (two)
        by_rows(taken, m, hidden, args.in<float>(kGate) + size, width, bias(gate_biased, kGateBias, width),
                other);
      parallel_for(m, std::max<int64_t>(1, kGrain / (8 * inner + 1)), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) expert.activate(wide + i * width, other + i * width, inner, active + i * inner);
      });
      const float* const second = args.in<float>(kDown) + e * hidden * inner;
      by_rows(active, m, inner, second, hidden, bias(down_biased, kDownBias, hidden), made);
      for (int64_t i = 0; i < m; ++i) {
        float* const to = y + tokens[static_cast<size_t>(i)] * hidden;
        const float weight = weights[static_cast<size_t>(i)];
        for (int64_t c = 0; c < hidden; ++c) to[c] += weight * made[i * hidden + c];
      }
    }
  };
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
