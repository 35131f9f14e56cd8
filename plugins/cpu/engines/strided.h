// Copies between tensors whose elements lie differently in memory: what Transpose, Slice, Concat, Expand,
// Tile, Pad and more come down to.
#ifndef EPHOST_CPU_ENGINES_STRIDED_H_
#define EPHOST_CPU_ENGINES_STRIDED_H_

#include "cpu/operator.h"

namespace ephost::cpu {

// Row-major strides, in elements.
Dims strides_of(const Dims& dims);

// The dimensions of a tensor as its layout has them in memory, outermost first, and where an axis of ONNX is
// among them. In the blocked layouts axis 1 counts blocks of channels, and the last one is the block itself.
Dims stored_dims(const Desc& desc);
size_t stored_axis(const Desc& desc, size_t axis);

// A copy that has been thought over: dimensions of 1 are gone, neighbours that are one run in both tensors
// are merged, and two of the dimensions are the plane that the inner loops work on. The kernels look at the
// size of elements, never at their type.
class StridedCopy {
 public:
  // Copies nothing.
  StridedCopy() = default;
  // Element (i, j, ...) of `dims` goes from in_offset + i * in_strides[0] + ... to the like place in the
  // output, all in elements of `size` bytes. Input strides may be 0 or negative.
  StridedCopy(size_t size, const Dims& dims, const Dims& in_strides, const Dims& out_strides,
              int64_t in_offset = 0, int64_t out_offset = 0);

  void operator()(const void* in, void* out) const;

  // Whether it is one run of memory, so that the output might as well be the input from in_offset() on.
  bool is_run() const { return items_ == 0 || whole_; }
  // In bytes; 0 when nothing is copied.
  size_t in_offset() const { return static_cast<size_t>(in_offset_); }

 private:
  struct Dim {
    int64_t n = 1, in = 0, out = 0;  // Strides in bytes.
  };
  template <typename Cell>
  void planes(const char* in, char* out, int64_t begin, int64_t end) const;

  size_t cell_ = 1;         // Bytes that are moved at once: 1, 2, 4, ... 64.
  std::vector<Dim> outer_;  // Outermost first, without the plane.
  Dim rows_, columns_;      // The plane. Rows are done in blocks, each an item of work.
  int64_t rows_at_once_ = 1;
  int64_t blocks_ = 1, items_ = 0, grain_ = 1;
  bool whole_ = false;  // Everything is one run of columns_.n bytes.
  bool rows_are_runs_ = false;
  int64_t in_offset_ = 0, out_offset_ = 0;  // In bytes.
};

// The kernel that does this copy from input 0 to output 0, which has been declared; or an alias.
Kernel copy_or_alias(Prepare& p, StridedCopy copy);

}  // namespace ephost::cpu

#endif
