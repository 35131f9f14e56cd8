// Convolutions of 8-bit integers of each channel on its own: some channels side by side, along lines of
// pixels. See int8_conv.h, and simd/simd.h for the form of the weights.
//
// A window that is inside of the input's lines is read where it lies; lines above and below the image are one
// of the zero point. Windows at the ends of a line are copied.
#include <cstring>

#include "cpu/engines/int8/int8_conv.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kWide = 32, kNarrow = 16;

size_t aligned(int64_t bytes) { return static_cast<size_t>((bytes + 63) & ~int64_t{63}); }

}  // namespace

struct Depthwise::Weights {
  std::vector<int8_t> packed;
  std::vector<int32_t> sums;      // Of a channel's weights less their zero point, by number of the blocks.
  std::vector<int32_t> channels;  // Which channel a number is of; -1 where it is of none.
  int64_t group = 8;
};

Depthwise::Depthwise(Prepare& p, const Convolution& of) : c_(of), geometry_(of.window) {
  p.require(c_.x, Layout::kChannelsLast);
  wide_ = std::max(c_.channels, kNarrow);
  for (int64_t at = 0; at < wide_;) {
    const int64_t left = wide_ - at;
    const bool wide = left > kNarrow && wide_ >= kWide;
    // Fewer than a block has: with some of those before once more.
    const int64_t n = wide ? kWide : kNarrow;
    blocks_.push_back({std::min(at, wide_ - n), packed_, wide});
    packed_ += n;
    at += n;
  }
  is_three_ = geometry_.kernel == 3 && geometry_.lines.size() == 3;
  for (int t = 0; t < static_cast<int>(c_.taps); ++t) order_.push_back(is_three_ ? kThree[t] : t);
  if (order_.size() % 2 != 0) order_.push_back(order_.back());  // Its second weight is 0.
  const Geometry& g = geometry_;
  const int64_t width = g.out[g.rank - 1], in_width = g.in[g.rank - 1], begin = g.begin[g.rank - 1],
                stride = g.strides[g.rank - 1], room = in_width + begin - (g.kernel - 1) * g.dilation;
  inside_ = std::min(width, (std::max<int64_t>(0, begin) + stride - 1) / stride);
  inside_end_ = std::clamp(room <= 0 ? 0 : (room + stride - 1) / stride, inside_, width);

  const TensorPtr constant = p.constant(c_.w);
  const TensorPtr zeros = c_.w_zero < 0 ? nullptr : p.constant(c_.w_zero);
  if (constant != nullptr && (c_.w_zero < 0 || zeros != nullptr)) {
    const void* zero = zeros == nullptr ? nullptr : zeros->data;
    std::string key = "int8 depthwise ";
    if (zero != nullptr) key.append(static_cast<const char*>(zero), static_cast<size_t>(c_.w_zeros));
    weights_ = Prepare::packed<Weights>(constant, key, [&] { return pack(constant->data, zero); });
  }
  const int64_t line = static_cast<int64_t>(g.lines.size()) * wide_;  // Of a column of the window.
  if (c_.channels < kNarrow) {
    // Lines with room for more channels, and the output.
    const int64_t padded = (width - 1) * stride + (g.kernel - 1) * g.dilation + 1;
    scratch_ = aligned(line * padded) + aligned(width * wide_ * static_cast<int64_t>(sizeof(int32_t)));
  } else {
    scratch_ = aligned(line * g.kernel);
  }
  shared_ = aligned(in_width * c_.channels) + 2 * aligned(packed_ * static_cast<int64_t>(sizeof(int32_t)));
  p.scratch(shared_ + scratch_ * static_cast<size_t>(p.threads()));
}

