// Conv and ConvTranspose: float32 by the implementations of engines/conv, with the activations and additions
// that passes put into "ephost.Conv"; float64 by plain loops.
#include "cpu/engines/as_float.h"
#include "cpu/engines/conv/implementations.h"
#include "cpu/engines/conv/loops.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

Kernel conv(Prepare& p, const ConvProblem& c) {
  p.expect(p.type(1) == p.type(0), "input and weights have different types");
  p.expect(!c.biased || p.in(2).count() == c.target[1], "the bias has not one element for each channel");
  if (count(c.target) == 0) {
    p.out(0, p.type(0), c.target);
    return [](const Args&) {};
  }
  if (p.type(0) == DType::kFloat) {
    return make_convolution(p, c, post_ops_of(p.node));
  }
  for (int i = 0; i < p.inputs(); ++i) {
    if (p.has(i) && p.dims(i).size() >= 2) p.require(i, Layout::kPlain);
  }
  p.out(0, p.type(0), c.target);
  return conv_loops<double>(c, nullptr);
}

bool packs(const Node& node, size_t i) {
  const Value* w = node.in(1);
  return i == 1 && w->type == DType::kFloat && w->constant != nullptr && w->constant->dims.size() >= 3 &&
         w->constant->dims.size() <= 5 && count(w->constant->dims) > 0;
}

bool pack(const Node& node) {
  const TensorPtr& w = node.in(1)->constant;
  const bool transposed = node.type == "ConvTranspose";
  const int64_t groups = node.i("group", 1);
  if (groups < 1 || w->dims[0] % groups != 0) return false;  // The run will say what is wrong.
  // Images of a usual size, where nothing is known of them: larger than what the kernel spans.
  const Value& x = *node.inputs[0];
  Dims source = w->dims;
  source[0] = 1;
  source[1] = transposed ? w->dims[0] : w->dims[1] * groups;
  const Dims gaps = node.ints("dilations", Dims(w->dims.size() - 2, 1));
  for (size_t i = 2; i < source.size(); ++i) {
    constexpr int64_t kMost = int64_t{1} << 30;
    const int64_t gap = i - 2 < gaps.size() ? std::clamp<int64_t>(gaps[i - 2], 1, kMost) : 1;
    const int64_t span = std::min(w->dims[i], kMost) * gap;
    const bool known = x.has_shape && x.dims.size() == source.size() && x.dims[i] > 0;
    source[i] = known ? x.dims[i] : 56 + 4 * span;
  }
  ConvProblem c;
  try {
    c = transposed ? transposed_convolution(node, source, w->dims) : convolution(node, source, w->dims);
  } catch (const Error&) {
    return false;  // The run will say what is wrong.
  }
  return pack_convolution(w, c, post_ops_of(node));
}

}  // namespace

const Registration registration([](Registry* registry) {
  const auto forward =
      with_halves([](Prepare& p) { return conv(p, convolution(p.node, p.dims(0), p.dims(1))); });
  const auto backward =
      with_halves([](Prepare& p) { return conv(p, transposed_convolution(p.node, p.dims(0), p.dims(1))); });
  for (const char* domain : {"", "ephost"}) {
    for (const bool transposed : {false, true}) {
      registry->add({.domain = domain,
                     .type = transposed ? "ConvTranspose" : "Conv",
                     .prepare = transposed ? backward : forward,
                     .packs = packs,
                     .pack = pack,
                     .types = kFloats,
                     .any_layout = true});
    }
  }
});

}  // namespace ephost::cpu
