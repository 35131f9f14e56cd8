// The operators of transformers: ONNX's Attention, and com.microsoft's MultiHeadAttention, which its
// exporters and optimizers emit.
#include <cmath>
#include <cstring>

#include "cpu/engines/as_float.h"
#include "cpu/engines/attention_cache.h"
#include "cpu/engines/attention_core.h"
#include "cpu/engines/rotary.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

constexpr Types kCommon = {DType::kFloat, DType::kFloat16, DType::kBFloat16,
                           DType::kBool,  DType::kInt32,   DType::kInt64};

bool has_input(const Node& node, size_t i) { return node.in(i) != nullptr; }

// ---- ONNX's Attention
//
// The softmax is computed in float32 whatever precision the node asks for: the scores that go into it are
// float32, and so are the weights that come out.

std::string supports_attention(const Node& node) {
  const Value* mask = node.in(3);
  if (mask != nullptr && mask->type != DType::kUndefined && mask->type != DType::kBool) {
    return one_float_type(node, {0, 1, 2, 3, 4, 5});
  }
  return one_float_type(node, {0, 1, 2, 4, 5});
}

Kernel attention(Prepare& p) {
  const size_t rank = p.dims(0).size();
  p.expect(rank == 3 || rank == 4, "queries have three or four dimensions");
  p.expect(p.dims(1).size() == rank && p.dims(2).size() == rank, "keys or values of another rank");
  const int64_t heads = rank == 4 ? p.dims(0)[1] : p.node.i("q_num_heads", 0);
  const int64_t kv_heads = rank == 4 ? p.dims(1)[1] : p.node.i("kv_num_heads", 0);
  p.expect(rank == 4 || (heads > 0 && kv_heads > 0), "the numbers of heads are not given");
  for (const auto& [name, found] : {std::pair{"q_num_heads", heads}, {"kv_num_heads", kv_heads}}) {
    const int64_t given = p.node.i(name, 0);
    if (given != 0 && given != found) {
      p.invalid(std::string(name) + " is " + std::to_string(given) + " for " + std::to_string(found) +
                " heads");
    }
  }
  for (int i = 0; i < 3 && rank == 3; ++i) {
    p.expect(p.dims(i)[2] % (i == 0 ? heads : kv_heads) == 0, "channels that the heads cannot share");
  }
  AttentionCore core;
  Pieces pieces;
  core.q = heads_view(p.dims(0), heads);
  const Source keys = Source::of(p, 1, 4, 1, heads_view(p.dims(1), kv_heads), &pieces);
  const Source values = Source::of(p, 2, 5, 2, heads_view(p.dims(2), kv_heads), &pieces);
  p.expect((keys.past >= 0) == (values.past >= 0), "past keys without values, or values without keys");
  core.k = keys.view();
  core.v = values.view();
  const int64_t batch = core.q.sizes[0], rows = core.q.sizes[2], columns = core.k.sizes[2];
  const int64_t depth = core.q.sizes[3], width = core.v.sizes[3];
  const Dims out = rank == 4 ? Dims{batch, heads, rows, width} : Dims{batch, rows, heads * width};
  p.out(0, p.type(0), out);
  core.out = heads_view(out, heads);
  const float scale = p.node.f("scale", 0);
  core.scale = p.node.has("scale") ? scale : 1 / std::sqrt(static_cast<float>(depth));
  core.softcap = p.node.f("softcap", 0);
  constexpr int64_t kFar = int64_t{1} << 40;
  core.before = std::min(p.node.i("left_window_size", -1), kFar);
  core.after = std::min(p.node.i("right_window_size", -1), kFar);
  if (p.node.i("is_causal", 0) == 1) core.after = 0;
  core.offset = keys.cache.past;
  core.clear_empty = true;
  if (p.has(3)) set_mask(p, 3, {batch, heads, rows, columns}, true, &core);
  const bool known = p.has(6);
  if (known) {
    p.expect(p.type(6) == DType::kInt64 && p.in(6).count() == batch, "lengths are one int64 for each batch");
    p.expect(keys.past < 0, "lengths together with past keys");
  }
  const bool scores = p.wants(3);
  if (scores) {
    p.out(3, p.type(0), {batch, heads, rows, columns});
    constexpr AttentionCore::Scores kModes[] = {AttentionCore::kProducts, AttentionCore::kCapped,
                                                AttentionCore::kMasked, AttentionCore::kWeights};
    const int64_t mode = p.node.i("qk_matmul_output_mode", 0);
    p.expect(mode >= 0 && mode < 4, "a qk_matmul_output_mode that is not known");
    core.scores = kModes[mode];
  }
  const int64_t offsets = pieces.take(known ? 2 * batch : 0), memory = pieces.take(core.plan(p));
  p.scratch(static_cast<size_t>(pieces.size) * sizeof(float));
  return [=](const Args& args) {
    float* scratch = args.scratch<float>();
    AttentionOperands o;
    o.q = args.in<float>(0);
    o.k = keys.fill(args, scratch);
    o.v = values.fill(args, scratch);
    o.out = args.out<float>(0);
    if (core.mask != AttentionCore::kNoMask) o.mask = args.in(3);
    if (known) {
      o.ends = args.in<int64_t>(6);
      int64_t* places = reinterpret_cast<int64_t*>(scratch + offsets);
      for (int64_t b = 0; b < batch; ++b) places[b] = std::clamp<int64_t>(o.ends[b], 0, columns) - rows;
      o.offsets = places;
    }
    if (scores) o.scores = args.out<float>(3);
    core.run(o, scratch + memory);
  };
}

