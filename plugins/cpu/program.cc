#include "program.h"

#include <cstring>
#include <limits>
#include <unordered_set>

#include "../compiler/half.h"
#include "contrib.h"
#include "fuse.h"
#include "kernels/strided.h"

namespace ephost::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr uint32_t kForever = std::numeric_limits<uint32_t>::max();
// A value computed from shapes is evaluated while planning if it is no larger than this.
constexpr size_t kMaxPlannedBytes = 1 << 16;
// A constant is not folded into one larger than this, unless it shrinks.
constexpr size_t kMaxFoldedBytes = size_t{64} << 20;
// A transposed matrix of this size is not worth having twice.
constexpr size_t kWorthLeaving = 1 << 20;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

template <typename To>
std::vector<To> convert(const void* data, DType type, size_t n, const std::string& label) {
  std::vector<To> out(n);
  const auto copy = [&](auto zero) {
    using From = decltype(zero);
    const From* from = static_cast<const From*>(data);
    for (size_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
        out[i] = static_cast<To>(static_cast<float>(from[i]));
      } else {
        out[i] = static_cast<To>(from[i]);
      }
    }
  };
  switch (type) {
    case DType::kFloat:
      copy(float{});
      break;
    case DType::kDouble:
      copy(double{});
      break;
    case DType::kInt64:
      copy(int64_t{});
      break;
    case DType::kInt32:
      copy(int32_t{});
      break;
    case DType::kInt16:
      copy(int16_t{});
      break;
    case DType::kInt8:
      copy(int8_t{});
      break;
    case DType::kUint64:
      copy(uint64_t{});
      break;
    case DType::kUint32:
      copy(uint32_t{});
      break;
    case DType::kUint16:
      copy(uint16_t{});
      break;
    case DType::kUint8:
    case DType::kBool:
      copy(uint8_t{});
      break;
    case DType::kFloat16:
      copy(Half{});
      break;
    case DType::kBFloat16:
      copy(BFloat16{});
      break;
    default:
      invalid(label + ": an input has a type that has no numbers");
  }
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

std::vector<int64_t> Prepare::ints(int i) const {
  const void* data = content(i);
  if (data == nullptr) {
    throw NeedsContent{i};
  }
  return convert<int64_t>(data, in(i).type, static_cast<size_t>(in(i).count()), node.label());
}

std::vector<float> Prepare::floats(int i) const {
  const void* data = content(i);
  if (data == nullptr) {
    throw NeedsContent{i};
  }
  return convert<float>(data, in(i).type, static_cast<size_t>(in(i).count()), node.label());
}

int64_t Prepare::integer(int i) const {
  const std::vector<int64_t> all = ints(i);
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

std::vector<int64_t> Run::ints(int i) const {
  return convert<int64_t>(data(i), in(i).type, static_cast<size_t>(in(i).count()), node.label());
}

void Run::invalid(const std::string& message) const { ephost::invalid(node.label() + ": " + message); }

Kernel make_reorder(const Desc& from, Layout to) {
  const int64_t batch = from.dims[0], channels = from.dims[1];
  const int64_t inner = count(from.dims, 2, from.dims.size());
  const int64_t from_block = block_of(from.layout), to_block = block_of(to),
                block = std::max(from_block, to_block), blocks = (channels + block - 1) / block;
  if (std::min(from_block, to_block) > 1) {
    fail("a change from one blocked layout to another");  // Goes by way of a plain one.
  }
  // Strides of [batch, blocks of channels, channels of a block, inner].
  const auto strides = [&](Layout layout) -> Dims {
    switch (layout) {
      case Layout::kPlain:
        return {channels * inner, block * inner, inner, 1};
      case Layout::kChannelsLast:
        return {channels * inner, block, 1, channels};
      default:
        return {blocks * block * inner, block * inner, 1, block};
    }
  };
  const Dims in = strides(from.layout), out = strides(to);
  const size_t size = size_of(from.type);
  const int64_t whole = channels / block, rest = channels - whole * block;
  const StridedCopy most(size, {batch, whole, block, inner}, in, out);
  if (rest == 0) return [most](const Args& args) { most(args.in<void>(0), args.out<void>(0)); };
  const StridedCopy others(size, {batch, rest, inner}, {in[0], in[2], in[3]}, {out[0], out[2], out[3]},
                           whole * in[1], whole * out[1]);
  // The last block is filled up with zeros.
  const size_t fill = to_block == 1 ? 0 : static_cast<size_t>(block - rest) * size;
  return [=](const Args& args) {
    most(args.in<void>(0), args.out<void>(0));
    others(args.in<void>(0), args.out<void>(0));
    if (fill == 0) return;
    char* last = args.out<char>(0) + (whole * out[1] + rest) * static_cast<int64_t>(size);
    for (int64_t n = 0; n < batch; ++n, last += out[0] * static_cast<int64_t>(size)) {
      for (int64_t i = 0; i < inner; ++i) {
        std::memset(last + i * block * static_cast<int64_t>(size), 0, fill);
      }
    }
  };
}

// What a node has packed of constants in a mapped file is not read there again soon: so the file's pages and
// the packed forms of a whole model are never in memory together.
static void let_go_of_packed(const Node& node) {
  for (const Value* value : node.inputs) {
    if (value != nullptr && value->constant != nullptr && value->constant->data != nullptr &&
        !value->constant->packed.empty()) {
      value->constant->let_go();
    }
  }
}

// Memory that a step reads or writes, by a number that all plans of one chain share.
struct Storage {
  enum Place : uint8_t {
    kNothing,   // Of an input or output that is left out.
    kInput,     // `index` of the program.
    kConstant,  // `tensor`.
    kArena,     // `offset` in the arena of `plan`.
    kOutput,    // `index` of the graph.
    kInside,    // At `offset` of storage `index`.
    kRun,       // The run's own: what an operator asked for in Run::out.
  };
  Place place = kNothing;
  uint32_t index = 0;
  size_t offset = 0;
  size_t bytes = 0;
  TensorPtr tensor;
  uint32_t first = 0, last = 0;  // The steps of its plan that use it; for kArena.
  uint32_t depth = 0;            // Of its plan in the chain.
};

// What is known of a value at some point of a chain of plans.
struct Known {
  Desc desc;
  TensorPtr content;  // Null if only the run knows it.
  // The storage that holds it, in each layout that somebody asked for. The first one is its own.
  std::vector<std::pair<Layout, uint32_t>> storages;
};

struct Step {
  Kernel kernel;
  uint32_t in = 0, out = 0, scratch = 0;  // Positions in Plan::args.
  const Node* node = nullptr;
  const char* method = nullptr;  // See Prepare::method.
};

// The memory of one run of one plan.
struct Frame {
  std::shared_ptr<void> arena;
  std::vector<void*> args;
  std::vector<void*> table;  // Used of the first plan's frame only: see Program::run.
};

class Plan {
 public:
  std::vector<Step> steps;
  std::vector<uint32_t> args;     // Storages, in the order that steps use them.
  std::vector<uint32_t> patches;  // Positions in `args` that are not the frame's own.
  std::vector<Storage> storages;  // Those of the plans before this one, and its own.
  size_t first_storage = 0;       // Of its own.
  size_t arena = 0;
  uint32_t depth = 0;
  // Outputs of the graph to ask for before the first step: their number and description.
  std::vector<std::pair<uint32_t, Desc>> outputs;
  // Its own storages whose addresses come from the run, with the number of the input, output or result; and
  // those that later plans may need the addresses of.
  std::vector<std::pair<uint32_t, uint32_t>> from_inputs, from_outputs, from_results;
  std::vector<uint32_t> kept;
  // The barrier at its end: the node where the rest begins, and the value whose content is needed; the node
  // is to be run itself if there is none.
  size_t next_node = 0;
  bool ends = true;
  const Value* needed = nullptr;
  std::vector<Known> known;  // Unless it ends.
  std::vector<std::pair<std::string, std::shared_ptr<Plan>>> children;

  std::unique_ptr<Frame> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!frames_.empty()) {
        std::unique_ptr<Frame> frame = std::move(frames_.back());
        frames_.pop_back();
        return frame;
      }
    }
    auto frame = std::make_unique<Frame>();
    frame->arena = allocate(arena);
    frame->args.resize(args.size());
    for (size_t i = 0; i < args.size(); ++i) {
      frame->args[i] = resolve(args[i], static_cast<char*>(frame->arena.get()), nullptr);
    }
    return frame;
  }
  void give(std::unique_ptr<Frame> frame) {
    const std::lock_guard<std::mutex> lock(mutex_);
    frames_.push_back(std::move(frame));
  }

  // Null where it needs the run: `table` has those.
  void* resolve(uint32_t storage, char* memory, void* const* table) const {
    const Storage& at = storages[storage];
    switch (at.place) {
      case Storage::kNothing:
        return nullptr;
      case Storage::kConstant:
        return const_cast<void*>(at.tensor->data);
      case Storage::kArena:
        return at.depth == depth ? memory + at.offset : table == nullptr ? nullptr : table[storage];
      case Storage::kInside: {
        char* base = static_cast<char*>(resolve(at.index, memory, table));
        return base == nullptr ? nullptr : base + at.offset;
      }
      default:
        return table == nullptr ? nullptr : table[storage];
    }
  }
  // Whether its address is the same in every run with this frame.
  bool fixed(uint32_t storage) const {
    const Storage& at = storages[storage];
    return at.place == Storage::kInside ? fixed(at.index)
                                        : at.place == Storage::kNothing || at.place == Storage::kConstant ||
                                              (at.place == Storage::kArena && at.depth == depth);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> frames_;
};