std::shared_ptr<Depthwise::Weights> Depthwise::pack(const void* weights, const void* zero) const {
  auto made = std::make_shared<Weights>();
  const int64_t pairs = static_cast<int64_t>(order_.size()) / 2;
  made->packed.resize(static_cast<size_t>(packed_ * pairs * 4));
  made->sums.resize(static_cast<size_t>(packed_));
  made->channels.assign(static_cast<size_t>(packed_), -1);
  for (const DepthwiseBlock& block : blocks_) {
    const int64_t wide = block.wide ? kWide : kNarrow;
    for (int64_t c = 0; c < wide && block.channel + c < c_.channels; ++c) {
      const int64_t channel = block.channel + c, h = c % 16;
      const size_t number = static_cast<size_t>(block.packed + h / 4 * (wide / 4) + c / 16 * 4 + h % 4);
      const int w_zero = zero_of(c_.w_type, zero, c_.w_zeros == 1 ? 0 : channel);
      made->channels[number] = static_cast<int32_t>(channel);
      for (int64_t t = 0; t < c_.taps; ++t) {
        const int tap = order_[static_cast<size_t>(t)];
        const int value = zero_of(c_.w_type, weights, channel * c_.taps + tap) - w_zero;
        made->sums[number] += value;
        // Parts of at most 8, so that the sum of 16 products with a byte is below 2^15. With a zero point the
        // high one can be 16.
        const int high = (value + 8) >> 4, low = value - 16 * high;
        if (high < -8 || high > 8) made->group = 4;
        int8_t* const to = made->packed.data() + block.packed * pairs * 4 + t / 2 * 4 * wide + h / 8 * wide +
                           c / 16 * 16 + h % 8 * 2 + t % 2;
        to[0] = static_cast<int8_t>(low);
        to[2 * wide] = static_cast<int8_t>(high);
      }
    }
  }
  return made;
}

void Depthwise::run(const Args& args, const Quantized::Bytes& as, const int32_t* bias, uint8_t* out) const {
  compute(args, &as, bias, out, nullptr);
}
void Depthwise::run(const Args& args, int32_t* out) const { compute(args, nullptr, nullptr, nullptr, out); }

