/* Kernels that slide a window over images [N][C][height][width]: pooling, and convolution where cuDNN is
 * missing. */
#include "kernel.h"

namespace ephost::cuda {

/* The element of the result that is this thread's: a pixel of a plane. */
struct Pixel {
  int64_t number, plane;
  int x, y;
  template <typename Arguments>
  DEVICE explicit Pixel(const Arguments& args)
      : number(static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x),
        plane(number / args.out_width / args.out_height),
        x(static_cast<int>(number % args.out_width)),
        y(static_cast<int>(number / args.out_width % args.out_height)) {}
};

template <typename T>
DEVICE void pool(const PoolArguments& args) {
  const Pixel pixel(args);
  if (pixel.number >= args.count) {
    return;
  }
  const int x = pixel.x, y = pixel.y;
  const int64_t plane = pixel.plane, number = pixel.number;
  const T* in = static_cast<const T*>(args.in) + plane * args.height * args.width;
  const int top = y * args.stride_y - args.pad_y, left = x * args.stride_x - args.pad_x;
  float value = args.maximum ? -INFINITY : 0.0f;
  int inside = 0, counted = 0;
  for (int i = 0; i < args.window_y; ++i) {
    const int row = top + i * args.dilation_y;
    for (int k = 0; k < args.window_x; ++k) {
      const int column = left + k * args.dilation_x;
      counted += row < args.end_y && column < args.end_x;
      if (row >= 0 && row < args.height && column >= 0 && column < args.width) {
        const float v = to_float(in[static_cast<int64_t>(row) * args.width + column]);
        value = args.maximum ? (v > value || v != v ? v : value) : value + v;
        ++inside;
      }
    }
  }
  if (!args.maximum) {
    value /= static_cast<float>(args.count_padding ? counted : inside);
  }
  static_cast<T*>(args.out)[number] = from_float<T>(value);
}

/* A thread for each element of the result: right, and slow. */
template <typename T>
DEVICE void conv(const ConvArguments& args) {
  const Pixel pixel(args);
  if (pixel.number >= args.count) {
    return;
  }
  const int x = pixel.x, y = pixel.y;
  const int64_t plane = pixel.plane, number = pixel.number;
  const int channel = static_cast<int>(plane % args.out_channels);
  const int64_t image = plane / args.out_channels;
  const int in_group = args.channels / args.group;
  const int first = channel / (args.out_channels / args.group) * in_group;
  const int top = y * args.stride_y - args.pad_y, left = x * args.stride_x - args.pad_x;
  const T* in = static_cast<const T*>(args.in) + (image * args.channels + first) * args.height * args.width;
  const T* weights = static_cast<const T*>(args.weights) +
                     static_cast<int64_t>(channel) * in_group * args.window_y * args.window_x;
  float value = args.bias != nullptr ? to_float(static_cast<const T*>(args.bias)[channel]) : 0.0f;
  for (int c = 0; c < in_group; ++c) {
    for (int i = 0; i < args.window_y; ++i) {
      const int row = top + i * args.dilation_y;
      if (row < 0 || row >= args.height) continue;
      for (int k = 0; k < args.window_x; ++k) {
        const int column = left + k * args.dilation_x;
        if (column < 0 || column >= args.width) continue;
        value += to_float(in[(static_cast<int64_t>(c) * args.height + row) * args.width + column]) *
                 to_float(weights[(c * args.window_y + i) * args.window_x + k]);
      }
    }
  }
  static_cast<T*>(args.out)[number] = from_float<T>(value);
}

/* A thread for each element of the result. Weights are [channels][out_channels / group][window]. */
template <typename T>
DEVICE void conv_transpose(const ConvArguments& args) {
  const Pixel pixel(args);
  if (pixel.number >= args.count) {
    return;
  }
  const int x = pixel.x, y = pixel.y;
  const int64_t plane = pixel.plane, number = pixel.number;
  const int channel = static_cast<int>(plane % args.out_channels);
  const int64_t image = plane / args.out_channels;
  const int each = args.out_channels / args.group, in_group = args.channels / args.group;
  const int first = channel / each * in_group;
  const T* in = static_cast<const T*>(args.in) + (image * args.channels + first) * args.height * args.width;
  const T* weights = static_cast<const T*>(args.weights) +
                     (static_cast<int64_t>(first) * each + channel % each) * args.window_y * args.window_x;
  float value = args.bias != nullptr ? to_float(static_cast<const T*>(args.bias)[channel]) : 0.0f;
  for (int i = 0; i < args.window_y; ++i) {
    const int from_y = y + args.pad_y - i * args.dilation_y;
    if (from_y < 0 || from_y % args.stride_y != 0 || from_y / args.stride_y >= args.height) continue;
    for (int k = 0; k < args.window_x; ++k) {
      const int from_x = x + args.pad_x - k * args.dilation_x;
      if (from_x < 0 || from_x % args.stride_x != 0 || from_x / args.stride_x >= args.width) continue;
      const int64_t at = static_cast<int64_t>(from_y / args.stride_y) * args.width + from_x / args.stride_x;
      for (int c = 0; c < in_group; ++c) {
        value += to_float(in[static_cast<int64_t>(c) * args.height * args.width + at]) *
                 to_float(weights[(static_cast<int64_t>(c) * each * args.window_y + i) * args.window_x + k]);
      }
    }
  }
  static_cast<T*>(args.out)[number] = from_float<T>(value);
}

template <typename T>
DEVICE void lrn(const LrnArguments& args) {
  const int64_t number = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (number >= args.count) {
    return;
  }
  const int channel = static_cast<int>(number / args.inner % args.channels);
  const T* in = static_cast<const T*>(args.in) + number;
  float squares = 0.0f;
  for (int c = -args.before; c <= args.after; ++c) {
    if (channel + c < 0 || channel + c >= args.channels) continue;
    const float v = to_float(in[static_cast<int64_t>(c) * args.inner]);
    squares += v * v;
  }
  const float value = to_float(*in) * powf(args.bias + args.alpha * squares, -args.beta);
  static_cast<T*>(args.out)[number] = from_float<T>(value);
}

template <typename T>
DEVICE void resize(const ResizeArguments& args) {
  const Pixel pixel(args);
  if (pixel.number >= args.count) {
    return;
  }
  const int x = pixel.x, y = pixel.y;
  const int64_t plane = pixel.plane, number = pixel.number;
  const T* in = static_cast<const T*>(args.in) + plane * args.height * args.width;
  const auto row = [&](int r) {
    const T* from = in + static_cast<int64_t>(r) * args.width;
    const float low = to_float(from[args.low_x[x]]);
    return args.part_x == nullptr ? low : low + args.part_x[x] * (to_float(from[args.high_x[x]]) - low);
  };
  float value = row(args.low_y[y]);
  if (args.part_y != nullptr) value += args.part_y[y] * (row(args.high_y[y]) - value);
  static_cast<T*>(args.out)[number] = from_float<T>(value);
}

#define WINDOWS(name, T)                                                                  \
  KERNEL(pool_##name, CONSTANT PoolArguments args) { pool<T>(args); }                     \
  KERNEL(conv_##name, CONSTANT ConvArguments args) { conv<T>(args); }                     \
  KERNEL(conv_transpose_##name, CONSTANT ConvArguments args) { conv_transpose<T>(args); } \
  KERNEL(lrn_##name, CONSTANT LrnArguments args) { lrn<T>(args); }                        \
  KERNEL(resize_##name, CONSTANT ResizeArguments args) { resize<T>(args); }

WINDOWS(f32, float)
WINDOWS(f16, half_t)
WINDOWS(bf16, bf16_t)

}  // namespace ephost::cuda
