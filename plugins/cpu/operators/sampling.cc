// Operators that read images at places that are computed: regions, patches, and the grids of affine maps.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/engines/as_float.h"
#include "cpu/engines/conv/window.h"
#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "cpu/simd/independent.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// ---- AffineGrid

Kernel affine_grid(Prepare& p) {
  const Ints size = p.ints(1);
  const size_t axes = size.size() - std::min<size_t>(size.size(), 2);
  p.expect(axes == 2 || axes == 3, "the size has neither 4 nor 5 entries");
  const int64_t n = static_cast<int64_t>(axes);
  p.expect(p.dims(0) == Dims({size[0], n, n + 1}), "theta does not fit the size");
  Dims to{size[0]};
  to.insert(to.end(), size.begin() + 2, size.end());
  to.push_back(n);
  const DType type = p.type(0);
  const int64_t total = p.out(0, type, to).count() / n;
  const bool corners = p.node.i("align_corners", 0) != 0;
  const auto place = [corners](int64_t k, int64_t length) {
    const double l = static_cast<double>(length), x = static_cast<double>(k);
    return corners ? (length > 1 ? -1 + 2 * x / (l - 1) : 0) : -1 + (2 * x + 1) / l;
  };
  const int64_t width = size.back(), rows = width == 0 ? 0 : total / width;  // Of all images.
  return [=](const Args& args) {
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      const int64_t rows_of_one = size[0] == 0 ? 1 : std::max<int64_t>(1, rows / size[0]);
      std::vector<double> along(static_cast<size_t>(width));
      for (int64_t k = 0; k < width; ++k) along[static_cast<size_t>(k)] = place(k, width);
      parallel_for(rows, std::max<int64_t>(1, kGrain / (width * n * 4 + 1)), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const T* theta = args.in<T>(0) + i / rows_of_one * n * (n + 1);
          // What the other axes and the offset add, and what a step to the right does: x is first in theta.
          double start[3] = {}, step[3] = {};
          for (int64_t d = 0; d < n; ++d) {
            const auto factor = [&](int64_t k) {
              return static_cast<double>(static_cast<arithmetic_t<T>>(theta[d * (n + 1) + k]));
            };
            step[d] = factor(0);
            start[d] = factor(n);
            int64_t rest = i % rows_of_one;
            for (int64_t k = 1; k < n; ++k) {
              const int64_t length = size[static_cast<size_t>(n + 1 - k)];
              start[d] += factor(k) * place(rest % length, length);
              rest /= length;
            }
          }
          T* const y = args.out<T>() + i * width * n;
          for (int64_t k = 0; k < width; ++k) {
            for (int64_t d = 0; d < n; ++d) {
              const double at = start[d] + step[d] * along[static_cast<size_t>(k)];
              y[k * n + d] = static_cast<T>(static_cast<arithmetic_t<T>>(at));
            }
          }
        }
      });
    });
  };
}

// ---- RoiAlign, MaxRoiPool

