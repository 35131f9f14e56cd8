#include "cpu/program/planner.h"

#include <cstring>
#include <limits>

#include "cpu/program/constants.h"
#include "cpu/program/prepare_node.h"
#include "cpu/program/reorder.h"
#include "cpu/program/run_node.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

constexpr uint32_t kForever = std::numeric_limits<uint32_t>::max();
// A value computed from shapes is evaluated while planning if it is no larger than this.
constexpr size_t kMaxPlannedBytes = 1 << 16;

// Appends a number's bytes.
void put(std::string* text, uint64_t number) {
  text->append(reinterpret_cast<const char*>(&number), sizeof number);
}

// What of a barrier decides on the plan of the rest, but for what the run finds there.
std::shared_ptr<const Knowledge> describe(const Plan::Barrier& barrier) {
  auto knowledge = std::make_shared<Knowledge>();
  std::string& text = knowledge->text;
  put(&text, barrier.needed == nullptr ? 0 : barrier.needed->index + 1);
  for (const auto& [index, known] : barrier.known) {
    put(&text, index);
    put(&text, static_cast<uint64_t>(known.desc.type));
    put(&text, static_cast<uint64_t>(known.desc.layout));
    put(&text, known.desc.rank());
    for (int64_t dim : known.desc.dims) put(&text, static_cast<uint64_t>(dim));
    const Tensor* content = known.content.get();
    const bool by_bytes = content != nullptr && content->data != nullptr && content->type != DType::kString &&
                          content->bytes() <= kMaxPlannedBytes;
    put(&text, content == nullptr ? 0 : by_bytes ? 1 : 2);
    if (by_bytes) {
      text.append(content->as<char>(), content->bytes());
    } else if (content != nullptr) {
      knowledge->tensors.push_back(known.content);
    }
    put(&text, known.storages.size());
    for (const auto& [layout, storage] : known.storages) put(&text, static_cast<uint64_t>(layout));
  }
  return knowledge;
}

}  // namespace

Planner::Planner(Program* program, size_t begin, bool passing)
    : program_(*program),
      graph_(*program->graph_),
      plan_(std::make_shared<Plan>()),
      own_room_(program->options_.rooms->take(program->graph_->values.size())),
      room_(*own_room_),
      bound_(program->graph_->outputs.size(), false),
      at_(begin) {
  plan_->passing = passing;
  // Of nodes to a barrier there are some, or those that are left.
  const size_t nodes = std::min<size_t>(graph_.nodes.size() - begin, 8);
  plan_->steps.reserve(nodes);
  plan_->args.reserve(3 * nodes);
  plan_->storages.reserve(nodes + 2);
  plan_->storages.emplace_back();  // Number 0 is no memory at all.
}

Planner::Planner(Program* program, const std::vector<Desc>& inputs, bool passing)
    : Planner(program, 0, passing) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value* value = program_.input(i);
    if (value->constant == nullptr) {
      Storage storage;
      storage.place = Storage::kInput;
      storage.index = static_cast<uint32_t>(i);
      storage.bytes = inputs[i].bytes();
      known(value) = {inputs[i], nullptr, {{Layout::kPlain, add(storage)}}};
    }
  }
}

Planner::Planner(Program* program, const Plan::Barrier& before, const std::string& content,
                 const std::vector<Desc>& results, bool passing)
    : Planner(program, before.needed == nullptr ? before.node + 1 : before.node, passing) {
  bound_ = before.bound;
  std::vector<uint32_t> handed;
  for (size_t i = 0; i < before.handed.size(); ++i) {
    Storage storage;
    storage.place = Storage::kBefore;
    storage.index = static_cast<uint32_t>(i);
    storage.bytes = before.bytes[i];
    handed.push_back(add(storage));
  }
  for (const auto& [index, what] : before.known) {
    Known& mine = known(graph_.values[index].get());
    mine = what;
    for (auto& [layout, storage] : mine.storages) storage = handed[storage];
  }
  if (before.needed != nullptr) {
    Known& value = known(before.needed);
    value.content = make_tensor(value.desc.type, value.desc.dims);
    std::memcpy(mutable_data(value.content), content.data(), content.size());
    return;
  }
  const Node& node = *graph_.nodes[before.node];
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    if (const Value* value = node.outputs[o]) {
      Storage storage;
      storage.place = Storage::kRun;
      storage.index = static_cast<uint32_t>(o);
      storage.bytes = results[o].bytes();
      known(value) = {results[o], nullptr, {{Layout::kPlain, add(storage)}}};
    }
  }
}

