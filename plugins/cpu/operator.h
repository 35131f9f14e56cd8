// What an operator is, for those who write kernels: a file in operators/ needs this one, and the engines it
// uses.
//
// A node goes through three stages:
//
//   supports   while the host asks what we can do: looks at the node as the model has it (element types,
//              attributes, perhaps ranks), and says in words why not, or "".
//   prepare    once for each combination of input shapes: now every shape is known, and the content of inputs
//              that are constant or were computed from shapes. Says what the outputs are, and returns a
//              kernel: a function that holds all that can be found out in advance (strides, packed weights,
//              primitives).
//   the kernel once for each run, on any thread, several at once: reads and writes memory, nothing else.
//
// An operator whose output shapes depend on what its inputs contain (NonZero) has `run` in place of
// `prepare`: it is called in each run and asks for its outputs' memory there. One that has both is prepared
// where the content that it needs is known, and run where not, so that what follows is planned once for each
// shape of its outputs instead of once for each content (Slice at a place that moves).
//
// An operator needs no code for the following, which the planner does:
//  - Constant folding and shape arithmetic: when the content of all inputs is known the kernel is run at
//  once.
//  - Memory: outputs and scratch come from one arena, laid out by lifetimes.
//  - Layout: inputs arrive as plain tensors, unless the operator says that it knows others (`any_layout`).
#ifndef EPHOST_CPU_OPERATOR_H_
#define EPHOST_CPU_OPERATOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/runtime/parallel.h"
#include "toolkit/graph.h"

namespace ephost::cpu {

// How the elements of a tensor of dimensions [N, C, spatial...] lie in memory. In the blocked forms C is cut
// into blocks, the last one filled up with zeros: [N, C / b, spatial..., b]. Kernels that write a blocked
// tensor keep the filling zero.
enum class Layout : uint8_t {
  kPlain,         // Row-major, as ONNX has it.
  kChannelsLast,  // [N, spatial..., C]
  kBlock8,
  kBlock16,
};
int64_t block_of(Layout layout);  // 8, 16, or 1.

// A tensor without its content. `dims` are those of ONNX whatever the layout.
struct Desc {
  DType type = DType::kUndefined;
  Dims dims;
  Layout layout = Layout::kPlain;

  int64_t count() const { return ephost::count(dims); }
  // Elements in memory, the filling of blocked layouts included.
  int64_t stored() const;
  size_t bytes() const { return static_cast<size_t>(stored()) * size_of(type); }
  size_t rank() const { return dims.size(); }
};

// Pointers for one call of a kernel: null for an input that the node leaves out, by an empty name or by a
// list that ends before it, and for an output that it leaves out and that `prepare` has not declared.
class Args {
 public:
  Args(void* const* inputs, size_t num_inputs, void* const* outputs, size_t num_outputs, void* scratch)
      : inputs_(inputs),
        outputs_(outputs),
        scratch_(scratch),
        num_inputs_(static_cast<uint32_t>(num_inputs)),
        num_outputs_(static_cast<uint32_t>(num_outputs)) {}
  template <typename T = void>
  const T* in(int i) const {
    return static_cast<uint32_t>(i) < num_inputs_ ? static_cast<const T*>(inputs_[i]) : nullptr;
  }
  template <typename T = void>
  T* out(int i = 0) const {
    return static_cast<uint32_t>(i) < num_outputs_ ? static_cast<T*>(outputs_[i]) : nullptr;
  }
  template <typename T = void>
  T* scratch() const {
    return static_cast<T*>(scratch_);
  }

 private:
  void* const* inputs_;
  void* const* outputs_;
  void* scratch_;
  uint32_t num_inputs_, num_outputs_;
};

// Null is allowed: for an operator that only renames memory (Prepare::alias) or gives constants.
using Kernel = std::function<void(const Args&)>;

// Thrown by Prepare::ints and the like when the content of an input is not known before the run. The planner
// then splits the plan there and calls `prepare` again during the run, with the content.
struct NeedsContent {
  int input;
};

// One call of `prepare`.
class Prepare {
 public:
  virtual ~Prepare() = default;
  explicit Prepare(const Node& of) : node(of) {}

