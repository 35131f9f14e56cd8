// The core of attention, and "ephost.Attention": what toolkit/passes/attention.h makes. One head's keys and
// values at a time, some rows of queries at a time, so that the scores of those rows stay in the cache and
// are never all there.
#include "cpu/engines/attention_core.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/engines/as_float.h"
#include "cpu/engines/product.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {

void set_mask(const Prepare& p, int i, const int64_t (&sizes)[4], bool short_of_one, AttentionCore* core) {
  const Dims& dims = p.dims(i);
  p.expect(dims.size() <= 4, "a mask with too many dimensions");
  core->mask = p.type(i) == DType::kBool ? AttentionCore::kBoolMask : AttentionCore::kFloatMask;
  core->mask_columns = sizes[3];
  int64_t step = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t size = dims[dims.size() - 1 - k];
    p.expect(size == sizes[3 - k] || size == 1 || (k == 0 && size < sizes[3]),
             "a mask that does not fit the scores");
    const bool broadcast = size == 1 && sizes[3 - k] != 1 && !(k == 0 && short_of_one);
    core->mask_strides[3 - k] = broadcast ? 0 : step;
    if (k == 0 && !broadcast) core->mask_columns = size;
    step *= size;
  }
}

HeadsView heads_view(const Dims& dims, const Ints& perm) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  HeadsView view;
  for (size_t k = 0; k < perm.size(); ++k) {
    const size_t from = static_cast<size_t>(perm[perm.size() - 1 - k]);
    view.sizes[3 - k] = dims.at(from);
    view.strides[3 - k] = strides.at(from);
  }
  return view;
}

HeadsView heads_view(const Dims& dims, int64_t heads) {
  if (dims.size() == 4) {
    return heads_view(dims, std::vector<int64_t>{0, 1, 2, 3});
  }
  return heads_view({dims.at(0), dims.at(1), heads, dims.at(2) / heads}, std::vector<int64_t>{0, 2, 1, 3});
}

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

constexpr int64_t kLoaded = 64;  // Keys or values that are loaded at a time: they stay in the nearest cache.

constexpr int64_t padded(int64_t n, int64_t panel) { return (n + panel - 1) / panel * panel; }

// cap * tanh(x * scale / cap), in place.
void soften(float* x, int64_t n, float scale, float cap) {
  const Simd& table = simd();
  const void* in[3] = {x, nullptr, nullptr};
  const float inner[2] = {scale / cap, 0}, outer[2] = {cap, 0};
  table.ops[static_cast<size_t>(Op::kAffine)](in, x, n, inner);
  table.ops[static_cast<size_t>(Op::kTanh)](in, x, n, inner);
  table.ops[static_cast<size_t>(Op::kAffine)](in, x, n, outer);
}

}  // namespace

int64_t AttentionCore::keys_size() const { return depth * (loads ? kLoaded : padded(columns, simd().panel)); }
int64_t AttentionCore::values_size() const {
  return (loads ? kLoaded : columns) * padded(width, simd().panel);
}
int64_t AttentionCore::scores_size() const { return std::max(tile, together) * padded(columns, 16); }
// Floats that a thread needs: keys, values, scores, a row of the mask, and what is not written in place.
int64_t AttentionCore::memory() const {
  const int64_t results = std::max(tile, together) * width;
  return padded(keys_size() + values_size() + scores_size() + columns + results + 64, 16);
}

// A query or two are not worth packing the keys for.
bool AttentionCore::keys_as_they_are() const { return rows <= 2 && k.strides[3] == 1 && q.strides[3] == 1; }
bool AttentionCore::values_as_they_are() const { return v.strides[3] == 1 && width % simd().panel == 0; }
bool AttentionCore::can_load(int64_t queries, int64_t channels) {
  return queries <= 2 && channels % simd().panel == 0;
}

// From one of the rows that are multiplied at a time to the next.
int64_t AttentionCore::step(const HeadsView& view) const {
  if (together == 1) return view.strides[2];
  return view.sizes[1] == 1 ? 0 : view.strides[1];
}

int64_t AttentionCore::plan(const Prepare& p) {
  heads = std::max(q.sizes[1], out.sizes[1]);
  batch = out.sizes[0];
  rows = q.sizes[2];
  columns = k.sizes[2];
  depth = q.sizes[3];
  width = v.sizes[3];
  p.expect(k.sizes[3] == depth && v.sizes[2] == columns, "matrices that do not fit each other");
  p.expect(k.sizes[1] == v.sizes[1] || k.sizes[1] == 1 || v.sizes[1] == 1,
           "keys and values of different heads");
  const int64_t kv_heads = std::max(k.sizes[1], v.sizes[1]);
  p.expect(kv_heads == 0 || heads % kv_heads == 0, "heads of queries that do not fit those of keys");
  group = kv_heads == 0 ? 1 : heads / kv_heads;
  for (const HeadsView* view : {&q, &k, &v}) {
    p.expect(view->sizes[0] == batch || view->sizes[0] == 1 || batch == 0,
             "batches that do not fit each other");
  }
  if (scores_columns < 0) scores_columns = columns;
  if (batch * heads * rows == 0) return 0;
  // The scores of a tile take some 64 KiB. A head is divided among threads only where there are few of them:
  // each packs the keys again.
  const int64_t threads = p.threads(), all = batch * heads;
  tile = std::clamp<int64_t>((1 << 14) / std::max<int64_t>(1, columns) / 6 * 6, 6, 96);
  const int64_t work = 2 * rows * columns * (depth + width + 8);
  shares = std::clamp<int64_t>(all * work / (1 << 18), 1, threads);
  if (all % shares != 0 && all < 4 * shares) {
    tile = std::min(tile, (rows + shares - 1) / shares);
  }
  tile = std::min(tile, rows);
  tiles = (rows + tile - 1) / tile;
  // Keys and values are read once for several heads of one query each, unless threads would have none then.
  for (int64_t n = rows == 1 ? group : 1; n > 0; --n) {
    const bool evenly = all / n % shares == 0 || all / n >= 4 * shares;
    if (n == 1 || (group % n == 0 && evenly)) {
      together = n;
      break;
    }
  }
  return shares * memory();
}

