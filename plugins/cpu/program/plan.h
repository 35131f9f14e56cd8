// A plan: the kernels of one combination of shapes in the order in which they run, and the memory that each
// works on.
#ifndef EPHOST_CPU_PROGRAM_PLAN_H_
#define EPHOST_CPU_PROGRAM_PLAN_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/operator.h"
#include "cpu/program/arenas.h"
#include "toolkit/mutex.h"

namespace ephost::cpu {

// Memory that a step reads or writes, by a number within its plan.
struct Storage {
  enum Place : uint8_t {
    kNothing,   // Of an input or output that is left out.
    kInput,     // `index` of the program.
    kBefore,    // `index` of what the plan before this one hands on.
    kConstant,  // `tensor`.
    kArena,     // `offset` in the arena of the plan.
    kOutput,    // `index` of the graph.
    kInside,    // At `offset` of storage `index`, which is not kInside itself.
    kRun,       // The run's own: what an operator asked for in Run::out.
  };
  Place place = kNothing;
  uint32_t index = 0;
  size_t offset = 0;
  size_t bytes = 0;
  TensorPtr tensor;
  uint32_t first = 0, last = 0;  // The steps that use it; for kArena.
};

// What is known of a value at some point of a plan.
struct Known {
  Desc desc;
  TensorPtr content;  // Null if only the run knows it.
  // The storage that holds it, in each layout that somebody asked for. The first one is its own.
  struct Place {
    Layout layout;
    uint32_t storage;
  };
  SmallVector<Place, 2> storages;
};

struct Step {
  Kernel kernel;
  uint32_t in = 0, out = 0, scratch = 0;  // Positions in Plan::args.
  const Node* node = nullptr;
  const char* method = nullptr;  // See Prepare::method.
};

// What one run of one plan works on.
struct Frame {
  Arena arena;                     // While it runs.
  const void* resolved = nullptr;  // The memory that `args` point to.
  std::vector<void*> args;
  std::vector<void*> table;  // Of each storage that is not fixed: where it is in this run.
};

// What a plan knows at its barrier of the values that later nodes read, in a form to be compared: plans that
// leave the same go on with the same plan.
struct Knowledge {
  std::string text;                // Descriptions, and small contents.
  std::vector<TensorPtr> tensors;  // Other contents.

  bool operator==(const Knowledge& other) const { return text == other.text && tensors == other.tensors; }
};

// What the plan of a rest is for: what was known at the barrier, and what the run found there, which is the
// content of a value or the types and shapes of what a node gave.
struct RestKey {
  std::shared_ptr<const Knowledge> known;
  std::string found;

  bool operator==(const RestKey& other) const {
    return found == other.found && (known == other.known || *known == *other.known);
  }
};

class Plan;

// Plans by what they are for, of which so many are kept: the one that was not asked for longest goes first.
// The first is made to last; what comes after it may be for one run alone, as where no two pictures have the
// same size, and is made so (Prepare::passing). It is made anew when it is asked for twice in a row, or
// often.
template <typename Key>
class PlanTable {
 public:
  struct Entry {
    Key key;
    std::shared_ptr<Plan> plan;
    int uses = 1;
  };
  // The entry whose key is matched, or null. It may be without a plan: make one that lasts.
  template <typename Matches>
  Entry* find(const Matches& matches) {
    for (size_t i = entries_.size(); i-- > 0;) {
      if (!matches(entries_[i].key)) continue;
      const bool again = i + 1 == entries_.size();
      if (!again) {
        const auto found = entries_.begin() + static_cast<ptrdiff_t>(i);
        std::rotate(found, found + 1, entries_.end());
      }
      Entry& entry = entries_.back();
      constexpr int kOften = 8;
      const bool lasts = ++entry.uses >= kOften || again;
      if (lasts && entry.plan != nullptr && entry.plan->passing) entry.plan = nullptr;
      return &entry;
    }
    return nullptr;
  }
  // Whether the next one that is added may be for one run alone.
  bool passing() const { return !entries_.empty(); }
  void add(Key key, std::shared_ptr<Plan> plan, size_t most) {
    if (entries_.size() >= most) entries_.erase(entries_.begin());
    entries_.push_back({std::move(key), std::move(plan)});
  }

 private:
  std::vector<Entry> entries_;  // The latest used last.
};

class Plan {
 public:
  std::vector<Step> steps;
  std::vector<uint32_t> args;     // Storages, in the order that steps use them.
  std::vector<uint32_t> patches;  // Positions in `args` that are not the frame's own.
  std::vector<Storage> storages;
  size_t arena = 0;
  bool passing = false;  // Made for one run, perhaps.
  // Outputs of the graph to ask for before the first step: their number, description and storage.
  struct Output {
    uint32_t index;
    Desc desc;
    uint32_t storage;
  };
  std::vector<Output> outputs;
  // The storages whose addresses come from the run, with the number of the input, of what the plan before
  // this one hands on, or of the result of the node between them.
  std::vector<std::pair<uint32_t, uint32_t>> from_inputs, from_before, from_results;

  // The barrier at its end, unless it ends the graph.
  struct Source {
    Desc desc;
    TensorPtr content;  // Null: in `storage`.
    uint32_t storage = 0;
    bool missing = false;  // The node leaves it out.
  };
  struct Barrier {
    size_t node = 0;  // Where the rest begins.
    // The value whose content is needed; null if the node is to be run itself.
    const Value* needed = nullptr;
    // Of the node, the outer values that its bodies read behind its own; or the one needed.
    std::vector<Source> inputs;
    // What is known of the values that the rest reads, constants aside, by Value::index. Their storages are
    // numbers in `handed`.
    std::vector<std::pair<size_t, Known>> known;
    std::vector<uint32_t> handed;  // Storages whose addresses the next plan gets.
    std::vector<size_t> bytes;     // Of each of those.
    std::vector<bool> bound;       // The outputs of the graph that are there.
    std::shared_ptr<const Knowledge> key;
  };
  std::unique_ptr<const Barrier> barrier;

  // For one run: a frame that another run has given back, or a new one, with memory of the arenas.
  std::unique_ptr<Frame> take(Arenas* arenas);
  void give(std::unique_ptr<Frame> frame, Arenas* arenas);

  // Null where it needs the run: `table` has those.
  void* resolve(uint32_t storage, char* memory, void* const* table) const {
    const Storage& at = storages[storage];
    switch (at.place) {
      case Storage::kNothing:
        return nullptr;
      case Storage::kConstant:
        return const_cast<void*>(at.tensor->data);
      case Storage::kArena:
        return memory + at.offset;
      case Storage::kInside: {
        char* base = static_cast<char*>(resolve(at.index, memory, table));
        return base == nullptr ? nullptr : base + at.offset;
      }
      default:
        return table == nullptr ? nullptr : table[storage];
    }
  }
  // Whether its address is the same in every run with this frame.
  bool fixed(uint32_t storage) const {
    const Storage& at = storages[root(storage)];
    return at.place == Storage::kNothing || at.place == Storage::kConstant || at.place == Storage::kArena;
  }
  // The storage that this one is a part of: itself, if it is none.
  uint32_t root(uint32_t storage) const {
    return storages[storage].place == Storage::kInside ? storages[storage].index : storage;
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<Frame>> frames_;
};

}  // namespace ephost::cpu

#endif
