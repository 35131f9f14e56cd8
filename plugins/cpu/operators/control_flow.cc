// If, Loop and Scan: their subgraphs are compiled ones, run from here with the outer values that they read.
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "cpu/runtime/stop.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

// A tensor on its way into a subgraph.
struct Item {
  Desc desc;
  const void* data = nullptr;
};

// The inputs of a subgraph, those of its own first; where its outputs go is the deriving class's matter.
class BodyIo : public Io {
 public:
  BodyIo(const Run& run, const Subgraph& body) : inputs_(body.num_inputs()) {
    const Graph& graph = body.graph();
    const std::vector<Value*>& implicit = run.node.implicit;
    std::unordered_map<const Value*, size_t> places;  // Made where the two lists are in another order.
    size_t next = 0;
    for (size_t i = 0; i < graph.outer.size(); ++i) {
      const Value* value = graph.outer[i];
      if (value->constant != nullptr) {
        continue;
      }
      if (next >= implicit.size() || implicit[next] != value->outer) {
        if (places.empty()) {
          for (size_t k = 0; k < implicit.size(); ++k) {
            places.emplace(implicit[k], k);
          }
        }
        const auto found = places.find(value->outer);
        if (value->outer == nullptr || found == places.end()) {
          run.invalid("its subgraph reads '" + value->name + "', which is not there");
        }
        next = found->second;
      }
      inputs_[graph.inputs.size() + i] = {run.outer(next), run.outer_data(next)};
      ++next;
    }
  }
  const Desc& input(size_t i) override { return inputs_[i].desc; }
  void* input_data(size_t i) override { return const_cast<void*>(inputs_[i].data); }
  void set(size_t i, Item item) { inputs_[i] = std::move(item); }
  void set(size_t i, const Tensor& tensor) {
    inputs_[i].desc.type = tensor.type;
    inputs_[i].desc.dims = tensor.dims;  // Into memory that is there already: each iteration comes here.
    inputs_[i].data = tensor.data;
  }

 private:
  std::vector<Item> inputs_;
};

// ---- If

class BranchIo final : public BodyIo {
 public:
  BranchIo(Run* run, const Subgraph& body) : BodyIo(*run, body), run_(*run) {}
  void* output(size_t i, DType type, const Dims& dims) override {
    if (run_.wants(static_cast<int>(i))) {
      return run_.out(static_cast<int>(i), type, dims);
    }
    unwanted_.push_back(make_tensor(type, dims));
    return mutable_data(unwanted_.back());
  }

 private:
  Run& run_;
  std::vector<TensorPtr> unwanted_;
};

void run_if(Run& run) {
  if (run.in(0).count() != 1) {
    run.invalid("its condition is not one element");
  }
  Subgraph& body = run.subgraph(*run.as<bool>(0) ? "then_branch" : "else_branch");
  if (!body.graph().inputs.empty() || body.num_outputs() != run.node.outputs.size()) {
    run.invalid("a branch has inputs, or does not have its outputs");
  }
  BranchIo io(&run, body);
  body.run(io);
}

// ---- What Loop and Scan share

// One tensor after the other, each of the same type and shape, as one tensor.
struct Stack {
  DType type = DType::kUndefined;
  Dims each;
  int64_t items = 0;
  std::vector<char> bytes;

  // Room for one more, to be written before the next one is asked for.
  void* push(const Run& run, DType of, const Dims& dims) {
    if (items > 0 && (of != type || dims != each)) {
      run.invalid("an iteration gives a tensor of another shape than the one before: " + to_string(dims) +
                  " after " + to_string(each));
    }
    type = of;
    each = dims;
    const size_t size = static_cast<size_t>(count(dims)) * size_of(type), at = bytes.size();
    if (bytes.capacity() < at + size) {
      bytes.reserve(std::max(at + size, 2 * at));
    }
    bytes.resize(at + size);
    ++items;
    return bytes.data() + at;
  }
};

