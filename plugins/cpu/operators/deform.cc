// DeformConv: a convolution whose kernel reads at places of its own for each output.
#include <array>
#include <cmath>

#include "cpu/engines/as_float.h"
#include "cpu/engines/conv/window.h"
#include "cpu/engines/product.h"
#include "cpu/operator.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

// Four neighbours of a place in an image, and how much each of them counts: not at all outside.
struct Corners {
  std::array<int64_t, 4> at{};
  std::array<float, 4> weight{};
};

Corners corners(float y, float x, float factor, int64_t height, int64_t width) {
  Corners all;
  // Also false for what is not a number.
  if (!(y > -1 && y < static_cast<float>(height) && x > -1 && x < static_cast<float>(width))) {
    return all;
  }
  const float top = std::floor(y), left = std::floor(x);
  for (size_t i = 0; i < 4; ++i) {
    const int64_t row = static_cast<int64_t>(top) + static_cast<int64_t>(i / 2),
                  column = static_cast<int64_t>(left) + static_cast<int64_t>(i % 2);
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    all.at[i] = row * width + column;
    all.weight[i] = factor * (i < 2 ? 1 - (y - top) : y - top) * (i % 2 == 0 ? 1 - (x - left) : x - left);
  }
  return all;
}

struct Deform {
  int64_t batch, channels, height, width;
  int64_t outputs, out_height, out_width;
  int64_t kernel[2], strides[2], dilations[2], pads[2];
  int64_t groups, offset_groups;
  bool biased = false, masked = false;

  int64_t points() const { return kernel[0] * kernel[1]; }
  int64_t places() const { return out_height * out_width; }
  int64_t inputs_of_group() const { return channels / groups; }

  // What the kernel reads for some places of one image and group, as a panel of a product's right matrix.
  void gather(const Args& args, int64_t n, int64_t group, int64_t first, int64_t count, int64_t step,
              std::vector<Corners>* room, float* panel) const {
    const float *x = args.in<float>(0), *offsets = args.in<float>(2);
    const float* mask = masked ? args.in<float>(4) : nullptr;
    room->resize(static_cast<size_t>(points() * count));
    int64_t known = -1;
    for (int64_t i = 0; i < inputs_of_group(); ++i) {
      const int64_t channel = group * inputs_of_group() + i, of = channel / (channels / offset_groups);
      if (of != known) {
        known = of;
        for (int64_t k = 0; k < points(); ++k) {
          const int64_t map = (n * offset_groups + of) * points() + k;
          for (int64_t j = 0; j < count; ++j) {
            const int64_t place = first + j;
            const float* offset = offsets + 2 * map * places() + place;
            const int64_t y = place / out_width * strides[0] - pads[0] + k / kernel[1] * dilations[0];
            const int64_t z = place % out_width * strides[1] - pads[1] + k % kernel[1] * dilations[1];
            (*room)[static_cast<size_t>(k * count + j)] =
                corners(static_cast<float>(y) + offset[0], static_cast<float>(z) + offset[places()],
                        mask == nullptr ? 1 : mask[map * places() + place], height, width);
          }
        }
      }
      const float* image = x + (n * channels + channel) * height * width;
      for (int64_t k = 0; k < points(); ++k) {
        float* row = panel + (i * points() + k) * step;
        for (int64_t j = 0; j < count; ++j) {
          const Corners& c = (*room)[static_cast<size_t>(k * count + j)];
          row[j] = c.weight[0] * image[c.at[0]] + c.weight[1] * image[c.at[1]] +
                   c.weight[2] * image[c.at[2]] + c.weight[3] * image[c.at[3]];
        }
        std::fill(row + count, row + step, 0.0f);
      }
    }
  }
};

