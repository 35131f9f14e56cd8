#include "cpu/passes/contrib.h"

#include <algorithm>
#include <numeric>

#include "cpu/operator.h"
#include "toolkit/activations.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

constexpr const char* kMs = "com.microsoft";
// Operators that ONNX had on trial, up to opset 9: models of that time have them, and hosts run them still.
constexpr const char* kOnTrial[] = {"Affine", "DynamicSlice", "ParametricSoftplus", "Scale", "ScaledTanh"};

bool was_on_trial(const Node& node) {
  return node.domain.empty() &&
         std::find(std::begin(kOnTrial), std::end(kOnTrial), node.type) != std::end(kOnTrial);
}

// The numbers of channels of queries, keys and values; empty if they are not known.
std::vector<int64_t> hidden_sizes(const Node& node) {
  const std::vector<int64_t> given = node.ints("qkv_hidden_sizes");
  if (!given.empty()) return given;
  const Value* weights = node.in(1);
  if (weights == nullptr || !weights->has_shape || weights->dims.size() != 2 || weights->dims[1] <= 0 ||
      weights->dims[1] % 3 != 0) {
    return {};
  }
  return std::vector<int64_t>(3, weights->dims[1] / 3);
}

// The name and the parameters of the activation behind a convolution or a product.
struct Behind {
  std::string type;
  std::vector<float> parameters;
};

Behind activation_behind(const Node& node) {
  Behind found;
  found.type = node.s("activation", "");
  if (node.type == "FusedConv") {
    found.parameters = node.floats("activation_params");
  } else if (const ActivationRow* row = activation_named(found.type)) {
    for (auto [name, otherwise] : {std::pair{row->a, row->a_default}, {row->b, row->b_default}}) {
      if (*name != '\0') found.parameters.push_back(node.f(std::string("activation_") + name, otherwise));
    }
  } else {
    for (const char* name : {"activation_alpha", "activation_beta"}) {
      if (node.has(name)) found.parameters.push_back(node.f(name, 0));
    }
  }
  return found;
}

// The attributes of an activation's node, in the order of its parameters.
std::vector<const char*> parameters_of(const std::string& type) {
  std::vector<const char*> names;
  if (const ActivationRow* row = activation_named(type)) {
    for (const char* name : {row->a, row->b}) {
      if (*name != '\0') names.push_back(name);
    }
  }
  return names;
}

std::string why_not(const Behind& activation) {
  if (activation.type == "Clip") return activation.parameters.size() == 2 ? "" : "Clip without its limits";
  const ActivationRow* row = activation_named(activation.type);
  if (activation.type.empty() || (row != nullptr && activation.type == row->type)) return "";
  return "the activation '" + activation.type + "'";
}

// The operator of ONNX that does most of the node: why it cannot be done.
std::string why_not_as(const Node& node, const char* type, int version, size_t inputs) {
  Node plain = node;
  plain.domain = "";
  plain.type = type;
  plain.version = version;
  plain.inputs.resize(std::min(inputs, node.inputs.size()));
  std::string why;
  return Registry::get().find(plain, &why) == nullptr ? why : "";
}

