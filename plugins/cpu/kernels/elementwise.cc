#include <cmath>
#include "kernels.h"
namespace ephost::cpu {
namespace {
Kernel relu(Prepare& p) {
  const Desc in = p.in(0);
  p.out(0, in.type, in.dims, in.layout);
  p.in_place(0, 0);
  const int64_t n = in.stored();
  return [n](const Args& args) {
    const float* x = args.in<float>(0);
    float* y = args.out<float>(0);
    parallel_for(n, kGrain, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) y[i] = x[i] > 0 ? x[i] : x[i] == x[i] ? 0 : x[i];
    });
  };
}
}  // namespace
void add_elementwise(Registry* registry) {
  registry->add({.type = "Relu", .prepare = relu, .types = {DType::kFloat}, .any_layout = true});
}
}  // namespace ephost::cpu
