#include "cpu/engines/conv/winograd.h"

#include <algorithm>
#include <cmath>

namespace ephost::cpu {
namespace {

std::string key_of(int tile) { return "winograd " + std::to_string(tile); }

size_t point_size(int64_t inputs, int64_t outputs) {
  const int64_t panel = simd().panel;
  return static_cast<size_t>((outputs + panel - 1) / panel * panel * inputs);
}

struct Transformed {
  std::shared_ptr<void> memory;
};

int64_t parts_of(int64_t n, int64_t step) { return (n + step - 1) / step; }

// One dimension of a convolution with gaps between its taps: every `step`-th output, and every `step`-th
// input, is one without gaps. There are as many of these as the gap is long, of about the same size.
class Phases {
 public:
  Phases(const Window& window, size_t d, int64_t tile)
      : step_(window.dilations[d]),
        in_(window.in[d]),
        out_(window.out[d]),
        begin_(window.begin[d]),
        tile_(tile),
        tiles_(parts_of(parts_of(out_, step_), tile)) {}

  int64_t step() const { return step_; }
  int64_t tiles() const { return tiles_ * step_; }  // Of all phases, one phase after the other.
  // Tiles of one phase from this one on.
  int64_t left(int64_t at) const { return tiles_ - at % tiles_; }

  // Where a tile's outputs are: from[first + step * (start + i)], of `size`. They may be none.
  struct Part {
    int64_t first, size, start;
  };
  Part outputs(int64_t at) const {
    const int64_t phase = at / tiles_;
    return {phase, parts_of(out_ - phase, step_), at % tiles_ * tile_};
  }
  // The same of its inputs, of which those outside of the size are zeros.
  Part inputs(int64_t at) const {
    const int64_t behind = at / tiles_ - begin_, phase = (behind % step_ + step_) % step_;
    return {phase, phase >= in_ ? 0 : parts_of(in_ - phase, step_),
            at % tiles_ * tile_ + (behind - phase) / step_};
  }

 private:
  int64_t step_, in_, out_, begin_, tile_, tiles_;
};

}  // namespace

int winograd_tile(const ConvProblem& problem) {
  const Window& w = problem.window;
  const int64_t outputs = problem.weights[0], inputs = problem.weights[1];
  if (w.rank() != 2 || problem.groups != 1 || w.kernel != Dims{3, 3} || w.strides != Dims{1, 1} ||
      inputs % 8 != 0 || outputs % 8 != 0 || inputs < 16 || outputs < 16 ||
      outputs * 4 < simd().panel * 3) {  // A panel that is mostly empty takes as long as a full one.
    return 0;
  }
  return inputs * outputs <= 128 * 192 ? 4 : 2;
}

bool winograd_worth(const ConvProblem& problem, int tile) {
  // Tiles at the end of a side are done whole.
  double whole = 1, used = 1;
  for (size_t d = 0; d < problem.window.out.size(); ++d) {
    const Phases phases(problem.window, d, tile);
    whole *= static_cast<double>(phases.tiles() * tile);
    used *= static_cast<double>(problem.window.out[d]);
  }
  const double tiles = whole / (tile * tile) * static_cast<double>(problem.source[0]);
  // The transformed weights are more, of large tiles four times as many: for few tiles the other way is done
  // before they are read.
  const double least = tile == 2 ? 12 : 9;
  return tiles >= least && used / whole > 0.6;
}

bool has_winograd_weights(const TensorPtr& constant, int tile) {
  const std::lock_guard lock(constant->packed_mutex);
  return constant->packed.count(key_of(tile)) != 0;
}

std::shared_ptr<void> winograd_weights(const TensorPtr& constant, int tile) {
  return Prepare::packed<Transformed>(
             constant, key_of(tile),
             [&] {
               if (constant->data == nullptr) {
                 fail("a weight is gone before it was packed");
               }
               const int64_t outputs = constant->dims[0], inputs = constant->dims[1];
               const int side = tile + 2;
               const size_t size = point_size(inputs, outputs);
               auto made = std::make_shared<Transformed>();
               made->memory = allocate(size * static_cast<size_t>(side * side) * sizeof(float));
               float* memory = static_cast<float*>(made->memory.get());
               const float* weights = constant->as<float>();
               const int64_t panel = simd().panel;
               parallel_for((outputs + 7) / 8, 1, [&](int64_t eight, int64_t end) {
                 for (; eight < end; ++eight) {
                   float* to = memory + eight * 8 / panel * inputs * panel + eight * 8 % panel;
                   simd().winograd_weights[tile == 4 ? 1 : 0]({weights + eight * 8 * inputs * 9, inputs * 9,
                                                               inputs, to, panel,
                                                               static_cast<int64_t>(size)});
                 }
                 // The last panel may be half empty; what is there is multiplied, and forgotten.
                 for (int64_t point = 0; end * 8 == outputs && point < side * side; ++point) {
                   float* room =
                       memory + static_cast<size_t>(point) * size + outputs / panel * panel * inputs;
                   for (int64_t i = 0; i < inputs && outputs % panel != 0; ++i, room += panel) {
                     std::fill(room + outputs % panel, room + panel, 0.0f);
                   }
                 }
               });
               return made;
             })
      ->memory;
}

TensorPtr winograd_original(const TensorPtr& constant, int tile) {
  const float* memory = static_cast<const float*>(winograd_weights(constant, tile).get());
  const int64_t outputs = constant->dims[0], inputs = constant->dims[1], panel = simd().panel;
  const int side = tile + 2;
  const size_t size = point_size(inputs, outputs);
  TensorPtr made = make_tensor(DType::kFloat, constant->dims);
  float* weights = static_cast<float*>(mutable_data(made));
  // Of a line's points the first holds the first weight alone, the last the last, the second the sum of all.
  const float first = tile == 4 ? 4.0f : 1.0f, sum = tile == 4 ? -6.0f : 2.0f;
  const auto line = [=](float a, float b, float c, float* out) {
    out[0] = first * a;
    out[2] = c;
    out[1] = sum * b - out[0] - out[2];
  };
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      const int lines[3] = {0, 1, side - 1};
      float rows[3][3], column[3];
      for (int r = 0; r < 3; ++r) {
        float points[3];
        for (int c = 0; c < 3; ++c) {
          const auto point = static_cast<size_t>(lines[r] * side + lines[c]);
          points[c] =
              memory[point * size + static_cast<size_t>((o / panel * inputs + i) * panel + o % panel)];
        }
        line(points[0], points[1], points[2], rows[r]);
      }
      for (int c = 0; c < 3; ++c) {
        line(rows[0][c], rows[1][c], rows[2][c], column);
        for (int r = 0; r < 3; ++r) weights[((o * inputs + i) * 3 + r) * 3 + c] = column[r];
      }
    }
  }
  return made;
}