// Makes one plan.
class Planner {
 public:
  Planner(Program* program, const Plan* before, std::vector<Known> known, size_t begin)
      : program_(*program),
        graph_(*program->graph_),
        plan_(std::make_shared<Plan>()),
        known_(std::move(known)) {
    if (before != nullptr) {
      plan_->storages = before->storages;
      plan_->depth = before->depth + 1;
    }
    plan_->first_storage = plan_->storages.size();
    if (plan_->storages.empty()) {
      plan_->storages.emplace_back();  // Number 0 is no memory at all.
      plan_->first_storage = 1;
    }
    uses_.assign(graph_.values.size(), 0);
    for (size_t n = begin; n < graph_.nodes.size(); ++n) {
      for_inputs(*graph_.nodes[n], [&](const Value* value) { ++uses_[value->index]; });
    }
    for (const Value* value : graph_.outputs) {
      ++uses_[value->index];
    }
    begin_ = begin;
  }

  // The known state at the start of a program: shapes of inputs, and constants.
  static std::vector<Known> start(Program* program, const std::vector<Desc>& inputs) {
    std::vector<Known> known(program->graph_->values.size());
    for (const auto& value : program->graph_->values) {
      if (value->constant != nullptr) {
        known[value->index].desc = {value->constant->type, value->constant->dims, Layout::kPlain};
        known[value->index].content = value->constant;
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value* value = program->input(i);
      if (value->constant == nullptr) {
        known[value->index].desc = inputs[i];
      }
    }
    return known;
  }

  // Gives the inputs their storages: for the root plan.
  void bind_inputs() {
    for (size_t i = 0; i < program_.num_inputs(); ++i) {
      const Value* value = program_.input(i);
      if (value->constant == nullptr) {
        Storage storage;
        storage.place = Storage::kInput;
        storage.index = static_cast<uint32_t>(i);
        storage.bytes = known_[value->index].desc.bytes();
        known_[value->index].storages = {{Layout::kPlain, add(storage)}};
      }
    }
  }

  // Descriptions of what a node gave when it was run itself at the barrier: their storages come from the run.
  void bind_results(const Node& node, const std::vector<Desc>& results) {
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (const Value* value = node.outputs[o]) {
        Storage storage;
        storage.place = Storage::kRun;
        storage.index = static_cast<uint32_t>(o);
        storage.bytes = results[o].bytes();
        known_[value->index].desc = results[o];
        known_[value->index].storages = {{Layout::kPlain, add(storage)}};
      }
    }
  }

  std::shared_ptr<Plan> build();

  template <typename Function>
  static void for_inputs(const Node& node, Function&& function) {
    for (const Value* value : node.inputs) {
      if (value != nullptr) function(value);
    }
    for (const Value* value : node.implicit) {
      function(value);
    }
  }

