/* The operators: what each takes, and the steps that it becomes once all shapes are known. */
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "../compiler/half.h"
#include "../compiler/post.h"
#include "blas.h"
#include "dnn.h"
#include "program.h"

namespace ephost_cuda {

namespace {

constexpr int kNewest = 1 << 20;
constexpr ephost::Types kReal{DType::kFloat, DType::kFloat16, DType::kBFloat16};
constexpr ephost::Types kInteger{DType::kInt32, DType::kInt64};
constexpr ephost::Types kMovable{DType::kFloat, DType::kFloat16, DType::kBFloat16,
                                 DType::kInt32, DType::kInt64,   DType::kUint8,
                                 DType::kInt8,  DType::kBool,    DType::kDouble};

/* ---- What is taken ------------------------------------------------------------------------------------- */

std::string type_problem(const Value* value, ephost::Types types) {
  if (value == nullptr || (value->tensor && types.has(value->type))) {
    return "";
  }
  return "'" + value->name + "' is " + (value->tensor ? ephost::name_of(value->type) : "no tensor");
}

std::string all_are(const Node& node, ephost::Types types, size_t inputs = SIZE_MAX) {
  for (size_t i = 0; i < std::min(inputs, node.inputs.size()); ++i) {
    const std::string problem = type_problem(node.inputs[i], types);
    if (!problem.empty()) {
      return problem;
    }
  }
  return type_problem(node.out(), types);
}

std::string rank_problem(const Node& node) {
  for (const Value* value : {node.in(0), node.out()}) {
    if (value != nullptr && value->has_shape && value->dims.size() > 8) {
      return "a rank above 8";
    }
  }
  return "";
}

bool computes_shapes(const Node& node);

/* Whether the content of a tensor of integers follows from shapes: such things are computed on the host. */
bool known(const Value* value, int depth = 0) {
  if (value == nullptr || value->constant != nullptr) {
    return true;
  }
  const Node* by = value->producer;
  if (by == nullptr || depth > 12 || !value->tensor || !kInteger.has(value->type)) {
    return false;
  }
  if (by->is("Shape") || by->is("Size")) {
    return true;
  }
  return computes_shapes(*by) && std::all_of(by->inputs.begin(), by->inputs.end(),
                                             [&](const Value* in) { return known(in, depth + 1); });
}

bool computes_shapes(const Node& node) {
  static const char* const kTypes[] = {"Add",   "Sub",     "Mul",       "Div",  "Gather",  "Concat",
                                       "Slice", "Squeeze", "Unsqueeze", "Cast", "Reshape", "Identity"};
  return std::any_of(std::begin(kTypes), std::end(kTypes), [&](const char* type) { return node.is(type); });
}

/* Reals on the device; integers where they follow from shapes. */
std::string arithmetic(const Node& node) {
  if (node.in(0) != nullptr && node.in(0)->tensor && kInteger.has(node.in(0)->type)) {
    return known(node.out()) ? "" : "integers that do not follow from shapes";
  }
  const std::string problem = all_are(node, kReal);
  if (!problem.empty()) {
    return problem;
  }
  for (const Value* input : node.inputs) {
    if (input != nullptr && input->type != node.in(0)->type) {
      return "operands of different types";
    }
  }
  return rank_problem(node);
}

std::string reals(const Node& node) { return arithmetic(node); }

std::string first_output_only(const Node& node) {
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != nullptr && (!node.outputs[i]->consumers.empty() || node.outputs[i]->is_output)) {
      return "more than its first output";
    }
  }
  return all_are(node, kReal, 1);
}

std::string movable(const Node& node) {
  const std::string problem = all_are(node, kMovable, 1);
  return problem.empty() ? rank_problem(node) : problem;
}

std::string moved_with_indices(const Node& node) {
  const std::string problem = movable(node);
  return problem.empty() ? type_problem(node.in(1), kInteger) : problem;
}

std::string constants_after_first(const Node& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    float number = 0;
    if (node.inputs[i] != nullptr && !scalar(node.inputs[i], &number)) {
      return "bounds that are not constant";
    }
  }
  return all_are(node, kReal, 1);
}

std::string power(const Node& node) {
  float exponent = 0;
  const bool fixed = scalar(node.in(1), &exponent) && (exponent == 1 || exponent == 2 || exponent == 0.5f);
  return fixed ? all_are(node, kReal, 1) : arithmetic(node);
}

std::string batch_norm(const Node& node) {
  if (node.i("training_mode", 0) != 0) {
    return "training";
  }
  for (size_t i = 1; i < 5; ++i) {
    const Value* value = node.in(i);
    if (value == nullptr || value->constant == nullptr || !kReal.has(value->type)) {
      return "statistics that are not constant";
    }
    if (ephost::count(value->constant->dims) > 4096) {
      return "more than 4096 channels";
    }
  }
  return first_output_only(node);
}

std::string window(const Node& node) {
  const Value *in = node.in(0), *weights = node.in(1);
  size_t rank = node.ints("kernel_shape").size() + 2; /* where the model leaves the shape of the input open */
  if (in != nullptr && in->has_shape) {
    rank = in->dims.size();
  } else if (weights != nullptr && weights->has_shape) {
    rank = weights->dims.size();
  }
  if (rank < 3 || rank > 4) {
    return "other than one or two spatial dimensions";
  }
  return first_output_only(node);
}

std::string pooling(const Node& node) {
  if (node.i("storage_order", 0) != 0) {
    return "column-major storage";
  }
  return window(node);
}

std::string castable(const Node& node) {
  static constexpr ephost::Types kTypes{DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt32,
                                        DType::kInt64, DType::kUint8,   DType::kInt8,     DType::kBool};
  return all_are(node, kTypes);
}

std::string shapes(const Node& node) {
  (void)node;
  return "";
}

std::string dropout(const Node& node) {
  if (node.in(2) != nullptr) {
    return "a training mode that is an input";
  }
  return first_output_only(node);
}

/* ---- Helpers ------------------------------------------------------------------------------------------- */

size_t axis_of(int64_t axis, size_t rank) {
  const int64_t own = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (own < 0 || own >= static_cast<int64_t>(std::max<size_t>(rank, 1))) {
    throw Error("axis " + std::to_string(axis) + " of " + std::to_string(rank) + " dimensions",
                ORT_INVALID_ARGUMENT);
  }
  return static_cast<size_t>(own);
}

std::vector<int64_t> strides_of(const Dims& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * dims[d];
  }
  return strides;
}

Dims broadcast(const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw Error("shapes " + ephost::to_string(a) + " and " + ephost::to_string(b) + " do not fit",
                  ORT_INVALID_ARGUMENT);
    }
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

/* ---- Integers that follow from shapes ------------------------------------------------------------------ */

void plan_integers(Planner& planner, const Node& node) {
  const std::vector<int64_t> a = planner.content(node.in(0));
  const std::vector<int64_t> b = planner.content(node.in(1));
  const Dims dims = broadcast(planner.dims(node.in(0)), planner.dims(node.in(1)));
  const size_t count = static_cast<size_t>(ephost::count(dims));
  if ((a.size() != count && a.size() != 1) || (b.size() != count && b.size() != 1)) {
    throw Error("shapes are computed with more than vectors", ORT_NOT_IMPLEMENTED);
  }
  std::vector<int64_t> out(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t x = a[a.size() == 1 ? 0 : i], y = b[b.size() == 1 ? 0 : i];
    if (node.is("Div") && y == 0) {
      throw Error("a division by zero", ORT_INVALID_ARGUMENT);
    }
    out[i] = node.is("Add") ? x + y : node.is("Sub") ? x - y : node.is("Mul") ? x * y : x / y;
  }
  planner.give(node.out(), dims, std::move(out));
}

/* ---- Elementwise --------------------------------------------------------------------------------------- */

ChainStep step_of(Op op, float a = 0, float b = 0) { return {op, kSaved, 0, 0, a, b}; }

struct Unary {
  const char* type;
  Op op;
  const char *a, *b; /* attributes */
  float a_default, b_default;
};

