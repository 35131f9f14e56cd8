#include "cuda/program.h"

#include <algorithm>
#include <cstring>

#include "cuda/planner.h"

namespace ephost::cuda {

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
  for (const Recording& recording : recordings) {
    (void)pool->device().driver().cuGraphExecDestroy(recording.graph);
  }
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
    throw Error(ORT_EP_FAIL, "cuda: " + device_.label() + " has no room for " + what + " of " +
                                 size_text(bytes) + ": " + pool_.state());
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
  std::vector<char> bytes(desc.bytes());
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

namespace {

/* A launch costs the host some microseconds whatever it launches; recording pays from a few on. */
constexpr size_t kFewestSteps = 4, kMostRecordings = 4;

}  // namespace

/* The launches of all steps as one; NULL where something in them cannot be recorded. */
CUgraphExec Program::record(const Plan& plan, const Launch& launch, Stream& stream) {
  const Driver& driver = device_.driver();
  if (!device_.begin_recording(stream)) {
    return nullptr;
  }
  bool whole = true;
  try {
    for (const Step& step : plan.steps) {
      step.run(launch);
    }
  } catch (const std::exception&) { /* the run that follows says what is wrong, if anything is */
    whole = false;
  }
  CUgraph graph = nullptr;
  CUgraphExec made = nullptr;
  if (driver.cuStreamEndCapture(launch.stream, &graph) == CUDA_SUCCESS && graph != nullptr) {
    if (!whole || driver.cuGraphInstantiate(&made, graph, 0) != CUDA_SUCCESS) {
      made = nullptr;
    }
    (void)driver.cuGraphDestroy(graph);
  }
  return made;
}

/* Whether the run's launches were queued as one: its addresses are those of an earlier run. They repeat with
 * bound values, and mostly also with what the pool hands out. */
bool Program::launch_recorded(Plan& plan, const Launch& launch, Stream& stream) {
  if (!options_.records || options_.synchronize_each_step || plan.steps.size() < kFewestSteps) {
    return false;
  }
  if (device_.is_recorded(launch.stream)) {
    return false; /* by the program, a stream of its own */
  }
  std::vector<CUdeviceptr> addresses = launch.inputs;
  addresses.insert(addresses.end(), launch.outputs.begin(), launch.outputs.end());
  addresses.push_back(launch.arena);
  const std::lock_guard<std::mutex> hold(plan.lock);
  if (!plan.records) {
    return false;
  }
  ++plan.runs;
  std::vector<Recording>& known = plan.recordings;
  auto found = std::find_if(known.begin(), known.end(),
                            [&](const Recording& each) { return each.addresses == addresses; });
  if (found == known.end()) {
    const auto before = std::find(plan.seen.begin(), plan.seen.end(), addresses);
    if (before == plan.seen.end()) {
      if (plan.seen.size() == kMostRecordings) {
        plan.seen.erase(plan.seen.begin());
      }
      plan.seen.push_back(std::move(addresses));
      return false;
    }
    plan.seen.erase(before);
    CUgraphExec graph = record(plan, launch, stream);
    if (graph == nullptr) {
      plan.records = false;
      return false;
    }
    if (known.size() == kMostRecordings) {
      const auto oldest =
          std::min_element(known.begin(), known.end(),
                           [](const Recording& a, const Recording& b) { return a.last_used < b.last_used; });
      (void)device_.driver().cuGraphExecDestroy(oldest->graph); /* once it has run, if it runs now */
      known.erase(oldest);
    }
    known.push_back({std::move(addresses), graph, 0});
    found = std::prev(known.end());
  }
  found->last_used = plan.runs;
  device_.check(device_.driver().cuGraphLaunch(found->graph, launch.stream), "launch a recorded run");
  return true;
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
      throw Error(ORT_EP_FAIL, "cuda: " + device_.label() + " has no room for the " + size_text(plan->arena) +
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
  bool done = false;
  try {
    done = launch_recorded(*plan, launch, stream);
  } catch (...) {
    free_arena();
    throw;
  }
  if (done) {
    free_arena();
    return;
  }
  const Step* current = nullptr;
  try {
    for (const Step& step : plan->steps) {
      current = &step;
      step.run(launch);
      if (options_.synchronize_each_step) {
        device_.check(device_.driver().cuStreamSynchronize(stream.handle()), "finish");
      }
    }
  } catch (const Error& error) {
    free_arena();
    throw Error(error.code(), current->label + ": " + error.what());
  }
  free_arena();
}

}  // namespace ephost::cuda
