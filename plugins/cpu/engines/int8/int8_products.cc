// Convolutions of 8-bit integers by products of matrices. Sums are exact; see int8.h.
//
// Channels lie last, in the input and in the output: the elements of a window are a few pieces of memory
// then, which become one row of a matrix product (a few pixels at a time, in scratch memory), and output
// channels its columns.
#include <cstring>

#include "cpu/engines/int8/int8_conv.h"

namespace ephost::cpu {
namespace {

// Weights of each group, [taps, channels] x [outputs], all in the same form.
using Weights = std::vector<Panels>;

// `once`: for one run.
Weights pack(const Convolution& c, const void* weights, bool once) {
  Weights made;
  const uint8_t* const from = static_cast<const uint8_t*>(weights);
  // Bytes, unless one of the groups does not fit them, or it takes long to find out.
  bool wide = once && simd().quantized.settles;
  for (int64_t group = 0; group < c.groups; ++group) {
    const uint8_t* mine = from + group * c.group_out() * c.k;
    made.push_back(make_panels(mine, c.w_type, c.k, c.group_out(), true, wide, c.taps));
    if (made.back().wide && !wide) {
      wide = true;
      if (group > 0) {
        made.clear();
        group = -1;
      }
    }
  }
  return made;
}

// What the kernels share: packed weights if they are constant, and how pixels are cut into tasks.
struct Plan {
  explicit Plan(Convolution of) : c(std::move(of)) {}

