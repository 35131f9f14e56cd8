// What networks between attention and recurrence are made of, by com.microsoft's names: a state that each
// token changes and reads (LinearAttention), a short convolution along the tokens that remembers the last
// ones (CausalConvWithState), and the gates around them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "cpu/engines/as_float.h"
#include "cpu/operator.h"
#include "cpu/runtime/threads.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kMostStates = 8;  // That an output may keep, each of a token.

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

void multiply_by_own_sigmoid(float* x, int64_t n) {
  const void* const in[] = {x};
  const float factor[] = {1, 0};
  simd().ops[static_cast<size_t>(Op::kSwish)](in, x, n, factor);
}

// States in a row, the last one that of the last token: [window, batch, ...] or, where there is no window,
// [batch, ...].
struct States {
  int64_t window = 1;
  bool windowed = false;

  explicit States(const Prepare& p) {
    window = p.node.i("state_window", 0);
    p.expect(window >= 0 && window <= kMostStates, "state_window is from 0 to 8");
    windowed = window > 0;
    window = std::max<int64_t>(window, 1);
  }
  Dims dims(Dims each) const {
    if (windowed) each.insert(each.begin(), window);
    return each;
  }
  // Which state is that after token t of `tokens`; below 0 if none is.
  int64_t of(int64_t t, int64_t tokens) const { return window - tokens + t; }
};

// ---- LinearAttention: query, key, value, past, decay, beta -> output, present.

struct Rule {
  bool fades = false, corrects = false;

  explicit Rule(const Node& node) {
    const std::string name = node.s("update_rule", "gated_delta");
    fades = name == "gated" || name == "gated_delta";
    corrects = name == "delta" || name == "gated_delta";
  }
};

std::string supports_linear_attention(const Node& node) {
  for (const char* name : {"linear", "gated", "delta", "gated_delta"}) {
    if (node.s("update_rule", "gated_delta") == name) return one_float_type(node, {0, 1, 2, 3, 4, 5});
  }
  return "the update rule '" + node.s("update_rule", "") + "'";
}