Kernel winograd(Prepare& p, const ConvProblem& problem, int tile, Layout layout, bool biased,
                const std::vector<PostOp>& post_ops, int operands) {
  const int64_t inputs = problem.weights[1], outputs = problem.weights[0];
  const int64_t height = problem.source[2], width = problem.source[3];
  const int64_t out_height = problem.target[2], out_width = problem.target[3];
  const Phases rows_of(problem.window, 0, tile), columns_of(problem.window, 1, tile);
  const int64_t down = rows_of.tiles(), across = columns_of.tiles();
  const int64_t tiles = problem.source[0] * down * across, points = (tile + 2) * (tile + 2);
  const int64_t threads = std::max(1, p.threads());
  const std::shared_ptr<void> weights = winograd_weights(p.constant(1), tile);
  const size_t size = point_size(inputs, outputs);
  // Weights that are larger than what they are multiplied with are read once, each by one thread: threads
  // share the points of all tiles then. Else each has tiles of its own: as many at a time as the second cache
  // holds, but enough to be worth reading all weights for, and the same number for each thread.
  const bool together = threads > 1 && static_cast<int64_t>(size) > 2 * tiles * (inputs + outputs);
  const int64_t most = std::clamp<int64_t>((384 << 10) / (points * (inputs + outputs) * 4), 24, 120);
  const int64_t rounds = (tiles + most * threads - 1) / (most * threads);
  const int64_t blocks = together ? 1 : std::min(tiles, rounds * threads),
                at_once = (tiles + blocks - 1) / blocks;
  // A line of the cache more from point to point: in multiples of its size all of them would be in the same
  // places.
  constexpr int64_t kMore = 16;
  const size_t share =
      static_cast<size_t>(points * (at_once * (inputs + outputs) + 2 * kMore)) * sizeof(float) + 64;
  const int64_t shares = std::min(threads, blocks);
  p.scratch(share * static_cast<size_t>(shares));
  const RowEpilogue epilogue(post_ops);
  const bool last = layout == Layout::kChannelsLast;
  const int64_t in_pixel = last ? inputs : 8, out_pixel = last ? outputs : 8;
  const int64_t in_block = last ? 8 : height * width * 8, out_block = last ? 8 : out_height * out_width * 8;
  const int index = tile == 4 ? 1 : 0, ends = p.inputs();
  return [=](const Args& args) {
    const Simd& table = simd();
    const float *x = args.in<float>(0), *bias = biased ? args.in<float>(2) : nullptr;
    float* y = args.out<float>(0);
    const float* others[8] = {};
    for (int i = operands; i < ends; ++i) others[i - operands] = args.in<float>(i);
    char* scratch = args.scratch<char>();
    // Of a block of `count` tiles from `first` on, some tiles [t, end) or points.
    const auto transform = [&](int64_t first, int64_t count, int64_t t, int64_t end, float* v) {
      for (; t < end; ++t) {
        const int64_t at = first + t, n = at / across / down;
        const Phases::Part row = rows_of.inputs(at / across % down), column = columns_of.inputs(at % across);
        const int64_t pixel = row.size == 0 || column.size == 0 ? 0 : row.first * width + column.first;
        table.winograd_input[index]({x + n * inputs * height * width + pixel * in_pixel, in_block,
                                     in_pixel * width * rows_of.step(), in_pixel * columns_of.step(),
                                     inputs / 8, row.size, column.size, row.start, column.start,
                                     v + t * inputs, count * inputs + kMore});
      }
    };
    // Panel q of point p is number p * panels + q.
    const int64_t panels = (outputs + table.panel - 1) / table.panel;
    const auto multiply = [&](int64_t count, int64_t i, int64_t end, const float* v, float* m) {
      for (int64_t next; i < end; i = next) {
        const int64_t point = i / panels, panel = i % panels, column = panel * table.panel;
        next = std::min(end, i - panel + panels);
        GemmBlock g{};
        g.m = count;
        g.n = std::min(outputs - column, (next - i) * table.panel);
        g.k = inputs;
        g.a = v + point * (count * inputs + kMore);
        g.a_row = inputs;
        g.a_step = 1;
        g.b = static_cast<const float*>(weights.get()) + static_cast<size_t>(point) * size + column * inputs;
        g.b_step = table.panel;
        g.b_panel = table.panel * inputs;
        g.c = m + point * (count * outputs + kMore) + column;
        g.c_row = outputs;
        table.gemm(g);
      }
    };
    const auto finish = [&](int64_t first, int64_t count, int64_t begin, int64_t end, const float* m) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t at = first + t, n = at / across / down;
        const Phases::Part row = rows_of.outputs(at / across % down),
                           column = columns_of.outputs(at % across);
        const int64_t pixel = row.size == 0 || column.size == 0 ? 0 : row.first * out_width + column.first;
        table.winograd_output[index]({m + t * outputs, count * outputs + kMore, bias,
                                      y + n * outputs * out_height * out_width + pixel * out_pixel, out_block,
                                      out_pixel * out_width * rows_of.step(), out_pixel * columns_of.step(),
                                      outputs / 8, row.size, column.size, row.start, column.start});
      }
      if (epilogue.empty()) {
        return;
      }
      // Tiles side by side make rows of pixels, without a gap if taps have none.
      for (int64_t t = begin; t < end;) {
        const int64_t at = first + t, n = at / across / down;
        const int64_t side_by_side = std::min(end - t, columns_of.left(at % across));
        const Phases::Part row = rows_of.outputs(at / across % down),
                           column = columns_of.outputs(at % across);
        const int64_t pixels = std::min(column.size - column.start, side_by_side * tile);
        const int64_t bottom = std::min(row.size, row.start + tile);
        const bool gaps = columns_of.step() > 1;
        const int64_t runs = gaps ? pixels : std::min<int64_t>(1, pixels), run = gaps ? 1 : pixels;
        for (int64_t block = 0; block < (last ? 1 : outputs / 8); ++block) {
          for (int64_t line = row.start; line < bottom; ++line) {
            for (int64_t i = 0; i < runs; ++i) {
              const int64_t pixel = (row.first + line * rows_of.step()) * out_width + column.first +
                                    (column.start + i) * columns_of.step();
              epilogue.run(y, others,
                           n * outputs * out_height * out_width + block * out_block + pixel * out_pixel,
                           run * out_pixel);
            }
          }
        }
        t += side_by_side;
      }
    };
    if (together) {
      float *const v = reinterpret_cast<float*>(scratch), *const m = v + points * (tiles * inputs + kMore);
      parallel_for(tiles, 1, [&](int64_t t, int64_t end) { transform(0, tiles, t, end, v); });
      parallel_for(points * panels, 1, [&](int64_t i, int64_t end) { multiply(tiles, i, end, v, m); });
      parallel_for(tiles, 1, [&](int64_t t, int64_t end) { finish(0, tiles, t, end, m); });
      return;
    }
    parallel_for(shares, 1, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        float* v = reinterpret_cast<float*>(scratch + share * static_cast<size_t>(i));
        float* m = v + points * (at_once * inputs + kMore);
        for (int64_t block = blocks * i / shares; block < blocks * (i + 1) / shares; ++block) {
          const int64_t first = tiles * block / blocks, count = tiles * (block + 1) / blocks - first;
          transform(first, count, 0, count, v);
          multiply(count, 0, points * panels, v, m);
          finish(first, count, 0, count, m);
        }
      }
    });
  };
}

}  // namespace ephost::cpu
