/* Copies from one layout to another. */
#include <algorithm>

#include "cuda/planner.h"

namespace ephost::cuda {

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
    unsupported("cuda: a copy has too many dimensions or elements");
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

}  // namespace ephost::cuda