constexpr Unary kUnary[] = {
    {"Abs", Op::kAbs, nullptr, nullptr, 0, 0},
    {"Neg", Op::kNeg, nullptr, nullptr, 0, 0},
    {"Exp", Op::kExp, nullptr, nullptr, 0, 0},
    {"Log", Op::kLog, nullptr, nullptr, 0, 0},
    {"Sqrt", Op::kSqrt, nullptr, nullptr, 0, 0},
    {"Reciprocal", Op::kReciprocal, nullptr, nullptr, 0, 0},
    {"Floor", Op::kFloor, nullptr, nullptr, 0, 0},
    {"Ceil", Op::kCeil, nullptr, nullptr, 0, 0},
    {"Round", Op::kRound, nullptr, nullptr, 0, 0},
    {"Sign", Op::kSign, nullptr, nullptr, 0, 0},
    {"Sin", Op::kSin, nullptr, nullptr, 0, 0},
    {"Cos", Op::kCos, nullptr, nullptr, 0, 0},
    {"Erf", Op::kErf, nullptr, nullptr, 0, 0},
    {"Tanh", Op::kTanh, nullptr, nullptr, 0, 0},
    {"Sigmoid", Op::kSigmoid, nullptr, nullptr, 0, 0},
    {"Softplus", Op::kSoftplus, nullptr, nullptr, 0, 0},
    {"Softsign", Op::kSoftsign, nullptr, nullptr, 0, 0},
    {"Relu", Op::kRelu, nullptr, nullptr, 0, 0},
    {"LeakyRelu", Op::kLeakyRelu, "alpha", nullptr, 0.01f, 0},
    {"Elu", Op::kElu, "alpha", nullptr, 1, 0},
    {"Selu", Op::kSelu, "alpha", "gamma", 1.67326319217681884765625f, 1.05070102214813232421875f},
    {"HardSigmoid", Op::kHardSigmoid, "alpha", "beta", 0.2f, 0.5f},
    {"HardSwish", Op::kHardSwish, nullptr, nullptr, 0, 0},
    {"Mish", Op::kMish, nullptr, nullptr, 0, 0},
};

Planner::Chain chain_from(Planner& planner, const Node& node, const Value* first, const Dims& dims,
                          const Value** continued) {
  Planner::Chain* before = planner.pending(first);
  Planner::Chain chain;
  *continued = nullptr;
  if (before != nullptr && before->dims == dims) {
    chain = *before;
    *continued = first;
    chain.label += ", " + node.label();
  } else {
    chain.type = planner.type(first);
    chain.dims = dims;
    chain.operands = {first};
    chain.reads = {first};
    chain.label = node.label();
  }
  return chain;
}

void plan_unary(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *continued = nullptr;
  Planner::Chain chain = chain_from(planner, node, in, planner.dims(in), &continued);
  if (node.is("Gelu")) {
    chain.steps.push_back(step_of(node.s("approximate", "none") == "tanh" ? Op::kGeluTanh : Op::kGelu));
  } else if (node.is("Clip")) {
    float low = -INFINITY, high = INFINITY;
    if (node.version < 11) {
      low = node.f("min", low);
      high = node.f("max", high);
    }
    if (node.in(1) != nullptr) scalar(node.in(1), &low);
    if (node.in(2) != nullptr) scalar(node.in(2), &high);
    chain.steps.push_back(step_of(Op::kClip, low, high));
  } else {
    const Unary* found = std::find_if(std::begin(kUnary), std::end(kUnary),
                                      [&](const Unary& unary) { return node.type == unary.type; });
    chain.steps.push_back(step_of(found->op, found->a == nullptr ? 0 : node.f(found->a, found->a_default),
                                  found->b == nullptr ? 0 : node.f(found->b, found->b_default)));
  }
  planner.end_chain(node.out(), std::move(chain), continued);
}

/* The operand that a step reads: one of the chain's, the saved value, or a new one. */
uint8_t operand_for(Planner::Chain* chain, const Value* value, bool continued) {
  const auto has_save = [&] {
    return std::any_of(chain->steps.begin(), chain->steps.end(),
                       [](const ChainStep& s) { return s.op == Op::kSave; });
  };
  /* What the chain starts with is at hand at its start: x * sigmoid(x) reads x once. */
  if (continued && chain->operands[0] == value && !has_save()) {
    chain->steps.insert(chain->steps.begin(), step_of(Op::kSave));
    return kSaved;
  }
  for (size_t i = 0; i < chain->operands.size(); ++i) {
    if (chain->operands[i] == value) {
      return static_cast<uint8_t>(i);
    }
  }
  chain->operands.push_back(value);
  return static_cast<uint8_t>(chain->operands.size() - 1);
}

void plan_binary_of(Planner& planner, const Node& node, Op op, const Value* a, const Value* b,
                    const Value* out) {
  const Dims dims = broadcast(planner.dims(a), planner.dims(b));
  const Planner::Chain* of_b = planner.pending(b);
  const Planner::Chain* of_a = planner.pending(a);
  const bool takes_a = of_a != nullptr && of_a->dims == dims;
  bool swap = !takes_a && of_b != nullptr && of_b->dims == dims;
  if (!takes_a && !swap && planner.dims(a) != dims && planner.dims(b) == dims) {
    swap = true; /* the chain starts with the operand that has the result's shape */
  }
  if (op == Op::kPrelu) {
    swap = false;
  }
  float number = 0;
  const Value *base = swap ? b : a, *other = swap ? a : b;
  const Value* continued = nullptr;
  Planner::Chain chain = chain_from(planner, node, base, dims, &continued);
  const bool by_number = scalar(other, &number) && planner.dims(base) == dims;
  if (by_number && op == Op::kAdd) {
    chain.steps.push_back(step_of(Op::kAffine, 1, number));
  } else if (by_number && op == Op::kSub) {
    chain.steps.push_back(step_of(Op::kAffine, swap ? -1.0f : 1.0f, swap ? number : -number));
  } else if (by_number && op == Op::kMul) {
    chain.steps.push_back(step_of(Op::kAffine, number, 0));
  } else if (op == Op::kPow && !swap && scalar(b, &number) &&
             (number == 1 || number == 2 || number == 0.5f)) {
    if (number == 2) {
      chain.steps.push_back(step_of(Op::kSave));
      chain.steps.push_back(step_of(Op::kMul));
    } else if (number == 0.5f) {
      chain.steps.push_back(step_of(Op::kSqrt));
    }
  } else if (a == b) {
    chain.steps.push_back(step_of(Op::kSave));
    chain.steps.push_back(step_of(op));
    chain.reads.push_back(b);
  } else {
    ChainStep step = step_of(op);
    step.operand = operand_for(&chain, other, continued != nullptr);
    step.swapped = swap;
    chain.steps.push_back(step);
    chain.reads.push_back(other);
  }
  planner.end_chain(out, std::move(chain), continued);
}

void plan_binary(Planner& planner, const Node& node) {
  static const std::pair<const char*, Op> kOps[] = {
      {"Add", Op::kAdd}, {"Sub", Op::kSub}, {"Mul", Op::kMul}, {"Div", Op::kDiv},
      {"Pow", Op::kPow}, {"Max", Op::kMax}, {"Min", Op::kMin}, {"PRelu", Op::kPrelu}};
  if (kInteger.has(planner.type(node.in(0)))) {
    plan_integers(planner, node);
    return;
  }
  for (const auto& entry : kOps) {
    if (node.type == entry.first) {
      plan_binary_of(planner, node, entry.second, node.in(0), node.in(1), node.out());
    }
  }
}

std::string two_reals(const Node& node) {
  return node.inputs.size() != 2 ? "other than two operands" : all_are(node, kReal);
}

/* max(x, slope * x) by a slope for each channel, whose shape broadcasts to x's and never the other way. */
std::string prelu(const Node& node) { return two_reals(node); }

