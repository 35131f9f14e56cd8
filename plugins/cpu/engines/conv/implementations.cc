#include "cpu/engines/conv/implementations.h"

#include "cpu/engines/conv/depthwise.h"
#include "cpu/engines/conv/loops.h"
#include "cpu/engines/conv/matrices.h"
#include "cpu/engines/conv/planes.h"
#include "cpu/engines/conv/transposed.h"
#include "cpu/engines/conv/weights.h"
#include "cpu/engines/conv/winograd.h"

namespace ephost::cpu {
namespace {

constexpr int kOperands = ConvTask::kOperands;

// Whether the epilogue's operands are all as large as the output.
bool operands_fill(const ConvTask& task) {
  for (int i = kOperands; i < task.p.inputs(); ++i) {
    if (task.p.dims(i) != task.problem.target) return false;
  }
  return true;
}

// ---- What takes everything: oneDNN where the plugin is built with it, else products of matrices

#ifdef EPHOST_ONEDNN
OtherWay other_way(const ConvProblem& c) { return ask_onednn(c); }
OtherWay other_way(const ConvTask& task) {
  if (!task.at_once()) return ask_onednn(task.p, task.problem, task.post_ops, kOperands);
  OtherWay way;  // As without oneDNN.
  way.problem = turned(task.problem);
  way.fused = operands_fill(task);
  way.good = way.by_matrices = true;
  way.source = way.target = Layout::kChannelsLast;
  return way;
}
bool has_other_weights(const TensorPtr& weights, const ConvProblem& c) {
  return has_onednn_weights(weights, c);
}
// Its kernels for 3x3 taps of single channels, unless a function follows that takes exponentials. In three
// dimensions it copies windows.
bool is_quicker_by_channels(const ConvProblem& c, const PostOps& post_ops) {
  return c.weights[1] == 1 && c.weights.size() < 5 && count(c.window.kernel) <= 9 &&
         first_slow(post_ops, c) == post_ops.size();
}
#else
OtherWay other_way(const ConvProblem& c) {
  OtherWay way;
  way.problem = c;
  return way;
}
OtherWay other_way(const ConvTask& task) {
  OtherWay way;
  way.problem = turned(task.problem);
  way.fused = operands_fill(task);
  return way;
}
bool has_other_weights(const TensorPtr& weights, const ConvProblem& c) {
  return has_matrix_weights(weights, c);
}
bool is_quicker_by_channels(const ConvProblem&, const PostOps&) { return false; }
#endif

// The layout that it would have, so that those of neighbours fit: if Winograd's method has it.
std::optional<Layout> winograd_layout(const OtherWay& other) {
  const std::optional<Layout> from = other.source;
  const bool fits = from == other.target && (from == Layout::kBlock8 || from == Layout::kChannelsLast);
  return fits ? from : std::nullopt;
}

// ---- Depthwise: each channel on its own, or small groups

// Windows over time alone, which read whole images: as they lie, without bringing their channels together.
bool is_over_time(const ConvProblem& c) {
  const Dims& kernel = c.window.kernel;
  return kernel.size() == 3 && kernel[1] == 1 && kernel[2] == 1 && c.window.strides[2] == 1;
}

bool fits_depthwise(const ConvProblem& c, const PostOps& post_ops) {
  return !c.transposed && is_depthwise(c.weights, c.groups) && !is_quicker_by_channels(c, post_ops) &&
         !is_over_time(c);
}

bool pack_depthwise(const TensorPtr& weights, const ConvProblem&) {
  depthwise_weights(weights);
  return true;
}

Kernel make_depthwise(ConvTask& task) {
  const TensorPtr weights = task.p.constant(1);
  if (weights == nullptr || (weights->data == nullptr && !has_depthwise_weights(weights)) ||
      !operands_fill(task)) {
    return nullptr;
  }
  const ConvProblem& c = task.problem;
  return depthwise(task.p, c.window, c.target, c.biased, task.post_ops, kOperands);
}

// ---- Transposed convolutions with steps, by products of matrices. oneDNN's kernels for those take long to
// make: 0.1 ms for each column of the input.

bool fits_products(const ConvProblem& c, const PostOps&) {
  return c.transposed && is_deconv(c.weights, c.window.strides, c.window.dilations, c.groups);
}

bool pack_products(const TensorPtr& weights, const ConvProblem& c) {
  deconv_weights(weights, c.window.strides);
  return true;
}

Kernel make_products(ConvTask& task) {
  const TensorPtr weights = task.p.constant(1);
  const ConvProblem& c = task.problem;
  if (weights == nullptr || c.window.begin[0] < 0 || c.window.begin.back() < 0 ||
      (weights->data == nullptr && !has_deconv_weights(weights, c.window.strides)) || !operands_fill(task)) {
    return nullptr;
  }
  return deconv(task.p, c.window, c.target, c.biased, task.post_ops, kOperands);
}

// ---- The same with next to no outputs

bool fits_dots(const ConvProblem& c, const PostOps&) {
  return c.transposed && is_dots(c.weights, c.window.strides, c.window.dilations, c.groups);
}

Kernel make_dots(ConvTask& task) {
  const TensorPtr weights = task.p.constant(1);
  const Window& window = task.problem.window;
  if (weights == nullptr || (weights->data == nullptr && !has_depthwise_weights(weights)) ||
      !operands_fill(task)) {
    return nullptr;
  }
  for (size_t d = 0; d < window.in.size(); ++d) {
    if (window.begin[d] != 0 || window.out[d] != window.in[d] * window.strides[d]) return nullptr;
  }
  return deconv_by_dots(task.p, window, task.problem.target, task.problem.biased, task.post_ops, kOperands);
}

// ---- Winograd's method, where it can take the place of what would have been done

bool fits_winograd(const ConvProblem& c, const PostOps&) {
  return !c.transposed && c.source.size() <= 5 && winograd_form(c) != nullptr;  // Turned or not.
}

bool pack_winograd(const TensorPtr& weights, const ConvProblem& given) {
  const ConvProblem c = turned(given);
  const WinogradForm& form = *winograd_form(c);
  if (has_winograd_weights(weights, form)) {
    return true;
  }
  // Long gaps leave little of an image to each of its phases.
  constexpr int64_t kLongGap = 4;
  const Dims& gaps = c.window.dilations;
  const bool long_gaps = std::any_of(gaps.begin(), gaps.end(), [](int64_t gap) { return gap > kLongGap; });
  if (has_other_weights(weights, c) || !winograd_layout(other_way(c)).has_value() ||
      (long_gaps && !winograd_worth(c, form))) {
    return false;
  }
  winograd_weights(weights, form);
  return true;
}

Kernel make_winograd(ConvTask& task) {
  const TensorPtr weights = task.p.constant(1);
  const OtherWay& other = task.other();
  const ConvProblem& c = other.problem;
  if (weights == nullptr || !other.fused || !other.good) {
    return nullptr;
  }
  const WinogradForm& form = *winograd_form(c);
  const std::optional<Layout> layout = winograd_layout(other);
  if (!layout.has_value() ||
      !(has_winograd_weights(weights, form) || (weights->data != nullptr && winograd_worth(c, form)))) {
    return nullptr;
  }
  task.p.require(0, *layout);
  for (int i = kOperands; i < task.p.inputs(); ++i) task.p.require(i, *layout);
  task.p.out(0, DType::kFloat, task.problem.target, *layout);  // Whose columns may be lines in `c`.
  return winograd(task.p, c, form, *layout, c.biased, task.post_ops, kOperands);
}

// ---- Few input channels, where windows would be copied

bool fits_planes(const ConvProblem& c, const PostOps&) { return is_planes(c); }

// Whether the other way copies windows, or computes vectors of output channels of which half are none. In
// three dimensions it loses with one or two input channels, too.
bool loses_to_planes(const OtherWay& other, const ConvProblem& c) {
  return other.by_matrices || c.weights[0] < 8 || (c.weights.size() == 5 && c.weights[1] <= 2);
}

bool pack_planes(const TensorPtr& weights, const ConvProblem& given) {
  const ConvProblem c = turned(given);
  if (!has_plane_weights(weights, given)) {
    if (!c.transposed && (has_other_weights(weights, c) || !loses_to_planes(other_way(c), c))) return false;
    plane_weights(weights, given);
  }
  return true;
}

Kernel make_planes(ConvTask& task) {
  const TensorPtr weights = task.p.constant(1);
  const ConvProblem& c = task.problem;
  if (weights == nullptr || !operands_fill(task) || (!c.transposed && !loses_to_planes(task.other(), c)) ||
      (weights->data == nullptr && !has_plane_weights(weights, c))) {
    return nullptr;
  }
  return planes(task.p, c, task.post_ops, kOperands);
}

// ---- Products of matrices, of copied windows

bool fits_matrices(const ConvProblem&, const PostOps&) { return true; }

bool pack_matrices(const TensorPtr& weights, const ConvProblem& c) {
  matrix_weights(weights, c);
  return true;
}

Kernel make_matrices(ConvTask& task) { return matrices(task.p, task.problem, task.post_ops, kOperands); }

#ifdef EPHOST_ONEDNN
// ---- Depthwise once more, where oneDNN's kernel is quicker but is not there yet

bool fits_late_depthwise(const ConvProblem& c, const PostOps&) {
  return !c.transposed && is_depthwise(c.weights, c.groups);
}

bool pack_never(const TensorPtr&, const ConvProblem&) { return false; }

Kernel make_late_depthwise(ConvTask& task) {
  const TensorPtr weights = task.p.constant(1);
  if (weights == nullptr || !task.at_once()) return nullptr;
  if (!has_depthwise_weights(weights))
    depthwise_weights(weights, original_conv_weights(weights, task.problem));
  return make_depthwise(task);
}

// ---- The same for a few pixels and more weights than the second cache has room for, of which each is read
// once: these products ask for weights ahead, and oneDNN's wait for them.

bool fits_few_pixels(const ConvProblem& c, const PostOps&) {
  constexpr int64_t kLeastWeights = 1 << 18, kMostPixels = 32;
  return !c.transposed && c.groups == 1 && count(c.window.kernel) == 1 && count(c.weights) >= kLeastWeights &&
         count(c.window.out) * c.source[0] <= kMostPixels;
}

// Where neighbours that are left to oneDNN have the same layout.
bool is_last(const OtherWay& other) {
  return other.source == Layout::kChannelsLast && other.target == Layout::kChannelsLast;
}

bool pack_few_pixels(const TensorPtr& weights, const ConvProblem& c) {
  if (!has_matrix_weights(weights, c)) {
    if (has_other_weights(weights, turned(c)) || !is_last(other_way(turned(c)))) return false;
    matrix_weights(weights, c);
  }
  return true;
}

Kernel make_few_pixels(ConvTask& task) {
  const TensorPtr weights = task.p.constant(1);
  if (weights == nullptr || !is_last(task.other()) || !operands_fill(task) ||
      (weights->data == nullptr && !has_matrix_weights(weights, task.problem))) {
    return nullptr;
  }
  return make_matrices(task);
}

// ---- oneDNN

// Its products of copied windows lose to ours: what follows them, it does number by number.
bool copies_windows(const OtherWay& other) { return !other.problem.transposed && other.by_matrices; }

bool fits_onednn(const ConvProblem& c, const PostOps&) { return c.source.size() <= 5; }

bool pack_onednn(const TensorPtr& weights, const ConvProblem& given) {
  const ConvProblem c = turned(given);
  if (!has_onednn_weights(weights, c)) {
    if (copies_windows(other_way(c))) return false;
    pack_onednn_weights(weights, c);
  }
  return true;
}

Kernel make_onednn(ConvTask& task) {
  if (task.at_once() || copies_windows(task.other())) return nullptr;
  return onednn_conv(task.p, task.problem, task.post_ops, task.other(), kOperands);
}
#endif

// ---- Plain loops

// Where there are no channels to sum, results are the bias alone.
bool fits_loops(const ConvProblem& c, const PostOps&) { return c.source[1] == 0; }

bool pack_nothing(const TensorPtr&, const ConvProblem&) { return true; }

Kernel make_loops(ConvTask& task) {
  Prepare& p = task.p;
  const ConvProblem& c = task.problem;
  p.require(0, Layout::kPlain);
  std::vector<Dims> operand_dims;
  for (int i = kOperands; i < p.inputs(); ++i) {
    operand_dims.push_back(p.require(i, Layout::kPlain).dims);
  }
  p.out(0, DType::kFloat, c.target);
  p.expect(posted(operand_dims, c.target) == c.target, "an operand is larger than the output");
  // As they are in the model, which may be gone.
  TensorPtr weights;
  if (p.constant(1) != nullptr) {
    weights = original_conv_weights(p.constant(1), c);
  }
  return [=, post_ops = task.post_ops, loops = conv_loops<float>(c, weights)](const Args& args) {
    loops(args);
    std::vector<const float*> values;
    for (size_t i = 0; i < operand_dims.size(); ++i) {
      values.push_back(args.in<float>(kOperands + static_cast<int>(i)));
    }
    apply_post_ops(post_ops, operand_dims, values, c.target, args.out<float>(0));
  };
}

constexpr ConvImplementation kImplementations[] = {
    {"loops", fits_loops, pack_nothing, make_loops},
    {"lines", fits_depthwise, pack_depthwise, make_depthwise},
    {"products", fits_products, pack_products, make_products},
    {"dots", fits_dots, pack_depthwise, make_dots},
    {"winograd", fits_winograd, pack_winograd, make_winograd},
    {"planes", fits_planes, pack_planes, make_planes},
#ifdef EPHOST_ONEDNN
    {"lines", fits_late_depthwise, pack_never, make_late_depthwise},
    {"matrices", fits_few_pixels, pack_few_pixels, make_few_pixels},
    {"onednn", fits_onednn, pack_onednn, make_onednn},
#endif
    {"matrices", fits_matrices, pack_matrices, make_matrices},
};

}  // namespace

bool ConvTask::at_once() const {
#ifdef EPHOST_ONEDNN
  // Products by which other kernels lose no more than the tenths of a millisecond that compiling one takes.
  constexpr int64_t kWorthCompiling = int64_t{1} << 25;
  const Dims& image = problem.transposed ? problem.source : problem.target;
  const int64_t pixels = count(image) / std::max<int64_t>(1, image[1]);
  return p.passing() && p.constant(1) != nullptr &&
         pixels <= kWorthCompiling * std::max(1, p.threads()) / std::max<int64_t>(1, count(problem.weights));
#else
  return false;
#endif
}

const OtherWay& ConvTask::other() {
  if (!other_.has_value()) {
    other_ = other_way(*this);
  }
  return *other_;
}

Kernel make_convolution(Prepare& p, const ConvProblem& problem, const PostOps& post_ops) {
  ConvTask task(&p, problem, post_ops);
  for (const ConvImplementation& each : kImplementations) {
    if (!each.fits(problem, post_ops)) continue;
    if (Kernel kernel = each.make(task)) {
      p.method(each.name);
      return kernel;
    }
  }
  fail(p.node.label() + ": no implementation makes a kernel");
}

bool pack_convolution(const TensorPtr& weights, const ConvProblem& problem, const PostOps& post_ops) {
  for (const ConvImplementation& each : kImplementations) {
    if (each.fits(problem, post_ops) && each.pack(weights, problem)) return true;
  }
  return false;
}

}  // namespace ephost::cpu