// ---- com.microsoft's MultiHeadAttention
//
// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value. Keys and values may be one
// tensor with the queries, [batch, sequence, heads, 3, channels], or with each other, or come ready as
// [batch, heads, sequence, channels].

std::string supports_multi_head(const Node& node) {
  if (node.i("num_heads", 0) <= 0) return "the number of heads is not given";
  if (has_input(node, 8) || has_input(node, 9)) return "a cache of beams, or one that is shared";
  for (size_t i : {0, 1, 2}) {
    if (node.in(i) != nullptr && !node.in(i)->has_shape) return "ranks of its inputs that are not known";
  }
  const Value *query = node.in(0), *key = node.in(1), *mask = node.in(4);
  if (query == nullptr) return "it has no query";
  if (has_input(node, 3) && (query->dims.size() != 3 || (key != nullptr && key->dims.size() == 5))) {
    return "a bias for inputs that are packed";
  }
  if (mask != nullptr && mask->type != DType::kUndefined && mask->type != DType::kInt32) {
    return "a padding mask that is not int32";
  }
  if (mask != nullptr && (!mask->has_shape || mask->dims.size() < 1 || mask->dims.size() > 3)) {
    return "a padding mask whose rank is not known";
  }
  if (mask != nullptr && mask->dims.size() == 1 && query->dims[0] >= 0 && mask->dims[0] >= 0 &&
      query->dims[0] != mask->dims[0]) {
    return "sums of lengths for a padding mask";
  }
  return one_float_type(node, {0, 1, 2, 3, 5, 6, 7});
}

// x plus the part of a bias from `at` on, dense as [batch, sequence, channels].
void add_bias(const float* x, const float* bias, int64_t rows, int64_t channels, float* to) {
  parallel_for(rows, std::max<int64_t>(1, kGrain / (channels + 1)), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      for (int64_t c = 0; c < channels; ++c) to[i * channels + c] = x[i * channels + c] + bias[c];
    }
  });
}

// One of several tensors that lie in one, [batch, sequence, heads, parts, channels].
HeadsView packed_view(const Dims& dims) {
  return heads_view({dims[0], dims[1], dims[2], dims[3] * dims[4]}, std::vector<int64_t>{0, 2, 1, 3});
}