  const Known& known(const Value* value) const { return known_[value->index]; }
  std::shared_ptr<Plan> plan() const { return plan_; }

 private:
  friend class PrepareNode;

  uint32_t add(Storage storage) {
    storage.depth = plan_->depth;
    plan_->storages.push_back(std::move(storage));
    return static_cast<uint32_t>(plan_->storages.size() - 1);
  }
  uint32_t root(uint32_t storage) const {
    while (plan_->storages[storage].place == Storage::kInside) {
      storage = plan_->storages[storage].index;
    }
    return storage;
  }
  // The storage of a value in this layout; made by a step if it is not there yet.
  uint32_t storage_of(const Value* value, Layout layout);
  void touch(uint32_t storage, uint32_t step) {
    Storage& at = plan_->storages[root(storage)];
    at.last = std::max(at.last, step);
  }
  // Whether nobody needs the memory behind this input after `node` has read it.
  bool dies(const Node& node, const Value* value);
  void add_step(Kernel kernel, const std::vector<uint32_t>& in, const std::vector<uint32_t>& out,
                size_t scratch, const Node* node);
  bool plan_node(size_t n);
  void finish(size_t n);
  void lay_out();

  Program& program_;
  const Graph& graph_;
  std::shared_ptr<Plan> plan_;
  std::vector<Known> known_;
  std::vector<size_t> uses_;                                         // That are still to come, of each value.
  std::unordered_map<uint32_t, std::vector<const Value*>> tenants_;  // Values that share a root storage.
  size_t begin_ = 0;
};

class PrepareNode final : public Prepare {
 public:
  struct Output {
    Desc desc;
    bool declared = false;
    int alias = -1;
    std::vector<int> in_place;
    size_t offset = 0;
    TensorPtr content;
  };

  PrepareNode(Planner* planner, const Node& of, const Operator& op)
      : Prepare(of), planner_(*planner), outs_(of.outputs.size()) {
    descs_.resize(of.inputs.size());
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      if (of.inputs[i] != nullptr) {
        descs_[i] = planner->known(of.inputs[i]).desc;
        if (!op.any_layout) {
          descs_[i].layout = Layout::kPlain;
        }
      }
    }
  }

  const Desc& in(int i) const override {
    expect(i >= 0 && i < inputs() && has(i), "an input that the operator needs is left out");
    return descs_[static_cast<size_t>(i)];
  }
  const Desc& require(int i, Layout layout) override {
    in(i);
    descs_[static_cast<size_t>(i)].layout = layout;
    return descs_[static_cast<size_t>(i)];
  }
  const void* content(int i) const override {
    in(i);
    const TensorPtr& tensor = planner_.known(node.inputs[static_cast<size_t>(i)]).content;
    return tensor == nullptr ? nullptr : tensor->data;
  }
  TensorPtr constant(int i) const override {
    in(i);
    return node.inputs[static_cast<size_t>(i)]->constant;
  }
  Desc& out(int o, DType type, const Dims& dims, Layout layout) override {
    expect(o >= 0 && o < outputs(), "an output that the operator always has is missing in the model");
    Output& output = outs_[static_cast<size_t>(o)];
    output.desc = {type, dims, layout};
    output.declared = true;
    ephost::count(dims);  // Throws for what cannot be.
    return output.desc;
  }
  void alias(int o, int i, size_t offset) override {
    outs_.at(static_cast<size_t>(o)).alias = i;
    outs_.at(static_cast<size_t>(o)).offset = offset;
  }
  void in_place(int o, int i) override { outs_.at(static_cast<size_t>(o)).in_place.push_back(i); }
  void give(int o, TensorPtr content) override {
    out(o, content->type, content->dims, Layout::kPlain);
    outs_[static_cast<size_t>(o)].content = std::move(content);
  }
  void scratch(size_t bytes) override { scratch_ = bytes; }
  void method(const char* name) override { method_ = name; }
  int threads() const override {
    const int most = planner_.program_.options_.threads;
    return most > 0 ? most : default_threads();
  }

  const std::vector<Desc>& descs() const { return descs_; }
  std::vector<Output>& outs() { return outs_; }
  size_t scratch_bytes() const { return scratch_; }
  const char* method_name() const { return method_; }

 private:
  Planner& planner_;
  std::vector<Desc> descs_;
  std::vector<Output> outs_;
  size_t scratch_ = 0;
  const char* method_ = nullptr;
};

// Runs an operator whose shapes depend on content, with inputs that are all known.
class RunNode final : public Run {
 public:
  struct Input {
    Desc desc;
    const void* data = nullptr;
  };
  RunNode(Program* program, const Node& of, std::vector<Input> inputs, std::vector<Input> outer)
      : Run(of),
        program_(*program),
        inputs_(std::move(inputs)),
        outer_(std::move(outer)),
        results(of.outputs.size()) {}

  const Desc& in(int i) const override { return checked(i).desc; }
  const void* data(int i) const override { return checked(i).data; }
  void* out(int o, DType type, const Dims& dims) override {
    TensorPtr& result = results.at(static_cast<size_t>(o));
    result = make_tensor(type, dims);
    return mutable_data(result);
  }
  void give(int o, TensorPtr content) override { results.at(static_cast<size_t>(o)) = std::move(content); }
  const Desc& outer(size_t i) const override { return outer_.at(i).desc; }
  const void* outer_data(size_t i) const override { return outer_.at(i).data; }
  Program& subgraph(const char* attribute) const override {
    const Graph* graph = node.subgraph(attribute);
    if (graph == nullptr) {
      invalid(std::string("the subgraph '") + attribute + "' is missing");
    }
    return program_.subgraph(graph);
  }

 private:
  const Input& checked(int i) const {
    if (i < 0 || static_cast<size_t>(i) >= inputs_.size() || !has(i)) {
      invalid("an input that the operator needs is left out");
    }
    return inputs_[static_cast<size_t>(i)];
  }
  Program& program_;
  std::vector<Input> inputs_, outer_;

 public:
  std::vector<TensorPtr> results;
};

