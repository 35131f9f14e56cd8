// Conv and ConvTranspose: float32 on oneDNN, with the activations and additions that passes put into
// "ephost.Conv"; float64, and what oneDNN does not have, by plain loops.
#include <cmath>

#include "as_float.h"
#include "deconv.h"
#include "depthwise.h"
#include "kernels.h"
#include "post.h"
#include "tail.h"
#include "window.h"
#include "winograd.h"

namespace ephost::cpu {
namespace {

using dnn::Md;

// Inputs: x, weights, bias, operands of the posts.
constexpr int kOperands = 3;

struct Problem {
  Window window;
  Dims source, weights, target;  // As ONNX has them.
  int64_t groups = 1;
  bool transposed = false, biased = false;
  bool turned = false;  // See `turn`.
};

Problem convolution(const Node& node, const Dims& source, const Dims& weights) {
  Problem c;
  c.source = source;
  c.weights = weights;
  c.groups = node.i("group", 1);
  c.biased = node.in(2) != nullptr;
  expect(node, c.weights.size() >= 3 && c.source.size() == c.weights.size(),
         "input and weights have the same rank, at least 3");
  expect(node, c.groups > 0 && c.source[1] == c.weights[1] * c.groups && c.weights[0] % c.groups == 0,
         "the channels of input, weights and groups do not fit each other");
  c.window = window_of(node, c.source, Dims(c.weights.begin() + 2, c.weights.end()));
  c.target = {c.source[0], c.weights[0]};
  c.target.insert(c.target.end(), c.window.out.begin(), c.window.out.end());
  return c;
}

Problem transposed_convolution(const Node& node, const Dims& source, const Dims& weights) {
  Problem c;
  c.transposed = true;
  c.source = source;
  c.weights = weights;
  c.groups = node.i("group", 1);
  c.biased = node.in(2) != nullptr;
  expect(node, c.weights.size() >= 3 && c.source.size() == c.weights.size(),
         "input and weights have the same rank, at least 3");
  expect(node, c.groups > 0 && c.source[1] == c.weights[0] && c.weights[0] % c.groups == 0,
         "the channels of input, weights and groups do not fit each other");
  const size_t rank = c.weights.size() - 2;
  Window& w = c.window;
  w.in.assign(c.source.begin() + 2, c.source.end());
  w.kernel.assign(c.weights.begin() + 2, c.weights.end());
  w.strides = node.ints("strides", Dims(rank, 1));
  w.dilations = node.ints("dilations", Dims(rank, 1));
  const Dims extra = node.ints("output_padding", Dims(rank, 0));
  const Dims shape = node.ints("output_shape");
  const Dims pads = node.ints("pads", Dims(2 * rank, 0));
  expect(node,
         w.strides.size() == rank && w.dilations.size() == rank && pads.size() == 2 * rank &&
             extra.size() == rank && (shape.empty() || shape.size() >= rank),
         "strides, dilations, pads or output sizes do not fit the kernel's rank");
  const std::string mode = node.s("auto_pad", "NOTSET");
  for (size_t i = 0; i < rank; ++i) {
    expect(node, w.strides[i] > 0 && w.dilations[i] > 0 && w.kernel[i] > 0,
           "strides, dilations and kernel sizes are positive");
    const int64_t full = (w.in[i] - 1) * w.strides[i] + w.span(i) + extra[i];
    int64_t begin = pads[i], out = full - pads[i] - pads[rank + i];
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (!shape.empty() || same) {
      out = shape.empty() ? w.in[i] * w.strides[i] : shape[shape.size() - rank + i];
      const int64_t total = std::max<int64_t>(0, full - out);
      begin = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else if (mode == "VALID") {
      begin = 0;
      out = full;
    }
    expect(node, out >= 0, "the pads are larger than the output");
    w.begin.push_back(begin);
    w.end.push_back((w.in[i] - 1) * w.strides[i] + w.span(i) - begin - out);
    w.out.push_back(out);
  }
  c.target = {c.source[0], c.weights[1] * c.groups};
  c.target.insert(c.target.end(), w.out.begin(), w.out.end());
  return c;
}

// ---- Plain loops

// The weights come from `packed`, if it is not null.
template <typename T>
Kernel plain_loops(const Problem& c, const std::shared_ptr<dnn::Packed>& packed) {
  return [c, packed](const Args& args) {
    const Window& w = c.window;
    const T* x = args.in<T>(0);
    const T* weights = packed != nullptr ? static_cast<const T*>(packed->memory.get()) : args.in<T>(1);
    const T* bias = c.biased ? args.in<T>(2) : nullptr;
    T* y = args.out<T>(0);
    const size_t rank = w.rank();
    const int64_t channels = c.target[1], inputs = c.source[1];
    const int64_t group_out = channels / c.groups, group_in = inputs / c.groups;
    const int64_t out_size = count(w.out), in_size = count(w.in), taps = count(w.kernel);
    parallel_for(c.target[0] * channels * out_size, 64, [&](int64_t i, int64_t end) {
      std::vector<int64_t> at(rank), tap(rank);
      for (; i < end; ++i) {
        int64_t rest = i % out_size;
        const int64_t channel = i / out_size % channels, batch = i / out_size / channels;
        for (size_t d = rank; d-- > 0; rest /= w.out[d]) at[d] = rest % w.out[d];
        const int64_t group = channel / group_out;
        T sum = bias == nullptr ? T{} : bias[channel];
        for (int64_t k = 0; k < taps; ++k) {
          rest = k;
          for (size_t d = rank; d-- > 0; rest /= w.kernel[d]) tap[d] = rest % w.kernel[d];
          int64_t from = 0;
          bool inside = true;
          for (size_t d = 0; d < rank && inside; ++d) {
            int64_t position;
            if (c.transposed) {
              position = at[d] + w.begin[d] - tap[d] * w.dilations[d];
              inside = position >= 0 && position % w.strides[d] == 0;
              position /= w.strides[d];
            } else {
              position = at[d] * w.strides[d] - w.begin[d] + tap[d] * w.dilations[d];
            }
            inside = inside && position >= 0 && position < w.in[d];
            from = from * w.in[d] + position;
          }
          if (!inside) {
            continue;
          }
          for (int64_t j = 0; j < group_in; ++j) {
            const int64_t source = group * group_in + j;
            const int64_t weight =
                c.transposed ? source * group_out + channel % group_out : channel * group_in + j;
            sum += x[(batch * inputs + source) * in_size + from] * weights[weight * taps + k];
          }
        }
        y[i] = sum;
      }
    });
  };
}

// ---- oneDNN

struct Mds {
  Md source, weights, bias, target;
};

// The weights as oneDNN names their dimensions: [groups,] out, in, kernel...
Dims weight_dims(const Problem& c) {
  Dims dims = c.weights;
  if (c.transposed) {
    std::swap(dims[0], dims[1]);
    if (c.groups > 1) {
      dims[1] /= c.groups;
    }
  } else if (c.groups > 1) {
    dims[0] /= c.groups;
  }
  if (c.groups > 1) {
    dims.insert(dims.begin(), c.groups);
  }
  return dims;
}

// The same as they lie in the model.
Md weight_md(const Problem& c) {
  const Dims dims = weight_dims(c);
  if (!c.transposed) {
    return dnn::plain(dims);
  }
  // [in, out, kernel...] in each group.
  const size_t out = c.groups > 1 ? 1 : 0;
  Dims stored = dims;
  std::swap(stored[out], stored[out + 1]);
  dnnl::memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * stored[i];
  }
  std::swap(strides[out], strides[out + 1]);
  return Md(dims, dnnl::memory::data_type::f32, strides);
}

// A column as a line: where the width is 1, height and width change places. No byte of any layout moves, but
// oneDNN's kernels for AVX2 compute several columns at a time, and never several lines: for one column they
// take three times as long.
Problem turn(Problem c) {
  const Window& w = c.window;
  if (w.rank() != 2 || w.in[1] != 1 || w.out[1] != 1 || w.kernel[1] != 1 || w.begin[1] != 0 ||
      w.end[1] != 0) {
    return c;
  }
  for (Dims* dims : {&c.source, &c.weights, &c.target}) std::swap((*dims)[2], (*dims)[3]);
  for (Dims* dims : {&c.window.in, &c.window.out, &c.window.kernel, &c.window.strides, &c.window.dilations,
                     &c.window.begin, &c.window.end}) {
    std::swap((*dims)[0], (*dims)[1]);
  }
  c.turned = true;
  return c;
}

// Under which name the packed weights are kept.
std::string key_of(const Problem& c) {
  return (c.transposed ? "deconvolution " : "convolution ") + std::to_string(c.groups) +
         (c.turned ? " turned" : "");
}

// 0 where Winograd's method does not fit.
int tile_of(const Problem& c) {
  return c.transposed ? 0 : winograd_tile({c.source, c.weights, c.target, c.window, c.groups});
}

// Packs weights for oneDNN.
std::shared_ptr<dnn::Packed> pack_direct(const Problem& c, const TensorPtr& constant, const Md& to) {
  TensorPtr from = constant;
  if (constant->data == nullptr && !dnn::packed_form(constant, key_of(c)).has_value()) {
    // An earlier shape had it in another form.
    Problem other = c;
    other.turned = !c.turned;
    if (dnn::packed_form(constant, key_of(other)).has_value()) {
      if (c.weights.size() == 4) std::swap(other.weights[2], other.weights[3]);
      from = make_tensor(DType::kFloat, constant->dims);
      dnn::unpack(constant, key_of(other), weight_md(other), mutable_data(from));
    } else if (const int tile = tile_of(c); tile != 0) {
      from = winograd_original(constant, tile);
    } else if (has_depthwise_weights(constant)) {
      from = depthwise_original(constant);
    } else if (has_deconv_weights(constant, c.window.strides)) {
      from = deconv_original(constant, c.window.strides);
    }
  }
  return dnn::packed(constant, key_of(c), weight_md(c), from->data, to);
}

// A primitive description, of either kind.
struct Made {
  dnnl::primitive primitive;
  Mds mds;
  Md scratch;
  std::string implementation;
};

template <typename Description>
Made finish(const Description& pd) {
  Made made;
  made.mds = {pd.src_desc(), pd.weights_desc(), pd.bias_desc(), pd.dst_desc()};
  made.scratch = pd.scratchpad_desc();
  made.implementation = pd.impl_info_str();
  return made;
}

// Null where oneDNN has nothing for it. With `only_look` the primitive, which costs compilation, is left out.
std::optional<Made> make(const Problem& c, const Mds& mds, const dnnl::primitive_attr& attr, bool only_look) {
  const Window& w = c.window;
  Dims dilations = w.dilations, end;
  for (size_t i = 0; i < w.rank(); ++i) {
    --dilations[i];
    end.push_back(c.transposed ? w.end[i] : reach(w, i));
  }
  const Md none;
  try {
    if (c.transposed) {
      const dnnl::deconvolution_forward::primitive_desc pd(
          dnn::engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct,
          mds.source, mds.weights, c.biased ? mds.bias : none, mds.target, w.strides, dilations, w.begin, end,
          attr);
      Made made = finish(pd);
      if (!only_look) made.primitive = dnnl::deconvolution_forward(pd);
      return made;
    }
    const dnnl::convolution_forward::primitive_desc pd(
        dnn::engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, mds.source,
        mds.weights, c.biased ? mds.bias : none, mds.target, w.strides, dilations, w.begin, end, attr);
    Made made = finish(pd);
    if (!only_look) made.primitive = dnnl::convolution_forward(pd);
    return made;
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

// Whether all layouts are ones that the planner knows, and it is not the reference implementation.
bool good(const std::optional<Made>& made, const Problem& c) {
  return made.has_value() && made->implementation.rfind("ref", 0) != 0 &&
         dnn::layout_of(made->mds.source, c.source).has_value() &&
         dnn::layout_of(made->mds.target, c.target).has_value();
}

// The layout in which Winograd's method can take oneDNN's place, so that those of neighbours fit: if it can.
std::optional<Layout> winograd_layout(const Made& made, const Problem& c) {
  const std::optional<Layout> from = dnn::layout_of(made.mds.source, c.source);
  const bool fits = from == dnn::layout_of(made.mds.target, c.target) &&
                    (from == Layout::kBlock8 || from == Layout::kChannelsLast);
  return fits ? from : std::nullopt;
}

// From which post on our own loops are quicker than oneDNN's code for AVX2: the functions that take
// exponentials. Additions stay before.
size_t first_slow(const std::vector<Post>& posts, const Problem& c) {
  // Where blocks of channels are filled up, the filling stays 0 only with these.
  static constexpr const char* kSlow[] = {"swish", "gelu_erf", "gelu_tanh", "mish", "tanh", "elu"};
  static constexpr const char* kSlowNotZero[] = {"sigmoid", "softplus"};
  const auto is_one_of = [](const Post& post, const auto& names) {
    return std::any_of(std::begin(names), std::end(names),
                       [&](const char* name) { return post.name == name; });
  };
  size_t first = posts.size();
  while (first > 0 && !posts[first - 1].binary()) --first;
  const bool filled = c.target[1] % 16 != 0;
  const bool keeps_zero =
      std::all_of(posts.begin() + static_cast<std::ptrdiff_t>(first), posts.end(), [&](const Post& post) {
        return is_one_of(post, kSlow) || post.name == "relu" || post.name == "hardswish";
      });
  if (filled && !keeps_zero) return posts.size();
  while (first < posts.size() && !is_one_of(posts[first], kSlow) && !is_one_of(posts[first], kSlowNotZero))
    ++first;
  return first;
}

Kernel on_onednn(Prepare& p, const Problem& given, const std::vector<Post>& all_posts) {
  const auto slow = all_posts.begin() + static_cast<std::ptrdiff_t>(first_slow(all_posts, given));
  std::vector<Post> posts(all_posts.begin(), slow), later(slow, all_posts.end());
  std::vector<Dims> operand_dims;
  bool same_shape = true;
  for (int i = kOperands; i < p.inputs(); ++i) {
    operand_dims.push_back(p.dims(i));
    same_shape = same_shape && operand_dims.back() == given.target;
  }
  const Problem c = turn(given);
  const bool constant = p.constant(1) != nullptr;
  const std::string key = key_of(c);
  const Md original = weight_md(c);
  Mds mds;
  mds.source = dnn::any(c.source);
  mds.weights = constant ? dnn::any(weight_dims(c)) : original;
  mds.bias = c.biased ? dnn::plain({c.target[1]}) : Md();
  mds.target = dnn::any(c.target);

  // Look what it likes best, then ask for exactly that together with the posts.
  dnnl::primitive_attr attr = dnn::attributes();
  bool fused = same_shape || operand_dims.empty();
  if (operand_dims.empty()) {
    add_posts(posts, {}, &attr);
  }
  std::optional<Made> made = make(c, mds, attr, true);
  if (!good(made, c)) {
    mds.source = dnn::plain(c.source);
    mds.target = dnn::plain(c.target);
    made = make(c, mds, attr, true);
    if (!good(made, c) && !posts.empty()) {
      fused = false;
    }
  }
  const int tile = constant && fused && good(made, c) ? tile_of(c) : 0;
  if (const std::optional<Layout> layout = tile == 0 ? std::nullopt : winograd_layout(*made, c);
      layout.has_value()) {
    const WinogradProblem problem{c.source, c.weights, c.target, c.window, c.groups};
    if (has_winograd_weights(p.constant(1), tile) ||
        (p.constant(1)->data != nullptr && winograd_worth(problem, tile))) {
      p.require(0, *layout);
      for (int i = kOperands; i < p.inputs(); ++i) p.require(i, *layout);
      p.out(0, DType::kFloat, c.target, *layout);
      return winograd(p, problem, tile, *layout, c.biased, all_posts, kOperands);
    }
  }
  // Other shapes may like another form of the weights better, but not so much that it is worth a copy.
  if (const std::optional<Md> form = constant ? dnn::packed_form(p.constant(1), key) : std::nullopt;
      form.has_value() && made.has_value() && !(*form == made->mds.weights)) {
    Mds with_form = mds;
    with_form.weights = *form;
    if (std::optional<Made> other = make(c, with_form, attr, true); good(other, c)) {
      made = std::move(other);
    }
  }
  std::vector<Md> operands;
  if (fused && made.has_value()) {
    mds = made->mds;
    operands.assign(operand_dims.size(), made->mds.target);
    add_posts(posts, operands, &attr);
    made = make(c, mds, attr, false);
    fused = good(made, c);
  }
  if (!fused) {
    posts = all_posts;
    later.clear();
    mds.source = dnn::plain(c.source);
    mds.weights = constant ? dnn::any(weight_dims(c)) : original;
    mds.target = dnn::plain(c.target);
    made = make(c, mds, dnn::attributes(), false);
  }
  if (!made.has_value()) {
    return nullptr;
  }

  const Layout from = *dnn::layout_of(made->mds.source, c.source);
  const Layout to = *dnn::layout_of(made->mds.target, c.target);
  p.require(0, from);
  const Dims dims = fused ? given.target : posted(operand_dims, given.target);
  const int64_t stored = p.out(0, DType::kFloat, dims, to).stored();
  std::vector<dnn::Primitive::Argument> arguments = {{DNNL_ARG_SRC, made->mds.source},
                                                     {DNNL_ARG_WEIGHTS, made->mds.weights},
                                                     {DNNL_ARG_DST, made->mds.target},
                                                     {DNNL_ARG_SCRATCHPAD, made->scratch}};
  if (c.biased) {
    arguments.push_back({DNNL_ARG_BIAS, made->mds.bias});
  }
  if (fused) {
    int number = 0;
    size_t operand = 0;
    for (const Post& post : posts) {
      if (post.binary()) {
        arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(number) | DNNL_ARG_SRC_1, made->mds.target});
        p.require(kOperands + static_cast<int>(operand++), to);
      }
      ++number;
    }
  } else {
    for (int i = kOperands; i < p.inputs(); ++i) p.require(i, Layout::kPlain);
  }
  std::shared_ptr<dnn::Packed> weights;
  if (constant) {
    weights = pack_direct(c, p.constant(1), made->mds.weights);
  }
  const auto primitive = std::make_shared<dnn::Primitive>(made->primitive, std::move(arguments));
  const size_t primitive_scratch = (made->scratch.get_size() + 63) & ~size_t{63};
  const bool in_scratch = !fused && dims != given.target;
  p.scratch(primitive_scratch + (in_scratch ? static_cast<size_t>(count(c.target)) * sizeof(float) : 0));
  const int inputs = p.inputs();
  constexpr int64_t kTile = 1024;  // Stays in the first cache from one function to the next.
  return [=, tail = Tail(later), target = given.target, biased = c.biased](const Args& args) {
    void* pointers[16];
    size_t n = 0;
    char* scratch = args.scratch<char>();
    float* y = args.out<float>(0);
    float* made_here = in_scratch ? reinterpret_cast<float*>(scratch + primitive_scratch) : y;
    pointers[n++] = const_cast<void*>(args.in<void>(0));
    pointers[n++] = weights != nullptr ? weights->memory.get() : const_cast<void*>(args.in<void>(1));
    pointers[n++] = made_here;
    pointers[n++] = scratch;
    if (biased) {
      pointers[n++] = const_cast<void*>(args.in<void>(2));
    }
    for (int i = kOperands; fused && i < inputs; ++i) {
      pointers[n++] = const_cast<void*>(args.in<void>(i));
    }
    primitive->run(pointers);
    if (!tail.empty()) {
      parallel_for(stored, kGrain / 16, [&](int64_t i, int64_t end) {
        for (; i < end; i += kTile) tail.run(y, nullptr, i, std::min(kTile, end - i));
      });
    }
    if (fused) {
      return;
    }
    std::vector<const float*> values;
    for (int i = kOperands; i < inputs; ++i) values.push_back(args.in<float>(i));
    if (in_scratch) {
      // Spread what was made over the larger output: as adding it to zeros does.
      std::fill(y, y + count(dims), 0.0f);
      apply_posts({{"add", 0, 0}}, {target}, {made_here}, dims, y);
    }
    apply_posts(posts, operand_dims, values, dims, y);
  };
}

// Whether our own loops do a convolution of each channel on its own, or of small groups: oneDNN is quicker
// with 3x3 taps of single channels, unless a function follows that takes exponentials.
bool is_depthwise(const Problem& c, const std::vector<Post>& posts) {
  return !c.transposed && ephost::cpu::is_depthwise(c.weights, c.groups) &&
         (c.weights[1] > 1 || count(c.window.kernel) > 9 || first_slow(posts, c) != posts.size());
}

// Whether our own products do a transposed convolution. oneDNN's kernels for those with steps take long to
// make: 0.1 ms for each column of the input.
bool is_deconv(const Problem& c) {
  return c.transposed && ephost::cpu::is_deconv(c.weights, c.window.strides, c.window.dilations, c.groups);
}

// On loops of our own: null where they do not fit, or operands are broadcast.
Kernel on_loops(Prepare& p, const Problem& c, const std::vector<Post>& posts) {
  const TensorPtr weights = p.constant(1);
  const bool alone = is_depthwise(c, posts),
             by_products = is_deconv(c) && c.window.begin[0] >= 0 && c.window.begin.back() >= 0;
  if (weights == nullptr || (!alone && !by_products)) return nullptr;
  const bool packed = alone ? has_depthwise_weights(weights) : has_deconv_weights(weights, c.window.strides);
  if (weights->data == nullptr && !packed) return nullptr;
  for (int i = kOperands; i < p.inputs(); ++i) {
    if (p.dims(i) != c.target) return nullptr;
  }
  return alone ? depthwise(p, c.window, c.target, c.biased, posts, kOperands)
               : deconv(p, c.window, c.target, c.biased, posts, kOperands);
}

Kernel conv(Prepare& p, const Problem& c) {
  const std::vector<Post> posts = posts_of(p.node);
  p.expect(p.type(1) == p.type(0), "input and weights have different types");
  p.expect(!c.biased || p.in(2).count() == c.target[1], "the bias has not one element for each channel");
  if (count(c.target) == 0 || c.source[1] == 0) {
    p.out(0, p.type(0), c.target);
    return [](const Args&) {};
  }
  if (p.type(0) == DType::kFloat) {
    if (Kernel kernel = on_loops(p, c, posts)) {
      return kernel;
    }
    if (c.source.size() <= 5) {
      if (Kernel kernel = on_onednn(p, c, posts)) {
        return kernel;
      }
    }
    p.require(0, Layout::kPlain);
    std::vector<Dims> operand_dims;
    for (int i = kOperands; i < p.inputs(); ++i) {
      operand_dims.push_back(p.require(i, Layout::kPlain).dims);
    }
    p.out(0, DType::kFloat, c.target);
    p.expect(posted(operand_dims, c.target) == c.target, "an operand is larger than the output");
    // As they are in the model: which may be gone.
    std::shared_ptr<dnn::Packed> weights;
    if (p.constant(1) != nullptr) {
      weights = pack_direct(c, p.constant(1), weight_md(c));
    }
    return [=, loops = plain_loops<float>(c, weights)](const Args& args) {
      loops(args);
      std::vector<const float*> values;
      for (size_t i = 0; i < operand_dims.size(); ++i) {
        values.push_back(args.in<float>(kOperands + static_cast<int>(i)));
      }
      apply_posts(posts, operand_dims, values, c.target, args.out<float>(0));
    };
  }
  for (int i = 0; i < p.inputs(); ++i) {
    if (p.has(i) && p.dims(i).size() >= 2) p.require(i, Layout::kPlain);
  }
  p.out(0, p.type(0), c.target);
  return plain_loops<double>(c, nullptr);
}

bool packs(const Node& node, size_t i) {
  const Value* w = node.in(1);
  return i == 1 && w->type == DType::kFloat && w->constant != nullptr && w->constant->dims.size() >= 3 &&
         w->constant->dims.size() <= 5 && count(w->constant->dims) > 0;
}

void pack(const Node& node) {
  const TensorPtr& w = node.in(1)->constant;
  const bool transposed = node.type == "ConvTranspose";
  // Images of a usual size, where nothing is known of them.
  const Value& x = *node.inputs[0];
  Dims source = w->dims;
  source[0] = 1;
  source[1] = transposed ? w->dims[0] : w->dims[1] * node.i("group", 1);
  for (size_t i = 2; i < source.size(); ++i) {
    const bool known = x.has_shape && x.dims.size() == source.size() && x.dims[i] > 0;
    source[i] = known ? x.dims[i] : 56 + 4 * w->dims[i];
  }
  Problem c;
  try {
    c = transposed ? transposed_convolution(node, source, w->dims) : convolution(node, source, w->dims);
  } catch (const Error&) {
    return;  // The run will say what is wrong.
  }
  if (is_depthwise(c, posts_of(node))) {
    depthwise_weights(w);
    return;
  }
  if (is_deconv(c)) {
    deconv_weights(w, c.window.strides);
    return;
  }
  c = turn(c);
  const int tile = tile_of(c);
  if (dnn::packed_form(w, key_of(c)).has_value() || (tile != 0 && has_winograd_weights(w, tile))) {
    return;
  }
  Mds mds;
  mds.source = dnn::any(c.source);
  mds.weights = dnn::any(weight_dims(c));
  mds.bias = c.biased ? dnn::plain({c.target[1]}) : Md();
  mds.target = dnn::any(c.target);
  const std::optional<Made> made = make(c, mds, dnn::attributes(), true);
  if (tile != 0 && made.has_value() && winograd_layout(*made, c).has_value()) {
    winograd_weights(w, tile);
    return;
  }
  dnn::packed(w, key_of(c), weight_md(c), w->data, made.has_value() ? made->mds.weights : weight_md(c));
}

}  // namespace

void add_conv(Registry* registry) {
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
}

}  // namespace ephost::cpu