// Elements are Stored, and computed in T.
template <typename T, typename Stored>
Kernel roi_align_of(Prepare& p) {
  const Dims &image = p.dims(0), &rois = p.dims(1);
  p.expect(image.size() == 4 && rois.size() == 2 && rois[1] == 4 && p.dims(2) == Dims{rois[0]},
           "the inputs do not fit together");
  const int64_t n = rois[0], batch = image[0], channels = image[1], height = image[2], width = image[3];
  const int64_t rows = p.node.i("output_height", 1), columns = p.node.i("output_width", 1);
  const int64_t ratio = p.node.i("sampling_ratio", 0);
  p.expect(ratio < 1 << 15, "sampling_ratio is beyond all images");
  const T scale = static_cast<T>(p.node.f("spatial_scale", 1));
  const bool max = p.node.s("mode", "avg") == "max", wide = p.type(2) == DType::kInt64;
  const bool half =
      p.node.version >= 16 && p.node.s("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  p.require(0, Layout::kChannelsLast);
  p.out(0, p.type(0), {n, channels, rows, columns});
  const int64_t bins = count({rows, columns}), elements = p.in(0).count();
  constexpr bool kConverted = !std::is_same_v<T, Stored>;  // All of the image, since regions overlap.
  if constexpr (kConverted) p.scratch(static_cast<size_t>(elements) * sizeof(T));
  return [=, label = p.node.label()](const Args& args) {
    for (int64_t r = 0; r < n; ++r) {
      const int64_t b = wide ? args.in<int64_t>(2)[r] : args.in<int32_t>(2)[r];
      if (b < 0 || b >= batch) invalid(label + ": a region is of an image that is not there");
    }
    if (channels == 0) return;
    if (height == 0 || width == 0) {  // All samples are beside the image.
      std::fill_n(args.out<Stored>(), n * channels * bins, Stored(T{0}));
      return;
    }
    const T* images = nullptr;
    if constexpr (kConverted) {
      to_float(dtype_of<Stored>, args.in(0), args.scratch<T>(), elements);
      images = args.scratch<T>();
    } else {
      images = args.in<T>(0);
    }
    // A bin at a time, all channels side by side: where a sample is, is found out once.
    const int64_t samples_of_bin = ratio > 0 ? ratio * ratio : 4;
    parallel_for(
        n * bins, std::max<int64_t>(1, kGrain / (channels * samples_of_bin * 4 + 1)),
        [&](int64_t bin, int64_t end) {
          std::vector<T> values(static_cast<size_t>(channels));
          for (; bin < end; ++bin) {
            const int64_t r = bin / bins, i = bin % bins;
            const int64_t b = wide ? args.in<int64_t>(2)[r] : args.in<int32_t>(2)[r];
            T roi[4];
            for (int k = 0; k < 4; ++k) roi[k] = static_cast<T>(args.in<Stored>(1)[r * 4 + k]);
            const T* x = images + b * height * width * channels;
            Stored* y = args.out<Stored>() + r * channels * bins;
            const T shift = half ? T{0.5} : T{0};
            const T left = roi[0] * scale - shift, top = roi[1] * scale - shift;
            T w = roi[2] * scale - shift - left, h = roi[3] * scale - shift - top;
            if (!half) {  // Regions of less than a pixel count as one.
              w = std::max(w, T{1});
              h = std::max(h, T{1});
            }
            const T bin_h = h / static_cast<T>(rows), bin_w = w / static_cast<T>(columns);
            const auto samples = [&](T size) {
              // Bounded, so that a huge region ends in time.
              return ratio > 0 ? ratio : static_cast<int64_t>(std::clamp(std::ceil(size), T{0}, T{4096}));
            };
            const int64_t grid_h = samples(bin_h), grid_w = samples(bin_w), all = grid_h * grid_w;
            std::fill(values.begin(), values.end(),
                      max && all > 0 ? -std::numeric_limits<T>::infinity() : T{0});
            for (int64_t u = 0; u < grid_h; ++u) {
              for (int64_t v = 0; v < grid_w; ++v) {
                const auto at = [](T start, T size, int64_t k, int64_t s, int64_t grid) {
                  return start + static_cast<T>(k) * size +
                         (static_cast<T>(s) + T{0.5}) * size / static_cast<T>(grid);
                };
                T py = at(top, bin_h, i / columns, u, grid_h), px = at(left, bin_w, i % columns, v, grid_w);
                if (!(py >= -1 && py <= static_cast<T>(height) && px >= -1 && px <= static_cast<T>(width))) {
                  for (T& value : values) value = max ? std::max(value, T{0}) : value;
                  continue;
                }
                py = std::clamp(py, T{0}, static_cast<T>(height - 1));
                px = std::clamp(px, T{0}, static_cast<T>(width - 1));
                const int64_t y0 = static_cast<int64_t>(py), x0 = static_cast<int64_t>(px);
                const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
                const T dy = py - static_cast<T>(y0), dx = px - static_cast<T>(x0);
                const T *p00 = x + (y0 * width + x0) * channels, *p01 = x + (y0 * width + x1) * channels,
                        *p10 = x + (y1 * width + x0) * channels, *p11 = x + (y1 * width + x1) * channels;
                const T w00 = (1 - dy) * (1 - dx), w01 = (1 - dy) * dx, w10 = dy * (1 - dx), w11 = dy * dx;
                T* const to = values.data();
                if (max) {
                  for (int64_t c = 0; c < channels; ++c) {
                    to[c] = std::max({to[c], w00 * p00[c], w01 * p01[c], w10 * p10[c], w11 * p11[c]});
                  }
                } else {
                  for (int64_t c = 0; c < channels; ++c) {
                    to[c] += w00 * p00[c] + w01 * p01[c] + w10 * p10[c] + w11 * p11[c];
                  }
                }
              }
            }
            const T by = max || all == 0 ? T{1} : 1 / static_cast<T>(all);
            for (int64_t c = 0; c < channels; ++c)
              y[c * bins + i] = Stored(values[static_cast<size_t>(c)] * by);
          }
        });
  };
}

Kernel roi_align(Prepare& p) {
  p.expect(p.type(0) == p.type(1), "the image and the regions have different types");
  return with_float(p.type(0), [&](auto zero) {
    using Stored = decltype(zero);
    return roi_align_of<arithmetic_t<Stored>, Stored>(p);
  });
}

Kernel max_roi_pool(Prepare& p) {
  const Dims &image = p.dims(0), &rois = p.dims(1);
  const std::vector<int64_t> shape = p.node.ints("pooled_shape");
  p.expect(image.size() == 4 && rois.size() == 2 && rois[1] == 5 && shape.size() == 2,
           "the inputs do not fit together");
  const int64_t n = rois[0], batch = image[0], channels = image[1], height = image[2], width = image[3];
  const int64_t rows = shape[0], columns = shape[1];
  const float scale = p.node.f("spatial_scale", 1);
  p.out(0, p.type(0), {n, channels, rows, columns});
  return [=, label = p.node.label()](const Args& args) {
    for (int64_t r = 0; r < n; ++r) {
      const float b = args.in<float>(1)[r * 5];
      if (!(b >= 0 && b < static_cast<float>(batch)))
        invalid(label + ": a region is of an image that is not there");
    }
    struct Bin {
      int64_t begin, end;
    };
    const auto bin_of = [](int64_t start, double bin, int64_t k, int64_t most) -> Bin {
      const double begin = std::floor(static_cast<double>(k) * bin);
      const double end = std::ceil(static_cast<double>(k + 1) * bin);
      return {std::clamp<int64_t>(start + static_cast<int64_t>(begin), 0, most),
              std::clamp<int64_t>(start + static_cast<int64_t>(end), 0, most)};
    };
    parallel_for(n * channels, 1, [&](int64_t item, int64_t end) {
      std::vector<Bin> down(static_cast<size_t>(rows)), along(static_cast<size_t>(columns));
      for (int64_t known = -1; item < end; ++item) {
        const int64_t r = item / channels, c = item % channels;
        const float* roi = args.in<float>(1) + r * 5;
        const float* x = args.in<float>(0) + (static_cast<int64_t>(roi[0]) * channels + c) * height * width;
        float* y = args.out<float>() + item * rows * columns;
        const auto pixel = [&](int k) {
          return static_cast<int64_t>(std::round(std::clamp(roi[k] * scale, -1e9f, 1e9f)));
        };
        const int64_t left = pixel(1), top = pixel(2);
        const double bin_h =
            static_cast<double>(std::max<int64_t>(pixel(4) - top + 1, 1)) / static_cast<double>(rows);
        const double bin_w =
            static_cast<double>(std::max<int64_t>(pixel(3) - left + 1, 1)) / static_cast<double>(columns);
        if (r != known) {  // The bins are those of all channels.
          for (int64_t k = 0; k < rows; ++k) down[static_cast<size_t>(k)] = bin_of(top, bin_h, k, height);
          for (int64_t k = 0; k < columns; ++k) along[static_cast<size_t>(k)] = bin_of(left, bin_w, k, width);
          known = r;
        }
        for (const Bin& v : down) {
          for (const Bin& u : along) {
            float most = v.begin < v.end && u.begin < u.end ? -std::numeric_limits<float>::infinity() : 0;
            for (int64_t line = v.begin; line < v.end; ++line) {
              for (int64_t k = u.begin; k < u.end; ++k) most = std::max(most, x[line * width + k]);
            }
            *y++ = most;
          }
        }
      }
    });
  };
}

// ---- CropAndResize

constexpr int64_t kMostInCrop = int64_t{1} << 24;  // Along an axis, in which float32 counts.

// Regions of images, whose corners are given as parts of an image's sides, in one size. Corners lie on
// pixels.
Kernel crop_and_resize(Prepare& p) {
  const Dims image = p.dims(0), boxes = p.dims(1);
  const Ints size = p.ints(3);
  p.expect(image.size() == 4, "the input is not a batch of images");
  p.expect(boxes.size() == 2 && boxes[1] == 4 && p.dims(2) == Dims{boxes[0]},
           "the regions are not four numbers each, with the number of an image");
  p.expect(size.size() == 2 && size[0] > 0 && size[1] > 0 && size[0] <= kMostInCrop && size[1] <= kMostInCrop,
           "the size is not two positive numbers");
  const int64_t channels = image[1], height = image[2], width = image[3];
  p.expect(boxes[0] == 0 || (height > 0 && width > 0), "the images are empty");
  const float outside = p.node.f("extrapolation_value", 0);
  const bool nearest = p.node.s("mode", "bilinear") == "nearest";
  p.out(0, DType::kFloat, {boxes[0], channels, size[0], size[1]});
  return [=, label = p.node.label()](const Args& args) {
    const int32_t* const images = args.in<int32_t>(2);
    if (std::any_of(images, images + boxes[0], [=](int32_t i) { return i < 0 || i >= image[0]; })) {
      invalid(label + ": the number of an image that is not there");
    }
    struct Column {  // What it reads of each line: two neighbours, or one twice.
      int64_t a, b;
      float right;
      bool inside;
    };
    parallel_for(boxes[0] * size[0], 1, [&](int64_t item, int64_t end) {
      std::vector<Column> columns(static_cast<size_t>(size[1]));
      for (int64_t known = -1; item < end; ++item) {
        const int64_t box = item / size[0], row = item % size[0];
        const float* const corners = args.in<float>(1) + 4 * box;
        // Where the i-th of n pixels lies in an image of so many.
        const auto place = [&](float from, float to, int64_t i, int64_t n, int64_t of) {
          const float last = static_cast<float>(of - 1);
          if (n == 1) return 0.5F * (from + to) * last;
          return from * last + static_cast<float>(i) * ((to - from) * last / static_cast<float>(n - 1));
        };
        const auto inside = [](float at, int64_t of) { return at >= 0 && at <= static_cast<float>(of - 1); };
        const float y = place(corners[0], corners[2], row, size[0], height);
        if (box != known) {
          for (int64_t i = 0; i < size[1]; ++i) {
            const float x = place(corners[1], corners[3], i, size[1], width);
            const bool is_inside = inside(x, width);
            const float at = !is_inside ? 0 : nearest ? std::round(x) : std::floor(x);
            columns[static_cast<size_t>(i)] = {
                static_cast<int64_t>(at), static_cast<int64_t>(is_inside && !nearest ? std::ceil(x) : at),
                is_inside && !nearest ? x - at : 0, is_inside};
          }
          known = box;
        }
        const bool is_inside = inside(y, height);
        const float at = !is_inside ? 0 : nearest ? std::round(y) : std::floor(y);
        const float down = is_inside && !nearest ? y - at : 0;
        const int64_t first = static_cast<int64_t>(at) * width;
        const int64_t second = static_cast<int64_t>(is_inside && !nearest ? std::ceil(y) : at) * width;
        for (int64_t c = 0; c < channels; ++c) {
          float* to = args.out<float>(0) + ((box * channels + c) * size[0] + row) * size[1];
          if (!is_inside) {
            std::fill(to, to + size[1], outside);
            continue;
          }
          const float* const plane = args.in<float>(0) + (images[box] * channels + c) * height * width;
          const float *const upper = plane + first, *const lower = plane + second;
          if (nearest) {
            for (const Column& column : columns) *to++ = column.inside ? upper[column.a] : outside;
            continue;
          }
          for (const Column& column : columns) {
            const float above = upper[column.a] + (upper[column.b] - upper[column.a]) * column.right;
            const float below = lower[column.a] + (lower[column.b] - lower[column.a]) * column.right;
            *to++ = column.inside ? above + (below - above) * down : outside;
          }
        }
      }
    });
  };
}

// ---- MaxUnpool, Col2Im

Kernel max_unpool(Prepare& p) {
  const Dims& from = p.dims(0);
  p.expect(from.size() >= 3 && p.dims(1) == from, "the inputs do not fit together");
  const size_t axes = from.size() - 2;
  const Ints kernel = p.node.ints("kernel_shape");
  const Ints strides = p.node.ints("strides", Ints(axes, 1));
  const Ints pads = p.node.ints("pads", Ints(2 * axes, 0));
  p.expect(kernel.size() == axes && strides.size() == axes && pads.size() == 2 * axes,
           "kernel_shape, strides or pads do not fit the input");
  for (const auto* sizes : {&kernel, &strides, &pads}) {
    for (int64_t size : *sizes) {
      p.expect(-kMostInWindow <= size && size <= kMostInWindow,
               "kernel sizes, strides and pads are below 2^31");
    }
  }
  Dims natural(from.begin(), from.begin() + 2);
  for (size_t d = 0; d < axes; ++d) {
    p.expect(from[d + 2] <= kMostInWindow, "the input has more than 2^31 elements along an axis");
    natural.push_back((from[d + 2] - 1) * strides[d] + kernel[d] - pads[d] - pads[d + axes]);
  }
  Dims to = natural;
  if (p.has(2)) {
    to = p.ints(2);
    p.expect(to.size() == from.size(), "the output's shape has another number of dimensions");
    p.expect(to[0] == from[0] && to[1] == from[1], "the output has other batches or channels than the input");
  }
  const Desc out = p.out(0, p.type(0), to);
  // Indices count in the tensor that was pooled; a larger output has it in its upper left corner.
  const Dims out_strides = strides_of(to);
  const int64_t n = p.in(0).count(), room = count(natural);
  for (size_t d = 0; d < to.size(); ++d) {
    p.expect(natural[d] <= to[d], "the output is smaller than what was pooled");
  }
  const size_t size = size_of(p.type(0));
  const bool same = natural == to;
  return [=, label = p.node.label()](const Args& args) {
    std::memset(args.out(), 0, out.bytes());
    with_size(size, [&](auto bits) {
      using T = decltype(bits);
      const int64_t* const indices = args.in<int64_t>(1);
      const T* const x = args.in<T>(0);
      T* const y = args.out<T>();
      for (int64_t i = 0; i < n; ++i) {
        int64_t rest = indices[i], at = same ? rest : 0;
        if (rest < 0 || rest >= room) invalid(label + ": an index is beyond the output");
        for (size_t d = same ? 0 : natural.size(); d-- > 0;) {
          at += rest % natural[d] * out_strides[d];
          rest /= natural[d];
        }
        y[at] = x[i];
      }
    });
  };
}

// Along an axis: sums and products of two do not overflow.
constexpr int64_t kMostPixels = int64_t{1} << 30;

// The steps of a row, of which each goes `step` pixels further from `offset` on, that stay in the image.
struct Steps {
  int64_t first, last;
  Steps(int64_t offset, int64_t step, int64_t row, int64_t width)
      : first(std::max<int64_t>(0, step - 1 - offset) / step),
        last(width <= offset ? 0 : std::min(row, (width - offset - 1) / step + 1)) {
    last = std::max(first, last);
  }
};

Kernel col2im(Prepare& p) {
  constexpr int64_t kTogether = 3;
  const Dims& from = p.dims(0);
  const Ints image = p.ints(1), block = p.ints(2);
  const size_t axes = image.size();
  const Ints dilations = p.node.ints("dilations", Ints(axes, 1));
  const Ints strides = p.node.ints("strides", Ints(axes, 1));
  const Ints pads = p.node.ints("pads", Ints(2 * axes, 0));
  p.expect(from.size() == 3 && axes > 0 && block.size() == axes && dilations.size() == axes &&
               strides.size() == axes && pads.size() == 2 * axes,
           "its inputs and attributes do not fit together");
  for (const auto* given : {&image, &block, &dilations, &strides, &pads}) {
    for (int64_t value : *given) {
      p.expect(-kMostPixels <= value && value <= kMostPixels, "its image, block or attributes are too large");
    }
  }
  const int64_t patch = count(block);
  p.expect(patch > 0 && from[1] % patch == 0, "the channels are not a multiple of the block");
  Dims steps(axes);  // Of the block, along each axis.
  for (size_t d = 0; d < axes; ++d) {
    p.expect(strides[d] > 0, "a stride is not positive");
    p.expect(image[d] + pads[d] + pads[d + axes] >= dilations[d] * (block[d] - 1), "no block fits the image");
    steps[d] = (image[d] + pads[d] + pads[d + axes] - dilations[d] * (block[d] - 1) - 1) / strides[d] + 1;
  }
  p.expect(count(steps) == from[2], "the number of columns does not fit the image");
  Dims to{from[0], from[1] / patch};
  to.insert(to.end(), image.begin(), image.end());
  const Desc out = p.out(0, p.type(0), to);
  const int64_t planes = to[0] * to[1], columns = from[2], pixels = count(image);
  const Dims image_strides = strides_of(image), inner_blocks = strides_of(block);
  const int64_t row = steps[axes - 1], step = strides[axes - 1];
  return [=](const Args& args) {
    with_type(out.type, [&](auto zero) {
      using T = decltype(zero);
      std::memset(args.out(), 0, out.bytes());
      if (columns == 0) return;
      parallel_for(planes, std::max<int64_t>(1, kGrain / (patch * columns)), [&](int64_t plane, int64_t end) {
        for (; plane < end; ++plane) {
          using A = arithmetic_t<T>;
          T* const y = args.out<T>() + plane * pixels;
          Dims offset(axes);
          int64_t together = 1;
          for (int64_t k = 0; k < patch; k += together) {
            // Elements of the block that lie one after the other along the last axis are added at once.
            together = step == 1 && k % block[axes - 1] + kTogether <= block[axes - 1] ? kTogether : 1;
            const T* const x = args.in<T>(0) + (plane * patch + k) * columns;
            // Where this element of the block lies along each axis, before steps.
            for (size_t d = axes; d-- > 0;) {
              offset[d] = k / inner_blocks[d] % block[d] * dilations[d] - pads[d];
            }
            // Pixel p of a row is given element p - shifts[t] of the t-th of them, as far as there is one:
            // all of them have one in [begin, end).
            int64_t shifts[kTogether], begins[kTogether], ends[kTogether], begin = 0, end = image[axes - 1];
            const Steps alone(offset[axes - 1], step, row, image[axes - 1]);
            for (int64_t t = 0; t < together; ++t) {
              shifts[t] = offset[axes - 1] + t * dilations[axes - 1];
              const Steps all(shifts[t], 1, row, image[axes - 1]);
              begins[t] = all.first + shifts[t];
              ends[t] = all.last + shifts[t];
              begin = std::max(begin, begins[t]);
              end = std::min(end, ends[t]);
            }
            end = std::max(begin, end);
            const auto add_row = [&, y, x, begin, end, alone, step, row, columns, together](int64_t number,
                                                                                            int64_t at) {
              T* const to = y + at;
              const T* const from = x + number * row;
              const auto sum = [](T a, T b) { return static_cast<T>(static_cast<A>(A(a) + A(b))); };
              if (together == 1) {
                EPHOST_INDEPENDENT
                for (int64_t s = alone.first; s < alone.last; ++s) {
                  T& pixel = to[shifts[0] + s * step];
                  pixel = sum(pixel, from[s]);
                }
                return;
              }
              const T* const rows[] = {from - shifts[0], from + columns - shifts[1],
                                       from + 2 * columns - shifts[2]};
              for (int64_t t = 0; t < kTogether; ++t) {
                for (int64_t p = begins[t]; p < std::min(begin, ends[t]); ++p) to[p] = sum(to[p], rows[t][p]);
              }
              EPHOST_INDEPENDENT
              for (int64_t p = begin; p < end; ++p) {
                to[p] = sum(sum(sum(to[p], rows[0][p]), rows[1][p]), rows[2][p]);
              }
              for (int64_t t = 0; t < kTogether; ++t) {
                for (int64_t p = std::max(end, begins[t]); p < ends[t]; ++p) to[p] = sum(to[p], rows[t][p]);
              }
            };
            if (axes == 1) {
              add_row(0, 0);
              continue;
            }
            const size_t above = axes - 2;  // The axis of rows that follow each other.
            for (int64_t outer = 0; outer < columns / row; outer += steps[above]) {
              int64_t rest = outer / steps[above], at = 0;
              bool inside = true;
              for (size_t d = above; d-- > 0; rest /= steps[d]) {
                const int64_t i = rest % steps[d] * strides[d] + offset[d];
                inside = inside && i >= 0 && i < image[d];
                at += i * image_strides[d];
              }
              for (int64_t s = 0; inside && s < steps[above]; ++s) {
                const int64_t i = s * strides[above] + offset[above];
                if (i >= 0 && i < image[above]) add_row(outer + s, at + i * image_strides[above]);
              }
            }
          }
        }
      });
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "AffineGrid", .prepare = affine_grid, .types = kFloats | Types{DType::kInt64}});
  const Types with_indices = kFloats | Types{DType::kInt64, DType::kInt32};
  registry->add({.type = "RoiAlign", .prepare = roi_align, .types = with_indices, .any_layout = true});
  registry->add({.type = "MaxRoiPool", .prepare = max_roi_pool, .types = {DType::kFloat}});
  registry->add({.domain = "com.microsoft",
                 .type = "CropAndResize",
                 .supports = [](const Node& node) -> std::string {
                   const std::string mode = node.s("mode", "bilinear");
                   if (mode != "bilinear" && mode != "nearest") return "the mode '" + mode + "'";
                   for (size_t i : {2, 3}) {
                     const DType type = node.in(i) == nullptr ? DType::kUndefined : node.in(i)->type;
                     if (type != DType::kUndefined && type != DType::kInt32)
                       return "numbers of images or a size that are not int32";
                   }
                   return one_float_type(node, {0, 1});
                 },
                 .prepare = with_halves(crop_and_resize),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt32}});
  registry->add({.type = "MaxUnpool", .prepare = max_unpool});
  registry->add({.type = "Col2Im", .prepare = col2im, .types = kNumbers});
});

}  // namespace ephost::cpu
