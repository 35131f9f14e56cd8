#include "cpu/engines/conv/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace ephost::cpu {
namespace {

std::string key_of(const WinogradForm& form) { return std::string("winograd ") + form.name; }

size_t point_size(int64_t inputs, int64_t outputs) {
  const int64_t panel = simd().panel;
  return static_cast<size_t>((outputs + panel - 1) / panel * panel * inputs);
}

struct Transformed {
  std::shared_ptr<void> memory;
};

int64_t parts_of(int64_t n, int64_t step) { return (n + step - 1) / step; }

// One dimension of a convolution, which may have gaps between its taps: every `step`-th output, and every
// `step`-th input, is one without gaps. There are as many of these as the gap is long, of about the same
// size.
class Axis {
 public:
  // Of a window, or one without a size where the window has no such dimension.
  Axis(const Window& window, std::optional<size_t> d, int64_t tile) : tile_(tile) {
    if (d.has_value()) {
      step_ = window.kernel[*d] == 1 ? 1 : window.dilations[*d];
      in_ = window.in[*d];
      out_ = window.out[*d];
      begin_ = window.begin[*d];
    }
    phases_ = std::min(step_, out_);
    tiles_ = parts_of(parts_of(out_, step_), tile);
  }

  int64_t step() const { return step_; }
  int64_t out() const { return out_; }
  int64_t tiles() const { return tiles_ * phases_; }  // Of all phases, one phase after the other.
  // Tiles of one phase from this one on.
  int64_t left(int64_t at) const { return tiles_ - at % tiles_; }

  // Where a tile's outputs are: first + step * (start + i), in a line of `size` such. They may be none.
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
  int64_t step_ = 1, in_ = 1, out_ = 1, begin_ = 0, tile_, phases_ = 1, tiles_ = 1;
};

// Which dimension of a window is which side of a tile. A kernel that is a line lies along the second.
std::array<std::optional<size_t>, 2> sides_of(const Window& window) {
  if (window.rank() == 1) return {std::nullopt, 0};
  if (window.kernel[0] != 1 && window.kernel[1] == 1) return {1, 0};
  return {0, 1};
}

Axis axis(const Window& window, const WinogradForm& form, size_t side) {
  return {window, sides_of(window)[side], form.outputs[side]};
}

}  // namespace

const WinogradForm* winograd_form(const ConvProblem& problem) {
  const Window& w = problem.window;
  const int64_t outputs = problem.weights[0], inputs = problem.weights[1];
  const bool has_steps = std::any_of(w.strides.begin(), w.strides.end(), [](int64_t s) { return s != 1; });
  if (w.rank() < 1 || w.rank() > 2 || problem.groups != 1 || has_steps || inputs % 8 != 0 ||
      outputs % 8 != 0 || inputs < 16 ||
      // A panel that is mostly empty takes as long as a full one.
      outputs < 16 || outputs * 4 < simd().panel * 3) {
    return nullptr;
  }
  const auto [first, second] = sides_of(w);
  const int64_t taps[2] = {first.has_value() ? w.kernel[*first] : 1, w.kernel[*second]};
  // A line saves less, which few channels lose to the transformations.
  if (taps[0] == 1 && (inputs < 32 || outputs < 32)) return nullptr;
  // Large tiles for small weights.
  const bool large = inputs * outputs <= 128 * 192;
  const auto found =
      std::find_if(std::begin(kWinogradForms), std::end(kWinogradForms), [&](const auto& form) {
        return form.taps[0] == taps[0] && form.taps[1] == taps[1] && (form.tiles != kTiles4x4Of3x3 || large);
      });
  return found == std::end(kWinogradForms) ? nullptr : found;
}

bool winograd_worth(const ConvProblem& problem, const WinogradForm& form) {
  // Tiles at the end of a side are done whole.
  double whole = 1, used = 1;
  for (size_t side = 0; side < 2; ++side) {
    const Axis along = axis(problem.window, form, side);
    whole *= static_cast<double>(along.tiles() * form.outputs[side]);
    used *= static_cast<double>(along.out());
  }
  const double tiles = whole / (form.outputs[0] * form.outputs[1]) * static_cast<double>(problem.source[0]);
  // The transformed weights are more, of large tiles four times as many: for few tiles the other way is done
  // before they are read.
  const double least = form.tiles == kTiles4x4Of3x3 ? 9 : 12;
  return tiles >= least && used / whole > 0.6;
}

