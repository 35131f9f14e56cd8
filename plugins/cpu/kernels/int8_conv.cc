// Convolutions of 8-bit integers. Sums are exact; see int8.h.
//
// Channels lie last, in the input and in the output: the elements of a window are a few pieces of memory
// then, which become one row of a matrix product (a few pixels at a time, in scratch memory), and output
// channels its columns. A convolution of each channel on its own (depthwise) is in int8_depthwise.cc.
#include "int8_conv.h"

#include <cstring>

#include "kernels.h"

namespace ephost::cpu {

Convolution convolution_of(Prepare& p, int x, int w, int x_zero, int w_zero) {
  Convolution c;
  const Dims &from = p.dims(x), &weights = p.dims(w);
  c.groups = p.node.i("group", 1);
  p.expect(weights.size() >= 3 && from.size() == weights.size(),
           "input and weights have the same rank, at least 3");
  p.expect(weights.size() <= 10, "there are more than eight spatial dimensions");
  p.expect(count(from) < INT32_MAX && count(weights) < INT32_MAX, "the input or the weights are too large");
  p.expect(c.groups > 0 && from[1] == weights[1] * c.groups && weights[0] % c.groups == 0,
           "the channels of input, weights and groups do not fit each other");
  c.window = window_of(p.node, from, Dims(weights.begin() + 2, weights.end()));
  c.batch = from[0];
  c.channels = from[1];
  c.outputs = weights[0];
  c.taps = count(c.window.kernel);
  c.k = count(weights, 1, weights.size());
  c.in_size = count(c.window.in);
  c.out_size = count(c.window.out);
  c.out = {c.batch, c.outputs};
  c.out.insert(c.out.end(), c.window.out.begin(), c.window.out.end());
  c.x = x;
  c.w = w;
  c.x_zero = x_zero < p.inputs() && p.has(x_zero) ? x_zero : -1;
  c.w_zero = w_zero < p.inputs() && p.has(w_zero) ? w_zero : -1;
  c.x_type = p.type(x);
  c.w_type = p.type(w);
  p.expect(c.x_zero < 0 || p.in(c.x_zero).count() == 1, "the input has one zero point");
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

// Weights of each group, [taps, channels] x [outputs].
using Weights = std::vector<Panels>;

Weights pack(const Convolution& c, const void* weights) {
  Weights made;
  const uint8_t* const from = static_cast<const uint8_t*>(weights);
  std::vector<uint8_t> turned(static_cast<size_t>(c.group_out() * c.k));
  for (int64_t group = 0; group < c.groups; ++group) {
    const uint8_t* mine = from + group * c.group_out() * c.k;
    for (int64_t o = 0; o < c.group_out(); ++o) {
      for (int64_t i = 0; i < c.group_in(); ++i) {
        for (int64_t t = 0; t < c.taps; ++t) {
          turned[static_cast<size_t>(o * c.k + t * c.group_in() + i)] = mine[o * c.k + i * c.taps + t];
        }
      }
    }
    made.push_back(make_panels(turned.data(), c.w_type, c.k, c.group_out(), true));
  }
  return made;
}

// What the kernels share: packed weights if they are constant, and how pixels are cut into tasks.
struct Plan {
  explicit Plan(Convolution of) : c(std::move(of)) {}

  Convolution c;
  std::shared_ptr<Weights> weights;  // Null if only the run knows them.
  Geometry geometry{c.window};
  int64_t stride = 0;      // Of the rows that windows become.
  int64_t pixels = kRows;  // That a task works on.
  int64_t parts = 1;       // Into which the columns are divided where there are few pixels.
  size_t scratch = 0;      // Bytes, for each thread.
};

Plan plan_of(Prepare& p, const Convolution& of) {
  Plan plan(of);
  const Convolution& c = plan.c;
  p.require(c.x, Layout::kChannelsLast);
  const TensorPtr constant = p.constant(c.w);
  if (constant != nullptr) {
    plan.weights = Prepare::packed<Weights>(constant, "int8 convolution " + std::to_string(c.groups), [&] {
      return std::make_shared<Weights>(pack(c, constant->data));
    });
  }
  // Rows of a task stay in the second cache.
  constexpr int64_t kElements = 48 << 10;
  plan.stride = (c.k + 1) / 2 * 2;
  plan.pixels = std::clamp<int64_t>(kElements / plan.stride / kRows * kRows, kRows, 8 * kRows);
  const int64_t tasks = c.batch * c.groups * ((c.out_size + plan.pixels - 1) / plan.pixels);
  const int64_t panels = (c.group_out() + kColumns - 1) / kColumns;
  plan.parts = std::clamp<int64_t>((4 * p.threads() + tasks - 1) / std::max<int64_t>(1, tasks), 1, panels);
  if (p.threads() == 1) plan.parts = 1;
  plan.scratch = static_cast<size_t>(plan.pixels * (plan.stride * static_cast<int64_t>(sizeof(int16_t)) +
                                                    static_cast<int64_t>(sizeof(int32_t))));
  plan.scratch = (plan.scratch + 63) & ~size_t{63};
  p.scratch(plan.scratch * static_cast<size_t>(p.threads()));
  return plan;
}

// The elements of a window as a row of 16-bit numbers less the zero point: [taps][channels of the group].
// Those outside of the image are 0.
void gather(const Plan& plan, const uint8_t* image, int64_t group, int64_t pixel, int zero, int16_t* row) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  const Convolution& c = plan.c;
  const Geometry& g = plan.geometry;
  const int64_t channels = c.group_in(), length = g.kernel * channels;
  const auto widen = [&](int64_t at, int64_t n, int16_t* to) {
    const uint8_t* from = image + at * c.channels + group * channels;
    if (c.x_type == DType::kInt8) {
      simd.widen_signed(reinterpret_cast<const int8_t*>(from), n, zero, to);
    } else {
      simd.widen_unsigned(from, n, zero, to);
    }
  };
  if (c.pixels_alone) {
    widen(pixel, channels, row);
    return;
  }
  const int32_t last = g.rank - 1;
  const int32_t line = static_cast<int32_t>(pixel) / g.out[last];
  int32_t start[8];
  g.start(line, start);
  // Along the last dimension: the first tap inside of the image, and the one after the last.
  const int32_t begin = (static_cast<int32_t>(pixel) - line * g.out[last]) * g.strides[last] - g.begin[last];
  const int32_t step = g.dilation, room = g.in[last] - begin;
  const int32_t first = begin >= 0 ? 0 : std::min(g.kernel, (step - 1 - begin) / step);
  const int32_t stop = std::max(first, room <= 0 ? 0 : std::min(g.kernel, (room + step - 1) / step));
  for (const std::array<int32_t, 8>& each : g.lines) {
    const int64_t in_row = first == stop ? -1 : g.row_of(start, each);
    if (in_row < 0) {
      std::fill(row, row + length, int16_t{0});
      row += length;
      continue;
    }
    if (first > 0) std::fill(row, row + first * channels, int16_t{0});
    if (stop < g.kernel) std::fill(row + stop * channels, row + length, int16_t{0});
    const int64_t at = in_row * g.in[last] + begin;
    if (step == 1 && c.groups == 1) {
      widen(at + first, (stop - first) * channels, row + first * channels);
    } else {
      for (int32_t tap = first; tap < stop; ++tap) {
        widen(at + tap * step, channels, row + tap * channels);
      }
    }
    row += length;
  }
}

// Calls emit(element, channel, rows, n, sums, stride) for all parts of the output: `rows` pixels, `n`
// channels of each, the first of which is `element` of the output and channel `channel`.
template <typename Emit>
void run(const Plan& plan, const Args& args, const Emit& emit) {
  const Convolution& c = plan.c;
  const Quantized& simd = ephost::cpu::simd().quantized;
  const uint8_t* const x = args.in<uint8_t>(c.x);
  const int zero = zero_of(c.x_type, c.x_zero < 0 ? nullptr : args.in<void>(c.x_zero));
  const void* const w_zero = c.w_zero < 0 ? nullptr : args.in<void>(c.w_zero);
  Weights made;
  if (plan.weights == nullptr) made = pack(c, args.in<void>(c.w));
  const Weights& weights = plan.weights == nullptr ? made : *plan.weights;

  std::vector<int32_t> zeros(static_cast<size_t>(c.outputs));
  bool subtract = false;
  for (int64_t o = 0; o < c.outputs; ++o) {
    int32_t& each = zeros[static_cast<size_t>(o)];
    each = zero_of(c.w_type, w_zero, c.w_zeros == 1 ? 0 : o) - shift_of(c.w_type);
    subtract = subtract || each != 0;
  }
  const int64_t group_out = c.group_out(), panels = (group_out + kColumns - 1) / kColumns;
  const int64_t blocks = (c.out_size + plan.pixels - 1) / plan.pixels;
  const int64_t work = plan.pixels * c.k * group_out / plan.parts;
  parallel_for(
      c.batch * c.groups * blocks * plan.parts, std::max<int64_t>(1, 8 * kGrain / (work + 1)),
      [&](int64_t task, int64_t end) {
        int16_t* const rows = reinterpret_cast<int16_t*>(args.scratch<char>() +
                                                         static_cast<size_t>(thread_rank()) * plan.scratch);
        int32_t* const row_sums = reinterpret_cast<int32_t*>(rows + plan.pixels * plan.stride);
        alignas(64) int32_t sums[kRows * kColumns];
        for (int64_t gathered = -1; task < end; ++task) {
          const int64_t part = task % plan.parts, whole = task / plan.parts;
          const int64_t block = whole % blocks, group = whole / blocks % c.groups,
                        n = whole / blocks / c.groups;
          const int64_t first = block * plan.pixels, pixels = std::min(plan.pixels, c.out_size - first);
          if (whole != gathered) {
            gathered = whole;
            const uint8_t* image = x + n * c.in_size * c.channels;
            for (int64_t i = 0; i < pixels; ++i) {
              int16_t* const row = rows + i * plan.stride;
              gather(plan, image, group, first + i, zero, row);
              if (plan.stride != c.k) row[c.k] = 0;
              if (subtract) row_sums[i] = simd.total(row, c.k);
            }
          }
          const Panels& columns = weights[static_cast<size_t>(group)];
          for (int64_t panel = panels * part / plan.parts; panel < panels * (part + 1) / plan.parts;
               ++panel) {
            const int64_t column = panel * kColumns, wide = std::min<int64_t>(kColumns, group_out - column);
            const int64_t channel = group * group_out + column;
            for (int64_t i = 0; i < pixels; i += kRows) {
              const int tile = static_cast<int>(std::min<int64_t>(kRows, pixels - i));
              simd.product(rows + i * plan.stride, plan.stride, tile, columns.panel(panel), columns.pairs(),
                           sums);
              for (int r = 0; subtract && r < tile; ++r) {
                simd.subtract(sums + r * kColumns, wide, zeros.data() + channel, 1, row_sums[i + r]);
              }
              emit((n * c.out_size + first + i) * c.outputs + channel, channel, tile, wide, sums, kColumns);
            }
          }
        }
      });
}

Kernel conv_integer(Prepare& p) {
  const Convolution c = convolution_of(p, 0, 1, 2, 3);
  p.out(0, DType::kInt32, c.out, Layout::kChannelsLast);
  if (c.depthwise()) {
    return [depthwise = Depthwise(p, c)](const Args& args) { depthwise.run(args, args.out<int32_t>(0)); };
  }
  const Plan plan = plan_of(p, c);
  return [plan](const Args& args) {
    int32_t* out = args.out<int32_t>(0);
    const int64_t outputs = plan.c.outputs;
    run(plan, args, [&](int64_t at, int64_t, int rows, int64_t n, const int32_t* sums, int64_t stride) {
      for (int r = 0; r < rows; ++r) {
        std::memcpy(out + at + r * outputs, sums + r * stride, static_cast<size_t>(n) * sizeof(int32_t));
      }
    });
  };
}

// x, scale, zero, w, scale, zero, scale of y, zero of y, bias as int32.
Kernel qlinear_conv(Prepare& p) {
  p.expect(p.node.i("channels_last", 0) == 0, "channels come first");
  const Convolution c = convolution_of(p, 0, 3, 2, 5);
  const DType to = p.type(7);
  const int64_t w_scales = p.in(4).count(), outputs = c.outputs;
  const bool biased = p.inputs() > 8 && p.has(8);
  p.expect(p.in(1).count() == 1 && p.in(6).count() == 1 && p.in(7).count() == 1 &&
               (w_scales == 1 || w_scales == outputs) && (!biased || p.in(8).count() == outputs),
           "scales or bias do not fit the channels");
  p.out(0, to, c.out, Layout::kChannelsLast);
  // Sums to bytes; the vector is where the scales lie.
  const auto as_bytes = [to, w_scales, biased](const Args& args, std::vector<float>* scales) {
    const float x_scale = *args.in<float>(1), y_scale = *args.in<float>(6);
    for (int64_t i = 0; i < w_scales; ++i) scales->push_back(x_scale * args.in<float>(4)[i] / y_scale);
    return Quantized::Bytes{biased ? args.in<int32_t>(8) : nullptr, scales->data(), w_scales == 1 ? 0 : 1,
                            zero_of(to, args.in<void>(7)),          lowest(to),     highest(to)};
  };
  if (c.depthwise()) {
    return [as_bytes, depthwise = Depthwise(p, c)](const Args& args) {
      std::vector<float> scales;
      depthwise.run(args, as_bytes(args, &scales), args.out<uint8_t>(0));
    };
  }
  const Plan plan = plan_of(p, c);
  return [plan, as_bytes, outputs](const Args& args) {
    std::vector<float> scales;
    const Quantized::Bytes as = as_bytes(args, &scales);
    uint8_t* out = args.out<uint8_t>(0);
    run(plan, args,
        [&](int64_t at, int64_t channel, int rows, int64_t n, const int32_t* sums, int64_t stride) {
          Quantized::Bytes here = as;
          here.scale += as.step * channel;
          if (as.bias != nullptr) here.bias += channel;
          simd().quantized.to_bytes(sums, stride, rows, n, here, out + at, outputs);
        });
  };
}

}  // namespace

void add_int8_conv(Registry* registry) {
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
}

}  // namespace ephost::cpu