Kernel multi_head(Prepare& p) {
  const int64_t heads = p.node.i("num_heads", 0);
  const size_t rank = p.dims(0).size();
  AttentionCore core;
  Pieces pieces;
  Source keys, values;
  int64_t key_at = 0, value_at = 0;  // In the tensor that holds several.
  // What contrib.cc makes: the channels of queries, keys and values beside each other.
  const std::vector<int64_t> beside = p.node.ints("packed");
  if (!beside.empty()) {
    const Dims dims = p.dims(0);
    p.expect(rank == 3 && dims[2] == beside[0] + beside[1] + beside[2],
             "inputs that are not three beside each other");
    const auto part = [&](int64_t size) {
      HeadsView view = heads_view({dims[0], dims[1], size}, heads);
      view.strides[0] = dims[1] * dims[2];
      view.strides[2] = dims[2];
      return view;
    };
    core.q = part(beside[0]);
    key_at = beside[0];
    value_at = beside[0] + beside[1];
    keys = Source::of(p, 0, 6, 1, part(beside[1]), &pieces);
    values = Source::of(p, 0, 7, 2, part(beside[2]), &pieces);
  } else if (rank == 5) {
    p.expect(p.dims(0)[2] == heads && p.dims(0)[3] == 3, "packed inputs that are not three for each head");
    core.q = packed_view(p.dims(0));
    core.q.sizes[3] = p.dims(0)[4];
    key_at = core.q.sizes[3];
    value_at = 2 * key_at;
    keys = Source::of(p, 0, 6, 1, core.q, &pieces);
    values = Source::of(p, 0, 7, 2, core.q, &pieces);
  } else {
    p.expect(rank == 3 && p.dims(0)[2] % heads == 0, "queries that the heads cannot share");
    core.q = heads_view(p.dims(0), heads);
    p.expect(p.has(1), "there are no keys");
    if (p.dims(1).size() == 5) {
      p.expect(p.dims(1)[2] == heads && p.dims(1)[3] == 2, "packed keys that are not two for each head");
      HeadsView both = packed_view(p.dims(1));
      value_at = both.sizes[3] = p.dims(1)[4];
      keys = Source::of(p, 1, 6, 1, both, &pieces);
      values = Source::of(p, 1, 7, 2, both, &pieces);
    } else {
      p.expect(p.has(2), "there are no values");
      for (int i : {1, 2}) {
        p.expect(p.dims(i).size() == 4 ? p.dims(i)[1] == heads
                                       : p.dims(i).size() == 3 && p.dims(i)[2] % heads == 0,
                 "keys or values that the heads cannot share");
      }
      keys = Source::of(p, 1, 6, 1, heads_view(p.dims(1), heads), &pieces);
      values = Source::of(p, 2, 7, 2, heads_view(p.dims(2), heads), &pieces);
    }
  }
  core.k = keys.view();
  core.v = values.view();
  const int64_t batch = core.q.sizes[0], rows = core.q.sizes[2], columns = core.k.sizes[2];
  const int64_t depth = core.q.sizes[3], width = core.v.sizes[3];
  const Dims out = {batch, rows, heads * width};
  p.out(0, p.type(0), out);
  core.out = heads_view(out, heads);
  const float scale = p.node.f("scale", 0);
  core.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(depth));
  core.offset = keys.cache.past;
  if (p.node.i("unidirectional", 0) == 1) core.after = 0;

  // The bias of each input that is not ready: keys and values of four dimensions have it.
  const bool biased = p.has(3);
  int64_t places[3] = {-1, -1, -1}, sizes[3] = {0, 0, 0};
  if (biased) {
    sizes[0] = heads * depth;
    sizes[1] = p.dims(1).size() == 3 ? heads * depth : 0;
    sizes[2] = p.dims(2).size() == 3 ? heads * width : 0;
    p.expect(p.in(3).count() == 2 * heads * depth + heads * width, "a bias that does not fit the channels");
    for (int i = 0; i < 3; ++i) places[i] = sizes[i] != 0 ? pieces.take(p.in(i).count()) : -1;
  }
  // The padding mask and the bias of the scores, together.
  // Of com.microsoft.Attention a mask of one column stands for none.
  const bool none = p.has(4) && !beside.empty() && columns != 1 && p.dims(4).size() == 2 &&
                    p.dims(4)[1] == 1 && (p.dims(4)[0] == 1 || p.dims(4)[0] == batch);
  const bool padded = p.has(4) && !none, masked = p.has(5);
  const int64_t all[4] = {batch, heads, rows, columns};
  const float filter = p.node.f("mask_filter_value", -10000.0f);
  AttentionCore bias = core;
  if (masked) {
    set_mask(p, 5, all, false, &core);
    bias = core;
    p.expect(core.mask == AttentionCore::kFloatMask && core.mask_columns == columns,
             "an attention bias that does not fit the scores");
  }
  const bool lengths = padded && p.dims(4).size() == 1;
  // Behind all lengths may come where each batch's keys begin.
  const bool begins = lengths && !beside.empty() && p.dims(4)[0] == 2 * batch;
  int64_t padding[4] = {0, 0, 0, 0}, together[4] = {batch, 1, 1, columns}, joined = -1;
  if (padded) {
    const Dims& dims = p.dims(4);
    const bool three = dims.size() == 3;
    p.expect(lengths ? dims[0] == batch || begins
                     : dims[0] == batch && dims.back() == columns && (!three || dims[1] == rows),
             "a padding mask that does not fit the keys");
    padding[0] = lengths ? 1 : three ? rows * columns : columns;
    padding[2] = three ? columns : 0;
    padding[3] = lengths ? 0 : 1;
    if (three) together[2] = rows;
    for (int d = 1; d < 3 && masked; ++d) {
      if (core.mask_strides[d] != 0) together[d] = all[d];
    }
    joined = pieces.take(together[0] * together[1] * together[2] * columns);
    core.mask = AttentionCore::kFloatMask;
    core.mask_columns = columns;
    int64_t step = 1;
    for (int d = 3; d >= 0; --d) {
      core.mask_strides[d] = together[d] == 1 && all[d] != 1 ? 0 : step;
      step *= together[d];
    }
  }
  // The products as they go into the softmax, as onnxruntime gives them.
  const bool scores = p.wants(3);
  if (scores) {
    p.out(3, p.type(0), {batch, heads, rows, columns});
    core.scores = AttentionCore::kMasked;
  }
  const int64_t memory = pieces.take(core.plan(p));
  p.scratch(static_cast<size_t>(pieces.size) * sizeof(float));
  const auto rows_of = [](const HeadsView& view) { return view.sizes[0] * view.sizes[2]; };
  const int64_t biased_rows[3] = {batch * rows, rows_of(keys.cache.now), rows_of(values.cache.now)};
  return [=, together = std::vector<int64_t>(together, together + 4),
          padding = std::vector<int64_t>(padding, padding + 4),
          biased_rows = std::vector<int64_t>(biased_rows, biased_rows + 3),
          sizes = std::vector<int64_t>(sizes, sizes + 3),
          places = std::vector<int64_t>(places, places + 3)](const Args& args) {
    float* scratch = args.scratch<float>();
    // The inputs, with their biases.
    const float* inputs[3];
    int64_t at = 0;
    for (int i = 0; i < 3; ++i) {
      const size_t k = static_cast<size_t>(i);
      inputs[i] = i < 1 || keys.input != 0 ? args.in<float>(i < 1    ? 0
                                                            : i == 1 ? keys.input
                                                                     : values.input)
                                           : args.in<float>(0);
      if (biased && sizes[k] != 0) {
        add_bias(inputs[i], args.in<float>(3) + at, biased_rows[k], sizes[k], scratch + places[k]);
        inputs[i] = scratch + places[k];
      }
      at += i < 2 ? heads * depth : 0;
    }
    const auto fill = [&](const Source& source, const float* from) {
      if (source.output < 0 && source.past < 0) return from;
      float* to = source.output >= 0 ? args.out<float>(source.output) : scratch + source.scratch;
      source.cache.fill(source.past >= 0 ? args.in<float>(source.past) : nullptr, from, to);
      return source.past >= 0 ? static_cast<const float*>(to) : from;
    };
    AttentionOperands o;
    o.q = inputs[0];
    o.k = fill(keys, inputs[1] + key_at);
    o.v = fill(values, inputs[2] + value_at);
    o.out = args.out<float>(0);
    if (masked) o.mask = args.in(5);
    if (padded) {
      float* sum = scratch + joined;
      const int32_t* keep = args.in<int32_t>(4);
      const float* added = masked ? args.in<float>(5) : nullptr;
      for (int64_t i = 0; i < together[0] * together[1] * together[2]; ++i) {
        const int64_t r = i % together[2], h = i / together[2] % together[1],
                      b = i / together[2] / together[1];
        const int32_t* row = keep + b * padding[0] + r * padding[2];
        const float* base = added == nullptr ? nullptr
                                             : added + b * bias.mask_strides[0] + h * bias.mask_strides[1] +
                                                   r * bias.mask_strides[2];
        for (int64_t c = 0; c < columns; ++c) {
          const bool open = lengths ? c < *row && (!begins || c >= row[batch]) : row[c * padding[3]] != 0;
          sum[i * columns + c] = (open ? 0 : filter) + (base == nullptr ? 0 : base[c * bias.mask_strides[3]]);
        }
      }
      o.mask = sum;
    }
    if (scores) o.scores = args.out<float>(3);
    core.run(o, scratch + memory);
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr const char* kMs = "com.microsoft";
  const auto add = [&](const char* domain, const char* type, auto supports, auto prepare) {
    registry->add({.domain = domain,
                   .type = type,
                   .supports = supports,
                   .prepare = with_halves(prepare),
                   .types = kCommon});
  };
  add("", "Attention", supports_attention, attention);
  add(kMs, "MultiHeadAttention", supports_multi_head, multi_head);
  add("ephost", "MultiHeadAttention", nullptr, multi_head);
});

}  // namespace ephost::cpu