uint32_t Planner::storage_of(const Value* value, Layout layout) {
  Known& known = known_[value->index];
  for (const auto& [have, storage] : known.storages) {
    if (have == layout) {
      return storage;
    }
  }
  if (known.storages.empty()) {
    if (known.content == nullptr) {
      invalid("'" + value->name + "' is read before it is computed");
    }
    Storage storage;
    storage.place = Storage::kConstant;
    storage.tensor = known.content;
    storage.bytes = known.content->bytes();
    known.storages.emplace_back(Layout::kPlain, add(storage));
    if (layout == Layout::kPlain) {
      return known.storages[0].second;
    }
  }
  Desc from = known.desc;
  from.layout = known.storages[0].first;
  Desc to = known.desc;
  to.layout = layout;
  if (known.desc.dims.size() < 2) {
    fail("'" + value->name + "' with " + std::to_string(known.desc.dims.size()) +
         " dimensions has one layout only");
  }
  Kernel kernel;
  if (from.layout != Layout::kPlain && layout != Layout::kPlain && block_of(from.layout) != 1 &&
      block_of(layout) != 1) {
    storage_of(value, Layout::kPlain);  // By way of the plain form, which others may want too.
    from.layout = Layout::kPlain;
  }
  kernel = make_reorder(from, layout);
  uint32_t source = 0;
  for (const auto& [have, storage] : known_[value->index].storages) {
    if (have == from.layout) {
      source = storage;
    }
  }
  Storage storage;
  storage.place = Storage::kArena;
  storage.bytes = to.bytes();
  const uint32_t made = add(storage);
  tenants_[made].push_back(value);
  known_[value->index].storages.emplace_back(layout, made);
  add_step(std::move(kernel), {source}, {made}, 0, nullptr);
  return made;
}

bool Planner::dies(const Node& node, const Value* value) {
  const Known& known = known_[value->index];
  if (known.storages.empty() || known.content != nullptr) {
    return false;
  }
  const uint32_t base = root(known.storages[0].second);
  if (plan_->storages[base].place != Storage::kArena || plan_->storages[base].depth != plan_->depth) {
    return false;
  }
  for (const Value* tenant : tenants_[base]) {
    size_t mine = 0;
    for_inputs(node, [&](const Value* input) { mine += input == tenant; });
    if (uses_[tenant->index] > mine) {
      return false;
    }
  }
  return true;
}

void Planner::add_step(Kernel kernel, const std::vector<uint32_t>& in, const std::vector<uint32_t>& out,
                       size_t scratch, const Node* node) {
  const uint32_t index = static_cast<uint32_t>(plan_->steps.size());
  Step step;
  step.kernel = std::move(kernel);
  step.node = node;
  step.in = static_cast<uint32_t>(plan_->args.size());
  plan_->args.insert(plan_->args.end(), in.begin(), in.end());
  step.out = static_cast<uint32_t>(plan_->args.size());
  plan_->args.insert(plan_->args.end(), out.begin(), out.end());
  step.scratch = static_cast<uint32_t>(plan_->args.size());
  uint32_t memory = 0;
  if (scratch > 0) {
    Storage storage;
    storage.place = Storage::kArena;
    storage.bytes = scratch;
    storage.first = storage.last = index;
    memory = add(storage);
  }
  plan_->args.push_back(memory);
  for (uint32_t storage : in) {
    touch(storage, index);
  }
  for (uint32_t storage : out) {
    Storage& at = plan_->storages[root(storage)];
    if (root(storage) == storage && at.first == 0 && at.last == 0) {
      at.first = index;
    }
    at.last = std::max(at.last, index);
  }
  plan_->steps.push_back(std::move(step));
}