Kernel deform_conv(Prepare& p) {
  const Dims x = p.dims(0), w = p.dims(1), offsets = p.dims(2);
  p.expect(x.size() == 4 && w.size() == 4 && offsets.size() == 4, "images have two dimensions");
  Deform d{};
  d.batch = x[0];
  d.channels = x[1];
  d.height = x[2];
  d.width = x[3];
  d.outputs = w[0];
  d.groups = p.node.i("group", 1);
  d.offset_groups = p.node.i("offset_group", 1);
  p.expect(is_group_count(d.groups) && is_group_count(d.offset_groups) && d.channels == w[1] * d.groups &&
               d.outputs % d.groups == 0 && d.channels % d.offset_groups == 0,
           "groups that the channels cannot be divided into");
  const Ints kernel = p.node.ints("kernel_shape", {w[2], w[3]}), strides = p.node.ints("strides", {1, 1}),
             dilations = p.node.ints("dilations", {1, 1}), pads = p.node.ints("pads", {0, 0, 0, 0});
  p.expect(kernel == std::vector<int64_t>{w[2], w[3]} && strides.size() == 2 && dilations.size() == 2 &&
               pads.size() == 4,
           "a kernel that does not fit the weights");
  int64_t sizes[2];
  for (size_t i = 0; i < 2; ++i) {
    p.expect(kernel[i] > 0 && strides[i] > 0 && dilations[i] > 0, "a size that is not positive");
    for (int64_t size : {x[2 + i], kernel[i], strides[i], dilations[i], pads[i], pads[2 + i]}) {
      p.expect(-kMostInWindow <= size && size <= kMostInWindow,
               "sizes, strides, dilations and pads are below 2^31");
    }
    d.kernel[i] = kernel[i];
    d.strides[i] = strides[i];
    d.dilations[i] = dilations[i];
    d.pads[i] = pads[i];
    const int64_t room = x[2 + i] + pads[i] + pads[2 + i] - (kernel[i] - 1) * dilations[i] - 1;
    p.expect(room >= 0, "an image that is smaller than the kernel");
    sizes[i] = room / strides[i] + 1;
  }
  d.out_height = sizes[0];
  d.out_width = sizes[1];
  p.expect(offsets == Dims({d.batch, d.offset_groups * d.points() * 2, sizes[0], sizes[1]}),
           "offsets that do not fit the outputs");
  d.biased = p.has(3);
  d.masked = p.has(4);
  p.expect(!d.biased || p.dims(3) == Dims{d.outputs}, "a bias that does not fit the outputs");
  p.expect(!d.masked || p.dims(4) == Dims({d.batch, d.offset_groups * d.points(), sizes[0], sizes[1]}),
           "a mask that does not fit the outputs");
  p.out(0, p.type(0), {d.batch, d.outputs, sizes[0], sizes[1]});
  return [=](const Args& args) {
    const Simd& table = simd();
    const int64_t step = table.panel, panels = (d.places() + step - 1) / step;
    const int64_t inner = d.inputs_of_group() * d.points(), made = d.outputs / d.groups;
    parallel_for(d.batch * d.groups * panels, 1, [&](int64_t item, int64_t end) {
      static thread_local std::vector<Corners> room;
      static thread_local std::vector<float> panel;
      panel.resize(static_cast<size_t>(inner * step));
      for (; item < end; ++item) {
        const int64_t first = item % panels * step, group = item / panels % d.groups,
                      n = item / panels / d.groups;
        const int64_t count = std::min(step, d.places() - first);
        d.gather(args, n, group, first, count, step, &room, panel.data());
        GemmBlock g{};
        g.m = made;
        g.n = count;
        g.k = inner;
        g.a = args.in<float>(1) + group * made * inner;
        g.a_row = inner;
        g.a_step = 1;
        g.b = panel.data();
        g.b_step = step;
        g.b_panel = inner * step;
        g.c = args.out<float>(0) + (n * d.outputs + group * made) * d.places() + first;
        g.c_row = d.places();
        if (d.biased) {  // One for each row: the sums begin there.
          g.accumulate = true;
          for (int64_t i = 0; i < made; ++i) {
            std::fill_n(g.c + i * g.c_row, count, args.in<float>(3)[group * made + i]);
          }
        }
        gemm_in_blocks(g);
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "DeformConv",
                 .supports = [](const Node& node) -> std::string {
                   const Value* x = node.in(0);
                   return x != nullptr && x->has_shape && x->dims.size() != 4
                              ? "images of other than two dimensions"
                              : "";
                 },
                 .prepare = with_halves(deform_conv),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16}});
});

}  // namespace ephost::cpu
