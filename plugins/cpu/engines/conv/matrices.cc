#include "cpu/engines/conv/matrices.h"

#include <algorithm>
#include <cstring>

#include "cpu/engines/conv/weights.h"
#include "cpu/engines/epilogue_loops.h"
#include "cpu/engines/product.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kLeastRows = 6, kMostRows = 192;  // Pixels at a time.

// The matrices of a convolution's weights: of each group [taps * inputs][outputs], in panels.
struct Form {
  int64_t groups, inputs, outputs, taps;  // Inputs and outputs of a group.
  bool transposed;

  explicit Form(const ConvProblem& c)
      : groups(c.groups),
        inputs(c.source[1] / c.groups),
        outputs(c.target[1] / c.groups),
        taps(count(c.window.kernel)),
        transposed(c.transposed) {}
  int64_t depth() const { return taps * inputs; }
  static int64_t panel() { return simd().panel; }
  // Floats of a group's matrix.
  int64_t group() const { return (outputs + panel() - 1) / panel() * panel() * depth(); }
  size_t bytes() const { return static_cast<size_t>(groups * group()) * sizeof(float); }

  // Calls move(i, j) for each weight of a group: i is its place in the model, j in the matrices.
  template <typename Move>
  void for_each(int64_t g, const Move& move) const {
    const int64_t wide = panel();
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t i = 0; i < inputs; ++i) {
        const int64_t from =
            (transposed ? (g * inputs + i) * outputs + o : (g * outputs + o) * inputs + i) * taps;
        const int64_t to = g * group() + o / wide * wide * depth() + i * wide + o % wide;
        for (int64_t t = 0; t < taps; ++t) move(from + t, to + t * inputs * wide);
      }
    }
  }

  void pack(const float* from, float* to) const {
    const int64_t wide = panel(), panels = (outputs + wide - 1) / wide;
    // From an input to the next, and from an output.
    const int64_t row = transposed ? outputs * taps : taps, column = transposed ? taps : inputs * taps;
    parallel_for(groups * panels, std::max<int64_t>(1, kGrain / (depth() * wide + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const int64_t g = i / panels, q = i % panels;
                     const float* const first = from + g * inputs * outputs * taps + q * wide * column;
                     float* const panel = to + g * group() + q * wide * depth();
                     for (int64_t t = 0; t < taps; ++t) {
                       simd().gemm_pack(first + t, row, column, inputs, std::min(wide, outputs - q * wide),
                                        panel + t * inputs * wide);
                     }
                   }
                 });
  }
};

struct Packed {
  std::shared_ptr<void> memory;
};

std::string key_of(const ConvProblem& c) {
  return (c.transposed ? "transposed matrices of " : "matrices of ") + std::to_string(c.groups);
}

// Where the taps of pixels lie in an image of the input.
struct Taps {
  Window window;
  bool transposed;