// False where the plan ends: at a barrier in front of node n, or after it if n has to be run itself.
bool Planner::plan_node(size_t n) {
  const Node& node = *graph_.nodes[n];
  const Operator& op = *program_.operators_[n];
  if (const Signature* signature = program_.signatures_[n]) {
    std::vector<DType> types;
    for (const Value* value : node.inputs) {
      types.push_back(value == nullptr ? DType::kUndefined : known_[value->index].desc.type);
    }
    const std::string wrong = why_not_inputs(*signature, node, types);
    if (!wrong.empty()) {
      invalid(node.label() + ": " + wrong);
    }
  }
  const auto is_known = [&](const Value* value) {
    return value == nullptr || known_[value->index].content != nullptr;
  };
  const bool all_known = std::all_of(node.inputs.begin(), node.inputs.end(), is_known) &&
                         std::all_of(node.implicit.begin(), node.implicit.end(), is_known) && op.pure;
  const auto run_itself = [&] {
    plan_->ends = false;
    plan_->next_node = n;
    for_inputs(node, [&](const Value* value) { storage_of(value, Layout::kPlain); });
    return false;
  };
  if (op.prepare == nullptr) {
    if (!all_known || !node.subgraphs.empty()) {
      return run_itself();
    }
    std::vector<RunNode::Input> inputs;
    for (const Value* value : node.inputs) {
      inputs.push_back(value == nullptr
                           ? RunNode::Input{}
                           : RunNode::Input{known_[value->index].desc, known_[value->index].content->data});
    }
    RunNode run(&program_, node, std::move(inputs), {});
    op.run(run);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] != nullptr) {
        Known& known = known_[node.outputs[o]->index];
        if (run.results[o] == nullptr) {
          fail(node.label() + " did not give its output " + std::to_string(o));
        }
        known.content = run.results[o];
        known.desc = {known.content->type, known.content->dims, Layout::kPlain};
        known.storages.clear();
      }
    }
    return true;
  }

  PrepareNode prepare(this, node, op);
  Kernel kernel;
  try {
    kernel = op.prepare(prepare);
    let_go_of_packed(node);
  } catch (const NeedsContent& needs) {
    if (op.run != nullptr) {
      return run_itself();
    }
    const Value* value = node.inputs[static_cast<size_t>(needs.input)];
    plan_->ends = false;
    plan_->next_node = n;
    plan_->needed = value;
    const uint32_t storage = storage_of(value, Layout::kPlain);
    plan_->storages[root(storage)].last = kForever;
    return false;
  }

  auto& outs = prepare.outs();
  bool given = true;
  size_t total = 0;
  for (size_t o = 0; o < outs.size(); ++o) {
    if (node.outputs[o] == nullptr) {
      continue;
    }
    if (!outs[o].declared) {
      fail(node.label() + " did not say what its output " + std::to_string(o) + " is");
    }
    given = given && outs[o].content != nullptr;
    total += outs[o].desc.bytes();
  }
  if (given) {
    for (size_t o = 0; o < outs.size(); ++o) {
      if (node.outputs[o] != nullptr) {
        known_[node.outputs[o]->index] = {outs[o].desc, outs[o].content, {}};
      }
    }
    return true;
  }
  // What is computed from shapes alone is computed now, unless it is large.
  bool plain = true;
  for (const PrepareNode::Output& output : outs) {
    plain = plain && output.desc.layout == Layout::kPlain;
  }
  if (all_known && plain && total <= kMaxPlannedBytes) {
    std::vector<void*> in, out;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != nullptr && prepare.descs()[i].layout != Layout::kPlain) {
        plain = false;
      }
      in.push_back(node.inputs[i] == nullptr
                       ? nullptr
                       : const_cast<void*>(known_[node.inputs[i]->index].content->data));
    }
    if (plain) {
      std::vector<TensorPtr> results(outs.size());
      for (size_t o = 0; o < outs.size(); ++o) {
        if (node.outputs[o] != nullptr && outs[o].alias >= 0) {
          const TensorPtr& from = known_[node.inputs[static_cast<size_t>(outs[o].alias)]->index].content;
          results[o] = make_tensor(outs[o].desc.type, outs[o].desc.dims);
          if (results[o]->bytes() > 0) {
            std::memcpy(mutable_data(results[o]), from->as<char>() + outs[o].offset, results[o]->bytes());
          }
        } else if (node.outputs[o] != nullptr) {
          results[o] = make_tensor(outs[o].desc.type, outs[o].desc.dims);
        }
        out.push_back(results[o] == nullptr ? nullptr : mutable_data(results[o]));
      }
      if (kernel != nullptr) {
        const std::shared_ptr<void> scratch = allocate(prepare.scratch_bytes());
        kernel(Args(in.data(), out.data(), scratch.get()));
      }
      for (size_t o = 0; o < outs.size(); ++o) {
        if (node.outputs[o] != nullptr) {
          known_[node.outputs[o]->index] = {outs[o].desc, results[o], {}};
        }
      }
      return true;
    }
  }

  std::vector<uint32_t> in, out;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    in.push_back(node.inputs[i] == nullptr ? 0 : storage_of(node.inputs[i], prepare.descs()[i].layout));
  }
  for (size_t o = 0; o < outs.size(); ++o) {
    const Value* value = node.outputs[o];
    if (value == nullptr) {
      out.push_back(0);
      continue;
    }
    Known& known = known_[value->index];
    known.desc = outs[o].desc;
    known.content = outs[o].content;
    known.storages.clear();
    Storage storage;
    storage.bytes = outs[o].desc.bytes();
    int inside = outs[o].alias;
    if (known.content != nullptr) {
      storage.place = Storage::kConstant;
      storage.tensor = known.content;
    }
    for (size_t k = 0; known.content == nullptr && inside < 0 && k < outs[o].in_place.size(); ++k) {
      const size_t i = static_cast<size_t>(outs[o].in_place[k]);
      const Value* input = node.inputs.at(i);
      // Nor may another input be a part of the same memory.
      const auto same = [&](uint32_t storage) { return root(storage) == root(in[i]); };
      if (input != nullptr && std::count_if(in.begin(), in.end(), same) == 1 && dies(node, input) &&
          prepare.descs()[i].bytes() == storage.bytes &&
          prepare.descs()[i].layout == known_[input->index].storages[0].first) {
        inside = static_cast<int>(i);
      }
    }
    if (known.content == nullptr) {
      if (inside >= 0) {
        storage.place = Storage::kInside;
        storage.index = in.at(static_cast<size_t>(inside));
        storage.offset = outs[o].alias >= 0 ? outs[o].offset : 0;
        if (outs[o].alias >= 0 && storage.offset + storage.bytes > plan_->storages[storage.index].bytes) {
          fail(node.label() + " renames more memory than its input has");
        }
      } else {
        storage.place = Storage::kArena;
      }
    }
    const uint32_t made = add(storage);
    known.storages = {{known.desc.layout, made}};
    tenants_[root(made)].push_back(value);
    out.push_back(made);
  }
  if (kernel != nullptr) {
    add_step(std::move(kernel), in, out, prepare.scratch_bytes(), &node);
    plan_->steps.back().method = prepare.method_name();
  } else {
    for (size_t o = 0; o < outs.size(); ++o) {
      if (node.outputs[o] != nullptr && outs[o].alias < 0 && outs[o].content == nullptr) {
        fail(node.label() + " has neither a kernel nor an alias for its output " + std::to_string(o));
      }
    }
  }
  return true;
}

std::shared_ptr<Plan> Planner::build() {
  for (const auto& value : graph_.values) {
    for (const auto& [layout, storage] : known_[value->index].storages) {
      tenants_[root(storage)].push_back(value.get());
    }
  }
  size_t n = begin_;
  for (; n < graph_.nodes.size(); ++n) {
    try {
      if (!plan_node(n)) {
        break;
      }
    } catch (const Error& error) {
      // Most messages name the node already: those of kernels that fail in the depths do not.
      const std::string label = graph_.nodes[n]->label();
      if (std::string(error.what()).find(label) != std::string::npos) {
        throw;
      }
      throw Error(error.code(), label + ": " + error.what());
    }
    for_inputs(*graph_.nodes[n], [&](const Value* value) { --uses_[value->index]; });
  }
  finish(n);
  lay_out();
  return plan_;
}