Kernel linear_attention(Prepare& p) {
  const int64_t query_heads = p.node.i("q_num_heads", 0), heads = p.node.i("kv_num_heads", 0);
  const Dims query = p.dims(0), key = p.dims(1), value = p.dims(2);
  p.expect(query_heads > 0 && heads > 0, "the numbers of heads are not given");
  p.expect(query.size() == 3 && key.size() == 3 && value.size() == 3,
           "queries, keys and values have three dimensions");
  const int64_t batch = query[0], tokens = query[1], keys = query[2] / query_heads, values = value[2] / heads;
  p.expect(keys > 0 && query[2] == keys * query_heads && value[2] == values * heads && key[2] % keys == 0,
           "channels that the heads cannot share");
  const int64_t key_heads = key[2] / keys, most = std::max(query_heads, heads),
                least = std::min(query_heads, heads);
  p.expect(most % least == 0 && key_heads > 0 && heads % key_heads == 0, "heads that cannot share others");
  for (const Dims& each : {key, value}) {
    p.expect(each[0] == batch && each[1] == tokens, "keys and values are as many as queries");
  }
  const States states(p);
  const Dims state_dims = states.dims({batch, heads, keys, values});
  const bool past = p.has(3);
  p.expect(!past || p.dims(3) == state_dims, "the past state has another shape than the heads ask for");
  const Rule rule(p.node);
  p.expect(!rule.fades || p.has(4), "this update rule needs a decay");
  p.expect(!rule.corrects || p.has(5), "this update rule needs a beta");
  int64_t fades = 0, rates = 0;  // For each token.
  if (rule.fades) {
    const Dims decay = p.dims(4);
    p.expect(decay.size() == 3 && decay[0] == batch && decay[1] == tokens &&
                 (decay[2] == heads || (decay[2] % heads == 0 && decay[2] / heads == keys)),
             "a decay is one number for each head, or for each element of its keys");
    fades = decay[2];
  }
  if (rule.corrects) {
    const Dims beta = p.dims(5);
    p.expect(beta.size() == 3 && beta[0] == batch && beta[1] == tokens && (beta[2] == heads || beta[2] == 1),
             "a beta is one number for each head, or for all");
    rates = beta[2];
  }
  float scale = p.node.f("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(keys));
  p.out(0, p.type(0), {batch, tokens, most * values});
  const bool gives = p.node.out(1) != nullptr;
  if (gives) p.out(1, p.type(0), state_dims);
  const int64_t size = count({keys, values}), all = count({batch, heads, keys, values});
  const int64_t room = (keys + 15) / 16 * 16;  // For factors of rows.
  const int64_t rooms = room * std::max(1, p.threads());
  p.scratch(static_cast<size_t>(rooms + (gives ? 0 : all)) * sizeof(float));
  return [=](const Args& args) {
    float* const scratch = args.scratch<float>();
    float* const kept = gives ? args.out<float>(1) : nullptr;
    float* const last = gives ? kept + (states.window - 1) * all : scratch + rooms;
    parallel_for(
        batch * heads, std::max<int64_t>(1, kGrain / (tokens * size + 1)), [&](int64_t i, int64_t end) {
          float* const factors = scratch + thread_rank() * room;
          for (; i < end; ++i) {
            const int64_t b = i / heads, h = i % heads;
            float* const state = last + i * size;
            const size_t bytes = static_cast<size_t>(size) * sizeof(float);
            if (past && bytes > 0) {
              std::memcpy(state, args.in<float>(3) + (states.window - 1) * all + i * size, bytes);
            } else {
              std::fill(state, state + size, 0.0F);
            }
            for (int64_t slot = 0; gives && slot < states.of(0, tokens) && slot < states.window - 1; ++slot) {
              std::fill(kept + slot * all + i * size, kept + slot * all + (i + 1) * size, 0.0F);
            }
            RecurrentStep step{};
            step.state = state;
            step.keys = keys;
            step.values = values;
            step.queries = query_heads > heads ? query_heads / heads : 1;
            step.corrects = rule.corrects;
            step.scale = scale;
            for (int64_t t = 0; t < tokens; ++t) {
              const int64_t token = b * tokens + t;
              if (rule.fades) {
                const float* decay = args.in<float>(4) + token * fades;
                const bool one = fades == heads;
                for (int64_t k = 0; k < (one ? 1 : keys); ++k) {
                  factors[k] = std::exp(decay[one ? h : h * keys + k]);
                }
                step.fade = factors;
                step.fade_step = one ? 0 : 1;
              }
              if (rule.corrects) step.rate = args.in<float>(5)[token * rates + (rates == 1 ? 0 : h)];
              step.key = args.in<float>(1) + (token * key_heads + h * key_heads / heads) * keys;
              step.value = args.in<float>(2) + (token * heads + h) * values;
              step.query = args.in<float>(0) + (token * query_heads + h * query_heads / heads) * keys;
              step.out = args.out<float>(0) + (token * most + h * most / heads) * values;
              simd().recurrent_step(step);
              const int64_t slot = states.of(t, tokens);
              if (gives && bytes > 0 && slot >= 0 && slot < states.window - 1) {
                std::memcpy(kept + slot * all + i * size, state, bytes);
              }
            }
          }
        });
  };
}

// ---- CausalConvWithState: input, weight, bias, past -> output, present.

std::string supports_causal_conv(const Node& node) {
  if (node.i("ndim", 1) != 1) return "more than one dimension of space";
  for (const char* name :
       {"input_channels", "input_channel_offset", "state_length", "state_update_capacity"}) {
    if (node.i(name, 0) != 0) return std::string(name) + ", which is for CUDA";
  }
  if (node.i("state_channels_last", -1) != -1) return "state_channels_last, which is for CUDA";
  if (node.out(2) != nullptr) return "an output of updates, which is for CUDA";
  const std::string activation = node.s("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return "the activation '" + activation + "'";
  }
  return one_float_type(node, {0, 1, 2, 3});
}

Kernel causal_conv(Prepare& p) {
  const bool last = p.node.i("channels_last", 0) != 0, silu = p.node.s("activation", "none") != "none";
  const Dims dims = p.dims(0), weight = p.dims(1);
  p.expect(dims.size() == 3 || (last && dims.size() > 3), "the input is of batches, channels and places");
  const int64_t batch = dims[0], tokens = dims[last ? 1 : 2];
  const int64_t channels = last ? count(dims, 2, dims.size()) : dims[1];
  p.expect(weight.size() == 3 && weight[0] == channels && weight[1] == 1 && weight[2] > 0,
           "the weights are [channels, 1, taps]");
  p.expect(!p.has(2) || p.dims(2) == Dims{channels}, "the bias has one element for each channel");
  const int64_t taps = weight[2], dilation = p.node.i("dilation", 1);
  p.expect(dilation > 0, "the dilation is positive");
  const int64_t before = count({taps - 1, dilation});
  const States states(p);
  Dims each = dims;
  each[last ? 1 : 2] = before;
  const Dims state_dims = states.dims(each);
  const bool past = p.has(3), biased = p.has(2);
  p.expect(!past || p.dims(3) == state_dims, "the past state has another shape than the taps ask for");
  p.out(0, p.type(0), dims);
  const bool gives = p.node.out(1) != nullptr;
  if (gives) p.out(1, p.type(0), state_dims);
  // Channels side by side, or lines of one channel each.
  const int64_t lines = last ? batch : batch * channels, width = last ? channels : 1;
  const int64_t all = batch * channels * before;
  p.scratch(static_cast<size_t>(last ? taps * channels : 0) * sizeof(float));
  return [=](const Args& args) {
    const float *const x = args.in<float>(0), *const weights = args.in<float>(1);
    const float* const bias = biased ? args.in<float>(2) : nullptr;
    const float* const earlier = past ? args.in<float>(3) + (states.window - 1) * all : nullptr;
    float *const y = args.out<float>(0), *const turned = args.scratch<float>();
    // Row r of what line i is: the state, and then the input. Null where nothing is.
    const auto row_of = [=](int64_t i, int64_t r) -> const float* {
      if (r >= before) return x + (i * tokens + r - before) * width;
      return earlier == nullptr ? nullptr : earlier + (i * before + r) * width;
    };
    if (last) {
      for (int64_t c = 0; c < channels; ++c) {  // A row of channels for each tap.
        for (int64_t k = 0; k < taps; ++k) turned[k * channels + c] = weights[c * taps + k];
      }
      const int64_t grain = std::max<int64_t>(1, kGrain / (taps * channels + 1));
      parallel_for(batch * tokens, grain, [&](int64_t at, int64_t end) {
        for (; at < end; ++at) {
          float* const to = y + at * channels;
          for (int64_t c = 0; c < channels; ++c) to[c] = bias == nullptr ? 0 : bias[c];
          for (int64_t k = 0; k < taps; ++k) {
            const float* const from = row_of(at / tokens, at % tokens + k * dilation);
            const float* const tap = turned + k * channels;
            for (int64_t c = 0; from != nullptr && c < channels; ++c) to[c] += from[c] * tap[c];
          }
          if (silu) multiply_by_own_sigmoid(to, channels);
        }
      });
    } else {
      parallel_for(
          lines, std::max<int64_t>(1, kGrain / (taps * tokens + 1)), [&](int64_t first, int64_t end) {
            for (int64_t i = first; i < end; ++i) {
              const int64_t channel = i % channels;
              float* const to = y + i * tokens;
              if (tokens == 1) {  // As models that write a text have it: no loops of one step.
                const float* const w = weights + channel * taps;
                float sum = x[i] * w[taps - 1] + (bias == nullptr ? 0 : bias[channel]);
                const float* const old = earlier == nullptr ? nullptr : earlier + i * before;
                for (int64_t k = 0; old != nullptr && k < taps - 1; ++k) sum += old[k * dilation] * w[k];
                *to = sum;
                continue;
              }
              std::fill(to, to + tokens, bias == nullptr ? 0 : bias[channel]);
              for (int64_t k = 0; k < taps; ++k) {
                const float tap = weights[channel * taps + k];
                const int64_t missing = std::min(tokens, before - k * dilation);  // That the state has.
                const float* const old = earlier == nullptr ? nullptr : row_of(i, k * dilation);
                for (int64_t t = 0; old != nullptr && t < missing; ++t) to[t] += old[t] * tap;
                const float* const fresh = row_of(i, before);
                for (int64_t t = missing; t < tokens; ++t) to[t] += fresh[t + k * dilation - before] * tap;
              }
            }
            if (silu) multiply_by_own_sigmoid(y + first * tokens, (end - first) * tokens);
          });
    }
    if (!gives) return;
    parallel_for(lines, std::max<int64_t>(1, kGrain / (before * width + 1)), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        for (int64_t slot = 0; slot < states.window; ++slot) {
          float* const to = args.out<float>(1) + slot * all + i * before * width;
          if (slot < states.of(0, tokens) && slot < states.window - 1) {
            std::fill(to, to + before * width, 0.0F);
            continue;
          }
          // The rows from `first` on: some of the state, some of the input.
          const int64_t first = std::max<int64_t>(0, tokens - states.window + slot + 1);
          const int64_t old = std::max<int64_t>(0, before - first) * width, fresh = before * width - old;
          if (old > 0 && earlier != nullptr) {
            std::memcpy(to, row_of(i, first), static_cast<size_t>(old) * sizeof(float));
          } else {
            std::fill(to, to + old, 0.0F);
          }
          if (fresh > 0) {
            std::memcpy(to + old, row_of(i, std::max(first, before)),
                        static_cast<size_t>(fresh) * sizeof(float));
          }
        }
      }
    });
  };
}

