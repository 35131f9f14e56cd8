// Convolutions of 8-bit integers with 3x3 kernels and steps of one by Winograd's method in tiles of 4x4
// outputs: a quarter of the multiplications, and the same sums to the last bit. simd/int8_winograd.h has the
// arithmetic. Weights stay bytes in memory: they are transformed in each run, some output channels at a time,
// for as many tiles as there are or as are worth the memory, which takes little time beside the products.
#ifndef EPHOST_CPU_ENGINES_INT8_INT8_WINOGRAD_H_
#define EPHOST_CPU_ENGINES_INT8_INT8_WINOGRAD_H_

#include "cpu/engines/int8/int8_conv.h"

namespace ephost::cpu {

class Int8Winograd {
 public:
  // Whether it is a method for such weights and attributes.
  static bool fits(const Convolution& c);
  // Null where the method may not be exact, or is not worth it; it must fit. If not, has the input's
  // channels brought to the end, and asks for scratch memory.
  static std::shared_ptr<const Int8Winograd> make(Prepare& p, const Convolution& c);

  // `rows` pixels that follow each other, `n` channels of each, the first of which is `element` of the output
  // and channel `channel`. Their sums lie `stride` apart.
  using Emit = std::function<void(int64_t element, int64_t channel, int rows, int64_t n, const int32_t* sums,
                                  int64_t stride)>;
  // Calls `emit` for all parts of the output, on several threads. `bias` is added unless it is null.
  void run(const Args& args, const int32_t* bias, const Emit& emit) const;

 private:
  struct Weights;
  Int8Winograd(const Convolution& c, int threads);
  std::shared_ptr<Weights> pack(const void* weights, const void* zero) const;
  // Transforms the inputs of a tile; `outside` is a pixel of zero points.
  void transform(const uint8_t* x, int zero, const uint8_t* outside, int64_t tile, int16_t* to) const;
  // Transforms sums back; `lines` is memory for pixels.
  void deliver(int64_t first, int64_t count, int64_t panel, const int32_t* sums, const int32_t* bias,
               int32_t* lines, const Emit& emit) const;

  Convolution c_;
  std::shared_ptr<Weights> weights_;
  int64_t panels_;                 // Of kColumns outputs.
  int64_t down_, across_, tiles_;  // Tiles of an image; of all of them.
  // Tiles are cut into blocks, of at most so many; and panels into parts where there are few blocks.
  int64_t blocks_, at_once_, parts_;
  // Numbers between points: of transformed inputs and weights, and of sums.
  int64_t rows_step_, weights_step_, sums_step_;
  size_t scratch_ = 0;  // Bytes, for each thread.
};

}  // namespace ephost::cpu

#endif
