#include "cpu/engines/conv/onednn_conv.h"

#include <cstring>
#include <map>

#include "cpu/engines/conv/weights.h"
#include "cpu/engines/epilogue_rows.h"
#include "cpu/engines/onednn_epilogue.h"
#include "cpu/runtime/careful.h"

namespace ephost::cpu {

using dnn::Md;

struct OnednnConv {
  dnnl::primitive_desc_base description;
  dnnl::primitive primitive;  // Empty where it was only looked for: making it costs compilation.
  Md source, weights, bias, target, scratch;
  // Of source and target, where they are layouts that the planner knows: oneDNN is slow to describe them.
  std::optional<Layout> from, to;
  std::string implementation;
};

namespace {

struct Mds {
  Md source, weights, bias, target;
};

// The weights as oneDNN names their dimensions: [groups,] out, in, kernel...
Dims weight_dims(const ConvProblem& c) {
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
Md weight_md(const ConvProblem& c) {
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
  return Md(dnn::dims_of(dims), dnnl::memory::data_type::f32, strides);
}

// Under which name the packed weights are kept.
std::string key_of(const ConvProblem& c) {
  return (c.transposed ? "deconvolution " : "convolution ") + std::to_string(c.groups) +
         (c.turned ? " turned" : "");
}

// Packs weights for oneDNN, from whatever form is left of them.
std::shared_ptr<dnn::Packed> pack_direct(const ConvProblem& c, const TensorPtr& constant, const Md& to) {
  const bool here = constant->data != nullptr || dnn::packed_form(constant, key_of(c)).has_value();
  const TensorPtr from = here ? constant : original_conv_weights(constant, c);
  return dnn::packed(constant, key_of(c), weight_md(c), from->data, to);
}

template <typename Description>
OnednnConv finish(const ConvProblem& c, const Description& pd) {
  OnednnConv made;
  made.description = pd;
  made.source = pd.src_desc();
  made.weights = pd.weights_desc();
  made.bias = pd.bias_desc();
  made.target = pd.dst_desc();
  made.scratch = pd.scratchpad_desc();
  made.from = dnn::layout_of(made.source, c.source);
  made.to = dnn::layout_of(made.target, c.target);
  made.implementation = pd.impl_info_str();
  return made;
}

// Null where oneDNN has nothing for it. With `only_look` the primitive, which costs compilation, is left out.
std::optional<OnednnConv> make(const ConvProblem& c, const Mds& mds, const dnnl::primitive_attr& attr,
                               bool only_look) {
  const Window& w = c.window;
  using dnn::dims_of;
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
          mds.source, mds.weights, c.biased ? mds.bias : none, mds.target, dims_of(w.strides),
          dims_of(dilations), dims_of(w.begin), dims_of(end), attr);
      OnednnConv made = finish(c, pd);
      if (!only_look) made.primitive = dnnl::deconvolution_forward(pd);
      return made;
    }
    const dnnl::convolution_forward::primitive_desc pd(
        dnn::engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, mds.source,
        mds.weights, c.biased ? mds.bias : none, mds.target, dims_of(w.strides), dims_of(dilations),
        dims_of(w.begin), dims_of(end), attr);
    OnednnConv made = finish(c, pd);
    if (!only_look) made.primitive = dnnl::convolution_forward(pd);
    return made;
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

// What oneDNN may choose the layouts of.
Mds open_mds(const ConvProblem& c, bool constant) {
  Mds mds;
  mds.source = dnn::any(c.source);
  mds.weights = constant ? dnn::any(weight_dims(c)) : weight_md(c);
  mds.bias = c.biased ? dnn::plain({c.target[1]}) : Md();
  mds.target = dnn::any(c.target);
  return mds;
}

// What oneDNN likes best, in layouts of its choice or with plain tensors, with activations that are done
// inside. It takes some tenths of a millisecond to say, which is most of the time that a small model takes to
// open; and it is asked the same when weights are packed and when they are used, for each of a network's
// equal layers, and by each session of a model. So its answers are kept, for the whole process: those that
// were asked for last, between one and two times kMost.
class Answers {
 public:
  using Answer = std::shared_ptr<const OnednnConv>;  // Null: it has nothing.