std::string supports_packed_attention(const Node& node) {
  const bool quantized = node.type == "QAttention";
  const int64_t heads = node.i("num_heads", 0);
  const std::vector<int64_t> sizes = hidden_sizes(node);
  const Value *past = node.in(quantized ? 8 : 4), *mask = node.in(quantized ? 5 : 3);
  if (heads <= 0) return "the number of heads is not given";
  if (sizes.size() != 3) return "the numbers of channels are not known";
  for (int64_t size : sizes) {
    if (size <= 0 || size % heads != 0) return "channels that the heads cannot share";
  }
  if (sizes[0] != sizes[1]) return "queries and keys of different sizes";
  if (past != nullptr && sizes[1] != sizes[2]) return "earlier keys and values of different sizes";
  if (node.i("do_rotary", 0) != 0) return "a rotation";
  if (node.i("past_present_share_buffer", 0) != 0) return "a cache that is written to where it lies";
  if (mask != nullptr && mask->type != DType::kUndefined && mask->type != DType::kInt32) {
    return "a mask that is not int32";
  }
  if (mask != nullptr && (!mask->has_shape || mask->dims.empty() || mask->dims.size() > 3)) {
    return "a mask whose rank is not 1, 2 or 3";
  }
  if (!quantized) return "";
  if (node.in(2) == nullptr || node.in(3) == nullptr || node.in(4) == nullptr) return "scales are left out";
  if (!node.in(3)->is_scalar()) return "scales for parts of the input";
  if (node.in(6) != nullptr && !node.in(6)->is_scalar()) return "zero points for parts of the input";
  return "";
}

// FusedMatMul where the first dimension of a matrix comes before those of the stack.
bool moves_batch(const Node& node) { return node.i("transBatchA", 0) != 0 || node.i("transBatchB", 0) != 0; }

std::string supports_moved_batch(const Node& node) {
  if (!moves_batch(node)) return "its batch comes first";
  for (size_t i : {0, 1}) {
    if (node.in(i) == nullptr || !node.in(i)->has_shape || node.in(i)->dims.size() < 2) {
      return "ranks of its inputs that are not known";
    }
  }
  return "";
}

std::string supports_channels_last(const Node& node) {
  const bool pool = node.type == "NhwcMaxPool";
  if (pool || node.i("channels_last", 0) != 0) {
    const Value* x = node.in(0);
    if (x == nullptr || !x->has_shape || x->dims.size() < 3) return "a rank of its input that is not known";
  }
  return why_not_as(node, pool ? "MaxPool" : "QLinearConv", pool ? 12 : 10, 9);
}

// Writes one node out.
class Expansion {
 public:
  Expansion(Graph* graph, Node* node) : graph_(graph), node_(node) {}

  void run() {
    const struct {
      const char* type;
      void (Expansion::*write)();
    } ways[] = {
        {"Attention", &Expansion::packed_attention},
        {"EmbedLayerNormalization", &Expansion::embed},
        {"FusedConv", &Expansion::fused_conv},
        {"FusedGemm", &Expansion::fused_gemm},
        {"FusedMatMul", &Expansion::moved_batch},
        {"GatedAdd", &Expansion::gated_add},
        {"MatMulInteger16", &Expansion::short_product},
        {"NhwcMaxPool", &Expansion::channels_last},
        {"QAttention", &Expansion::packed_attention},
        {"QLinearConv", &Expansion::channels_last},
        {"ScaledSiLU", &Expansion::scaled_silu},
        {"Unique", &Expansion::unique},
        {"Affine", &Expansion::affine},
        {"DynamicSlice", &Expansion::dynamic_slice},
        {"ParametricSoftplus", &Expansion::stretched},
        {"Scale", &Expansion::affine},
        {"ScaledTanh", &Expansion::stretched},
    };
    for (const auto& way : ways) {
      if (node_->type == way.type) (this->*way.write)();
    }
    for (Value* value : results_) {
      if (value == nullptr) fail("a result of '" + node_->name + "' was not written out");
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      Value* old = node_->outputs[done_[i]];
      Node* producer = results_[i]->producer;
      const auto at = std::find(producer->outputs.begin(), producer->outputs.end(), results_[i]);
      graph_->steal_output(producer, static_cast<size_t>(at - producer->outputs.begin()), old);
    }
    graph_->remove(node_);
  }

