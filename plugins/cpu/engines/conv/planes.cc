#include "cpu/engines/conv/planes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace ephost::cpu {
namespace {

constexpr int64_t kMostInputs = 4, kMostLines = 512;     // Of an output channel.
constexpr int64_t kFewOutputs = 8, kMostWeights = 8192;  // Of a tap of transposed ones.
constexpr int64_t kMostSets = 4096;

// One dimension. Output o is the sum of taps k of inputs q: where q = o * step + k * gap - begin, or, in a
// transposed convolution, where q * step + k * gap = o + begin. There outputs of the same rest
// (o + begin) % step have the same taps, and are a set.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, step = 1, gap = 1, begin = 0;
  bool transposed = false;

  int64_t sets() const { return transposed ? step : 1; }
  int64_t set(int64_t o) const { return transposed ? ((o + begin) % step + step) % step : 0; }
  // Of a set: its first tap, and how many there are, `each` apart.
  int64_t each() const { return transposed ? step / std::gcd(step, gap) : 1; }
  int64_t first(int64_t set) const {
    if (!transposed) return 0;
    int64_t k = 0;
    while (k < each() && k * gap % step != set) ++k;
    return k < each() ? k : kernel;
  }
  int64_t taps(int64_t set) const {
    const int64_t k = first(set);
    return k >= kernel ? 0 : (kernel - k - 1) / each() + 1;
  }
  int64_t most_taps() const { return (kernel - 1) / each() + 1; }
  // Its first output, and how many there are.
  int64_t output(int64_t set) const { return transposed ? ((set - begin) % step + step) % step : 0; }
  int64_t outputs(int64_t set) const { return output(set) >= out ? 0 : (out - output(set) - 1) / sets() + 1; }
  // The input under an output's first tap, and from a tap to the next one.
  int64_t input(int64_t o) const {
    return transposed ? (o + begin - first(set(o)) * gap) / step : o * step - begin;
  }
  int64_t ahead() const { return transposed ? -gap / std::gcd(step, gap) : gap; }
};

using Axes = std::array<Axis, 3>;  // Those that are missing come first.

Axes axes_of(const ConvProblem& c) {
  Axes axes;
  const Window& w = c.window;
  for (size_t d = 0; d < w.rank(); ++d) {
    axes[axes.size() - w.rank() + d] = {w.in[d],        w.out[d],   w.kernel[d], w.strides[d],
                                        w.dilations[d], w.begin[d], c.transposed};
  }
  return axes;
}

// The weights of each set of outputs, which three numbers name: [groups][outputs][inputs][taps][taps][taps],
// those of the last axis in the order of the inputs.
struct Form {
  Axes axes;
  int64_t groups, inputs, outputs;  // Inputs and outputs of a group.
  std::vector<int64_t> begins;      // Of each set.

  explicit Form(const ConvProblem& c)
      : axes(axes_of(c)),
        groups(c.groups),
        inputs(c.transposed ? c.weights[0] / c.groups : c.weights[1]),
        outputs(c.transposed ? c.weights[1] : c.weights[0] / c.groups) {
    int64_t at = 0;
    for (int64_t z = 0; z < axes[0].sets(); ++z) {
      for (int64_t y = 0; y < axes[1].sets(); ++y) {
        for (int64_t x = 0; x < axes[2].sets(); ++x) {
          begins.push_back(at);
          at += groups * outputs * inputs * axes[0].taps(z) * axes[1].taps(y) * axes[2].taps(x);
        }
      }
    }
  }
  int64_t begin(int64_t z, int64_t y, int64_t x) const {
    return begins[static_cast<size_t>((z * axes[1].sets() + y) * axes[2].sets() + x)];
  }
  // Calls move(i, j) for each weight: i is its place in the model, j in the sets.
  template <typename Move>
  void for_each(const Move& move) const {
    const int64_t tall = axes[1].kernel, wide = axes[2].kernel, taps = axes[0].kernel * tall * wide;
    const bool transposed = axes[2].transposed;
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t k[] = {t / (tall * wide), t / wide % tall, t % wide};
      int64_t set[3] = {}, tap[3], count[3];
      for (size_t d = 0; d < 3; ++d) {
        if (transposed) set[d] = k[d] * axes[d].gap % axes[d].step;
        tap[d] = k[d] / axes[d].each();
        count[d] = axes[d].taps(set[d]);
      }
      if (transposed) tap[2] = count[2] - 1 - tap[2];
      const int64_t place = (tap[0] * count[1] + tap[1]) * count[2] + tap[2];
      const int64_t start = begin(set[0], set[1], set[2]), each = count[0] * count[1] * count[2];
      for (int64_t g = 0; g < groups; ++g) {
        for (int64_t i = 0; i < inputs; ++i) {
          for (int64_t o = 0; o < outputs; ++o) {
            const int64_t from = transposed ? (g * inputs + i) * outputs + o : (g * outputs + o) * inputs + i;
            move(from * taps + t, start + ((g * outputs + o) * inputs + i) * each + place);
          }
        }
      }
    }
  }
};

