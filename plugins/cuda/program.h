/* A compiled group of nodes: its graph, its weights on the device, and a plan for each combination of input
 * shapes that a run has met. A plan is a list of steps, each of which queues work on a stream, and a layout
 * of one block of memory for what lies between them; running one makes no decisions and waits for nothing. */
#ifndef EPHOST_CUDA_PROGRAM_H_
#define EPHOST_CUDA_PROGRAM_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../compiler/graph.h"
#include "device.h"
#include "kernels/arguments.h"
#include "libraries.h"
#include "options.h"

namespace ephost_cuda {

using ephost::Dims;
using ephost::DType;
using ephost::Graph;
using ephost::Node;
using ephost::TensorPtr;
using ephost::Value;

struct Desc {
  DType type = DType::kUndefined;
  Dims dims;
};

/* Where a tensor's memory is in a run. */
struct Place {
  enum Kind : uint8_t { kNone, kArena, kInput, kOutput, kFixed } kind = kNone;
  uint64_t at = 0;     /* offset in the arena, number of the input or output, or an address */
  uint64_t offset = 0; /* bytes */
};

/* What a step gets in a run. */
class Launch {
 public:
  Launch(Device& device, Libraries& libraries, CUstream stream)
      : device(device), libraries(libraries), stream(stream) {}

  Device& device;
  Libraries& libraries;
  CUstream stream;
  std::vector<CUdeviceptr> inputs, outputs;
  CUdeviceptr arena = 0;

  void* address(const Place& place) const;
  void kernel(CUfunction function, dim3_t blocks, dim3_t threads, void* arguments) const;
};

struct Step {
  std::string label; /* "Conv 'name'" */
  std::function<void(const Launch&)> run;
};

struct Plan {
  std::vector<Step> steps;
  size_t arena = 0;
  std::vector<Desc> outputs;
  std::vector<CUdeviceptr> constants; /* that this plan made; freed with it */
  Pool* pool = nullptr;
  ~Plan();
};

/* Inputs of the graph whose content the plan depends on: shapes that other providers compute, say. */
struct NeedsContent {
  size_t input;
};

/* Thrown by nothing but Planner: reads and writes of a run. */
class Io {
 public:
  virtual ~Io() = default;
  virtual const Desc& input(size_t i) = 0;
  virtual CUdeviceptr input_data(size_t i) = 0;
  virtual CUdeviceptr output(size_t i, const Desc& desc) = 0;
};

class Program {
 public:
  /* Copies the graph's constants to the device; nothing of the host's is read after that. Call inside a
   * Scope. */
  Program(std::unique_ptr<Graph> graph, Pool& pool, Libraries& libraries, const Options& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(Io& io, Stream& stream);

  const Graph& graph() const { return *graph_; }
  size_t num_inputs() const { return graph_->inputs.size() + graph_->outer.size(); }
  const Value* input(size_t i) const {
    return i < graph_->inputs.size() ? graph_->inputs[i] : graph_->outer[i - graph_->inputs.size()];
  }

 private:
  friend class Planner;
  std::shared_ptr<Plan> plan_for(Io& io, Stream& stream);
  CUdeviceptr upload(const void* data, size_t bytes, const std::string& what);
  std::vector<int64_t> read_back(Io& io, size_t input, Stream& stream);

  std::unique_ptr<Graph> graph_;
  Pool& pool_;
  Device& device_;
  Libraries& libraries_;
  const Options options_;
  std::unordered_map<const Value*, CUdeviceptr> weights_;
  std::mutex lock_; /* of the plans */
  std::vector<size_t> content_inputs_;
  std::map<std::vector<int64_t>, std::shared_ptr<Plan>> plans_;
};

/* Makes one plan. Operators call it (operators.cc). */
class Planner {
 public:
  Planner(Program& program, const std::vector<Desc>& inputs,
          const std::map<size_t, std::vector<int64_t>>& contents);
  std::shared_ptr<Plan> make();

  Device& device() const { return program_.device_; }
  Libraries& libraries() const { return program_.libraries_; }
  const Options& options() const { return program_.options_; }