  const Node& node;

  int inputs() const { return static_cast<int>(node.inputs.size()); }
  int outputs() const { return static_cast<int>(node.outputs.size()); }
  // Whether input i is listed, and not by an empty name.
  bool has(int i) const { return node.in(static_cast<size_t>(i)) != nullptr; }
  bool wants(int o) const { return node.out(static_cast<size_t>(o)) != nullptr; }

  // An input that is there. Its layout is plain unless the operator has `any_layout`.
  virtual const Desc& in(int i) const = 0;
  DType type(int i) const { return in(i).type; }
  const Dims& dims(int i) const { return in(i).dims; }
  // For operators with `any_layout`: has the input brought into this layout, and returns what it is then.
  virtual const Desc& require(int i, Layout layout) = 0;

  // The content of an input, in plain layout; null where only the run knows it.
  virtual const void* content(int i) const = 0;
  // The constant behind an input: null if it is not one. Such a constant lives as long as the program, so its
  // packed form is made once for all shapes. See `packed`.
  virtual TensorPtr constant(int i) const = 0;

  // The content of an input of any integer or floating type, converted. Throws NeedsContent.
  Ints ints(int i) const;
  std::vector<float> floats(int i) const;
  int64_t integer(int i) const;  // The first of `ints`; Error if there is none.

  // Declares an output; the reference is valid until the next call for the same output.
  virtual Desc& out(int o, DType type, const Dims& dims, Layout layout = Layout::kPlain) = 0;
  // The output is the input's memory, from a byte offset on, with the output's own dimensions. No kernel is
  // needed for it.
  virtual void alias(int o, int i, size_t offset = 0) = 0;
  // The kernel reads an element of the input no later than it writes the same element of the output: they may
  // share memory if nobody else needs the input. Both must have the same number of bytes. Of several inputs
  // named for an output the first that will do is taken.
  virtual void in_place(int o, int i) = 0;
  // The content of the output is known.
  virtual void give(int o, TensorPtr content) = 0;
  // Memory that the kernel may use while it runs, aligned to 64 bytes.
  virtual void scratch(size_t bytes) = 0;
  // For profiles: how the kernel does it, where there is more than one way. A literal.
  virtual void method(const char* name) = 0;
  // Threads that runs of this session use, at most.
  virtual int threads() const = 0;
  // Whether the plan may be for one run alone, as where each run has other shapes: what takes longer to make
  // than it saves in a run is not worth it.
  virtual bool passing() const = 0;

  // A form of a constant that a kernel made for itself, made once for all plans of a session and by one
  // thread: `key` says which form ("gemm", the text of a memory descriptor).
  template <typename T, typename Make>
  static std::shared_ptr<T> packed(const TensorPtr& constant, std::string_view key, const Make& make) {
    const std::lock_guard lock(constant->packed_mutex);
    auto found = constant->packed.find(key);
    if (found == constant->packed.end()) found = constant->packed.emplace(key, nullptr).first;
    std::shared_ptr<void>& slot = found->second;
    if (slot == nullptr) {
      // Waking a thread for less costs more than it packs meanwhile.
      constexpr size_t kWorthThreads = size_t{1} << 20;
      std::optional<OneRank> alone;
      if (constant->bytes() < kWorthThreads) alone.emplace();
      slot = make();
    }
    return std::static_pointer_cast<T>(slot);
  }

  // Error(ORT_INVALID_ARGUMENT) that names the node.
  [[noreturn]] void invalid(const std::string& message) const;
  void expect(bool condition, const char* message) const {
    if (!condition) {
      invalid(message);
    }
  }
  // An axis from the model, counted from the end if negative; checked.
  size_t axis(int64_t value, size_t rank) const;
};

// What a run of a graph reads and writes.
class Io {
 public:
  virtual ~Io() = default;
  // Input i of the graph; after its own inputs come the outer values.
  virtual const Desc& input(size_t i) = 0;
  virtual void* input_data(size_t i) = 0;
  // Memory for output i, asked for once.
  virtual void* output(size_t i, DType type, const Dims& dims) = 0;
};

// A subgraph of a node, compiled: what If, Loop and Scan run.
class Subgraph {
 public:
  virtual ~Subgraph() = default;
  virtual const Graph& graph() const = 0;
  virtual void run(Io& io) = 0;