struct Weights {
  std::shared_ptr<void> memory;
};

std::string key_of(const ConvProblem& c) {
  if (!c.transposed) return "planes";
  return "transposed planes of " + std::to_string(c.groups) + " in steps of " + to_string(c.window.strides) +
         " with gaps of " + to_string(c.window.dilations);
}

// Of a row's outputs those of one set: which is the first, how many there are, and where in the row of the
// input their taps begin.
struct Set {
  int64_t taps, output, outputs, start;
};

// Brings the sets, which lie `distance` apart, to their places in a row.
void spread(const float* from, int64_t distance, const std::vector<Set>& sets, float* __restrict to) {
  const int64_t step = static_cast<int64_t>(sets.size());
  if (step == 1) {
    std::copy_n(from, sets[0].outputs, to);
  } else if (step == 2 && sets[0].outputs == sets[1].outputs) {
    const bool turned = sets[0].output != 0;
    const float *a = from + (turned ? distance : 0), *b = from + (turned ? 0 : distance);
    for (int64_t i = 0; i < sets[0].outputs; ++i) {
      to[2 * i] = a[i];
      to[2 * i + 1] = b[i];
    }
  } else {
    for (const Set& set : sets) {
      for (int64_t i = 0; i < set.outputs; ++i) to[set.output + i * step] = from[i];
      from += distance;
    }
  }
}

// Rows of the output that are computed as one, where they are of the same set: those of the input under them
// follow each other, too, with the zeros between them.
struct Block {
  int64_t set, taps, output, rows, input;
};

// How far inputs under an axis' outputs reach over its ends.
struct Reach {
  int64_t before = 0, behind = 0;

  explicit Reach(const Axis& axis) {
    for (int64_t o = 0; o < axis.out; ++o) {
      const int64_t taps = axis.taps(axis.set(o));
      if (taps == 0) continue;
      const int64_t one = axis.input(o), other = one + (taps - 1) * axis.ahead();
      before = std::max(before, -std::min(one, other));
      behind = std::max(behind, std::max(one, other) + 1 - axis.in);
    }
  }
};

std::vector<Block> blocks_of(const Axis& axis, int64_t rows) {
  std::vector<Block> blocks;
  for (int64_t set = 0; set < axis.sets(); ++set) {
    const int64_t all = axis.outputs(set), parts = (all + rows - 1) / rows;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = all * part / parts, o = axis.output(set) + begin * axis.sets();
      blocks.push_back({set, axis.taps(set), o, all * (part + 1) / parts - begin, axis.input(o)});
    }
  }
  return blocks;
}

}  // namespace

bool is_planes(const ConvProblem& c) {
  if (c.weights.size() < 3 || c.weights.size() > 5) return false;
  int64_t sets = 1;
  for (size_t d = 0; d < c.window.rank() && c.transposed && sets <= kMostSets; ++d)
    sets *= c.window.strides[d];
  if (sets > kMostSets) return false;
  const Form form(c);
  const int64_t lines = form.inputs * form.axes[0].most_taps() * form.axes[1].most_taps();
  if (lines > kMostLines) return false;
  if (!c.transposed) return form.inputs <= kMostInputs && c.window.strides.back() == 1;
  // Others leave few outputs' vectors empty, and in three dimensions copy windows.
  const bool has_steps =
      std::any_of(c.window.strides.begin(), c.window.strides.end(), [](int64_t step) { return step != 1; });
  return form.inputs <= kMostInputs || form.outputs < kFewOutputs ||
         (has_steps && c.window.rank() == 3 && form.inputs * form.outputs <= kMostWeights);
}

bool has_plane_weights(const TensorPtr& constant, const ConvProblem& c) {
  const std::lock_guard lock(constant->packed_mutex);
  return constant->packed.count(key_of(c)) != 0;
}