// From scores, the products of query i with keys [from, to), to weights.
void AttentionCore::weigh(const AttentionOperands& operands, int64_t b, int64_t h, int64_t i, int64_t from,
                          int64_t to, float* row, float* mask_row) const {
  const Simd& table = simd();
  const int64_t n = to - from, place = i + (operands.offsets != nullptr ? operands.offsets[b] : offset);
  const int64_t keys = operands.ends != nullptr ? std::clamp<int64_t>(operands.ends[b], 0, columns) : columns;
  int64_t low = before < 0 ? 0 : std::clamp<int64_t>(place - before, 0, keys);
  int64_t high = after < 0 ? keys : std::clamp<int64_t>(place + after + 1, 0, keys);
  const int64_t ahead = operands.mask_offsets != nullptr ? operands.mask_offsets[b] : 0;
  if (mask != kNoMask) high = std::min(high, mask_columns - ahead);
  low = std::clamp(low, from, to);
  high = std::clamp(high, low, to);

  float* written = operands.scores == nullptr || scores == kNoScores
                       ? nullptr
                       : operands.scores + ((b * heads + h) * rows + i) * scores_columns;
  const int64_t shown = std::clamp(scores_columns, from, to);
  float factor = scale;
  if (written != nullptr && scores == kProducts) {
    for (int64_t c = from; c < shown; ++c) written[c] = row[c - from] * scale;
  }
  if (softcap > 0) {
    soften(row, n, scale, softcap);
    factor = 1;
  }
  if (written != nullptr && scores == kCapped) {
    for (int64_t c = from; c < shown; ++c) written[c] = row[c - from] * factor;
  }

  const float* added = nullptr;
  if (mask != kNoMask) {
    const int64_t at =
        b * mask_strides[0] + h * mask_strides[1] + i * mask_strides[2] + ahead * mask_strides[3];
    if (mask == kBoolMask) {
      const uint8_t* look = static_cast<const uint8_t*>(operands.mask) + at;
      for (int64_t c = low; c < high; ++c) {
        mask_row[c - low] = look[c * mask_strides[3]] != 0 ? 0 : kMinusInfinity;
      }
      added = mask_row;
    } else {
      added = static_cast<const float*>(operands.mask) + at;
      if (mask_strides[3] == 0) {
        std::fill(mask_row, mask_row + (high - low), *added);
        added = mask_row;
      } else {
        added += low;
      }
    }
  }
  if (written != nullptr && scores == kMasked) {
    for (int64_t c = from; c < shown; ++c) {
      written[c] =
          c < low || c >= high ? unseen : row[c - from] * factor + (added != nullptr ? added[c - low] : 0);
    }
  }

  float* weights = row + (low - from);
  if (high > low) {
    float greatest = kMinusInfinity;
    for (int64_t c = 0; sink && c < high - low; ++c) {
      greatest = std::max(greatest, weights[c] * factor + (added != nullptr ? added[c] : 0));
    }
    table.softmax(weights, added, weights, high - low, factor, false);
    if (sink) {
      // The greatest weight is 1 / the sum of exp(score - greatest), to which the sink's is added.
      const float one = *std::max_element(weights, weights + (high - low));
      const float sink_score = operands.sinks != nullptr ? operands.sinks[h] : 0;
      const float left = 1 / (1 + std::exp(sink_score - greatest) * one);
      for (int64_t c = 0; c < high - low; ++c) weights[c] *= left;
    }
    if (weights[0] != weights[0]) {  // Then all of them are no numbers.
      const auto closed = [](float x) { return x == kMinusInfinity; };
      if (clear || (clear_empty && added != nullptr && std::all_of(added, added + (high - low), closed))) {
        std::fill(weights, weights + (high - low), 0.0f);
      }
    }
  }
  std::fill(row, weights, 0.0f);
  std::fill(row + (high - from), row + n, 0.0f);
  if (written != nullptr && scores == kWeights) {
    std::fill(written, written + std::min(from, scores_columns), 0.0f);
    for (int64_t c = from; c < shown; ++c) written[c] = row[c - from];
    for (int64_t c = shown; c < scores_columns; ++c) written[c] = 0;
  }
}