 private:
  Node* add(const char* domain, const char* type, int version, std::vector<Value*> in,
            std::vector<Value*> out) {
    while (!in.empty() && in.back() == nullptr) in.pop_back();
    Node* made = graph_->add_node(domain, type, std::move(in), std::move(out), node_->name);
    made->version = version;
    return made;
  }
  Value* value(DType type) {
    Value* made = graph_->add_value("");
    made->type = type;
    return made;
  }
  // A node with one output.
  Value* one(const char* type, int version, std::vector<Value*> in, Value* out, Attributes attributes = {}) {
    add("", type, version, std::move(in), {out})->attributes = std::move(attributes);
    return out;
  }
  Value* ints(const std::vector<int64_t>& values) {
    return graph_->add_constant(
        make_tensor<int64_t>(DType::kInt64, {static_cast<int64_t>(values.size())}, values));
  }
  Value* number(float value) { return graph_->add_constant(make_tensor<float>(DType::kFloat, {}, {value})); }
  Value* like(size_t output) { return graph_->add_like(node_->outputs[output]); }
  // What is in an output's place, if that is wanted.
  void result(size_t output, Value* value) {
    if (node_->out(output) == nullptr) return;
    results_.push_back(value);
    done_.push_back(output);
  }

  Value* activated(Value* x) {
    const Behind activation = activation_behind(*node_);
    if (activation.type.empty()) return x;
    if (activation.type == "Clip") {
      std::vector<Value*> in{x};
      for (float limit : activation.parameters) {
        Value* wide = number(limit);
        in.push_back(x->type == DType::kFloat
                         ? wide
                         : one("Cast", 13, {wide}, value(x->type), {{"to", static_cast<int64_t>(x->type)}}));
      }
      return one("Clip", 13, in, like(0));
    }
    Attributes attributes;
    const std::vector<const char*> names = parameters_of(activation.type);
    for (size_t i = 0; i < std::min(names.size(), activation.parameters.size()); ++i) {
      attributes[names[i]] = activation.parameters[i];
    }
    // Of all versions that these have had the first to take what is here.
    const int version = activation.type == "Relu"                                        ? 14
                        : activation.type == "LeakyRelu"                                 ? 16
                        : activation.type == "ThresholdedRelu"                           ? 10
                        : activation.type == "HardSigmoid" || activation.type == "Elu"   ? 6
                        : activation.type == "Softplus" || activation.type == "Softsign" ? 1
                                                                                         : 13;
    return one(activation.type.c_str(), version, {x}, like(0), std::move(attributes));
  }

  void fused_conv() {
    Attributes attributes = node_->attributes;
    attributes.erase("activation");
    attributes.erase("activation_params");
    Value* y = one("Conv", 11, {node_->in(0), node_->in(1), node_->in(2)}, like(0), std::move(attributes));
    if (node_->in(3) != nullptr) y = one("Add", 14, {y, node_->in(3)}, like(0));
    result(0, activated(y));
  }

  void fused_gemm() {
    Attributes attributes;
    for (const char* name : {"alpha", "beta", "transA", "transB"}) {
      if (node_->has(name)) attributes[name] = node_->attributes.at(name);
    }
    result(0, activated(one("Gemm", 13, {node_->in(0), node_->in(1), node_->in(2)}, like(0),
                            std::move(attributes))));
  }

  void moved_batch() {
    std::vector<Value*> in{node_->in(0), node_->in(1)};
    for (size_t i : {0, 1}) {
      if (node_->i(i == 0 ? "transBatchA" : "transBatchB", 0) == 0) continue;
      std::vector<int64_t> perm(in[i]->dims.size());
      std::iota(perm.begin(), perm.end() - 2, 1);
      perm[perm.size() - 2] = 0;
      perm.back() = static_cast<int64_t>(perm.size()) - 1;
      in[i] = one("Transpose", 13, {in[i]}, value(in[i]->type), {{"perm", perm}});
    }
    Value* y = like(0);
    Node* product = add(kMs, "FusedMatMul", 1, in, {y});
    for (const char* name : {"transA", "transB", "alpha"}) {
      if (node_->has(name)) product->attributes[name] = node_->attributes.at(name);
    }
    result(0, y);
  }

