// The convolutions of 8-bit integers that there are, and the list of ways to compute them.
#include "cpu/engines/int8/int8_conv.h"
#include "cpu/engines/int8/int8_winograd.h"

namespace ephost::cpu {

Convolution convolution_of(Prepare& p, int x, int w, int x_zero, int w_zero) {
  Convolution c;
  const Dims &from = p.dims(x), &weights = p.dims(w);
  c.groups = p.node.i("group", 1);
  p.expect(weights.size() >= 3 && from.size() == weights.size(),
           "input and weights have the same rank, at least 3");
  p.expect(weights.size() <= 10, "there are more than eight spatial dimensions");
  p.expect(count(from) < INT32_MAX && count(weights) < INT32_MAX, "the input or the weights are too large");
  p.expect(c.groups > 0 && from[1] % c.groups == 0 && from[1] / c.groups == weights[1] &&
               weights[0] % c.groups == 0,
           "the channels of input, weights and groups do not fit each other");
  c.window = window_of(p.node, from, Dims(weights.begin() + 2, weights.end()));
  c.batch = from[0];
  c.channels = from[1];
  c.outputs = weights[0];
  c.taps = count(c.window.kernel);
  c.k = count(weights, 1, weights.size());
  p.expect(c.k > 0, "there are no channels or no taps to sum");
  c.in_size = count(c.window.in);
  c.out_size = count(c.window.out);
  c.out = {c.batch, c.outputs};
  c.out.insert(c.out.end(), c.window.out.begin(), c.window.out.end());
  c.x = x;
  c.w = w;
  c.x_zero = p.has(x_zero) ? x_zero : -1;
  c.w_zero = p.has(w_zero) ? w_zero : -1;
  c.x_type = p.type(x);
  c.w_type = p.type(w);
  p.expect(c.x_zero < 0 || is_single(p, c.x_zero), "the input has one zero point");
  if (c.w_zero >= 0) {
    c.w_zeros = p.in(c.w_zero).count();
    p.expect(c.w_zeros == 1 || c.w_zeros == c.outputs,
             "there is not one zero point of the weights, or one for each channel");
  }
  p.expect(count(c.out) < INT32_MAX, "the output is too large");
  const Window& win = c.window;
  c.pixels_alone = c.taps == 1 && c.groups == 1;
  for (size_t d = 0; d < win.rank(); ++d) {
    c.pixels_alone = c.pixels_alone && win.strides[d] == 1 && win.begin[d] == 0 && win.in[d] == win.out[d];
  }
  return c;
}
namespace {

bool fits_lines(const Convolution& c) { return c.depthwise(); }

Int8Kernel make_lines(Prepare& p, const Convolution& c) {
  return [lines = Depthwise(p, c)](const Args& args, const int32_t* bias, const Int8Output& out) {
    if (out.bytes != nullptr) {
      lines.run(args, out.as, bias, out.bytes);
    } else {
      lines.run(args, out.sums);
    }
  };
}

Int8Kernel make_winograd(Prepare& p, const Convolution& c) {
  const std::shared_ptr<const Int8Winograd> winograd = Int8Winograd::make(p, c);
  if (winograd == nullptr) return nullptr;
  return [winograd](const Args& args, const int32_t* bias, const Int8Output& out) {
    winograd->run(args, bias,
                  [&](int64_t element, int64_t channel, int rows, int64_t n, const int32_t* sums,
                      int64_t stride) { out.store(element, channel, rows, n, sums, stride); });
  };
}

bool fits_all(const Convolution&) { return true; }

constexpr Int8ConvImplementation kImplementations[] = {
    {"lines", fits_lines, make_lines},
    {"winograd", Int8Winograd::fits, make_winograd},
    {"bytes", fits_all, byte_products},
    {"16-bit", fits_all, wide_products},
};

}  // namespace

Int8Kernel make_int8_convolution(Prepare& p, const Convolution& c) {
  for (const Int8ConvImplementation& each : kImplementations) {
    if (!each.fits(c)) continue;
    if (Int8Kernel kernel = each.make(p, c)) {
      p.method(each.name);
      return kernel;
    }
  }
  fail(p.node.label() + ": no implementation makes a kernel");
}

}  // namespace ephost::cpu
