#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "cuda/dnn.h"
#include "cuda/operators/checks.h"
#include "cuda/operators/epilogue.h"
#include "cuda/operators/geometry.h"
#include "cuda/operators/windows.h"

namespace ephost::cuda {

namespace {

/* How long a convolution takes, on memory that belongs to nobody; infinitely long where there is no room. */
double seconds_of(Planner& planner, const Dnn::Conv& conv, std::array<size_t, 3> bytes) {
  Pool& pool = planner.pool();
  std::vector<CUdeviceptr> blocks;
  const auto take = [&](size_t size) {
    const CUdeviceptr address = pool.allocate(size, nullptr);
    if (address != 0) {
      blocks.push_back(address);
    }
    return reinterpret_cast<void*>(address);
  };
  Device& device = planner.device();
  double least = std::numeric_limits<double>::infinity();
  const auto end = [&] {
    for (CUdeviceptr block : blocks) {
      pool.release(block);
    }
  };
  try {
    void *in = take(bytes[0]), *weights = take(bytes[1]), *out = take(bytes[2]),
         *room = take(conv.workspace());
    const CUstream lane = device.lane_for_copies();
    for (int i = 0; i < 4 && blocks.size() == 4; ++i) { /* the first is for what is loaded then */
      const auto start = std::chrono::steady_clock::now();
      conv.run(lane, in, weights, out, room);
      device.check(device.driver().cuStreamSynchronize(lane), "try a convolution");
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      least = i == 0 ? least : std::min(least, seconds);
    }
  } catch (const Error&) { /* it is none to take */
    least = std::numeric_limits<double>::infinity();
  }
  end();
  return least;
}

void plan_conv(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *weights = node.in(1), *bias = node.in(2);
  const Dims dims = planner.dims(in), filter = planner.dims(weights);
  if (dims.size() < 3 || filter.size() != dims.size()) {
    invalid("weights of another rank than the input");
  }
  const std::vector<Slide> slides = slides_of(node, dims, {filter.begin() + 2, filter.end()});
  const Slide &y = slides[0], &x = slides[1];
  for (const Slide& slide : slides) {
    if ((slide.window - 1) * slide.dilation >= slide.size + slide.before + slide.after) {
      invalid("a window larger than the image");
    }
  }
  const int64_t group = node.i("group", 1);
  if (group <= 0 || dims[1] != filter[1] * group || filter[0] % group != 0) {
    invalid("weights " + to_string(filter) + " do not fit the input " + to_string(dims));
  }
  if (bias != nullptr && planner.dims(bias) != Dims{filter[0]}) {
    invalid("a bias " + to_string(planner.dims(bias)) + " for " + std::to_string(filter[0]) + " channels");
  }
  Dims out = {dims[0], filter[0]};
  if (dims.size() == 4) {
    out.push_back(y.out);
  }
  out.push_back(x.out);
  ConvArguments args = {};
  args.count = ephost::count(out);
  args.channels = narrow(dims[1]), args.out_channels = narrow(filter[0]), args.group = narrow(group);
  args.height = narrow(y.size), args.width = narrow(x.size);
  args.out_height = narrow(y.out), args.out_width = narrow(x.out);
  args.window_y = narrow(y.window), args.window_x = narrow(x.window);
  args.stride_y = narrow(y.stride), args.stride_x = narrow(x.stride);
  args.pad_y = narrow(y.before), args.pad_x = narrow(x.before);
  args.dilation_y = narrow(y.dilation), args.dilation_x = narrow(x.dilation);
  const Place from = planner.read(in), of = planner.read(weights);
  std::shared_ptr<Dnn::Conv> conv;
  if (Dnn* dnn = args.count == 0 ? nullptr : planner.libraries().dnn()) {
    const size_t size = size_of(planner.type(in));
    const auto bytes = [&](const Dims& shape) { return static_cast<size_t>(ephost::count(shape)) * size; };
    const auto seconds = [&](const Dnn::Conv& each) {
      return seconds_of(planner, each, {bytes(dims), bytes(filter), bytes(out)});
    };
    conv = dnn->convolution(
        {planner.type(in), dims[0], args, narrow(y.after), narrow(x.after), planner.options().use_tf32},
        planner.options().tries_convolutions ? std::function<double(const Dnn::Conv&)>(seconds) : nullptr);
  }
  /* Behind cuDNN the bias is the first link of the chain: it is added where the result is read anyway. */
  const bool later = bias != nullptr && conv != nullptr;
  const Place add = bias != nullptr && !later ? planner.read(bias) : Place();
  const Value* target = before_posts(planner, node, later);
  const Place to = planner.write(target, out);
  const Place room = conv != nullptr ? planner.scratch(conv->workspace()) : Place();
  const CUfunction function = planner.kernel(std::string("conv_") + suffix(planner.type(in)));
  if (args.count > 0) {
    planner.step([=](const Launch& launch) {
      ConvArguments now = args;
      now.in = launch.address(from);
      now.weights = launch.address(of);
      now.bias = launch.address(add);
      now.out = launch.address(to);
      const uintptr_t all = reinterpret_cast<uintptr_t>(now.in) | reinterpret_cast<uintptr_t>(now.weights) |
                            reinterpret_cast<uintptr_t>(now.out);
      if (conv != nullptr && all % static_cast<uintptr_t>(Dnn::Conv::kAlignment) == 0) {
        conv->run(launch.stream, now.in, now.weights, now.out, launch.address(room));
      } else {
        launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
      }
    });
  }
  plan_posts(planner, node, target, 3, later ? bias : nullptr);
}

const Registered kRegistered({
    {.type = "Conv", .supports = window, .plan = plan_conv},
    {.domain = "ephost", .type = "Conv", .supports = window, .plan = plan_conv},
});

}  // namespace

}  // namespace ephost::cuda