std::shared_ptr<void> plane_weights(const TensorPtr& constant, const ConvProblem& c) {
  const auto make = [&] {
    if (constant->data == nullptr) fail("a weight is gone before it was packed");
    auto made = std::make_shared<Weights>();
    made->memory = allocate_lasting(constant->bytes());
    const float* const from = constant->as<float>();
    float* const to = static_cast<float*>(made->memory.get());
    Form(c).for_each([&](int64_t i, int64_t j) { to[j] = from[i]; });
    return made;
  };
  return Prepare::packed<Weights>(constant, key_of(c), make)->memory;
}

TensorPtr plane_original(const TensorPtr& constant, const ConvProblem& c) {
  const float* const from = static_cast<const float*>(plane_weights(constant, c).get());
  TensorPtr made = make_tensor(DType::kFloat, constant->dims);
  float* const to = static_cast<float*>(mutable_data(made));
  Form(c).for_each([&](int64_t i, int64_t j) { to[i] = from[j]; });
  return made;
}

Kernel planes(Prepare& p, const ConvProblem& c, const PostOps& post_ops, int operands) {
  for (int i = operands; i < p.inputs(); ++i) p.require(i, Layout::kPlain);
  p.require(0, Layout::kPlain);
  p.out(0, DType::kFloat, c.target, Layout::kPlain);
  const std::shared_ptr<void> weights = plane_weights(p.constant(1), c);
  const Form form(c);
  const Axis &deep = form.axes[0], &tall = form.axes[1], &wide = form.axes[2];
  const int64_t inputs = form.inputs, outputs = form.outputs, groups = form.groups, batch = c.source[0];

  // Rows of the input with zeros at their ends, as far as taps reach.
  const Reach reach(wide), reach_y(tall);
  const int64_t padded = reach.before + wide.in + reach.behind;
  std::vector<Set> sets;
  int64_t longest = 0;
  for (int64_t set = 0; set < wide.sets(); ++set) {
    const int64_t taps = wide.taps(set), o = wide.output(set);
    const int64_t back = wide.transposed ? (taps - 1) * wide.ahead() : 0;  // To the first of the row.
    sets.push_back({taps, o, wide.outputs(set), taps == 0 ? 0 : reach.before + wide.input(o) + back});
    longest = std::max(longest, wide.outputs(set));
  }
  // Short rows are computed together, with what lies between them, unless that is much, or the zeros are that
  // are then above and below them.
  constexpr int64_t kShort = 48, kTogether = 256, kRoom = 1 << 15;
  const int64_t most = std::min(kTogether, kRoom / (wide.sets() * outputs)) / padded;
  const bool zeros_are_few = 8 * (reach_y.before + reach_y.behind) <= tall.in + 8;
  const bool together = (longest <= kShort || (padded == longest && longest <= 2 * kShort)) && most > 1 &&
                        (c.transposed || tall.step == 1) && zeros_are_few;
  const std::vector<Block> blocks = blocks_of(tall, together ? most : 1), slices = blocks_of(deep, 1);
  const int64_t above = together ? reach_y.before : 0,
                height = above + tall.in + (together ? reach_y.behind : 0);
  int64_t width = 0, least = kPlaneWidth;
  for (const Block& block : blocks) {
    const int64_t here = (block.rows - 1) * padded + longest;
    width = std::max(width, here);
    least = std::min(least, here);
  }
  width = std::max(width, kPlaneWidth);
  // The last row may be read further than it is long, where it is short.
  const bool copies = padded != wide.in || height != tall.in || least < kPlaneWidth;
  const int64_t images = batch * c.source[1] * deep.in, padding = copies ? kPlaneWidth : 0;
  const int64_t copied = copies ? images * height * padded + padding : 0;
  const bool direct = sets.size() == 1 && !together && wide.out >= kPlaneWidth;
  const int64_t room = direct ? 0 : wide.sets() * outputs * width;
  p.scratch(static_cast<size_t>(copied + room * std::max(1, p.threads())) * sizeof(float));

  const int64_t plane = deep.out * tall.out * wide.out;
  const int64_t work = outputs * inputs * deep.most_taps() * tall.most_taps() * wide.kernel * width / 16;
  const RowEpilogue epilogue(post_ops);
  const int ends = p.inputs();
  return [=, biased = c.biased](const Args& args) {
    const Axis &z_axis = form.axes[0], &y_axis = form.axes[1], &x_axis = form.axes[2];
    const float *x = args.in<float>(0), *bias = biased ? args.in<float>(2) : nullptr;
    float *const y = args.out<float>(0), *const rooms = args.scratch<float>() + copied;
    const float* others[16] = {};
    for (int i = operands; i < ends; ++i) others[i - operands] = args.in<float>(i);
    if (copies) {
      float* const lines = args.scratch<float>();
      parallel_for(images * height, std::max<int64_t>(1, kGrain / (padded + 1)), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          float* const to = lines + i * padded;
          const int64_t at = i % height - above;
          if (at < 0 || at >= y_axis.in) {
            std::fill(to, to + padded, 0.0f);
            continue;
          }
          std::fill(to, to + reach.before, 0.0f);
          std::copy_n(x + (i / height * y_axis.in + at) * x_axis.in, x_axis.in, to + reach.before);
          std::fill(to + reach.before + x_axis.in, to + padded, 0.0f);
        }
      });
      std::fill_n(lines + copied - padding, padding, 0.0f);
      x = lines;
    }
    const int64_t tall_blocks = static_cast<int64_t>(blocks.size()), depth = z_axis.out;
    const int64_t ahead_z = z_axis.ahead(), ahead_y = y_axis.ahead(), step_y = y_axis.sets();
    const int64_t dilation = std::abs(x_axis.ahead());
    const auto compute = [&](int64_t image_and_group, const Block& slice, const Block& block, float* mine) {
      const float *under[kMostLines], *from[kMostLines];
      const int64_t group = image_and_group % groups;
      PlaneRow row{};
      row.from = from;
      row.dilation = dilation;
      row.channels = outputs;
      row.bias = bias == nullptr ? nullptr : bias + group * outputs;
      row.width = direct ? x_axis.out : std::max(kPlaneWidth, (block.rows - 1) * padded + longest);
      row.plane = direct ? plane : row.width;
      for (int64_t k = 0; k < inputs; ++k) {
        for (int64_t i = 0; i < slice.taps; ++i) {
          const int64_t in_z = slice.input + i * ahead_z;
          const bool inside = in_z >= 0 && in_z < z_axis.in;
          for (int64_t j = 0; j < block.taps; ++j) {
            const int64_t in_y = above + block.input + j * ahead_y;
            const int64_t line = ((image_and_group * inputs + k) * z_axis.in + in_z) * height + in_y;
            under[row.lines++] = inside && in_y >= 0 && in_y < height ? x + line * padded : nullptr;
          }
        }
      }
      const int64_t place =
          image_and_group * outputs * plane + (slice.output * y_axis.out + block.output) * x_axis.out;
      for (size_t i = 0; i < sets.size(); ++i) {
        const Set& set = sets[i];
        for (int64_t k = 0; k < row.lines; ++k) {
          from[k] = under[k] == nullptr ? nullptr : under[k] + set.start;
        }
        row.taps = set.taps;
        row.weights = static_cast<const float*>(weights.get()) +
                      form.begin(slice.set, block.set, static_cast<int64_t>(i)) +
                      group * outputs * row.lines * row.taps;
        row.y = direct ? y + place : mine + static_cast<int64_t>(i) * outputs * row.width;
        simd().plane_row(row);
      }
      if (direct && epilogue.empty()) return;
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t i = 0; i < block.rows; ++i) {
          const int64_t to = place + o * plane + i * step_y * x_axis.out;
          if (!direct) spread(mine + o * row.width + i * padded, outputs * row.width, sets, y + to);
          if (!epilogue.empty()) epilogue.run(y, others, to, x_axis.out);
        }
      }
    };
    parallel_for(
        batch * groups * depth * tall_blocks, std::max<int64_t>(1, kGrain / (work + 1)),
        [&](int64_t i, int64_t end) {
          float* const mine = rooms + room * thread_rank();
          int64_t block = i % tall_blocks, slice = i / tall_blocks % depth, image = i / tall_blocks / depth;
          for (; i < end; ++i) {
            compute(image, slices[static_cast<size_t>(slice)], blocks[static_cast<size_t>(block)], mine);
            if (++block < tall_blocks) continue;
            block = 0;
            if (++slice < depth) continue;
            slice = 0;
            ++image;
          }
        });
  };
}

}  // namespace ephost::cpu
