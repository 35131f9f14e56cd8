// Convolutions of each channel, or of two or four of them, on their own, along lines of pixels; see
// engines/conv/depthwise.h.
#include <algorithm>
#include <utility>

#include "cpu/simd/simd.h"
#include "cpu/simd/vectors.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

#ifdef __AVX512F__
typedef float Wide __attribute__((vector_size(64)));
constexpr int kManyPixels = 14;  // Whose sums fit into the registers.
#else
typedef Vector Wide;
constexpr int kManyPixels = 8;
#endif

// Of eight channels the j-th one of each group, at the places of all channels of that group.
template <int group, int j>
inline Vector of_group(const Vector& x) {
  if constexpr (group == 2) {
    return Vector{x[j], x[j], x[2 + j], x[2 + j], x[4 + j], x[4 + j], x[6 + j], x[6 + j]};
  } else {
    static_assert(group == 4);
    return Vector{x[j], x[j], x[j], x[j], x[4 + j], x[4 + j], x[4 + j], x[4 + j]};
  }
}

// Calls add(value, j) for each of a group's inputs.
template <int group, typename V, typename Add>
inline void for_inputs(const V& x, const Add& add) {
  if constexpr (group == 1) {
    add(x, 0);
  } else {
    [&]<int... j>(std::integer_sequence<int, j...>) { (add(of_group<group, j>(x), j), ...); }
    (std::make_integer_sequence<int, group>());
  }
}

// A block of channels of one line of the output: where it is in the room, and where it goes.
struct BlockLine {
  const float* const* from;  // Lines in the room under each line of the kernel; null outside of the image.
  const float* weights;      // [lines][taps][group][channels]
  const float* bias;
  float* y;
};

// So many pixels from `at` on, of which `kept` are written. `gap` is the stride, and `taps` how many a line
// of the kernel has, without gaps, if they are known: then each element of the input is read once.
template <typename V, int pixels, int gap, int taps, int group>
inline void tile(const FloatDepthwiseBand& d, const BlockLine& b, int64_t at, int64_t kept) {
  constexpr int64_t kLane = sizeof(V) / sizeof(float);
  const int64_t stride = gap == 0 ? d.stride : gap, step = stride * kLane, tap = d.dilation * kLane;
  V sums[pixels];
#pragma GCC unroll 16
  for (int p = 0; p < pixels; ++p) sums[p] = load_as<V>(b.bias);
  for (int64_t line = 0; line < d.depth * d.lines; ++line) {
    if (b.from[line] == nullptr) continue;
    const float* x = b.from[line] + at * step;
    const float* w = b.weights + line * d.taps * group * kLane;
    if constexpr (taps != 0) {
      static_assert(group == 1 && gap != 0);
      V weights[taps];
#pragma GCC unroll 8
      for (int t = 0; t < taps; ++t) weights[t] = load_as<V>(w + t * kLane);
#pragma GCC unroll 64
      for (int i = 0; i < (pixels - 1) * gap + taps; ++i) {
        const V value = load_as<V>(x + i * kLane);
#pragma GCC unroll 16
        for (int p = 0; p < pixels; ++p) {
          const int t = i - p * gap;
          if (t >= 0 && t < taps) sums[p] += weights[t] * value;
        }
      }
      continue;
    }
    for (int64_t t = 0; t < d.taps; ++t, x += tap, w += group * kLane) {
#pragma GCC unroll 16
      for (int p = 0; p < pixels; ++p) {
        for_inputs<group>(load_as<V>(x + p * step),
                          [&](const V& value, int j) { sums[p] += load_as<V>(w + j * kLane) * value; });
      }
    }
  }
  float* const y = b.y + at * d.channels;
#pragma GCC unroll 16
  for (int p = 0; p < pixels; ++p) {
    if (p < kept) store_as(y + p * d.channels, sums[p]);
  }
}

// Where less than a tile is left, some pixels before it are done once more.
template <typename V, int gap, int taps, int group>
void line_of_block(const FloatDepthwiseBand& d, const BlockLine& b) {
  const int64_t width = d.last - d.first;
  int64_t at = 0;
  for (; at + kManyPixels <= width; at += kManyPixels)
    tile<V, kManyPixels, gap, taps, group>(d, b, at, kManyPixels);
  while (at < width) {
    const int64_t left = width - at;
    if (left <= 4) {
      tile<V, 4, gap, taps, group>(d, b, width < 4 ? 0 : width - 4, width);
      at = width;
    } else {
      const int64_t from = left < 8 && width >= 8 ? width - 8 : at;
      tile<V, 8, gap, taps, group>(d, b, from, width - from);
      at = from + 8;
    }
  }
}

