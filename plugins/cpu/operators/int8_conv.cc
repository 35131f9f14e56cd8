// ConvInteger and QLinearConv: convolutions of 8-bit integers. See engines/int8/int8_conv.h.
#include "cpu/engines/int8/int8_conv.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

Kernel conv_integer(Prepare& p) {
  const Convolution c = convolution_of(p, 0, 1, 2, 3);
  p.out(0, DType::kInt32, c.out, Layout::kChannelsLast);
  return [outputs = c.outputs, convolve = make_int8_convolution(p, c)](const Args& args) {
    convolve(args, nullptr, {.outputs = outputs, .sums = args.out<int32_t>(0)});
  };
}

// x, scale, zero, w, scale, zero, scale of y, zero of y, bias as int32.
Kernel qlinear_conv(Prepare& p) {
  p.expect(p.node.i("channels_last", 0) == 0, "channels come first");
  const Convolution c = convolution_of(p, 0, 3, 2, 5);
  const DType to = p.type(7);
  const int64_t w_scales = p.in(4).count(), outputs = c.outputs;
  const bool biased = p.has(8);
  p.expect(is_single(p, 1) && is_single(p, 6) && is_single(p, 7) && (w_scales == 1 || w_scales == outputs) &&
               (!biased || p.in(8).count() == outputs),
           "scales or bias do not fit the channels");
  p.out(0, to, c.out, Layout::kChannelsLast);
  // Sums to bytes; the vector is where the scales lie.
  const auto as_bytes = [to, w_scales](const Args& args, std::vector<float>* scales) {
    const float x_scale = *args.in<float>(1), y_scale = *args.in<float>(6);
    for (int64_t i = 0; i < w_scales; ++i) scales->push_back(x_scale * args.in<float>(4)[i] / y_scale);
    return Quantized::Bytes{scales->data(), w_scales == 1 ? 0 : 1, zero_of(to, args.in<void>(7)), lowest(to),
                            highest(to)};
  };
  const auto bias_of = [biased](const Args& args) { return biased ? args.in<int32_t>(8) : nullptr; };
  return [convolve = make_int8_convolution(p, c), as_bytes, bias_of, outputs](const Args& args) {
    std::vector<float> scales;
    convolve(args, bias_of(args),
             {.outputs = outputs, .bytes = args.out<uint8_t>(0), .as = as_bytes(args, &scales)});
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  const auto add = [&](const char* type, std::function<Kernel(Prepare&)> prepare,
                       std::vector<size_t> single) {
    registry->add({.type = type,
                   .supports = [single](const Node& node) { return not_single(node, single); },
                   .prepare = std::move(prepare),
                   .types = kBytesAndSums,
                   .any_layout = true});
  };
  add("ConvInteger", conv_integer, {2});
  add("QLinearConv", qlinear_conv, {1, 2, 6, 7});
});

}  // namespace ephost::cpu
