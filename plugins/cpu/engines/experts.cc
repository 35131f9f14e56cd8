#include "cpu/engines/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cpu/runtime/threads.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

size_t aligned(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// For each expert the tokens that go there, and with which weights.
struct Routes {
  std::vector<std::vector<int64_t>> tokens;
  std::vector<std::vector<float>> weights;

  Routes(const Mixture& of, const float* scores, const float* given)
      : tokens(static_cast<size_t>(of.experts)), weights(static_cast<size_t>(of.experts)) {
    std::vector<float> shares(static_cast<size_t>(of.experts));
    std::vector<int64_t> order(static_cast<size_t>(of.experts));
    for (int64_t t = 0; t < of.rows; ++t, scores += of.experts) {
      if (given == nullptr) {
        simd().softmax(scores, nullptr, shares.data(), of.experts, 1, false);
      } else {
        std::copy_n(given + t * of.experts, of.experts, shares.data());
      }
      std::iota(order.begin(), order.end(), 0);
      // NaN counts as the least, so that there is an order. Of equals the last come first, as in onnxruntime.
      const auto rank = [&](int64_t e) { return std::isnan(scores[e]) ? -INFINITY : scores[e]; };
      std::partial_sort(order.begin(), order.begin() + of.best, order.end(),
                        [&](int64_t a, int64_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a > b; });
      float sum = 0;
      for (int64_t i = 0; i < of.best; ++i) sum += shares[static_cast<size_t>(order[static_cast<size_t>(i)])];
      for (int64_t i = 0; i < of.best; ++i) {
        const size_t e = static_cast<size_t>(order[static_cast<size_t>(i)]);
        tokens[e].push_back(t);
        weights[e].push_back(of.normalize ? shares[e] / sum : shares[e]);
      }
    }
  }
};

}  // namespace

Activation::Activation(const Node& node)
    : name(node.s("activation_type", "relu")),
      gated(name == "swiglu"),
      fusion(gated ? node.i("swiglu_fusion", 0) : 0),
      alpha(node.f("activation_alpha", 1)),
      beta(node.f("activation_beta", 0)),
      limit(node.f("swiglu_limit", std::numeric_limits<float>::infinity())),
      limits_activated(gated && node.i("swiglu_limit_after_activation", 0) != 0) {}

std::string Activation::supports() const {
  for (const char* known : {"relu", "gelu", "silu", "identity", "swiglu"}) {
    if (name != known) continue;
    return fusion < 0 || fusion > 2 ? "swiglu_fusion is none of 0, 1 and 2" : "";
  }
  return "the activation '" + name + "'";
}

void Activation::apply(const float* up, const float* gate, int64_t inner, float* to) const {
  const Simd& table = simd();
  const void* const in[] = {to};
  const auto formula = [&](Op op, float a) {
    const float params[] = {a, 0};
    table.ops[static_cast<size_t>(op)](in, to, inner, params);
  };
  if (!gated) {
    std::copy(up, up + inner, to);
    if (name == "relu") formula(Op::kRelu, 0);
    if (name == "gelu") formula(Op::kGeluTanh, 0);
    if (name == "silu") formula(Op::kSwish, 1);
    return;
  }
  const int64_t step = fusion == 1 ? 2 : 1;
  const float* const linear = fusion == 0 ? gate : fusion == 1 ? up + 1 : up + inner;
  const float before = limits_activated ? std::numeric_limits<float>::infinity() : limit;
  for (int64_t i = 0; i < inner; ++i) to[i] = std::min(up[i * step], before);
  formula(Op::kSwish, alpha);
  for (int64_t i = 0; limits_activated && i < inner; ++i) to[i] = std::min(to[i], limit);
  for (int64_t i = 0; i < inner; ++i) to[i] *= std::clamp(linear[i * step], -limit, limit) + beta;
}

void expect_bias(const Prepare& p, const char* matrix, const Dims& dims, const Dims& wanted) {
  if (dims != wanted) p.invalid("the " + std::string(matrix) + " bias does not fit its matrix");
}

Mixture::Mixture(Prepare& p) : activation(p.node) {
  const Dims dims = p.dims(0), router = p.dims(1);
  p.expect(dims.size() == 2 || dims.size() == 3, "the input has two or three dimensions");
  hidden = dims.back();
  rows = count(dims, 0, dims.size() - 1);
  p.expect(router.size() == 2 && router[0] == rows, "the router has a row for each token");
  experts = router[1];
  best = p.node.i("k", 1);
  p.expect(best > 0 && best <= experts, "k is from 1 to the number of experts");
  p.out(0, p.type(0), dims);
}

void Mixture::reserve(Prepare& p) const {
  size_t product = std::max(up->scratch(rows), down->scratch(rows));
  if (gate != nullptr) product = std::max(product, gate->scratch(rows));
  p.scratch(aligned(static_cast<size_t>(count({rows, floats()})) * sizeof(float)) + product);
}

void Mixture::run(const Args& args, const float* weights) const {
  const float* const x = args.in<float>(0);
  float* const y = args.out<float>(0);
  std::fill(y, y + rows * hidden, 0.0F);
  const Routes routes(*this, args.in<float>(1), weights);
  const int64_t width = activation.width(inner);
  float* const taken = args.scratch<float>();
  void* const scratch = args.scratch<char>() + aligned(static_cast<size_t>(rows * floats()) * sizeof(float));
  for (int64_t e = 0; e < experts; ++e) {
    const std::vector<int64_t>& tokens = routes.tokens[static_cast<size_t>(e)];
    const int64_t m = static_cast<int64_t>(tokens.size());
    if (m == 0) continue;
    float *const wide = taken + m * hidden, *const other = wide + m * width;
    float *const active = other + (gate != nullptr ? m * width : 0), *const made = active + m * inner;
    for (int64_t i = 0; i < m; ++i) {
      const float* const from = x + tokens[static_cast<size_t>(i)] * hidden;
      std::copy(from, from + hidden, taken + i * hidden);
    }
    up->multiply(args, e, taken, m, wide, scratch);
    if (gate != nullptr) gate->multiply(args, e, taken, m, other, scratch);
    parallel_for(m, std::max<int64_t>(1, kGrain / (8 * inner + 1)), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) activation.apply(wide + i * width, other + i * width, inner, active + i * inner);
    });
    down->multiply(args, e, active, m, made, scratch);
    for (int64_t i = 0; i < m; ++i) {
      float* const to = y + tokens[static_cast<size_t>(i)] * hidden;
      const float weight = routes.weights[static_cast<size_t>(e)][static_cast<size_t>(i)];
      for (int64_t c = 0; c < hidden; ++c) to[c] += weight * made[i * hidden + c];
    }
  }
}

}  // namespace ephost::cpu
