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
    Held(Held&&) = default;
    ~Held() {
      if (frame != nullptr) plan->give(std::move(frame), arenas);
    }
    Arenas* arenas;
    std::shared_ptr<Plan> plan;
    std::unique_ptr<Frame> frame;
  };
  std::shared_ptr<Plan> plan = root_for(io);
  std::vector<Held> held;
  std::vector<TensorPtr> results, kept;  // Of the node that the last plan stopped at; of all of them.

  for (;;) {
    held.emplace_back(plan, &arenas_);
    Frame& frame = *held.back().frame;
    char* memory = static_cast<char*>(frame.arena.memory.get());

    // For each storage of the chain, where it is; needed for those that are not fixed.
    std::vector<void*>& table = held.front().frame->table;
    table.resize(std::max(table.size(), plan->storages.size()), nullptr);
    for (const auto& [storage, i] : plan->from_inputs) {
      table[storage] = io.input_data(i);
    }
    for (const Plan::Output& output : plan->outputs) {
      table[output.storage] = io.output(output.index, output.desc.type, output.desc.dims);
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
      if (&step != plan->steps.data()) check_stop();  // The host asks before the first one.
      const Recorder::Timer timer(recorder, step.node, step.method);
      step.kernel(Args(args + step.in, step.out - step.in, args + step.out, step.scratch - step.out,
                       args[step.scratch]));
    }
    if (texts_) TextScope::current().keep(plan);  // Outputs may point to strings of its kernels.
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
      const auto make = [&](bool passing) {
        std::vector<Known> known = plan->known;
        size_t begin = plan->next_node;
        if (plan->needed != nullptr) {
          Known& value = known[plan->needed->index];
          value.content = make_tensor(value.desc.type, value.desc.dims);
          std::memcpy(mutable_data(value.content), key.data(), key.size());
        } else {
          ++begin;
        }
        Planner planner(this, plan.get(), std::move(known), begin, passing);
        if (plan->needed == nullptr) {
          planner.bind_results(node, shapes);
        }
        return planner.build();
      };
      const std::lock_guard lock(mutex_);
      if (auto* found = plan->children.find([&](const std::string& have) { return have == key; })) {
        if (found->plan == nullptr) found->plan = make(false);
        next = found->plan;
      } else {
        next = make(plan->passing || plan->children.passing());
        plan->children.add(std::move(key), next, options_.max_plans);
      }
    }
    plan = std::move(next);
  }
}

}  // namespace ephost::cpu
