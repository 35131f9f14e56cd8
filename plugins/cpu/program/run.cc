// One run of a program: from plan to plan, until one reaches the end of the graph.
#include <cmath>
#include <cstring>

#include "cpu/program/planner.h"
#include "cpu/program/run_node.h"
#include "cpu/runtime/careful.h"
#include "cpu/simd/simd.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

// Whether all that a program is fed of float32 is finite; false also where the sum of an input is not.
bool is_finite(Io& io, size_t inputs) {
  for (size_t i = 0; i < inputs; ++i) {
    const Desc& desc = io.input(i);
    if (desc.type != DType::kFloat) continue;
    const auto* numbers = static_cast<const float*>(io.input_data(i));
    if (!std::isfinite(simd().reduce[kSum](numbers, desc.count(), 0))) return false;
  }
  return true;
}

}  // namespace

void Program::run(Io& io) {
  const ThreadScope threads(options_.threads, options_.spin);
  const CarefulScope careful([&] { return !is_finite(io, graph_->inputs.size()); });
  Recorder* recorder =
      options_.recorder != nullptr && options_.recorder->active() ? options_.recorder.get() : nullptr;
  struct Held {
    Held(std::shared_ptr<Plan> of, Arenas* from)
        : arenas(from), plan(std::move(of)), frame(plan->take(from)) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { plan->give(std::move(frame), arenas); }
    Arenas* arenas;
    std::shared_ptr<Plan> plan;
    std::unique_ptr<Frame> frame;
  };
  std::shared_ptr<Plan> plan = root_for(io);
  std::vector<TensorPtr> results;  // Of the node that the last plan stopped at.
  // What the last plan hands on, with what keeps it: memory that no later plan reads is free for these.
  std::vector<std::pair<void*, std::shared_ptr<const void>>> handed;
  std::vector<std::shared_ptr<const void>> texts;  // Outputs may hold addresses in them.

  for (;;) {
    const auto held = std::make_shared<const Held>(plan, &arenas_);
    Frame& frame = *held->frame;
    char* memory = static_cast<char*>(frame.arena.memory.get());
    std::vector<void*>& table = frame.table;
    table.resize(plan->storages.size(), nullptr);
    for (const auto& [storage, i] : plan->from_inputs) {
      table[storage] = io.input_data(i);
    }
    for (const auto& [storage, i] : plan->from_before) {
      table[storage] = handed[i].first;
    }
    for (const auto& [storage, i] : plan->from_results) {
      table[storage] = mutable_data(results[i]);
    }
    for (const Plan::Output& output : plan->outputs) {
      table[output.storage] = io.output(output.index, output.desc.type, output.desc.dims);
    }
    for (uint32_t position : plan->patches) {
      frame.args[position] = plan->resolve(plan->args[position], memory, table.data());
    }
    void* const* args = frame.args.data();
    for (const Step& step : plan->steps) {
      if (&step != plan->steps.data()) check_stop();  // The host asks before the first one.
      const Recorder::Timer timer(recorder, step.node, step.method);
      step.kernel(Args(args + step.in, step.out - step.in, args + step.out, step.scratch - step.out,
                       args[step.scratch]));
    }
    if (texts_) {
      TextScope::current().keep(plan);  // Outputs may point to strings of its kernels.
      texts.push_back(held);
    }
    if (plan->barrier == nullptr) {
      return;
    }

    const Plan::Barrier& barrier = *plan->barrier;
    decltype(handed) next;
    next.reserve(barrier.handed.size());
    for (uint32_t storage : barrier.handed) {
      const Storage& root = plan->storages[plan->root(storage)];
      std::shared_ptr<const void> owner;
      if (root.place == Storage::kArena) owner = held;
      if (root.place == Storage::kBefore) owner = handed[root.index].second;
      if (root.place == Storage::kRun) owner = results[root.index];
      next.emplace_back(plan->resolve(storage, memory, table.data()), std::move(owner));
    }
    const auto read = [&](const Plan::Source& source) -> RunNode::Input {
      if (source.missing) return {};
      return {source.desc, source.content != nullptr ? source.content->data
                                                     : plan->resolve(source.storage, memory, table.data())};
    };
    std::string found;
    std::vector<Desc> shapes;
    if (barrier.needed != nullptr) {
      const RunNode::Input value = read(barrier.inputs[0]);
      found.assign(static_cast<const char*>(value.data), value.desc.bytes());
    } else {
      const Node& node = *graph_->nodes[barrier.node];
      std::vector<RunNode::Input> inputs, outer;
      inputs.reserve(node.inputs.size());
      for (const Plan::Source& source : barrier.inputs) {
        (inputs.size() < node.inputs.size() ? inputs : outer).push_back(read(source));
      }
      RunNode run(this, node, std::move(inputs), std::move(outer));
      {
        const Recorder::Timer timer(recorder, &node, nullptr);
        operators_[barrier.node]->run(run);
      }
      results = std::move(run.results);
      shapes.reserve(results.size());
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        Desc desc;
        if (node.outputs[o] != nullptr) {
          if (results[o] == nullptr) {
            fail(node.label() + " did not give its output " + std::to_string(o));
          }
          desc = {results[o]->type, results[o]->dims, Layout::kPlain};
          if (texts_) texts.push_back(results[o]);
        }
        const int64_t head = static_cast<int64_t>(desc.type) << 8 | static_cast<int64_t>(desc.rank());
        found.append(reinterpret_cast<const char*>(&head), sizeof head);
        found.append(reinterpret_cast<const char*>(desc.dims.data()), desc.dims.size() * sizeof(int64_t));
        shapes.push_back(std::move(desc));
      }
    }
    handed = std::move(next);
    plan = rest_for(barrier, std::move(found), shapes);
  }
}

}  // namespace ephost::cpu