bool has_winograd_weights(const TensorPtr& constant, const WinogradForm& form) {
  const std::lock_guard lock(constant->packed_mutex);
  return constant->packed.count(key_of(form)) != 0;
}

std::shared_ptr<void> winograd_weights(const TensorPtr& constant, const WinogradForm& form) {
  return Prepare::packed<Transformed>(
             constant, key_of(form),
             [&] {
               if (constant->data == nullptr) {
                 fail("a weight is gone before it was packed");
               }
               const int64_t outputs = constant->dims[0], inputs = constant->dims[1];
               const int64_t taps = form.taps[0] * form.taps[1];
               const size_t size = point_size(inputs, outputs);
               auto made = std::make_shared<Transformed>();
               made->memory = allocate_lasting(size * static_cast<size_t>(form.points()) * sizeof(float));
               float* memory = static_cast<float*>(made->memory.get());
               const float* weights = constant->as<float>();
               const int64_t panel = simd().panel;
               parallel_for((outputs + 7) / 8, 1, [&](int64_t eight, int64_t end) {
                 for (; eight < end; ++eight) {
                   float* to = memory + eight * 8 / panel * inputs * panel + eight * 8 % panel;
                   simd().winograd[form.tiles].weights({weights + eight * 8 * inputs * taps, inputs * taps,
                                                        inputs, to, panel, static_cast<int64_t>(size)});
                 }
                 // The last panel may be half empty; what is there is multiplied, and forgotten.
                 for (int64_t point = 0; end * 8 == outputs && point < form.points(); ++point) {
                   float* room =
                       memory + static_cast<size_t>(point) * size + outputs / panel * panel * inputs;
                   for (int64_t i = 0; i < inputs && outputs % panel != 0; ++i, room += panel) {
                     for (int64_t o = outputs % panel; o < panel; o += 8) std::fill_n(room + o, 8, 0.0f);
                   }
                 }
               });
               return made;
             })
      ->memory;
}

namespace {

// Taps of a line, `step` apart, from its points as weights_line in simd/winograd_float.cc makes them.
void original_line(int points, int taps, const float* u, float* g, int step) {
  if (points == 1) {
    g[0] = u[0];
    return;
  }
  // Of the points the first holds the first tap alone, the last the last, the two behind the first the sums
  // of the even and the odd taps.
  const float even = -3.0f * (u[1] + u[2]);  // Of six points.
  const float odd = points == 6 ? 3.0f * (u[2] - u[1]) : u[1] - u[2];
  g[0] = points == 6 ? 4.0f * u[0] : u[0];
  g[(taps - 1) * step] = u[points - 1];
  g[(taps == 5 ? 2 : 1) * step] = taps == 5 ? even - g[0] - g[4 * step] : odd;
  if (taps == 5) {
    const float far = 6.0f * (u[3] - u[4]);  // The second tap and four times the fourth.
    g[3 * step] = (far - odd) / 3.0f;
    g[step] = odd - g[3 * step];
  }
}

}  // namespace

TensorPtr winograd_original(const TensorPtr& constant, const WinogradForm& form) {
  const float* memory = static_cast<const float*>(winograd_weights(constant, form).get());
  const int64_t outputs = constant->dims[0], inputs = constant->dims[1], panel = simd().panel;
  const int high = form.points(0), wide = form.points(1), tall = form.taps[0], broad = form.taps[1];
  const size_t size = point_size(inputs, outputs);
  TensorPtr made = make_tensor(DType::kFloat, constant->dims);
  float* weights = static_cast<float*>(mutable_data(made));
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i, weights += tall * broad) {
      const float* from = memory + (o / panel * inputs + i) * panel + o % panel;
      float lines[6][5], points[6], column[6];
      for (int r = 0; r < high; ++r) {
        for (int c = 0; c < wide; ++c) points[c] = from[static_cast<size_t>(r * wide + c) * size];
        original_line(wide, broad, points, lines[r], 1);
      }
      for (int c = 0; c < broad; ++c) {
        for (int r = 0; r < high; ++r) column[r] = lines[r][c];
        original_line(high, tall, column, weights + c, broad);
      }
    }
  }
  return made;
}