// ---- LinearAttentionGate: a, bias, scale, b -> decay, beta.

Kernel attention_gate(Prepare& p) {
  const Dims dims = p.dims(0);
  p.expect(!dims.empty(), "the input has heads");
  const int64_t heads = dims.back(), size = count(dims);
  for (int i : {1, 2}) p.expect(p.in(i).count() == heads, "bias and scale have one element for each head");
  const bool decays = p.node.out(0) != nullptr, rates = p.node.out(1) != nullptr;
  p.expect(!rates || (p.has(3) && p.dims(3) == dims), "beta needs an input like the first");
  if (decays) p.out(0, p.type(0), dims);
  if (rates) p.out(1, p.type(0), dims);
  return [=](const Args& args) {
    for (int64_t i = 0; decays && i < size; ++i) {
      const float x = args.in<float>(0)[i] + args.in<float>(1)[i % heads];
      const float softplus = x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
      args.out<float>(0)[i] = args.in<float>(2)[i % heads] * softplus;
    }
    for (int64_t i = 0; rates && i < size; ++i) args.out<float>(1)[i] = sigmoid(args.in<float>(3)[i]);
  };
}

// ---- GatedRMSNorm: x, scale, gate.

std::string supports_gated_norm(const Node& node) {
  const std::string activation = node.s("activation", "silu");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid") {
    return "the activation '" + activation + "'";
  }
  return one_float_type(node, {0, 1, 2});
}

