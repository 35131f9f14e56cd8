// com.microsoft's GroupQueryAttention, which exporters of language models emit.
//
// query (all three where the next two are left out), key, value, past_key, past_value, the last key's index
// for each batch, the greatest length, cosines, sines, positions, attention_bias, the sink of each head, the
// scales of coded keys and values, (14 and 15: norms,) how many of each batch's queries are none of padding.
//
// Where caches hold floats of all that was, attention reads them where they lie. Others are brought into
// memory of the run first: codes as the numbers that they stand for, and of a window what it still has with
// all that is new behind it.

#include <cmath>
#include <cstring>

#include "cpu/engines/as_float.h"
#include "cpu/engines/attention_cache.h"
#include "cpu/engines/attention_core.h"
#include "cpu/engines/rotary.h"
#include "cpu/engines/staged_cache.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

constexpr int kPast[] = {3, 4}, kScales[] = {12, 13}, kMask = 10;

bool has_input(const Node& node, size_t i) { return node.in(i) != nullptr; }

bool is_coded(const Node& node) {
  return has_input(node, 12) || has_input(node, 13) || node.s("k_quant_type", "NONE") != "NONE" ||
         node.s("v_quant_type", "NONE") != "NONE";
}

DType code_type(int64_t bits) { return bits == 8 ? DType::kInt8 : DType::kUint8; }

std::string supports_group_query(const Node& node) {
  if (node.i("num_heads", 0) <= 0 || node.i("kv_num_heads", 0) <= 0)
    return "the numbers of heads are not given";
  const int64_t shown = node.i("qk_output", 0);
  if (node.out(3) != nullptr && shown != 1 && shown != 2) return "a qk_output that is not known";
  if (has_input(node, 14) || has_input(node, 15)) return "norms of queries and keys";
  const bool coded = is_coded(node), windowed = node.i("sliding_window_cache", 0) != 0;
  if (coded) {
    for (const char* type : {"k_quant_type", "v_quant_type"}) {
      const std::string how = node.s(type, "NONE");
      if (how != "PER_TENSOR" && how != "PER_CHANNEL") return "a cache of which one half alone is in codes";
    }
    const int64_t bits = node.i("kv_cache_bit_width", 0);
    if (bits != 4 && bits != 8) return "a cache of other than 4 or 8 bits";
    if (!has_input(node, 12) || !has_input(node, 13)) return "a cache without scales";
    const DType codes = node.in(3) == nullptr ? DType::kUndefined : node.in(3)->type;
    if (codes != DType::kUndefined && codes != code_type(bits)) return "a cache in codes of another type";
  }
  if ((coded || windowed) && (!has_input(node, 3) || !has_input(node, 4))) {
    return "a cache in codes, or of a window, that does not come in";
  }
  if (windowed && node.i("local_window_size", -1) <= 0) return "a cache of a window that is not known";
  if (windowed && node.out(3) != nullptr) return "scores of a cache of a window";
  const int64_t causal = node.i("causal", 1);
  if (causal != 0 && causal != 1) return "causal is neither 0 nor 1";
  if (causal == 0 && (node.i("local_window_size", -1) != -1 || has_input(node, 16))) {
    return "a window, or tokens that are padding, without causality";
  }
  if (!has_input(node, 5) || !has_input(node, 6)) return "lengths that are left out";
  if (node.i("do_rotary", 0) == 1 && (!has_input(node, 7) || !has_input(node, 8))) {
    return "a rotation without its cosines and sines";
  }
  return coded ? one_float_type(node, {0, 1, 2, 7, 8, 10, 11})
               : one_float_type(node, {0, 1, 2, 3, 4, 7, 8, 10, 11});
}