  Answer to(const ConvProblem& c, bool constant, bool plain, const PostOps& activations) {
    const Key key = key_of_question(c, constant, plain, activations);
    {
      const std::lock_guard lock(mutex_);
      if (const Answer* known = find(key)) return *known;
    }
    Mds mds = open_mds(c, constant);
    if (plain) {
      mds.source = dnn::plain(c.source);
      mds.target = dnn::plain(c.target);
    }
    dnnl::primitive_attr attr = dnn::attributes();
    add_post_ops(activations, {}, &attr);
    const std::optional<OnednnConv> found = make(c, mds, attr, true);
    Answer answer = found.has_value() ? std::make_shared<const OnednnConv>(*found) : nullptr;
    const std::lock_guard lock(mutex_);
    keep(key, answer);
    return answer;
  }

 private:
  using Key = std::vector<int64_t>;
  static constexpr size_t kMost = 256;

  static Key key_of_question(const ConvProblem& c, bool constant, bool plain, const PostOps& activations) {
    // How many threads there are is part of what it thinks about.
    Key key = {max_threads(), c.groups, c.transposed, c.biased, constant, plain};
    const Window& w = c.window;
    for (const Dims* dims : {&c.source, &c.weights, &c.target, &w.strides, &w.dilations, &w.begin, &w.end}) {
      key.push_back(static_cast<int64_t>(dims->size()));
      key.insert(key.end(), dims->begin(), dims->end());
    }
    for (const PostOp& each : activations) {
      int64_t parameters = 0;
      std::memcpy(&parameters, &each.alpha, sizeof(each.alpha));
      std::memcpy(reinterpret_cast<char*>(&parameters) + sizeof(each.alpha), &each.beta, sizeof(each.beta));
      key.push_back(static_cast<int64_t>(*each.activation));
      key.push_back(parameters);
    }
    return key;
  }

  const Answer* find(const Key& key) {
    if (const auto found = recent_.find(key); found != recent_.end()) return &found->second;
    const auto found = older_.find(key);
    return found == older_.end() ? nullptr : &keep(key, found->second);
  }

  const Answer& keep(const Key& key, Answer answer) {
    if (recent_.size() >= kMost) {
      older_ = std::move(recent_);
      recent_.clear();
    }
    return recent_[key] = std::move(answer);
  }

  Mutex mutex_;
  std::map<Key, Answer> recent_, older_;
};

Answers& answers() {
  static Answers* const all = new Answers;  // Never destroyed: sessions may outlive static objects.
  return *all;
}

bool is_good(const OnednnConv* made) {
  return made != nullptr && made->implementation.rfind("ref", 0) != 0 && made->from.has_value() &&
         made->to.has_value();
}
bool is_good(const std::optional<OnednnConv>& made) { return is_good(made.has_value() ? &*made : nullptr); }

// Says of the choice what was found.
void note(OnednnChoice* choice, Answers::Answer found) {
  choice->good = is_good(found.get());
  choice->by_matrices = !choice->good || found->implementation.find("gemm") != std::string::npos;
  if (found == nullptr) return;
  choice->source = found->from;
  choice->target = found->to;
  choice->found = std::move(found);
}

// What is asked of oneDNN: a transposed convolution without its bias, which for most of them it adds by a
// loop for reference, as it computes what follows them.
ConvProblem asked(const ConvProblem& given) {
  ConvProblem c = turned(given);
  if (c.transposed) c.biased = false;
  return c;
}

// Adds one number to each channel of what lies in memory in `layout`; channels that fill blocks up stay as
// they are.
void add_bias(const float* bias, const Dims& dims, Layout layout, float* y) {
  const int64_t channels = dims[1], inner = count(dims, 2, dims.size());
  if (layout == Layout::kChannelsLast) {
    parallel_for(dims[0] * inner, kGrain / std::max<int64_t>(16, channels), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        float* row = y + i * channels;
        for (int64_t c = 0; c < channels; ++c) row[c] += bias[c];
      }
    });
    return;
  }
  const int64_t block = block_of(layout), blocks = (channels + block - 1) / block;
  parallel_for(dims[0] * blocks, kGrain / std::max<int64_t>(16, inner * block), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      float* rows = y + i * inner * block;
      if (block == 1) {
        const float term = bias[i % channels];
        for (int64_t k = 0; k < inner; ++k) rows[k] += term;
        continue;
      }
      float terms[16] = {};
      const int64_t first = i % blocks * block;
      std::copy_n(bias + first, std::min(block, channels - first), terms);
      for (int64_t k = 0; k < inner; ++k, rows += block) {
        for (int64_t c = 0; c < block; ++c) rows[c] += terms[c];
      }
    }
  });
}

