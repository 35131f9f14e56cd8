// com.microsoft's DecoderMaskedMultiHeadAttention: attention of one new query for each batch, which its tools
// for generating text put into decoders.
//
// query (all three where the next two are left out), key, value, key padding mask, attention_bias, past_key,
// past_value, how much of the past is there, width and indices of beams, bias. Keys and values of four
// dimensions are those of an encoder, which have no past.
#include <cmath>

#include "cpu/engines/as_float.h"
#include "cpu/engines/attention_cache.h"
#include "cpu/engines/attention_core.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

bool has_input(const Node& node, size_t i) { return node.in(i) != nullptr; }

std::string supports_decoder_masked(const Node& node) {
  if (node.i("num_heads", 0) <= 0) return "the number of heads is not given";
  if (has_input(node, 8) || has_input(node, 9)) return "a cache of beams";
  if (node.out(3) != nullptr) return "its products are an output";
  const Value *query = node.in(0), *key = node.in(1), *mask = node.in(3), *past = node.in(7);
  if (query == nullptr) return "it has no query";
  if (key != nullptr && !key->has_shape) return "keys whose rank is not known";
  if (mask != nullptr && mask->type != DType::kUndefined && mask->type != DType::kInt32) {
    return "a padding mask that is not int32";
  }
  if (past != nullptr && past->type != DType::kUndefined && past->type != DType::kInt32) {
    return "a length of the past that is not int32";
  }
  return one_float_type(node, {0, 1, 2, 4, 5, 6, 10});
}