  Convolution c;
  std::shared_ptr<Weights> weights;  // Null if only the run knows them.
  Geometry geometry{c.window};
  int64_t pixels = kRows;  // That a task works on.
  int64_t parts = 1;       // Into which the columns are divided where there are few pixels.
  size_t scratch = 0;      // Bytes, for each thread.
};

// Packed weights if they are constant: bytes, unless these cannot hold too many of them.
std::shared_ptr<Weights> packed_weights(const Prepare& p, const Convolution& c) {
  const TensorPtr constant = p.constant(c.w);
  if (constant == nullptr) return nullptr;
  return Prepare::packed<Weights>(constant, "int8 convolution " + std::to_string(c.groups),
                                  [&] { return std::make_shared<Weights>(pack(c, constant->data, false)); });
}

Plan plan_of(Prepare& p, const Convolution& of, std::shared_ptr<Weights> weights) {
  Plan plan(of);
  const Convolution& c = plan.c;
  p.require(c.x, Layout::kChannelsLast);
  plan.weights = std::move(weights);
  // Rows of a task stay in the second cache.
  constexpr int64_t kElements = 48 << 10;
  const int64_t stride = (c.k + 3) / 4 * 4;
  plan.pixels = std::clamp<int64_t>(kElements / stride / kRows * kRows, kRows, 8 * kRows);
  const int64_t tasks = c.batch * c.groups * ((c.out_size + plan.pixels - 1) / plan.pixels);
  const int64_t panels = (c.group_out() + kColumns - 1) / kColumns;
  plan.parts = std::clamp<int64_t>((4 * p.threads() + tasks - 1) / std::max<int64_t>(1, tasks), 1,
                                   std::max<int64_t>(1, panels));
  if (p.threads() == 1) plan.parts = 1;
  plan.scratch = static_cast<size_t>(
      plan.pixels * (stride * static_cast<int64_t>(sizeof(int16_t)) + static_cast<int64_t>(sizeof(int32_t))));
  plan.scratch = (plan.scratch + 63) & ~size_t{63};
  p.scratch(plan.scratch * static_cast<size_t>(p.threads()));
  return plan;
}

// Bytes that lie beside each other, few or many: of few a call would take longer than the copy.
inline void copy_bytes(const uint8_t* from, int64_t n, uint8_t* to) {
  if (n < 8 || n > 256) {
    std::memcpy(to, from, static_cast<size_t>(n));
    return;
  }
  // The last ones once more with others.
  if (n < 16) {
    std::memcpy(to, from, 8);
    std::memcpy(to + n - 8, from + n - 8, 8);
    return;
  }
  for (int64_t i = 0; i + 16 <= n; i += 16) std::memcpy(to + i, from + i, 16);
  std::memcpy(to + n - 16, from + n - 16, 16);
}

// The elements of windows as rows for the product, each of [taps][channels of the group]: of `pixels` from
// `first` on. Those outside of the image are the zero point, which is what zero is.
template <typename T>
void gather(const Plan& plan, const uint8_t* image, int64_t group, int64_t first_pixel, int64_t pixels,
            T zero, T* row, int64_t row_step) {
  constexpr bool kWide = sizeof(T) == 2;
  const Convolution& c = plan.c;
  const Geometry& g = plan.geometry;
  const int64_t channels = c.group_in(), length = g.kernel * channels;
  image += group * channels;
  const bool as_it_is = !kWide && c.x_type == DType::kUint8;
  const auto copy = [&](const uint8_t* from, int64_t n, T* to) {
    if constexpr (!kWide) {
      if (as_it_is) {
        copy_bytes(from, n, to);
        return;
      }
    }
    make_row(from, c.x_type, n, kWide, to);
  };
  if (c.pixels_alone) {
    for (int64_t i = 0; i < pixels; ++i, row += row_step) {
      copy(image + (first_pixel + i) * c.channels, channels, row);
    }
    return;
  }
  const int32_t last = g.rank - 1, width = g.out[last], step = g.dilation, in_width = g.in[last];
  const bool together = step == 1 && c.groups == 1;
  std::vector<const uint8_t*> lines(g.lines.size());  // Null outside of the image.
  for (int64_t pixel = first_pixel; pixel < first_pixel + pixels;) {
    const int32_t line = static_cast<int32_t>(pixel) / width;
    int32_t start[8];
    g.start(line, start);
    for (size_t r = 0; r < lines.size(); ++r) {
      const int64_t in_row = g.row_of(start, g.lines[r]);
      lines[r] = in_row < 0 ? nullptr : image + in_row * in_width * c.channels;
    }
    const int64_t end = std::min(first_pixel + pixels, (static_cast<int64_t>(line) + 1) * width);
    for (; pixel < end; ++pixel, row += row_step) {
      // Along the last dimension: the first tap inside of the image, and the one after the last.
      const int32_t begin = (static_cast<int32_t>(pixel) - line * width) * g.strides[last] - g.begin[last];
      const int32_t room = in_width - begin;
      int32_t first = 0, stop = g.kernel;
      if (begin < 0 || (g.kernel - 1) * step >= room) {
        first = begin >= 0 ? 0 : std::min(g.kernel, (step - 1 - begin) / step);
        stop = std::max(first, room <= 0 ? 0 : std::min(g.kernel, (room + step - 1) / step));
      }
      T* to = row;
      for (const uint8_t* each : lines) {
        if (each == nullptr || first == stop) {
          std::fill(to, to + length, zero);
          to += length;
          continue;
        }
        if (first > 0) std::fill(to, to + first * channels, zero);
        if (stop < g.kernel) std::fill(to + stop * channels, to + length, zero);
        const uint8_t* from = each + begin * c.channels;
        if (together) {
          copy(from + first * channels, (stop - first) * channels, to + first * channels);
        } else {
          for (int32_t tap = first; tap < stop; ++tap) {
            copy(from + static_cast<int64_t>(tap) * step * c.channels, channels, to + tap * channels);
          }
        }
        to += length;
      }
    }
  }
}
// A bias is added if it is not null. `Element` is that of the rows, in one of the forms of a product.
template <typename Element>
void run_products(const Plan& plan, const Args& args, const Weights& weights, const int32_t* bias,
                  const Int8Output& out) {
  constexpr bool kWide = sizeof(Element) == 2;
  const Convolution& c = plan.c;
  const Quantized& simd = ephost::cpu::simd().quantized;
  const uint8_t* const x = args.in<uint8_t>(c.x);
  const int zero =
      zero_of(c.x_type, c.x_zero < 0 ? nullptr : args.in<void>(c.x_zero)) + row_shift(c.x_type, kWide);
  const void* const w_zero = c.w_zero < 0 ? nullptr : args.in<void>(c.w_zero);
  const int64_t group_out = c.group_out(), panels = (group_out + kColumns - 1) / kColumns;
  const int64_t stride = weights.front().stride();
  // What sums begin with, for all columns of the panels; and the zero points of the weights.
  std::vector<int32_t> start(static_cast<size_t>(c.groups * panels * kColumns)), zeros(start.size());
  bool subtract = false;
  for (int64_t o = 0; o < c.outputs; ++o) {
    const int64_t group = o / group_out, column = o % group_out;
    const size_t at = static_cast<size_t>(group * panels * kColumns + column);
    const Panels& mine = weights[static_cast<size_t>(group)];
    // Sums of 32 bits go round.
    start[at] = static_cast<int32_t>((bias == nullptr ? 0 : static_cast<uint32_t>(bias[o])) -
                                     static_cast<uint32_t>(zero) *
                                         static_cast<uint32_t>(mine.sums[static_cast<size_t>(column)]));
    zeros[at] = zero_of(c.w_type, w_zero, c.w_zeros == 1 ? 0 : o) - shift_of(c.w_type);
    subtract = subtract || zeros[at] != 0;
  }
  // Pixels are the rows, without being copied.
  const bool as_they_are =
      c.pixels_alone && !kWide && c.x_type == DType::kUint8 && stride == c.k && !subtract;
  const int64_t blocks = (c.out_size + plan.pixels - 1) / plan.pixels;
  const int64_t work = plan.pixels * c.k * group_out / plan.parts;
  parallel_for(
      c.batch * c.groups * blocks * plan.parts, std::max<int64_t>(1, 8 * kGrain / (work + 1)),
      [&](int64_t task, int64_t end) {
        char* const scratch = args.scratch<char>() + static_cast<size_t>(thread_rank()) * plan.scratch;
        int32_t* const row_sums = reinterpret_cast<int32_t*>(scratch);
        Element* const own = reinterpret_cast<Element*>(row_sums + plan.pixels);
        alignas(64) int32_t sums[2 * kRows * 2 * kColumns];
        for (int64_t gathered = -1; task < end; ++task) {
          const int64_t part = task % plan.parts, whole = task / plan.parts;
          const int64_t block = whole % blocks, group = whole / blocks % c.groups,
                        n = whole / blocks / c.groups;
          const int64_t first = block * plan.pixels, pixels = std::min(plan.pixels, c.out_size - first);
          const uint8_t* image = x + n * c.in_size * c.channels;
          const void* rows = own;
          if (as_they_are) {
            rows = image + first * c.channels;
          } else if (whole != gathered) {
            gathered = whole;
            gather(plan, image, group, first, pixels, static_cast<Element>(zero), own, stride);
            for (int64_t i = 0; subtract && i < pixels; ++i) {
              row_sums[i] = sum_of_row(own + i * stride, c.k, kWide) - static_cast<int32_t>(c.k) * zero;
            }
          }
          const Panels& columns = weights[static_cast<size_t>(group)];
          const int64_t last_panel = panels * (part + 1) / plan.parts;
          for (int64_t panel = panels * part / plan.parts; panel < last_panel; ++panel) {
            const int64_t column = panel * kColumns, here = std::min<int64_t>(kColumns, group_out - column);
            const int64_t channel = group * group_out + column, at = (group * panels + panel) * kColumns;
            const int64_t element = (n * c.out_size + first) * c.outputs + channel;
            if constexpr (!kWide) {
              // Two panels at a time, where that is quicker.
              if (simd.pairs && !subtract && panel + 1 < last_panel) {
                const int64_t both = std::min<int64_t>(2 * kColumns, group_out - column);
                for (int64_t i = 0; i < pixels; i += 2 * kRows) {
                  const int tile = static_cast<int>(std::min<int64_t>(2 * kRows, pixels - i));
                  simd.pair_product(static_cast<const uint8_t*>(rows) + i * stride, stride, tile,
                                    columns.panel(panel), columns.panel(panel + 1), start.data() + at, sums,
                                    2 * kColumns);
                  out.store(element + i * c.outputs, channel, tile, both, sums, 2 * kColumns);
                }
                ++panel;
                continue;
              }
            }
            if (out.bytes != nullptr && !subtract && here == kColumns) {
              multiply_to_bytes(columns, panel, rows, stride, pixels, start.data() + at, out.from(channel),
                                out.bytes + element, c.outputs);
              continue;
            }
            for (int64_t i = 0; i < pixels; i += kRows) {
              const int tile = static_cast<int>(std::min<int64_t>(kRows, pixels - i));
              multiply_tile(columns, panel, static_cast<const Element*>(rows) + i * stride, stride, tile,
                            start.data() + at, sums);
              for (int r = 0; subtract && r < tile; ++r) {
                simd.subtract(sums + r * kColumns, here, zeros.data() + at, 1, row_sums[i + r]);
              }
              out.store(element + i * c.outputs, channel, tile, here, sums, kColumns);
            }
          }
        }
      });
}

template <typename Element>
Int8Kernel products(Prepare& p, const Convolution& c, std::shared_ptr<Weights> weights) {
  return [plan = plan_of(p, c, std::move(weights))](const Args& args, const int32_t* bias,
                                                    const Int8Output& out) {
    Weights made;
    if (plan.weights == nullptr) made = pack(plan.c, args.in<void>(plan.c.w), true);
    run_products<Element>(plan, args, plan.weights == nullptr ? made : *plan.weights, bias, out);
  };
}

}  // namespace

Int8Kernel byte_products(Prepare& p, const Convolution& c) {
  std::shared_ptr<Weights> weights = packed_weights(p, c);
  if (weights == nullptr ? simd().quantized.settles : weights->front().wide) return nullptr;
  return products<uint8_t>(p, c, std::move(weights));
}

Int8Kernel wide_products(Prepare& p, const Convolution& c) {
  return products<int16_t>(p, c, packed_weights(p, c));
}

}  // namespace ephost::cpu
