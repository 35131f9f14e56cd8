/* Chains of elementwise operators: what waits to be emitted, and the kernel that a chain becomes. */
#include <algorithm>

#include "cuda/operator.h"

namespace ephost::cuda {

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
    unsupported("cuda: " + chain.label + " broadcasts along too many dimensions");
  }
  const int64_t count = ephost::count(chain.dims);
  const bool flat = sizes.size() == 1;
  /* How many elements a thread takes at once: a vector of 16 bytes, or of 8 where only that fits. */
  int64_t width = 16 / static_cast<int64_t>(size_of(chain.type));
  if (!flat && width == 8 && sizes[0] % 8 != 0) {
    width = 4;
  }
  if (count > INT32_MAX) {
    unsupported("cuda: " + chain.label + " makes a tensor of more than 2^31 elements");
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
        unsupported("cuda: " + chain.label + " reads a tensor that is too large");
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
  const size_t size = size_of(chain.type);
  const uintptr_t boundary = static_cast<uintptr_t>(width) * size;
  const CUfunction fast = kernel((flat             ? "chain_flat_"
                                  : boundary == 16 ? "chain_wide_"
                                                   : "chain_four_") +
                                 type);
  const uint32_t total = static_cast<uint32_t>(count), lanes = static_cast<uint32_t>(width);
  step([=, num = chain.operands.size()](const Launch& launch) {
    ChainArguments now = args;
    bool aligned = true;
    for (size_t k = 0; k < num; ++k) {
      now.operands[k].data = launch.address(places[k]);
      aligned = aligned && (now.operands[k].strides[0] == 0 ||
                            reinterpret_cast<uintptr_t>(now.operands[k].data) % boundary == 0);
    }
    now.out = launch.address(out);
    aligned = aligned && reinterpret_cast<uintptr_t>(now.out) % boundary == 0;
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

}  // namespace ephost::cuda