Kernel decoder_masked(Prepare& p) {
  const int64_t heads = p.node.i("num_heads", 0);
  const bool packed = !p.has(1);
  const bool encoder = !packed && p.dims(1).size() == 4;
  p.expect(packed || p.has(2), "there are no values");
  p.expect(p.dims(0).size() == 3 && p.dims(0)[1] == 1, "one query for each batch is what it computes");
  const int64_t batch = p.dims(0)[0], parts = packed ? 3 : 1;
  p.expect(p.dims(0)[2] % (parts * heads) == 0, "queries that the heads cannot share");
  const int64_t d = p.dims(0)[2] / (parts * heads), channels = heads * d;

  AttentionCore core;
  Pieces pieces;
  HeadsView keys, values;
  core.q = keys = values = heads_view({batch, 1, channels}, heads);
  if (packed) {
    for (HeadsView* view : {&core.q, &keys, &values}) view->strides[0] = parts * channels;
  } else {
    for (int i : {1, 2}) {
      const Dims& dims = p.dims(i);
      p.expect(encoder ? dims.size() == 4 && dims[1] == heads
                       : dims.size() == 3 && dims[1] == 1 && dims[2] % heads == 0,
               "keys or values that do not fit the query");
    }
    keys = heads_view(p.dims(1), heads);
    values = heads_view(p.dims(2), heads);
  }
  // In a shared buffer the past lies where the new row is put behind it; else the result is longer by one.
  const bool has_past = !encoder && p.has(5);
  const bool shared = has_past && p.node.i("past_present_share_buffer", 0) != 0;
  p.expect(!shared || p.has(7), "a shared buffer without the length of the past");
  Cache caches[2];
  int64_t memories[2] = {-1, -1};
  for (int i : {0, 1}) {
    Cache& cache = caches[i];
    cache.now = i == 0 ? keys : values;
    if (has_past) {
      const Dims dims = p.has(5 + i) ? p.dims(5 + i) : Dims{};
      p.expect(dims.size() == 4 && dims[0] == batch && dims[1] == heads && dims[3] == cache.now.sizes[3],
               "past keys or values that do not fit the new ones");
      cache.past = dims[2];
    }
    cache.length = shared ? cache.past : cache.past + cache.now.sizes[2];
    if (p.wants(i + 1)) {
      p.out(i + 1, p.type(0), cache.dims());
    } else if (!encoder) {
      memories[i] = pieces.take(cache.count());
    }
  }
  core.k = encoder ? keys : caches[0].view();
  core.v = encoder ? values : caches[1].view();
  const int64_t columns = core.k.sizes[2], width = core.v.sizes[3];
  p.out(0, p.type(0), {batch, 1, heads * width});
  core.out = heads_view({batch, 1, heads * width}, heads);
  const float scale = p.node.f("scale", 0);
  core.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(d));
  if (!encoder) core.after = 0;

  const bool biased = p.has(10);
  p.expect(!biased || p.in(10).count() == 2 * channels + heads * width,
           "a bias that does not fit the channels");
  const int64_t sizes[3] = {channels, encoder ? 0 : channels, encoder ? 0 : heads * width};
  int64_t sums[3];
  for (size_t i = 0; i < 3; ++i) {
    sums[i] = biased && sizes[i] != 0 ? pieces.take(batch * sizes[i]) : -1;
  }
  if (biased) {
    core.q = heads_view({batch, 1, channels}, heads);
    if (!encoder) caches[0].now = core.q;
    if (!encoder) caches[1].now = core.out;
  }
  const bool added = p.has(4), padded = p.has(3);
  if (added) set_mask(p, 4, {batch, heads, 1, columns}, false, &core);
  const AttentionCore bias = core;
  p.expect(!padded || p.dims(3).size() == 2, "a padding mask that does not fit the keys");
  const int64_t seen = padded ? p.dims(3)[1] : 0;
  int64_t joined = -1;
  if (padded) {
    p.expect(p.dims(3)[0] == batch && seen <= columns && (!added || core.mask_columns >= seen),
             "a padding mask that does not fit the keys");
    core.mask = AttentionCore::kFloatMask;
    core.mask_columns = seen;
    const int64_t rows = added ? heads : 1;
    const int64_t strides[4] = {rows * seen, added ? seen : 0, 0, 1};
    std::copy(strides, strides + 4, core.mask_strides);
    joined = pieces.take(batch * rows * seen);
  }
  const int64_t offsets = pieces.take(2 * batch), memory = pieces.take(core.plan(p));
  p.scratch(static_cast<size_t>(pieces.size) * sizeof(float));
  const float filter = p.node.f("mask_filter_value", -10000.0f);
  const std::string label = p.node.label();
  return [=, keys = caches[0], values = caches[1], k_memory = memories[0], v_memory = memories[1],
          sizes = std::vector<int64_t>(sizes, sizes + 3),
          sums = std::vector<int64_t>(sums, sums + 3)](const Args& args) {
    float* scratch = args.scratch<float>();
    const float* inputs[3] = {args.in<float>(0), args.in<float>(packed ? 0 : 1),
                              args.in<float>(packed ? 0 : 2)};
    for (size_t i = 1; i < 3 && packed; ++i) inputs[i] += static_cast<int64_t>(i) * channels;
    for (size_t i = 0, at = 0; i < 3; at += static_cast<size_t>(sizes[i]), ++i) {
      if (sums[i] < 0) continue;
      float* to = scratch + sums[i];
      for (int64_t b = 0; b < batch; ++b) {
        const float* from = inputs[i] + b * (packed ? parts * channels : sizes[i]);
        for (int64_t c = 0; c < sizes[i]; ++c)
          to[b * sizes[i] + c] = from[c] + args.in<float>(10)[at + static_cast<size_t>(c)];
      }
      inputs[i] = to;
    }
    AttentionOperands o;
    o.q = inputs[0];
    o.k = inputs[1];
    o.v = inputs[2];
    o.out = args.out<float>(0);
    if (!encoder) {
      const int64_t start = shared ? args.in<int32_t>(7)[0] : keys.past;
      if (start < 0 || start >= columns) {
        invalid(label + ": the past has " + std::to_string(start) + " places of " + std::to_string(columns) +
                ", and one more is needed");
      }
      int64_t* starts = reinterpret_cast<int64_t*>(scratch + offsets);
      std::fill(starts, starts + batch, start);
      const auto fill = [&](const Cache& cache, int past, const float* from, float* to) {
        cache.fill(has_past ? args.in<float>(past) : nullptr, from, starts, to,
                   [&](const float* row, float* at, int64_t, int64_t) {
                     std::copy(row, row + cache.now.sizes[3], at);
                   });
        return to;
      };
      o.k = fill(keys, 5, inputs[1], k_memory < 0 ? args.out<float>(1) : scratch + k_memory);
      o.v = fill(values, 6, inputs[2], v_memory < 0 ? args.out<float>(2) : scratch + v_memory);
      o.offsets = starts;
    }
    if (added) o.mask = args.in(4);
    if (padded) {
      float* sum = scratch + joined;
      for (int64_t i = 0; i < batch * (added ? heads : 1); ++i) {
        const int64_t b = added ? i / heads : i, h = added ? i % heads : 0;
        const int32_t* keep = args.in<int32_t>(3) + b * seen;
        for (int64_t c = 0; c < seen; ++c) {
          const float base =
              added ? args.in<float>(
                          4)[b * bias.mask_strides[0] + h * bias.mask_strides[1] + c * bias.mask_strides[3]]
                    : 0;
          sum[i * seen + c] = base + (keep[c] != 0 ? 0 : filter);
        }
      }
      o.mask = sum;
    }
    core.run(o, scratch + memory);
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "DecoderMaskedMultiHeadAttention",
                 .supports = supports_decoder_masked,
                 .prepare = with_halves(decoder_masked),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt32}});
});

}  // namespace ephost::cpu