std::vector<float> floats_of(const TensorPtr& tensor) {
  std::vector<float> out(static_cast<size_t>(ephost::count(tensor->dims)));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = tensor->type == DType::kFloat     ? tensor->as<float>()[i]
             : tensor->type == DType::kFloat16 ? static_cast<float>(tensor->as<ephost::Half>()[i])
                                               : static_cast<float>(tensor->as<ephost::BFloat16>()[i]);
  }
  return out;
}

void plan_batch_norm(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *continued = nullptr;
  const Dims& dims = planner.dims(in);
  std::vector<float> factor = floats_of(node.in(1)->constant), shift = floats_of(node.in(2)->constant);
  const std::vector<float> mean = floats_of(node.in(3)->constant), variance = floats_of(node.in(4)->constant);
  const float epsilon = node.f("epsilon", 1e-5f);
  if (dims.size() < 2 || dims[1] != static_cast<int64_t>(factor.size())) {
    throw Error("statistics of another number of channels", ORT_INVALID_ARGUMENT);
  }
  for (size_t i = 0; i < factor.size(); ++i) {
    factor[i] /= std::sqrt(variance[i] + epsilon);
    shift[i] -= mean[i] * factor[i];
  }
  Dims per_channel(dims.size() - 1, 1);
  per_channel[0] = dims[1];
  Planner::Chain chain = chain_from(planner, node, in, dims, &continued);
  ChainStep scale = step_of(Op::kMul), add = step_of(Op::kAdd);
  if (chain.operands.size() + 2 > kMaxOperands) {
    (void)planner.read(in);
    chain = chain_from(planner, node, in, dims, &continued);
  }
  chain.operands.push_back(planner.constant(planner.type(in), per_channel, factor));
  scale.operand = static_cast<uint8_t>(chain.operands.size() - 1);
  chain.operands.push_back(planner.constant(planner.type(in), per_channel, shift));
  add.operand = static_cast<uint8_t>(chain.operands.size() - 1);
  chain.steps.push_back(scale);
  chain.steps.push_back(add);
  planner.end_chain(node.out(), std::move(chain), continued);
}

void plan_cast(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *out = node.out();
  if (kInteger.has(planner.type(in)) && kInteger.has(out->type) && planner.has_content(in)) {
    planner.give(out, planner.dims(in), planner.content(in));
    return;
  }
  if (planner.type(in) == out->type) {
    planner.alias(out, in, planner.dims(in));
    return;
  }
  const auto element = [](DType type) {
    switch (type) {
      case DType::kFloat16:
        return Element::kHalf;
      case DType::kBFloat16:
        return Element::kBfloat;
      case DType::kInt32:
        return Element::kInt32;
      case DType::kInt64:
        return Element::kInt64;
      case DType::kUint8:
        return Element::kUint8;
      case DType::kInt8:
        return Element::kInt8;
      case DType::kBool:
        return Element::kBool;
      default:
        return Element::kFloat;
    }
  };
  const Place from = planner.read(in);
  const Dims dims = planner.dims(in);
  const Place to = planner.write(out, dims);
  CastArguments args = {nullptr, nullptr, ephost::count(dims), element(planner.type(in)), element(out->type)};
  const CUfunction function = planner.kernel("cast_elements");
  if (args.count > 0) {
    planner.step([=](const Launch& launch) {
      CastArguments now = args;
      now.from = launch.address(from);
      now.to = launch.address(to);
      launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
    });
  }
}

/* ---- Shapes -------------------------------------------------------------------------------------------- */

void plan_shape(Planner& planner, const Node& node) {
  const Dims& dims = planner.dims(node.in(0));
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (node.is("Size")) {
    planner.give(node.out(), {}, {ephost::count(dims)});
    return;
  }
  int64_t start = node.i("start", 0), end = node.i("end", rank);
  start = std::clamp(start < 0 ? start + rank : start, int64_t{0}, rank);
  end = std::clamp(end < 0 ? end + rank : end, int64_t{0}, rank);
  std::vector<int64_t> out;
  if (start < end) {
    out.assign(dims.begin() + start, dims.begin() + end);
  }
  planner.give(node.out(), {static_cast<int64_t>(out.size())}, out);
}

/* The same elements under other dimensions. */
void rename(Planner& planner, const Node& node, const Dims& dims) {
  const Value* in = node.in(0);
  if (ephost::count(dims) != ephost::count(planner.dims(in))) {
    throw Error(
        ephost::to_string(planner.dims(in)) + " has not as many elements as " + ephost::to_string(dims),
        ORT_INVALID_ARGUMENT);
  }
  if (kInteger.has(planner.type(in)) && planner.has_content(in)) {
    planner.give(node.out(), dims, planner.content(in));
  } else {
    planner.alias(node.out(), in, dims);
  }
}

void plan_reshape(Planner& planner, const Node& node) {
  const Dims& from = planner.dims(node.in(0));
  Dims dims = planner.content(node.in(1));
  const bool zero_is_zero = node.i("allowzero", 0) != 0;
  int64_t product = 1;
  size_t open = dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !zero_is_zero) {
      dims[i] = i < from.size() ? from[i] : 0;
    }
    if (dims[i] == -1) {
      open = i;
    } else {
      product *= dims[i];
    }
  }
  if (open < dims.size()) {
    dims[open] = product == 0 ? 0 : ephost::count(from) / product;
  }
  rename(planner, node, dims);
}

void plan_flatten(Planner& planner, const Node& node) {
  const Dims& from = planner.dims(node.in(0));
  const int64_t given = node.i("axis", 1);
  const size_t axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(from.size()) : given);
  if (axis > from.size()) {
    throw Error("an axis beyond the rank", ORT_INVALID_ARGUMENT);
  }
  rename(planner, node, {ephost::count(from, 0, axis), ephost::count(from, axis, from.size())});
}

std::vector<int64_t> axes_of(Planner& planner, const Node& node) {
  return node.in(1) != nullptr ? planner.content(node.in(1)) : node.ints("axes");
}

void plan_squeeze(Planner& planner, const Node& node) {
  const Dims& from = planner.dims(node.in(0));
  const std::vector<int64_t> axes = axes_of(planner, node);
  std::vector<bool> gone(from.size(), false);
  for (int64_t axis : axes) {
    gone[axis_of(axis, from.size())] = true;
  }
  Dims dims;
  for (size_t i = 0; i < from.size(); ++i) {
    if (axes.empty() ? from[i] != 1 : !gone[i]) {
      dims.push_back(from[i]);
    }
  }
  rename(planner, node, dims);
}

void plan_unsqueeze(Planner& planner, const Node& node) {
  const Dims& from = planner.dims(node.in(0));
  const std::vector<int64_t> axes = axes_of(planner, node);
  const size_t rank = from.size() + axes.size();
  Dims dims(rank, 0);
  for (int64_t axis : axes) {
    dims[axis_of(axis, rank)] = 1;
  }
  size_t next = 0;
  for (int64_t& dim : dims) {
    if (dim == 0) {
      if (next == from.size()) {
        throw Error("an axis is named twice", ORT_INVALID_ARGUMENT);
      }
      dim = from[next++];
    }
  }
  rename(planner, node, dims);
}

void plan_identity(Planner& planner, const Node& node) { rename(planner, node, planner.dims(node.in(0))); }

/* ---- Moves --------------------------------------------------------------------------------------------- */