Kernel winograd(Prepare& p, const ConvProblem& problem, const WinogradForm& form, Layout layout, bool biased,
                const PostOps& post_ops, int operands) {
  const int64_t inputs = problem.weights[1], outputs = problem.weights[0];
  // From one pixel to the next along each side.
  const Axis first_side = axis(problem.window, form, 0), second_side = axis(problem.window, form, 1);
  const bool upright = sides_of(problem.window)[1] == 0 && problem.window.rank() == 2;
  const int64_t pixels_in = count(problem.window.in), pixels_out = count(problem.window.out);
  const int64_t width = problem.window.in.back(), out_width = problem.window.out.back();
  const int64_t in_steps[2] = {upright ? 1 : width, upright ? width : 1};
  const int64_t out_steps[2] = {upright ? 1 : out_width, upright ? out_width : 1};
  const int64_t down = first_side.tiles(), across = second_side.tiles();
  const int64_t tiles = problem.source[0] * down * across, points = form.points();
  const int64_t threads = std::max(1, p.threads());
  const std::shared_ptr<void> weights = winograd_weights(p.constant(1), form);
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
  const int64_t in_block = last ? 8 : pixels_in * 8, out_block = last ? 8 : pixels_out * 8;
  const WinogradTransforms& transforms = simd().winograd[form.tiles];
  const int64_t rows_of_tile = form.outputs[0], columns_of_tile = form.outputs[1];
  const int ends = p.inputs();
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
        const Axis::Part row = first_side.inputs(at / across % down),
                         column = second_side.inputs(at % across);
        const bool empty = row.size == 0 || column.size == 0;
        const int64_t pixel = empty ? 0 : row.first * in_steps[0] + column.first * in_steps[1];
        transforms.input({x + (n * pixels_in * inputs) + pixel * in_pixel, in_block,
                          in_pixel * in_steps[0] * first_side.step(),
                          in_pixel * in_steps[1] * second_side.step(), inputs / 8, row.size, column.size,
                          row.start, column.start, v + t * inputs, count * inputs + kMore});
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
        const Axis::Part row = first_side.outputs(at / across % down),
                         column = second_side.outputs(at % across);
        const bool empty = row.size == 0 || column.size == 0;
        const int64_t pixel = empty ? 0 : row.first * out_steps[0] + column.first * out_steps[1];
        transforms.output({m + t * outputs, count * outputs + kMore, bias,
                           y + (n * pixels_out * outputs) + pixel * out_pixel, out_block,
                           out_pixel * out_steps[0] * first_side.step(),
                           out_pixel * out_steps[1] * second_side.step(), outputs / 8, row.size, column.size,
                           row.start, column.start});
      }
      if (epilogue.empty()) {
        return;
      }
      // Tiles side by side make lines of pixels, without a gap if taps have none and lines lie so in memory.
      const int64_t step = out_steps[1] * second_side.step();
      for (int64_t t = begin; t < end;) {
        const int64_t at = first + t, n = at / across / down;
        const int64_t side_by_side = std::min(end - t, second_side.left(at % across));
        const Axis::Part row = first_side.outputs(at / across % down),
                         column = second_side.outputs(at % across);
        const int64_t pixels = std::min(column.size - column.start, side_by_side * columns_of_tile);
        const int64_t bottom = std::min(row.size, row.start + rows_of_tile);
        const int64_t runs = step > 1 ? pixels : std::min<int64_t>(1, pixels), run = step > 1 ? 1 : pixels;
        for (int64_t block = 0; block < (last ? 1 : outputs / 8); ++block) {
          for (int64_t line = row.start; line < bottom; ++line) {
            for (int64_t i = 0; i < runs; ++i) {
              const int64_t pixel = (row.first + line * first_side.step()) * out_steps[0] +
                                    column.first * out_steps[1] + (column.start + i) * step;
              epilogue.run(y, others, n * pixels_out * outputs + block * out_block + pixel * out_pixel,
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