// The states that one iteration hands to the next, and the tensors that become parts of the outputs. The
// outputs of the body are: `skipped` ones (Loop's condition), the states, the parts.
class IterationIo final : public BodyIo {
 public:
  IterationIo(const Run& run, const Subgraph& body, size_t skipped, size_t states, size_t first_state)
      : BodyIo(run, body),
        stacks(body.num_outputs() - skipped - states),
        run_(run),
        skipped_(skipped),
        states_(states),
        first_state_(first_state) {}

  void* output(size_t i, DType type, const Dims& dims) override {
    if (i >= skipped_ + states_.size()) {
      return stacks[i - skipped_ - states_.size()].push(run_, type, dims);
    }
    TensorPtr& made = i < skipped_ ? condition : states_[i - skipped_].next;
    if (made == nullptr || made->type != type || made->dims != dims) {
      made = make_tensor(type, dims);
    }
    return mutable_data(made);
  }
  // The state for the first iteration: borrowed.
  void start(size_t state, Item item) { set(first_state_ + state, std::move(item)); }
  // What the iteration has written is what the next one reads; the memory of the one before is written next.
  void advance() {
    for (size_t s = 0; s < states_.size(); ++s) {
      std::swap(states_[s].now, states_[s].next);
      set(first_state_ + s, *states_[s].now);
    }
  }
  // Null before the first iteration.
  TensorPtr state(size_t s) const { return states_[s].now; }

  TensorPtr condition;
  std::vector<Stack> stacks;

 private:
  struct State {
    TensorPtr now, next;
  };
  const Run& run_;
  size_t skipped_;
  std::vector<State> states_;
  size_t first_state_;
};

void give_state(Run* run, int o, const IterationIo& io, size_t state, const Item& first) {
  if (!run->wants(o)) {
    return;
  }
  if (TensorPtr last = io.state(state)) {
    run->give(o, std::move(last));
  } else if (void* to = run->out(o, first.desc.type, first.desc.dims); first.desc.bytes() > 0) {
    std::memcpy(to, first.data, first.desc.bytes());
  }
}

// The shape of one part of an output where there was no iteration to say it: what the model says, with 0 for
// what it leaves open.
void describe_nothing(const Run& run, const Value* value, Stack* stack) {
  if (stack->items == 0) {
    if (value->type == DType::kUndefined) {
      run.invalid("there is no iteration, and the model does not say what '" + value->name + "' is");
    }
    stack->type = value->type;
    stack->each = value->dims;
    for (int64_t& dim : stack->each) dim = std::max<int64_t>(dim, 0);
  }
}

// A number, of the rank that the body declares: exporters write scalars and tensors of one element alike.
Desc one_element(const Subgraph& body, size_t input, DType type) {
  const Value* value = body.input(input);
  return {type, value->has_shape && value->dims.size() == 1 ? Dims{1} : Dims{}, Layout::kPlain};
}

// ---- Loop

