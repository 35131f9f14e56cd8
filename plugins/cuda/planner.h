/* From a graph and the shapes of its inputs to a plan. */
#ifndef EPHOST_CUDA_PLANNER_H_
#define EPHOST_CUDA_PLANNER_H_

#include "cuda/kernels/arguments.h"
#include "cuda/program.h"

namespace ephost::cuda {

/* Thrown by Planner where the plan depends on the content of an input of the graph: a shape that another
 * provider computes, say. The program then reads it, and plans again. */
struct NeedsContent {
  size_t input;
};

/* Makes one plan. Operators call it. */
class Planner {
 public:
  Planner(Program& program, const std::vector<Desc>& inputs,
          const std::map<size_t, std::vector<int64_t>>& contents);
  std::shared_ptr<Plan> make();

  Device& device() const { return program_.device_; }
  Libraries& libraries() const { return program_.libraries_; }
  Pool& pool() const { return program_.pool_; }
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
  /* A copy of bytes on the device, for as long as the plan is there. */
  Place constant(const void* data, size_t bytes);
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
  const Value* source_of(const Value* value) const;
  uint64_t take(size_t bytes);
  void give_back(uint64_t at, size_t bytes);
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

constexpr uint32_t kBlock = 256;
uint32_t blocks_for(int64_t count); /* of kBlock threads; throws where there are too many */

/* A step of a kernel with a thread for each of `args.count` elements, which reads `in` and writes `out`. */
template <typename Arguments>
void step_for_each(Planner& planner, const std::string& kernel, const Arguments& args, const Place& from,
                   const Place& to) {
  if (args.count > 0) {
    planner.step([=, function = planner.kernel(kernel)](const Launch& launch) {
      Arguments now = args;
      now.in = launch.address(from);
      now.out = launch.address(to);
      launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
    });
  }
}

Divider divider(uint32_t by);
const char* suffix(DType type); /* of kernels' names: "f32", "f16" or "bf16" */

}  // namespace ephost::cuda

#endif