void AttentionCore::run_share(const AttentionOperands& operands, int64_t item, int64_t end,
                              float* memory) const {
  float* keys = memory;
  float* values = keys + keys_size();
  float* products = values + values_size();
  float* mask_row = products + scores_size();
  float* result = mask_row + columns;
  const Simd& table = simd();
  const int64_t products_row = padded(columns, 16), bundles = heads / together;
  const bool dots = loads || keys_as_they_are(), plain_values = loads || values_as_they_are();
  // Scores that somebody wants to see are computed for all keys, also for those that no query looks at.
  const bool all = scores != kNoScores && scores != kWeights && operands.scores != nullptr;
  int64_t packed = -1;
  for (; item < end; ++item) {
    const int64_t bundle = item / tiles, b = bundle / bundles, h = bundle % bundles * together;
    const int64_t first = item % tiles * tile, queries = std::min(tile, rows - first);
    const int64_t count = together > 1 ? together : queries, kv_head = h / group;
    const int64_t place = first + (operands.offsets != nullptr ? operands.offsets[b] : offset);
    const int64_t known =
        all || operands.ends == nullptr ? columns : std::clamp<int64_t>(operands.ends[b], 0, columns);
    // The keys that these rows look at.
    int64_t from = all || before < 0 ? 0 : std::clamp<int64_t>(place - before, 0, known);
    from = from / table.panel * table.panel;
    const int64_t to = all || after < 0 ? known : std::clamp<int64_t>(place + queries + after, 0, known);
    const float* const from_k = loads ? nullptr : operands.k + k.head(b, kv_head);
    const float* const from_v = loads ? nullptr : operands.v + v.head(b, kv_head);
    if (to > from && packed != b * heads + kv_head) {
      if (!dots) table.gemm_pack(from_k, k.strides[3], k.strides[2], depth, known, keys);
      if (!plain_values) table.gemm_pack(from_v, v.strides[2], v.strides[3], known, width, values);
      packed = b * heads + kv_head;
    }
    const int64_t at_once = loads ? kLoaded : std::max<int64_t>(1, to - from);
    GemmBlock g{};
    g.m = count;
    g.k = depth;
    g.a = operands.q + q.head(b, h) + first * q.strides[2];
    g.a_row = step(q);
    g.a_step = q.strides[3];
    g.c_row = products_row;
    if (depth == 0) {
      for (int64_t i = 0; i < count; ++i) {
        std::fill_n(products + i * products_row, std::max<int64_t>(0, to - from), 0.0f);
      }
    }
    for (int64_t c = from; c < to && depth > 0; c += at_once) {
      g.n = std::min(at_once, to - c);
      g.c = products + (c - from);
      if (loads) operands.load_keys(b, kv_head, c, c + g.n, keys);
      if (dots) {
        g.b = loads ? keys : from_k + c * k.strides[2];
        g.b_step = 1;
        g.b_panel = loads ? depth : k.strides[2];
        table.gemm_dots(g);
      } else {
        g.b = keys + c * depth;
        g.b_step = table.panel;
        g.b_panel = depth * table.panel;
        table.gemm(g);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t head = together > 1 ? h + i : h, query = together > 1 ? first : first + i;
      weigh(operands, b, head, query, from, std::max(from, to), products + i * products_row, mask_row);
    }
    const bool in_place = out.strides[3] == 1;
    float* target = operands.out + out.head(b, h) + first * out.strides[2];
    const int64_t target_row = step(out);
    g.n = width;
    g.a_row = products_row;
    g.a_step = 1;
    g.c = in_place ? target : result;
    g.c_row = in_place ? target_row : width;
    if (to <= from || width == 0) {  // The sum of nothing.
      for (int64_t i = 0; i < count; ++i) std::fill_n(g.c + i * g.c_row, width, 0.0f);
    }
    for (int64_t c = from; c < to && width > 0; c += at_once) {
      g.k = std::min(at_once, to - c);
      g.a = products + (c - from);
      g.accumulate = c > from;
      if (loads) {
        operands.load_values(b, kv_head, c, c + g.k, values);
        g.b = values;
        g.b_step = width;
        g.b_panel = table.panel;
      } else {
        g.b = plain_values ? from_v + c * v.strides[2] : values + c * table.panel;
        g.b_step = plain_values ? v.strides[2] : table.panel;
        g.b_panel = plain_values ? table.panel : known * table.panel;
      }
      gemm_in_blocks(g);
    }
    for (int64_t i = 0; i < count && !in_place; ++i) {
      for (int64_t c = 0; c < width; ++c) {
        target[i * target_row + c * out.strides[3]] = result[i * width + c];
      }
    }
  }
}

void AttentionCore::run(const AttentionOperands& operands, float* scratch) const {
  if (batch * heads * rows == 0) return;
  parallel_for(shares, 1, [&](int64_t share, int64_t end) {
    for (; share < end; ++share) {
      run_share(operands, items() * share / shares, items() * (share + 1) / shares,
                scratch + share * memory());
    }
  });
}

}  // namespace ephost::cpu
