#include "cpu/engines/int8/int8_winograd.h"

#include <cstdlib>

namespace ephost::cpu {

// [panels][pairs of channels][9 taps][kColumns][2]; unsigned ones made signed.
struct Int8Winograd::Weights {
  std::shared_ptr<void> memory;
  std::vector<int16_t> zeros;  // Still to be subtracted, [panels][kColumns][2]. Empty: nothing.
};

namespace {

// What the sums can become: those of positive and of negative weights of each output, less zero points.
struct Range {
  std::vector<int64_t> positive, negative;
  int largest = 0;  // Of all weights.
};

std::shared_ptr<Range> range_of(const Convolution& c, const void* weights, const void* zero) {
  auto range = std::make_shared<Range>();
  for (int64_t o = 0; o < c.outputs; ++o) {
    const int less = zero_of(c.w_type, zero, c.w_zeros == 1 ? 0 : o);
    int positive = 0, negative = 0, most = 0;
    const auto add = [&](const auto* each) {
      for (int64_t i = 0; i < c.k; ++i) {
        const int weight = each[i] - less;
        positive += std::max(weight, 0);
        negative += std::max(-weight, 0);
        most = std::max(most, std::abs(weight));
      }
    };
    if (c.w_type == DType::kInt8) {
      add(static_cast<const int8_t*>(weights) + o * c.k);
    } else {
      add(static_cast<const uint8_t*>(weights) + o * c.k);
    }
    range->positive.push_back(positive);
    range->negative.push_back(negative);
    range->largest = std::max(range->largest, most);
  }
  return range;
}

// Whether transformed weights fit into 16 bits, and 64 times all sums into 32, with inputs from `low` to
// `high`.
bool is_exact(const Range& range, int64_t low, int64_t high) {
  constexpr int64_t kMost = INT32_MAX / 64;
  for (size_t o = 0; o < range.positive.size(); ++o) {
    const int64_t positive = range.positive[o], negative = range.negative[o];
    if (high * positive - low * negative > kMost || high * negative - low * positive > kMost) return false;
  }
  return range.largest <= kWinogradMostWeight;
}

// So many numbers or more, as an odd number of the cache's lines: if points were a multiple of 4096 bytes
// apart, all of them would compete for the same few lines.
int64_t odd_lines(int64_t numbers, size_t size) {
  const int64_t line = 64 / static_cast<int64_t>(size);
  return ((numbers + line - 1) / line | 1) * line;
}

}  // namespace

bool Int8Winograd::fits(const Convolution& c) {
  const Window& w = c.window;
  return simd().winograd8.products != nullptr && w.rank() == 2 && c.groups == 1 && w.kernel == Dims{3, 3} &&
         w.strides == Dims{1, 1} && w.dilations == Dims{1, 1} && c.channels % 2 == 0 &&
         c.channels >= kWinogradChannels;
}

std::shared_ptr<const Int8Winograd> Int8Winograd::make(Prepare& p, const Convolution& c) {
  const TensorPtr weights = p.constant(c.w);
  const TensorPtr zeros = c.w_zero < 0 ? nullptr : p.constant(c.w_zero);
  if (weights == nullptr || (c.w_zero >= 0 && zeros == nullptr)) return nullptr;
  const std::shared_ptr<Int8Winograd> made(new Int8Winograd(c, std::max(1, p.threads())));
  // Multiplications by each weight, in either way. To transform weights for a block takes as long as this
  // many, and tiles at the end of a side are done whole.
  constexpr int64_t kTransform = 180;
  const int64_t here = kWinogradPoints * made->tiles_ + kTransform * made->blocks_;
  if (here > c.taps * c.batch * c.out_size * 9 / 10) return nullptr;

  const void* zero = zeros == nullptr ? nullptr : zeros->data;
  std::string key = "int8 winograd ";
  if (zero != nullptr) key.append(static_cast<const char*>(zero), static_cast<size_t>(c.w_zeros));
  const auto range =
      Prepare::packed<Range>(weights, "range of " + key, [&] { return range_of(c, weights->data, zero); });
  // The input less its zero point, if that is known.
  int64_t low = -255, high = 255;
  const void* x_zero = c.x_zero < 0 ? nullptr : p.content(c.x_zero);
  if (c.x_zero < 0 || x_zero != nullptr) {
    low = lowest(c.x_type) - zero_of(c.x_type, x_zero);
    high = highest(c.x_type) - zero_of(c.x_type, x_zero);
  }
  if (!is_exact(*range, low, high)) return nullptr;
  made->weights_ = Prepare::packed<Weights>(weights, key, [&] { return made->pack(weights->data, zero); });
  p.require(c.x, Layout::kChannelsLast);
  p.scratch(made->scratch_ * static_cast<size_t>(std::max(1, p.threads())));
  return made;
}

Int8Winograd::Int8Winograd(const Convolution& c, int threads)
    : c_(c),
      panels_((c.outputs + kColumns - 1) / kColumns),
      down_((c.window.out[0] + kWinogradTile - 1) / kWinogradTile),
      across_((c.window.out[1] + kWinogradTile - 1) / kWinogradTile),
      tiles_(c.batch * down_ * across_) {
  // Of transformed inputs and sums: more than the second cache holds, since both are read in order, and
  // weights are transformed once for each block.
  constexpr int64_t kBytes = 768 << 10;
  const int64_t each = kWinogradPoints * (c.channels * static_cast<int64_t>(sizeof(int16_t)) +
                                          kColumns * static_cast<int64_t>(sizeof(int32_t)));
  const int64_t most = std::max<int64_t>(kRows, kBytes / each);
  blocks_ = std::max<int64_t>(1, (tiles_ + most - 1) / most);
  at_once_ = (tiles_ + blocks_ - 1) / blocks_;
  parts_ = threads == 1 ? 1 : std::clamp<int64_t>((4 * threads + blocks_ - 1) / blocks_, 1, panels_);
  rows_step_ = odd_lines(at_once_ * c.channels, sizeof(int16_t));
  weights_step_ = odd_lines(c.channels * kColumns, sizeof(int16_t));
  sums_step_ = odd_lines(at_once_ * kColumns, sizeof(int32_t));
  const int64_t lines = kWinogradTile * std::min(across_, at_once_) * kWinogradTile * kColumns;
  scratch_ = static_cast<size_t>(kWinogradPoints * rows_step_ + kWinogradGroupPoints * weights_step_) *
                 sizeof(int16_t) +
             static_cast<size_t>(kWinogradPoints * sums_step_ + lines) * sizeof(int32_t);
}

std::shared_ptr<Int8Winograd::Weights> Int8Winograd::pack(const void* weights, const void* zero) const {
  auto made = std::make_shared<Weights>();
  const int64_t channels = c_.channels, panel_size = channels * 9 * kColumns;
  const int shift = shift_of(c_.w_type);
  made->memory = allocate_lasting(static_cast<size_t>(panels_ * panel_size));
  int8_t* const to = static_cast<int8_t*>(made->memory.get());
  const uint8_t* const from = static_cast<const uint8_t*>(weights);
  parallel_for(panels_, 1, [&](int64_t panel, int64_t end) {
    for (; panel < end; ++panel) {
      for (int64_t column = 0; column < kColumns; ++column) {
        const int64_t output = panel * kColumns + column;
        for (int64_t i = 0; i < channels; ++i) {
          int8_t* kernel = to + panel * panel_size + i / 2 * 9 * 2 * kColumns + column * 2 + i % 2;
          for (int64_t tap = 0; tap < 9; ++tap, kernel += 2 * kColumns) {
            const uint8_t byte = output < c_.outputs ? from[(output * channels + i) * 9 + tap] : 0;
            *kernel = static_cast<int8_t>(byte ^ shift);
          }
        }
      }
    }
  });
  std::vector<int16_t> zeros;
  bool any = false;
  for (int64_t i = 0; i < panels_ * kColumns * 2; ++i) {
    const int64_t output = std::min(c_.outputs - 1, i / 2);
    zeros.push_back(static_cast<int16_t>(zero_of(c_.w_type, zero, c_.w_zeros == 1 ? 0 : output) - shift));
    any = any || zeros.back() != 0;
  }
  if (any) made->zeros = std::move(zeros);
  return made;
}

void Int8Winograd::transform(const uint8_t* x, int zero, const uint8_t* outside, int64_t tile,
                             int16_t* to) const {
  const Window& w = c_.window;
  const int64_t column = tile % across_, row = tile / across_ % down_, n = tile / across_ / down_;
  const int64_t top = row * kWinogradTile - w.begin[0], left = column * kWinogradTile - w.begin[1];
  const uint8_t* const image = x + n * c_.in_size * c_.channels;
  const uint8_t* pixels[kWinogradPoints];
  for (int64_t i = 0; i < kWinogradSide; ++i) {
    for (int64_t j = 0; j < kWinogradSide; ++j) {
      const int64_t y = top + i, at = left + j;
      const bool inside = y >= 0 && y < w.in[0] && at >= 0 && at < w.in[1];
      pixels[i * kWinogradSide + j] = inside ? image + (y * w.in[1] + at) * c_.channels : outside;
    }
  }
  const Winograd8& simd = ephost::cpu::simd().winograd8;
  (c_.x_type == DType::kInt8 ? simd.input_signed : simd.input_unsigned)(pixels, c_.channels, zero, to,
                                                                        rows_step_);
}

void Int8Winograd::deliver(int64_t first, int64_t count, int64_t panel, const int32_t* sums,
                           const int32_t* bias, int32_t* lines, const Emit& emit) const {
  const Winograd8& simd = ephost::cpu::simd().winograd8;
  const int64_t height = c_.window.out[0], width = c_.window.out[1];
  const int64_t channel = panel * kColumns, here = std::min<int64_t>(kColumns, c_.outputs - channel);
  // Tiles side by side make lines of pixels without a gap.
  for (int64_t t = 0; t < count;) {
    const int64_t tile = first + t, column = tile % across_, row = tile / across_ % down_;
    const int64_t n = tile / across_ / down_, adjacent = std::min(count - t, across_ - column);
    const int64_t line = adjacent * kWinogradTile * kColumns;
    for (int64_t i = 0; i < adjacent; ++i) {
      simd.output(sums + (t + i) * kColumns, sums_step_, bias, lines + i * kWinogradTile * kColumns, line);
    }
    const int64_t left = column * kWinogradTile, top = row * kWinogradTile;
    const int64_t pixels = std::min(adjacent * kWinogradTile, width - left);
    for (int64_t i = 0; i < std::min<int64_t>(kWinogradTile, height - top); ++i) {
      const int64_t pixel = (n * height + top + i) * width + left;
      emit(pixel * c_.outputs + channel, channel, static_cast<int>(pixels), here, lines + i * line, kColumns);
    }
    t += adjacent;
  }
}

void Int8Winograd::run(const Args& args, const int32_t* bias, const Emit& emit) const {
  const Winograd8& simd = ephost::cpu::simd().winograd8;
  const uint8_t* const x = args.in<uint8_t>(c_.x);
  const int zero = zero_of(c_.x_type, c_.x_zero < 0 ? nullptr : args.in<void>(c_.x_zero));
  const std::vector<uint8_t> outside(static_cast<size_t>(c_.channels), static_cast<uint8_t>(zero));
  std::vector<int32_t> start(static_cast<size_t>(panels_ * kColumns));
  if (bias != nullptr) std::copy(bias, bias + c_.outputs, start.begin());
  const int64_t pairs = c_.channels / 2;
  parallel_for(blocks_ * parts_, 1, [&](int64_t task, int64_t end) {
    char* const scratch = args.scratch<char>() + static_cast<size_t>(thread_rank()) * scratch_;
    int16_t* const rows = reinterpret_cast<int16_t*>(scratch);
    int16_t* const made = rows + kWinogradPoints * rows_step_;
    int32_t* const sums = reinterpret_cast<int32_t*>(made + kWinogradGroupPoints * weights_step_);
    int32_t* const lines = sums + kWinogradPoints * sums_step_;
    for (int64_t ready = -1; task < end; ++task) {
      const int64_t block = task / parts_, part = task % parts_;
      const int64_t first = tiles_ * block / blocks_, count = tiles_ * (block + 1) / blocks_ - first;
      for (int64_t t = 0; block != ready && t < count; ++t) {
        transform(x, zero, outside.data(), first + t, rows + t * c_.channels);
      }
      ready = block;
      for (int64_t panel = panels_ * part / parts_; panel < panels_ * (part + 1) / parts_; ++panel) {
        const int8_t* const weights =
            static_cast<const int8_t*>(weights_->memory.get()) + panel * pairs * 9 * 2 * kColumns;
        const int16_t* const zeros =
            weights_->zeros.empty() ? nullptr : weights_->zeros.data() + panel * 2 * kColumns;
        for (int group = 0; group < kWinogradGroups; ++group) {
          simd.weights(weights, pairs, zeros, group, made, weights_step_);
          simd.products(rows, rows_step_, count, made, weights_step_, pairs, group, sums, sums_step_);
        }
        deliver(first, count, panel, sums, start.data() + panel * kColumns, lines, emit);
      }
    }
  });
}

}  // namespace ephost::cpu
