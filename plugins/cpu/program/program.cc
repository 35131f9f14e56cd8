#include "cpu/program/program.h"

#include <limits>

#include "cpu/passes/contrib.h"
#include "cpu/passes/fuse.h"
#include "cpu/passes/plant_trees.h"
#include "cpu/passes/split.h"
#include "cpu/passes/widen.h"
#include "cpu/program/fold.h"
#include "cpu/program/planner.h"
#include "toolkit/passes/invariants.h"

namespace ephost::cpu {

Program::Program(std::shared_ptr<Graph> graph, const Options& options, Folding folding)
    : graph_(std::move(graph)), options_(options) {
  for (Node* node : graph_->nodes) {
    node->origin = nullptr;
  }
  if (folding == kFold) {
    if (options_.fuse) {
      read_invariants_from_outside(graph_.get());
      widen_halves(graph_.get());
    }
    expand_contrib(graph_.get());
    plant_trees(graph_.get());
    split_wide_nodes(graph_.get());
    fold_constants(graph_.get(), options_.fuse ? Fold::kBeforeFusion : Fold::kAll);
    if (options_.fuse) {
      fuse(graph_.get());
      fold_constants(graph_.get(), Fold::kAll);
    }
    graph_->remove_unused();
    graph_->sort();
  }
  texts_ = std::any_of(graph_->values.begin(), graph_->values.end(), [](const auto& value) {
    return value->type == DType::kString || value->type == DType::kUndefined;
  });
  for (const Node* node : graph_->nodes) {
    std::string why;
    const Operator* op = Registry::get().find(*node, &why);
    if (op == nullptr) {
      throw Error(ORT_NOT_IMPLEMENTED, node->label() + ": " + why);
    }
    operators_.push_back(op);
    signatures_.push_back(signature_of(*node));
  }
  read_until_.assign(graph_->values.size(), 0);
  for (size_t n = 0; n < graph_->nodes.size(); ++n) {
    Planner::for_inputs(*graph_->nodes[n], [&](const Value* value) { read_until_[value->index] = n + 1; });
  }
  used_until_ = read_until_;
  for (const Value* value : graph_->outputs) {
    used_until_[value->index] = std::numeric_limits<size_t>::max();
  }
}

Program::~Program() = default;

Program& Program::subgraph(const Graph* graph) {
  const std::lock_guard lock(mutex_);
  const auto found = subgraphs_.find(graph);
  if (found == subgraphs_.end()) {
    fail("a subgraph was not loaded");
  }
  return *found->second;
}

void Program::load() {
  make_bodies();
  const std::vector<Program*> programs = with_bodies();
  Originals originals(programs);
  const ThreadScope threads(options_.threads, options_.spin);
  for (Program* program : programs) {
    program->originals_ = &originals;
    program->plan_ahead();
    program->originals_ = nullptr;
  }
  originals.pack_rest();
}

std::vector<Program*> Program::with_bodies() {
  std::vector<Program*> found{this};
  for (const auto& [graph, body] : subgraphs_) {
    const std::vector<Program*> inner = body->with_bodies();
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

void Program::make_bodies() {
  for (const Node* node : graph_->nodes) {
    for (const auto& [name, subgraph] : node->subgraphs) {
      auto body = std::make_unique<Program>(subgraph, options_);
      body->make_bodies();
      subgraphs_.emplace(subgraph.get(), std::move(body));
    }
  }
}

void Program::plan_ahead() {
  // Where the model says all input shapes the plan is made now, so that the first run does not wait for it.
  struct Shapes final : Io {
    const Desc& input(size_t i) override { return descs[i]; }
    void* input_data(size_t) override { return nullptr; }
    void* output(size_t, DType, const Dims&) override { return nullptr; }
    std::vector<Desc> descs;
  } shapes;
  bool known = true, has_scalar = false;
  for (size_t i = 0; i < num_inputs(); ++i) {
    const Value* value = input(i);
    has_scalar = has_scalar || value->dims.empty();
    const bool open =
        std::any_of(value->dims.begin(), value->dims.end(), [](int64_t dim) { return dim < 0; });
    known = known && value->type != DType::kUndefined && value->has_shape && !open && !value->is_outer;
    shapes.descs.push_back({value->type, value->dims, Layout::kPlain});
  }
  if (!known) {
    return;
  }
  try {
    root_for(shapes);
  } catch (const Error&) {
    // What a model declares as a scalar may be fed in any shape: exporters forget the dimensions of lists.
    // Whether the shapes fit is for a run to say then.
    if (!has_scalar) {
      throw;
    }
  }
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
  const auto make = [&](bool passing) {
    std::vector<Desc> inputs;
    for (size_t i = 0; i < n; ++i) {
      inputs.push_back(io.input(i));
      try {
        count(inputs.back().dims);  // Refuses what kernels could not count.
      } catch (const Error& error) {
        throw Error(error.code(), "the input '" + input(i)->name + "': " + error.what());
      }
    }
    return Planner(this, inputs, passing).build();
  };
  const std::lock_guard lock(mutex_);
  if (auto* found = roots_.find(matches)) {
    if (found->plan == nullptr) found->plan = make(false);
    return found->plan;
  }
  std::vector<int64_t> key;
  for (size_t i = 0; i < n; ++i) {
    const Desc& desc = io.input(i);
    key.push_back(head(desc));
    key.insert(key.end(), desc.dims.begin(), desc.dims.end());
  }
  std::shared_ptr<Plan> plan = make(roots_.passing());
  roots_.add(std::move(key), plan, options_.max_plans);
  return plan;
}

std::shared_ptr<Plan> Program::rest_for(const Plan::Barrier& barrier, std::string found,
                                        const std::vector<Desc>& results) {
  RestKey key{barrier.key, std::move(found)};
  const auto make = [&](bool passing) { return Planner(this, barrier, key.found, results, passing).build(); };
  const std::lock_guard lock(mutex_);
  PlanTable<RestKey>& table = rests_[barrier.node];
  if (auto* entry = table.find([&](const RestKey& have) { return have == key; })) {
    if (entry->plan == nullptr) entry->plan = make(false);
    return entry->plan;
  }
  std::shared_ptr<Plan> plan = make(table.passing());
  table.add(std::move(key), plan, options_.max_plans);
  return plan;
}

}  // namespace ephost::cpu
