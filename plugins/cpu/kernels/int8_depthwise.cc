// Convolutions of 8-bit integers of each channel on its own: some channels side by side. See int8_conv.h.
#include <cstring>

#include "int8_conv.h"

namespace ephost::cpu {

// For some channels at a time the pairs of taps, less zero points; and the sums of a channel's.
struct Depthwise::Weights {
  std::vector<int16_t> pairs;
  std::vector<int32_t> sums;
};

std::shared_ptr<Depthwise::Weights> Depthwise::pack(const void* weights, const void* zero) const {
  const Convolution& c = c_;
  auto made = std::make_shared<Weights>();
  const int64_t blocks = (c.channels + kChannels - 1) / kChannels, pairs = (c.taps + 1) / 2;
  made->pairs.resize(static_cast<size_t>(blocks * pairs * 2 * kChannels));
  made->sums.resize(static_cast<size_t>(c.channels));
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t pair = 0; pair < pairs; ++pair) {
      int16_t both[2][kChannels] = {};
      for (int64_t t = 2 * pair; t < std::min(c.taps, 2 * pair + 2); ++t) {
        for (int64_t l = 0; l < kChannels && block * kChannels + l < c.channels; ++l) {
          const int64_t channel = block * kChannels + l;
          const int value = zero_of(c.w_type, weights, channel * c.taps + t) -
                            zero_of(c.w_type, zero, c.w_zeros == 1 ? 0 : channel);
          both[t % 2][l] = static_cast<int16_t>(value);
          made->sums[static_cast<size_t>(channel)] += value;
        }
      }
      simd().quantized.interleave_taps(both[0], both[1],
                                       made->pairs.data() + (block * pairs + pair) * 2 * kChannels);
    }
  }
  return made;
}

Depthwise::Depthwise(Prepare& p, const Convolution& of) : c_(of), geometry_(of.window) {
  p.require(c_.x, Layout::kChannelsLast);
  const TensorPtr constant = p.constant(c_.w);
  const TensorPtr zeros = c_.w_zero < 0 ? nullptr : p.constant(c_.w_zero);
  if (constant != nullptr && (c_.w_zero < 0 || zeros != nullptr)) {
    const void* zero = zeros == nullptr ? nullptr : zeros->data;
    std::string key = "int8 depthwise ";
    if (zero != nullptr) key.append(static_cast<const char*>(zero), static_cast<size_t>(c_.w_zeros));
    weights_ = Prepare::packed<Weights>(constant, key, [&] { return pack(constant->data, zero); });
  }
  scratch_ = static_cast<size_t>((c_.channels + kChannels) * static_cast<int64_t>(sizeof(int32_t)));
  scratch_ = (scratch_ + 63) & ~size_t{63};
  p.scratch(scratch_ * static_cast<size_t>(p.threads()));
}

void Depthwise::run(const Args& args,
                    const std::function<void(int64_t element, const int32_t* sums)>& emit) const {
  const Convolution& c = c_;
  const Quantized& simd = ephost::cpu::simd().quantized;
  const uint8_t* const x = args.in<uint8_t>(c.x);
  const int zero = zero_of(c.x_type, c.x_zero < 0 ? nullptr : args.in<void>(c.x_zero));
  std::shared_ptr<const Weights> weights = weights_;
  if (weights == nullptr) {
    weights = pack(args.in<void>(c.w), c.w_zero < 0 ? nullptr : args.in<void>(c.w_zero));
  }
  const int64_t pairs = (c.taps + 1) / 2, blocks = (c.channels + kChannels - 1) / kChannels;
  const auto depthwise = c.x_type == DType::kInt8 ? simd.depthwise_signed : simd.depthwise_unsigned;
  const Geometry& g = geometry_;
  const int64_t width = g.out[g.rank - 1], rows = c.out_size / std::max<int64_t>(1, width);
  // What lies outside of the image; it also fills up the last pair.
  const std::vector<uint8_t> outside(static_cast<size_t>(c.channels + kChannels), static_cast<uint8_t>(zero));
  parallel_for(
      c.batch * rows, std::max<int64_t>(1, kGrain / (width * c.channels * c.taps + 1)),
      [&](int64_t i, int64_t end) {
        std::vector<const uint8_t*> lines(g.lines.size());
        std::vector<const uint8_t*> taps(static_cast<size_t>(2 * pairs), outside.data()), here(taps.size());
        std::vector<uint8_t> tail(static_cast<size_t>(2 * pairs * kChannels));
        int32_t* const sums =
            reinterpret_cast<int32_t*>(args.scratch<char>() + static_cast<size_t>(thread_rank()) * scratch_);
        for (; i < end; ++i) {
          const uint8_t* image = x + i / rows * c.in_size * c.channels;
          int32_t start[8];
          g.start(i % rows, start);
          const int32_t in_width = g.in[g.rank - 1];
          for (size_t r = 0; r < lines.size(); ++r) {
            const int64_t row = g.row_of(start, g.lines[r]);
            lines[r] = row < 0 ? nullptr : image + row * in_width * c.channels;
          }
          // From one pixel to the next all taps move by the same, as long as the window is inside of the
          // lines.
          const int64_t step = g.strides[g.rank - 1] * c.channels, reach = (g.kernel - 1) * g.dilation;
          bool was_inside = false;
          for (int64_t o = 0; o < width; ++o) {
            const int32_t begin = static_cast<int32_t>(o) * g.strides[g.rank - 1] - g.begin[g.rank - 1];
            const bool is_inside = begin >= 0 && begin + reach < in_width;
            const uint8_t** tap = taps.data();
            for (const uint8_t* line : lines) {
              if (is_inside && was_inside) {
                for (int32_t k = 0; k < g.kernel; ++k) *tap++ += line == nullptr ? 0 : step;
                continue;
              }
              for (int32_t k = 0; k < g.kernel; ++k) {
                const int32_t at = begin + k * g.dilation;
                *tap++ =
                    line == nullptr || at < 0 || at >= in_width ? outside.data() : line + at * c.channels;
              }
            }
            was_inside = is_inside;
            for (int64_t block = 0; block < blocks; ++block) {
              const int64_t channel = block * kChannels, left = c.channels - channel;
              if (left >= kChannels) {
                for (size_t t = 0; t < taps.size(); ++t) here[t] = taps[t] + channel;
              } else {
                // Not to read behind the end of the image.
                for (size_t t = 0; t < taps.size(); ++t) {
                  here[t] = tail.data() + t * kChannels;
                  std::memcpy(tail.data() + t * kChannels, taps[t] + channel, static_cast<size_t>(left));
                }
              }
              depthwise(here.data(), pairs, weights->pairs.data() + block * pairs * 2 * kChannels,
                        sums + channel);
            }
            if (zero != 0) simd.subtract(sums, c.channels, weights->sums.data(), 1, zero);
            emit((i * width + o) * c.channels, sums);
          }
        }
      });
}

}  // namespace ephost::cpu
