// Expressions over elements: what one elementwise node computes, or a tree of them that was fused. They are
// evaluated tile by tile, so that everything between the inputs and the result stays in the first-level
// cache.
#ifndef EPHOST_CPU_ENGINES_EXPRESSION_H_
#define EPHOST_CPU_ENGINES_EXPRESSION_H_

#include <array>

#include "cpu/engines/tiles.h"

namespace ephost::cpu {

// Numbers of inputs, or of values of an expression.
using Indices = SmallVector<int, 6>;

class Expression {
 public:
  // Values are numbered in the order in which they are made.
  using Id = int;

  // Input i of the operator. The same id if asked for twice.
  Id input(int i, DType type);
  // A number, the same for all elements.
  Id number(double value, DType type);
  // The only element of a constant.
  Id number(const Tensor& constant);
  // An operation on values of one type; the result has it as well, or is bool. float16 and bfloat16 values
  // are widened, and the result is float32 then: `cast` it where its type matters. Throws Error where the
  // operation does not exist on the type.
  Id apply(Op op, std::initializer_list<Id> operands, float a = 0, float b = 0);
  Id where(Id condition, Id yes, Id no);
  Id cast(Id value, DType to);
  Id copy(Id value);
  DType type(Id value) const { return values_[static_cast<size_t>(value)].type; }
  // The number behind a value that was made by `number`.
  bool is_number(Id value, double* number) const;
  // Whether one pass can hold it, whatever the shapes are.
  bool fits_one_pass() const;

  struct Value {
    enum Kind : uint8_t { kInput, kNumber, kResult } kind = kInput;
    DType type = DType::kUndefined;
    int input = 0;                        // kInput
    std::array<unsigned char, 8> bits{};  // kNumber
    TileFunction function = nullptr;      // kResult
    std::array<Id, 3> operands{-1, -1, -1};
    std::array<float, 2> params{};
  };
  using Values = SmallVector<Value, 6>;
  const Values& values() const { return values_; }

 private:
  Id add(const Value& value);
  Id widened(Id value);
  Values values_;
  Indices inputs_;  // by number; -1: not there
};

// Makes the node's output 0 the value `result` of the expression, broadcast over all inputs that it uses:
// declares the output, chooses layouts, and returns the kernel. Of input i, Prepare::in(i) must be there.
// `shaped` are inputs that the expression does not read but that count for the output's shape.
Kernel evaluate(Prepare& p, const Expression& expression, Expression::Id result, DType out,
                const Indices& shaped = {});

// The shape of numpy's broadcasting. Throws Error where there is none.
Dims broadcast(const Dims& a, const Dims& b);

}  // namespace ephost::cpu

#endif
