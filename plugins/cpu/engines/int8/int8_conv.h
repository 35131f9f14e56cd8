// Convolutions of 8-bit integers: as a node describes them, and the ways in which they are computed.
#ifndef EPHOST_CPU_ENGINES_INT8_INT8_CONV_H_
#define EPHOST_CPU_ENGINES_INT8_INT8_CONV_H_

#include <array>
#include <cstring>

#include "cpu/engines/conv/window.h"
#include "cpu/engines/int8/int8.h"

namespace ephost::cpu {

// A window in the numbers that loops over pixels want: divisions of 32 bits take half the time of those
// of 64.
struct Geometry {
  int32_t rank = 0;
  int32_t in[8], out[8], strides[8], begin[8];
  int32_t kernel = 1, dilation = 1;  // Of the last dimension.
  // For each tap of the dimensions before the last, how far it is from the window's first one.
  std::vector<std::array<int32_t, 8>> lines;

  explicit Geometry(const Window& w) : rank(static_cast<int32_t>(w.rank())) {
    for (size_t d = 0; d < w.rank(); ++d) {
      in[d] = static_cast<int32_t>(w.in[d]);
      out[d] = static_cast<int32_t>(w.out[d]);
      strides[d] = static_cast<int32_t>(w.strides[d]);
      begin[d] = static_cast<int32_t>(w.begin[d]);
    }
    kernel = static_cast<int32_t>(w.kernel.back());
    dilation = static_cast<int32_t>(w.dilations.back());
    for (int64_t r = 0; r < count(w.kernel, 0, w.rank() - 1); ++r) {
      std::array<int32_t, 8> line{};
      int64_t rest = r;
      for (size_t d = w.rank() - 1; d-- > 0; rest /= w.kernel[d]) {
        line[d] = static_cast<int32_t>(rest % w.kernel[d] * w.dilations[d]);
      }
      lines.push_back(line);
    }
  }

  // Where the window of an output row (all dimensions but the last) begins.
  void start(int64_t row, int32_t* at) const {
    int32_t rest = static_cast<int32_t>(row);
    for (int32_t d = rank - 1; d-- > 0; rest /= out[d]) at[d] = rest % out[d] * strides[d] - begin[d];
  }
  // The row of the input that a line of the window is in; -1 where it is outside.
  int64_t row_of(const int32_t* start, const std::array<int32_t, 8>& line) const {
    int64_t row = 0;
    for (int32_t d = 0; d < rank - 1; ++d) {
      const int32_t at = start[d] + line[static_cast<size_t>(d)];
      if (at < 0 || at >= in[d]) return -1;
      row = row * in[d] + at;
    }
    return row;
  }
};

struct Convolution {
  Window window;
  Dims out;
  int64_t batch = 1, channels = 1, outputs = 1, groups = 1;
  int64_t taps = 1, k = 1;  // Of a window; with the channels of a group.
  int64_t in_size = 1, out_size = 1;
  int x = 0, w = 1, x_zero = -1, w_zero = -1;
  DType x_type = DType::kUint8, w_type = DType::kInt8;
  int64_t w_zeros = 1;
  bool pixels_alone =
      false;  // A product of matrices: each pixel of the output is of the same one of the input.

  int64_t group_in() const { return channels / groups; }
  int64_t group_out() const { return outputs / groups; }
  bool depthwise() const { return groups == channels && outputs == channels && channels > 1; }
};

// Of a node whose inputs are these; -1 where it has no such zero point.
Convolution convolution_of(Prepare& p, int x, int w, int x_zero, int w_zero);

// Where the sums of a convolution go: as they are, or as bytes.
struct Int8Output {
  int64_t outputs = 1;
  int32_t* sums = nullptr;
  uint8_t* bytes = nullptr;
  Quantized::Bytes as{};

  Quantized::Bytes from(int64_t channel) const {
    Quantized::Bytes here = as;
    here.scale += here.step * channel;
    return here;
  }
  // `rows` pixels, `n` channels of each, the first of which is `element` of the output and channel `channel`.
  void store(int64_t element, int64_t channel, int rows, int64_t n, const int32_t* from_sums,
             int64_t stride) const {
    if (bytes != nullptr) {
      simd().quantized.to_bytes(from_sums, stride, rows, n, from(channel), bytes + element, outputs);
      return;
    }
    for (int r = 0; r < rows; ++r) {
      std::memcpy(sums + element + r * outputs, from_sums + r * stride,
                  static_cast<size_t>(n) * sizeof(int32_t));
    }
  }
};

// A planned convolution. `bias` has a number for each output channel, or is null: then nothing is added.
using Int8Kernel = std::function<void(const Args& args, const int32_t* bias, const Int8Output& out)>;

struct Int8ConvImplementation {
  const char* name;  // In profiles.
  // Whether it is one for these weights and attributes; nothing that only shapes of inputs say counts.
  bool (*fits)(const Convolution& c);
  // Packs constant weights, whose original stays: shapes may ask for another implementation later. Null where
  // it does not suit the shapes or what the weights are.
  Int8Kernel (*make)(Prepare& p, const Convolution& c);
};
// By the first one that fits; the last one fits always. Has the input's channels brought to the end, and asks
// for scratch memory.
Int8Kernel make_int8_convolution(Prepare& p, const Convolution& c);

// By products of matrices: of bytes, null where weights are no constants or bytes cannot hold too many of
// them; and of 16-bit numbers.
Int8Kernel byte_products(Prepare& p, const Convolution& c);
Int8Kernel wide_products(Prepare& p, const Convolution& c);

// A convolution of each channel on its own; Convolution::depthwise() must hold.
class Depthwise {
 public:
  // Has the input's channels brought to the end, and asks for scratch memory.
  Depthwise(Prepare& p, const Convolution& of);
  // Computes bytes; `as` has one scale, or one for each channel. `bias` may be null.
  void run(const Args& args, const Quantized::Bytes& as, const int32_t* bias, uint8_t* out) const;
  // Computes the sums.
  void run(const Args& args, int32_t* out) const;

 private:
  struct Weights;
  std::shared_ptr<Weights> pack(const void* weights, const void* zero) const;
  void compute(const Args& args, const Quantized::Bytes* as, const int32_t* bias, uint8_t* y,
               int32_t* sums) const;

  Convolution c_;
  Geometry geometry_;
  std::shared_ptr<Weights> weights_;  // Null if only the run knows them.
  int64_t wide_ = 0;                  // Channels that are computed: at least 16.
  std::vector<DepthwiseBlock> blocks_;
  int64_t packed_ = 0;  // Channels of all blocks.
  bool is_three_ = false;
  std::vector<int> order_;  // Of the taps, in pairs.
  // Along the last dimension: the pixels whose window is inside of the input.
  int64_t inside_ = 0, inside_end_ = 0;
  size_t shared_ = 0, scratch_ = 0;  // Bytes, for all threads and for each.
};

}  // namespace ephost::cpu

#endif