uint32_t Planner::storage_of(const Value* value, Layout layout) {
  Known& known = this->known(value);
  for (const auto& [have, storage] : known.storages) {
    if (have == layout) {
      return storage;
    }
  }
  if (known.storages.empty()) {
    if (known.content == nullptr) {
      invalid("'" + value->name + "' is read before it is computed");
    }
    Storage storage;
    storage.place = Storage::kConstant;
    storage.tensor = known.content;
    storage.bytes = known.content->bytes();
    known.storages.push_back({Layout::kPlain, add(storage)});
    if (layout == Layout::kPlain) {
      return known.storages[0].storage;
    }
  }
  Desc from = known.desc;
  from.layout = known.storages[0].layout;
  Desc to = known.desc;
  to.layout = layout;
  if (known.desc.dims.size() < 2) {
    fail("'" + value->name + "' with " + std::to_string(known.desc.dims.size()) +
         " dimensions has one layout only");
  }
  Kernel kernel;
  if (from.layout != Layout::kPlain && layout != Layout::kPlain && block_of(from.layout) != 1 &&
      block_of(layout) != 1) {
    storage_of(value, Layout::kPlain);  // By way of the plain form, which others may want too.
    from.layout = Layout::kPlain;
  }
  kernel = make_reorder(from, layout);
  uint32_t source = 0;
  for (const auto& [have, storage] : known.storages) {
    if (have == from.layout) {
      source = storage;
    }
  }
  Storage storage;
  storage.place = Storage::kArena;
  storage.bytes = to.bytes();
  const uint32_t made = add(storage);
  add_tenant(made, value);
  known.storages.push_back({layout, made});
  add_step(std::move(kernel), {source}, {made}, 0, nullptr);
  return made;
}

bool Planner::dies(const Value* value) {
  const Known& known = this->known(value);
  if (known.storages.empty() || known.content != nullptr) {
    return false;
  }
  const uint32_t base = root(known.storages[0].storage);
  if (plan_->storages[base].place != Storage::kArena) {
    return false;
  }
  if (base >= room_.first_tenant.size()) return true;
  const std::vector<size_t>& used_until = program_.used_until_;
  for (uint32_t* link = &room_.first_tenant[base]; *link != 0;) {
    PlannerRoom::Tenant& tenant = room_.tenants[*link - 1];
    const size_t until = used_until[tenant.value->index];
    if (until > at_ + 1) return false;
    if (until <= at_) {
      *link = tenant.next;
    } else {
      link = &tenant.next;
    }
  }
  return true;
}

void Planner::add_step(Kernel kernel, const std::vector<uint32_t>& in, const std::vector<uint32_t>& out,
                       size_t scratch, const Node* node) {
  const uint32_t index = static_cast<uint32_t>(plan_->steps.size());
  Step step;
  step.kernel = std::move(kernel);
  step.node = node;
  step.in = static_cast<uint32_t>(plan_->args.size());
  plan_->args.insert(plan_->args.end(), in.begin(), in.end());
  step.out = static_cast<uint32_t>(plan_->args.size());
  plan_->args.insert(plan_->args.end(), out.begin(), out.end());
  step.scratch = static_cast<uint32_t>(plan_->args.size());
  uint32_t memory = 0;
  if (scratch > 0) {
    Storage storage;
    storage.place = Storage::kArena;
    storage.bytes = scratch;
    storage.first = storage.last = index;
    memory = add(storage);
  }
  plan_->args.push_back(memory);
  for (uint32_t storage : in) {
    touch(storage, index);
  }
  for (uint32_t storage : out) {
    Storage& at = plan_->storages[root(storage)];
    if (root(storage) == storage && at.first == 0 && at.last == 0) {
      at.first = index;
    }
    at.last = std::max(at.last, index);
  }
  plan_->steps.push_back(std::move(step));
}

