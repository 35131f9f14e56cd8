// Quantised models: operators on floats between DequantizeLinear and QuantizeLinear become operators on
// bytes, and what follows a MatMulInteger of a dynamically quantised input becomes part of it.
#include <algorithm>
#include <cmath>

#include "cpu/passes/fuse.h"

namespace ephost::cpu {
namespace {

bool byte_type(DType type) { return type == DType::kUint8 || type == DType::kInt8; }

bool is_either(const Node& node, const char* type) { return node.is(type) || node.is("com.microsoft", type); }

// x as it was before it was dequantised (or after it was quantised), with its scale and zero point (null: 0).
struct Quantization {
  Value *x = nullptr, *scale = nullptr, *zero = nullptr;
  Node* node = nullptr;
  explicit operator bool() const { return x != nullptr; }
  bool single() const { return scale->is_scalar(); }
  // One scale for each index of this axis of a constant, or a single one.
  bool along(int64_t axis) const {
    if (single()) {
      return true;
    }
    const int64_t rank = static_cast<int64_t>(x->dims.size());
    int64_t mine = node->i("axis", 1);
    mine += mine < 0 ? rank : 0;
    return x->constant != nullptr && axis < rank && mine == axis && node->i("block_size", 0) == 0 &&
           scale->has_shape && scale->dims == Dims{x->dims[static_cast<size_t>(axis)]};
  }
};

Quantization dequantized(const Value* value) {
  Quantization q;
  Node* node = value == nullptr ? nullptr : value->producer;
  if (node != nullptr && is_either(*node, "DequantizeLinear") && node->in(0) != nullptr &&
      byte_type(node->in(0)->type) && node->in(1) != nullptr && node->in(1)->type == DType::kFloat &&
      node->i("output_dtype", 0) <= 1) {
    q = {node->in(0), node->in(1), node->in(2), node};
  }
  return q;
}

// The QuantizeLinear that alone reads this value, to bytes of one scale.
Quantization quantized(const Value* value) {
  Quantization q;
  Node* node = only_consumer(value);
  if (node != nullptr && is_either(*node, "QuantizeLinear") && node->in(0) == value &&
      byte_type(node->out()->type) && node->in(1) != nullptr && node->in(1)->type == DType::kFloat &&
      node->in(1)->is_scalar() && (node->in(2) != nullptr || node->out()->type == DType::kUint8)) {
    q = {node->out(), node->in(1), node->in(2), node};
  }
  return q;
}

// The zero point, made if there is none.
Value* zero_of(Graph* graph, const Quantization& q) {
  if (q.zero != nullptr) {
    return q.zero;
  }
  const Dims dims = q.single() ? Dims{} : q.scale->dims;
  TensorPtr zeros = make_tensor(q.x->type, dims);
  std::fill_n(static_cast<uint8_t*>(mutable_data(zeros)), zeros->bytes(), uint8_t{0});
  return graph->add_constant(zeros);
}

// Whether the lowest byte stands for 0, so that limiting to it is what Relu does.
bool starts_at_zero(const Quantization& q) {
  int64_t zero = 0;
  return (q.zero == nullptr || scalar(q.zero, &zero)) && zero == (q.x->type == DType::kInt8 ? -128 : 0);
}

// A bias as 32-bit integers of the scale a * b: it is that already, or a constant that can be made so. False
// if it is neither; null for no bias.
bool integer_bias(Graph* graph, Value* bias, const Quantization& a, const Quantization& b, Value** out) {
  *out = nullptr;
  if (bias == nullptr) {
    return true;
  }
  float a_scale = 0;
  if (!scalar(a.scale, &a_scale) || b.scale->constant == nullptr) {
    return false;
  }
  const float* b_scale = b.scale->constant->as<float>();
  const int64_t b_scales = count(b.scale->constant->dims);
  const Node* node = bias->producer;
  if (node != nullptr && is_either(*node, "DequantizeLinear") && node->in(0)->type == DType::kInt32) {
    const Value* scale = node->in(1);
    if (node->in(0)->constant == nullptr || scale->constant == nullptr || scale->type != DType::kFloat) {
      return false;
    }
    const int64_t n = count(scale->constant->dims);
    for (int64_t i = 0; i < std::max(n, b_scales); ++i) {
      const float expected = a_scale * b_scale[b_scales == 1 ? 0 : std::min(i, b_scales - 1)];
      const float found = scale->constant->as<float>()[n == 1 ? 0 : std::min(i, n - 1)];
      if (std::abs(found - expected) > 1e-3f * std::abs(expected)) {
        return false;
      }
    }
    std::vector<int64_t> zeros;
    if (node->in(2) != nullptr &&
        !(integers(node->in(2), &zeros) &&
          std::all_of(zeros.begin(), zeros.end(), [](int64_t z) { return z == 0; }))) {
      return false;
    }
    *out = node->in(0);
    return true;
  }
  if (bias->constant == nullptr || bias->type != DType::kFloat) {
    return false;
  }
  const int64_t n = count(bias->constant->dims);
  if (b_scales != 1 && b_scales != n) {
    return false;
  }
  std::vector<int32_t> values;
  for (int64_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(bias->constant->as<float>()[i]) /
                         (static_cast<double>(a_scale) * static_cast<double>(b_scale[b_scales == 1 ? 0 : i]));
    if (!(std::abs(value) < 1e9)) {
      return false;
    }
    values.push_back(static_cast<int32_t>(std::lrint(value)));
  }
  *out = graph->add_constant(make_tensor<int32_t>(DType::kInt32, {n}, values));
  return true;
}

// Puts a new node in the place of the one that makes `value`.
Node* replace(Graph* graph, Value* value, const char* domain, const char* type, std::vector<Value*> inputs,
              const Node& like) {
  const std::string name = like.name;
  const auto attributes = like.attributes;
  graph->remove(value->producer);
  Node* made = graph->add_node(domain, type, std::move(inputs), {value}, name);
  made->attributes = attributes;
  made->version = domain[0] == '\0' ? 10 : 1;
  return made;
}

// What a float operator is followed by: its quantisation, a Relu between being part of that.
Quantization after(const Value* value, bool with_relu) {
  Quantization q = quantized(value);
  if (!q && with_relu) {
    const Node* relu = only_consumer(value);
    if (relu != nullptr && relu->is("Relu")) {
      q = quantized(relu->out());
      if (q && !starts_at_zero(q)) {
        q = {};
      }
    }
  }
  return q;
}

void convolution(Graph* graph, Node* node) {
  const Quantization x = dequantized(node->in(0)), w = dequantized(node->in(1));
  const Quantization y = after(node->out(), true);
  Value* bias = nullptr;
  if (!x || !w || !y || !x.single() || w.x->constant == nullptr || !w.along(0) ||
      !integer_bias(graph, node->in(2), x, w, &bias)) {
    return;
  }
  std::vector<Value*> inputs = {x.x,     x.scale,           zero_of(graph, x), w.x,
                                w.scale, zero_of(graph, w), y.scale,           zero_of(graph, y)};
  if (bias != nullptr) inputs.push_back(bias);
  replace(graph, y.x, "", "QLinearConv", std::move(inputs), *node);
}

void product(Graph* graph, Node* node) {
  const bool gemm = node->is("Gemm"), transposed = gemm && node->i("transB", 0) != 0;
  const Quantization a = dequantized(node->in(0)), b = dequantized(node->in(1));
  if (!a || !b || !a.single() || !b.x->has_shape || b.x->dims.empty() ||
      (!b.single() && b.x->dims.size() != 2) ||
      !b.along(transposed ? 0 : static_cast<int64_t>(b.x->dims.size()) - 1)) {
    return;
  }
  const Quantization y = after(node->out(), true);
  std::vector<Value*> inputs = {a.x, a.scale, zero_of(graph, a), b.x, b.scale, zero_of(graph, b)};
  if (gemm) {
    Value* bias = nullptr;
    if (node->i("transA", 0) != 0 || node->f("alpha", 1) != 1 || node->f("beta", 1) != 1 ||
        b.x->constant == nullptr || !integer_bias(graph, node->in(2), a, b, &bias) ||
        (bias != nullptr && count(bias->constant->dims) != b.x->dims[transposed ? 0 : 1])) {
      return;
    }
    inputs.push_back(bias);
    if (y) {
      inputs.push_back(y.scale);
      inputs.push_back(zero_of(graph, y));
    }
    replace(graph, y ? y.x : node->out(), "com.microsoft", "QGemm", std::move(inputs), *node);
  } else if (y) {
    inputs.push_back(y.scale);
    inputs.push_back(zero_of(graph, y));
    replace(graph, y.x, "", "QLinearMatMul", std::move(inputs), *node);
  } else {
    replace(graph, node->out(), "com.microsoft", "MatMulIntegerToFloat",
            {a.x, b.x, a.scale, b.scale, a.zero, b.zero}, *node);
  }
}

void sum_or_product(Graph* graph, Node* node) {
  const Quantization a = dequantized(node->in(0)), b = dequantized(node->in(1));
  const Quantization y = after(node->out(), true);
  if (!a || !b || !y || !a.single() || !b.single() || a.x->type != b.x->type || a.x->type != y.x->type) {
    return;
  }
  replace(graph, y.x, "com.microsoft", node->is("Add") ? "QLinearAdd" : "QLinearMul",
          {a.x, a.scale, zero_of(graph, a), b.x, b.scale, zero_of(graph, b), y.scale, zero_of(graph, y)},
          *node);
}

// Whether two quantisations say the same of a byte.
bool same(const Quantization& x, const Quantization& y) {
  float x_scale = 0, y_scale = 0;
  int64_t x_zero = 0, y_zero = 0;
  return x.x->type == y.x->type && scalar(x.scale, &x_scale) && scalar(y.scale, &y_scale) &&
         x_scale == y_scale && (x.zero == nullptr || scalar(x.zero, &x_zero)) &&
         (y.zero == nullptr || scalar(y.zero, &y_zero)) && x_zero == y_zero;
}

// Whether the operator only moves elements of its first input, or leaves some out. Of a window the largest
// number is that of the largest byte.
bool moves(const Node& node) {
  static constexpr const char* kMovements[] = {"Reshape", "Transpose",    "Squeeze",     "Unsqueeze",
                                               "Flatten", "Slice",        "Split",       "Expand",
                                               "Tile",    "DepthToSpace", "SpaceToDepth"};
  if (node.is("MaxPool")) return node.outputs.size() == 1;
  if (node.is("Resize")) {
    return node.s("mode", "nearest") == "nearest" &&
           node.s("coordinate_transformation_mode", "") != "tf_crop_and_resize";
  }
  return std::any_of(std::begin(kMovements), std::end(kMovements),
                     [&](const char* type) { return node.is(type); });
}

// Operators that only move elements, between dequantisation and the same quantisation: they move bytes.
void movement(Graph* graph, Node* node) {
  const Quantization x = dequantized(node->in(0));
  if (!x || !x.single()) {
    return;
  }
  std::vector<Quantization> after_each;
  for (const Value* out : node->outputs) {
    after_each.push_back(out == nullptr ? Quantization() : quantized(out));
    if (!after_each.back() || !same(x, after_each.back())) {
      return;
    }
  }
  const Node like = *node;
  std::vector<Value*> inputs = node->inputs, outputs;
  inputs[0] = x.x;
  for (const Quantization& y : after_each) {
    outputs.push_back(y.x);
    graph->remove(y.node);
  }
  graph->remove(node);
  Node* made = graph->add_node("", like.type.c_str(), std::move(inputs), outputs, like.name);
  made->attributes = like.attributes;
  made->version = like.version;
}

// All bytes of a type, in the order of their tables.
Value* all_bytes(Graph* graph, DType type) {
  TensorPtr bytes = make_tensor(type, {256});
  uint8_t* data = static_cast<uint8_t*>(mutable_data(bytes));
  for (int i = 0; i < 256; ++i) data[i] = static_cast<uint8_t>(i);
  return graph->add_constant(bytes);
}

// The output of a new node that computes a table.
Node* add_table(Graph* graph, const char* domain, const char* type, std::vector<Value*> inputs,
                const Node& like) {
  Value* table = graph->add_like(inputs[0]);
  table->dims = {256};
  table->has_shape = true;
  Node* made = graph->add_node(domain, type, std::move(inputs), {table}, like.name);
  made->version = 1;
  return made;
}

// x brought to the scale of y, after a function ("" for none) has been applied; x and y have the same type.
// The table is computed once, if the scales are constants.
Node* table_of(Graph* graph, const Quantization& x, const Quantization& y, const Node& like,
               const std::string& function) {
  Node* made =
      add_table(graph, "ephost", "QLinearTable",
                {all_bytes(graph, x.x->type), x.scale, zero_of(graph, x), y.scale, zero_of(graph, y)}, like);
  made->attributes = like.attributes;
  made->attributes["function"] = function;
  return made;
}

// Functions of one element, between dequantisation and quantisation: 256 results in a table. Also none at
// all, a change of scale.
void by_table(Graph* graph, Node* node) {
  const bool nothing = is_either(*node, "QuantizeLinear");
  const Quantization x = dequantized(node->in(0));
  Quantization y;
  if (nothing) {
    if (byte_type(node->out()->type) && node->in(1) != nullptr && node->in(1)->type == DType::kFloat &&
        node->in(1)->is_scalar()) {
      y = {node->out(), node->in(1), node->in(2), node};
    }
  } else {
    y = quantized(node->out());
  }
  if (!x || !y || !x.single() || x.x->type != y.x->type) {
    return;
  }
  Node* table = table_of(graph, x, y, *node, nothing ? "" : node->type);
  replace(graph, y.x, "ephost", "LookUp", {x.x, table->out()}, *node)->attributes.clear();
}

// com.microsoft's functions of bytes.
void function_of_bytes(Graph* graph, Node* node) {
  Value* x = node->in(0);
  if (x == nullptr || !byte_type(x->type) || node->outputs.size() != 1) {
    return;
  }
  std::vector<Value*> inputs = node->inputs;
  inputs[0] = all_bytes(graph, x->type);
  Node* table = add_table(graph, "com.microsoft", node->type.c_str(), std::move(inputs), *node);
  table->attributes = node->attributes;
  replace(graph, node->out(), "ephost", "LookUp", {x, table->out()}, *node)->attributes.clear();
}

// A sum or product whose operands are functions of the same byte, as x * sigmoid(x) is, or one of them and a
// constant, is a function of it, too. So is a function of a function.
void function_of_functions(Graph* graph, Node* node) {
  const auto look_up = [](const Value* value) {
    Node* made = value == nullptr ? nullptr : value->producer;
    return made != nullptr && made->is("ephost", "LookUp") ? made : nullptr;
  };
  if (node->is("ephost", "LookUp")) {
    const Node* inner = look_up(node->in(0));
    if (inner == nullptr || only_consumer(inner->out()) != node) {
      return;
    }
    Value* x = inner->in(0);
    Node* table = add_table(graph, "ephost", "LookUp", {inner->in(1), node->in(1)}, *node);
    replace(graph, node->out(), "ephost", "LookUp", {x, table->out()}, *node)->attributes.clear();
    return;
  }
  Value *a = node->in(0), *b = node->in(3);
  if (a == nullptr || b == nullptr || a->type != b->type || !byte_type(a->type)) {
    return;
  }
  const auto is_number = [](const Value* value) {
    return value->constant != nullptr && count(value->dims) == 1;
  };
  Value* x = nullptr;
  const auto table = [&](Value* value) {
    const Node* made = look_up(value);
    return is_number(value) ? value : value == x ? all_bytes(graph, x->type) : made->in(1);
  };
  // What both could be functions of.
  std::vector<Value*> candidates;
  for (Value* each : {a, b}) {
    if (is_number(each)) continue;
    candidates.push_back(each);
    if (const Node* made = look_up(each)) candidates.push_back(made->in(0));
  }
  for (Value* each : candidates) {
    const auto is_function = [&](Value* value) {
      const Node* made = look_up(value);
      return value == each || (made != nullptr && made->in(0) == each) ||
             (is_number(value) && each->has_shape && value->dims.size() <= each->dims.size());
    };
    if (is_function(a) && is_function(b) && each->type == a->type) x = each;
  }
  if (x == nullptr) {
    return;
  }
  std::vector<Value*> inputs = node->inputs;
  inputs[0] = table(a);
  inputs[3] = table(b);
  // The first input is the one whose shape the table has.
  if (is_number(a)) {
    std::swap_ranges(inputs.begin(), inputs.begin() + 3, inputs.begin() + 3);
  }
  Node* made = add_table(graph, "com.microsoft", node->type.c_str(), std::move(inputs), *node);
  replace(graph, node->out(), "ephost", "LookUp", {x, made->out()}, *node)->attributes.clear();
}

// Operators between dequantisation and quantisation that com.microsoft has one on bytes for.
Node* on_bytes(Graph* graph, Node* node, const char* type) {
  const Quantization x = dequantized(node->in(0)), y = quantized(node->out());
  if (!x || !y || !x.single() || x.x->type != y.x->type) {
    return nullptr;
  }
  return replace(graph, y.x, "com.microsoft", type,
                 {x.x, x.scale, zero_of(graph, x), y.scale, zero_of(graph, y)}, *node);
}

// Means of whole channels, all their dimensions being kept.
bool is_global_average(const Node& node) {
  const Value* x = node.in(0);
  std::vector<int64_t> axes = node.ints("axes");
  if (!node.is("ReduceMean") || node.i("keepdims", 1) != 1 || !x->has_shape || x->dims.size() < 3 ||
      (axes.empty() && !integers(node.in(1), &axes))) {
    return false;
  }
  const int64_t rank = static_cast<int64_t>(x->dims.size());
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  bool all = static_cast<int64_t>(axes.size()) == rank - 2;
  for (size_t i = 0; all && i < axes.size(); ++i) all = axes[i] == static_cast<int64_t>(i) + 2;
  return all;
}

void softmax(Graph* graph, Node* node) {
  const int64_t version = node->version;
  if (Node* made = on_bytes(graph, node, "QLinearSoftmax")) {
    if (made->attributes.find("axis") == made->attributes.end()) {
      made->attributes["axis"] = int64_t{version < 13 ? 1 : -1};
    }
    made->attributes["opset"] = version;
  }
}

// Each part brought to the scale of the output, then bytes.
void join(Graph* graph, const std::vector<Quantization>& parts, const Quantization& y, const Node& like) {
  std::vector<Value*> inputs;
  for (const Quantization& part : parts) {
    if (same(part, y)) {
      inputs.push_back(part.x);
      continue;
    }
    Value* changed = graph->add_like(part.x);
    Node* table = table_of(graph, part, y, like, "");
    graph->add_node("ephost", "LookUp", {part.x, table->out()}, {changed}, like.name)->version = 1;
    inputs.push_back(changed);
  }
  replace(graph, y.x, "", "Concat", std::move(inputs), like)->version = 13;
}

void concatenation(Graph* graph, Node* node) {
  const Quantization y = quantized(node->out());
  if (!y) {
    return;
  }
  std::vector<Quantization> parts;
  for (const Value* input : node->inputs) {
    parts.push_back(dequantized(input));
    if (!parts.back() || !parts.back().single() || parts.back().x->type != y.x->type) {
      return;
    }
  }
  join(graph, parts, y, *node);
}

// com.microsoft's: scale and zero point of the output, and each part with its own.
void concatenation_of_bytes(Graph* graph, Node* node) {
  const size_t n = node->inputs.size();
  if (n < 5 || n % 3 != 2) {
    return;
  }
  const auto usable = [](const Quantization& q) {
    return q.x != nullptr && byte_type(q.x->type) && q.scale != nullptr && q.scale->type == DType::kFloat &&
           q.single() && q.zero != nullptr && q.zero->type == q.x->type;
  };
  const Quantization y = {node->out(), node->in(0), node->in(1), node};
  std::vector<Quantization> parts;
  for (size_t i = 2; i < n; i += 3) {
    parts.push_back({node->in(i), node->in(i + 1), node->in(i + 2), node});
    if (!usable(parts.back()) || parts.back().x->type != y.x->type) {
      return;
    }
  }
  if (usable(y)) join(graph, parts, y, *node);
}

// Rows of a quantised table: taken first, dequantised then.
void gather(Graph* graph, Node* node) {
  const Quantization x = dequantized(node->in(0));
  if (!x || !x.single() || x.x->constant == nullptr) {
    return;
  }
  const Node like = *node;
  Value* rows = graph->add_like(node->out());
  rows->type = x.x->type;
  Value* out = node->out();
  const Node dequantize = *x.node;
  Node* made = replace(graph, out, "", "DequantizeLinear", {rows, x.scale, x.zero}, dequantize);
  made->domain = dequantize.domain;
  made->version = dequantize.version;
  Node* taken = graph->add_node("", "Gather", {x.x, like.in(1)}, {rows}, like.name);
  taken->attributes = like.attributes;
  taken->version = like.version;
}

// MatMulInteger, Cast, Mul by the product of the scales, and Add of a bias.
void dynamic_product(Graph* graph, Node* node) {
  Node* cast = only_consumer(node->out());
  const Value* a = node->in(0);
  const Node* quantize = a == nullptr ? nullptr : a->producer;
  const Value* b = node->in(1);
  if (cast == nullptr || !cast->is("Cast") || cast->i("to", 0) != static_cast<int64_t>(DType::kFloat) ||
      quantize == nullptr || !quantize->is("DynamicQuantizeLinear") || quantize->out(0) != a ||
      b == nullptr || b->constant == nullptr || b->dims.size() != 2) {
    return;
  }
  Node* scaled = only_consumer(cast->out());
  if (scaled == nullptr || !scaled->is("Mul")) {
    return;
  }
  const Value* factor = scaled->in(0) == cast->out() ? scaled->in(1) : scaled->in(0);
  const Node* scales = factor == nullptr ? nullptr : factor->producer;
  if (scales == nullptr || !scales->is("Mul")) {
    return;
  }
  const size_t mine = scales->in(0) == quantize->out(1) ? 0 : 1;
  Value* b_scale = scales->in(1 - mine);
  const Dims columns{b->dims[1]};
  if (scales->in(mine) != quantize->out(1) || b_scale->constant == nullptr ||
      b_scale->type != DType::kFloat || (!b_scale->is_scalar() && b_scale->constant->dims != columns)) {
    return;
  }
  Value* zero = node->in(3);
  if (zero != nullptr && !zero->is_scalar() &&
      (zero->constant == nullptr || zero->constant->dims != columns)) {
    return;
  }
  Value *out = scaled->out(), *bias = nullptr;
  Node* add = only_consumer(out);
  if (add != nullptr && add->is("Add")) {
    Value* other = add->in(0) == out ? add->in(1) : add->in(0);
    if (other != nullptr && other->constant != nullptr && other->constant->dims == columns) {
      bias = other;
      out = add->out();
    }
  }
  std::vector<Value*> inputs = {node->in(0), node->in(1), scales->in(mine), b_scale, node->in(2), zero};
  if (bias != nullptr) inputs.push_back(bias);
  replace(graph, out, "com.microsoft", "MatMulIntegerToFloat", std::move(inputs), *node);
}

}  // namespace

void fuse_quantized(Graph* graph) {
  const auto each = [&](const auto& pass) {
    const std::vector<Node*> nodes = graph->nodes;
    for (Node* node : nodes) {
      if (!node->removed && !node->outputs.empty() && node->out() != nullptr) pass(node);
    }
    graph->remove_unused();
    graph->sort();
  };
  each([&](Node* node) {
    static constexpr const char* kFunctions[] = {"Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu",
                                                 "Relu",    "Elu",  "Softplus",    "Sqrt",      "Abs"};
    const auto is_one_of = [&](const auto& types) {
      return std::any_of(std::begin(types), std::end(types),
                         [&](const char* type) { return node->is(type); });
    };
    if (node->is("Conv")) {
      convolution(graph, node);
    } else if (node->is("MatMul") || node->is("Gemm")) {
      product(graph, node);
    } else if (node->is("Add") || node->is("Mul")) {
      sum_or_product(graph, node);
    } else if (node->is("Gather")) {
      gather(graph, node);
    } else if (node->is("MatMulInteger")) {
      dynamic_product(graph, node);
    } else if (node->is("Concat")) {
      concatenation(graph, node);
    } else if (node->is("com.microsoft", "QLinearConcat")) {
      concatenation_of_bytes(graph, node);
    } else if (node->is("GlobalAveragePool") || is_global_average(*node)) {
      on_bytes(graph, node, "QLinearGlobalAveragePool");
    } else if (node->is("AveragePool")) {
      on_bytes(graph, node, "QLinearAveragePool");
    } else if (node->is("Softmax")) {
      softmax(graph, node);
    } else if (is_one_of(kFunctions) || is_either(*node, "QuantizeLinear")) {
      by_table(graph, node);
    } else if (node->is("com.microsoft", "QLinearSigmoid") || node->is("com.microsoft", "QLinearLeakyRelu")) {
      function_of_bytes(graph, node);
    } else if (moves(*node)) {
      movement(graph, node);
    }
  });
  each([&](Node* node) {
    if (node->is("ephost", "LookUp") || node->is("com.microsoft", "QLinearAdd") ||
        node->is("com.microsoft", "QLinearMul")) {
      function_of_functions(graph, node);
    }
  });
  // Constants that are still dequantised are for kernels that want floats: they are folded after all.
  for (Node* node : graph->nodes) {
    if (is_either(*node, "DequantizeLinear") && node->in(0) != nullptr && node->in(0)->constant != nullptr) {
      node->domain = "ephost";
    }
  }
}

}  // namespace ephost::cpu