// Binds the outputs that are there, and keeps alive what the rest of the chain needs.
void Planner::finish(size_t n) {
  for (size_t o = 0; o < graph_.outputs.size(); ++o) {
    const Value* value = graph_.outputs[o];
    Known& known = known_[value->index];
    const bool here = known.content != nullptr || !known.storages.empty();
    bool bound = false;
    for (const Storage& storage : plan_->storages) {
      bound = bound || (storage.place == Storage::kOutput && storage.index == o);
    }
    if (!here || bound) {
      if (!here && plan_->ends) {
        fail("the output '" + value->name + "' is not computed");
      }
      continue;
    }
    const uint32_t plain = storage_of(value, Layout::kPlain), base = root(plain);
    Desc desc = known_[value->index].desc;
    desc.layout = Layout::kPlain;
    plan_->outputs.emplace_back(static_cast<uint32_t>(o), desc);
    Storage& at = plan_->storages[base];
    if (at.place == Storage::kArena && at.depth == plan_->depth && at.bytes == desc.bytes() &&
        (base == plain || plan_->storages[plain].offset == 0)) {
      at.place = Storage::kOutput;
      at.index = static_cast<uint32_t>(o);
      continue;
    }
    Storage storage;
    storage.place = Storage::kOutput;
    storage.index = static_cast<uint32_t>(o);
    storage.bytes = desc.bytes();
    const size_t bytes = storage.bytes;
    const uint32_t to = add(storage);
    add_step(
        [bytes](const Args& args) {
          if (bytes > 0) {
            std::memcpy(args.out<void>(), args.in<void>(0), bytes);
          }
        },
        {plain}, {to}, 0, nullptr);
  }
  if (!plan_->ends) {
    for (const auto& value : graph_.values) {
      if (uses_[value->index] > 0) {
        for (const auto& [layout, storage] : known_[value->index].storages) {
          plan_->storages[root(storage)].last = kForever;
        }
      }
    }
    (void)n;
    plan_->known = known_;
  }
}

// Offsets for what lives in the arena: the largest first, each at the lowest place that is free while it
// lives.
void Planner::lay_out() {
  std::vector<uint32_t> order;
  for (size_t s = plan_->first_storage; s < plan_->storages.size(); ++s) {
    if (plan_->storages[s].place == Storage::kArena) {
      order.push_back(static_cast<uint32_t>(s));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return plan_->storages[a].bytes > plan_->storages[b].bytes;
  });
  std::vector<uint32_t> placed;  // By offset.
  for (uint32_t s : order) {
    Storage& mine = plan_->storages[s];
    const size_t need = aligned(mine.bytes);
    size_t offset = 0;
    for (uint32_t p : placed) {
      const Storage& other = plan_->storages[p];
      if (other.first > mine.last || other.last < mine.first) {
        continue;
      }
      if (offset + need <= other.offset) {
        break;
      }
      offset = std::max(offset, other.offset + aligned(other.bytes));
    }
    mine.offset = offset;
    plan_->arena = std::max(plan_->arena, offset + need);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), s,
                                   [&](uint32_t a, uint32_t b) {
                                     return plan_->storages[a].offset < plan_->storages[b].offset;
                                   }),
                  s);
  }
  for (size_t i = plan_->first_storage; i < plan_->storages.size(); ++i) {
    const uint32_t s = static_cast<uint32_t>(i), index = plan_->storages[i].index;
    switch (plan_->storages[i].place) {
      case Storage::kInput:
        plan_->from_inputs.emplace_back(s, index);
        break;
      case Storage::kOutput:
        plan_->from_outputs.emplace_back(s, index);
        break;
      case Storage::kRun:
        plan_->from_results.emplace_back(s, index);
        break;
      case Storage::kNothing:
        break;
      default:
        if (!plan_->ends) plan_->kept.push_back(s);
    }
  }
  for (size_t i = 0; i < plan_->args.size(); ++i) {
    if (!plan_->fixed(plan_->args[i])) {
      plan_->patches.push_back(static_cast<uint32_t>(i));
    }
  }
}

// ---- Program

Program::Program(std::shared_ptr<Graph> graph, const Options& options, Folding folding)
    : graph_(std::move(graph)), options_(options) {
  for (Node* node : graph_->nodes) {
    node->origin = nullptr;
  }
  if (folding == kFold) {
    expand_contrib(graph_.get());
    fold_constants(graph_.get(), options_.fuse ? Fold::kBeforeFusion : Fold::kAll);
    if (options_.fuse) {
      fuse(graph_.get());
      fold_constants(graph_.get(), Fold::kAll);
    }
    graph_->remove_unused();
    graph_->sort();
  }
  for (const Node* node : graph_->nodes) {
    std::string why;
    const Operator* op = Registry::get().find(*node, &why);
    if (op == nullptr) {
      throw Error(ORT_NOT_IMPLEMENTED, node->label() + ": " + why);
    }
    operators_.push_back(op);
    signatures_.push_back(signature_of(*node));
  }
}

Program::~Program() = default;

Program& Program::subgraph(const Graph* graph) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = subgraphs_.find(graph);
  if (found == subgraphs_.end()) {
    fail("a subgraph was not loaded");
  }
  return *found->second;
}

void Program::load() {
  for (const Node* node : graph_->nodes) {
    for (const auto& [name, subgraph] : node->subgraphs) {
      auto child = std::make_unique<Program>(subgraph, options_);
      child->load();
      subgraphs_.emplace(subgraph.get(), std::move(child));
    }
  }
  own_constants();
  // Where the model says all input shapes the plan is made now, so that the first run does not wait for it.
  struct Shapes final : Io {
    const Desc& input(size_t i) override { return descs[i]; }
    void* input_data(size_t) override { return nullptr; }
    void* output(size_t, DType, const Dims&) override { return nullptr; }
    std::vector<Desc> descs;
  } shapes;
  bool known = true;
  for (size_t i = 0; i < num_inputs(); ++i) {
    const Value* value = input(i);
    const bool open =
        std::any_of(value->dims.begin(), value->dims.end(), [](int64_t dim) { return dim < 0; });
    known = known && value->type != DType::kUndefined && value->has_shape && !open && !value->is_outer;
    shapes.descs.push_back({value->type, value->dims, Layout::kPlain});
  }
  const ThreadScope threads(options_.threads, options_.spin);
  if (known) {
    root_for(shapes);
  }
  free_packed();
}