// False where the plan ends: at a barrier in front of node n, or after it if n has to be run itself.
bool Planner::plan_node(size_t n) {
  const Node& node = *graph_.nodes[n];
  const Operator& op = *program_.operators_[n];
  if (const Signature* signature = program_.signatures_[n]) {
    std::vector<DType>& types = room_.types;
    types.clear();
    for (const Value* value : node.inputs) {
      types.push_back(value == nullptr ? DType::kUndefined : known(value).desc.type);
    }
    const std::string wrong = why_not_inputs(*signature, node, types);
    if (!wrong.empty()) {
      invalid(node.label() + ": " + wrong);
    }
  }
  const auto is_known = [&](const Value* value) {
    return value == nullptr || known(value).content != nullptr;
  };
  const bool all_known = std::all_of(node.inputs.begin(), node.inputs.end(), is_known) &&
                         std::all_of(node.implicit.begin(), node.implicit.end(), is_known) && op.pure;
  if (op.prepare == nullptr) {
    if (!all_known || !node.subgraphs.empty()) {
      stop(n, nullptr);
      return false;
    }
    std::vector<RunNode::Input> inputs;
    for (const Value* value : node.inputs) {
      inputs.push_back(value == nullptr ? RunNode::Input{}
                                        : RunNode::Input{known(value).desc, known(value).content->data});
    }
    const TextScope texts;
    RunNode run(&program_, node, std::move(inputs), {});
    op.run(run);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.out(o) != nullptr) {
        Known& known = this->known(node.out(o));
        if (run.results[o] == nullptr) {
          fail(node.label() + " did not give its output " + std::to_string(o));
        }
        known.content = own_texts(run.results[o]);
        known.desc = {known.content->type, known.content->dims, Layout::kPlain};
        known.storages.clear();
      }
    }
    return true;
  }

  PrepareNode prepare(this, node, op);
  Kernel kernel;
  try {
    kernel = op.prepare(prepare);
    if (program_.originals_ != nullptr) program_.originals_->pack(node, op);
  } catch (const NeedsContent& needs) {
    stop(n, op.run != nullptr ? nullptr : node.inputs[static_cast<size_t>(needs.input)]);
    return false;
  }

  auto& outs = prepare.outs();
  bool given = true;
  size_t total = 0;
  for (size_t o = 0; o < outs.size(); ++o) {
    if (node.out(o) == nullptr) {
      total += outs[o].declared ? outs[o].desc.bytes() : 0;
      continue;
    }
    if (!outs[o].declared) {
      fail(node.label() + " did not say what its output " + std::to_string(o) + " is");
    }
    given = given && outs[o].content != nullptr;
    total += outs[o].desc.bytes();
  }
  if (given) {
    for (size_t o = 0; o < outs.size(); ++o) {
      if (node.out(o) != nullptr) {
        known(node.out(o)) = {outs[o].desc, outs[o].content, {}};
      }
    }
    return true;
  }
  // What is computed from shapes alone is computed now, unless it is large.
  bool plain = true;
  for (const PlannedOutput& output : outs) {
    plain = plain && output.desc.layout == Layout::kPlain;
  }
  if (all_known && plain && total <= kMaxPlannedBytes) {
    std::vector<void*> in, out;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != nullptr && prepare.descs()[i].layout != Layout::kPlain) {
        plain = false;
      }
      in.push_back(node.inputs[i] == nullptr ? nullptr
                                             : const_cast<void*>(known(node.inputs[i]).content->data));
    }
    if (plain) {
      const TextScope texts;
      std::vector<TensorPtr> results(outs.size());
      for (size_t o = 0; o < outs.size(); ++o) {
        if (node.out(o) != nullptr && outs[o].alias >= 0) {
          const TensorPtr& from = known(node.inputs[static_cast<size_t>(outs[o].alias)]).content;
          results[o] = make_tensor(outs[o].desc.type, outs[o].desc.dims);
          if (results[o]->bytes() > 0) {
            std::memcpy(mutable_data(results[o]), from->as<char>() + outs[o].offset, results[o]->bytes());
          }
        } else if (node.out(o) != nullptr || outs[o].declared) {
          results[o] = make_tensor(outs[o].desc.type, outs[o].desc.dims);
        }
        out.push_back(results[o] == nullptr ? nullptr : mutable_data(results[o]));
      }
      if (kernel != nullptr) {
        const std::shared_ptr<void> scratch = allocate(prepare.scratch_bytes());
        kernel(Args(in.data(), in.size(), out.data(), out.size(), scratch.get()));
      }
      for (size_t o = 0; o < outs.size(); ++o) {
        if (node.out(o) != nullptr) {
          known(node.out(o)) = {outs[o].desc, own_texts(results[o]), {}};
        }
      }
      return true;
    }
  }

  std::vector<uint32_t>&in = room_.in, &out = room_.out;
  in.clear();
  out.clear();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    in.push_back(node.inputs[i] == nullptr ? 0 : storage_of(node.inputs[i], prepare.descs()[i].layout));
  }
  for (size_t o = 0; o < outs.size(); ++o) {
    const Value* value = node.out(o);
    if (value == nullptr) {
      // Nobody reads it, but the kernel writes what its operator declared.
      Storage storage;
      storage.place = Storage::kArena;
      storage.bytes = outs[o].desc.bytes();
      out.push_back(outs[o].declared && kernel != nullptr ? add(storage) : 0);
      continue;
    }
    Known& known = this->known(value);
    known.desc = std::move(outs[o].desc);
    known.content = outs[o].content;
    known.storages.clear();
    Storage storage;
    storage.bytes = known.desc.bytes();
    int inside = outs[o].alias;
    if (known.content != nullptr) {
      storage.place = Storage::kConstant;
      storage.tensor = known.content;
    }
    for (size_t k = 0; known.content == nullptr && inside < 0 && k < outs[o].in_place.size(); ++k) {
      const size_t i = static_cast<size_t>(outs[o].in_place[k]);
      const Value* input = node.inputs.at(i);
      // Nor may another input be a part of the same memory.
      const auto same = [&](uint32_t storage) { return root(storage) == root(in[i]); };
      if (input != nullptr && std::count_if(in.begin(), in.end(), same) == 1 && dies(input) &&
          prepare.descs()[i].bytes() == storage.bytes &&
          prepare.descs()[i].layout == this->known(input).storages[0].layout) {
        inside = static_cast<int>(i);
      }
    }
    if (known.content == nullptr) {
      if (inside >= 0) {
        const uint32_t part_of = in.at(static_cast<size_t>(inside));
        const Storage& whole = plan_->storages[part_of];
        const size_t offset = outs[o].alias >= 0 ? outs[o].offset : 0;
        if (outs[o].alias >= 0 && offset + storage.bytes > whole.bytes) {
          fail(node.label() + " renames more memory than its input has");
        }
        storage.place = Storage::kInside;
        storage.index = root(part_of);
        storage.offset = offset + (whole.place == Storage::kInside ? whole.offset : 0);
      } else {
        storage.place = Storage::kArena;
      }
    }
    const uint32_t made = add(storage);
    known.storages.push_back({known.desc.layout, made});
    add_tenant(made, value);
    out.push_back(made);
  }
  if (kernel != nullptr) {
    add_step(std::move(kernel), in, out, prepare.scratch_bytes(), &node);
    plan_->steps.back().method = prepare.method_name();
  } else {
    for (size_t o = 0; o < outs.size(); ++o) {
      if (node.out(o) != nullptr && outs[o].alias < 0 && outs[o].content == nullptr) {
        fail(node.label() + " has neither a kernel nor an alias for its output " + std::to_string(o));
      }
    }
  }
  return true;
}

