#include "program.h"

#include <algorithm>
#include <cstring>

#include "../compiler/half.h"

namespace ephost_cuda {

namespace {

size_t bytes_of(const Desc& desc) {
  return static_cast<size_t>(ephost::count(desc.dims)) * size_of(desc.type);
}

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
    throw Error("cuda: a tensor of " + std::to_string(count) + " elements is too large", ORT_NOT_IMPLEMENTED);
  }
  return static_cast<uint32_t>(blocks);
}

/* ---- A run's view -------------------------------------------------------------------------------------- */

void* Launch::address(const Place& place) const {
  CUdeviceptr base = 0;
  switch (place.kind) {
    case Place::kArena:
      base = arena + place.at;
      break;
    case Place::kInput:
      base = inputs[place.at];
      break;
    case Place::kOutput:
      base = outputs[place.at];
      break;
    case Place::kFixed:
      base = place.at;
      break;
    case Place::kNone:
      return nullptr;
  }
  return reinterpret_cast<void*>(base + place.offset);
}

void Launch::kernel(CUfunction function, dim3_t blocks, dim3_t threads, void* arguments) const {
  void* parameters[] = {arguments};
  device.check(device.driver().cuLaunchKernel(function, blocks.x, blocks.y, blocks.z, threads.x, threads.y,
                                              threads.z, 0, stream, parameters, nullptr),
               "launch a kernel");
}

Plan::~Plan() {
  for (CUdeviceptr constant : constants) {
    pool->release(constant);
  }
}

/* ---- The program --------------------------------------------------------------------------------------- */

Program::Program(std::unique_ptr<Graph> graph, Pool& pool, Libraries& libraries, const Options& options)
    : graph_(std::move(graph)),
      pool_(pool),
      device_(pool.device()),
      libraries_(libraries),
      options_(options) {
  try {
    bool uploaded = false;
    for (const auto& value : graph_->values) {
      const TensorPtr& tensor = value->constant;
      if (tensor == nullptr || (value->consumers.empty() && !value->is_output)) {
        continue;
      }
      const size_t bytes = tensor->bytes();
      if (bytes > 0) {
        weights_[value.get()] = upload(tensor->data, bytes, "the weight '" + value->name + "'");
        uploaded = true;
      }
      /* Shapes and the like are needed here too; of larger constants only the copy is. */
      const bool small = ephost::count(tensor->dims) <= 4096;
      if (small) {
        tensor->own();
      }
    }
    if (uploaded) {
      device_.check(device_.driver().cuStreamSynchronize(device_.lane_for_copies()),
                    "copy weights to the device");
    }
    for (const auto& value : graph_->values) {
      if (value->constant != nullptr && value->constant->owner == nullptr) {
        value->constant->data = nullptr; /* the host's: gone after this */
      }
    }
  } catch (...) {
    for (const auto& weight : weights_) {
      pool_.release(weight.second);
    }
    throw;
  }
}

Program::~Program() {
  for (const auto& weight : weights_) {
    try {
      pool_.release(weight.second);
    } catch (const std::exception&) {
      /* of a device that was lost */
    }
  }
}

CUdeviceptr Program::upload(const void* data, size_t bytes, const std::string& what) {
  const CUdeviceptr address = pool_.allocate(bytes, nullptr);
  if (address == 0) {
    throw Error("cuda: " + device_.label() + " has no room for " + what + " of " + size_text(bytes) + ": " +
                pool_.state());
  }
  const CUresult result = device_.driver().cuMemcpyHtoDAsync(address, data, bytes, device_.lane_for_copies());
  if (result != CUDA_SUCCESS) {
    pool_.release(address);
    device_.check(result, "copy " + what + " to the device");
  }
  return address;
}

std::vector<int64_t> Program::read_back(Io& io, size_t i, Stream& stream) {
  const Desc& desc = io.input(i);
  const size_t count = static_cast<size_t>(ephost::count(desc.dims));
  std::vector<int64_t> content(count);
  if (count == 0) {
    return content;
  }
  std::vector<char> bytes(bytes_of(desc));
  const Driver& driver = device_.driver();
  const std::string what = "read '" + input(i)->name + "'";
  device_.check(driver.cuMemcpyDtoHAsync(bytes.data(), io.input_data(i), bytes.size(), stream.handle()),
                what);
  device_.check(driver.cuStreamSynchronize(stream.handle()), what);
  for (size_t k = 0; k < count; ++k) {
    if (desc.type == DType::kInt64) {
      std::memcpy(&content[k], bytes.data() + k * sizeof(int64_t), sizeof(int64_t));
    } else {
      int32_t value = 0;
      std::memcpy(&value, bytes.data() + k * sizeof value, sizeof value);
      content[k] = value;
    }
  }
  return content;
}