Kernel group_query(Prepare& p) {
  const int64_t heads = p.node.i("num_heads", 0), kv_heads = p.node.i("kv_num_heads", 0);
  const bool packed = !p.has(1);
  p.expect(p.dims(0).size() == 3, "queries have three dimensions");
  p.expect(p.type(5) == DType::kInt32, "lengths that are not int32");
  const int64_t batch = p.dims(0)[0], rows = p.dims(0)[1], total = p.integer(6);
  const int64_t parts = packed ? heads + 2 * kv_heads : heads;
  p.expect(p.dims(0)[2] % parts == 0, "queries that the heads cannot share");
  const int64_t d = p.dims(0)[2] / parts;
  p.expect(packed || (p.has(2) && p.dims(1) == Dims{batch, rows, kv_heads * d} && p.dims(2) == p.dims(1)),
           "keys or values that do not fit the queries");
  p.expect(p.in(5).count() == batch, "lengths are one for each batch");
  const bool padded = p.has(16);
  p.expect(!padded || (p.type(16) == DType::kInt32 && p.dims(16) == Dims{batch}),
           "numbers of queries are one int32 for each batch");

  AttentionCore core;
  Pieces pieces;
  core.q = heads_view({batch, rows, heads * d}, heads);
  HeadsView now = heads_view({batch, rows, kv_heads * d}, kv_heads);
  for (HeadsView* view : {&core.q, &now}) {
    if (packed) {
      view->strides[0] = rows * parts * d;
      view->strides[2] = parts * d;
    }
  }
  const bool coded = is_coded(p.node), windowed = p.node.i("sliding_window_cache", 0) != 0;
  const bool staged = coded || windowed, has_past = p.has(3);
  CacheCodes codes[2];
  for (int i = 0; i < 2 && coded; ++i) {
    codes[i] = {p.node.i("kv_cache_bit_width", 0),
                p.node.s(i == 0 ? "k_quant_type" : "v_quant_type", "") == "PER_CHANNEL"};
    p.expect(p.type(kPast[i]) == code_type(codes[i].bits), "a cache in codes of another type");
    p.expect(d * codes[i].bits % 8 == 0, "channels that codes do not fill bytes with");
    p.expect(p.type(kScales[i]) == DType::kFloat && p.in(kScales[i]).count() == codes[i].scales(kv_heads, d),
             "scales that do not fit keys or values");
  }
  Cache cache;
  cache.now = now;
  if (has_past) {
    p.expect(p.has(4) && p.dims(3).size() == 4 && p.dims(3) == p.dims(4) && p.dims(3)[0] == batch &&
                 p.dims(3)[1] == kv_heads && p.dims(3)[3] * 8 == d * (coded ? codes[0].bits : 8),
             "past keys or values that do not fit the new ones");
    cache.past = p.dims(3)[2];
  }
  const int64_t window = p.node.i("local_window_size", -1);
  p.expect(window != 0, "local_window_size is 0, a window of no tokens");
  p.expect(!windowed || window <= cache.past, "a cache that is smaller than its window");
  cache.length = windowed ? cache.past : std::max(cache.past, total);
  p.expect(windowed || cache.length >= rows, "a greatest length that is less than what is there now");
  p.expect(!padded || has_past, "numbers of queries want past keys and values");
  // One query looks at nothing that goes in its run: it reads the cache that goes out.
  const bool single = staged && rows == 1 && AttentionCore::can_load(rows, d);
  StagedCache stage{now, {}, cache.past, cache.length, cache.length + (windowed && !single ? rows : 0)};
  int64_t memories[2];
  for (int i : {0, 1}) {
    if (p.wants(i + 1)) {
      Dims dims = cache.dims();
      dims[3] = dims[3] * (coded ? codes[i].bits : 8) / 8;
      p.out(i + 1, coded ? code_type(codes[i].bits) : p.type(0), dims);
    }
    stage.codes = codes[i];
    const int64_t needed = single ? stage.bytes() / int64_t{sizeof(float)} + 1 : stage.count();
    memories[i] = (staged && !single) || !p.wants(i + 1) ? pieces.take(needed) : -1;
  }
  const HeadsView q_in = core.q;
  const bool rotary = p.node.i("do_rotary", 0) == 1, interleaved = p.node.i("rotary_interleaved", 0) == 1;
  const char* const unfit = "cosines and sines that do not fit the channels";
  p.expect(!rotary || (p.dims(7).size() == 2 && p.dims(8) == p.dims(7)), unfit);
  const int64_t half = rotary ? p.dims(7)[1] : 0, angles = rotary ? p.dims(7)[0] : 0;
  p.expect(2 * half <= d, unfit);
  const bool placed = rotary && p.has(9);
  p.expect(!placed || (p.type(9) == DType::kInt64 && p.in(9).count() == batch * rows),
           "positions are one int64 for each query");
  const int64_t turned = rotary ? pieces.take(batch * rows * heads * d) : -1;
  if (rotary) core.q = heads_view({batch, rows, heads * d}, heads);
  core.k = core.v = stage.view();
  const Dims out = {batch, rows, heads * d};
  p.out(0, p.type(0), out);
  core.out = heads_view(out, heads);
  const float scale = p.node.f("scale", 0);
  core.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(d));
  core.softcap = p.node.f("softcap", 0);
  const bool causal = p.node.i("causal", 1) == 1;
  if (causal) core.after = 0;
  if (window > 0) core.before = std::min<int64_t>(window, int64_t{1} << 40) - 1;
  core.clear_empty = true;
  if (p.has(kMask)) {
    set_mask(p, kMask, {batch, heads, rows, windowed ? total : cache.length}, false, &core);
  }
  const bool sinks = p.has(11), scores = p.wants(3);
  core.sink = sinks || p.node.i("smooth_softmax", 0) > 0;
  p.expect(!sinks || p.dims(11) == Dims{heads}, "sinks are one for each head");
  if (scores) {
    p.out(3, p.type(0), {batch, heads, rows, total});
    core.scores = p.node.i("qk_output", 0) == 1 ? AttentionCore::kMasked : AttentionCore::kWeights;
    core.scores_columns = total;
    core.unseen = 0;
  }
  // Of each batch the ends of its tokens, the places of its queries, what StagedCache::Rows asks for, how
  // many tokens were before those that the queries find, and the places of the queries among these.
  const int64_t lengths = pieces.take(2 * 7 * batch), memory = pieces.take(core.plan(p));
  p.scratch(static_cast<size_t>(pieces.size) * sizeof(float));
  const bool prompt = rows == total && !padded;
  const std::string label = p.node.label();
  return [=, k_memory = memories[0], v_memory = memories[1], k_codes = codes[0],
          v_codes = codes[1]](const Args& args) {
    float* scratch = args.scratch<float>();
    int64_t *ends = reinterpret_cast<int64_t*>(scratch + lengths), *starts = ends + batch,
            *kept = starts + batch, *fresh = kept + batch, *left = fresh + batch, *gone = left + batch,
            *places = gone + batch;
    for (int64_t b = 0; b < batch; ++b) {
      ends[b] = int64_t{args.in<int32_t>(5)[b]} + 1;
      fresh[b] = padded ? args.in<int32_t>(16)[b] : rows;
      starts[b] = prompt ? 0 : ends[b] - fresh[b];
      if (padded && (fresh[b] < 0 || fresh[b] > std::min(rows, ends[b]) || ends[b] < 1 || ends[b] > total)) {
        invalid(label + ": a number of queries that does not fit the lengths");
      }
      if (staged && (ends[b] < 1 || ends[b] > total)) {
        invalid(label + ": a length above the greatest one");
      }
      if (!windowed && starts[b] > cache.past) {
        invalid(label + ": a length that asks for more earlier keys than there are");
      }
      if (starts[b] < 0 || (!windowed && starts[b] + rows > cache.length) ||
          (rotary && !placed && starts[b] + rows > angles)) {
        invalid(label + ": a length that the cache or the angles do not have room for");
      }
      for (int64_t r = 0; r < rows && placed; ++r) {
        const int64_t place = args.in<int64_t>(9)[b * rows + r];
        if (place < 0 || place >= angles) invalid(label + ": a position without an angle");
      }
      fresh[b] = ends[b] - starts[b];  // Prompts may be padded, too.
      kept[b] = windowed ? kept_of_window(starts[b], cache.past, window) : starts[b];
      gone[b] = starts[b] - kept[b];
      left[b] = windowed ? kept_of_window(ends[b], cache.past, window) : ends[b];
      if (single) gone[b] = ends[b] - left[b];
      places[b] = single ? left[b] - 1 : kept[b];
    }
    const float *cosines = rotary ? args.in<float>(7) : nullptr,
                *sines = rotary ? args.in<float>(8) : nullptr;
    const auto angle = [&](int64_t b, int64_t r) {
      return (placed ? args.in<int64_t>(9)[b * rows + r] : starts[b] + r) * half;
    };
    const float* q = args.in<float>(0);
    const float* k = packed ? q + heads * d : args.in<float>(1);
    const float* v = packed ? k + kv_heads * d : args.in<float>(2);
    float* all_k = k_memory < 0 ? args.out<float>(1) : scratch + k_memory;
    float* all_v = v_memory < 0 ? args.out<float>(2) : scratch + v_memory;
    const auto turn = [&](const float* row, float* to, int64_t b, int64_t r) {
      if (rotary) {
        rotate(row, to, d, half, cosines + angle(b, r), sines + angle(b, r), interleaved);
      } else {
        std::copy(row, row + d, to);
      }
    };
    const auto copy = [&](const float* row, float* to, int64_t, int64_t) { std::copy(row, row + d, to); };
    const auto decode = [&](int i, const CacheCodes& as, const float* all, int64_t head, int64_t from,
                            int64_t to, float* target) {
      const auto* codes_of = reinterpret_cast<const uint8_t*>(all) + head * cache.length * as.bytes(d);
      const float* scales = as.of_head(args.in<float>(kScales[i]), head % kv_heads, d);
      for (; from < to; ++from) as.decode(codes_of + from * as.bytes(d), scales, d, target + from * d);
    };
    AttentionOperands o;
    if (staged) {
      const StagedCache::Rows of_batches{kept, fresh, left};
      const auto fill = [&](int i, const CacheCodes& as, const float* from, float* to, const auto& place) {
        StagedCache part = stage;
        part.codes = as;
        const auto* before = args.in<uint8_t>(kPast[i]);
        const float* scales = coded ? args.in<float>(kScales[i]) : nullptr;
        if (single) {
          part.keep(before, from, scales, of_batches, reinterpret_cast<uint8_t*>(to), place);
        } else {
          part.fill(before, from, scales, of_batches, to, args.out<uint8_t>(i + 1), place);
        }
      };
      fill(0, k_codes, k, all_k, turn);
      fill(1, v_codes, v, all_v, copy);
      if (single && coded) {
        o.load = [&, all_k, all_v](int64_t b, int64_t h, int64_t from, int64_t to, float* to_k, float* to_v) {
          decode(0, k_codes, all_k, b * kv_heads + h, from, to, to_k);
          decode(1, v_codes, all_v, b * kv_heads + h, from, to, to_v);
        };
      }
    } else {
      cache.fill(has_past ? args.in<float>(3) : nullptr, k, starts, all_k, turn);
      cache.fill(has_past ? args.in<float>(4) : nullptr, v, starts, all_v, copy);
    }
    if (rotary) {
      float* to = scratch + turned;
      parallel_for(batch * rows, std::max<int64_t>(1, kGrain / (heads * d + 1)), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const int64_t b = i / rows, r = i % rows;
          for (int64_t h = 0; h < heads; ++h) {
            rotate(q + q_in.head(b, h) + r * q_in.strides[2], to + (i * heads + h) * d, d, half,
                   cosines + angle(b, r), sines + angle(b, r), interleaved);
          }
        }
      });
      q = to;
    }
    o.q = q;
    o.k = all_k;
    o.v = all_v;
    o.out = args.out<float>(0);
    o.offsets = places;
    if (!causal) o.ends = ends;
    if (core.mask != AttentionCore::kNoMask) o.mask = args.in(kMask);
    if (windowed) o.mask_offsets = gone;
    if (sinks) o.sinks = args.in<float>(11);
    if (scores) o.scores = args.out<float>(3);
    core.run(o, scratch + memory);
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "GroupQueryAttention",
                 .supports = supports_group_query,
                 .prepare = with_halves(group_query),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kInt64,
                           DType::kInt8, DType::kUint8}});
});

}  // namespace ephost::cpu