  void gated_add() {
    Value* product = one("Mul", 14, {node_->in(1), node_->in(2)}, like(0));
    result(0, one("Add", 14, {node_->in(0), product}, like(0)));
  }

  // x times a factor in float32, and that times its sigmoid, each rounded to the type of x.
  void scaled_silu() {
    const DType type = node_->out()->type;
    const auto cast = [&](Value* from, DType to) {
      return from->type == to ? from : one("Cast", 13, {from}, value(to), {{"to", static_cast<int64_t>(to)}});
    };
    Value* factor =
        node_->in(1) != nullptr ? cast(node_->in(1), DType::kFloat) : number(node_->f("alpha", 1));
    Value* wide = one("Mul", 14, {cast(node_->in(0), DType::kFloat), factor}, value(DType::kFloat));
    Value* x = cast(wide, type);
    result(0, one("Mul", 14, {x, one("Sigmoid", 13, {x}, like(0))}, like(0)));
  }

  Value* times(Value* x, float factor) { return one("Mul", 14, {x, number(factor)}, like(0)); }

  void affine() {
    Value* y = times(node_->in(0), node_->f(node_->type == "Scale" ? "scale" : "alpha", 1));
    if (node_->type == "Affine") y = one("Add", 14, {y, number(node_->f("beta", 0))}, like(0));
    result(0, y);
  }

  // alpha times the function of beta times x.
  void stretched() {
    Value* x = times(node_->in(0), node_->f("beta", 1));
    x = node_->type == "ScaledTanh" ? one("Tanh", 13, {x}, like(0)) : one("Softplus", 1, {x}, like(0));
    result(0, times(x, node_->f("alpha", 1)));
  }

  void dynamic_slice() { result(0, one("Slice", 13, node_->inputs, like(0))); }

  void short_product() {
    Value* wide[2];
    for (size_t i : {0, 1}) {
      wide[i] = one("Cast", 13, {node_->in(i)}, value(DType::kInt32),
                    {{"to", static_cast<int64_t>(DType::kInt32)}});
    }
    result(0, one("MatMul", 13, {wide[0], wide[1]}, like(0)));
  }

  // In the order of the input, of which the standard's tells the first places as well.
  void unique() {
    std::vector<Value*> out{like(0), value(DType::kInt64), value(DType::kInt64), value(DType::kInt64)};
    add("", "Unique", 11, {node_->in(0)}, out)->attributes["sorted"] = int64_t{0};
    result(0, out[0]);
    result(1, out[2]);
    result(2, out[3]);
  }

  // The standard's operator of the same name or nearly so, which has the channels second.
  void channels_last() {
    const bool pool = node_->type == "NhwcMaxPool", turns = pool || node_->i("channels_last", 0) != 0;
    std::vector<Value*> in = node_->inputs;
    std::vector<int64_t> there, back;
    if (turns) {
      const int64_t rank = static_cast<int64_t>(in[0]->dims.size());
      there = {0, rank - 1};
      back = {0};
      for (int64_t axis = 1; axis < rank - 1; ++axis) there.push_back(axis);
      for (int64_t axis = 2; axis < rank; ++axis) back.push_back(axis);
      back.push_back(1);
      in[0] = one("Transpose", 13, {in[0]}, value(in[0]->type), {{"perm", there}});
    }
    Attributes attributes = node_->attributes;
    attributes.erase("channels_last");
    Value* y = turns ? value(node_->out()->type) : like(0);
    one(pool ? "MaxPool" : "QLinearConv", pool ? 12 : 10, in, y, std::move(attributes));
    result(0, turns ? one("Transpose", 13, {y}, like(0), {{"perm", back}}) : y);
  }