std::shared_ptr<Plan> Program::plan_for(Io& io, Stream& stream) {
  std::vector<int64_t> shapes;
  std::vector<Desc> inputs;
  for (size_t i = 0; i < num_inputs(); ++i) {
    const Desc& desc = io.input(i);
    inputs.push_back(desc);
    shapes.push_back(static_cast<int64_t>(desc.dims.size()));
    shapes.insert(shapes.end(), desc.dims.begin(), desc.dims.end());
  }
  std::map<size_t, std::vector<int64_t>> contents;
  for (;;) {
    std::vector<size_t> wanted;
    {
      const std::lock_guard<std::mutex> hold(lock_);
      wanted = content_inputs_;
    }
    std::vector<int64_t> key = shapes;
    for (size_t i : wanted) {
      if (contents.count(i) == 0) {
        contents[i] = read_back(io, i, stream);
      }
      key.insert(key.end(), contents[i].begin(), contents[i].end());
    }
    const std::lock_guard<std::mutex> hold(lock_);
    if (wanted.size() != content_inputs_.size()) {
      continue; /* another thread found out more */
    }
    const auto found = plans_.find(key);
    if (found != plans_.end()) {
      return found->second;
    }
    try {
      std::shared_ptr<Plan> plan = Planner(*this, inputs, contents).make();
      if (plans_.size() >= 64) {
        plans_.clear(); /* runs that use one hold it */
      }
      return plans_[key] = plan;
    } catch (const NeedsContent& needs) {
      content_inputs_.push_back(needs.input);
      plans_.clear(); /* their keys lack the content */
    }
  }
}

void Program::run(Io& io, Stream& stream) {
  const std::shared_ptr<Plan> plan = plan_for(io, stream);
  Launch launch(device_, libraries_, stream.handle());
  for (size_t i = 0; i < num_inputs(); ++i) {
    launch.inputs.push_back(io.input_data(i));
  }
  for (size_t i = 0; i < plan->outputs.size(); ++i) {
    launch.outputs.push_back(io.output(i, plan->outputs[i]));
  }
  if (plan->arena > 0) {
    launch.arena = pool_.allocate(plan->arena, &stream);
    if (launch.arena == 0) {
      throw Error("cuda: " + device_.label() + " has no room for the " + size_text(plan->arena) +
                  " between the steps of " + plan->steps.front().label +
                  " and what follows: " + pool_.state());
    }
  }
  const auto free_arena = [&] {
    stream.mark();
    if (launch.arena != 0) {
      pool_.release(launch.arena);
    }
  };
  const Step* current = nullptr;
  try {
    for (const Step& step : plan->steps) {
      current = &step;
      step.run(launch);
      if (options_.synchronize_each_step) {
        device_.check(device_.driver().cuStreamSynchronize(stream.handle()), "finish");
      }
    }
  } catch (const ephost::Error& error) {
    free_arena();
    throw Error(current->label + ": " + error.what(), error.code());
  }
  free_arena();
}

