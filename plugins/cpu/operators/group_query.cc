// com.microsoft's GroupQueryAttention, which exporters of language models emit.
//
// query (all three where the next two are left out), key, value, past_key, past_value, the last key's index
// for each batch, the greatest length, cosines, sines, positions, attention_bias, the sink of each head, the
// scales of coded keys and values, (14 and 15: norms,) how many of each batch's queries are none of padding.
//
// Where caches hold floats of all that was, attention reads them where they lie. Others are brought into
// memory of the run first: codes as the numbers that they stand for, and of a window what it still has with
// all that is new behind it. One query alone reads the cache that goes out, codes head by head.

#include <algorithm>
#include <cmath>
#include <string>

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

// Of each text of a batch, in memory of a run.
struct Texts {
  static constexpr int64_t kNumbers = 7;

  Texts(void* memory, int64_t batch)
      : ends(static_cast<int64_t*>(memory)),
        starts(ends + batch),
        kept(starts + batch),
        fresh(kept + batch),
        left(fresh + batch),
        gone(left + batch),
        places(gone + batch) {}

  int64_t* ends;                 // How many tokens it has with the new ones,
  int64_t* starts;               // and without.
  int64_t *kept, *fresh, *left;  // See StagedCache::Rows.
  int64_t* gone;                 // How many tokens were before those that its queries find,
  int64_t* places;               // and the place of its first query among these.
};

class GroupQuery {
 public:
  explicit GroupQuery(Prepare& p) : label_(p.node.label()) {
    read_sizes(p);
    read_caches(p);
    read_rotation(p);
    read_scores(p);
    lengths_ = pieces_.take(2 * Texts::kNumbers * batch_);
    memory_ = pieces_.take(core_.plan(p));
    p.scratch(static_cast<size_t>(pieces_.size) * sizeof(float));
  }

