#include "cpu/engines/expression.h"

#include <cstring>

#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

constexpr size_t kTileBytes = 4096;
constexpr size_t kMaxBuffers = 64;
constexpr size_t kMaxRank = 16;
// Rows shorter than this are not worth a tile each: a tile then covers several.
constexpr int64_t kShortRow = 256;

template <typename T>
void copy_of(const void* const* in, void* out, int64_t n, const float*) {
  if (in[0] != out) std::memcpy(out, in[0], static_cast<size_t>(n) * sizeof(T));
}

TileFunction copy_tile(size_t size) {
  return with_size(size, [](auto zero) -> TileFunction { return copy_of<decltype(zero)>; });
}

// How many additions an operation is worth.
int64_t cost_of(TileFunction function) {
  struct Costs {
    std::unordered_map<TileFunction, int64_t> of;
    Costs() {
      for (const DType type : {DType::kFloat, DType::kDouble}) {
        for (const Op op : {Op::kExp, Op::kLog, Op::kErf}) of[op_tile(op, type)] = 8;
        for (const ActivationRow& row : kActivations) {
          if (row.exponential) of[op_tile(op_of(row.activation), type)] = 8;
        }
        for (const Op op : {Op::kSin, Op::kCos, Op::kTan, Op::kAsin, Op::kAcos, Op::kAtan, Op::kSinh,
                            Op::kCosh, Op::kAsinh, Op::kAcosh, Op::kAtanh, Op::kPow, Op::kFmod, Op::kMod}) {
          of[op_tile(op, type)] = 64;
        }
      }
    }
  };
  static const Costs costs;
  const auto found = costs.of.find(function);
  return found == costs.of.end() ? 1 : found->second;
}

template <typename T>
void fill(void* to, const void* from, int64_t n) {
  T value;
  std::memcpy(&value, from, sizeof value);
  T* out = static_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = value;
}

// Not inlined, here and below: the loop over instructions has few registers as it is.
[[gnu::noinline]] void fill(void* to, const void* from, int64_t n, size_t size) {
  with_size(size, [&](auto zero) { fill<decltype(zero)>(to, from, n); });
}

// Dimensions with the distance between neighbours in some memory, outermost first.
struct Walk {
  Dims sizes;
  Ints strides;
};

