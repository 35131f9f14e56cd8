#include "cuda/planner.h"

#include <algorithm>

#include "cuda/operator.h"
#include "toolkit/half.h"

namespace ephost::cuda {

namespace {

constexpr size_t kAlignment = 256;

}  // namespace

Divider divider(uint32_t by) {
  uint32_t shift = 0;
  while (shift < 32 && (uint64_t{1} << shift) < by) {
    ++shift;
  }
  const uint64_t multiplier = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - by)) / by + 1;
  return {by, static_cast<uint32_t>(multiplier), shift};
}

const char* suffix(DType type) {
  return type == DType::kFloat ? "f32" : type == DType::kFloat16 ? "f16" : "bf16";
}

uint32_t blocks_for(int64_t count) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  if (blocks > INT32_MAX) {
    unsupported("cuda: a tensor of " + std::to_string(count) + " elements is too large");
  }
  return static_cast<uint32_t>(blocks);
}

Planner::Planner(Program& program, const std::vector<Desc>& inputs,
                 const std::map<size_t, std::vector<int64_t>>& contents)
    : program_(program), plan_(std::make_shared<Plan>()), given_(contents) {
  plan_->pool = &program.pool_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value* value = program.input(i);
    if (value->constant == nullptr) {
      descs_[value] = inputs[i];
      auto storage = std::make_shared<Storage>();
      storage->place = {Place::kInput, i, 0};
      storages_[value] = storage;
      const auto given = contents.find(i);
      if (given != contents.end()) {
        contents_[value] = given->second;
      }
    }
  }
  for (const auto& value : program.graph_->values) {
    if (value->constant != nullptr) {
      descs_[value.get()] = {value->constant->type, value->constant->dims};
    }
    uses_[value.get()] = value->consumers.size() + (value->is_output ? 1 : 0);
  }
}

const Desc& Planner::desc(const Value* value) const {
  const auto found = descs_.find(value);
  if (found == descs_.end()) {
    throw Error(ORT_EP_FAIL,
                "cuda: '" + (value == nullptr ? std::string("an input") : value->name) + "' is not there");
  }
  return found->second;
}

const std::vector<int64_t>& Planner::content(const Value* value) {
  const auto known = contents_.find(value);
  if (known != contents_.end()) {
    return known->second;
  }
  const Desc& what = desc(value);
  if (value->constant != nullptr && value->constant->data != nullptr) {
    const size_t count = static_cast<size_t>(ephost::count(what.dims));
    std::vector<int64_t> numbers(count);
    for (size_t i = 0; i < count; ++i) {
      if (what.type == DType::kInt64) {
        numbers[i] = value->constant->as<int64_t>()[i];
      } else if (what.type == DType::kInt32) {
        numbers[i] = value->constant->as<int32_t>()[i];
      } else {
        throw Error(ORT_EP_FAIL, "cuda: '" + value->name + "' holds no integers");
      }
    }
    return contents_[value] = std::move(numbers);
  }
  const Value* source = source_of(value);
  for (size_t i = 0; i < program_.num_inputs(); ++i) {
    if (program_.input(i) == source) {
      throw NeedsContent{i};
    }
  }
  unsupported("cuda: the content of '" + value->name +
              "' is computed on the device, and needed to make a plan");
}

/* An input of the graph whose content has to be read for that of the value, through nodes that then work on
 * the host; NULL where there is none. */
const Value* Planner::source_of(const Value* value) const {
  const bool integers = value != nullptr && (value->type == DType::kInt64 || value->type == DType::kInt32);
  if (!integers || value->constant != nullptr || contents_.count(value) != 0) {
    return nullptr;
  }
  if (value->producer == nullptr) {
    return value;
  }
  for (const Value* input : value->producer->inputs) {
    if (const Value* source = source_of(input)) {
      return source;
    }
  }
  return nullptr;
}

bool Planner::has_content(const Value* value) const {
  const DType type = desc(value).type;
  return contents_.count(value) != 0 || (value->constant != nullptr && value->constant->data != nullptr &&
                                         (type == DType::kInt64 || type == DType::kInt32));
}

const Value* Planner::constant(DType type, const Dims& dims, const std::vector<float>& numbers) {
  made_.push_back(std::make_unique<Value>());
  Value* value = made_.back().get();
  value->type = type;
  descs_[value] = {type, dims};
  auto storage = std::make_shared<Storage>();
  if (type == DType::kFloat) {
    storage->place = constant(numbers.data(), numbers.size() * sizeof(float));
  } else if (type == DType::kFloat16) {
    const std::vector<Half> halves(numbers.begin(), numbers.end());
    storage->place = constant(halves.data(), halves.size() * sizeof(Half));
  } else {
    const std::vector<BFloat16> halves(numbers.begin(), numbers.end());
    storage->place = constant(halves.data(), halves.size() * sizeof(BFloat16));
  }
  storages_[value] = storage;
  return value;
}

const Value* Planner::between(DType type) {
  made_.push_back(std::make_unique<Value>());
  made_.back()->type = type;
  uses_[made_.back().get()] = 1;
  return made_.back().get();
}

uint64_t Planner::take(size_t bytes) {
  const uint64_t size = std::max<uint64_t>((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  auto best = holes_.end();
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second >= size && (best == holes_.end() || hole->second < best->second)) {
      best = hole;
    }
  }
  if (best == holes_.end()) {
    uint64_t at = plan_->arena;
    if (!holes_.empty() && holes_.rbegin()->first + holes_.rbegin()->second == at) {
      at = holes_.rbegin()->first; /* the last hole grows */
      holes_.erase(std::prev(holes_.end()));
    }
    plan_->arena = at + size;
    return at;
  }
  const uint64_t at = best->first, rest = best->second - size;
  holes_.erase(best);
  if (rest > 0) {
    holes_[at + size] = rest;
  }
  return at;
}