/* Queues a transposition; dims are those of `from`, perm as ONNX has it. */
void transpose(Planner& planner, const Place& from, const Place& to, size_t size, const Dims& dims,
               const std::vector<size_t>& perm) {
  const std::vector<int64_t> own = strides_of(dims);
  Dims out;
  std::vector<int64_t> strides;
  for (size_t axis : perm) {
    out.push_back(dims[axis]);
    strides.push_back(own[axis]);
  }
  /* Merge what stays together; two groups, or three of which the first stays, are a transposition of
   * matrices. */
  Dims merged;
  std::vector<int64_t> steps;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 1) {
      continue;
    }
    if (!merged.empty() && steps.back() == strides[i] * out[i]) {
      merged.back() *= out[i];
      steps.back() = strides[i];
    } else {
      merged.push_back(out[i]);
      steps.push_back(strides[i]);
    }
  }
  const size_t n = merged.size();
  const bool matrices = n >= 2 && n <= 3 && size <= 8 && steps[n - 2] == 1 && steps[n - 1] == merged[n - 2] &&
                        (n == 2 || steps[0] == merged[1] * merged[2]);
  const int64_t batch = n == 3 ? merged[0] : 1;
  if (matrices && batch <= 65535 && merged[n - 1] <= 32 * 65535 && merged[n - 2] <= INT32_MAX &&
      merged[n - 1] >= 8 && merged[n - 2] >= 8) {
    const int32_t rows = static_cast<int32_t>(merged[n - 1]), columns = static_cast<int32_t>(merged[n - 2]);
    const CUfunction function = planner.kernel("transpose_u" + std::to_string(size * 8));
    planner.step([=](const Launch& launch) {
      TransposeArguments args = {launch.address(from), launch.address(to), rows, columns};
      launch.kernel(function,
                    {static_cast<uint32_t>((columns + 31) / 32), static_cast<uint32_t>((rows + 31) / 32),
                     static_cast<uint32_t>(batch)},
                    {32, 8, 1}, &args);
    });
    return;
  }
  planner.copy(from, to, size, out, strides, strides_of(out));
}

void plan_transpose(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  std::vector<int64_t> perm = node.ints("perm");
  std::vector<size_t> order;
  if (perm.empty()) {
    perm.resize(dims.size());
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  Dims out;
  for (int64_t axis : perm) {
    order.push_back(axis_of(axis, dims.size()));
    out.push_back(dims[order.back()]);
  }
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  transpose(planner, from, to, size_of(planner.type(in)), dims, order);
}

void plan_gather(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *index = node.in(1);
  const Dims dims = planner.dims(in), where = planner.dims(index);
  const size_t axis = axis_of(node.i("axis", 0), dims.size());
  Dims out(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis));
  out.insert(out.end(), where.begin(), where.end());
  out.insert(out.end(), dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end());
  if (kInteger.has(planner.type(in)) && planner.has_content(in) && dims.size() == 1 &&
      (planner.has_content(index) || known(node.out()))) {
    std::vector<int64_t> numbers;
    for (int64_t i : planner.content(index)) {
      numbers.push_back(planner.content(in)[axis_of(i, planner.content(in).size())]);
    }
    planner.give(node.out(), out, numbers);
    return;
  }
  const Place from = planner.read(in), at = planner.read(index);
  const Place to = planner.write(node.out(), out);
  const int64_t inner_bytes =
      ephost::count(dims, axis + 1, dims.size()) * static_cast<int64_t>(size_of(planner.type(in)));
  int64_t unit = 16;
  while (inner_bytes % unit != 0) {
    unit /= 2;
  }
  const int64_t narrow = static_cast<int64_t>(size_of(planner.type(in)));
  const int64_t count = ephost::count(out);
  if (count == 0) {
    return;
  }
  if (count > INT32_MAX) {
    throw Error("a result of more than 2^31 elements", ORT_NOT_IMPLEMENTED);
  }
  const auto form = [&](int64_t bytes) {
    GatherArguments args = {};
    args.inner = divider(static_cast<uint32_t>(inner_bytes / bytes));
    args.num_index = divider(static_cast<uint32_t>(ephost::count(where)));
    args.count = static_cast<uint32_t>(count * narrow / bytes);
    args.axis = dims[axis];
    args.wide = planner.type(index) == DType::kInt64;
    return args;
  };
  const GatherArguments wide_form = form(unit), narrow_form = form(narrow);
  const CUfunction fast = planner.kernel("gather_u" + std::to_string(unit * 8));
  const CUfunction any = planner.kernel("gather_u" + std::to_string(narrow * 8));
  planner.step([=](const Launch& launch) {
    void* source = launch.address(from);
    void* target = launch.address(to);
    const uintptr_t both = reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(target);
    const bool aligned = both % static_cast<uintptr_t>(unit) == 0;
    GatherArguments now = aligned ? wide_form : narrow_form;
    now.from = source;
    now.to = target;
    now.index = launch.address(at);
    launch.kernel(aligned ? fast : any, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
  });
}

Place moved(Place place, int64_t bytes) {
  place.offset += static_cast<uint64_t>(bytes);
  return place;
}

void plan_concat(Planner& planner, const Node& node) {
  Dims out = planner.dims(node.in(0));
  const size_t axis = axis_of(node.i("axis", 0), out.size());
  const int64_t size = static_cast<int64_t>(size_of(planner.type(node.in(0))));
  out[axis] = 0;
  bool contents = kInteger.has(planner.type(node.in(0))) && out.size() == 1;
  for (const Value* input : node.inputs) {
    out[axis] += planner.dims(input)[axis];
    contents = contents && (planner.has_content(input) || known(input));
  }
  if (contents) {
    std::vector<int64_t> numbers;
    for (const Value* input : node.inputs) {
      const std::vector<int64_t>& own = planner.content(input);
      numbers.insert(numbers.end(), own.begin(), own.end());
    }
    planner.give(node.out(), out, numbers);
    return;
  }
  std::vector<Place> places;
  for (const Value* input : node.inputs) {
    places.push_back(planner.read(input));
  }
  const Place to = planner.write(node.out(), out);
  const int64_t outer = ephost::count(out, 0, axis), inner = ephost::count(out, axis + 1, out.size());
  int64_t done = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t own = planner.dims(node.inputs[i])[axis];
    planner.copy(places[i], moved(to, done * inner * size), static_cast<size_t>(size), {outer, own * inner},
                 {own * inner, 1}, {out[axis] * inner, 1});
    done += own;
  }
}

void plan_split(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const size_t axis = axis_of(node.i("axis", 0), dims.size());
  std::vector<int64_t> parts = node.in(1) != nullptr ? planner.content(node.in(1)) : node.ints("split");
  if (parts.empty()) {
    const int64_t num = static_cast<int64_t>(node.outputs.size());
    const int64_t each = (dims[axis] + num - 1) / num;
    for (int64_t i = 0; i < num; ++i) {
      parts.push_back(std::max<int64_t>(std::min(each, dims[axis] - i * each), 0));
    }
  }
  if (parts.size() != node.outputs.size() ||
      std::accumulate(parts.begin(), parts.end(), int64_t{0}) != dims[axis]) {
    throw Error("the parts do not add up", ORT_INVALID_ARGUMENT);
  }
  const Place from = planner.read(in);
  const int64_t size = static_cast<int64_t>(size_of(planner.type(in)));
  const int64_t outer = ephost::count(dims, 0, axis), inner = ephost::count(dims, axis + 1, dims.size());
  int64_t done = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (node.outputs[i] != nullptr) {
      Dims out = dims;
      out[axis] = parts[i];
      const Place to = planner.write(node.outputs[i], out);
      planner.copy(moved(from, done * inner * size), to, static_cast<size_t>(size), {outer, parts[i] * inner},
                   {dims[axis] * inner, 1}, {parts[i] * inner, 1});
    }
    done += parts[i];
  }
}