// Copies the elements number start to start + n of the walk to consecutive places.
template <typename T>
void gather(const Walk& walk, const void* from, void* to, int64_t start, int64_t n) {
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  std::array<int64_t, kMaxRank> index{};
  const size_t last = walk.sizes.size() - 1;
  for (size_t d = last + 1; d-- > 0;) {
    index[d] = start % walk.sizes[d];
    start /= walk.sizes[d];
    in += index[d] * walk.strides[d];
  }
  const int64_t step = walk.strides[last];
  while (n > 0) {
    const int64_t run = std::min(n, walk.sizes[last] - index[last]);
    if (step == 0) {
      const T value = *in;
      for (int64_t i = 0; i < run; ++i) out[i] = value;
    } else if (step == 1) {
      for (int64_t i = 0; i < run; ++i) out[i] = in[i];
    } else {
      for (int64_t i = 0; i < run; ++i) out[i] = in[i * step];
    }
    out += run;
    n -= run;
    in += (run - 1) * step + step;
    index[last] += run;
    for (size_t d = last; index[d] == walk.sizes[d] && d > 0; --d) {
      in += walk.strides[d - 1] - walk.sizes[d] * walk.strides[d];
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

[[gnu::noinline]] void gather(const Walk& walk, const void* from, void* to, int64_t start, int64_t n,
                              size_t size) {
  with_size(size, [&](auto zero) { gather<decltype(zero)>(walk, from, to, start, n); });
}

// The dimensions of the output as they lie in memory.
Dims stored_dims(const Dims& dims, Layout layout) {
  Dims all = dims;
  const int64_t block = block_of(layout);
  if (layout == Layout::kChannelsLast) {
    all.erase(all.begin() + 1);
    all.push_back(dims[1]);
  } else if (block > 1) {
    all[1] = (dims[1] + block - 1) / block;
    all.push_back(block);
  }
  return all;
}

// The distances in an input's memory between neighbours in the output's memory; 0 where it is broadcast.
Ints strides_in(const Desc& in, const Dims& out, Layout layout) {
  if (in.layout != Layout::kPlain) {
    const Dims mine = stored_dims(in.dims, in.layout), all = stored_dims(out, layout);
    Ints strides(all.size(), 0);
    int64_t step = 1;
    for (size_t d = all.size(); d-- > 0;) {
      strides[d] = mine[d] == 1 && all[d] != 1 ? 0 : step;
      step *= mine[d];
    }
    return strides;
  }
  Ints plain(out.size(), 0);
  int64_t step = 1;
  for (size_t k = 0; k < in.rank(); ++k) {
    const int64_t size = in.dims[in.rank() - 1 - k];
    plain[out.size() - 1 - k] = size == 1 ? 0 : step;
    step *= size;
  }
  const int64_t block = block_of(layout);
  if (layout == Layout::kChannelsLast) {
    const int64_t channel = plain[1];
    plain.erase(plain.begin() + 1);
    plain.push_back(channel);
  } else if (block > 1) {
    plain.push_back(plain[1]);
    plain[1] *= block;
  }
  return plain;
}

// An input's place among the tiles.
struct Source {
  int input = 0;
  size_t size = 0;  // Of an element.
  enum Mode : uint8_t { kDirect, kFixed, kGathered } mode = kDirect;
  Ints strides;          // Of the dimensions outside of the group.
  Walk group;            // Within it.
  bool repeats = false;  // Every tile of a group has the same content.
  size_t slot = 0;
};

struct Instruction {
  TileFunction function = nullptr;
  std::array<uint16_t, 3> operands{};
  uint16_t result = 0;
  std::array<float, 2> params{};
};

// A slot is where an instruction finds an operand: a buffer, an input's memory, or the output's.
struct Code {
  std::vector<Source> sources;
  SmallVector<Instruction, 2> instructions;
  struct Number {
    size_t slot, size;
    std::array<unsigned char, 8> bits;
  };
  SmallVector<Number, 1> numbers;
  SmallVector<int, 8> buffers;  // For each slot, its number among the buffers, or -1.
  size_t output = 0;            // A slot.
  size_t out_size = 0;

  Dims outer;  // Dimensions outside of the group.
  int64_t group = 1, tile = 1, tiles = 1, items = 0;
  size_t num_buffers = 0;

  void run(const Args& args, int64_t item, int64_t end) const {
    alignas(64) unsigned char* memory =
        static_cast<unsigned char*>(__builtin_alloca_with_align(num_buffers * kTileBytes, 512));
    std::array<const void*, 4 * kMaxBuffers> slots{};
    for (size_t s = 0; s < buffers.size(); ++s) {
      slots[s] = buffers[s] < 0 ? nullptr : memory + static_cast<size_t>(buffers[s]) * kTileBytes;
    }
    for (const Number& number : numbers) {
      fill(const_cast<void*>(slots[number.slot]), number.bits.data(), std::min(tile, group), number.size);
    }
    std::array<const char*, kMaxBuffers> bases{};
    std::array<const void*, kMaxBuffers> filled{};  // What the buffer of a source was made of.
    std::array<int64_t, kMaxRank> index{};
    int64_t rest = item / tiles, t = item % tiles;
    for (size_t d = outer.size(); d-- > 0;) {
      index[d] = rest % outer[d];
      rest /= outer[d];
    }
    for (size_t s = 0; s < sources.size(); ++s) {
      const Source& source = sources[s];
      int64_t offset = 0;
      for (size_t d = 0; d < outer.size(); ++d) offset += index[d] * source.strides[d];
      bases[s] = args.in<char>(source.input) + offset * static_cast<int64_t>(source.size);
    }
    char* out = args.out<char>(0) + (item / tiles * group) * static_cast<int64_t>(out_size);
    for (; item < end; ++item) {
      const int64_t start = t * tile, n = std::min(tile, group - start);
      for (size_t s = 0; s < sources.size(); ++s) {
        const Source& source = sources[s];
        const char* at =
            bases[s] + (source.mode == Source::kDirect ? start * static_cast<int64_t>(source.size) : 0);
        if (source.mode == Source::kDirect) {
          slots[source.slot] = at;
          continue;
        }
        void* buffer = const_cast<void*>(slots[source.slot]);
        if (source.mode == Source::kFixed) {
          if (filled[s] != at) fill(buffer, at, std::min(tile, group), source.size);
          filled[s] = at;
        } else if (!source.repeats) {
          gather(source.group, at, buffer, start, n, source.size);
        } else if (filled[s] != at) {
          gather(source.group, at, buffer, 0, std::min(tile, group), source.size);
          filled[s] = at;
        }
      }
      slots[output] = out + start * static_cast<int64_t>(out_size);
      for (const Instruction& step : instructions) {
        const void* operands[3] = {slots[step.operands[0]], slots[step.operands[1]], slots[step.operands[2]]};
        step.function(operands, const_cast<void*>(slots[step.result]), n, step.params.data());
      }
      if (++t == tiles) {
        t = 0;
        out += group * static_cast<int64_t>(out_size);
        for (size_t d = outer.size(); d-- > 0;) {
          const bool carry = ++index[d] == outer[d];
          for (size_t s = 0; s < sources.size(); ++s) {
            const int64_t step = carry ? -(outer[d] - 1) * sources[s].strides[d] : sources[s].strides[d];
            bases[s] += step * static_cast<int64_t>(sources[s].size);
          }
          if (!carry) break;
          index[d] = 0;
        }
      }
    }
  }
};

// Gives the values that `result` needs their slots, and buffers to those that need one.
void allocate_slots(const Expression& expression, Expression::Id result, Code* code) {
  const Expression::Values& values = expression.values();
  const size_t n = static_cast<size_t>(result) + 1;
  SmallVector<size_t, 8> last(n, 0), slot(n, 0);
  SmallVector<bool, 8> needed(n, false);
  needed[n - 1] = true;
  for (size_t v = n; v-- > 0;) {
    for (Expression::Id operand : values[v].operands) {
      if (needed[v] && operand >= 0) {
        needed[static_cast<size_t>(operand)] = true;
        last[static_cast<size_t>(operand)] = std::max(last[static_cast<size_t>(operand)], v);
      }
    }
  }
  const auto new_slot = [&](int buffer) {
    code->buffers.push_back(buffer);
    return code->buffers.size() - 1;
  };
  SmallVector<int, 8> free;
  const auto new_buffer = [&] {
    if (!free.empty()) {
      const int buffer = free.back();
      free.pop_back();
      return buffer;
    }
    return static_cast<int>(code->num_buffers++);
  };
  for (size_t v = 0; v < n; ++v) {  // Those that live as long as the kernel runs come first.
    if (needed[v] && values[v].kind == Expression::Value::kInput) {
      for (Source& source : code->sources) {
        if (source.input == values[v].input) {
          source.slot = slot[v] = new_slot(source.mode == Source::kDirect ? -1 : new_buffer());
        }
      }
    } else if (needed[v] && values[v].kind == Expression::Value::kNumber) {
      slot[v] = new_slot(new_buffer());
      code->numbers.push_back({slot[v], size_of(values[v].type), values[v].bits});
    }
  }
  for (size_t v = 0; v < n; ++v) {
    const Expression::Value& value = values[v];
    if (!needed[v] || value.kind != Expression::Value::kResult) {
      continue;
    }
    Instruction step;
    step.function = value.function;
    step.params = value.params;
    SmallVector<int, 3> dead;  // Buffers of operands that nobody needs after this.
    bool same_size = true;
    for (size_t k = 0; k < 3; ++k) {
      if (value.operands[k] >= 0) {
        const size_t operand = static_cast<size_t>(value.operands[k]);
        step.operands[k] = static_cast<uint16_t>(slot[operand]);
        const int buffer = code->buffers[slot[operand]];
        if (values[operand].kind == Expression::Value::kResult && last[operand] == v &&
            std::find(dead.begin(), dead.end(), buffer) == dead.end()) {
          dead.push_back(buffer);
        }
        same_size = same_size && size_of(values[operand].type) == size_of(value.type);
      }
    }
    if (same_size) {  // The result may take an operand's place.
      free.insert(free.end(), dead.begin(), dead.end());
    }
    slot[v] = v + 1 == n ? code->output = new_slot(-1) : new_slot(new_buffer());
    if (!same_size) {
      free.insert(free.end(), dead.begin(), dead.end());
    }
    step.result = static_cast<uint16_t>(slot[v]);
    code->instructions.push_back(step);
  }
}

}  // namespace

Dims broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims all = longer;
  for (size_t k = 0; k < shorter.size(); ++k) {
    int64_t& size = all[all.size() - 1 - k];
    const int64_t other = shorter[shorter.size() - 1 - k];
    if (size == 1) {
      size = other;
    } else if (other != 1 && other != size) {
      invalid("shapes " + to_string(a) + " and " + to_string(b) + " cannot be broadcast together");
    }
  }
  return all;
}

// ---- Expression

Expression::Id Expression::add(const Value& value) {
  values_.push_back(value);
  return static_cast<Id>(values_.size() - 1);
}

Expression::Id Expression::input(int i, DType type) {
  const size_t at = static_cast<size_t>(i);
  if (at >= inputs_.size()) inputs_.resize(at + 1, -1);
  if (inputs_[at] < 0) {
    Value value;
    value.kind = Value::kInput;
    value.type = type;
    value.input = i;
    inputs_[at] = add(value);
  }
  return inputs_[at];
}

Expression::Id Expression::number(double number, DType type) {
  Value value;
  value.kind = Value::kNumber;
  value.type = type;
  with_type(type, [&](auto x) {
    using T = decltype(x);
    if constexpr (std::is_integral_v<T>) {
      x = static_cast<T>(static_cast<int64_t>(number));
    } else {
      x = T(static_cast<arithmetic_t<T>>(number));
    }
    std::memcpy(value.bits.data(), &x, sizeof x);
  });
  return add(value);
}

Expression::Id Expression::number(const Tensor& constant) {
  Value value;
  value.kind = Value::kNumber;
  value.type = constant.type;
  std::memcpy(value.bits.data(), constant.data, size_of(constant.type));
  return add(value);
}

bool Expression::is_number(Id id, double* number) const {
  const Value& value = values_[static_cast<size_t>(id)];
  if (value.kind != Value::kNumber) {
    return false;
  }
  constexpr Types kRead = kFloats | Types{DType::kInt32, DType::kInt64};
  if (!kRead.has(value.type)) {
    return false;
  }
  with_type(value.type, [&](auto x) {
    std::memcpy(&x, value.bits.data(), sizeof x);
    *number = static_cast<double>(static_cast<arithmetic_t<decltype(x)>>(x));
  });
  return true;
}

bool Expression::fits_one_pass() const {
  // Inputs that have to be gathered and numbers keep a buffer each, results until they were read.
  std::vector<size_t> last(values_.size(), 0);
  size_t kept = 0;
  for (size_t v = 0; v < values_.size(); ++v) {
    kept += values_[v].kind != Value::kResult;
    for (Id operand : values_[v].operands) {
      if (operand >= 0) last[static_cast<size_t>(operand)] = v;
    }
  }
  size_t live = 0, most = 0;
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].kind != Value::kResult) continue;
    most = std::max(most, ++live);
    std::array<Id, 3> operands = values_[v].operands;
    std::sort(operands.begin(), operands.end());
    const auto end = std::unique(operands.begin(), operands.end());
    live -= static_cast<size_t>(std::count_if(operands.begin(), end, [&](Id operand) {
      return operand >= 0 && values_[static_cast<size_t>(operand)].kind == Value::kResult &&
             last[static_cast<size_t>(operand)] == v;
    }));
  }
  return kept + most <= kMaxBuffers && values_.size() < 4 * kMaxBuffers;
}

