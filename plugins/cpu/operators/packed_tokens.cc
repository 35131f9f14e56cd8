// What LinearAttention and CausalConvWithState do, over sequences that lie one after the other, by
// com.microsoft's names: GatedDeltaNet and VarlenCausalConvWithState.
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

constexpr int64_t kMostUpdates = 8;  // That an output may keep of a sequence.

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float softplus(float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); }

// Error unless `ends` [batch + 1] grow from 0 to the number of tokens.
void expect_ends(const std::string& label, const int32_t* ends, int64_t batch, int64_t tokens) {
  bool grow = ends[0] == 0 && ends[batch] == tokens;
  for (int64_t b = 0; b < batch; ++b) grow = grow && ends[b] <= ends[b + 1];
  if (!grow) invalid(label + ": the ends of sequences do not grow from 0 to the number of tokens");
}

// ---- VarlenCausalConvWithState: input, weight, ends, bias, state, how many tokens to keep, (for CUDA:
// delta, mask) -> output, state, the first tokens.

std::string supports_packed_conv(const Node& node) {
  if (node.in(6) != nullptr || node.in(7) != nullptr) return "weights that change, which are for CUDA";
  const std::string activation = node.s("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return "the activation '" + activation + "'";
  }
  return one_float_type(node, {0, 1, 3, 4});
}

Kernel packed_conv(Prepare& p) {
  const Dims dims = p.dims(0), weight = p.dims(1);
  p.expect(dims.size() == 2, "the input is of tokens and channels");
  const int64_t tokens = dims[0], channels = dims[1];
  p.expect(weight.size() == 3 && weight[0] == channels && weight[1] == 1 && weight[2] > 0,
           "the weights are [channels, 1, taps]");
  p.expect(!p.has(3) || p.dims(3) == Dims{channels}, "the bias has one element for each channel");
  const int64_t taps = weight[2], dilation = p.node.i("dilation", 1);
  p.expect(dilation > 0, "the dilation is positive");
  p.expect(p.type(2) == DType::kInt32 && p.dims(2).size() == 1 && p.dims(2)[0] > 1,
           "the ends of sequences are int32 in a row, one more than sequences");
  const int64_t batch = p.dims(2)[0] - 1, before = count({taps - 1, dilation});
  p.expect(p.dims(4) == Dims({batch, channels, before}), "the state has another shape than the taps ask for");
  const int64_t room = p.node.i("state_update_capacity", 0);
  p.expect(room >= 0 && room <= kMostUpdates, "state_update_capacity is from 0 to 8");
  p.expect(p.has(5) == (room > 0), "capture_count belongs to a state_update_capacity");
  p.expect(!p.has(5) || (p.type(5) == DType::kInt32 && p.dims(5) == Dims{batch}),
           "capture_count is one int32 for each sequence");
  const bool silu = p.node.s("activation", "none") != "none", biased = p.has(3);
  p.out(0, p.type(0), dims);
  const bool gives = p.wants(1), updates = p.wants(2);
  if (gives) p.out(1, p.type(0), p.dims(4));
  if (updates) p.out(2, p.type(0), {batch, room, channels});
  const std::string label = p.node.label();
  // The weights, a row of channels for each tap, and likewise the states.
  p.scratch(static_cast<size_t>(count({taps + count({batch, before}), channels})) * sizeof(float));
  return [=](const Args& args) {
    const float *const x = args.in<float>(0), *const weights = args.in<float>(1),
                       *const states = args.in<float>(4);
    const int32_t* const ends = args.in<int32_t>(2);
    expect_ends(label, ends, batch, tokens);
    float *const turned = args.scratch<float>(), *const earlier = turned + taps * channels;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t k = 0; k < taps; ++k) turned[k * channels + c] = weights[c * taps + k];
    }
    // Row r of what sequence b is: the state, and then its tokens.
    const auto row_of = [=](int64_t b, int64_t r) {
      return r < before ? earlier + (b * before + r) * channels : x + (ends[b] + r - before) * channels;
    };
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t r = 0; r < before; ++r) {
          earlier[(b * before + r) * channels + c] = states[(b * channels + c) * before + r];
        }
      }
    }
    const float* const bias = biased ? args.in<float>(3) : nullptr;
    float* const y = args.out<float>(0);
    const int64_t grain = std::max<int64_t>(1, kGrain / (taps * channels + 1));
    parallel_for(tokens, grain, [&](int64_t at, int64_t end) {
      int64_t b = std::upper_bound(ends, ends + batch + 1, static_cast<int32_t>(at)) - ends - 1;
      for (; at < end; ++at) {
        while (at >= ends[b + 1]) ++b;
        float* const to = y + at * channels;
        for (int64_t c = 0; c < channels; ++c) to[c] = bias == nullptr ? 0 : bias[c];
        for (int64_t k = 0; k < taps; ++k) {
          const float *const from = row_of(b, at - ends[b] + k * dilation), *const tap =
                                                                                turned + k * channels;
          for (int64_t c = 0; c < channels; ++c) to[c] += from[c] * tap[c];
        }
        if (silu) {
          const void* const in[] = {to};
          const float factor[] = {1, 0};
          simd().ops[static_cast<size_t>(Op::kSwish)](in, to, channels, factor);
        }
      }
    });
    for (int64_t b = 0; gives && b < batch; ++b) {
      const int64_t length = ends[b + 1] - ends[b];
      float* const to = args.out<float>(1) + b * channels * before;
      for (int64_t r = 0; r < before; ++r) {
        const float* const from = row_of(b, length + r);
        for (int64_t c = 0; c < channels; ++c) to[c * before + r] = from[c];
      }
    }
    for (int64_t b = 0; updates && b < batch; ++b) {
      const int64_t wanted = room > 0 ? args.in<int32_t>(5)[b] : 0;
      const int64_t kept = std::clamp<int64_t>(wanted, 0, std::min<int64_t>(room, ends[b + 1] - ends[b]));
      float* const to = args.out<float>(2) + b * room * channels;
      std::copy(x + ends[b] * channels, x + (ends[b] + kept) * channels, to);
      std::fill(to + kept * channels, to + room * channels, 0.0F);
    }
  };
}