void Depthwise::compute(const Args& args, const Quantized::Bytes* as, const int32_t* bias, uint8_t* y,
                        int32_t* sums) const {
  const Convolution& c = c_;
  const Geometry& g = geometry_;
  const bool is_signed = c.x_type == DType::kInt8;
  const int zero = zero_of(c.x_type, c.x_zero < 0 ? nullptr : args.in<void>(c.x_zero));
  std::shared_ptr<const Weights> weights = weights_;
  if (weights == nullptr) {
    weights = pack(args.in<void>(c.w), c.w_zero < 0 ? nullptr : args.in<void>(c.w_zero));
  }
  const int64_t width = g.out[g.rank - 1], rows = c.out_size / std::max<int64_t>(1, width);
  const int64_t in_width = g.in[g.rank - 1], begin = g.begin[g.rank - 1], stride = g.strides[g.rank - 1];
  const int64_t n = c.channels;

  char* memory = args.scratch<char>();
  uint8_t* const outside = reinterpret_cast<uint8_t*>(memory);
  memory += aligned(in_width * n);
  int32_t* const start = reinterpret_cast<int32_t*>(memory);
  memory += aligned(packed_ * static_cast<int64_t>(sizeof(int32_t)));
  float* const scales = reinterpret_cast<float*>(memory);
  memory += aligned(packed_ * static_cast<int64_t>(sizeof(float)));
  std::memset(outside, zero, static_cast<size_t>(in_width * n));
  const int32_t point = is_signed ? zero + 128 : zero;
  for (int64_t i = 0; i < packed_; ++i) {
    const int64_t channel = weights->channels[static_cast<size_t>(i)];
    start[i] = -point * weights->sums[static_cast<size_t>(i)];
    scales[i] = 0;
    if (as == nullptr || channel < 0) continue;
    if (bias != nullptr) {
      start[i] = static_cast<int32_t>(static_cast<uint32_t>(start[i]) + static_cast<uint32_t>(bias[channel]));
    }
    scales[i] = as->scale[as->step * channel];
  }
  const DepthwiseLine common = {.taps = nullptr,
                                .step = 0,
                                .pixels = 0,
                                .pairs = static_cast<int64_t>(order_.size()) / 2,
                                .group = weights->group,
                                .is_three = is_three_ && weights->group == 8,  // All taps in one sum.
                                .is_signed = is_signed,
                                .blocks = blocks_.data(),
                                .count = static_cast<int64_t>(blocks_.size()),
                                .weights = weights->packed.data(),
                                .start = start,
                                .scales = scales,
                                .channels = wide_,
                                .zero = as == nullptr ? 0 : as->zero,
                                .low = as == nullptr ? 0 : as->low,
                                .y = nullptr,
                                .sums = nullptr};
  const uint8_t* const x = args.in<uint8_t>(c.x);
  const auto depthwise = simd().depthwise;

  const auto body = [&](int64_t i, int64_t end) {
    uint8_t* const own = reinterpret_cast<uint8_t*>(memory) + static_cast<size_t>(thread_rank()) * scratch_;
    std::vector<const uint8_t*> lines(g.lines.size()), taps(order_.size());
    // Pixels [first, last) of a row, whose tap k of line r is at base(r) + k * step.
    DepthwiseLine line = common;
    line.taps = taps.data();
    const auto set_taps = [&](const auto& base, int64_t step) {
      for (size_t t = 0; t < order_.size(); ++t) {
        taps[t] = base(static_cast<size_t>(order_[t] / g.kernel)) + order_[t] % g.kernel * step;
      }
    };
    for (; i < end; ++i) {
      const uint8_t* image = x + i / rows * c.in_size * n;
      int32_t at[8];
      g.start(i % rows, at);
      for (size_t r = 0; r < lines.size(); ++r) {
        const int64_t row = g.row_of(at, g.lines[r]);
        lines[r] = row < 0 ? outside : image + row * in_width * n;
      }
      const int64_t element = i * width * n;
      if (n < kNarrow) {
        const int64_t padded = (width - 1) * stride + (g.kernel - 1) * g.dilation + 1;
        for (size_t r = 0; r < lines.size(); ++r) {
          for (int64_t k = 0; k < padded; ++k) {
            const int64_t from = k - begin;
            const uint8_t* pixel = from < 0 || from >= in_width ? outside : lines[r] + from * n;
            uint8_t* to = own + (static_cast<int64_t>(r) * padded + k) * wide_;
            for (int64_t b = 0; b < n; ++b) to[b] = pixel[b];
          }
        }
        set_taps([&](size_t r) { return own + static_cast<int64_t>(r) * padded * wide_; },
                 g.dilation * wide_);
        uint8_t* made = own + aligned(static_cast<int64_t>(lines.size()) * padded * wide_);
        line.step = stride * wide_;
        line.pixels = width;
        line.y = y == nullptr ? nullptr : made;
        line.sums = reinterpret_cast<int32_t*>(made);
        depthwise(line);
        for (int64_t o = 0; o < width; ++o) {
          for (int64_t b = 0; b < n; ++b) {
            if (y != nullptr) {
              y[element + o * n + b] = line.y[o * wide_ + b];
            } else {
              sums[element + o * n + b] = line.sums[o * wide_ + b];
            }
          }
        }
        continue;
      }
      const auto put = [&](int64_t first, int64_t pixels) {
        line.pixels = pixels;
        line.y = y == nullptr ? nullptr : y + element + first * n;
        line.sums = sums == nullptr ? nullptr : sums + element + first * n;
        depthwise(line);
      };
      const auto copied = [&](int64_t o) {
        uint8_t* to = own;
        for (const uint8_t* each : lines) {
          for (int32_t k = 0; k < g.kernel; ++k, to += n) {
            const int64_t from = o * stride - begin + k * g.dilation;
            std::memcpy(to, from < 0 || from >= in_width ? outside : each + from * n, static_cast<size_t>(n));
          }
        }
        set_taps([&](size_t r) { return own + static_cast<int64_t>(r) * g.kernel * n; }, n);
        line.step = 0;
        put(o, 1);
      };
      for (int64_t o = 0; o < inside_; ++o) copied(o);
      if (inside_ < inside_end_) {
        set_taps([&](size_t r) { return lines[r] + (inside_ * stride - begin) * n; }, g.dilation * n);
        line.step = stride * n;
        put(inside_, inside_end_ - inside_);
      }
      for (int64_t o = inside_end_; o < width; ++o) copied(o);
    }
  };
  parallel_for(c.batch * rows, std::max<int64_t>(1, 4 * kGrain / (width * n * c.taps + 1)), body);
}

}  // namespace ephost::cpu