Expression::Id Expression::widened(Id value) {
  return is_half(type(value)) ? cast(value, DType::kFloat) : value;
}

Expression::Id Expression::apply(Op op, std::initializer_list<Id> operands, float a, float b) {
  Value value;
  value.kind = Value::kResult;
  size_t k = 0;
  for (Id operand : operands) {
    value.operands[k++] = widened(operand);
  }
  const DType of = type(value.operands[0]);
  for (size_t i = 1; i < k; ++i) {
    if (type(value.operands[i]) != of) {
      invalid(std::string("operands of the types ") + name_of(of) + " and " +
              name_of(type(value.operands[i])));
    }
  }
  value.function = op_tile(op, of);
  if (value.function == nullptr) {
    invalid(std::string("not available for ") + name_of(of));
  }
  value.type = gives_bool(op) ? DType::kBool : of;
  value.params = {a, b};
  return add(value);
}

Expression::Id Expression::where(Id condition, Id yes, Id no) {
  if (is_half(type(yes)) != is_half(type(no))) {
    yes = widened(yes);
    no = widened(no);
  }
  Value value;
  value.kind = Value::kResult;
  value.type = type(yes);
  value.operands = {condition, yes, no};
  value.function = where_tile(size_of(value.type));
  if (value.function == nullptr || type(no) != value.type || type(condition) != DType::kBool) {
    invalid("operands that do not fit together");
  }
  return add(value);
}