// ---- GatedDeltaNet: query, key, value, ends, decay, beta, state, a_log, bias, (how many updates to keep,
// whether to) -> output, state, (updates). Keys and values may lie behind the query, in one input.

enum Inputs { kQuery, kKey, kValue, kEnds, kDecay, kBeta, kState, kALog, kBias };
enum class Gate { kNone, kSoftplus, kSigmoid };

bool find_gate(const Node& node, Gate* gate) {
  const std::string name = node.s("gate_activation", "none");
  *gate = name == "none"                       ? Gate::kNone
          : name == "sigmoid" || name == "kda" ? Gate::kSigmoid
                                               : Gate::kSoftplus;
  return *gate != Gate::kSoftplus || name == "softplus" || name == "qwen";
}

struct Rule {
  bool fades, corrects;

  explicit Rule(const std::string& name)
      : fades(name == "gated" || name == "gated_delta"), corrects(name == "delta" || name == "gated_delta") {}
};

std::string supports_delta_net(const Node& node) {
  const std::string name = node.s("update_rule", "gated_delta"), rate = node.s("beta_activation", "none");
  Gate gate;
  if (!Rule(name).fades && !Rule(name).corrects && name != "linear") return "the update rule '" + name + "'";
  if (!find_gate(node, &gate)) return "the gate's activation '" + node.s("gate_activation", "") + "'";
  if (rate != "none" && rate != "sigmoid") return "the activation '" + rate + "' of beta";
  if (node.i("state_update_capacity", 0) != 0 || node.out(2) != nullptr) return "updates of the state";
  if (node.in(kQuery) == nullptr || (node.in(kKey) == nullptr) != (node.in(kValue) == nullptr)) {
    return "a query, key or value that is left out";
  }
  if (node.in(kKey) == nullptr && node.in(kState) == nullptr) return "a packed query without a state";
  for (size_t i : {kDecay, kBeta}) {
    const Value* const gates = node.in(i);
    if (gates != nullptr && gates->type != DType::kFloat && gates->type != DType::kUndefined &&
        gates->type != node.in(kQuery)->type) {
      return "'" + gates->name + "' has neither the query's type nor float32";
    }
  }
  return one_float_type(node, {kQuery, kKey, kValue});
}

// Where queries, keys and values lie, and how many there are.
struct Heads {
  bool packed;
  Dims leading;  // Tokens, or batches and tokens.
  int64_t tokens, batch, heads, value_heads, keys, values;
  int64_t query_row, key_row, value_row;  // Elements from one token to the next.