void Planner::stop(size_t n, const Value* needed) {
  barrier_ = std::make_unique<Plan::Barrier>();
  barrier_->node = n;
  barrier_->needed = needed;
  barrier_->inputs.reserve(
      needed != nullptr ? 1 : graph_.nodes[n]->inputs.size() + graph_.nodes[n]->implicit.size());
  const auto read = [&](const Value* value) {
    Plan::Source source;
    if (value == nullptr) {
      source.missing = true;
    } else {
      source.storage = storage_of(value, Layout::kPlain);
      const Known& is = known(value);
      source.desc = is.desc;
      source.desc.layout = Layout::kPlain;
      source.content = is.content;
      plan_->storages[root(source.storage)].last = kForever;
    }
    barrier_->inputs.push_back(std::move(source));
  };
  if (needed != nullptr) {
    read(needed);
    return;
  }
  for (const Value* value : graph_.nodes[n]->inputs) read(value);
  for (const Value* value : graph_.nodes[n]->implicit) read(value);
}

std::shared_ptr<Plan> Planner::build() {
  for (; at_ < graph_.nodes.size(); ++at_) {
    try {
      if (!plan_node(at_)) {
        break;
      }
    } catch (const Error& error) {
      // Most messages name the node already: those of kernels that fail in the depths do not.
      const std::string label = graph_.nodes[at_]->label();
      if (std::string(error.what()).find(label) != std::string::npos) {
        throw;
      }
      throw Error(error.code(), label + ": " + error.what());
    }
  }
  bind_outputs();
  if (barrier_ != nullptr) leave();
  lay_out();
  return plan_;
}