void plan_slice(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const bool old = node.version < 10;
  const std::vector<int64_t> starts = old ? node.ints("starts") : planner.content(node.in(1));
  const std::vector<int64_t> ends = old ? node.ints("ends") : planner.content(node.in(2));
  std::vector<int64_t> axes = old                     ? node.ints("axes")
                              : node.in(3) != nullptr ? planner.content(node.in(3))
                                                      : std::vector<int64_t>();
  std::vector<int64_t> steps =
      old || node.in(4) == nullptr ? std::vector<int64_t>() : planner.content(node.in(4));
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  steps.resize(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size()) {
    throw Error("starts, ends and axes differ in number", ORT_INVALID_ARGUMENT);
  }
  const std::vector<int64_t> own = strides_of(dims);
  Dims out = dims;
  std::vector<int64_t> strides = own;
  int64_t first = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = axis_of(axes[i], dims.size());
    const int64_t size = dims[axis], by = steps[i];
    if (by == 0) {
      throw Error("a step of 0", ORT_INVALID_ARGUMENT);
    }
    int64_t start = starts[i] < 0 ? starts[i] + size : starts[i],
            end = ends[i] < 0 ? ends[i] + size : ends[i];
    if (by > 0) {
      start = std::clamp(start, int64_t{0}, size);
      end = std::clamp(end, int64_t{0}, size);
      out[axis] = end > start ? (end - start + by - 1) / by : 0;
    } else {
      start = std::clamp(start, int64_t{0}, size - 1);
      end = std::clamp(ends[i] < -size ? -1 : end, int64_t{-1}, size - 1);
      out[axis] = start > end ? (start - end - by - 1) / -by : 0;
    }
    strides[axis] = own[axis] * by;
    first += start * own[axis];
  }
  if (kInteger.has(planner.type(in)) && dims.size() == 1 && planner.has_content(in)) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < out[0]; ++i) {
      numbers.push_back(planner.content(in)[static_cast<size_t>(first + i * strides[0])]);
    }
    planner.give(node.out(), out, numbers);
    return;
  }
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  const size_t size = size_of(planner.type(in));
  planner.copy(moved(from, first * static_cast<int64_t>(size)), to, size, out, strides, strides_of(out));
}

void plan_expand(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const Dims out = broadcast(dims, planner.content(node.in(1)));
  const std::vector<int64_t> own = strides_of(dims);
  std::vector<int64_t> strides(out.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    strides[out.size() - dims.size() + i] = dims[i] == 1 ? 0 : own[i];
  }
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  planner.copy(from, to, size_of(planner.type(in)), out, strides, strides_of(out));
}

/* ---- Rows ---------------------------------------------------------------------------------------------- */

const char* length_of(int64_t columns) {
  return columns <= 4 * 256 ? "short_" : columns <= 16 * 256 ? "middle_" : "long_";
}

uint32_t row_blocks(int64_t rows) { return static_cast<uint32_t>(std::min<int64_t>(rows, 1 << 20)); }

int32_t narrow(int64_t number) {
  if (number > INT32_MAX) {
    throw Error("a row of more than 2^31 elements", ORT_NOT_IMPLEMENTED);
  }
  return static_cast<int32_t>(number);
}

void plan_softmax(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const bool old = node.version < 13; /* all dimensions from the axis on are one row */
  const size_t axis = axis_of(node.i("axis", old ? 1 : -1), dims.size());
  const size_t last = old ? dims.size() : axis + 1;
  const int64_t columns = ephost::count(dims, axis, last), inner = ephost::count(dims, last, dims.size());
  const int64_t total = ephost::count(dims);
  Place from = planner.read(in);
  const Place to = planner.write(node.out(), dims);
  if (total == 0) {
    return;
  }
  const size_t size = size_of(planner.type(in));
  const Dims around = {total / columns / inner, columns, inner};
  Place out = to;
  if (inner != 1) { /* rows are brought together, and back */
    const Place rows = planner.scratch(static_cast<size_t>(total) * size);
    transpose(planner, from, rows, size, around, {0, 2, 1});
    from = rows;
    out = planner.scratch(static_cast<size_t>(total) * size);
  }
  SoftmaxArguments args = {nullptr, nullptr, total / columns, narrow(columns), node.is("LogSoftmax")};
  const CUfunction function =
      planner.kernel(std::string("softmax_") + length_of(columns) + suffix(planner.type(in)));
  planner.step([=](const Launch& launch) {
    SoftmaxArguments now = args;
    now.in = launch.address(from);
    now.out = launch.address(out);
    launch.kernel(function, {row_blocks(now.rows), 1, 1}, {256, 1, 1}, &now);
  });
  if (inner != 1) {
    transpose(planner, out, to, size, {around[0], inner, columns}, {0, 2, 1});
  }
}

void plan_norm(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  NormArguments args = {};
  int64_t rows = 0;
  args.center = !node.is("RMSNormalization");
  args.epsilon = node.f("epsilon", 1e-5f);
  if (node.is("LayerNormalization") || node.is("RMSNormalization")) {
    rows = ephost::count(dims, 0, axis_of(node.i("axis", -1), dims.size()));
  } else {
    const int64_t groups = node.is("GroupNormalization") ? node.i("num_groups", 1) : dims.at(1);
    rows = dims.at(0) * groups;
    args.channels = narrow(dims[1]);
    args.spatial = narrow(ephost::count(dims, 2, dims.size()));
    if (groups <= 0 || dims[1] % groups != 0) {
      throw Error("channels are not a multiple of the groups", ORT_INVALID_ARGUMENT);
    }
  }
  const int64_t total = ephost::count(dims);
  const Place from = planner.read(in);
  const Place scale = node.in(1) != nullptr ? planner.read(node.in(1)) : Place();
  const Place bias = node.in(2) != nullptr ? planner.read(node.in(2)) : Place();
  const Place to = planner.write(node.out(), dims);
  if (total == 0) {
    return;
  }
  args.rows = rows;
  args.columns = narrow(total / rows);
  const int64_t wanted = args.channels != 0 ? args.channels : args.columns;
  for (size_t i = 1; i < 3; ++i) {
    if (node.in(i) != nullptr && ephost::count(planner.dims(node.in(i))) != wanted) {
      throw Error("a scale or bias of another size than what is normalised", ORT_NOT_IMPLEMENTED);
    }
  }
  const CUfunction function =
      planner.kernel(std::string("norm_") + length_of(args.columns) + suffix(planner.type(in)));
  planner.step([=](const Launch& launch) {
    NormArguments now = args;
    now.in = launch.address(from);
    now.out = launch.address(to);
    now.scale = launch.address(scale);
    now.bias = launch.address(bias);
    launch.kernel(function, {row_blocks(now.rows), 1, 1}, {256, 1, 1}, &now);
  });
}

void reduce(Planner& planner, const Node& node, std::vector<bool> gone, Reduction kind, bool keep) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!gone[i] || keep) {
      out.push_back(gone[i] ? 1 : dims[i]);
    }
  }
  Place from = planner.read(in);
  const Place to = planner.write(node.out(), out);
  const int64_t results = ephost::count(out);
  if (results == 0) {
    return;
  }
  if (ephost::count(dims) == 0) {
    throw Error("a reduction of nothing", ORT_NOT_IMPLEMENTED);
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) {
      gone[i] = i > 0 && gone[i - 1]; /* of no matter: it goes with its neighbour */
    }
  }
  size_t first = 0;
  while (first < gone.size() && !gone[first]) ++first;
  size_t last = first;
  while (last < gone.size() && gone[last]) ++last;
  const bool together =
      std::none_of(gone.begin() + static_cast<std::ptrdiff_t>(last), gone.end(), [](bool g) { return g; });
  ReduceArguments args = {};
  args.kind = kind;
  if (together) {
    args.outer = ephost::count(dims, 0, first);
    args.reduced = ephost::count(dims, first, last);
    args.inner = ephost::count(dims, last, dims.size());
  } else {
    std::vector<size_t> perm;
    for (bool which : {false, true}) {
      for (size_t i = 0; i < dims.size(); ++i) {
        if (gone[i] == which) perm.push_back(i);
      }
    }
    const size_t size = size_of(planner.type(in));
    const Place rows = planner.scratch(static_cast<size_t>(ephost::count(dims)) * size);
    transpose(planner, from, rows, size, dims, perm);
    from = rows;
    args.outer = results;
    args.reduced = ephost::count(dims) / results;
    args.inner = 1;
  }
  const bool rows = args.inner == 1 && args.reduced > 1;
  const CUfunction function =
      planner.kernel(std::string(rows ? "reduce_rows_" : "reduce_columns_") + suffix(planner.type(in)));
  planner.step([=](const Launch& launch) {
    ReduceArguments now = args;
    now.in = launch.address(from);
    now.out = launch.address(to);
    launch.kernel(function, {rows ? row_blocks(now.outer) : blocks_for(now.outer * now.inner), 1, 1},
                  {256, 1, 1}, &now);
  });
}