  explicit Heads(const Prepare& p) : packed(!p.has(kKey)) {
    const Dims query = p.dims(kQuery), state = p.has(kState) ? p.dims(kState) : Dims();
    p.expect(!p.has(kState) || state.size() == 4, "the state has four dimensions");
    if (packed) {
      p.expect(!state.empty() && (query.size() == 2 || query.size() == 3),
               "a packed query is of rank 2 or 3");
      leading = Dims(query.begin(), query.end() - 1);
      value_heads = state[1];
      values = state[2];
      keys = state[3];
      query_row = key_row = value_row = query.back();
      const int64_t rest = query.back() - count({value_heads, values});
      p.expect(keys > 0 && rest > 0 && rest / keys % 2 == 0 && rest % keys == 0,
               "a packed query that does not fit the state");
      heads = rest / keys / 2;
    } else {
      const Dims value = p.dims(kValue);
      p.expect(
          (query.size() == 3 || query.size() == 4) && p.dims(kKey) == query && value.size() == query.size(),
          "queries, keys and values that do not fit each other");
      leading = Dims(query.begin(), query.end() - 2);
      p.expect(Dims(value.begin(), value.end() - 2) == leading, "values are as many as queries");
      heads = query[query.size() - 2];
      keys = query.back();
      value_heads = value[value.size() - 2];
      values = value.back();
      query_row = key_row = count({heads, keys});
      value_row = count({value_heads, values});
    }
    p.expect(heads > 0 && keys > 0 && values > 0 && value_heads > 0 && value_heads % heads == 0,
             "heads that cannot share others");
    tokens = count(leading);
    if (p.has(kEnds)) {
      p.expect(leading.size() == 1 && p.type(kEnds) == DType::kInt32 && p.dims(kEnds).size() == 1 &&
                   p.dims(kEnds)[0] > 1,
               "the ends of sequences are int32 in a row, one more than sequences, and so are tokens");
      batch = p.dims(kEnds)[0] - 1;
    } else {
      p.expect(leading.size() == 2 || !state.empty(), "nothing says how many sequences there are");
      batch = leading.size() == 2 ? leading[0] : state[0];
      p.expect(batch > 0 && tokens % batch == 0, "sequences that are not of one length");
    }
    p.expect(state.empty() || state == state_dims(), "the state has another shape than the heads ask for");
  }
  Dims state_dims() const { return {batch, value_heads, values, keys}; }
  Dims gate_dims() const {
    Dims dims = leading;
    dims.push_back(value_heads);
    return dims;
  }
};

// to [n, m] = the transpose of from [m, n].
void transpose(const float* from, int64_t m, int64_t n, float* to) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) to[j * m + i] = from[i * n + j];
  }
}

void normalize(const float* x, int64_t n, float epsilon, float* to) {
  const float factor = 1 / std::sqrt(simd().sum_of_squares(x, n, 0) + epsilon);
  for (int64_t i = 0; i < n; ++i) to[i] = x[i] * factor;
}

