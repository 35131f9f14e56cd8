#include "cpu/engines/lower.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace ephost::cpu {
namespace {

using Id = Expression::Id;

// One call of a rule.
struct Context {
  const Node& node;
  const Indices& operands;
  Expression& e;

  bool has(size_t i) const { return i < operands.size() && operands[i] >= 0; }
  Id in(size_t i) const {
    if (!has(i)) invalid("an input that the operator needs is left out");
    return operands[i];
  }
  Id one(Op op, float a = 0, float b = 0) const { return e.apply(op, {in(0)}, a, b); }
  Id two(Op op) const { return e.apply(op, {in(0), in(1)}); }
  float f(const char* name, float otherwise) const { return node.f(name, otherwise); }
  // A number of the type that an operation on this value has.
  Id like(double number, Id value) const {
    const DType type = e.type(value);
    return e.number(number, type == DType::kFloat16 || type == DType::kBFloat16 ? DType::kFloat : type);
  }
  bool floats(size_t i) const { return kFloats.has(e.type(in(i))); }
};

using Rule = Id (*)(const Context&);

Id fold(const Context& c, Op op) {
  Id all = c.in(0);
  for (size_t i = 1; i < c.operands.size(); ++i) all = c.e.apply(op, {all, c.in(i)});
  return all;
}

Id clip(const Context& c) {
  Id x = c.in(0);
  double low = 0, high = 0;
  if (c.node.version < 11) {
    return c.one(Op::kClip, c.f("min", std::numeric_limits<float>::lowest()),
                 c.f("max", std::numeric_limits<float>::max()));
  }
  const bool known =
      (!c.has(1) || c.e.is_number(c.in(1), &low)) && (!c.has(2) || c.e.is_number(c.in(2), &high));
  if (known && c.floats(0) && c.e.type(x) != DType::kDouble) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float a = c.has(1) ? static_cast<float>(low) : -kInfinity;
    const float b = c.has(2) ? static_cast<float>(high) : kInfinity;
    return c.one(Op::kClip, a, b);
  }
  if (c.has(1)) x = c.e.apply(Op::kMax, {x, c.in(1)});
  if (c.has(2)) x = c.e.apply(Op::kMin, {x, c.in(2)});
  return x;
}

Id pow(const Context& c) {
  const Id x = c.in(0);
  double exponent = 0;
  if (c.floats(0) && c.e.is_number(c.in(1), &exponent)) {
    if (exponent == 1) return x;
    if (exponent == 2) return c.one(Op::kSquare);
    if (exponent == 3) return c.e.apply(Op::kMul, {c.one(Op::kSquare), x});
    if (exponent == -1) return c.one(Op::kReciprocal);
    // A root of minus infinity is the only difference between these and the power.
    if (exponent == 0.5) return c.one(Op::kSqrt);
    if (exponent == -0.5) return c.one(Op::kRsqrt);
  }
  const DType base = c.e.type(x), other = c.e.type(c.in(1));
  if (kFloats.has(base)) {
    const DType wide = base == DType::kDouble ? DType::kDouble : DType::kFloat;
    return c.e.apply(Op::kPow, {c.e.cast(x, wide), c.e.cast(c.in(1), wide)});
  }
  if (kFloats.has(other)) {
    const Id result = c.e.apply(Op::kPow, {c.e.cast(x, DType::kDouble), c.e.cast(c.in(1), DType::kDouble)});
    return c.e.cast(result, base);
  }
  return c.e.apply(Op::kPow, {x, c.e.cast(c.in(1), base)});
}

Id mod(const Context& c) {
  const int64_t fmod = c.node.i("fmod", 0);
  if ((fmod | 1) != 1) invalid("fmod is neither 0 nor 1");
  if (fmod == 0 && c.floats(0) && c.node.version < 28) {
    invalid("before opset 28 fmod has to be 1 for floating-point numbers");
  }
  return c.two(fmod != 0 ? Op::kFmod : Op::kMod);
}

Id shift(const Context& c) {
  const std::string direction = c.node.s("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") invalid("the direction is neither LEFT nor RIGHT");
  if (!kUnsigned.has(c.e.type(c.in(0)))) invalid("shifts are for unsigned numbers");
  return c.two(direction == "LEFT" ? Op::kShiftLeft : Op::kShiftRight);
}

Id bits(const Context& c, Op op) {
  if (c.e.type(c.in(0)) == DType::kBool) invalid("bitwise operators are for integers");
  return op == Op::kBitNot ? c.one(op) : c.two(op);
}

Id logic(const Context& c, Op op) {
  if (c.e.type(c.in(0)) != DType::kBool) invalid("logical operators are for bools");
  return op == Op::kNot ? c.one(op) : c.two(op);
}