/* ---- The planner --------------------------------------------------------------------------------------- */

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
    throw Error("cuda: '" + (value == nullptr ? std::string("an input") : value->name) + "' is not there");
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
        throw Error("cuda: '" + value->name + "' holds no integers");
      }
    }
    return contents_[value] = std::move(numbers);
  }
  for (size_t i = 0; i < program_.num_inputs(); ++i) {
    if (program_.input(i) == value && (what.type == DType::kInt64 || what.type == DType::kInt32)) {
      throw NeedsContent{i};
    }
  }
  throw Error(
      "cuda: the content of '" + value->name + "' is computed on the device, and needed to make a plan",
      ORT_NOT_IMPLEMENTED);
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
    const std::vector<ephost::Half> halves(numbers.begin(), numbers.end());
    storage->place = constant(halves.data(), halves.size() * sizeof(ephost::Half));
  } else {
    const std::vector<ephost::BFloat16> halves(numbers.begin(), numbers.end());
    storage->place = constant(halves.data(), halves.size() * sizeof(ephost::BFloat16));
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
    throw Error("cuda: '" + value->name + "' has no memory");
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
  storage->bytes = bytes_of(made);
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

Planner::Chain* Planner::pending(const Value* value) {
  const auto found = chains_.find(value);
  return found == chains_.end() ? nullptr : &found->second;
}

void Planner::end_chain(const Value* value, Chain chain, const Value* continued) {
  if (continued != nullptr) {
    chains_.erase(continued);
  }
  descs_[value] = {value->type, chain.dims};
  const Node* next = only_consumer(value);
  const Operator* op = next == nullptr ? nullptr : find_operator(*next);
  /* Room for what a consumer may add: a saved value and a step or two. */
  const bool room = chain.steps.size() + 3 <= kMaxSteps && chain.operands.size() < kMaxOperands;
  if (op != nullptr && op->elementwise && room) {
    chains_[value] = std::move(chain);
  } else {
    emit(value, chain);
  }
}

void Planner::emit(const Value* value, const Chain& chain) {
  const std::string label = label_;
  label_ = chain.label;
  ChainArguments args = {};
  /* Dimensions innermost first, merged where no operand minds. */
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides(chain.operands.size());
  for (size_t d = chain.dims.size(); d-- > 0;) {
    const int64_t size = chain.dims[d];
    if (size == 1) {
      continue;
    }
    std::vector<int64_t> own;
    for (const Value* operand : chain.operands) {
      const Dims& shape = dims(operand);
      const size_t behind = chain.dims.size() - d; /* dimensions from this one on */
      int64_t stride = 0;
      if (shape.size() >= behind && shape[shape.size() - behind] != 1) {
        stride = ephost::count(shape, shape.size() - behind + 1, shape.size());
      }
      own.push_back(stride);
    }
    bool merge = !sizes.empty();
    for (size_t k = 0; k < own.size() && merge; ++k) {
      merge = own[k] == strides[k].back() * sizes.back();
    }
    if (merge) {
      sizes.back() *= size;
      continue;
    }
    sizes.push_back(size);
    for (size_t k = 0; k < own.size(); ++k) {
      strides[k].push_back(own[k]);
    }
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    for (auto& list : strides) {
      list.push_back(0);
    }
  }
  if (sizes.size() > kMaxRank) {
    throw Error("cuda: " + chain.label + " broadcasts along too many dimensions", ORT_NOT_IMPLEMENTED);
  }
  const int64_t count = ephost::count(chain.dims);
  const bool flat = sizes.size() == 1;
  const int64_t width = 16 / static_cast<int64_t>(size_of(chain.type));
  if (count > INT32_MAX) {
    throw Error("cuda: " + chain.label + " makes a tensor of more than 2^31 elements", ORT_NOT_IMPLEMENTED);
  }
  if (count == 0) {
    (void)write(value, chain.dims);
    for (const Value* operand : chain.reads) {
      (void)read(operand);
      release(operand);
    }
    label_ = label;
    return;
  }
  std::vector<Place> places;
  bool wide = sizes[0] % width == 0;
  for (size_t k = 0; k < chain.operands.size(); ++k) {
    places.push_back(read(chain.operands[k]));
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (strides[k][d] > INT32_MAX) {
        throw Error("cuda: " + chain.label + " reads a tensor that is too large", ORT_NOT_IMPLEMENTED);
      }
      args.operands[k].strides[d] = static_cast<int32_t>(strides[k][d]);
      wide = wide && (d == 0 ? strides[k][d] <= 1 : strides[k][0] == 0 || strides[k][d] % width == 0);
    }
  }
  const Place out = write(value, chain.dims);
  args.rank = static_cast<int32_t>(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    args.dims[d] = divider(static_cast<uint32_t>(sizes[d]));
  }
  args.num_steps = static_cast<int32_t>(chain.steps.size());
  std::copy(chain.steps.begin(), chain.steps.end(), args.steps);
  const std::string type = suffix(chain.type);
  const CUfunction any = kernel("chain_any_" + type);
  const CUfunction fast = kernel((flat ? "chain_flat_" : "chain_wide_") + type);
  const size_t size = size_of(chain.type);
  const uint32_t total = static_cast<uint32_t>(count), lanes = static_cast<uint32_t>(width);
  step([=, num = chain.operands.size()](const Launch& launch) {
    ChainArguments now = args;
    bool aligned = true;
    for (size_t k = 0; k < num; ++k) {
      now.operands[k].data = launch.address(places[k]);
      aligned = aligned && (now.operands[k].strides[0] == 0 ||
                            reinterpret_cast<uintptr_t>(now.operands[k].data) % 16 == 0);
    }
    now.out = launch.address(out);
    aligned = aligned && reinterpret_cast<uintptr_t>(now.out) % 16 == 0;
    uint32_t done = 0;
    if (aligned && (flat || wide) && total >= lanes) {
      now.count = total / lanes;
      launch.kernel(fast, {(now.count + kBlock - 1) / kBlock, 1, 1}, {kBlock, 1, 1}, &now);
      done = now.count * lanes;
    }
    if (done < total) { /* what is left of a flat chain, or all of another */
      for (size_t k = 0; k < num; ++k) {
        const uint64_t by = now.operands[k].strides[0] != 0 ? uint64_t{done} * size : 0;
        now.operands[k].data = static_cast<const char*>(now.operands[k].data) + by;
      }
      now.out = static_cast<char*>(now.out) + uint64_t{done} * size;
      now.count = total - done;
      if (done > 0) {
        now.dims[0] = divider(now.count);
      }
      launch.kernel(any, {(now.count + kBlock - 1) / kBlock, 1, 1}, {kBlock, 1, 1}, &now);
    }
  });
  for (const Value* operand : chain.reads) {
    release(operand);
  }
  label_ = label;
}