void run_loop(Run& run) {
  Subgraph& body = run.subgraph("body");
  const size_t states = run.node.inputs.size() < 2 ? 0 : run.node.inputs.size() - 2;
  if (body.graph().inputs.size() != states + 2 || body.num_outputs() < states + 1 ||
      run.node.outputs.size() > body.num_outputs() - 1) {
    run.invalid("its body does not have its inputs and outputs");
  }
  for (int i : {0, 1}) {
    if (run.has(i) && run.in(i).count() != 1) {
      run.invalid(i == 0 ? "its number of trips is not one element" : "its condition is not one element");
    }
  }
  const bool counts = run.has(0);
  const int64_t most = counts ? run.ints(0).at(0) : 0;
  bool condition = !run.has(1) || *run.as<bool>(1);
  int64_t iteration = 0;
  IterationIo io(run, body, 1, states, 2);
  io.set(0, {one_element(body, 0, DType::kInt64), &iteration});
  io.set(1, {one_element(body, 1, DType::kBool), &condition});
  std::vector<Item> first;
  for (size_t s = 0; s < states; ++s) {
    const int i = static_cast<int>(s) + 2;
    first.push_back({run.in(i), run.data(i)});
    io.start(s, first[s]);
  }
  for (; condition && (!counts || iteration < most); ++iteration) {
    check_stop();
    body.run(io);
    io.advance();
    if (io.condition->bytes() != 1) {
      run.invalid("its body's condition is not one bool");
    }
    condition = *io.condition->as<bool>();
  }
  for (size_t s = 0; s < states && s < run.node.outputs.size(); ++s) {
    give_state(&run, static_cast<int>(s), io, s, first[s]);
  }
  for (size_t k = 0; states + k < run.node.outputs.size(); ++k) {
    const int o = static_cast<int>(states + k);
    if (run.wants(o)) {
      Stack& stack = io.stacks[k];
      describe_nothing(run, body.graph().outputs[1 + states + k], &stack);
      Dims dims = stack.each;
      dims.insert(dims.begin(), stack.items);
      void* to = run.out(o, stack.type, dims);
      if (!stack.bytes.empty()) {
        std::memcpy(to, stack.bytes.data(), stack.bytes.size());
      }
    }
  }
}

// ---- Scan

size_t checked_axis(const Run& run, int64_t axis, size_t rank) {
  axis += axis < 0 ? static_cast<int64_t>(rank) : 0;
  if (axis < 0 || static_cast<size_t>(axis) >= rank) {
    run.invalid("it has no axis " + std::to_string(axis) + " to go along");
  }
  return static_cast<size_t>(axis);
}

// The copy that takes dimension `from` of a tensor to the place `to`.
StridedCopy moved_axis(const Desc& desc, size_t from, size_t to) {
  Dims dims = desc.dims, strides = strides_of(desc.dims);
  for (Dims* list : {&dims, &strides}) {
    const int64_t entry = (*list)[from];
    list->erase(list->begin() + static_cast<ptrdiff_t>(from));
    list->insert(list->begin() + static_cast<ptrdiff_t>(to), entry);
  }
  return {size_of(desc.type), dims, strides, strides_of(dims)};
}

// One pass of the body along the sequences. Inputs have the sequence as their first dimension; part t of an
// output that goes backwards is the last but t.
void scan_once(const Run& run, Subgraph* body, IterationIo* io, const std::vector<Item>& sequences,
               const std::vector<char>& backwards, int64_t steps) {
  const size_t states = body->graph().inputs.size() - sequences.size();
  for (int64_t t = 0; t < steps; ++t) {
    check_stop();
    for (size_t k = 0; k < sequences.size(); ++k) {
      const Item& whole = sequences[k];
      Item part;
      part.desc = {whole.desc.type, Dims(whole.desc.dims.begin() + 1, whole.desc.dims.end()), Layout::kPlain};
      const int64_t at = backwards[k] ? steps - 1 - t : t;
      part.data = static_cast<const char*>(whole.data) + static_cast<size_t>(at) * part.desc.bytes();
      io->set(states + k, std::move(part));
    }
    body->run(*io);
    io->advance();
  }
  for (size_t k = 0; k < io->stacks.size(); ++k) {
    describe_nothing(run, body->graph().outputs[states + k], &io->stacks[k]);
  }
}

std::vector<char> directions(const Run& run, const char* attribute, size_t n) {
  const std::vector<int64_t> given = run.node.ints(attribute);
  std::vector<char> out(n);
  for (size_t i = 0; i < n && i < given.size(); ++i) {
    out[i] = given[i] != 0;
  }
  return out;
}