// Binds the outputs that are there.
void Planner::bind_outputs() {
  for (size_t o = 0; o < graph_.outputs.size(); ++o) {
    if (bound_[o]) continue;
    const Value* value = graph_.outputs[o];
    const Known& known = this->known(value);
    if (known.content == nullptr && known.storages.empty()) {
      if (barrier_ == nullptr) {
        fail("the output '" + value->name + "' is not computed");
      }
      continue;
    }
    bound_[o] = true;
    const uint32_t plain = storage_of(value, Layout::kPlain), base = root(plain);
    Desc desc = known.desc;
    desc.layout = Layout::kPlain;
    Storage& at = plan_->storages[base];
    if (at.place == Storage::kArena && at.bytes == desc.bytes() &&
        (base == plain || plan_->storages[plain].offset == 0)) {
      at.place = Storage::kOutput;
      at.index = static_cast<uint32_t>(o);
      plan_->outputs.push_back({at.index, desc, base});
      continue;
    }
    Storage storage;
    storage.place = Storage::kOutput;
    storage.index = static_cast<uint32_t>(o);
    storage.bytes = desc.bytes();
    const size_t bytes = storage.bytes;
    const uint32_t to = add(storage);
    plan_->outputs.push_back({storage.index, desc, to});
    add_step(
        [bytes](const Args& args) {
          if (bytes > 0) {
            std::memcpy(args.out<void>(), args.in<void>(0), bytes);
          }
        },
        {plain}, {to}, 0, nullptr);
  }
}

// Hands on to the rest what it reads.
void Planner::leave() {
  Plan::Barrier& barrier = *barrier_;
  const size_t begin = barrier.needed == nullptr ? barrier.node + 1 : barrier.node;
  room_.for_each_known([&](const Value* value, const Known& known) {
    if (program_.read_until_[value->index] > begin && value->constant == nullptr &&
        (known.content != nullptr || !known.storages.empty())) {
      barrier.known.emplace_back(value->index, known);
    }
  });
  std::sort(barrier.known.begin(), barrier.known.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [index, known] : barrier.known) {
    if (known.content != nullptr) {
      known.storages.clear();  // The rest has the content itself.
    }
    for (auto& [layout, storage] : known.storages) {
      Storage& at = plan_->storages[root(storage)];
      at.last = kForever;
      barrier.handed.push_back(storage);
      barrier.bytes.push_back(plan_->storages[storage].bytes);
      storage = static_cast<uint32_t>(barrier.handed.size() - 1);
    }
  }
  barrier.bound = bound_;
  barrier.key = describe(barrier);
  plan_->barrier = std::move(barrier_);
}

}  // namespace ephost::cpu