  explicit Taps(const ConvProblem& c) : window(c.window), transposed(c.transposed) {}
  // Each window is the pixel of the same number.
  bool are_pixels() const {
    const auto all = [](const Dims& dims, int64_t value) {
      return std::all_of(dims.begin(), dims.end(), [=](int64_t d) { return d == value; });
    };
    return all(window.kernel, 1) && all(window.strides, 1) && all(window.begin, 0) && window.in == window.out;
  }
  // The columns of a line whose windows are inside of the input; none where the taps of a line do not lie
  // side by side, or so few that it is not worth a product of their own.
  std::pair<int64_t, int64_t> inside() const {
    const Window& w = window;
    constexpr int64_t kWorth = 24;
    if (transposed || w.rank() > 2 || w.dilations.back() != 1 || w.begin.back() < 0) return {0, 0};
    const int64_t step = w.strides.back(), room = w.in.back() - w.kernel.back() + w.begin.back();
    const int64_t first = (w.begin.back() + step - 1) / step,
                  end = room < 0 ? 0 : std::min(w.out.back(), room / step + 1);
    return end - first < kWorth ? std::pair<int64_t, int64_t>() : std::pair(first, end);
  }
  // The input's line under the first taps of a line of the output; -1 where some of them are outside.
  int64_t line_under(int64_t line) const {
    const Window& w = window;
    if (w.rank() == 1) return 0;
    const int64_t first = line * w.strides[0] - w.begin[0];
    return first + (w.kernel[0] - 1) * w.dilations[0] < w.in[0] ? std::max<int64_t>(first, -1) : -1;
  }
  // Those of some pixels of the output, one after the other.
  void find_all(int64_t first, int64_t last, int64_t* places) const {
    const int64_t taps = count(window.kernel), step = window.strides.back();
    for (int64_t at = first; at < last; ++at, places += taps) {
      if (at == first || !follows(at)) {
        find(at, places);
        continue;
      }
      for (int64_t t = 0; t < taps; ++t) places[t] = places[t - taps] < 0 ? -1 : places[t - taps] + step;
    }
  }
  // Whether the taps of a pixel are those of the one before it, a step further: where neither window reaches
  // over an end of its line.
  bool follows(int64_t pixel) const {
    const Window& w = window;
    const int64_t column = pixel % w.out.back(), step = w.strides.back();
    const int64_t left = (column - 1) * step - w.begin.back();
    return !transposed && column > 0 && left >= 0 &&
           left + step + (w.kernel.back() - 1) * w.dilations.back() < w.in.back();
  }
  // The input's pixel under each tap of a pixel of the output, and -1 where that is outside.
  void find(int64_t pixel, int64_t* places) const {
    const Window& w = window;
    const int64_t rank = static_cast<int64_t>(w.rank());
    int64_t n = 1;
    places[0] = 0;
    int64_t inner = count(w.out);
    // Dimension by dimension: what is known of those before is combined with each tap of this one, the last
    // first, so that nothing is overwritten before it is read.
    for (int64_t d = 0; d < rank; ++d) {
      const auto i = static_cast<size_t>(d);
      inner /= w.out[i];
      const int64_t at = pixel / inner % w.out[i];
      for (int64_t known = n; known-- > 0;) {
        const int64_t before = places[known];
        for (int64_t tap = w.kernel[i]; tap-- > 0;) {
          int64_t position;
          bool inside = before >= 0;
          if (transposed) {
            position = at + w.begin[i] - tap * w.dilations[i];
            inside = inside && position >= 0 && position % w.strides[i] == 0;
            position /= w.strides[i];
          } else {
            position = at * w.strides[i] - w.begin[i] + tap * w.dilations[i];
          }
          inside = inside && position >= 0 && position < w.in[i];
          places[known * w.kernel[i] + tap] = inside ? before * w.in[i] + position : -1;
        }
      }
      n *= w.kernel[i];
    }
  }
};

}  // namespace

bool has_matrix_weights(const TensorPtr& constant, const ConvProblem& c) {
  const std::lock_guard lock(constant->packed_mutex);
  return constant->packed.count(key_of(c)) != 0;
}

std::shared_ptr<void> matrix_weights(const TensorPtr& constant, const ConvProblem& c) {
  const TensorPtr original = has_matrix_weights(constant, c) ? nullptr : original_conv_weights(constant, c);
  const auto make = [&] {
    const Form form(c);
    auto made = std::make_shared<Packed>();
    made->memory = allocate_lasting(form.bytes());
    form.pack(original->as<float>(), static_cast<float*>(made->memory.get()));
    return made;
  };
  return Prepare::packed<Packed>(constant, key_of(c), make)->memory;
}

TensorPtr matrix_original(const TensorPtr& constant, const ConvProblem& c) {
  const Form form(c);
  const auto* const from = static_cast<const float*>(matrix_weights(constant, c).get());
  const TensorPtr made = make_tensor(DType::kFloat, constant->dims);
  auto* const to = static_cast<float*>(mutable_data(made));
  for (int64_t g = 0; g < form.groups; ++g) {
    form.for_each(g, [&](int64_t i, int64_t j) { to[i] = from[j]; });
  }
  return made;
}