void Planner::give_back(uint64_t at, size_t bytes) {
  const uint64_t size = std::max<uint64_t>((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  auto hole = holes_.emplace(at, size).first;
  const auto next = std::next(hole);
  if (next != holes_.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    holes_.erase(next);
  }
  if (hole != holes_.begin()) {
    const auto previous = std::prev(hole);
    if (previous->first + previous->second == hole->first) {
      previous->second += hole->second;
      holes_.erase(hole);
    }
  }
}

Place Planner::constant(const void* data, size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  const CUdeviceptr address = program_.upload(data, bytes, "a constant");
  plan_->constants.push_back(address);
  device().check(device().driver().cuStreamSynchronize(device().lane_for_copies()),
                 "copy a constant to the device");
  return {Place::kFixed, address, 0};
}

std::shared_ptr<Planner::Storage> Planner::storage(const Value* value) {
  const auto found = storages_.find(value);
  if (found != storages_.end()) {
    return found->second;
  }
  auto made = std::make_shared<Storage>();
  const auto weight = program_.weights_.find(value);
  const auto known = contents_.find(value);
  if (weight != program_.weights_.end()) {
    made->place = {Place::kFixed, weight->second, 0};
  } else if (known != contents_.end()) {
    /* A shape that was computed here, and that some operator reads on the device. */
    if (type(value) == DType::kInt64) {
      made->place = constant(known->second.data(), known->second.size() * sizeof(int64_t));
    } else {
      const std::vector<int32_t> narrow(known->second.begin(), known->second.end());
      made->place = constant(narrow.data(), narrow.size() * sizeof(int32_t));
    }
  } else if (ephost::count(dims(value)) != 0) {
    throw Error(ORT_EP_FAIL, "cuda: '" + value->name + "' has no memory");
  }
  return storages_[value] = made;
}

Place Planner::read(const Value* value) {
  const auto waiting = chains_.find(value);
  if (waiting != chains_.end()) {
    const Chain chain = std::move(waiting->second);
    chains_.erase(waiting);
    emit(value, chain);
  }
  return storage(value)->place;
}

Place Planner::write(const Value* value, const Dims& dims) {
  const Desc made{value->type, dims};
  descs_[value] = made;
  auto storage = std::make_shared<Storage>();
  storage->bytes = made.bytes();
  storage->uses = uses_[value];
  const auto& outputs = program_.graph_->outputs;
  const auto output = std::find(outputs.begin(), outputs.end(), value);
  if (output != outputs.end()) {
    storage->place = {Place::kOutput, static_cast<uint64_t>(output - outputs.begin()), 0};
  } else if (storage->bytes > 0) {
    storage->place = {Place::kArena, take(storage->bytes), 0};
    storage->in_arena = true;
  }
  storages_[value] = storage;
  return storage->place;
}

void Planner::alias(const Value* value, const Value* of, const Dims& dims) {
  (void)read(of);
  descs_[value] = {value->type, dims};
  const auto shared = storage(of);
  shared->uses += uses_[value];
  storages_[value] = shared;
}

void Planner::give(const Value* value, const Dims& dims, std::vector<int64_t> content) {
  descs_[value] = {value->type, dims};
  contents_[value] = std::move(content);
}

Place Planner::scratch(size_t bytes) {
  const uint64_t at = take(bytes);
  scratch_.emplace_back(at, bytes);
  return {Place::kArena, at, 0};
}

void Planner::step(std::function<void(const Launch&)> run) {
  plan_->steps.push_back({label_, std::move(run)});
}

/* One use of a value is over. */
void Planner::release(const Value* value) {
  const auto found = storages_.find(value);
  if (found == storages_.end()) {
    return; /* its content was all that was needed */
  }
  const std::shared_ptr<Storage> storage = found->second;
  if (storage->uses > 0 && --storage->uses == 0 && storage->in_arena) {
    give_back(storage->place.at, storage->bytes);
    storage->in_arena = false;
  }
}

void Planner::finish_outputs() {
  const auto& outputs = program_.graph_->outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value* value = outputs[i];
    const Place from = read(value);
    plan_->outputs.push_back(desc(value));
    if (from.kind == Place::kOutput && from.at == i && from.offset == 0) {
      continue;
    }
    const int64_t count = ephost::count(dims(value));
    label_ = "the output '" + value->name + "'";
    copy(from, {Place::kOutput, i, 0}, size_of(type(value)), {count}, {1}, {1});
  }
}

std::shared_ptr<Plan> Planner::make() {
  for (const Node* node : program_.graph_->nodes) {
    const Operator* op = find_operator(*node);
    label_ = node->label();
    if (op == nullptr) {
      throw Error(ORT_EP_FAIL, "cuda: " + label_ + " is not known");
    }
    try {
      op->plan(*this, *node);
    } catch (const Error& error) {
      throw Error(error.code(), node->label() + ": " + error.what());
    }
    if (!op->elementwise) { /* an elementwise operator's inputs are released with its chain */
      for (const Value* input : node->inputs) {
        if (input != nullptr) {
          release(input);
        }
      }
    }
    for (const auto& block : scratch_) {
      give_back(block.first, block.second);
    }
    scratch_.clear();
  }
  finish_outputs();
  return plan_;
}

}  // namespace ephost::cuda
