#include "cpu/engines/conv/depthwise.h"

#include <algorithm>

#include "cpu/runtime/threads.h"

namespace ephost::cpu {
namespace {

constexpr const char* kKey = "depthwise";
constexpr int64_t kMostLines = 64;     // Of a kernel.
constexpr int64_t kMostInLines = 256;  // Of the input, under a band.

struct Weights {
  std::shared_ptr<void> memory;
};

// How the output is shared among threads: bands of lines, of some channels, and parts of lines that are long.
// Lines of a band lie `phases` apart, so that its windows have lines in common where those have gaps.
struct Bands {
  int64_t rows, pixels, channels;  // Of a band, at most.
  // Bands of a plane: by first line, on top of each other, beside and behind each other.
  int64_t phases, high, parts, chunks;
  int64_t planes, grain;

  Bands(const FloatDepthwiseBand& band, int64_t the_planes, int64_t height, int64_t width, int64_t stride,
        int64_t gap, int64_t threads)
      : phases(stride == 1 ? std::clamp<int64_t>(gap, 1, std::max<int64_t>(1, height)) : 1),
        planes(the_planes) {
    constexpr int64_t kMostPixels = 128, kInCache = 1 << 17, kLeastChannels = 128;
    const int64_t lines = std::max<int64_t>(1, (height + phases - 1) / phases);
    const auto up = [](int64_t all, int64_t each) { return (all + each - 1) / each; };
    parts = std::max<int64_t>(1, up(width, kMostPixels));
    pixels = up(width, parts);
    // More than are read twice, and what is read of the input and what is written in the second cache.
    const bool apart = gap > 1 && stride > 1;  // Without lines in common.
    const int64_t room = (kMostInLines / band.depth - band.lines) / band.line_stride + 1;
    rows = apart ? 1 : std::clamp<int64_t>(2 * band.lines, 1, std::min(lines, room));
    const int64_t read = band.depth * (rows * band.line_stride + band.lines) * pixels * band.stride;
    const int64_t most = std::max(kLeastChannels, kInCache / (read + rows * pixels + 1));
    chunks = up(band.channels, std::min(most, band.channels));
    channels = up(up(band.channels, chunks), kDepthwiseBlock) * kDepthwiseBlock;
    chunks =
        std::max<int64_t>(1, band.channels / channels);  // The last one has the rest: no part of a block.
    // Work for all threads.
    const int64_t beside = std::max<int64_t>(1, planes * phases * parts * chunks);
    const int64_t least = threads == 1 ? 1 : up(4 * threads, beside);  // Bands on top of each other.
    if (up(lines, rows) < least) rows = std::max<int64_t>(1, lines / least);
    high = up(lines, rows);
    rows = up(lines, high);
    if (threads > 1 && beside * high < 2 * threads && parts == 1) {
      parts = std::clamp<int64_t>(width / 32, 1, up(4 * threads, beside * high));
      pixels = up(width, parts);
    }
    const int64_t taps = band.depth * band.lines * band.taps * band.group;
    grain = std::max<int64_t>(1, kGrain / (rows * pixels * channels * taps / 4 + 1));
  }
  int64_t count() const { return planes * chunks * parts * phases * high; }
};

}  // namespace

bool is_depthwise(const Dims& weights, int64_t groups) {
  const int64_t group = weights[1];
  return weights.size() >= 3 && weights.size() <= 5 && count(weights, 2, weights.size() - 1) <= kMostLines &&
         (group == 1 || group == 2 || group == 4) && weights[0] == groups * group &&
         weights[0] >= kDepthwiseChannels;
}

bool has_depthwise_weights(const TensorPtr& constant) {
  const std::lock_guard lock(constant->packed_mutex);
  return constant->packed.count(kKey) != 0;
}

// Calls move(i, j) for each weight: i is its place in the model, [channels][group][taps], and j in
// [taps][group][channels].
template <typename Move>
static void for_weights(const Dims& dims, const Move& move) {
  const int64_t channels = dims[0], group = dims[1], taps = count(dims, 2, dims.size());
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t g = 0; g < group; ++g) {
      int64_t i = g * taps + t, j = (t * group + g) * channels;
      for (const int64_t end = j + channels; j < end; ++j, i += group * taps) move(i, j);
    }
  }
}

std::shared_ptr<void> depthwise_weights(const TensorPtr& constant, const TensorPtr& original) {
  const auto make = [&] {
    const Tensor& given = original == nullptr ? *constant : *original;
    if (given.data == nullptr) fail("a weight is gone before it was packed");
    auto made = std::make_shared<Weights>();
    made->memory = allocate_lasting(static_cast<size_t>(count(constant->dims)) * sizeof(float));
    float* const to = static_cast<float*>(made->memory.get());
    const float* const from = given.as<float>();
    for_weights(constant->dims, [&](int64_t i, int64_t j) { to[j] = from[i]; });
    return made;
  };
  return Prepare::packed<Weights>(constant, kKey, make)->memory;
}