  // ids, segments, tables of words, positions and segments, scale, bias, mask, positions -> y, lengths, sum.
  void embed() {
    Value *ids = node_->in(0), *positions = node_->in(8);
    Value* sum = one("Gather", 13, {node_->in(2), ids}, like(0));
    Value* places = positions != nullptr
                        ? one("Gather", 13, {node_->in(3), positions}, value(node_->out()->type))
                        : one("Slice", 13, {node_->in(3), ints({0}), shape_of(ids, 1), ints({0})},
                              value(node_->out()->type));
    sum = one("Add", 14, {sum, places}, like(0));
    if (node_->in(1) != nullptr && node_->in(4) != nullptr) {
      sum = one("Add", 14, {sum, one("Gather", 13, {node_->in(4), node_->in(1)}, like(0))}, like(0));
    }
    result(0, one("LayerNormalization", 17, {sum, node_->in(5), node_->in(6)}, like(0),
                  {{"epsilon", node_->f("epsilon", 1e-12f)}, {"axis", int64_t{-1}}}));
    if (node_->out(1) != nullptr) {
      if (Value* mask = node_->in(7)) {
        Value* one_ = graph_->add_constant(make_tensor<int32_t>(DType::kInt32, {}, {1}));
        Value* kept = one("Cast", 13, {one("Equal", 13, {mask, one_}, value(DType::kBool))},
                          value(DType::kInt32), {{"to", static_cast<int64_t>(DType::kInt32)}});
        result(1, one("ReduceSum", 13, {kept, ints({1})}, like(1), {{"keepdims", int64_t{0}}}));
      } else {
        result(1, one("ConstantOfShape", 9, {shape_of(ids, 0)}, like(1),
                      {{"value", make_tensor<int32_t>(DType::kInt32, {1}, {0})}}));
      }
    }
    // The sum is read by the normalisation as well.
    if (node_->out(2) != nullptr) result(2, one("Identity", 13, {sum}, like(2)));
  }

  Value* shape_of(Value* of, int64_t axis) {
    return one("Shape", 15, {of}, value(DType::kInt64), {{"start", axis}, {"end", axis + 1}});
  }

  // input, weights, bias, mask, past, bias of the scores; or with scales and zeros in between.
  void packed_attention() {
    const bool quantized = node_->type == "QAttention";
    const DType type = node_->out()->type;
    Value *mask = node_->in(quantized ? 5 : 3), *past = node_->in(quantized ? 8 : 4);
    Value *added = quantized ? nullptr : node_->in(5), *together = value(type);
    if (quantized) {
      add(kMs, "MatMulIntegerToFloat", 1,
          {node_->in(0), node_->in(1), node_->in(3), node_->in(4), node_->in(6), node_->in(7), node_->in(2)},
          {together});
    } else {
      add("ephost", "MatMul", 1, {node_->in(0), node_->in(1), node_->in(2)}, {together});
    }
    Value *keys = nullptr, *values = nullptr;
    if (past != nullptr) {
      Value* parts[2] = {value(type), value(type)};
      add("", "Split", 13, {past}, {parts[0], parts[1]})->attributes["axis"] = int64_t{0};
      keys = one("Squeeze", 13, {parts[0], ints({0})}, value(type));
      values = one("Squeeze", 13, {parts[1], ints({0})}, value(type));
    }
    std::vector<Value*> out{like(0)};
    if (node_->out(1) != nullptr) {
      out.push_back(value(type));
      out.push_back(value(type));
    }
    Node* attention = add("ephost", "MultiHeadAttention", 1,
                          {together, nullptr, nullptr, nullptr, mask, added, keys, values}, out);
    attention->attributes["packed"] = hidden_sizes(*node_);
    for (const char* name : {"num_heads", "scale", "mask_filter_value", "unidirectional"}) {
      if (node_->has(name)) attention->attributes[name] = node_->attributes.at(name);
    }
    result(0, out[0]);
    if (node_->out(1) != nullptr) {
      Value* present[2];
      for (size_t i : {0, 1}) present[i] = one("Unsqueeze", 13, {out[i + 1], ints({0})}, value(type));
      result(1, one("Concat", 13, {present[0], present[1]}, like(1), {{"axis", int64_t{0}}}));
    }
  }