constexpr int64_t kTile = 1024;  // Stays in the first cache from one function to the next.

// The convolution without what oneDNN's activations make of NaN, for careful runs; made for the first one.
class Careful {
 public:
  Careful(const ConvProblem& c, const Mds& mds, const PostOps& post_ops)
      : problem_(c), mds_(mds), epilogue_(post_ops) {}

  // As the primitive with its activations; false where oneDNN has no such one. `operands` are those of the
  // additions, laid out like the output, which has so many elements in memory.
  bool run(void* const* pointers, const float* const* operands, int64_t stored) {
    {
      const std::lock_guard lock(mutex_);
      if (!asked_) made_ = make(problem_, mds_, dnn::attributes(), false);
      if (!asked_ && made_.has_value()) {
        std::vector<dnn::Primitive::Argument> arguments = {{DNNL_ARG_SRC, made_->source},
                                                           {DNNL_ARG_WEIGHTS, made_->weights},
                                                           {DNNL_ARG_DST, made_->target},
                                                           {DNNL_ARG_SCRATCHPAD, made_->scratch}};
        if (problem_.biased) arguments.push_back({DNNL_ARG_BIAS, made_->bias});
        primitive_ = std::make_unique<dnn::Primitive>(made_->primitive, std::move(arguments));
      }
      asked_ = true;
    }
    if (primitive_ == nullptr) return false;
    const std::shared_ptr<void> scratch = allocate(made_->scratch.get_size());
    void* own[5] = {pointers[0], pointers[1], pointers[2], scratch.get(), pointers[4]};
    primitive_->run(own);
    auto* y = static_cast<float*>(pointers[2]);
    parallel_for(stored, kGrain / 16, [&](int64_t i, int64_t end) {
      for (; i < end; i += kTile) epilogue_.run(y, operands, i, std::min(kTile, end - i));
    });
    return true;
  }

 private:
  ConvProblem problem_;
  Mds mds_;
  RowEpilogue epilogue_;
  Mutex mutex_;
  bool asked_ = false;
  std::optional<OnednnConv> made_;
  std::unique_ptr<dnn::Primitive> primitive_;
};

}  // namespace

size_t first_slow(const PostOps& post_ops, const ConvProblem& c) {
  size_t first = post_ops.size();
  while (first > 0 && !post_ops[first - 1].binary()) --first;
  // Where blocks of channels are filled up, the filling must stay 0.
  const bool filled = c.target[1] % 16 != 0;
  const bool keeps_zero = std::all_of(post_ops.begin() + static_cast<std::ptrdiff_t>(first), post_ops.end(),
                                      [](const PostOp& post_op) { return apply_post_op(post_op, 0) == 0; });
  if (filled && !keeps_zero) return post_ops.size();
  // Behind a transposed convolution oneDNN computes all of them with loops for reference.
  if (c.transposed) return first;
  while (first < post_ops.size() && !row_of(*post_ops[first].activation).exponential) ++first;
  return first;
}

