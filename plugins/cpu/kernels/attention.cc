// "ephost.Attention": what ../../compiler/attention.h makes. One head's keys and values at a time, some rows
// of queries at a time, so that the scores of those rows stay in the cache and are never all there.
#include <cstring>

#include "../simd/simd.h"
#include "as_float.h"
#include "kernels.h"

namespace ephost::cpu {
namespace {

// A tensor as [batch, heads, sequence, channels], with the distance of neighbours in its memory.
struct View {
  int64_t sizes[4] = {1, 1, 1, 1};
  int64_t strides[4] = {0, 0, 0, 0};

  int64_t head(int64_t b, int64_t h) const {  // One of several batches or heads may stand for all.
    return (sizes[0] == 1 ? 0 : b * strides[0]) + (sizes[1] == 1 ? 0 : h * strides[1]);
  }
};

View view_of(const Dims& dims, const std::vector<int64_t>& perm) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  View view;
  for (size_t k = 0; k < perm.size(); ++k) {
    const size_t from = static_cast<size_t>(perm[perm.size() - 1 - k]);
    // With three dimensions those before the last two are heads.
    view.sizes[3 - k] = dims.at(from);
    view.strides[3 - k] = strides.at(from);
  }
  return view;
}

struct Attention {
  View q, k, v, out;
  int64_t mask[4] = {0, 0, 0, 0};  // Its strides; 0 where it is broadcast.
  bool has_mask = false, clear = false;
  float scale = 1;
  int64_t batch = 1, heads = 1, rows = 1, columns = 1, depth = 1, width = 1;
  int64_t tile = 1, tiles = 1;  // Rows at a time.

  static constexpr int64_t padded(int64_t n, int64_t panel) { return (n + panel - 1) / panel * panel; }
  // Floats that a thread needs: keys, values, scores, a row of the mask, and what is not written in place.
  int64_t keys_size() const { return depth * padded(columns, simd().panel); }
  int64_t values_size() const { return columns * padded(width, simd().panel); }
  int64_t scores_size() const { return tile * padded(columns, 16); }
  int64_t memory() const {
    return padded(keys_size() + values_size() + scores_size() + columns + tile * width + 64, 16);
  }

