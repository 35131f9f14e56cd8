#include "cpu/engines/conv/matrices.h"

#include <algorithm>
#include <cstring>
#include <tuple>

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

size_t whole_lines(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// A convolution of known shapes, and how its runs go about it. The output is cut into blocks of pixels.
class Products {
 public:
  // Where the weights are no constant, `weights` is null. The epilogue runs on pixels that were just made, if
  // its operands are as large as the output; else on the whole, which has the dimensions `out`.
  Products(const ConvProblem& c, std::shared_ptr<void> weights, const PostOps& post_ops,
           std::vector<Dims> operand_dims, bool fused, const Dims& out, int threads)
      : form_(c),
        taps_(c),
        weights_(std::move(weights)),
        biased_(c.biased),
        pixels_(taps_.are_pixels()),
        images_(c.target[0]),
        sources_(c.source[1]),
        channels_(c.target[1]),
        size_(count(c.window.out)),
        in_size_(count(c.window.in)) {
    // As many pixels at a time as leave room in the second cache for weights; where threads outnumber these
    // blocks, they share the groups of each, or the columns of the only one.
    const int64_t fitting = std::clamp<int64_t>((256 << 10) / (form_.depth() * 4 + 1), kLeastRows, kMostRows);
    const int64_t wanted = images_ >= threads ? 1 : (threads + images_ - 1) / images_;
    rows_ = std::clamp<int64_t>((size_ + wanted - 1) / wanted, std::min(kLeastRows, size_), fitting);
    blocks_ = (size_ + rows_ - 1) / rows_;
    const int64_t units = form_.groups > 1 ? form_.groups : panels();
    parts_ = std::clamp<int64_t>((threads + images_ * blocks_ - 1) / (images_ * blocks_), 1, units);
    if (form_.groups == 1) std::tie(inside_, inside_end_) = taps_.inside();
    if (!pixels_) {
      places_at_ = whole_lines(static_cast<size_t>(rows_ * form_.depth()) * sizeof(float));
      room_ = places_at_ + whole_lines(static_cast<size_t>(rows_ * form_.taps) * sizeof(int64_t));
    }
    weights_at_ = room_ * static_cast<size_t>(threads);
    output_at_ = weights_at_ + (weights_ == nullptr ? whole_lines(form_.bytes()) : 0);
    scratch_ = output_at_;
    if (fused) {
      epilogue_ = RowEpilogue(post_ops);
    } else {
      const size_t bytes = whole_lines(static_cast<size_t>(count(c.target)) * sizeof(float));
      plain_at_ = output_at_ + bytes;
      scratch_ += bytes * (out != c.target ? 2 : 1);
      apart_ = std::make_unique<const Apart>(Apart{post_ops, std::move(operand_dims), c.target, out});
    }
  }

  size_t scratch() const { return scratch_; }

  // Of input `operands` on, `ends` being the number of inputs, the post-ops' operands.
  void run(const Args& args, int operands, int ends) const {
    Run run;
    run.x = args.in<float>(0);
    run.bias = biased_ ? args.in<float>(2) : nullptr;
    run.scratch = args.scratch<char>();
    run.y = apart_ == nullptr ? args.out<float>(0) : reinterpret_cast<float*>(run.scratch + output_at_);
    for (int i = operands; i < ends; ++i) run.operands[i - operands] = args.in<float>(i);
    run.weights = static_cast<const float*>(weights_.get());
    if (run.weights == nullptr) {
      auto* const made = reinterpret_cast<float*>(run.scratch + weights_at_);
      form_.pack(args.in<float>(1), made);
      run.weights = made;
    }
    const int64_t work = rows_ * form_.depth() * (channels_ / parts_ + 1);
    parallel_for(images_ * blocks_ * parts_, std::max<int64_t>(1, 8 * kGrain / (work + 1)),
                 [&](int64_t i, int64_t end) {
                   char* const room = run.scratch + room_ * static_cast<size_t>(thread_rank());
                   for (; i < end; ++i) do_part(run, i, room);
                 });
    if (apart_ != nullptr) finish_apart(run, args.out<float>(0));
  }

 private:
  // What a run works on.
  struct Run {
    const float *x, *bias, *weights;
    const float* operands[16] = {};
    float* y;
    char* scratch;
  };
  // Some channels of some pixels of an image.
  struct Range {
    int64_t image, first, last;
    int64_t part;
    // The input's pixel under the first tap of the first one, where the taps of all are inside and in one
    // line; -1: they are copied.
    int64_t place;
  };
  struct Apart {
    PostOps post_ops;
    std::vector<Dims> operands;
    Dims target, out;
  };

  int64_t panels() const { return (form_.outputs + Form::panel() - 1) / Form::panel(); }

  void do_part(const Run& run, int64_t i, char* room) const {
    const int64_t block = i / parts_ % blocks_;
    Range range{i / parts_ / blocks_, size_ * block / blocks_, size_ * (block + 1) / blocks_, i % parts_, 0};
    const int64_t last = range.last;
    if (pixels_) {
      range.place = range.first;
      do_range(run, range, room);
      return;
    }
    const auto next = [&](int64_t end, int64_t place) {
      range.last = end;
      range.place = place;
      if (range.first < end) do_range(run, range, room);
      range.first = end;
    };
    const Window& w = taps_.window;
    const int64_t width = w.out.back();
    for (int64_t line = range.first / width; line * width < last && inside_ < inside_end_; ++line) {
      const int64_t begin = std::max(range.first, line * width + inside_),
                    end = std::min(last, line * width + inside_end_), under = taps_.line_under(line);
      if (begin >= end || under < 0) continue;
      next(begin, -1);
      next(end, under * w.in.back() + (begin - line * width) * w.strides.back() - w.begin.back());
    }
    next(last, -1);
  }

  // Groups one after the other, since they have the places of taps in common.
  void do_range(const Run& run, const Range& range, char* room) const {
    auto* const places = reinterpret_cast<int64_t*>(room + places_at_);
    if (range.place < 0) taps_.find_all(range.first, range.last, places);
    if (form_.groups == 1) {
      const int64_t panel = Form::panel();
      multiply(run, range, 0, panels() * range.part / parts_ * panel,
               std::min(form_.outputs, panels() * (range.part + 1) / parts_ * panel), room);
      return;
    }
    const int64_t end = form_.groups * (range.part + 1) / parts_;
    for (int64_t group = form_.groups * range.part / parts_; group < end; ++group) {
      multiply(run, range, group, 0, form_.outputs, room);
    }
  }

  // The outputs [begin, end) of a group.
  void multiply(const Run& run, const Range& range, int64_t group, int64_t begin, int64_t end,
                char* room) const {
    const Window& w = taps_.window;
    GemmBlock g{};
    g.m = range.last - range.first;
    g.n = end - begin;
    g.k = form_.depth();
    g.a = run.x + range.image * in_size_ * sources_ + group * form_.inputs;
    g.a_row = form_.depth();
    g.a_step = 1;
    if (range.place >= 0) {
      // So many taps side by side, in so many lines.
      const int64_t side = w.kernel.back(), lines = form_.taps / side,
                    line = w.rank() == 2 ? w.in.back() * w.dilations[0] : 0;
      g.a += range.place * sources_;
      g.a_row = w.strides.back() * sources_;
      g.k = side * form_.inputs;
      g.more = lines - 1;
      g.a_jump = (line - side) * sources_;
    } else {
      auto* const copied = reinterpret_cast<float*>(room);
      copy_windows(g.a, reinterpret_cast<const int64_t*>(room + places_at_), g.m * form_.taps, copied);
      g.a = copied;
    }
    g.b = run.weights + group * form_.group() + begin * form_.depth();
    g.b_step = Form::panel();
    g.b_panel = Form::panel() * form_.depth();
    g.c = run.y + (range.image * size_ + range.first) * channels_ + group * form_.outputs + begin;
    g.c_row = channels_;
    g.bias = run.bias == nullptr ? nullptr : run.bias + group * form_.outputs + begin;
    gemm_in_blocks(g);
    for (int64_t row = 0; row < g.m && !epilogue_.empty(); ++row) {
      epilogue_.run(run.y, run.operands, g.c - run.y + row * channels_, g.n);
    }
  }

  // The inputs of a group at n places, one after the other.
  void copy_windows(const float* from, const int64_t* places, int64_t n, float* to) const {
    const bool adjoin = form_.groups == 1;
    for (int64_t k = 0; k < n;) {
      // What lies side by side here and there.
      int64_t run = 1;
      while (adjoin && places[k] >= 0 && k + run < n && places[k + run] == places[k] + run) ++run;
      const int64_t floats = run * form_.inputs;
      if (places[k] < 0) {
        std::fill(to, to + floats, 0.0f);
      } else if (floats == 1) {
        *to = from[places[k] * sources_];
      } else {
        std::memcpy(to, from + places[k] * sources_, static_cast<size_t>(floats) * sizeof(float));
      }
      k += run;
      to += floats;
    }
  }

  // Turns the output around, which is in scratch memory, and does what comes behind it.
  void finish_apart(const Run& run, float* out) const {
    const bool spreads = apart_->out != apart_->target;
    auto* const plain = spreads ? reinterpret_cast<float*>(run.scratch + plain_at_) : out;
    parallel_for(images_ * channels_, std::max<int64_t>(1, kGrain / (size_ + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const float* from = run.y + i / channels_ * size_ * channels_ + i % channels_;
                     for (int64_t at = 0; at < size_; ++at) plain[i * size_ + at] = from[at * channels_];
                   }
                 });
    if (spreads) {
      // As adding it to zeros does.
      std::fill(out, out + count(apart_->out), 0.0f);
      apply_post_ops({PostOp::add()}, {apart_->target}, {plain}, apart_->out, out);
    }
    const std::vector<const float*> values(run.operands, run.operands + apart_->operands.size());
    apply_post_ops(apart_->post_ops, apart_->operands, values, apart_->out, out);
  }

  Form form_;
  Taps taps_;
  std::shared_ptr<void> weights_;
  bool biased_, pixels_;
  int64_t images_, sources_, channels_, size_, in_size_;  // Channels of the input and output; pixels of both.
  int64_t rows_, blocks_, parts_;        // Pixels of a block, blocks of an image, and parts of a block.
  int64_t inside_ = 0, inside_end_ = 0;  // See Taps::inside.
  size_t room_ = 0, places_at_ = 0;      // A thread's memory: windows, and their places.
  size_t weights_at_, output_at_, plain_at_ = 0, scratch_;
  RowEpilogue epilogue_;
  std::unique_ptr<const Apart> apart_;  // Of an epilogue that is done apart.
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
  const auto products = std::make_shared<const Products>(
      c, p.constant(1) == nullptr ? nullptr : matrix_weights(p.constant(1), c), post_ops,
      std::move(operand_dims), fused, dims, std::max(1, p.threads()));
  p.scratch(products->scratch());
  return [products, operands, ends = p.inputs()](const Args& args) { products->run(args, operands, ends); };
}

}  // namespace ephost::cpu