// Pixels of a line of the input, from `pixel` on, of some channels; those outside of it are zeros.
template <typename V>
void copy_line(const FloatDepthwiseBand& d, const float* from, int64_t pixel, int64_t places, float* to) {
  constexpr int64_t kLane = sizeof(V) / sizeof(float);
  const int64_t inside = std::clamp<int64_t>(-pixel, 0, places),
                outside = std::clamp<int64_t>(d.in_width - pixel, inside, places);
  int64_t i = 0;
  for (; i < inside; ++i) store_as(to + i * kLane, V{});
  for (const float* x = from + (pixel + i) * d.channels; i < outside; ++i, x += d.channels) {
    store_as(to + i * kLane, load_as<V>(x));
    __builtin_prefetch(x +
                       kLane);  // For the next block: pixels are too far apart for the processor to do so.
  }
  for (; i < places; ++i) store_as(to + i * kLane, V{});
}

// The channels from c on.
template <typename V, int gap, int taps, int group>
void block(const FloatDepthwiseBand& d, int64_t c) {
  constexpr int64_t kLane = sizeof(V) / sizeof(float), kMostLines = 64;
  const int64_t places = d.places(d.last - d.first), lines = d.depth * d.lines;
  float* const bias = d.room;
  float* const weights = bias + kLane;
  float* const copies = weights + lines * d.taps * group * kLane;
  store_as(bias, d.bias == nullptr ? V{} : load_as<V>(d.bias + c));
  for (int64_t i = 0; i < lines * d.taps * group; ++i) {
    store_as(weights + i * kLane, load_as<V>(d.weights + i * d.channels + c));
  }
  const float* from[kMostLines];
  BlockLine line{from, weights, bias, d.y + d.first * d.channels + c};
  int64_t copied = 0;  // Of the input's lines.
  for (int64_t row = 0; row < d.rows; ++row, line.y += d.line) {
    const int64_t first = row * d.line_stride, end = first + d.lines;
    const auto copy_of = [&](int64_t z, int64_t at) {
      return copies + (z * d.lines + at % d.lines) * places * kLane;
    };
    for (copied = std::max(copied, first); copied < end; ++copied) {
      for (int64_t z = 0; z < d.depth; ++z) {
        const float* const x = d.from[z * d.in_lines + copied];
        if (x != nullptr) copy_line<V>(d, x + c, d.first * d.stride - d.left, places, copy_of(z, copied));
      }
    }
    for (int64_t i = 0; i < lines; ++i) {
      const int64_t z = i / d.lines, at = first + i % d.lines;
      from[i] = d.from[z * d.in_lines + at] == nullptr ? nullptr : copy_of(z, at);
    }
    line_of_block<V, gap, taps, group>(d, line);
  }
}

// Where fewer channels are left than lie in a vector, some before them are done once more.
template <typename V, int gap, int taps, int group>
void all_blocks(const FloatDepthwiseBand& d) {
  constexpr int64_t kLane = sizeof(V) / sizeof(float);
  for (int64_t c = d.begin; c < d.end; c += kLane) {
    block<V, gap, taps, group>(d, std::min(c, d.channels - kLane));
  }
}

template <typename V, int gap, int group>
void by_taps(const FloatDepthwiseBand& d) {
  if constexpr (gap != 0 && group == 1) {
    if (d.dilation == 1 && d.taps == 3) return all_blocks<V, gap, 3, group>(d);
    if (d.dilation == 1 && d.taps == 5) return all_blocks<V, gap, 5, group>(d);
    if (d.dilation == 1 && d.taps == 7) return all_blocks<V, gap, 7, group>(d);
  }
  all_blocks<V, gap, 0, group>(d);
}

template <typename V, int group>
void by_stride(const FloatDepthwiseBand& d) {
  if (d.stride == 1) return by_taps<V, 1, group>(d);
  if (d.stride == 2) return by_taps<V, 2, group>(d);
  by_taps<V, 0, group>(d);
}

void float_depthwise(const FloatDepthwiseBand& d) {
  if (d.group == 2) return by_stride<Vector, 2>(d);
  if (d.group == 4) return by_stride<Vector, 4>(d);
#ifdef __AVX512F__
  if (d.channels >= static_cast<int64_t>(sizeof(Wide) / sizeof(float))) return by_stride<Wide, 1>(d);
#endif
  by_stride<Vector, 1>(d);
}

}  // namespace

void fill_depthwise_float(Simd* table) { table->float_depthwise = float_depthwise; }

}  // namespace ephost::cpu::EPHOST_ISA