Kernel gated_norm(Prepare& p) {
  const Dims dims = p.dims(0), scale = p.dims(1);
  const int64_t width = count(scale);
  p.expect(width > 0 && !dims.empty() && dims.back() % width == 0,
           "rows are cut into as many elements as the scale has");
  p.expect(p.dims(2) == dims, "a gate has the input's shape");
  const int64_t rows = count(dims) / width;
  const float epsilon = p.node.f("epsilon", 1e-5F);
  const bool silu = p.node.s("activation", "silu") != "sigmoid";
  p.out(0, p.type(0), dims);
  return [=](const Args& args) {
    parallel_for(rows, std::max<int64_t>(1, kGrain / (8 * width)), [&](int64_t i, int64_t end) {
      const float* const factors = args.in<float>(1);
      for (; i < end; ++i) {
        const float *x = args.in<float>(0) + i * width, *gate = args.in<float>(2) + i * width;
        float* const y = args.out<float>(0) + i * width;
        const float mean = simd().sum_of_squares(x, width, 0) / static_cast<float>(width);
        const float norm = 1 / std::sqrt(mean + epsilon);
        for (int64_t k = 0; k < width; ++k) {
          y[k] = x[k] * norm * factors[k] * sigmoid(gate[k]) * (silu ? gate[k] : 1);
        }
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr Types kCommon = {DType::kFloat, DType::kFloat16, DType::kBFloat16};
  const auto add = [&](const char* type, auto supports, auto prepare) {
    registry->add({.domain = "com.microsoft",
                   .type = type,
                   .supports = supports,
                   .prepare = with_halves(prepare),
                   .types = kCommon});
  };
  add("LinearAttention", supports_linear_attention, linear_attention);
  add("CausalConvWithState", supports_causal_conv, causal_conv);
  add(
      "LinearAttentionGate",
      [](const Node& node) {
        return one_float_type(node, {0, 3});
      },
      attention_gate);
  add("GatedRMSNorm", supports_gated_norm, gated_norm);
});

}  // namespace ephost::cpu
