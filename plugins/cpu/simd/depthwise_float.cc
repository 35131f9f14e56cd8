// Convolutions of each channel, or of two or four of them, on their own, along lines of pixels; see
// engines/conv/depthwise.h.
#include <utility>

#include "cpu/simd/simd.h"
#include "cpu/simd/vectors.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

// Of eight channels the j-th one of each group, at the places of all channels of that group.
template <int group, int j>
inline Vector of_group(const Vector& x) {
  if constexpr (group == 1) {
    return x;
  } else if constexpr (group == 2) {
    return Vector{x[j], x[j], x[2 + j], x[2 + j], x[4 + j], x[4 + j], x[6 + j], x[6 + j]};
  } else {
    static_assert(group == 4);
    return Vector{x[j], x[j], x[j], x[j], x[4 + j], x[4 + j], x[4 + j], x[4 + j]};
  }
}

// Calls add(value, j) for each of a group's inputs.
template <int group, typename Add>
inline void for_inputs(const Vector& x, const Add& add) {
  [&]<int... j>(std::integer_sequence<int, j...>) { (add(of_group<group, j>(x), j), ...); }
  (std::make_integer_sequence<int, group>());
}

// 8 * `vectors` channels, from c on, of `pixels` of the output, from pixel `at` on. Of each line of the
// kernel the taps from `begin` to `end` are inside of the image.
template <int pixels, int vectors, int group>
inline void block(const FloatDepthwiseLine& d, int64_t at, int64_t c, int64_t begin, int64_t end) {
  Vector sums[pixels][vectors];
#pragma GCC unroll 8
  for (int p = 0; p < pixels; ++p) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[p][v] = d.bias == nullptr ? Vector{} : load(d.bias + c + 8 * v);
  }
  const int64_t step = d.stride * d.channels, tap = d.dilation * d.channels;
  const int64_t from = (at * d.stride - d.left) * d.channels + c;
  for (int64_t line = 0; line < d.lines; ++line) {
    if (d.from[line] == nullptr) continue;
    const float* x = d.from[line] + from + begin * tap;
    const float* w = d.weights + (line * d.kernel + begin) * group * d.channels + c;
    for (int64_t k = begin; k < end; ++k, x += tap, w += group * d.channels) {
#pragma GCC unroll 8
      for (int p = 0; p < pixels; ++p) {
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
          for_inputs<group>(load(x + p * step + 8 * v), [&](const Vector& value, int j) {
            sums[p][v] += load(w + j * d.channels + 8 * v) * value;
          });
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < pixels; ++p) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) store(d.y + (at + p) * d.channels + c + 8 * v, sums[p][v]);
  }
}

// All channels of one pixel: several vectors at a time, since each sum waits for the one before.
template <int group>
inline void one_pixel(const FloatDepthwiseLine& d, int64_t pixel, int64_t begin, int64_t end) {
  int64_t c = 0;
  for (; c + 32 <= d.channels; c += 32) block<1, 4, group>(d, pixel, c, begin, end);
  for (; c < d.channels; c += 8) {
    block<1, 1, group>(d, pixel, c + 8 <= d.channels ? c : d.channels - 8, begin, end);
  }
}