void Program::own_constants() {
  std::unordered_map<const Tensor*, bool> packed;
  for (const auto& value : graph_->values) {
    if (value->constant != nullptr && (value->is_output || value->is_outer)) {
      packed[value->constant.get()] = false;
    }
  }
  for (size_t n = 0; n < graph_->nodes.size(); ++n) {
    const Node& node = *graph_->nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != nullptr && node.inputs[i]->constant != nullptr) {
        const bool packs = operators_[n]->packs != nullptr && operators_[n]->packs(node, i);
        bool& all = packed.emplace(node.inputs[i]->constant.get(), true).first->second;
        all = all && packs;
      }
    }
    for (const Value* value : node.implicit) {
      if (value->constant != nullptr) packed[value->constant.get()] = false;
    }
  }
  for (const auto& value : graph_->values) {
    if (value->constant == nullptr || (value->consumers.empty() && !value->is_output)) {
      continue;
    }
    if (packed[value->constant.get()]) {
      packable_.push_back(value->constant);
    } else {
      value->constant->own();
    }
  }
}

void Program::free_packed() {
  std::unordered_set<const Tensor*> packable;
  for (const TensorPtr& tensor : packable_) {
    packable.insert(tensor.get());
  }
  for (size_t n = 0; n < graph_->nodes.size(); ++n) {
    const Node& node = *graph_->nodes[n];
    const auto packs = [&](const Value* value) {
      return value != nullptr && packable.count(value->constant.get()) != 0;
    };
    if (operators_[n]->pack != nullptr && std::any_of(node.inputs.begin(), node.inputs.end(), packs)) {
      operators_[n]->pack(node);
      let_go_of_packed(node);
    }
  }
  for (const TensorPtr& tensor : packable_) {
    if (tensor->packed.empty()) {
      tensor->own();  // Nobody could.
    } else {
      tensor->data = nullptr;
      tensor->owner.reset();
      tensor->file.reset();
    }
  }
  packable_.clear();
}

std::shared_ptr<Plan> Program::root_for(Io& io) {
  const size_t n = num_inputs();
  const auto head = [](const Desc& desc) {
    return static_cast<int64_t>(desc.type) << 8 | static_cast<int64_t>(desc.rank());
  };
  // A key is made for a new plan only: most runs have the shapes of the run before them.
  const auto matches = [&](const std::vector<int64_t>& key) {
    size_t at = 0;
    for (size_t i = 0; i < n; ++i) {
      const Desc& desc = io.input(i);
      if (key[at++] != head(desc) || !std::equal(desc.dims.begin(), desc.dims.end(), key.data() + at)) {
        return false;
      }
      at += desc.dims.size();
    }
    return true;
  };
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = roots_.size(); i-- > 0;) {
    if (matches(roots_[i].first)) {
      if (i + 1 < roots_.size()) {
        const auto found = roots_.begin() + static_cast<ptrdiff_t>(i);
        std::rotate(found, found + 1, roots_.end());
      }
      return roots_.back().second;
    }
  }
  std::vector<int64_t> key;
  for (size_t i = 0; i < n; ++i) {
    const Desc& desc = io.input(i);
    key.push_back(head(desc));
    key.insert(key.end(), desc.dims.begin(), desc.dims.end());
  }
  std::vector<Desc> inputs;
  for (size_t i = 0; i < n; ++i) {
    inputs.push_back(io.input(i));
  }
  Planner planner(this, nullptr, Planner::start(this, inputs), 0);
  planner.bind_inputs();
  std::shared_ptr<Plan> plan = planner.build();
  if (roots_.size() >= options_.max_plans) {
    roots_.erase(roots_.begin());
  }
  roots_.emplace_back(std::move(key), plan);
  return plan;
}

void Program::run(Io& io) {
  const ThreadScope threads(options_.threads, options_.spin);
  Recorder* recorder =
      options_.recorder != nullptr && options_.recorder->active() ? options_.recorder.get() : nullptr;
  struct Held {
    Held(std::shared_ptr<Plan> of) : plan(std::move(of)), frame(plan->take()) {}
    Held(Held&&) = default;
    ~Held() {
      if (frame != nullptr) plan->give(std::move(frame));
    }
    std::shared_ptr<Plan> plan;
    std::unique_ptr<Frame> frame;
  };
  std::shared_ptr<Plan> plan = root_for(io);
  std::vector<Held> held;
  std::vector<TensorPtr> results, kept;  // Of the node that the last plan stopped at; of all of them.

  for (;;) {
    held.emplace_back(plan);
    Frame& frame = *held.back().frame;
    char* memory = static_cast<char*>(frame.arena.get());

    // For each storage of the chain, where it is; needed for those that are not fixed.
    std::vector<void*>& table = held.front().frame->table;
    table.resize(std::max(table.size(), plan->storages.size()), nullptr);
    for (const auto& [storage, i] : plan->from_inputs) {
      table[storage] = io.input_data(i);
    }
    for (const auto& [o, desc] : plan->outputs) {
      void* const data = io.output(o, desc.type, desc.dims);
      for (const auto& [storage, index] : plan->from_outputs) {
        if (index == o) table[storage] = data;
      }
    }
    for (const auto& [storage, i] : plan->from_results) {
      table[storage] = mutable_data(results[i]);
    }
    for (uint32_t storage : plan->kept) {
      table[storage] = plan->resolve(storage, memory, table.data());
    }
    for (uint32_t position : plan->patches) {
      frame.args[position] = plan->resolve(plan->args[position], memory, table.data());
    }
    void* const* args = frame.args.data();
    for (const Step& step : plan->steps) {
      const Recorder::Timer timer(recorder, step.node, step.method);
      step.kernel(Args(args + step.in, args + step.out, args[step.scratch]));
    }
    if (plan->ends) {
      return;
    }

    const auto where = [&](const Value* value) -> RunNode::Input {
      const Known& known = plan->known[value->index];
      Desc desc = known.desc;
      desc.layout = Layout::kPlain;
      if (known.content != nullptr) {
        return {desc, known.content->data};
      }
      for (const auto& [layout, storage] : known.storages) {
        if (layout == Layout::kPlain) {
          return {desc, plan->resolve(storage, memory, table.data())};
        }
      }
      fail("'" + value->name + "' is not there in plain layout");
    };
    const Node& node = *graph_->nodes[plan->next_node];
    std::string key;
    std::vector<Desc> shapes;
    if (plan->needed != nullptr) {
      const RunNode::Input value = where(plan->needed);
      key.assign(static_cast<const char*>(value.data), value.desc.bytes());
    } else {
      std::vector<RunNode::Input> inputs, outer;
      for (const Value* value : node.inputs) {
        inputs.push_back(value == nullptr ? RunNode::Input{} : where(value));
      }
      for (const Value* value : node.implicit) {
        outer.push_back(where(value));
      }
      RunNode run(this, node, std::move(inputs), std::move(outer));
      {
        const Recorder::Timer timer(recorder, &node, nullptr);
        operators_[plan->next_node]->run(run);
      }
      results = std::move(run.results);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        Desc desc;
        if (node.outputs[o] != nullptr) {
          if (results[o] == nullptr) {
            fail(node.label() + " did not give its output " + std::to_string(o));
          }
          desc = {results[o]->type, results[o]->dims, Layout::kPlain};
          kept.push_back(results[o]);
        }
        const int64_t head = static_cast<int64_t>(desc.type) << 8 | static_cast<int64_t>(desc.rank());
        key.append(reinterpret_cast<const char*>(&head), sizeof head);
        key.append(reinterpret_cast<const char*>(desc.dims.data()), desc.dims.size() * sizeof(int64_t));
        shapes.push_back(std::move(desc));
      }
    }
    std::shared_ptr<Plan> next;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [have, child] : plan->children) {
        if (have == key) next = child;
      }
      if (next == nullptr) {
        std::vector<Known> known = plan->known;
        size_t begin = plan->next_node;
        if (plan->needed != nullptr) {
          Known& value = known[plan->needed->index];
          value.content = make_tensor(value.desc.type, value.desc.dims);
          std::memcpy(mutable_data(value.content), key.data(), key.size());
        } else {
          ++begin;
        }
        Planner planner(this, plan.get(), std::move(known), begin);
        if (plan->needed == nullptr) {
          planner.bind_results(node, shapes);
        }
        next = planner.build();
        if (plan->children.size() >= options_.max_plans) {
          plan->children.erase(plan->children.begin());
        }
        plan->children.emplace_back(std::move(key), next);
      }
    }
    plan = std::move(next);
  }
}