Id cast_to(const Context& c, DType to) {
  if (size_of(to) == 0) invalid("no cast to this type");
  const DType from = c.e.type(c.in(0));
  if (size_of(from) == 0) invalid(std::string("no cast from ") + name_of(from));
  return c.e.cast(c.in(0), to);
}

DType declared(const Value* value) {
  if (value == nullptr || value->type == DType::kUndefined) invalid("a type that is not known");
  return value->type;
}

// Any row of the table of activations.
Id activation(const Context& c) {
  const std::optional<Activated> found = activation_of(c.node);
  if (!found.has_value()) invalid("parameters of an activation that are not known");
  return c.one(op_of(found->activation), found->a, found->b);
}

Id with_bias(const Context& c, Op op) { return c.e.apply(op, {c.has(1) ? c.two(Op::kAdd) : c.in(0)}); }

Id is_inf(const Context& c) {
  const bool negative = c.node.i("detect_negative", 1) != 0, positive = c.node.i("detect_positive", 1) != 0;
  return c.one(Op::kIsInf, negative ? 1.0f : 0.0f, positive ? 1.0f : 0.0f);
}

Id dropout(const Context& c) {
  const bool mask = c.node.out(1) != nullptr;
  if (c.node.version >= 12 && c.has(2)) {
    const Value* training = c.node.in(2);
    if (training->constant == nullptr || *training->constant->as<bool>())
      invalid("training is not supported");
  }
  if (mask) invalid("the mask of a dropout is not made here");
  return c.in(0);
}

struct Entry {
  LowerRule of;
  Rule rule;
};

constexpr const char* kMs = "com.microsoft";