Kernel matrices(Prepare& p, const ConvProblem& c, const PostOps& post_ops, int operands) {
  // The epilogue runs on pixels that were just made, if its operands are as large as the output; else on the
  // whole.
  std::vector<Dims> operand_dims;
  bool fused = true;
  for (int i = operands; i < p.inputs(); ++i) {
    operand_dims.push_back(p.dims(i));
    fused = fused && operand_dims.back() == c.target;
  }
  const Layout layout = fused ? Layout::kChannelsLast : Layout::kPlain;
  p.require(0, Layout::kChannelsLast);
  for (int i = operands; i < p.inputs(); ++i) p.require(i, layout);
  const Dims dims = fused ? c.target : posted(operand_dims, c.target);
  p.out(0, DType::kFloat, dims, layout);

  const Form form(c);
  const Taps taps(c);
  const bool pixels = taps.are_pixels();
  const std::shared_ptr<void> constant =
      p.constant(1) == nullptr ? nullptr : matrix_weights(p.constant(1), c);
  const int64_t depth = form.depth(), outputs = form.outputs, channels = c.target[1], sources = c.source[1];
  const int64_t size = count(c.window.out), in_size = count(c.window.in), threads = std::max(1, p.threads());
  // As many pixels at a time as leave room in the second cache for weights; where threads outnumber these
  // blocks, they share the groups of each, or the columns of the only one.
  const int64_t fitting = std::clamp<int64_t>((256 << 10) / (depth * 4 + 1), kLeastRows, kMostRows);
  const int64_t images = c.target[0];
  const int64_t wanted = images >= threads ? 1 : (threads + images - 1) / images;
  const int64_t rows = std::clamp<int64_t>((size + wanted - 1) / wanted, std::min(kLeastRows, size), fitting);
  const int64_t blocks = (size + rows - 1) / rows, panels = (outputs + Form::panel() - 1) / Form::panel();
  const int64_t units = form.groups > 1 ? form.groups : panels;
  const int64_t parts = std::clamp<int64_t>((threads + images * blocks - 1) / (images * blocks), 1, units);
  const auto whole = [](size_t bytes) { return (bytes + 63) & ~size_t{63}; };
  const size_t room = pixels ? 0
                             : whole(static_cast<size_t>(rows * depth) * sizeof(float)) +
                                   whole(static_cast<size_t>(rows * form.taps) * sizeof(int64_t));
  const size_t in_run = constant == nullptr ? whole(form.bytes()) : 0;
  const size_t rooms = room * static_cast<size_t>(threads);
  const size_t output = fused ? 0 : whole(static_cast<size_t>(count(c.target)) * sizeof(float));
  const bool spreads = !fused && dims != c.target;
  p.scratch(rooms + in_run + output * (spreads ? 2 : 1));
  const RowEpilogue epilogue = fused ? RowEpilogue(post_ops) : RowEpilogue();
  const int ends = p.inputs();
  const int64_t work = rows * depth * (channels / parts + 1);
  const Window& w = c.window;
  const auto [inside, inside_end] = form.groups > 1 ? std::pair<int64_t, int64_t>() : taps.inside();
  const int64_t width = w.out.back(), in_width = w.in.back(), step = w.strides.back(),
                before = w.begin.back();
  // The taps of a pixel: so many side by side, in so many lines.
  const int64_t side = w.kernel.back(), lines = form.taps / side,
                line_step = w.rank() == 2 ? in_width * w.dilations[0] : 0;
  return [=, inside = inside, inside_end = inside_end, biased = c.biased,
          target = c.target](const Args& args) {
    const Simd& table = simd();
    const float *x = args.in<float>(0), *bias = biased ? args.in<float>(2) : nullptr;
    char* const scratch = args.scratch<char>();
    auto* const y = fused ? args.out<float>(0) : reinterpret_cast<float*>(scratch + rooms + in_run);
    const float* others[16] = {};
    for (int i = operands; i < ends; ++i) others[i - operands] = args.in<float>(i);
    const auto* weights = static_cast<const float*>(constant.get());
    if (weights == nullptr) {
      auto* const made = reinterpret_cast<float*>(scratch + rooms);
      form.pack(args.in<float>(1), made);
      weights = made;
    }
    // Of n pixels from one on. `place` is the input's pixel under the first tap of the first one, where all
    // of their taps are inside and in one line; -1: they are copied from the places that `mine` has.
    const auto multiply = [&](int64_t image, int64_t first, int64_t n, int64_t group, int64_t part,
                              int64_t place, char* mine) {
      GemmBlock g{};
      g.k = depth;
      g.m = n;
      g.a_step = 1;
      g.b_step = table.panel;
      g.b_panel = table.panel * depth;
      g.c_row = channels;
      const float* from = x + (image * in_size) * sources + group * form.inputs;
      if (place >= 0) {
        from += place * sources;
        g.a_row = step * sources;
        g.k = side * form.inputs;
        g.more = lines - 1;
        g.a_jump = (line_step - side) * sources;
      } else {
        auto* const copied = reinterpret_cast<float*>(mine);
        const auto* const places = reinterpret_cast<const int64_t*>(
            mine + room - whole(static_cast<size_t>(rows * form.taps) * sizeof(int64_t)));
        float* to = copied;
        const int64_t all = n * form.taps;
        for (int64_t k = 0; k < all;) {
          // What lies side by side here and there.
          int64_t run = 1;
          while (form.inputs == sources && places[k] >= 0 && k + run < all &&
                 places[k + run] == places[k] + run)
            ++run;
          if (places[k] < 0) {
            std::fill(to, to + form.inputs, 0.0f);
          } else if (run * form.inputs == 1) {
            *to = from[places[k] * sources];
          } else {
            std::memcpy(to, from + places[k] * sources,
                        static_cast<size_t>(run * form.inputs) * sizeof(float));
          }
          k += run;
          to += run * form.inputs;
        }
        from = copied;
        g.a_row = depth;
      }
      const bool all = form.groups > 1;
      const int64_t begin = all ? 0 : panels * part / parts * table.panel,
                    end = all ? outputs : std::min(outputs, panels * (part + 1) / parts * table.panel);
      float* const to = y + (image * size + first) * channels + group * outputs;
      g.n = end - begin;
      g.a = from;
      g.b = weights + group * form.group() + begin * depth;
      g.c = to + begin;
      g.bias = bias == nullptr ? nullptr : bias + group * outputs + begin;
      gemm_in_blocks(g);
      for (int64_t row = 0; row < n && !epilogue.empty(); ++row) {
        epilogue.run(y, others, to - y + begin + row * channels, end - begin);
      }
    };
    // Groups of a block of pixels one after the other, since they have the places of taps in common.
    parallel_for(
        images * blocks * parts, std::max<int64_t>(1, 8 * kGrain / (work + 1)), [&](int64_t i, int64_t stop) {
          char* const mine = scratch + room * static_cast<size_t>(thread_rank());
          for (; i < stop; ++i) {
            const int64_t part = i % parts, block = i / parts % blocks, image = i / parts / blocks;
            const int64_t first = size * block / blocks, last = size * (block + 1) / blocks;
            const int64_t begin = form.groups > 1 ? form.groups * part / parts : 0,
                          end = form.groups > 1 ? form.groups * (part + 1) / parts : 1;
            const auto do_range = [&](int64_t at, int64_t to, int64_t place) {
              if (place < 0) {
                auto* places = reinterpret_cast<int64_t*>(
                    mine + room - whole(static_cast<size_t>(rows * form.taps) * sizeof(int64_t)));
                taps.find_all(at, to, places);
              }
              for (int64_t group = begin; group < end; ++group) {
                multiply(image, at, to - at, group, part, place, mine);
              }
            };
            if (pixels) {
              do_range(first, last, first);
              continue;
            }
            int64_t edge = first;  // Where the pixels begin that are to be copied.
            for (int64_t line = first / width; line * width < last && inside < inside_end; ++line) {
              const int64_t at = std::max(first, line * width + inside),
                            to = std::min(last, line * width + inside_end), under = taps.line_under(line);
              if (at >= to || under < 0) continue;
              if (edge < at) do_range(edge, at, -1);
              do_range(at, to, under * in_width + (at - line * width) * step - before);
              edge = to;
            }
            if (edge < last) do_range(edge, last, -1);
          }
        });
    if (fused) {
      return;
    }
    float* const out = args.out<float>(0);
    auto* const plain = spreads ? reinterpret_cast<float*>(scratch + rooms + in_run + output) : out;
    parallel_for(images * channels, std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t i, int64_t stop) {
      for (; i < stop; ++i) {
        const float* from = y + i / channels * size * channels + i % channels;
        for (int64_t at = 0; at < size; ++at) plain[i * size + at] = from[at * channels];
      }
    });
    if (spreads) {
      // As adding it to zeros does.
      std::fill(out, out + count(dims), 0.0f);
      apply_post_ops({PostOp::add()}, {target}, {plain}, dims, out);
    }
    std::vector<const float*> values(others, others + operand_dims.size());
    apply_post_ops(post_ops, operand_dims, values, dims, out);
  };
}

}  // namespace ephost::cpu