Kernel delta_net(Prepare& p) {
  const Heads of(p);
  const Rule rule(p.node.s("update_rule", "gated_delta"));
  p.expect(p.has(kDecay) == rule.fades && p.has(kBeta) == rule.corrects,
           "gates that the rule does not ask for");
  Gate gate;
  find_gate(p.node, &gate);
  bool of_each_key = false, bias_of_each_key = false;
  if (rule.fades) {
    Dims dims = of.gate_dims();
    of_each_key = p.dims(kDecay) != dims;
    if (of_each_key) dims.push_back(of.keys);
    p.expect(p.dims(kDecay) == dims, "a decay is one number for each head, or for each element of its keys");
  }
  p.expect(!rule.corrects || p.dims(kBeta) == of.gate_dims(), "a beta is one number for each head");
  p.expect((gate != Gate::kNone) == p.has(kALog) && p.has(kALog) == p.has(kBias),
           "a_log and dt_bias belong to a gate's activation");
  if (gate != Gate::kNone) {
    const Dims bias = p.dims(kBias), heads = {of.value_heads};
    p.expect(p.dims(kALog) == heads, "a_log is one number for each head");
    bias_of_each_key = bias != heads;
    p.expect(!bias_of_each_key || (of_each_key && (bias == Dims{of.value_heads * of.keys} ||
                                                   bias == Dims({of.value_heads, of.keys}))),
             "dt_bias is one number for each head, or for each element of its keys");
  }
  const float bound = p.node.f("gate_lower_bound", -5), given = p.node.f("scale", 0);
  p.expect(bound < 0, "gate_lower_bound is below 0");
  const float scale = given != 0 ? given : 1 / std::sqrt(static_cast<float>(of.keys));
  const bool norms = p.node.i("qk_l2_norm", 0) != 0, past = p.has(kState), gives = p.wants(1);
  const bool sigmoid_rate = p.node.s("beta_activation", "none") == "sigmoid", ends_given = p.has(kEnds);
  const float epsilon = gate == Gate::kSigmoid ? 1e-6F : 1e-12F;  // As onnxruntime has it.
  Dims out = of.gate_dims();
  out.push_back(of.values);
  p.out(0, DType::kFloat, out);
  if (gives) p.out(1, DType::kFloat, of.state_dims());
  // For each thread a state, by keys, the factors of its rows, a query and a key.
  const int64_t size = count({of.keys, of.values}), row = (of.keys + 15) / 16 * 16;
  const int64_t room = (size + 15) / 16 * 16 + 3 * row;
  p.scratch(static_cast<size_t>(count({room, std::max(1, p.threads())})) * sizeof(float));
  const std::string label = p.node.label();
  return [=](const Args& args) {
    const int32_t* const ends = ends_given ? args.in<int32_t>(kEnds) : nullptr;
    if (ends_given) expect_ends(label, ends, of.batch, of.tokens);
    const float* const query = args.in<float>(kQuery);
    const float* const key = of.packed ? query + of.heads * of.keys : args.in<float>(kKey);
    const float* const value = of.packed ? query + 2 * of.heads * of.keys : args.in<float>(kValue);
    const int64_t grain = std::max<int64_t>(1, kGrain / ((of.tokens / of.batch + 1) * size + 1));
    parallel_for(of.batch * of.value_heads, grain, [&](int64_t i, int64_t end) {
      float* const state = args.scratch<float>() + thread_rank() * room;
      float* const factors = state + room - 3 * row;
      float *const q = factors + row, *const k = q + row;
      for (; i < end; ++i) {
        const int64_t b = i / of.value_heads, h = i % of.value_heads, shared = h * of.heads / of.value_heads;
        const int64_t length = of.tokens / of.batch;
        const int64_t first = ends_given ? ends[b] : b * length,
                      last = ends_given ? ends[b + 1] : first + length;
        if (past) {
          transpose(args.in<float>(kState) + i * size, of.values, of.keys, state);
        } else {
          std::fill(state, state + size, 0.0F);
        }
        RecurrentStep step{};
        step.state = state;
        step.keys = of.keys;
        step.values = of.values;
        step.queries = 1;
        step.corrects = rule.corrects;
        step.scale = scale;
        for (int64_t t = first; t < last; ++t) {
          const int64_t at = t * of.value_heads + h, width = of_each_key ? of.keys : 1;
          if (rule.fades) {
            const float* const decay = args.in<float>(kDecay) + at * width;
            const float rate = gate != Gate::kNone ? std::exp(args.in<float>(kALog)[h]) : 0;
            for (int64_t j = 0; j < width; ++j) {
              float x = decay[j];
              if (gate != Gate::kNone) {
                x += args.in<float>(kBias)[bias_of_each_key ? h * of.keys + j : h];
                x = gate == Gate::kSoftplus ? -rate * softplus(x) : bound * sigmoid(rate * x);
              }
              factors[j] = std::exp(x);
            }
            step.fade = factors;
            step.fade_step = of_each_key ? 1 : 0;
          }
          if (rule.corrects) {
            const float rate = args.in<float>(kBeta)[at];
            step.rate = sigmoid_rate ? sigmoid(rate) : rate;
          }
          step.query = query + t * of.query_row + shared * of.keys;
          step.key = key + t * of.key_row + shared * of.keys;
          step.value = value + t * of.value_row + h * of.values;
          if (norms) {
            normalize(step.query, of.keys, epsilon, q);
            normalize(step.key, of.keys, epsilon, k);
            step.query = q;
            step.key = k;
          }
          step.out = args.out<float>(0) + at * of.values;
          simd().recurrent_step(step);
        }
        if (gives) transpose(state, of.keys, of.values, args.out<float>(1) + i * size);
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr Types kTypes = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt32};
  registry->add({.domain = "com.microsoft",
                 .type = "VarlenCausalConvWithState",
                 .supports = supports_packed_conv,
                 .prepare = with_halves(packed_conv),
                 .types = kTypes});
  registry->add({.domain = "com.microsoft",
                 .type = "GatedDeltaNet",
                 .supports = supports_delta_net,
                 .prepare = with_halves(delta_net, {1}),
                 .types = kTypes});
});

}  // namespace ephost::cpu
