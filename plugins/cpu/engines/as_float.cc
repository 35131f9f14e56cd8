#include "cpu/engines/as_float.h"

#include <algorithm>

#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

bool half(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }
size_t aligned(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// Shows another Prepare with float32 in place of 16-bit floats.
class Wide final : public Prepare {
 public:
  Wide(Prepare* inner, const std::vector<int>& wide_outputs)
      : Prepare(inner->node), inner_(*inner), wide_outputs_(wide_outputs) {
    for (int i = 0; i < inner->inputs(); ++i) {
      in_.push_back(has(i) ? inner->in(i) : Desc{});
      half_.push_back(half(in_.back().type));
      if (half_.back()) {
        in_.back().type = DType::kFloat;
        narrow_ = inner->type(i);
      }
    }
    out_.resize(static_cast<size_t>(inner->outputs()));
  }

  const Desc& in(int i) const override {
    expect(i >= 0 && i < inputs() && has(i), "an input that the operator needs is left out");
    return in_[static_cast<size_t>(i)];
  }
  const Desc& require(int i, Layout layout) override {
    in_.at(static_cast<size_t>(i)).layout = layout;
    inner_.require(i, layout);
    return in_[static_cast<size_t>(i)];
  }
  const void* content(int i) const override {
    if (!half_.at(static_cast<size_t>(i))) {
      return inner_.content(i);
    }
    const TensorPtr wide = constant(i);
    return wide == nullptr ? nullptr : wide->data;
  }
  TensorPtr constant(int i) const override {
    const TensorPtr tensor = inner_.constant(i);
    if (tensor == nullptr || !half_.at(static_cast<size_t>(i))) {
      return tensor;
    }
    return packed<Tensor>(tensor, "float32", [&] {
      TensorPtr wide = make_tensor(DType::kFloat, tensor->dims);
      to_float(tensor->type, tensor->data, static_cast<float*>(mutable_data(wide)), count(tensor->dims));
      return wide;
    });
  }
  Desc& out(int o, DType type, const Dims& dims, Layout layout) override {
    Desc& seen = out_.at(static_cast<size_t>(o));
    inner_.out(o, type == DType::kFloat && !stays_wide(o) ? narrow_ : type, dims, layout);
    seen = {type, dims, layout};
    return seen;
  }
  void alias(int o, int i, size_t offset) override { inner_.alias(o, i, offset); }
  void in_place(int, int) override {}
  void give(int o, TensorPtr content) override { inner_.give(o, std::move(content)); }
  void scratch(size_t bytes) override { scratch_ = bytes; }
  void method(const char* name) override { inner_.method(name); }
  int threads() const override { return inner_.threads(); }
  bool passing() const override { return inner_.passing(); }

  Kernel wrap(Kernel kernel) {
    struct Convert {
      int index;
      int64_t count;
      size_t offset;
    };
    std::vector<Convert> in, out;
    std::vector<void*> constants(in_.size(), nullptr);
    std::vector<TensorPtr> held;
    size_t offset = aligned(scratch_);
    for (size_t i = 0; i < in_.size(); ++i) {
      const int index = static_cast<int>(i);
      if (!half_[i]) {
        continue;
      }
      // A form of a constant lies as the model has it: in another layout it is converted like what runs make.
      if (const TensorPtr wide = in_[i].layout == Layout::kPlain ? constant(index) : nullptr) {
        constants[i] = const_cast<void*>(wide->data);
        held.push_back(wide);
        continue;
      }
      in.push_back({index, in_[i].stored(), offset});
      offset += aligned(in_[i].bytes());
    }
    for (size_t o = 0; o < out_.size(); ++o) {
      // Also of one that nobody reads: the kernel writes it as wide as it has declared it.
      if (out_[o].type == DType::kFloat && !stays_wide(static_cast<int>(o))) {
        out.push_back({static_cast<int>(o), out_[o].stored(), offset});
        offset += aligned(out_[o].bytes());
      }
    }
    inner_.scratch(offset);
    const size_t inputs = in_.size(), outputs = out_.size();
    return [=, narrow = narrow_, kernel = std::move(kernel)](const Args& args) {
      std::vector<void*> sources(inputs), targets(outputs);
      for (size_t i = 0; i < inputs; ++i) {
        sources[i] =
            constants[i] != nullptr ? constants[i] : const_cast<void*>(args.in<void>(static_cast<int>(i)));
      }
      for (size_t o = 0; o < outputs; ++o) targets[o] = args.out<void>(static_cast<int>(o));
      char* memory = args.scratch<char>();
      for (const Convert& c : in) {
        float* wide = reinterpret_cast<float*>(memory + c.offset);
        to_float(narrow, args.in<void>(c.index), wide, c.count);
        sources[static_cast<size_t>(c.index)] = wide;
      }
      for (const Convert& c : out) targets[static_cast<size_t>(c.index)] = memory + c.offset;
      kernel(Args(sources.data(), inputs, targets.data(), outputs, memory));
      for (const Convert& c : out) {
        from_float(narrow, reinterpret_cast<const float*>(memory + c.offset), args.out<void>(c.index),
                   c.count);
      }
      (void)held;
    };
  }

 private:
  bool stays_wide(int o) const {
    return std::find(wide_outputs_.begin(), wide_outputs_.end(), o) != wide_outputs_.end();
  }

  Prepare& inner_;
  std::vector<int> wide_outputs_;
  std::vector<Desc> in_, out_;
  std::vector<bool> half_;
  DType narrow_ = DType::kFloat;
  size_t scratch_ = 0;
};

void convert(TileFunction function, const void* from, size_t from_size, void* to, size_t to_size, int64_t n) {
  parallel_for(n, kGrain, [&](int64_t i, int64_t end) {
    const void* in[2] = {static_cast<const char*>(from) + static_cast<size_t>(i) * from_size, nullptr};
    function(in, static_cast<char*>(to) + static_cast<size_t>(i) * to_size, end - i, nullptr);
  });
}

}  // namespace

void to_float(DType type, const void* from, float* to, int64_t n) {
  const Simd& table = simd();
  convert(type == DType::kFloat16 ? table.half_to_float : table.bfloat16_to_float, from, sizeof(uint16_t), to,
          sizeof(float), n);
}

void from_float(DType type, const float* from, void* to, int64_t n) {
  const Simd& table = simd();
  convert(type == DType::kFloat16 ? table.float_to_half : table.float_to_bfloat16, from, sizeof(float), to,
          sizeof(uint16_t), n);
}

Kernel as_float(Prepare& p, const std::function<Kernel(Prepare&)>& prepare,
                const std::vector<int>& wide_outputs) {
  bool any = false;
  for (int i = 0; i < p.inputs(); ++i) {
    any = any || (p.has(i) && half(p.type(i)));
  }
  if (!any) {
    return prepare(p);
  }
  Wide wide(&p, wide_outputs);
  Kernel kernel = prepare(wide);
  return kernel == nullptr ? nullptr : wide.wrap(std::move(kernel));
}

std::string one_float_type(const Node& node, std::initializer_list<size_t> inputs) {
  constexpr Types kFloats = {DType::kFloat, DType::kFloat16, DType::kBFloat16};
  DType type = DType::kUndefined;
  for (size_t i : inputs) {
    const Value* value = node.in(i);
    if (value == nullptr || value->type == DType::kUndefined) continue;
    if (!kFloats.has(value->type)) return "'" + value->name + "' has the type " + name_of(value->type);
    if (type != DType::kUndefined && type != value->type) return "its inputs have different types";
    type = value->type;
  }
  return "";
}

}  // namespace ephost::cpu