  void run(const Args& args, int64_t item, int64_t end, float* memory) const {
    float* keys = memory;
    float* values = keys + keys_size();
    float* scores = values + values_size();
    float* mask_row = scores + scores_size();
    float* result = mask_row + columns;
    const Simd& table = simd();
    const int64_t scores_row = padded(columns, 16);
    // A query or two are not worth packing the keys for.
    const bool dots = rows <= 2 && k.strides[3] == 1 && q.strides[3] == 1;
    const bool values_as_they_are = v.strides[3] == 1 && width % table.panel == 0;
    int64_t packed = -1;
    for (; item < end; ++item) {
      const int64_t head = item / tiles, b = head / heads, h = head % heads;
      const int64_t first = item % tiles * tile, count = std::min(tile, rows - first);
      const float* from_k = args.in<float>(1) + k.head(b, h);
      const float* from_v = args.in<float>(2) + v.head(b, h);
      if (packed != head) {
        if (!dots) table.gemm_pack(from_k, k.strides[3], k.strides[2], depth, columns, keys);
        if (!values_as_they_are) table.gemm_pack(from_v, v.strides[2], v.strides[3], columns, width, values);
        packed = head;
      }
      GemmBlock g{};
      g.m = count;
      g.n = columns;
      g.k = depth;
      g.a = args.in<float>(0) + q.head(b, h) + first * q.strides[2];
      g.a_row = q.strides[2];
      g.a_step = q.strides[3];
      g.c = scores;
      g.c_row = scores_row;
      if (dots) {
        g.b = from_k;
        g.b_step = 1;
        g.b_panel = k.strides[2];
        table.gemm_dots(g);
      } else {
        g.b = keys;
        g.b_step = table.panel;
        g.b_panel = depth * table.panel;
        table.gemm(g);
      }
      for (int64_t i = 0; i < count; ++i) {
        float* row = scores + i * scores_row;
        const float* mask_of = nullptr;
        if (has_mask) {
          mask_of = args.in<float>(3) + b * mask[0] + h * mask[1] + (first + i) * mask[2];
          if (mask[3] == 0) {
            std::fill(mask_row, mask_row + columns, *mask_of);
            mask_of = mask_row;
          }
        }
        table.softmax(row, mask_of, row, columns, scale, false);
        if (clear && row[0] != row[0]) std::fill(row, row + columns, 0.0f);  // Then all of it is no number.
      }
      const bool in_place = out.strides[3] == 1;
      float* to = args.out<float>(0) + out.head(b, h) + first * out.strides[2];
      g.n = width;
      g.k = columns;
      g.a = scores;
      g.a_row = scores_row;
      g.a_step = 1;
      g.b = values_as_they_are ? from_v : values;
      g.b_step = values_as_they_are ? v.strides[2] : table.panel;
      g.b_panel = values_as_they_are ? table.panel : columns * table.panel;
      g.c = in_place ? to : result;
      g.c_row = in_place ? out.strides[2] : width;
      table.gemm(g);
      for (int64_t i = 0; i < count && !in_place; ++i) {
        for (int64_t c = 0; c < width; ++c)
          to[i * out.strides[2] + c * out.strides[3]] = result[i * width + c];
      }
    }
  }
};

Kernel attention(Prepare& p) {
  Attention a;
  const std::vector<int64_t> out_perm = p.node.ints("out_perm");
  a.q = view_of(p.dims(0), p.node.ints("q_perm"));
  a.k = view_of(p.dims(1), p.node.ints("k_perm"));
  a.v = view_of(p.dims(2), p.node.ints("v_perm"));
  a.scale = p.node.f("scale", 1);
  a.clear = p.node.i("clear", 0) != 0;
  for (int d : {0, 1}) {
    int64_t& size = d == 0 ? a.batch : a.heads;
    size = std::max({a.q.sizes[d], a.k.sizes[d], a.v.sizes[d]});
    for (const View* view : {&a.q, &a.k, &a.v}) {
      if (view->sizes[d] == 0) size = 0;
      p.expect(view->sizes[d] == size || view->sizes[d] == 1 || size == 0,
               "batches that do not fit each other");
    }
  }
  a.rows = a.q.sizes[2];
  a.columns = a.k.sizes[2];
  a.depth = a.q.sizes[3];
  a.width = a.v.sizes[3];
  p.expect(a.k.sizes[3] == a.depth && a.v.sizes[2] == a.columns, "matrices that do not fit each other");

  const size_t rank = out_perm.size();
  const int64_t sizes[4] = {a.batch, a.heads, a.rows, a.width};
  const Dims product(sizes + 4 - rank, sizes + 4);
  Dims dims;
  for (int64_t d : out_perm) dims.push_back(product[static_cast<size_t>(d)]);
  p.out(0, DType::kFloat, dims);
  std::vector<int64_t> back(rank);  // The product's dimensions among the output's.
  for (size_t d = 0; d < rank; ++d) back[static_cast<size_t>(out_perm[d])] = static_cast<int64_t>(d);
  a.out = view_of(dims, back);

  if (p.inputs() > 3 && p.has(3)) {
    a.has_mask = true;
    const Dims& mask = p.dims(3);
    const int64_t all[4] = {a.batch, a.heads, a.rows, a.columns};
    int64_t step = 1;
    p.expect(mask.size() <= 4, "a mask with too many dimensions");
    for (size_t k = 0; k < mask.size(); ++k) {
      const int64_t size = mask[mask.size() - 1 - k];
      p.expect(size == all[3 - k] || size == 1, "a mask that does not fit the scores");
      a.mask[3 - k] = size == 1 ? 0 : step;
      step *= size;
    }
  }
  if (count(dims) == 0) {
    return [](const Args&) {};
  }
  if (a.columns == 0) {  // The sum of nothing.
    const size_t bytes = static_cast<size_t>(count(dims)) * sizeof(float);
    return [bytes](const Args& args) { std::memset(args.out<void>(0), 0, bytes); };
  }

  const int64_t threads = p.threads(), heads = a.batch * a.heads;
  // The scores of a tile take some 64 KiB. A head is divided among threads only where there are few of them:
  // each packs the keys again.
  a.tile = std::clamp<int64_t>((1 << 14) / a.columns / 6 * 6, 6, 96);
  const int64_t work = 2 * a.rows * a.columns * (a.depth + a.width + 8);
  const int64_t shares = std::clamp<int64_t>(heads * work / (1 << 18), 1, threads);
  if (heads % shares != 0 && heads < 4 * shares) {
    a.tile = std::min(a.tile, (a.rows + shares - 1) / shares);
  }
  a.tile = std::min(a.tile, a.rows);
  a.tiles = (a.rows + a.tile - 1) / a.tile;
  const int64_t total = heads * a.tiles, memory = a.memory();
  p.scratch(static_cast<size_t>(shares * memory) * sizeof(float));
  return [=](const Args& args) {
    parallel_for(shares, 1, [&](int64_t share, int64_t end) {
      for (; share < end; ++share) {
        a.run(args, total * share / shares, total * (share + 1) / shares,
              args.scratch<float>() + share * memory);
      }
    });
  };
}

}  // namespace

void add_attention(Registry* registry) {
  registry->add({.domain = "ephost",
                 .type = "Attention",
                 .prepare = with_halves(attention),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16}});
}

}  // namespace ephost::cpu