// Turns the parts of a stack around.
void reverse(Stack* stack) {
  const size_t size = stack->items == 0 ? 0 : stack->bytes.size() / static_cast<size_t>(stack->items);
  for (int64_t a = 0, b = stack->items - 1; a < b; ++a, --b) {
    char *first = stack->bytes.data() + static_cast<size_t>(a) * size,
         *last = stack->bytes.data() + static_cast<size_t>(b) * size;
    std::swap_ranges(first, first + size, last);
  }
}

void run_scan(Run& run) {
  Subgraph& body = run.subgraph("body");
  const size_t scanned = static_cast<size_t>(std::max<int64_t>(run.node.i("num_scan_inputs", 0), 0));
  const size_t total = run.node.inputs.size(), states = total - std::min(total, scanned);
  if (scanned == 0 || scanned > total || body.graph().inputs.size() != total || body.num_outputs() < states ||
      run.node.outputs.size() != body.num_outputs()) {
    run.invalid("its body does not have its inputs and outputs");
  }
  const Ints in_axes = run.node.ints("scan_input_axes", Ints(scanned, 0));
  const size_t stacked = body.num_outputs() - states;
  const Ints out_axes = run.node.ints("scan_output_axes", Ints(stacked, 0));
  if (in_axes.size() != scanned || out_axes.size() != stacked) {
    run.invalid("it does not have an axis for each input and output that it goes along");
  }
  IterationIo io(run, body, 0, states, 0);
  std::vector<Item> first, sequences;
  for (size_t s = 0; s < states; ++s) {
    first.push_back({run.in(static_cast<int>(s)), run.data(static_cast<int>(s))});
    io.start(s, first[s]);
  }
  int64_t steps = -1;
  std::vector<TensorPtr> kept;
  for (size_t k = 0; k < scanned; ++k) {
    const int i = static_cast<int>(states + k);
    Item item{run.in(i), run.data(i)};
    const size_t axis = checked_axis(run, in_axes[k], item.desc.rank());
    if (steps >= 0 && item.desc.dims[axis] != steps) {
      run.invalid("the inputs that it goes along are not equally long");
    }
    steps = item.desc.dims[axis];
    if (axis != 0) {
      const StridedCopy copy = moved_axis(item.desc, axis, 0);
      std::rotate(item.desc.dims.begin(), item.desc.dims.begin() + static_cast<ptrdiff_t>(axis),
                  item.desc.dims.begin() + static_cast<ptrdiff_t>(axis) + 1);
      kept.push_back(make_tensor(item.desc.type, item.desc.dims));
      copy(item.data, mutable_data(kept.back()));
      item.data = kept.back()->data;
    }
    sequences.push_back(std::move(item));
  }
  scan_once(run, &body, &io, sequences, directions(run, "scan_input_directions", scanned), steps);
  for (size_t s = 0; s < states; ++s) {
    give_state(&run, static_cast<int>(s), io, s, first[s]);
  }
  const std::vector<char> backwards = directions(run, "scan_output_directions", stacked);
  for (size_t k = 0; k < stacked; ++k) {
    const int o = static_cast<int>(states + k);
    if (!run.wants(o)) {
      continue;
    }
    Stack& stack = io.stacks[k];
    if (backwards[k]) {
      reverse(&stack);
    }
    Desc in{stack.type, stack.each, Layout::kPlain};
    in.dims.insert(in.dims.begin(), stack.items);
    const size_t axis = checked_axis(run, out_axes[k], in.rank());
    Dims dims = stack.each;
    dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), stack.items);
    moved_axis(in, 0, axis)(stack.bytes.data(), run.out(o, stack.type, dims));
  }
}