  void operator()(const Args& args) const {
    float* const scratch = args.scratch<float>();
    const Texts texts(scratch + lengths_, batch_);
    for (int64_t b = 0; b < batch_; ++b) place(args, b, texts);
    const float* const q = args.in<float>(0);
    const float* const k = packed_ ? q + heads_ * d_ : args.in<float>(1);
    const float* const v = packed_ ? k + kv_heads_ * d_ : args.in<float>(2);
    float* const caches[] = {memories_[0] < 0 ? args.out<float>(1) : scratch + memories_[0],
                             memories_[1] < 0 ? args.out<float>(2) : scratch + memories_[1]};
    const auto turn = [&](const float* row, float* to, int64_t b, int64_t r) {
      if (rotary_) {
        const int64_t at = angle(args, texts, b, r);
        rotate(row, to, d_, half_, args.in<float>(7) + at, args.in<float>(8) + at, interleaved_);
      } else {
        std::copy(row, row + d_, to);
      }
    };
    fill(args, texts, 0, k, caches[0], turn);
    fill(args, texts, 1, v, caches[1],
         [&](const float* row, float* to, int64_t, int64_t) { std::copy(row, row + d_, to); });

    AttentionOperands o;
    o.q = q;
    if (rotary_) {
      float* const to = scratch + turned_;
      const int64_t grain = std::max<int64_t>(1, kGrain / (heads_ * d_ + 1));
      parallel_for(batch_ * rows_, grain, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const int64_t b = i / rows_, r = i % rows_;
          for (int64_t h = 0; h < heads_; ++h) {
            turn(q + q_in_.head(b, h) + r * q_in_.strides[2], to + (i * heads_ + h) * d_, b, r);
          }
        }
      });
      o.q = to;
    }
    o.k = caches[0];
    o.v = caches[1];
    if (core_.loads) {
      const auto load = [&](int i) {
        return [&, i](int64_t b, int64_t h, int64_t from, int64_t to, float* memory) {
          decode(args, i, caches[i], b * kv_heads_ + h, from, to, memory);
        };
      };
      o.load_keys = load(0);
      o.load_values = load(1);
    }
    o.out = args.out<float>(0);
    o.offsets = texts.places;
    if (!causal_) o.ends = texts.ends;
    if (core_.mask != AttentionCore::kNoMask) o.mask = args.in(kMask);
    if (windowed_) o.mask_offsets = texts.gone;
    if (sinks_) o.sinks = args.in<float>(11);
    if (scores_) o.scores = args.out<float>(3);
    core_.run(o, scratch + memory_);
  }

 private:
  void read_sizes(Prepare& p) {
    heads_ = p.node.i("num_heads", 0);
    kv_heads_ = p.node.i("kv_num_heads", 0);
    packed_ = !p.has(1);
    p.expect(p.dims(0).size() == 3, "queries have three dimensions");
    p.expect(p.type(5) == DType::kInt32, "lengths that are not int32");
    batch_ = p.dims(0)[0];
    rows_ = p.dims(0)[1];
    total_ = p.integer(6);
    const int64_t parts = packed_ ? heads_ + 2 * kv_heads_ : heads_;
    p.expect(p.dims(0)[2] % parts == 0, "queries that the heads cannot share");
    d_ = p.dims(0)[2] / parts;
    p.expect(
        packed_ || (p.has(2) && p.dims(1) == Dims{batch_, rows_, kv_heads_ * d_} && p.dims(2) == p.dims(1)),
        "keys or values that do not fit the queries");
    p.expect(p.in(5).count() == batch_, "lengths are one for each batch");
    padded_ = p.has(16);
    p.expect(!padded_ || (p.type(16) == DType::kInt32 && p.dims(16) == Dims{batch_}),
             "numbers of queries are one int32 for each batch");
    prompt_ = rows_ == total_ && !padded_;
    q_in_ = heads_view({batch_, rows_, heads_ * d_}, heads_);
    cache_.now = heads_view({batch_, rows_, kv_heads_ * d_}, kv_heads_);
    for (HeadsView* view : {&q_in_, &cache_.now}) {
      if (packed_) {
        view->strides[0] = rows_ * parts * d_;
        view->strides[2] = parts * d_;
      }
    }
  }

  void read_caches(Prepare& p) {
    coded_ = is_coded(p.node);
    windowed_ = p.node.i("sliding_window_cache", 0) != 0;
    staged_ = coded_ || windowed_;
    for (int i = 0; i < 2 && coded_; ++i) {
      codes_[i] = {p.node.i("kv_cache_bit_width", 0),
                   p.node.s(i == 0 ? "k_quant_type" : "v_quant_type", "") == "PER_CHANNEL"};
      p.expect(p.type(kPast[i]) == code_type(codes_[i].bits), "a cache in codes of another type");
      p.expect(d_ * codes_[i].bits % 8 == 0, "channels that codes do not fill bytes with");
      p.expect(
          p.type(kScales[i]) == DType::kFloat && p.in(kScales[i]).count() == codes_[i].scales(kv_heads_, d_),
          "scales that do not fit keys or values");
    }
    has_past_ = p.has(3);
    if (has_past_) {
      p.expect(p.has(4) && p.dims(3).size() == 4 && p.dims(3) == p.dims(4) && p.dims(3)[0] == batch_ &&
                   p.dims(3)[1] == kv_heads_ && p.dims(3)[3] * 8 == d_ * (coded_ ? codes_[0].bits : 8),
               "past keys or values that do not fit the new ones");
      cache_.past = p.dims(3)[2];
    }
    window_ = p.node.i("local_window_size", -1);
    p.expect(window_ != 0, "local_window_size is 0, a window of no tokens");
    p.expect(!windowed_ || window_ <= cache_.past, "a cache that is smaller than its window");
    cache_.length = windowed_ ? cache_.past : std::max(cache_.past, total_);
    p.expect(windowed_ || cache_.length >= rows_, "a greatest length that is less than what is there now");
    p.expect(!padded_ || has_past_, "numbers of queries want past keys and values");
    // One query looks at nothing that goes in its run.
    single_ = staged_ && rows_ == 1 && AttentionCore::can_load(rows_, d_);
    stage_ = {
        cache_.now, {}, cache_.past, cache_.length, cache_.length + (windowed_ && !single_ ? rows_ : 0)};
    for (int i : {0, 1}) {
      if (p.wants(i + 1)) {
        Dims dims = cache_.dims();
        dims[3] = dims[3] * (coded_ ? codes_[i].bits : 8) / 8;
        p.out(i + 1, coded_ ? code_type(codes_[i].bits) : p.type(0), dims);
      }
      const int64_t needed = single_ ? stage_.bytes(codes_[i]) / int64_t{sizeof(float)} + 1 : stage_.count();
      memories_[i] = (staged_ && !single_) || !p.wants(i + 1) ? pieces_.take(needed) : -1;
    }
    core_.k = core_.v = stage_.view();
    core_.loads = single_ && coded_;
  }

  void read_rotation(Prepare& p) {
    rotary_ = p.node.i("do_rotary", 0) == 1;
    interleaved_ = p.node.i("rotary_interleaved", 0) == 1;
    const char* const unfit = "cosines and sines that do not fit the channels";
    p.expect(!rotary_ || (p.dims(7).size() == 2 && p.dims(8) == p.dims(7)), unfit);
    half_ = rotary_ ? p.dims(7)[1] : 0;
    angles_ = rotary_ ? p.dims(7)[0] : 0;
    p.expect(2 * half_ <= d_, unfit);
    placed_ = rotary_ && p.has(9);
    p.expect(!placed_ || (p.type(9) == DType::kInt64 && p.in(9).count() == batch_ * rows_),
             "positions are one int64 for each query");
    turned_ = rotary_ ? pieces_.take(batch_ * rows_ * heads_ * d_) : -1;
    core_.q = rotary_ ? heads_view({batch_, rows_, heads_ * d_}, heads_) : q_in_;
  }

  void read_scores(Prepare& p) {
    const Dims out = {batch_, rows_, heads_ * d_};
    p.out(0, p.type(0), out);
    core_.out = heads_view(out, heads_);
    const float scale = p.node.f("scale", 0);
    core_.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(d_));
    core_.softcap = p.node.f("softcap", 0);
    causal_ = p.node.i("causal", 1) == 1;
    if (causal_) core_.after = 0;
    if (window_ > 0) core_.before = std::min<int64_t>(window_, int64_t{1} << 40) - 1;
    core_.clear_empty = true;
    if (p.has(kMask)) {
      set_mask(p, kMask, {batch_, heads_, rows_, windowed_ ? total_ : cache_.length}, false, &core_);
    }
    sinks_ = p.has(11);
    scores_ = p.wants(3);
    core_.sink = sinks_ || p.node.i("smooth_softmax", 0) > 0;
    p.expect(!sinks_ || p.dims(11) == Dims{heads_}, "sinks are one for each head");
    if (scores_) {
      p.out(3, p.type(0), {batch_, heads_, rows_, total_});
      core_.scores = p.node.i("qk_output", 0) == 1 ? AttentionCore::kMasked : AttentionCore::kWeights;
      core_.scores_columns = total_;
      core_.unseen = 0;
    }
  }

  // Finds where text b is, and whether that can be.
  void place(const Args& args, int64_t b, const Texts& texts) const {
    const int64_t end = int64_t{args.in<int32_t>(5)[b]} + 1;
    const int64_t fresh = padded_ ? args.in<int32_t>(16)[b] : rows_, start = prompt_ ? 0 : end - fresh;
    if (padded_ && (fresh < 0 || fresh > std::min(rows_, end) || end < 1 || end > total_)) {
      invalid(label_ + ": a number of queries that does not fit the lengths");
    }
    if (staged_ && (end < 1 || end > total_)) invalid(label_ + ": a length above the greatest one");
    if (!windowed_ && start > cache_.past) {
      invalid(label_ + ": a length that asks for more earlier keys than there are");
    }
    if (start < 0 || (!windowed_ && start + rows_ > cache_.length) ||
        (rotary_ && !placed_ && start + rows_ > angles_)) {
      invalid(label_ + ": a length that the cache or the angles do not have room for");
    }
    for (int64_t r = 0; r < rows_ && placed_; ++r) {
      const int64_t place = args.in<int64_t>(9)[b * rows_ + r];
      if (place < 0 || place >= angles_) invalid(label_ + ": a position without an angle");
    }
    texts.ends[b] = end;
    texts.starts[b] = start;
    texts.fresh[b] = end - start;  // Prompts may be padded, too.
    texts.kept[b] = windowed_ ? kept_of_window(start, cache_.past, window_) : start;
    texts.left[b] = windowed_ ? kept_of_window(end, cache_.past, window_) : end;
    texts.gone[b] = single_ ? end - texts.left[b] : start - texts.kept[b];
    texts.places[b] = single_ ? texts.left[b] - 1 : texts.kept[b];
  }

  // Where the angles of query r of text b begin.
  int64_t angle(const Args& args, const Texts& texts, int64_t b, int64_t r) const {
    return (placed_ ? args.in<int64_t>(9)[b * rows_ + r] : texts.starts[b] + r) * half_;
  }

  // Keys (0) or values (1), the new ones of `from`, to where attention finds them.
  template <typename Place>
  void fill(const Args& args, const Texts& texts, int i, const float* from, float* to,
            const Place& place) const {
    if (!staged_) {
      cache_.fill(has_past_ ? args.in<float>(kPast[i]) : nullptr, from, texts.starts, to, place);
      return;
    }
    StagedCache stage = stage_;
    stage.codes = codes_[i];
    const StagedCache::Rows rows{texts.kept, texts.fresh, texts.left};
    const auto* const before = args.in<uint8_t>(kPast[i]);
    const float* const scales = coded_ ? args.in<float>(kScales[i]) : nullptr;
    if (single_) {
      stage.keep(before, from, scales, rows, reinterpret_cast<uint8_t*>(to), place);
    } else {
      stage.fill(before, from, scales, rows, to, args.out<uint8_t>(i + 1), place);
    }
  }

  // Rows [from, to) of a head of a cache in codes.
  void decode(const Args& args, int i, const float* cache, int64_t head, int64_t from, int64_t to,
              float* target) const {
    const CacheCodes& codes = codes_[i];
    const auto* const bytes =
        reinterpret_cast<const uint8_t*>(cache) + head * cache_.length * codes.bytes(d_);
    const float* const scales = codes.of_head(args.in<float>(kScales[i]), head % kv_heads_, d_);
    codes.decode(bytes + from * codes.bytes(d_), scales, to - from, d_, target);
  }

  std::string label_;
  int64_t heads_ = 0, kv_heads_ = 0, batch_ = 0, rows_ = 0, total_ = 0, d_ = 0, window_ = -1;
  bool packed_ = false, padded_ = false, prompt_ = false, causal_ = true, sinks_ = false, scores_ = false;
  HeadsView q_in_;
  bool coded_ = false, windowed_ = false, staged_ = false, single_ = false, has_past_ = false;
  CacheCodes codes_[2];
  Cache cache_;
  StagedCache stage_;
  bool rotary_ = false, interleaved_ = false, placed_ = false;
  int64_t half_ = 0, angles_ = 0;
  AttentionCore core_;
  Pieces pieces_;
  // Where pieces begin; of caches -1 where an output is theirs.
  int64_t memories_[2] = {-1, -1}, turned_ = -1, lengths_ = 0, memory_ = 0;
};

Kernel group_query(Prepare& p) { return GroupQuery(p); }

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