void plan_reduce(Planner& planner, const Node& node) {
  static const std::pair<const char*, Reduction> kKinds[] = {{"ReduceSum", Reduction::kSum},
                                                             {"ReduceMean", Reduction::kMean},
                                                             {"ReduceMax", Reduction::kMax},
                                                             {"ReduceMin", Reduction::kMin},
                                                             {"ReduceProd", Reduction::kProduct},
                                                             {"ReduceL1", Reduction::kL1},
                                                             {"ReduceL2", Reduction::kL2},
                                                             {"ReduceSumSquare", Reduction::kSumSquare},
                                                             {"ReduceLogSumExp", Reduction::kLogSumExp}};
  const size_t rank = planner.dims(node.in(0)).size();
  const std::vector<int64_t> axes = axes_of(planner, node);
  std::vector<bool> gone(rank, axes.empty() && node.i("noop_with_empty_axes", 0) == 0);
  for (int64_t axis : axes) {
    gone[axis_of(axis, rank)] = true;
  }
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const auto& kind) { return node.type == kind.first; });
  reduce(planner, node, gone, found->second, node.i("keepdims", 1) != 0);
}

void plan_global_pool(Planner& planner, const Node& node) {
  std::vector<bool> gone(planner.dims(node.in(0)).size(), true);
  std::fill_n(gone.begin(), std::min<size_t>(2, gone.size()), false);
  reduce(planner, node, gone, node.is("GlobalMaxPool") ? Reduction::kMax : Reduction::kMean, true);
}

/* ---- What passes put behind products and convolutions (../compiler/post.h) ---- */

/* What the node itself writes: its output, or a value that the chain behind it reads. */
const Value* before_posts(Planner& planner, const Node& node) {
  return node.has("post") ? planner.between(node.out()->type) : node.out();
}

void plan_posts(Planner& planner, const Node& node, const Value* raw, size_t operands) {
  if (raw == node.out()) {
    return;
  }
  Planner::Chain chain;
  chain.type = node.out()->type;
  chain.dims = planner.dims(raw);
  chain.operands = {raw};
  chain.reads = {raw};
  chain.label = node.label();
  const auto gated = [&](const ChainStep& gate, float factor) {
    chain.steps.push_back(step_of(Op::kSave));
    if (factor != 1) {
      chain.steps.push_back(step_of(Op::kAffine, factor, 0));
    }
    chain.steps.push_back(gate);
    chain.steps.push_back(step_of(Op::kMul));
  };
  static const std::pair<const char*, Op> kSimple[] = {
      {"sigmoid", Op::kSigmoid},        {"tanh", Op::kTanh}, {"elu", Op::kElu},
      {"softplus", Op::kSoftplus},      {"mish", Op::kMish}, {"gelu_erf", Op::kGelu},
      {"gelu_tanh", Op::kGeluTanh},     {"clip", Op::kClip}, {"linear", Op::kAffine},
      {"hardsigmoid", Op::kHardSigmoid}};
  for (const ephost::Post& post : posts_of(node)) {
    if (chain.steps.size() + 4 > kMaxSteps || chain.operands.size() == kMaxOperands) {
      const Value* middle = planner.between(chain.type);
      planner.emit(middle, chain);
      chain.steps.clear();
      chain.operands = {middle};
      chain.reads = {middle};
    }
    const auto* simple = std::find_if(std::begin(kSimple), std::end(kSimple),
                                      [&](const auto& entry) { return post.name == entry.first; });
    if (post.binary()) {
      ChainStep step = step_of(Op::kAdd);
      step.operand = static_cast<uint8_t>(chain.operands.size());
      chain.operands.push_back(node.in(operands++));
      chain.steps.push_back(step);
    } else if (simple != std::end(kSimple)) {
      chain.steps.push_back(step_of(simple->second, post.alpha, post.beta));
    } else if (post.name == "relu") {
      chain.steps.push_back(post.alpha == 0 ? step_of(Op::kRelu) : step_of(Op::kLeakyRelu, post.alpha));
    } else if (post.name == "hardswish") {
      gated(step_of(Op::kHardSigmoid, post.alpha, post.beta), 1);
    } else if (post.name == "swish") {
      gated(step_of(Op::kSigmoid), post.alpha);
    } else {
      throw Error("an activation '" + post.name + "' that is not known");
    }
  }
  planner.emit(node.out(), chain);
}

/* ---- Windows ------------------------------------------------------------------------------------------- */

/* One dimension of a window. */
struct Slide {
  int64_t size = 1, out = 1, window = 1, stride = 1, dilation = 1, before = 0, after = 0;
};

/* height and width; a single spatial dimension is the width of images of height 1. */
std::vector<Slide> slides_of(const Node& node, const Dims& dims, const std::vector<int64_t>& windows) {
  const size_t rank = dims.size() - 2;
  const std::vector<int64_t> ones(rank, 1), zeros(2 * rank, 0);
  const std::vector<int64_t> strides = node.ints("strides", ones), dilations = node.ints("dilations", ones);
  const std::vector<int64_t> pads = node.ints("pads", zeros);
  const std::string automatic = node.s("auto_pad", "NOTSET");
  const bool up = node.i("ceil_mode", 0) != 0;
  if (windows.size() != rank || strides.size() != rank || dilations.size() != rank ||
      pads.size() != 2 * rank) {
    throw Error("attributes for another number of dimensions", ORT_INVALID_ARGUMENT);
  }
  std::vector<Slide> slides(2);
  for (size_t i = 0; i < rank; ++i) {
    Slide& slide = slides[2 - rank + i];
    slide = {dims[2 + i], 0, windows[i], strides[i], dilations[i], pads[i], pads[rank + i]};
    const int64_t reach = (slide.window - 1) * slide.dilation + 1;
    if (slide.stride <= 0 || slide.dilation <= 0 || slide.window <= 0) {
      throw Error("a stride, dilation or window that is not positive", ORT_INVALID_ARGUMENT);
    }
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      slide.out = (slide.size + slide.stride - 1) / slide.stride;
      const int64_t missing = std::max<int64_t>((slide.out - 1) * slide.stride + reach - slide.size, 0);
      slide.before = automatic == "SAME_UPPER" ? missing / 2 : missing - missing / 2;
      slide.after = missing - slide.before;
      continue;
    }
    if (automatic == "VALID") {
      slide.before = slide.after = 0;
    }
    const int64_t room = slide.size + slide.before + slide.after - reach;
    if (room < 0) {
      throw Error("a window larger than the image", ORT_INVALID_ARGUMENT);
    }
    slide.out = room / slide.stride + 1;
    if (up && room % slide.stride != 0 && slide.out * slide.stride < slide.size + slide.before) {
      ++slide.out; /* a last window that starts inside the image */
    }
  }
  return slides;
}

void plan_pool(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const std::vector<Slide> slides = slides_of(node, dims, node.ints("kernel_shape"));
  const Slide &y = slides[0], &x = slides[1];
  Dims out = {dims[0], dims[1]};
  if (dims.size() == 4) {
    out.push_back(y.out);
  }
  out.push_back(x.out);
  PoolArguments args = {};
  args.count = ephost::count(out);
  args.height = narrow(y.size), args.width = narrow(x.size);
  args.out_height = narrow(y.out), args.out_width = narrow(x.out);
  args.window_y = narrow(y.window), args.window_x = narrow(x.window);
  args.stride_y = narrow(y.stride), args.stride_x = narrow(x.stride);
  args.pad_y = narrow(y.before), args.pad_x = narrow(x.before);
  args.dilation_y = narrow(y.dilation), args.dilation_x = narrow(x.dilation);
  args.end_y = narrow(y.size + y.after), args.end_x = narrow(x.size + x.after);
  args.maximum = node.is("MaxPool");
  args.count_padding = node.i("count_include_pad", 0) != 0;
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  const CUfunction function = planner.kernel(std::string("pool_") + suffix(planner.type(in)));
  if (args.count > 0) {
    planner.step([=](const Launch& launch) {
      PoolArguments now = args;
      now.in = launch.address(from);
      now.out = launch.address(to);
      launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
    });
  }
}