OnednnChoice ask_onednn(const Prepare& p, const ConvProblem& given, const PostOps& post_ops, int operands) {
  OnednnChoice choice;
  choice.problem = asked(given);
  const ConvProblem& c = choice.problem;
  const auto slow = post_ops.begin() + static_cast<std::ptrdiff_t>(first_slow(post_ops, given));
  choice.post_ops.assign(post_ops.begin(), slow);
  choice.later.assign(slow, post_ops.end());
  bool same_shape = true;
  for (int i = operands; i < p.inputs(); ++i) same_shape = same_shape && p.dims(i) == given.target;
  const bool none = p.inputs() <= operands;
  choice.fused = (same_shape || none) && !(c.transposed && !choice.post_ops.empty());
  const bool constant = p.constant(1) != nullptr;
  const PostOps activations = none ? choice.post_ops : PostOps();
  Answers::Answer found = answers().to(c, constant, false, activations);
  if (!is_good(found.get())) {
    found = answers().to(c, constant, true, activations);
    choice.plain = true;
    if (!is_good(found.get()) && !choice.post_ops.empty()) {
      choice.fused = false;
    }
  }
  note(&choice, std::move(found));
  return choice;
}

OnednnChoice ask_onednn(const ConvProblem& c) {
  OnednnChoice choice;
  choice.problem = asked(c);
  note(&choice, answers().to(choice.problem, true, false, {}));
  return choice;
}

bool has_onednn_weights(const TensorPtr& constant, const ConvProblem& c) {
  return dnn::packed_form(constant, key_of(c)).has_value();
}

void pack_onednn_weights(const TensorPtr& constant, const ConvProblem& c) {
  const OnednnChoice choice = ask_onednn(c);
  dnn::packed(constant, key_of(c), weight_md(c), constant->data,
              choice.found != nullptr ? choice.found->weights : weight_md(c));
}

TensorPtr onednn_original(const TensorPtr& constant, const ConvProblem& c) {
  // An earlier shape may have had it turned, or not.
  ConvProblem other = c;
  other.turned = !c.turned;
  if (c.weights.size() == 4) std::swap(other.weights[2], other.weights[3]);
  for (const ConvProblem& each : {c, other}) {
    if (has_onednn_weights(constant, each)) {
      const TensorPtr made = make_tensor(DType::kFloat, constant->dims);
      dnn::unpack(constant, key_of(each), weight_md(each), mutable_data(made));
      return made;
    }
  }
  return nullptr;
}

