// A compiled graph: its plans, one for each combination of input shapes that a run has met, and how they run.
//
// A plan is a list of steps (kernels with the memory they work on) from some node to the end of the graph. It
// ends early, at a barrier, where what follows depends on the content of a value that only the run knows: a
// shape that is computed from data, or an operator like NonZero. The run then looks for a plan of the rest
// under that content and under what is known of the values that the rest reads, as the first plan is looked
// for under the shapes of the inputs. So whatever comes before a barrier, plans behind it are as many as
// there are combinations of shapes there, and each knows of its own part of the graph alone.
#ifndef EPHOST_CPU_PROGRAM_PROGRAM_H_
#define EPHOST_CPU_PROGRAM_PROGRAM_H_

#include "cpu/operator.h"
#include "cpu/operators/signature.h"
#include "cpu/program/constants.h"
#include "cpu/program/planner_room.h"
#include "cpu/runtime/recorder.h"
#include "toolkit/mutex.h"

namespace ephost::cpu {

struct Options {
  int threads = 0;                     // 0: one for each processor core.
  bool spin = true;                    // Whether threads look for work for a while before they sleep.
  bool fuse = true;                    // False: node by node, for comparisons.
  size_t max_plans = 32;               // Combinations of shapes that are kept; the oldest goes first.
  std::shared_ptr<Recorder> recorder;  // Of the times of steps; null: nobody wants them.
  std::shared_ptr<PlannerRooms> rooms = std::make_shared<PlannerRooms>();
};

class Program final : public Subgraph {
 public:
  // Folds constants, and fuses. Throws Error where the graph cannot be done: an operator that nobody knows.
  enum Folding { kFold, kNoFolding };
  Program(std::shared_ptr<Graph> graph, const Options& options, Folding folding = kFold);
  ~Program() override;

  // Makes the plan for input shapes that are known from the model, copies what is still needed of the host's
  // constants. Nothing of the host's graph is read after it.
  void load();
  void run(Io& io) override;

  const Graph& graph() const override { return *graph_; }
  Program& subgraph(const Graph* graph);
  template <typename Function>
  void for_each_node(Function&& function) const {
    for (size_t n = 0; n < operators_.size(); ++n) {
      function(*graph_->nodes[n], *operators_[n]);
    }
  }

 private:
  friend class Plan;
  friend class Planner;
  friend class PrepareNode;

  std::shared_ptr<Plan> root_for(Io& io);
  // See RestKey for what was found; `results` describes what the node gave.
  std::shared_ptr<Plan> rest_for(const Plan::Barrier& barrier, std::string found,
                                 const std::vector<Desc>& results);
  void make_bodies();
  std::vector<Program*> with_bodies();  // This one first.
  void plan_ahead();

  std::shared_ptr<Graph> graph_;
  Options options_;
  Originals* originals_ = nullptr;            // While it is loaded.
  std::vector<const Signature*> signatures_;  // For each node; null for one that is not the standard's.
  std::vector<const Operator*> operators_;    // For each node.
  // By Value::index, the number of the node behind the last one that reads it; and the same with the end of
  // the graph as the reader of its outputs.
  std::vector<size_t> read_until_, used_until_;
  bool texts_ = false;  // Whether there may be strings.
  Mutex mutex_;         // Of the plans' tables.
  PlanTable<std::vector<int64_t>> roots_;
  std::unordered_map<size_t, PlanTable<RestKey>> rests_;  // By the node at the barrier.
  Arenas arenas_;
  std::unordered_map<const Graph*, std::unique_ptr<Program>> subgraphs_;
};

}  // namespace ephost::cpu

#endif
