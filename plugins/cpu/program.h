// A compiled graph: its plans, one for each combination of input shapes that a run has met, and how they run.
//
// A plan is a list of steps (kernels with the memory they work on) from some node to the end of the graph. It
// ends early, at a barrier, where what follows depends on the content of a value that only the run knows: a
// shape that is computed from data, or an operator like NonZero. The run then looks for a plan of the rest
// under that content, as the root plan is looked for under the shapes of the inputs.
#ifndef EPHOST_CPU_PROGRAM_H_
#define EPHOST_CPU_PROGRAM_H_

#include <mutex>

#include "operator.h"
#include "recorder.h"
#include "signature.h"

namespace ephost::cpu {

struct Options {
  int threads = 0;                     // 0: one for each processor core.
  bool spin = true;                    // Whether threads look for work for a while before they sleep.
  bool fuse = true;                    // False: node by node, for comparisons.
  size_t max_plans = 32;               // Combinations of shapes that are kept; the oldest goes first.
  std::shared_ptr<Recorder> recorder;  // Of the times of steps; null: nobody wants them.
};

// What a run reads and writes.
class Io {
 public:
  virtual ~Io() = default;
  // Input i of the graph; after its own inputs come the outer values.
  virtual const Desc& input(size_t i) = 0;
  virtual void* input_data(size_t i) = 0;
  // Memory for output i, asked for once.
  virtual void* output(size_t i, DType type, const Dims& dims) = 0;
};

class Plan;

class Program {
 public:
  // Folds constants, and fuses. Throws Error where the graph cannot be done: an operator that nobody knows.
  enum Folding { kFold, kNoFolding };
  Program(std::shared_ptr<Graph> graph, const Options& options, Folding folding = kFold);
  ~Program();

  // Makes the plan for input shapes that are known from the model, copies what is still needed of the host's
  // constants. Nothing of the host's graph is read after it.
  void load();
  void run(Io& io);

  const Graph& graph() const { return *graph_; }
  size_t num_inputs() const { return graph_->inputs.size() + graph_->outer.size(); }
  size_t num_outputs() const { return graph_->outputs.size(); }
  const Value* input(size_t i) const {
    return i < graph_->inputs.size() ? graph_->inputs[i] : graph_->outer[i - graph_->inputs.size()];
  }
  Program& subgraph(const Graph* graph);

 private:
  friend class Plan;
  friend class Planner;
  friend class PrepareNode;

  std::shared_ptr<Plan> root_for(Io& io);
  // Copies the host's constants, but for those that kernels pack; and frees the originals of these.
  void own_constants();
  void free_packed();

  std::shared_ptr<Graph> graph_;
  Options options_;
  std::vector<TensorPtr> packable_;           // Between those two.
  std::vector<const Signature*> signatures_;  // For each node; null for one that is not the standard's.
  std::vector<const Operator*> operators_;    // For each node.
  std::mutex mutex_;                          // Of the plans' tables.
  std::vector<std::pair<std::vector<int64_t>, std::shared_ptr<Plan>>> roots_;  // The latest used last.
  std::unordered_map<const Graph*, std::unique_ptr<Program>> subgraphs_;
};

// Brings a tensor into another layout.
Kernel make_reorder(const Desc& from, Layout to);
// Evaluates what can be evaluated without any input; removes those nodes. Before `fuse`, which joins them to
// products, transpositions of large matrices are left alone.
enum class Fold { kAll, kBeforeFusion };
void fold_constants(Graph* graph, Fold what);

}  // namespace ephost::cpu

#endif