void Planner::copy(const Place& from, const Place& to, size_t size, const Dims& dims,
                   const std::vector<int64_t>& from_strides, const std::vector<int64_t>& to_strides) {
  const int64_t count = ephost::count(dims);
  if (count == 0) {
    return;
  }
  std::vector<int64_t> sizes, sources, targets; /* innermost first, merged */
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) {
      continue;
    }
    if (!sizes.empty() && from_strides[d] == sources.back() * sizes.back() &&
        to_strides[d] == targets.back() * sizes.back()) {
      sizes.back() *= dims[d];
    } else {
      sizes.push_back(dims[d]);
      sources.push_back(from_strides[d]);
      targets.push_back(to_strides[d]);
    }
  }
  const bool whole = sizes.empty() || (sizes.size() == 1 && sources[0] == 1 && targets[0] == 1);
  if (whole) {
    const size_t bytes = static_cast<size_t>(count) * size;
    step([=](const Launch& launch) {
      launch.device.check(launch.device.driver().cuMemcpyDtoDAsync(
                              reinterpret_cast<CUdeviceptr>(launch.address(to)),
                              reinterpret_cast<CUdeviceptr>(launch.address(from)), bytes, launch.stream),
                          "copy on the device");
    });
    return;
  }
  if (sizes.size() > kMaxRank || count > INT32_MAX) {
    throw Error("cuda: a copy has too many dimensions or elements", ORT_NOT_IMPLEMENTED);
  }
  struct Form {
    CopyArguments args = {};
    CUfunction function = nullptr;
    int64_t units = 1;
    size_t unit = 0;
  };
  const auto form = [&](size_t unit) {
    Form made;
    made.unit = unit;
    made.args.rank = static_cast<int32_t>(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) {
      made.args.dims[d] = divider(static_cast<uint32_t>(sizes[d]));
      made.args.from_strides[d] = sources[d];
      made.args.to_strides[d] = targets[d];
      made.units *= sizes[d];
    }
    made.args.count = static_cast<uint32_t>(made.units);
    made.function = kernel("copy_u" + std::to_string(unit * 8));
    return made;
  };
  const Form narrow = form(size);
  /* Larger units where all that moves is made of them: runs along the innermost dimension. */
  size_t unit = size;
  const auto even = [](const std::vector<int64_t>& list) {
    return std::all_of(list.begin() + 1, list.end(), [](int64_t stride) { return stride % 2 == 0; });
  };
  while (unit < 16 && sources[0] == 1 && targets[0] == 1 && sizes[0] % 2 == 0 && even(sources) &&
         even(targets)) {
    sizes[0] /= 2;
    for (size_t d = 1; d < sizes.size(); ++d) {
      sources[d] /= 2;
      targets[d] /= 2;
    }
    unit *= 2;
  }
  const Form wide = form(unit);
  step([=](const Launch& launch) {
    const void* source = launch.address(from);
    void* target = launch.address(to);
    const uintptr_t both = reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(target);
    const Form& used = both % wide.unit == 0 ? wide : narrow;
    CopyArguments now = used.args;
    now.from = source;
    now.to = target;
    launch.kernel(used.function, {blocks_for(used.units), 1, 1}, {kBlock, 1, 1}, &now);
  });
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
      throw Error("cuda: " + label_ + " is not known");
    }
    try {
      op->plan(*this, *node);
    } catch (const ephost::Error& error) {
      throw Error(node->label() + ": " + error.what(), error.code());
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

}  // namespace ephost_cuda
