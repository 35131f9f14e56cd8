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

#include "cuda/device.h"
#include "cuda/libraries.h"
#include "cuda/options.h"
#include "toolkit/graph.h"

namespace ephost::cuda {

struct Desc {
  DType type = DType::kUndefined;
  Dims dims;

  size_t bytes() const { return static_cast<size_t>(count(dims)) * size_of(type); }
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

/* A run's launches at certain addresses, as one. */
struct Recording {
  std::vector<CUdeviceptr> addresses;
  CUgraphExec graph = nullptr;
  uint64_t last_used = 0;
};

struct Plan {
  std::vector<Step> steps;
  size_t arena = 0;
  std::vector<Desc> outputs;
  std::vector<CUdeviceptr> constants; /* that this plan made; freed with it */
  Pool* pool = nullptr;

  std::mutex lock; /* of what follows */
  std::vector<Recording> recordings;
  std::vector<std::vector<CUdeviceptr>> seen; /* addresses of the last runs that were not recorded */
  uint64_t runs = 0;
  bool records = true; /* false once that has failed */

  Plan() = default;
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
};

/* What a run reads and writes. */
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
  bool launch_recorded(Plan& plan, const Launch& launch, Stream& stream);
  CUgraphExec record(const Plan& plan, const Launch& launch, Stream& stream);

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

}  // namespace ephost::cuda

#endif