const std::vector<Entry>& entries() {
#define SAME(name)                                                      \
  {                                                                     \
    {"", #name, 6}, [](const Context& c) { return c.one(Op::k##name); } \
  }
#define TWO(name)                                                       \
  {                                                                     \
    {"", #name, 7}, [](const Context& c) { return c.two(Op::k##name); } \
  }
  static const std::vector<Entry> all = [] {
    std::vector<Entry> list = {
        SAME(Abs),
        SAME(Neg),
        SAME(Reciprocal),
        SAME(Sqrt),
        SAME(Exp),
        SAME(Log),
        SAME(Erf),
        SAME(Floor),
        SAME(Ceil),
        SAME(Round),
        SAME(Sign),
        SAME(Sin),
        SAME(Cos),
        SAME(Tan),
        SAME(Asin),
        SAME(Acos),
        SAME(Atan),
        SAME(Sinh),
        SAME(Cosh),
        SAME(Asinh),
        SAME(Acosh),
        SAME(Atanh),
        SAME(IsNaN),
        TWO(Add),
        TWO(Sub),
        TWO(Mul),
        TWO(Div),
        TWO(Less),
        TWO(LessOrEqual),
        TWO(Greater),
        TWO(GreaterOrEqual),
        TWO(Equal),
        {{"", "PRelu", 7}, [](const Context& c) { return c.two(Op::kPrelu); }},
        {{"", "Shrink", 9},
         [](const Context& c) {
           if (kFloats.has(c.e.type(c.in(0))))
             return c.one(Op::kShrink, c.f("bias", 0.0f), c.f("lambd", 0.5f));
           const DType type = c.e.type(c.in(0));  // Integers: as the definition has it, in doubles.
           const Id x = c.e.cast(c.in(0), DType::kDouble);
           return c.e.cast(c.e.apply(Op::kShrink, {x}, c.f("bias", 0.0f), c.f("lambd", 0.5f)), type);
         }},
        {{"", "SwiGLU", 1},
         [](const Context& c) {
           return c.e.apply(Op::kMul, {c.one(Op::kSwish, c.f("alpha", 1.0f)), c.in(1)});
         }},
        {{"", "Clip", 6}, clip},
        {{"", "Pow", 7}, pow},
        {{"", "Mod", 10}, mod},
        {{"", "Min", 6}, [](const Context& c) { return fold(c, Op::kMin); }},
        {{"", "Max", 6}, [](const Context& c) { return fold(c, Op::kMax); }},
        {{"", "Sum", 6}, [](const Context& c) { return fold(c, Op::kAdd); }},
        {{"", "Mean", 6},
         [](const Context& c) {
           const Id sum = fold(c, Op::kAdd);
           return c.e.apply(Op::kMul, {sum, c.like(1.0 / static_cast<double>(c.operands.size()), sum)});
         }},
        {{"", "BitShift", 11}, shift},
        {{"", "BitwiseAnd", 18}, [](const Context& c) { return bits(c, Op::kBitAnd); }},
        {{"", "BitwiseOr", 18}, [](const Context& c) { return bits(c, Op::kBitOr); }},
        {{"", "BitwiseXor", 18}, [](const Context& c) { return bits(c, Op::kBitXor); }},
        {{"", "BitwiseNot", 18}, [](const Context& c) { return bits(c, Op::kBitNot); }},
        {{"", "And", 7}, [](const Context& c) { return logic(c, Op::kBitAnd); }},
        {{"", "Or", 7}, [](const Context& c) { return logic(c, Op::kBitOr); }},
        {{"", "Xor", 7}, [](const Context& c) { return logic(c, Op::kBitXor); }},
        {{"", "Not", 1}, [](const Context& c) { return logic(c, Op::kNot); }},
        {{"", "IsInf", 10}, is_inf},
        {{"", "Where", 9}, [](const Context& c) { return c.e.where(c.in(0), c.in(1), c.in(2)); }},
        {{"", "Cast", 6}, [](const Context& c) { return cast_to(c, static_cast<DType>(c.node.i("to", 0))); }},
        {{"", "CastLike", 15}, [](const Context& c) { return cast_to(c, declared(c.node.in(1))); }},
        {{"", "Dropout", 7}, dropout},
        {{kMs, "Gelu", 1}, [](const Context& c) { return c.one(Op::kGelu); }},
        {{kMs, "QuickGelu", 1}, [](const Context& c) { return c.one(Op::kSwish, c.f("alpha", 1.702f)); }},
        {{kMs, "FastGelu", 1}, [](const Context& c) { return with_bias(c, Op::kGeluTanh); }},
        {{kMs, "BiasGelu", 1}, [](const Context& c) { return with_bias(c, Op::kGelu); }},
    };
    for (const ActivationRow& row : kActivations) {
      // Those with more to them are above: Shrink is for integers too.
      const bool here = std::any_of(list.begin(), list.end(), [&](const Entry& entry) {
        return *entry.of.domain == '\0' && std::strcmp(entry.of.type, row.type) == 0;
      });
      if (*row.type != '\0' && !here) {
        list.push_back({{"", row.type, row.since}, activation});
      }
    }
    return list;
  }();
#undef SAME
#undef TWO
  return all;
}

// Asked several times of each node of a graph.
const Entry* find(const Node& node) {
  static const std::unordered_map<std::string_view, std::vector<const Entry*>> by_type = [] {
    std::unordered_map<std::string_view, std::vector<const Entry*>> all;
    for (const Entry& entry : entries()) all[entry.of.type].push_back(&entry);
    return all;
  }();
  const auto found = by_type.find(node.type);
  if (found == by_type.end()) return nullptr;
  for (const Entry* entry : found->second) {
    if (node.domain == entry->of.domain) {
      return node.version >= entry->of.min_version ? entry : nullptr;
    }
  }
  return nullptr;
}

}  // namespace

bool is_elementwise(const Node& node) { return find(node) != nullptr; }

bool has_bias(const Node& node) { return node.is(kMs, "BiasGelu") || node.is(kMs, "FastGelu"); }

const std::vector<LowerRule>& lower_rules() {
  static const std::vector<LowerRule> rules = [] {
    std::vector<LowerRule> all;
    for (const Entry& entry : entries()) all.push_back(entry.of);
    return all;
  }();
  return rules;
}

Id lower(const Node& node, const Indices& operands, Expression* expression) {
  const Entry* entry = find(node);
  if (entry == nullptr) {
    invalid("there is no elementwise rule for " + node.label());
  }
  return entry->rule({node, operands, *expression});
}

namespace {

// Input i of the operator.
Id add_input(const Value& value, size_t i, Expression* expression, Indices* shaped) {
  if (value.constant != nullptr && count(value.constant->dims) == 1) {
    shaped->push_back(static_cast<int>(i));
    return expression->number(*value.constant);
  }
  return expression->input(static_cast<int>(i), declared(&value));
}

}  // namespace

Id lower_node(const Node& node, Expression* expression, Indices* shaped) {
  Indices operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value* value = node.inputs[i];
    operands.push_back(value == nullptr ? -1 : add_input(*value, i, expression, shaped));
  }
  return lower(node, operands, expression);
}

Id lower_body(const Node& node, Expression* expression, Indices* shaped) {
  SmallVector<Id, 16> ids(node.body->values.size(), -1);  // By Value::index.
  for (size_t i = 0; i < node.body->inputs.size(); ++i) {
    ids.at(node.body->inputs[i]->index) = add_input(*node.body->inputs[i], i, expression, shaped);
  }
  for (const Node* inner : node.body->nodes) {
    Indices operands;
    for (const Value* value : inner->inputs) {
      operands.push_back(value == nullptr ? -1 : ids.at(value->index));
    }
    ids.at(inner->out()->index) = lower(*inner, operands, expression);
  }
  return ids.at(node.body->outputs.at(0)->index);
}

}  // namespace ephost::cpu