// Opset 8: everything has a batch in front, and each batch a length.
void run_batched_scan(Run& run) {
  Subgraph& body = run.subgraph("body");
  const size_t scanned = static_cast<size_t>(std::max<int64_t>(run.node.i("num_scan_inputs", 0), 0));
  const size_t total = run.node.inputs.size() - 1, states = total - std::min(total, scanned);
  if (scanned == 0 || scanned > total || body.graph().inputs.size() != total || body.num_outputs() < states ||
      run.node.outputs.size() != body.num_outputs()) {
    run.invalid("its body does not have its inputs and outputs");
  }
  const std::vector<char> backwards = directions(run, "directions", scanned);
  const Desc& leader = run.in(static_cast<int>(states) + 1);
  if (leader.rank() < 2) {
    run.invalid("the inputs that it goes along have no batch and length");
  }
  const int64_t batch = leader.dims[0], longest = leader.dims[1];
  Ints lengths(static_cast<size_t>(std::max<int64_t>(batch, 0)), longest);
  if (run.has(0)) {
    lengths = run.ints(0);
  }
  if (static_cast<int64_t>(lengths.size()) != batch || batch == 0) {
    run.invalid("it does not have a length for each batch");
  }
  struct Target {
    char* data = nullptr;
    size_t room = 0;  // Bytes of one batch.
  };
  std::vector<Target> to;
  to.resize(run.node.outputs.size());
  for (int64_t b = 0; b < batch; ++b) {
    IterationIo io(run, body, 0, states, 0);
    std::vector<Item> first, sequences;
    for (size_t i = 0; i < total; ++i) {
      const Desc& whole = run.in(static_cast<int>(i) + 1);
      if (whole.rank() < (i < states ? 1 : 2) || whole.dims[0] != batch ||
          (i >= states && whole.dims[1] != longest)) {
        run.invalid("its inputs have different batches or lengths");
      }
      Item item{{whole.type, Dims(whole.dims.begin() + 1, whole.dims.end()), Layout::kPlain}, nullptr};
      item.data = static_cast<const char*>(run.data(static_cast<int>(i) + 1)) +
                  static_cast<size_t>(b) * item.desc.bytes();
      if (i < states) {
        io.start(i, item);
      }
      (i < states ? first : sequences).push_back(std::move(item));
    }
    const int64_t steps = lengths[static_cast<size_t>(b)];
    if (steps < 0 || steps > longest) {
      run.invalid("a length is beyond the inputs");
    }
    // Backwards begins at the end of what this batch has.
    scan_once(run, &body, &io, sequences, backwards, steps);
    for (size_t o = 0; o < to.size(); ++o) {
      const bool state = o < states;
      Item now;
      if (const TensorPtr last = state ? io.state(o) : nullptr) {
        now.desc.type = last->type;
        now.desc.dims = last->dims;
        now.data = last->data;
      } else if (state) {
        now = first[o];
      }
      const Stack* stack = state ? nullptr : &io.stacks[o - states];
      if (!run.wants(static_cast<int>(o))) {
        continue;
      }
      if (b == 0) {
        Dims dims = state ? now.desc.dims : stack->each;
        if (!state) dims.insert(dims.begin(), longest);
        dims.insert(dims.begin(), batch);
        const DType type = state ? now.desc.type : stack->type;
        to[o].data = static_cast<char*>(run.out(static_cast<int>(o), type, dims));
        to[o].room = static_cast<size_t>(count(dims, 1, dims.size())) * size_of(type);
      }
      const size_t bytes = state ? now.desc.bytes() : stack->bytes.size();
      if (bytes > to[o].room || (state && bytes != to[o].room)) {
        run.invalid("the batches' outputs have different shapes");
      }
      char* place = to[o].data + static_cast<size_t>(b) * to[o].room;
      if (bytes > 0) {
        std::memcpy(place, state ? now.data : stack->bytes.data(), bytes);
      }
      std::memset(place + bytes, 0, to[o].room - bytes);
    }
  }
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "If", .run = run_if, .types = kAny | kText});
  registry->add({.type = "Loop", .run = run_loop, .types = kAny | kText});
  registry->add({.type = "Scan", .run = run_scan, .types = kAny | kText, .min_version = 9});
  registry->add({.type = "Scan", .run = run_batched_scan, .types = kAny | kText, .max_version = 8});
});

}  // namespace ephost::cpu
