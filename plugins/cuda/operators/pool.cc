#include "cuda/operators/checks.h"
#include "cuda/operators/geometry.h"
#include "cuda/operators/windows.h"

namespace ephost::cuda {

namespace {

std::string pooling(const Node& node) {
  if (node.i("storage_order", 0) != 0) {
    return "column-major storage";
  }
  return window(node);
}

void plan_pool(Planner& planner, const Node& node) {
  const Value* in = node.in(0);
  const Dims dims = planner.dims(in);
  const std::vector<Slide> slides = slides_of(node, dims, node.ints("kernel_shape"));
  const Slide &y = slides[0], &x = slides[1];
  Dims out = {dims[0], dims[1]};
  if (dims.size() == 4) {
    out.push_back(y.out);
  }
  out.push_back(x.out);
  PoolArguments args = {};
  args.count = ephost::count(out);
  args.height = narrow(y.size), args.width = narrow(x.size);
  args.out_height = narrow(y.out), args.out_width = narrow(x.out);
  args.window_y = narrow(y.window), args.window_x = narrow(x.window);
  args.stride_y = narrow(y.stride), args.stride_x = narrow(x.stride);
  args.pad_y = narrow(y.before), args.pad_x = narrow(x.before);
  args.dilation_y = narrow(y.dilation), args.dilation_x = narrow(x.dilation);
  args.end_y = narrow(y.size + y.after), args.end_x = narrow(x.size + x.after);
  args.maximum = node.is("MaxPool");
  args.count_padding = node.i("count_include_pad", 0) != 0;
  const Place from = planner.read(in), to = planner.write(node.out(), out);
  step_for_each(planner, std::string("pool_") + suffix(planner.type(in)), args, from, to);
}

const Registered kRegistered({
    {.type = "AveragePool", .since = 7, .supports = pooling, .plan = plan_pool},
    {.type = "MaxPool", .supports = pooling, .plan = plan_pool},
});

}  // namespace

}  // namespace ephost::cuda
