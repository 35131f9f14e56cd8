/* Elementwise operators: links of chains. */
#include <algorithm>
#include <cmath>

#include "cuda/operators/chains.h"
#include "cuda/operators/checks.h"
#include "cuda/operators/geometry.h"
#include "toolkit/half.h"

namespace ephost::cuda {

namespace {

/* Integers that follow from shapes. */
void plan_integers(Planner& planner, const Node& node) {
  const std::vector<int64_t> a = planner.content(node.in(0));
  const std::vector<int64_t> b = planner.content(node.in(1));
  const Dims dims = broadcast(planner.dims(node.in(0)), planner.dims(node.in(1)));
  const size_t count = static_cast<size_t>(ephost::count(dims));
  if ((a.size() != count && a.size() != 1) || (b.size() != count && b.size() != 1)) {
    unsupported("shapes are computed with more than vectors");
  }
  std::vector<int64_t> out(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t x = a[a.size() == 1 ? 0 : i], y = b[b.size() == 1 ? 0 : i];
    if (node.is("Div") && y == 0) {
      invalid("a division by zero");
    }
    out[i] = node.is("Add") ? x + y : node.is("Sub") ? x - y : node.is("Mul") ? x * y : x / y;
  }
  planner.give(node.out(), dims, std::move(out));
}

struct Unary {
  const char* type;
  Op op;
};

/* Beside the activations. */
constexpr Unary kUnary[] = {
    {"Abs", Op::kAbs},     {"Neg", Op::kNeg},   {"Exp", Op::kExp},     {"Log", Op::kLog},
    {"Sqrt", Op::kSqrt},   {"Sin", Op::kSin},   {"Cos", Op::kCos},     {"Reciprocal", Op::kReciprocal},
    {"Floor", Op::kFloor}, {"Ceil", Op::kCeil}, {"Round", Op::kRound}, {"Sign", Op::kSign},
    {"Erf", Op::kErf},
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

ChainStep step_for(const Node& node) {
  if (const std::optional<Activated> found = activation_of(node)) {
    return step_of(op_of(found->activation), found->a, found->b);
  }
  const Unary* found = std::find_if(std::begin(kUnary), std::end(kUnary),
                                    [&](const Unary& unary) { return node.type == unary.type; });
  return step_of(found->op);
}

void plan_unary(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *continued = nullptr;
  Planner::Chain chain = chain_from(planner, node, in, planner.dims(in), &continued);
  chain.steps.push_back(step_for(node));
  planner.end_chain(node.out(), std::move(chain), continued);
}

std::string first_real(const Node& node) { return all_are(node, kReal, 1); }

std::string activation(const Node& node) {
  return activation_of(node).has_value() ? first_real(node) : "parameters that are not constant or not known";
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

/* The sum of all inputs, or their mean: one chain. */
void plan_sum(Planner& planner, const Node& node) {
  Dims dims = planner.dims(node.in(0));
  for (const Value* input : node.inputs) {
    dims = broadcast(dims, planner.dims(input));
  }
  Planner::Chain chain;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i == 0) {
      chain.type = planner.type(node.in(0));
      chain.dims = dims;
      chain.label = node.label();
    } else {
      ChainStep step = step_of(Op::kAdd);
      step.operand = static_cast<uint8_t>(i);
      chain.steps.push_back(step);
    }
    chain.operands.push_back(node.in(i));
    chain.reads.push_back(node.in(i));
  }
  if (node.is("Mean")) {
    chain.steps.push_back(step_of(Op::kAffine, 1.0f / static_cast<float>(node.inputs.size()), 0));
  }
  planner.end_chain(node.out(), std::move(chain), nullptr);
}

std::string summed(const Node& node) {
  return node.inputs.empty() || node.inputs.size() > kMaxOperands ? "none, or more than six operands"
                                                                  : arithmetic(node);
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

std::vector<float> floats_of(const TensorPtr& tensor) {
  std::vector<float> out(static_cast<size_t>(ephost::count(tensor->dims)));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = tensor->type == DType::kFloat     ? tensor->as<float>()[i]
             : tensor->type == DType::kFloat16 ? static_cast<float>(tensor->as<Half>()[i])
                                               : static_cast<float>(tensor->as<BFloat16>()[i]);
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
    invalid("statistics of another number of channels");
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

std::vector<Operator> all() {
  std::vector<Operator> list = {
      {.type = "Clip", .since = 6, .supports = activation, .plan = plan_unary},
      {.type = "Add", .since = 7, .supports = arithmetic, .plan = plan_binary},
      {.type = "Sub", .since = 7, .supports = arithmetic, .plan = plan_binary},
      {.type = "Mul", .since = 7, .supports = arithmetic, .plan = plan_binary},
      {.type = "Div", .since = 7, .supports = arithmetic, .plan = plan_binary},
      {.type = "Pow", .since = 7, .supports = power, .plan = plan_binary},
      {.type = "Max", .since = 8, .supports = two_reals, .plan = plan_binary},
      {.type = "Min", .since = 8, .supports = two_reals, .plan = plan_binary},
      {.type = "PRelu", .since = 7, .supports = two_reals, .plan = plan_binary},
      {.type = "Sum", .since = 8, .supports = summed, .plan = plan_sum},
      {.type = "Mean", .since = 8, .supports = summed, .plan = plan_sum},
      {.type = "BatchNormalization", .since = 9, .supports = batch_norm, .plan = plan_batch_norm},
  };
  for (const Unary& unary : kUnary) {
    list.push_back({.type = unary.type, .supports = first_real, .plan = plan_unary});
  }
  for (const ActivationRow& row : kActivations) {
    if (*row.type != '\0') {
      list.push_back({.type = row.type, .since = row.since, .supports = activation, .plan = plan_unary});
    }
  }
  for (Operator& op : list) {
    op.elementwise = true;
  }
  return list;
}

const Registered kRegistered(all());

}  // namespace

}  // namespace ephost::cuda