Expression::Id Expression::cast(Id from, DType to) {
  if (type(from) == to) {
    return from;
  }
  const Value& source = values_[static_cast<size_t>(from)];
  double known = 0;
  if (is_number(from, &known) && (to == DType::kFloat || to == DType::kDouble || is_half(to))) {
    return number(known, to);
  }
  Value value;
  value.kind = Value::kResult;
  value.type = to;
  value.operands[0] = from;
  value.function = cast_tile(source.type, to);
  if (value.function == nullptr) {
    if (source.type == DType::kFloat || to == DType::kFloat || size_of(source.type) == 0 ||
        size_of(to) == 0) {
      invalid(std::string("no cast from ") + name_of(source.type) + " to " + name_of(to));
    }
    return cast(cast(from, DType::kFloat), to);
  }
  return add(value);
}

Expression::Id Expression::copy(Id from) {
  Value value;
  value.kind = Value::kResult;
  value.type = type(from);
  value.operands[0] = from;
  value.function = copy_tile(size_of(value.type));
  return add(value);
}

Kernel evaluate(Prepare& p, const Expression& original, Expression::Id result, DType out,
                const Indices& shaped) {
  Expression expression = original;
  result = expression.cast(result, out);
  const Expression::Values& values = expression.values();
  // The inputs that count.
  Indices used;
  SmallVector<bool, 8> needed(values.size(), false);
  needed[static_cast<size_t>(result)] = true;
  for (size_t v = values.size(); v-- > 0;) {
    if (needed[v]) {
      for (Expression::Id operand : values[v].operands) {
        if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
      }
      if (values[v].kind == Expression::Value::kInput) {
        used.push_back(values[v].input);
      }
    }
  }
  std::sort(used.begin(), used.end());
  Dims dims;
  for (const Indices* list : std::initializer_list<const Indices*>{&used, &shaped}) {
    for (int i : *list) {
      try {
        dims = broadcast(dims, p.dims(i));
      } catch (const Error& error) {
        p.invalid(error.what());
      }
    }
  }

  // The layout: that of the largest input which is not plain, if all others can be read along with it.
  Layout layout = Layout::kPlain;
  for (int i : used) {
    if (p.in(i).layout != Layout::kPlain && p.dims(i) == dims && dims.size() > 2) {
      layout = p.in(i).layout;
    }
  }
  const auto choose = [&](int i) {
    const Desc& in = p.in(i);
    if (in.count() == 1 && dims != in.dims) {
      p.require(i, Layout::kPlain);
      return true;
    }
    if (in.rank() == dims.size() && in.dims[1] == dims[1]) {
      p.require(i, layout);
      return true;
    }
    p.require(i, Layout::kPlain);
    const size_t missing = dims.size() - in.rank();
    const bool by_channel = missing <= 1 && in.dims[1 - missing] != 1;
    return !by_channel || dims[1] % block_of(layout) == 0;
  };
  if (layout != Layout::kPlain && !std::all_of(used.begin(), used.end(), choose)) {
    layout = Layout::kPlain;
  }
  for (int i : used) {
    if (layout == Layout::kPlain) p.require(i, Layout::kPlain);
  }

  p.out(0, out, dims, layout);
  const Desc to{out, dims, layout};
  if (values[static_cast<size_t>(result)].kind == Expression::Value::kInput && p.dims(used[0]) == dims) {
    p.alias(0, used[0]);
    return nullptr;
  }
  if (values[static_cast<size_t>(result)].kind != Expression::Value::kResult) {
    Expression copied = expression;
    return evaluate(p, copied, copied.copy(result), out, shaped);
  }
  for (int i : used) {
    if (p.dims(i) == dims && p.in(i).layout == layout && size_of(p.type(i)) == size_of(out)) {
      p.in_place(0, i);
    }
  }

  // Dimensions in memory order, those of size 1 left out, neighbours merged where all inputs allow it.
  auto code = std::make_shared<Code>();
  Dims sizes = stored_dims(dims, layout);
  std::vector<Ints> strides;
  strides.reserve(used.size());
  size_t widest = size_of(out);
  for (int i : used) {
    strides.push_back(strides_in(p.in(i), dims, layout));
  }
  for (const Expression::Value& value : values) {
    widest = std::max(widest, size_of(value.type));
  }
  for (size_t d = sizes.size(); d-- > 0;) {
    const auto merges = [&](const Ints& of) { return of[d] == of[d + 1] * sizes[d + 1]; };
    if (sizes[d] == 1) {
      sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(d));
      for (auto& of : strides) of.erase(of.begin() + static_cast<ptrdiff_t>(d));
    } else if (d + 1 < sizes.size() && std::all_of(strides.begin(), strides.end(), merges)) {
      sizes[d] *= sizes[d + 1];
      sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(d) + 1);
      for (auto& of : strides) of.erase(of.begin() + static_cast<ptrdiff_t>(d));
    }
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    for (auto& of : strides) of.push_back(1);
  }
  p.expect(sizes.size() <= kMaxRank, "more dimensions than can be broadcast");

  size_t inner = sizes.size();  // Where the group begins.
  do {
    code->group *= sizes[--inner];
  } while (inner > 0 && code->group < kShortRow);
  code->outer.assign(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(inner));
  int64_t period = 1;
  code->sources.reserve(used.size());
  for (size_t k = 0; k < used.size(); ++k) {
    Source source;
    source.input = used[k];
    source.size = size_of(p.type(used[k]));
    const auto split = strides[k].begin() + static_cast<ptrdiff_t>(inner);
    source.strides.assign(strides[k].begin(), split);
    source.group = {{sizes.begin() + static_cast<ptrdiff_t>(inner), sizes.end()}, {split, strides[k].end()}};
    bool direct = true;
    int64_t step = 1, varying = 1;
    for (size_t d = sizes.size(); d-- > inner;) {
      direct = direct && strides[k][d] == step;
      step *= sizes[d];
      if (strides[k][d] != 0) varying = step;
    }
    source.mode = direct ? Source::kDirect : varying == 1 ? Source::kFixed : Source::kGathered;
    const int64_t most = static_cast<int64_t>(kTileBytes / widest);
    if (source.mode == Source::kGathered && (varying <= most || code->group <= most)) {
      source.repeats = true;
      period = std::max(period, code->group <= most ? 1 : varying);
    }
    code->sources.push_back(std::move(source));
  }
  if (to.count() == 0) {
    return [](const Args&) {};
  }
  code->tile = static_cast<int64_t>(kTileBytes / widest) / period * period;
  code->tiles = (code->group + code->tile - 1) / code->tile;
  code->items = count(sizes, 0, inner) * code->tiles;
  code->out_size = size_of(out);
  allocate_slots(expression, result, code.get());
  p.expect(code->num_buffers <= kMaxBuffers && code->buffers.size() < 4 * kMaxBuffers &&
               used.size() <= kMaxBuffers,
           "more inputs and steps than one pass can hold");

  int64_t cost = 0;
  for (const Instruction& step : code->instructions) {
    cost += cost_of(step.function);
  }
  const int64_t grain = kGrain / (std::min(code->tile, code->group) * cost) + 1;
  const int64_t block = block_of(layout), padding = block > 1 ? (block - dims[1] % block) % block : 0;
  const int64_t batch = dims.empty() ? 1 : dims[0];
  if (padding == 0) {
    return [code, grain](const Args& args) {
      parallel_for(code->items, grain, [&](int64_t i, int64_t end) { code->run(args, i, end); });
    };
  }
  // The filling was computed like everything else, and is put back to zero.
  const int64_t spatial = count(dims, 2, dims.size()), image = to.stored() / batch;
  return [=](const Args& args) {
    parallel_for(code->items, grain, [&](int64_t i, int64_t end) { code->run(args, i, end); });
    const size_t size = code->out_size;
    for (int64_t n = 0; n < batch; ++n) {
      char* last =
          args.out<char>(0) + static_cast<size_t>((n + 1) * image - spatial * block + block - padding) * size;
      for (int64_t s = 0; s < spatial; ++s) {
        std::memset(last + static_cast<size_t>(s * block) * size, 0, static_cast<size_t>(padding) * size);
      }
    }
  };
}

}  // namespace ephost::cpu