// Whether `fuse` will have a product read the matrix as it is.
static bool is_left_to_product(const Node& node) {
  const Value *matrix = node.in(0), *turned = node.out();
  if (!node.is("Transpose") || !node.has("perm") || matrix == nullptr || turned == nullptr ||
      turned->is_output || turned->consumers.size() != 1) {
    return false;
  }
  const Tensor& content = *matrix->constant;
  const Node& reader = *turned->consumers[0];
  return content.type == DType::kFloat && content.dims.size() == 2 && content.bytes() >= kWorthLeaving &&
         reader.is("MatMul") && reader.in(1) == turned && reader.out() != nullptr &&
         reader.out()->type == DType::kFloat;
}

void fold_constants(Graph* graph, Fold what) {
  for (Node* node : graph->nodes) {
    const Operator* op = Registry::get().find(*node);
    const auto constant = [](const Value* value) { return value == nullptr || value->constant != nullptr; };
    if (op == nullptr || !op->pure || !op->foldable || !node->subgraphs.empty() ||
        !std::all_of(node->inputs.begin(), node->inputs.end(), constant) ||
        (what == Fold::kBeforeFusion && is_left_to_product(*node))) {
      continue;
    }
    // A program of this one node, with no inputs: its plan computes everything while it is made, or its run
    // does.
    auto single = std::make_unique<Graph>();
    std::vector<Value*> in, out;
    size_t bytes = 0;
    for (const Value* value : node->inputs) {
      in.push_back(value == nullptr ? nullptr : single->add_constant(value->constant, value->name));
      bytes += value == nullptr ? 0 : value->constant->bytes();
    }
    for (const Value* value : node->outputs) {
      out.push_back(value == nullptr ? nullptr : single->add_value(value->name));
    }
    for (Value* value : out) {
      if (value != nullptr) {
        value->is_output = true;
        single->outputs.push_back(value);
      }
    }
    Node* copy = single->add_node(node->domain, node->type, in, out, node->name);
    copy->version = node->version;
    copy->attributes = node->attributes;
    copy->body = node->body;
    struct Sink final : Io {
      const Desc& input(size_t) override { fail("a constant has no inputs"); }
      void* input_data(size_t) override { fail("a constant has no inputs"); }
      void* output(size_t i, DType type, const Dims& dims) override {
        if (static_cast<size_t>(count(dims)) * size_of(type) > limit) {
          throw TooLarge{};
        }
        results.resize(std::max(results.size(), i + 1));
        results[i] = make_tensor(type, dims);
        return mutable_data(results[i]);
      }
      struct TooLarge {};
      size_t limit = 0;
      std::vector<TensorPtr> results;
    } sink;
    sink.limit = std::max(bytes, kMaxFoldedBytes);
    try {
      Options plainly;
      plainly.fuse = false;
      Program program(std::move(single), plainly, Program::kNoFolding);
      program.run(sink);
    } catch (const Sink::TooLarge&) {
      continue;
    } catch (const Error&) {
      continue;  // It will fail in the run as well, and be reported there.
    }
    size_t next = 0;
    for (Value* value : node->outputs) {
      if (value != nullptr) {
        value->constant = sink.results[next++];
        value->type = value->constant->type;
        value->has_shape = true;
        value->dims = value->constant->dims;
        value->producer = nullptr;
      }
    }
    std::fill(node->outputs.begin(), node->outputs.end(), nullptr);
    graph->remove(node);
  }
  graph->nodes.erase(
      std::remove_if(graph->nodes.begin(), graph->nodes.end(), [](const Node* n) { return n->removed; }),
      graph->nodes.end());
  // Subgraphs see the constants of the graphs around them.
  for (Node* node : graph->nodes) {
    for (auto& [name, subgraph] : node->subgraphs) {
      for (Value* value : subgraph->outer) {
        if (value->outer != nullptr) value->constant = value->outer->constant;
      }
    }
  }
}

}  // namespace ephost::cpu