void plan_conv(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *weights = node.in(1), *bias = node.in(2);
  const Dims dims = planner.dims(in), filter = planner.dims(weights);
  if (dims.size() < 3 || filter.size() != dims.size()) {
    throw Error("weights of another rank than the input", ORT_INVALID_ARGUMENT);
  }
  const std::vector<Slide> slides = slides_of(node, dims, {filter.begin() + 2, filter.end()});
  const Slide &y = slides[0], &x = slides[1];
  const int64_t group = node.i("group", 1);
  if (group <= 0 || dims[1] != filter[1] * group || filter[0] % group != 0) {
    throw Error("weights " + ephost::to_string(filter) + " do not fit the input " + ephost::to_string(dims),
                ORT_INVALID_ARGUMENT);
  }
  Dims out = {dims[0], filter[0]};
  if (dims.size() == 4) {
    out.push_back(y.out);
  }
  out.push_back(x.out);
  ConvArguments args = {};
  args.count = ephost::count(out);
  args.channels = narrow(dims[1]), args.out_channels = narrow(filter[0]), args.group = narrow(group);
  args.height = narrow(y.size), args.width = narrow(x.size);
  args.out_height = narrow(y.out), args.out_width = narrow(x.out);
  args.window_y = narrow(y.window), args.window_x = narrow(x.window);
  args.stride_y = narrow(y.stride), args.stride_x = narrow(x.stride);
  args.pad_y = narrow(y.before), args.pad_x = narrow(x.before);
  args.dilation_y = narrow(y.dilation), args.dilation_x = narrow(x.dilation);
  const Place from = planner.read(in), of = planner.read(weights);
  const Place add = bias != nullptr ? planner.read(bias) : Place();
  const Value* target = before_posts(planner, node);
  const Place to = planner.write(target, out);
  if (args.count == 0) {
    return;
  }
  /* cuDNN pads both sides alike. */
  const bool even = y.before == y.after && x.before == x.after;
  Dnn* dnn = even ? planner.libraries().dnn() : nullptr;
  if (dnn != nullptr) {
    const int64_t images = dims[0];
    const std::shared_ptr<Dnn::Conv> conv =
        dnn->convolution(planner.type(in), images, args, bias != nullptr, planner.options().use_tf32);
    const Place room = planner.scratch(conv->workspace());
    planner.step([=](const Launch& launch) {
      conv->run(launch.stream, launch.address(from), launch.address(of), launch.address(add),
                launch.address(to), launch.address(room));
    });
  } else {
    const CUfunction function = planner.kernel(std::string("conv_") + suffix(planner.type(in)));
    planner.step([=](const Launch& launch) {
      ConvArguments now = args;
      now.in = launch.address(from);
      now.weights = launch.address(of);
      now.bias = launch.address(add);
      now.out = launch.address(to);
      launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
    });
  }
  plan_posts(planner, node, target, 3);
}

/* ---- Products ------------------------------------------------------------------------------------------ */

struct Product {
  DType type = DType::kUndefined;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false; /* stored as [k][m], [n][k] */
  Dims batch;                                    /* outermost first */
  std::vector<int64_t> a_batch, b_batch;         /* strides, 0 where it is repeated */
  Place a, b, c, out;
  int64_t c_row = 0, c_column = 0;
  float alpha = 1, beta = 1;
};

void plan_product(Planner& planner, const Product& product) {
  const Product p = product;
  if (p.m == 0 || p.n == 0 || ephost::count(p.batch) == 0) {
    return;
  }
  /* Batches as few dimensions as they have different strides in. */
  std::vector<int64_t> sizes, of_a, of_b, of_out;
  int64_t out_stride = p.m * p.n;
  for (size_t d = p.batch.size(); d-- > 0;) {
    if (p.batch[d] != 1) {
      if (!sizes.empty() && p.a_batch[d] == of_a.back() * sizes.back() &&
          p.b_batch[d] == of_b.back() * sizes.back()) {
        sizes.back() *= p.batch[d];
      } else {
        sizes.push_back(p.batch[d]);
        of_a.push_back(p.a_batch[d]);
        of_b.push_back(p.b_batch[d]);
        of_out.push_back(out_stride);
      }
    }
    out_stride *= p.batch[d];
  }
  const int64_t batches = ephost::count(p.batch);
  /* A bias along the columns is part of cuBLASLt's product; another C is not. */
  const bool vector =
      p.c.kind != Place::kNone && p.c_row == 0 && p.c_column == 1 && p.beta == 1 && batches == 1;
  Blas* blas = p.c.kind == Place::kNone || vector ? planner.libraries().blas() : nullptr;
  if (blas != nullptr && sizes.size() <= 1 && p.k > 0) {
    Blas::Shape shape;
    shape.type = p.type;
    shape.m = p.m, shape.n = p.n, shape.k = p.k;
    shape.transpose_a = p.transpose_a, shape.transpose_b = p.transpose_b;
    shape.batches = batches;
    shape.a_stride = of_a.empty() ? 0 : of_a[0];
    shape.b_stride = of_b.empty() ? 0 : of_b[0];
    shape.bias = vector;
    shape.tf32 = planner.options().use_tf32;
    const std::shared_ptr<Blas::Product> made = blas->product(shape);
    if (made != nullptr) {
      const Place room = planner.scratch(made->workspace());
      planner.step([=](const Launch& launch) {
        made->run(launch.stream, launch.address(p.a), launch.address(p.b), launch.address(p.c),
                  launch.address(p.out), launch.address(room), p.alpha);
      });
      return;
    }
  }
  if (sizes.size() > kMaxRank || batches > 65535) {
    throw Error("batches of too many dimensions or matrices", ORT_NOT_IMPLEMENTED);
  }
  MatmulArguments args = {};
  args.m = narrow(p.m), args.n = narrow(p.n), args.k = narrow(p.k);
  args.a_row = p.transpose_a ? 1 : p.k, args.a_column = p.transpose_a ? p.m : 1;
  args.b_row = p.transpose_b ? 1 : p.n, args.b_column = p.transpose_b ? p.k : 1;
  args.c_row = p.c_row, args.c_column = p.c_column;
  args.batch_rank = static_cast<int32_t>(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    args.batch[d] = divider(static_cast<uint32_t>(sizes[d]));
    args.a_batch[d] = of_a[d];
    args.b_batch[d] = of_b[d];
  }
  args.alpha = p.alpha, args.beta = p.beta;
  const uint32_t columns = static_cast<uint32_t>((p.n + 63) / 64),
                 rows = static_cast<uint32_t>((p.m + 63) / 64);
  if (rows > 65535) {
    throw Error("a matrix of too many rows", ORT_NOT_IMPLEMENTED);
  }
  const CUfunction function = planner.kernel(std::string("matmul_") + suffix(p.type));
  planner.step([=](const Launch& launch) {
    MatmulArguments now = args;
    now.a = launch.address(p.a);
    now.b = launch.address(p.b);
    now.c = launch.address(p.c);
    now.out = launch.address(p.out);
    launch.kernel(function, {columns, rows, static_cast<uint32_t>(batches)}, {256, 1, 1}, &now);
  });
}

