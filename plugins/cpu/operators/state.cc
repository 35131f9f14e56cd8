// Layers that carry a state along a sequence: LinearAttention and CausalConvWithState.
#include <cmath>

#include "cpu/engines/as_float.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

constexpr Types kComputed = {DType::kFloat, DType::kFloat16, DType::kBFloat16};

// The outputs have the types of queries and of the state that came in: as_float knows only one.
std::string one_type(const Node& node) {
  DType type = DType::kUndefined;
  for (const Value* value : node.inputs) {
    if (value == nullptr || value->type == DType::kUndefined) continue;
    if (type != DType::kUndefined && value->type != type) return "its inputs have different types";
    type = value->type;
  }
  return "";
}

// For each head a matrix [keys' channels, values' channels] that decays, is corrected by what it already says
// of a key, gets the product of key and value added, and is read by queries.
Kernel linear_attention(Prepare& p) {
  const int64_t heads = p.node.i("q_num_heads", 0), kv_heads = p.node.i("kv_num_heads", 0);
  p.expect(heads > 0 && kv_heads > 0 && heads % kv_heads == 0, "numbers of heads that do not fit");
  for (int i = 0; i < 3; ++i) {
    p.expect(p.dims(i).size() == 3 && p.dims(i)[2] % (i == 0 ? heads : kv_heads) == 0 &&
                 p.dims(i)[0] == p.dims(0)[0] && p.dims(i)[1] == p.dims(0)[1],
             "queries, keys and values that do not fit each other");
  }
  const int64_t batch = p.dims(0)[0], length = p.dims(0)[1];
  const int64_t depth = p.dims(0)[2] / heads, width = p.dims(2)[2] / kv_heads, group = heads / kv_heads;
  p.expect(p.dims(1)[2] == kv_heads * depth, "queries and keys that do not fit each other");
  const std::string rule = p.node.s("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta",
             delta = rule == "delta" || rule == "gated_delta";
  p.expect(gated == p.has(4) && delta == p.has(5), "a rule that does not fit the inputs");
  const Dims state_dims = {batch, kv_heads, depth, width};
  p.expect(!p.has(3) || p.dims(3) == state_dims, "a state that does not fit");
  p.expect((!gated || !p.dims(4).empty()) && (!delta || !p.dims(5).empty()),
           "a decay or a rate that is a single number");
  const int64_t gates = gated ? p.dims(4).back() : 0, rates = delta ? p.dims(5).back() : 0;
  p.expect(!gated || (p.in(4).count() == batch * length * gates &&
                      (gates == kv_heads || gates == kv_heads * depth)),
           "a decay that does not fit the heads");
  p.expect(!delta || (p.in(5).count() == batch * length * rates && (rates == kv_heads || rates == 1)),
           "rates that do not fit the heads");
  const float given = p.node.f("scale", 0),
              scale = given != 0 ? given : 1 / std::sqrt(static_cast<float>(depth));
  p.out(0, p.type(0), {batch, length, heads * width});
  const bool wanted = p.wants(1), past = p.has(3);
  if (wanted) p.out(1, p.type(0), state_dims);
  const int64_t size = depth * width, states = batch * kv_heads * size;
  p.scratch(static_cast<size_t>((wanted ? 0 : states) + batch * kv_heads * width) * sizeof(float));
  return [=](const Args& args) {
    float* all = wanted ? args.out<float>(1) : args.scratch<float>();
    float* rows = args.scratch<float>() + (wanted ? 0 : states);
    parallel_for(batch * kv_heads, std::max<int64_t>(1, kGrain / (length * size * 4 + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const int64_t b = i / kv_heads, h = i % kv_heads;
                     float *state = all + i * size, *row = rows + i * width;
                     if (past) {
                       std::copy_n(args.in<float>(3) + i * size, size, state);
                     } else {
                       std::fill_n(state, size, 0.0f);
                     }
                     for (int64_t t = 0; t < length; ++t) {
                       const int64_t at = b * length + t;
                       const float* k = args.in<float>(1) + (at * kv_heads + h) * depth;
                       const float* v = args.in<float>(2) + (at * kv_heads + h) * width;
                       if (gated) {
                         const bool each = gates != kv_heads;
                         const float* g = args.in<float>(4) + at * gates + (each ? h * depth : h);
                         for (int64_t d = 0; d < depth; ++d) {
                           const float factor = std::exp(g[each ? d : 0]);
                           for (int64_t c = 0; c < width; ++c) state[d * width + c] *= factor;
                         }
                       }
                       std::copy_n(v, width, row);
                       if (delta) {
                         for (int64_t d = 0; d < depth; ++d) {
                           for (int64_t c = 0; c < width; ++c) row[c] -= state[d * width + c] * k[d];
                         }
                         const float rate = args.in<float>(5)[at * rates + (rates == 1 ? 0 : h)];
                         for (int64_t c = 0; c < width; ++c) row[c] *= rate;
                       }
                       for (int64_t d = 0; d < depth; ++d) {
                         for (int64_t c = 0; c < width; ++c) state[d * width + c] += k[d] * row[c];
                       }
                       for (int64_t j = h * group; j < (h + 1) * group; ++j) {
                         const float* q = args.in<float>(0) + (at * heads + j) * depth;
                         float* y = args.out<float>(0) + (at * heads + j) * width;
                         std::fill_n(y, width, 0.0f);
                         for (int64_t d = 0; d < depth; ++d) {
                           const float factor = q[d] * scale;
                           for (int64_t c = 0; c < width; ++c) y[c] += factor * state[d * width + c];
                         }
                       }
                     }
                   }
                 });
  };
}

// A convolution of each channel along the sequence, over what came before it.
Kernel causal_conv(Prepare& p) {
  const Dims x = p.dims(0), w = p.dims(1);
  p.expect(x.size() == 3 && w.size() == 3 && w[0] == x[1] && w[1] == 1 && w[2] > 0,
           "a weight that does not fit the channels");
  const int64_t channels = x[1], length = x[2], k = w[2], before = k - 1;
  const std::string activation = p.node.s("activation", "none");
  p.expect(activation == "none" || activation == "silu" || activation == "swish",
           "an activation that is not known");
  const bool swish = activation != "none", biased = p.has(2), past = p.has(3);
  p.expect(!biased || p.in(2).count() == channels, "a bias that does not fit the channels");
  const Dims state = {x[0], channels, before};
  p.expect(!past || p.dims(3) == state, "a state that does not fit");
  p.out(0, p.type(0), x);
  const bool wanted = p.wants(1);
  if (wanted) p.out(1, p.type(0), state);
  const int64_t row = before + length;
  p.scratch(static_cast<size_t>(x[0] * channels * row) * sizeof(float));
  return [=](const Args& args) {
    parallel_for(x[0] * channels, std::max<int64_t>(1, kGrain / (row * k + 1)), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        float* line = args.scratch<float>() + i * row;
        if (past) {
          std::copy_n(args.in<float>(3) + i * before, before, line);
        } else {
          std::fill_n(line, before, 0.0f);
        }
        std::copy_n(args.in<float>(0) + i * length, length, line + before);
        const float* weight = args.in<float>(1) + i % channels * k;
        float* y = args.out<float>(0) + i * length;
        std::fill_n(y, length, biased ? args.in<float>(2)[i % channels] : 0.0f);
        for (int64_t j = 0; j < k; ++j) {
          for (int64_t t = 0; t < length; ++t) y[t] += weight[j] * line[t + j];
        }
        for (int64_t t = 0; t < length && swish; ++t) y[t] /= 1 + std::exp(-y[t]);
        if (wanted) std::copy_n(line + length, before, args.out<float>(1) + i * before);
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "LinearAttention",
                 .supports = one_type,
                 .prepare = with_halves(linear_attention),
                 .types = kComputed});
  registry->add({.type = "CausalConvWithState",
                 .supports = one_type,
                 .prepare = with_halves(causal_conv),
                 .types = kComputed});
});

}  // namespace ephost::cpu
