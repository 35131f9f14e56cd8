// What the contract of an operator does itself: sizes of tensors, and the content of inputs as numbers.
#include "cpu/operator.h"

#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// The elements of a tensor as a list of numbers.
template <typename List>
List convert(const void* data, DType type, size_t n, const Node& node) {
  using To = typename List::value_type;
  if (!kAny.has(type)) {
    invalid(node.label() + ": an input has a type that has no numbers");
  }
  List out(n);
  with_type(type, [&](auto zero) {
    using From = decltype(zero);
    const From* from = static_cast<const From*>(data);
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<To>(static_cast<arithmetic_t<From>>(from[i]));
  });
  return out;
}

}  // namespace

int64_t block_of(Layout layout) {
  return layout == Layout::kBlock8 ? 8 : layout == Layout::kBlock16 ? 16 : 1;
}

int64_t Desc::stored() const {
  const int64_t block = block_of(layout);
  if (block == 1) {
    return count();
  }
  Dims padded = dims;
  padded[1] = (padded[1] + block - 1) / block * block;
  return ephost::count(padded);
}

Ints Prepare::ints(int i) const {
  const void* data = content(i);
  if (data == nullptr) {
    throw NeedsContent{i};
  }
  return convert<Ints>(data, in(i).type, static_cast<size_t>(in(i).count()), node);
}

std::vector<float> Prepare::floats(int i) const {
  const void* data = content(i);
  if (data == nullptr) {
    throw NeedsContent{i};
  }
  return convert<std::vector<float>>(data, in(i).type, static_cast<size_t>(in(i).count()), node);
}

int64_t Prepare::integer(int i) const {
  const Ints all = ints(i);
  expect(!all.empty(), "an input that holds a number is empty");
  return all[0];
}

void Prepare::invalid(const std::string& message) const { ephost::invalid(node.label() + ": " + message); }

size_t Prepare::axis(int64_t value, size_t rank) const {
  const int64_t n = static_cast<int64_t>(rank), axis = value < 0 ? value + n : value;
  if (axis < 0 || axis >= n) {
    invalid("axis " + std::to_string(value) + " of a tensor with " + std::to_string(rank) + " dimensions");
  }
  return static_cast<size_t>(axis);
}

Ints Run::ints(int i) const {
  return convert<Ints>(data(i), in(i).type, static_cast<size_t>(in(i).count()), node);
}

void Run::invalid(const std::string& message) const { ephost::invalid(node.label() + ": " + message); }

}  // namespace ephost::cpu