  Graph* graph_;
  Node* node_;
  std::vector<Value*> results_;
  std::vector<size_t> done_;  // Which output each of them is.
};

}  // namespace

void expand_contrib(Graph* graph) {
  bool found = false;
  for (Node* node : std::vector<Node*>(graph->nodes)) {
    if (node->domain != kMs && !was_on_trial(*node)) continue;
    const Operator* op = Registry::get().find(*node);
    if (op == nullptr || op->prepare != nullptr || op->run != nullptr) continue;
    Expansion(graph, node).run();
    found = true;
  }
  if (found) graph->sort();
}

const Registration registration([](Registry* registry) {
  const auto add = [&](const char* type, std::function<std::string(const Node&)> supports, Types types) {
    registry->add(
        {.domain = kMs, .type = type, .supports = std::move(supports), .types = types, .foldable = false});
  };
  const auto add_on_trial = [&](const char* type, auto supports, Types types = {DType::kFloat}) {
    registry->add({.type = type, .supports = supports, .types = types, .foldable = false});
  };
  for (const char* type : {"Affine", "ParametricSoftplus", "Scale", "ScaledTanh"}) {
    add_on_trial(type, [](const Node& node) -> std::string {
      if (node.in(0) == nullptr || node.out() == nullptr) return "its input or output is left out";
      return node.in(0)->type == DType::kFloat ? "" : "its input is not float32";
    });
  }
  const auto slice = [](const Node& node) -> std::string {
    for (size_t i = 0; i < 3; ++i) {
      if (node.in(i) == nullptr) return "an input is left out";
    }
    return node.out() == nullptr ? "its output is left out" : why_not_as(node, "Slice", 13, 4);
  };
  add_on_trial("DynamicSlice", slice, kAny | kText);
  constexpr Types kBytesToo = {DType::kFloat, DType::kInt8, DType::kUint8, DType::kInt32};
  constexpr Types kHalvesToo = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt32,
                                DType::kInt64};
  add("Attention", supports_packed_attention, kHalvesToo);
  add("FusedMatMul", supports_moved_batch, {DType::kFloat, DType::kFloat16, DType::kBFloat16});
  add("QAttention", supports_packed_attention, kBytesToo);
  add(
      "EmbedLayerNormalization",
      [](const Node& node) { return node.out() == nullptr ? "its output is left out" : ""; }, kHalvesToo);
  add(
      "FusedConv",
      [](const Node& node) {
        const std::string why = why_not(activation_behind(node));
        return why.empty() ? why_not_as(node, "Conv", 11, 3) : why;
      },
      kHalvesToo);
  const auto needs = [](size_t inputs) {
    return [inputs](const Node& node) -> std::string {
      for (size_t i = 0; i < inputs; ++i) {
        if (node.in(i) == nullptr) return "an input is left out";
      }
      return node.out() == nullptr ? "its output is left out" : "";
    };
  };
  add(
      "GatedAdd",
      [needs](const Node& node) {
        return node.in(3) != nullptr ? "a gate that is computed, which is for CUDA" : needs(3)(node);
      },
      kHalvesToo);
  add("ScaledSiLU", needs(1), {DType::kFloat, DType::kFloat16, DType::kBFloat16});
  add("MatMulInteger16", needs(2), {DType::kInt16, DType::kInt32});
  add("Unique", needs(1), {DType::kFloat, DType::kInt64});
  add("NhwcMaxPool", supports_channels_last, {DType::kInt8, DType::kUint8});
  add("QLinearConv", supports_channels_last, kBytesToo);
  add("FusedGemm",
      [](const Node& node) {
        const std::string why = why_not(activation_behind(node));
        return why.empty() ? why_not_as(node, "Gemm", 13, 3) : why;
      },
      {DType::kFloat});
});

}  // namespace ephost::cpu