TensorPtr depthwise_original(const TensorPtr& constant) {
  const float* const from = static_cast<const float*>(depthwise_weights(constant).get());
  TensorPtr made = make_tensor(DType::kFloat, constant->dims);
  float* const to = static_cast<float*>(mutable_data(made));
  for_weights(constant->dims, [&](int64_t i, int64_t j) { to[i] = from[j]; });
  return made;
}

Kernel depthwise(Prepare& p, const Window& window, const Dims& target, bool biased, const PostOps& post_ops,
                 int operands) {
  p.require(0, Layout::kChannelsLast);
  for (int i = operands; i < p.inputs(); ++i) p.require(i, Layout::kChannelsLast);
  p.out(0, DType::kFloat, target, Layout::kChannelsLast);
  const std::shared_ptr<void> weights = depthwise_weights(p.constant(1));
  // Height and depth; what is missing is 1.
  const size_t rank = window.rank();
  const auto of = [&](const Dims& dims, size_t from_last, int64_t otherwise) {
    return from_last < rank ? dims[rank - 1 - from_last] : otherwise;
  };
  const int64_t in_height = of(window.in, 1, 1), out_height = of(window.out, 1, 1),
                kernel = of(window.kernel, 1, 1), stride = of(window.strides, 1, 1),
                dilation = of(window.dilations, 1, 1), top = of(window.begin, 1, 0);
  const int64_t in_depth = of(window.in, 2, 1), out_depth = of(window.out, 2, 1),
                kernel_z = of(window.kernel, 2, 1), stride_z = of(window.strides, 2, 1),
                dilation_z = of(window.dilations, 2, 1), front = of(window.begin, 2, 0);
  FloatDepthwiseBand band{};
  band.depth = kernel_z;
  band.lines = kernel;
  band.line_stride = dilation == 1 ? stride : 1;
  band.taps = window.kernel.back();
  band.stride = window.strides.back();
  band.dilation = window.dilations.back();
  band.left = window.begin.back();
  band.in_width = window.in.back();
  band.group = p.dims(1)[1];
  band.weights = static_cast<const float*>(weights.get());
  band.channels = target[1];
  const int64_t width = window.out.back(), line = width * band.channels, threads = std::max(1, p.threads());
  const Bands bands(band, target[0] * out_depth, out_height, width, stride, dilation, threads);
  band.line = bands.phases * line;
  const auto room = static_cast<size_t>(band.room_size(bands.pixels));
  p.scratch(room * sizeof(float) * static_cast<size_t>(threads));
  const RowEpilogue epilogue(post_ops);
  const int ends = p.inputs();
  return [=](const Args& args) {
    const float *x = args.in<float>(0), *bias = biased ? args.in<float>(2) : nullptr;
    float *const y = args.out<float>(0), *const rooms = args.scratch<float>();
    const float* others[16] = {};
    for (int i = operands; i < ends; ++i) others[i - operands] = args.in<float>(i);
    parallel_for(bands.count(), bands.grain, [&](int64_t i, int64_t end) {
      const float* from[kMostInLines];
      FloatDepthwiseBand here = band;
      here.from = from;
      here.bias = bias;
      here.room = rooms + room * static_cast<size_t>(thread_rank());
      for (; i < end; ++i) {
        // Bands that have lines of the input in common follow each other.
        const int64_t at_row = i % bands.high, phase = i / bands.high % bands.phases;
        const int64_t beside = i / bands.high / bands.phases, part = beside % bands.parts,
                      chunk = beside / bands.parts % bands.chunks,
                      plane = beside / bands.parts / bands.chunks, n = plane / out_depth;
        const int64_t row = at_row * bands.rows * bands.phases + phase;
        here.rows = std::min(bands.rows, (out_height - row + bands.phases - 1) / bands.phases);
        if (here.rows <= 0) continue;
        here.in_lines = (here.rows - 1) * band.line_stride + band.lines;
        for (int64_t z = 0; z < kernel_z; ++z) {
          const int64_t at_z = plane % out_depth * stride_z - front + z * dilation_z;
          for (int64_t k = 0; k < here.in_lines; ++k) {
            const int64_t at = row * stride - top + k * dilation;
            const bool inside = at >= 0 && at < in_height && at_z >= 0 && at_z < in_depth;
            const int64_t place = (n * in_depth + at_z) * in_height + at;
            from[z * here.in_lines + k] = inside ? x + place * band.in_width * band.channels : nullptr;
          }
        }
        here.first = width * part / bands.parts;
        here.last = width * (part + 1) / bands.parts;
        here.begin = chunk * bands.channels;
        here.end = chunk + 1 == bands.chunks ? band.channels : here.begin + bands.channels;
        here.y = y + (plane * out_height + row) * line;
        simd().float_depthwise(here);
        if (epilogue.empty()) continue;
        const bool whole = bands.chunks == 1;
        const int64_t some = here.end - here.begin, pixels = here.last - here.first;
        for (int64_t r = 0; r < here.rows; ++r) {
          int64_t at = here.y - y + r * band.line + here.first * band.channels + here.begin;
          if (whole) {
            epilogue.run(y, others, at, pixels * some);
            continue;
          }
          for (int64_t k = 0; k < pixels; ++k, at += band.channels) epilogue.run(y, others, at, some);
        }
      }
    });
  };
}

}  // namespace ephost::cpu