  const Dims& dims(const Value* value) const { return desc(value).dims; }
  DType type(const Value* value) const { return desc(value).type; }
  /* The content of a tensor of integers. Throws NeedsContent where only a run knows it. */
  const std::vector<int64_t>& content(const Value* value);

  /* Memory that holds the value once the steps so far have run. */
  Place read(const Value* value);
  /* Memory for a value that a step is about to write. */
  Place write(const Value* value, const Dims& dims);
  /* The value is another one's memory under other dimensions. */
  void alias(const Value* value, const Value* of, const Dims& dims);
  /* The content of an integer value is known. */
  void give(const Value* value, const Dims& dims, std::vector<int64_t> content);
  /* Memory that is free again after the node. */
  Place scratch(size_t bytes);
  void step(std::function<void(const Launch&)> run);
  /* Whether `content` would not throw. */
  bool has_content(const Value* value) const;
  /* A value that the plan makes: numbers in an element type of ours. */
  const Value* constant(DType type, const Dims& dims, const std::vector<float>& numbers);
  /* A value that the plan makes for itself: written once, read once. */
  const Value* between(DType type);

  /* ---- Chains of elementwise operators ---- */
  struct Chain {
    DType type = DType::kUndefined;
    Dims dims;
    std::vector<const Value*> operands;
    std::vector<ChainStep> steps;
    std::vector<const Value*> reads; /* uses of values that are over when the chain has run */
    std::string label;
  };
  /* The chain that ends in `value`, if it still waits to be emitted; NULL otherwise. */
  Chain* pending(const Value* value);
  /* Makes `chain` the value's: now, or as part of the chain that its only consumer begins. Takes over the
   * pending chain of `continued`, which may be NULL. */
  void end_chain(const Value* value, Chain chain, const Value* continued);
  /* Emits a chain at once. */
  void emit(const Value* value, const Chain& chain);

  /* Queues a copy of elements of `size` bytes from one layout to another; dims outermost first. */
  void copy(const Place& from, const Place& to, size_t size, const Dims& dims,
            const std::vector<int64_t>& from_strides, const std::vector<int64_t>& to_strides);
  CUfunction kernel(const std::string& name) const { return program_.device_.kernel(name); }

 private:
  struct Storage {
    Place place;
    size_t bytes = 0;
    size_t uses = 0; /* by nodes that are not planned yet */
    bool in_arena = false;
  };
  const Desc& desc(const Value* value) const;
  std::shared_ptr<Storage> storage(const Value* value);
  void release(const Value* value);
  uint64_t take(size_t bytes);
  void give_back(uint64_t at, size_t bytes);
  Place constant(const void* data, size_t bytes);
  void finish_outputs();

  Program& program_;
  std::shared_ptr<Plan> plan_;
  std::unordered_map<const Value*, Desc> descs_;
  std::unordered_map<const Value*, std::vector<int64_t>> contents_;
  std::unordered_map<const Value*, std::shared_ptr<Storage>> storages_;
  std::unordered_map<const Value*, Chain> chains_;
  std::unordered_map<const Value*, size_t> uses_;
  std::map<uint64_t, uint64_t> holes_; /* of the arena: offset, bytes */
  std::vector<std::pair<uint64_t, size_t>> scratch_;
  std::string label_;
  std::vector<std::unique_ptr<Value>> made_;
  const std::map<size_t, std::vector<int64_t>>& given_;
};

/* An operator: what it takes, and how it is planned. */
struct Operator {
  const char* type;
  int min_version, max_version;
  std::string (*supports)(const Node& node); /* "", or why not */
  void (*plan)(Planner& planner, const Node& node);
  bool elementwise;
};

/* Why a node cannot be run here, or "". */
std::string why_not(const Node& node);
const Operator* find_operator(const Node& node);
Divider divider(uint32_t by);
const char* suffix(DType type); /* "f32", "f16" or "bf16" */
constexpr uint32_t kBlock = 256;
uint32_t blocks_for(int64_t count); /* of kBlock threads; throws where there are too many */

}  // namespace ephost_cuda

#endif