void plan_matmul(Planner& planner, const Node& node) {
  Dims a = planner.dims(node.in(0)), b = planner.dims(node.in(1));
  if (a.empty() || b.empty()) {
    throw Error("a product of a scalar", ORT_INVALID_ARGUMENT);
  }
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  Product product;
  product.type = planner.type(node.in(0));
  product.transpose_a = node.i("transA", 0) != 0; /* of "ephost.MatMul" */
  product.transpose_b = node.i("transB", 0) != 0;
  if (product.transpose_a) std::swap(a[a.size() - 2], a.back());
  if (product.transpose_b) std::swap(b[b.size() - 2], b.back());
  product.m = a[a.size() - 2], product.k = a.back(), product.n = b.back();
  if (b[b.size() - 2] != product.k) {
    throw Error("shapes " + ephost::to_string(planner.dims(node.in(0))) + " and " +
                    ephost::to_string(planner.dims(node.in(1))) + " cannot be multiplied",
                ORT_INVALID_ARGUMENT);
  }
  const Dims of_a(a.begin(), a.end() - 2), of_b(b.begin(), b.end() - 2);
  product.batch = broadcast(of_a, of_b);
  Dims out = product.batch;
  if (!row) out.push_back(product.m);
  if (!column) out.push_back(product.n);
  const auto strides = [&](const Dims& own, int64_t matrix) {
    std::vector<int64_t> list(product.batch.size(), 0);
    for (size_t d = own.size(); d-- > 0;) {
      list[product.batch.size() - own.size() + d] = own[d] == 1 ? 0 : matrix;
      matrix *= own[d];
    }
    return list;
  };
  product.a_batch = strides(of_a, product.m * product.k);
  product.b_batch = strides(of_b, product.k * product.n);
  if (ephost::count(of_b) == 1 && !of_a.empty() &&
      !product.transpose_a) { /* one matrix for all: rows of one large product */
    product.m *= ephost::count(of_a);
    product.batch.clear();
    product.a_batch.clear();
    product.b_batch.clear();
  }
  product.a = planner.read(node.in(0));
  product.b = planner.read(node.in(1));
  if (node.in(2) != nullptr) { /* of "ephost.MatMul": for each column */
    product.c = planner.read(node.in(2));
    product.c_column = 1;
  }
  const Value* target = before_posts(planner, node);
  product.out = planner.write(target, out);
  plan_product(planner, product);
  plan_posts(planner, node, target, 3);
}

void plan_gemm(Planner& planner, const Node& node) {
  const Dims a = planner.dims(node.in(0)), b = planner.dims(node.in(1));
  Product product;
  product.type = planner.type(node.in(0));
  product.transpose_a = node.i("transA", 0) != 0;
  product.transpose_b = node.i("transB", 0) != 0;
  if (a.size() != 2 || b.size() != 2) {
    throw Error("operands that are no matrices", ORT_INVALID_ARGUMENT);
  }
  product.m = a[product.transpose_a ? 1 : 0], product.k = a[product.transpose_a ? 0 : 1];
  product.n = b[product.transpose_b ? 0 : 1];
  if (b[product.transpose_b ? 1 : 0] != product.k) {
    throw Error("shapes " + ephost::to_string(a) + " and " + ephost::to_string(b) + " cannot be multiplied",
                ORT_INVALID_ARGUMENT);
  }
  product.alpha = node.f("alpha", 1);
  product.beta = node.f("beta", 1);
  const Value* c = node.in(2);
  if (c != nullptr && product.beta != 0) {
    Dims shape = planner.dims(c);
    shape.insert(shape.begin(), 2 - std::min<size_t>(shape.size(), 2), 1);
    if (broadcast(shape, {product.m, product.n}) != Dims{product.m, product.n}) {
      throw Error("a C that does not fit", ORT_INVALID_ARGUMENT);
    }
    product.c = planner.read(c);
    product.c_row = shape[0] == 1 ? 0 : shape[1];
    product.c_column = shape[1] == 1 ? 0 : 1;
  }
  product.a = planner.read(node.in(0));
  product.b = planner.read(node.in(1));
  product.out = planner.write(node.out(), {product.m, product.n});
  plan_product(planner, product);
}

/* ---- The table ----------------------------------------------------------------------------------------- */

const std::vector<Operator>& operators() {
  static const std::vector<Operator> kOperators = [] {
    std::vector<Operator> list;
    for (const Unary& unary : kUnary) {
      list.push_back(
          {unary.type, 1, kNewest, [](const Node& node) { return all_are(node, kReal); }, plan_unary, true});
    }
    const Operator others[] = {
        {"Gelu", 20, kNewest, reals, plan_unary, true},
        {"Clip", 6, kNewest, constants_after_first, plan_unary, true},
        {"Add", 7, kNewest, arithmetic, plan_binary, true},
        {"Sub", 7, kNewest, arithmetic, plan_binary, true},
        {"Mul", 7, kNewest, arithmetic, plan_binary, true},
        {"Div", 7, kNewest, arithmetic, plan_binary, true},
        {"Pow", 7, kNewest, power, plan_binary, true},
        {"Max", 8, kNewest, two_reals, plan_binary, true},
        {"Min", 8, kNewest, two_reals, plan_binary, true},
        {"PRelu", 7, kNewest, prelu, plan_binary, true},
        {"BatchNormalization", 9, kNewest, batch_norm, plan_batch_norm, true},
        {"Cast", 6, kNewest, castable, plan_cast, false},
        {"Shape", 1, kNewest, shapes, plan_shape, false},
        {"Size", 1, kNewest, shapes, plan_shape, false},
        {"Identity", 1, kNewest, movable, plan_identity, false},
        {"Dropout", 7, kNewest, dropout, plan_identity, false},
        {"Reshape", 5, kNewest, moved_with_indices, plan_reshape, false},
        {"Flatten", 1, kNewest, movable, plan_flatten, false},
        {"Squeeze", 1, kNewest, movable, plan_squeeze, false},
        {"Unsqueeze", 1, kNewest, movable, plan_unsqueeze, false},
        {"Transpose", 1, kNewest, movable, plan_transpose, false},
        {"Gather", 1, kNewest, moved_with_indices, plan_gather, false},
        {"Concat", 4, kNewest, [](const Node& node) { return all_are(node, kMovable); }, plan_concat, false},
        {"Split", 2, kNewest, movable, plan_split, false},
        {"Slice", 1, kNewest, movable, plan_slice, false},
        {"Expand", 8, kNewest, moved_with_indices, plan_expand, false},
        {"Softmax", 1, kNewest, reals, plan_softmax, false},
        {"LogSoftmax", 1, kNewest, reals, plan_softmax, false},
        {"LayerNormalization", 17, kNewest, first_output_only, plan_norm, false},
        {"RMSNormalization", 23, kNewest, first_output_only, plan_norm, false},
        {"InstanceNormalization", 6, kNewest, reals, plan_norm, false},
        {"GroupNormalization", 21, kNewest, reals, plan_norm, false},
        {"GlobalAveragePool", 1, kNewest, reals, plan_global_pool, false},
        {"GlobalMaxPool", 1, kNewest, reals, plan_global_pool, false},
        {"AveragePool", 7, kNewest, pooling, plan_pool, false},
        {"MaxPool", 1, kNewest, pooling, plan_pool, false},
        {"Conv", 1, kNewest, window, plan_conv, false},
        {"MatMul", 1, kNewest, two_reals, plan_matmul, false},
        {"Gemm", 7, kNewest, reals, plan_gemm, false},
    };
    list.insert(list.end(), std::begin(others), std::end(others));
    for (const char* type : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                             "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"}) {
      list.push_back(
          {type, 1, kNewest, [](const Node& node) { return all_are(node, kReal, 1); }, plan_reduce, false});
    }
    return list;
  }();
  return kOperators;
}

}  // namespace

const Operator* find_operator(const Node& node) {
  static const Operator kConv = {"Conv", 1, kNewest, window, plan_conv, false};
  static const Operator kMatMul = {"MatMul", 1, kNewest, two_reals, plan_matmul, false};
  if (node.is("ephost", "Conv") || node.is("ephost", "MatMul")) { /* what the passes make */
    return node.type == "Conv" ? &kConv : &kMatMul;
  }
  if (!node.domain.empty()) {
    return nullptr;
  }
  for (const Operator& op : operators()) {
    if (node.type == op.type && node.version >= op.min_version && node.version <= op.max_version) {
      return &op;
    }
  }
  return nullptr;
}

std::string why_not(const Node& node) {
  const Operator* op = find_operator(node);
  if (op == nullptr) {
    return "there is no kernel for it";
  }
  if (!node.subgraphs.empty() || node.out() == nullptr) {
    return "it has subgraphs or no output";
  }
  return op->supports(node);
}

}  // namespace ephost_cuda