Kernel onednn_conv(Prepare& p, const ConvProblem& given, const PostOps& post_ops_of_all, OnednnChoice choice,
                   int first_operand) {
  const ConvProblem& c = choice.problem;
  PostOps &post_ops = choice.post_ops, &later = choice.later;
  std::optional<OnednnConv> made;
  if (choice.found != nullptr) made = *choice.found;
  bool fused = choice.fused;
  std::vector<Dims> operand_dims;
  for (int i = first_operand; i < p.inputs(); ++i) operand_dims.push_back(p.dims(i));
  const bool constant = p.constant(1) != nullptr;
  const std::string key = key_of(c);
  const Md original = weight_md(c);
  // The layouts that `made` was found for.
  Mds mds = open_mds(c, constant);
  if (choice.plain) {
    mds.source = dnn::plain(c.source);
    mds.target = dnn::plain(c.target);
  }
  dnnl::primitive_attr attr = dnn::attributes();
  if (operand_dims.empty()) {
    add_post_ops(post_ops, {}, &attr);
  }
  // Other shapes may like another form of the weights better, but not so much that it is worth a copy.
  if (const std::optional<Md> form = constant ? dnn::packed_form(p.constant(1), key) : std::nullopt;
      form.has_value() && made.has_value() && !(*form == made->weights)) {
    Mds with_form = mds;
    with_form.weights = *form;
    if (std::optional<OnednnConv> other = make(c, with_form, attr, true); is_good(other)) {
      made = std::move(other);
    }
  }
  std::vector<Md> operands;
  if (fused && made.has_value()) {
    mds = {made->source, made->weights, made->bias, made->target};
    operands.assign(operand_dims.size(), made->target);
    if (operands.empty()) {  // As it was asked.
      made->primitive = dnn::guarded([&] { return dnnl::primitive(made->description.get()); });
    } else {
      add_post_ops(post_ops, operands, &attr);
      made = make(c, mds, attr, false);
    }
    fused = is_good(made);
  }
  if (!fused) {
    post_ops = post_ops_of_all;
    later.clear();
    mds.source = dnn::plain(c.source);
    mds.weights = constant ? dnn::any(weight_dims(c)) : original;
    mds.target = dnn::plain(c.target);
    made = make(c, mds, dnn::attributes(), false);
  }
  if (!is_good(made)) {
    return nullptr;  // Its reference loops, above all: products of matrices take a hundredth of their time.
  }

  const Layout from = *made->from, to = *made->to;
  p.require(0, from);
  const Dims dims = fused ? given.target : posted(operand_dims, given.target);
  const int64_t stored = p.out(0, DType::kFloat, dims, to).stored();
  std::vector<dnn::Primitive::Argument> arguments = {{DNNL_ARG_SRC, made->source},
                                                     {DNNL_ARG_WEIGHTS, made->weights},
                                                     {DNNL_ARG_DST, made->target},
                                                     {DNNL_ARG_SCRATCHPAD, made->scratch}};
  if (c.biased) {
    arguments.push_back({DNNL_ARG_BIAS, made->bias});
  }
  if (fused) {
    int number = 0;
    size_t operand = 0;
    for (const PostOp& post_op : post_ops) {
      if (post_op.binary()) {
        arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(number) | DNNL_ARG_SRC_1, made->target});
        p.require(first_operand + static_cast<int>(operand++), to);
      }
      ++number;
    }
  } else {
    for (int i = first_operand; i < p.inputs(); ++i) p.require(i, Layout::kPlain);
  }
  std::shared_ptr<dnn::Packed> weights;
  if (constant) {
    weights = pack_direct(c, p.constant(1), made->weights);
  }
  const auto primitive = std::make_shared<dnn::Primitive>(made->primitive, std::move(arguments));
  const size_t primitive_scratch = (made->scratch.get_size() + 63) & ~size_t{63};
  const bool in_scratch = !fused && dims != given.target;
  p.scratch(primitive_scratch + (in_scratch ? static_cast<size_t>(count(c.target)) * sizeof(float) : 0));
  std::shared_ptr<Careful> careful;
  // What fills blocks of channels up must stay 0.
  const bool keeps_filling = c.target[1] % block_of(to) == 0 ||
                             std::all_of(post_ops.begin(), post_ops.end(), [](const PostOp& post_op) {
                               return post_op.binary() || apply_post_op(post_op, 0) == 0;
                             });
  if (fused && keeps_filling && !post_ops.empty()) {
    mds = {made->source, made->weights, made->bias, made->target};
    careful = std::make_shared<Careful>(c, mds, post_ops);
  }
  const int inputs = p.inputs();
  const bool apart = given.biased && !c.biased;
  return [=, epilogue = RowEpilogue(later), target = given.target, biased = c.biased](const Args& args) {
    void* pointers[16] = {};
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
    const size_t first = n;
    for (int i = first_operand; fused && i < inputs; ++i) {
      pointers[n++] = const_cast<void*>(args.in<void>(i));
    }
    const auto* operands = reinterpret_cast<const float* const*>(pointers + first);
    if (careful == nullptr || !is_careful() || !careful->run(pointers, operands, stored)) {
      primitive->run(pointers);
    }
    if (apart) add_bias(args.in<float>(2), target, to, made_here);
    if (!epilogue.empty()) {
      parallel_for(stored, kGrain / 16, [&](int64_t i, int64_t end) {
        for (; i < end; i += kTile) epilogue.run(y, nullptr, i, std::min(kTile, end - i));
      });
    }
    if (fused) {
      return;
    }
    std::vector<const float*> values;
    for (int i = first_operand; i < inputs; ++i) values.push_back(args.in<float>(i));
    if (in_scratch) {
      // Spread what was made over the larger output: as adding it to zeros does.
      std::fill(y, y + count(dims), 0.0f);
      apply_post_ops({PostOp::add()}, {target}, {made_here}, dims, y);
    }
    apply_post_ops(post_ops, operand_dims, values, dims, y);
  };
}

}  // namespace ephost::cpu