  size_t num_inputs() const { return graph().inputs.size() + graph().outer.size(); }
  size_t num_outputs() const { return graph().outputs.size(); }
  const Value* input(size_t i) const {
    return i < graph().inputs.size() ? graph().inputs[i] : graph().outer[i - graph().inputs.size()];
  }
};

// One call of `run`, of an operator whose outputs' shapes are known only then.
class Run {
 public:
  virtual ~Run() = default;
  explicit Run(const Node& of) : node(of) {}
  const Node& node;

  bool has(int i) const { return node.in(static_cast<size_t>(i)) != nullptr; }
  bool wants(int o) const { return node.out(static_cast<size_t>(o)) != nullptr; }
  virtual const Desc& in(int i) const = 0;  // Plain.
  virtual const void* data(int i) const = 0;
  template <typename T>
  const T* as(int i) const {
    return static_cast<const T*>(data(i));
  }
  Ints ints(int i) const;
  // Memory for an output, once for each that is wanted.
  virtual void* out(int o, DType type, const Dims& dims) = 0;
  // In place of `out`: the output is this tensor, which nobody writes to any more.
  virtual void give(int o, TensorPtr content) = 0;
  // Values that the node's subgraphs read of the graph around it: the i-th of node.implicit.
  virtual const Desc& outer(size_t i) const = 0;
  virtual const void* outer_data(size_t i) const = 0;
  // The compiled subgraph of this attribute.
  virtual Subgraph& subgraph(const char* attribute) const = 0;
  [[noreturn]] void invalid(const std::string& message) const;
};

struct Operator {
  const char* domain = "";
  const char* type = "";
  // "" or why this node cannot be done. Null: all that `types` allows.
  std::function<std::string(const Node&)> supports{};
  std::function<Kernel(Prepare&)> prepare{};
  std::function<void(Run&)> run{};
  // For operators that bring weights into a form of their own: whether `prepare` and its kernels read this
  // constant only in forms that Prepare::packed made. Such a constant's original is freed once `pack` has
  // made the forms, which it does without knowing the shapes of inputs, unless they are there already; it
  // says whether it could. Neither is there without the other.
  std::function<bool(const Node&, size_t i)> packs{};
  std::function<bool(const Node&)> pack{};
  // Element types that inputs and outputs may have, all of them.
  Types types = kAny;
  int min_version = 1, max_version = 1 << 20;
  bool any_layout = false;
  bool pure = true;  // The same inputs give the same outputs: false for random numbers.
  bool foldable =
      true;  // Worth folding: false where the folded form is larger (DequantizeLinear of weights).
};

// All operators: filled once, from all `Registration`s.
class Registry {
 public:
  static const Registry& get();
  void add(Operator op) {
    std::vector<Operator>& all = operators_[op.type];
    all.insert(all.begin(), std::move(op));  // What is added later is asked first.
  }
  // Null, with the reason in `why` if that is not null.
  const Operator* find(const Node& node, std::string* why = nullptr) const;
  // Whether there is an operator of the node's domain, type and version, whatever its inputs are.
  bool knows(const Node& node) const;

 private:
  std::unordered_map<std::string_view, std::vector<Operator>> operators_;  // By type, of all domains.
};

// How a file of operators makes them known: nothing else has to name them.
//
//   const Registration registration([](Registry* registry) { registry->add({.type = "Einsum", ...}); });
class Registration {
 public:
  using Add = void (*)(Registry*);
  explicit Registration(Add add) : add_(add), next_(first_) { first_ = this; }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  static const Registration* first() { return first_; }
  const Registration* next() const { return next_; }
  void add(Registry* registry) const { add_(registry); }

 private:
  static const Registration* first_;
  Add add_;
  const Registration* next_;
};

}  // namespace ephost::cpu

#endif