// The same as `block` for kernels of so many taps in a line, all of them inside of the image: each element of
// the input is read once.
template <int pixels, int taps, int stride, int group>
inline void whole_block(const FloatDepthwiseLine& d, int64_t at, int64_t c) {
  Vector sums[pixels];
#pragma GCC unroll 8
  for (int p = 0; p < pixels; ++p) sums[p] = d.bias == nullptr ? Vector{} : load(d.bias + c);
  const int64_t from = (at * d.stride - d.left) * d.channels + c;
  for (int64_t line = 0; line < d.lines; ++line) {
    if (d.from[line] == nullptr) continue;
    const float* x = d.from[line] + from;
    const float* w = d.weights + line * taps * group * d.channels + c;
#pragma GCC unroll 32
    for (int i = 0; i < (pixels - 1) * stride + taps; ++i) {
      for_inputs<group>(load(x + i * d.channels), [&](const Vector& value, int j) {
#pragma GCC unroll 8
        for (int p = 0; p < pixels; ++p) {
          const int k = i - p * stride;
          if (k >= 0 && k < taps) sums[p] += load(w + (k * group + j) * d.channels) * value;
        }
      });
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < pixels; ++p) store(d.y + (at + p) * d.channels + c, sums[p]);
}

// Sixteen channels at a time, which share cache lines. Where less than eight channels or `pixels` are left,
// some before them are done once more. `pixels` at a time keep both multipliers busy.
template <int pixels, int group, typename Whole>
inline void all_channels(const FloatDepthwiseLine& d, const Whole& whole) {
  const int64_t reach = (d.kernel - 1) * d.dilation;
  // Pixels whose windows are inside of the line.
  int64_t inside = d.left <= 0 ? 0 : (d.left + d.stride - 1) / d.stride;
  int64_t outside =
      d.in_width - 1 - reach + d.left < 0 ? 0 : (d.in_width - 1 - reach + d.left) / d.stride + 1;
  inside = inside < d.first ? d.first : inside < d.last ? inside : d.last;
  outside = outside < inside ? inside : outside < d.last ? outside : d.last;
  for (int64_t c = 0; c < d.channels && outside - inside >= pixels; c += 16) {
    const int64_t last = d.channels - 8, two[2] = {c < last ? c : last, c + 8 < last ? c + 8 : last};
    const int n = c + 8 < d.channels ? 2 : 1;
    for (int64_t pixel = inside; pixel < outside; pixel += pixels) {
      const int64_t at = pixel + pixels <= outside ? pixel : outside - pixels;
      for (int v = 0; v < n; ++v) whole(at, two[v]);
    }
  }
  const int64_t done = outside - inside >= pixels ? outside : inside;
  for (int64_t pixel = d.first; pixel < d.last; ++pixel) {
    if (pixel == inside) pixel = done;
    if (pixel == d.last) break;
    const int64_t at = pixel * d.stride - d.left;
    int64_t begin = 0, end = d.kernel;
    while (begin < end && at + begin * d.dilation < 0) ++begin;
    while (end > begin && at + (end - 1) * d.dilation >= d.in_width) --end;
    one_pixel<group>(d, pixel, begin, end);
  }
}

template <int taps, int stride, int group>
void by_taps(const FloatDepthwiseLine& d) {
  // As many sums as there are registers beside the weights.
  constexpr int kPixels = taps == 7 ? 7 : 8;
  all_channels<kPixels, group>(
      d, [&](int64_t pixel, int64_t c) { whole_block<kPixels, taps, stride, group>(d, pixel, c); });
}

template <int group>
void by_group(const FloatDepthwiseLine& d) {
  if (d.dilation == 1 && (d.stride == 1 || d.stride == 2)) {
    const bool one = d.stride == 1;
    if (d.kernel == 3) return one ? by_taps<3, 1, group>(d) : by_taps<3, 2, group>(d);
    if constexpr (group == 1) {
      if (d.kernel == 5) return one ? by_taps<5, 1, group>(d) : by_taps<5, 2, group>(d);
      if (d.kernel == 7) return one ? by_taps<7, 1, group>(d) : by_taps<7, 2, group>(d);
    }
  }
  all_channels<8, group>(d, [&](int64_t pixel, int64_t c) { block<8, 1, group>(d, pixel, c, 0, d.kernel); });
}

void float_depthwise(const FloatDepthwiseLine& d) {
  switch (d.group) {
    case 1:
      return by_group<1>(d);
    case 2:
      return by_group<2>(d);
    default:
      return by_group<4>(d);
  }
}

}  // namespace

void fill_depthwise_float(Simd* table) { table->float_depthwise = float_depthwise; }

}  // namespace ephost::cpu::EPHOST_ISA
