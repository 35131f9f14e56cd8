// 8-bit integers as models quantise them: exact products of matrices of them.
#ifndef EPHOST_CPU_ENGINES_INT8_INT8_H_
#define EPHOST_CPU_ENGINES_INT8_INT8_H_

#include "cpu/operator.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {

inline constexpr Types kBytes{DType::kUint8, DType::kInt8};
inline constexpr Types kBytesAndSums = kBytes | Types{DType::kFloat, DType::kInt32};

// The zero point of a byte in memory, and the limits of its type.
inline int zero_of(DType type, const void* zero, int64_t i = 0) {
  return zero == nullptr        ? 0
         : type == DType::kInt8 ? static_cast<const int8_t*>(zero)[i]
                                : static_cast<const uint8_t*>(zero)[i];
}
inline int lowest(DType type) { return type == DType::kInt8 ? -128 : 0; }
inline int highest(DType type) { return type == DType::kInt8 ? 127 : 255; }
// Says which of these inputs, scales and zero points, is not a single number; "" if all are.
std::string not_single(const Node& node, const std::vector<size_t>& inputs);
// Whether an input is one number in a shape that a scale or zero point may have (none, or a list of one), or
// left out.
bool is_single(const Prepare& p, int i);
// What is subtracted of a byte of this type to make it signed.
inline int shift_of(DType type) { return type == DType::kInt8 ? 0 : 128; }

// Panels of kColumns columns of a matrix [k, n], in one of the forms that simd/quantized.h tells; bytes are
// made signed.
struct Panels {
  int64_t k = 0, n = 0;
  const char* form = "";         // In profiles.
  bool wide = false;             // 16-bit numbers.
  std::shared_ptr<void> memory;  // Of either form.
  std::vector<int32_t> sums;     // Of the columns; 0 for those that fill up the last panel.
  // What bytes cannot hold: for the halves of all panels, one after the other, where the first one's begins.
  std::vector<int8_t> rest;
  std::vector<int32_t> places, first_rest;

  int64_t fours() const { return (k + 3) / 4; }
  int64_t pairs() const { return (k + 1) / 2; }
  int64_t count() const { return (n + kColumns - 1) / kColumns; }
  // Of a row of the other matrix, in elements.
  int64_t stride() const { return wide ? pairs() * 2 : fours() * 4; }
  Quantized::Panel panel(int64_t i) const {
    const int32_t* const first = first_rest.data() + 2 * i;
    return {static_cast<const int8_t*>(memory.get()) + i * fours() * 4 * kColumns,
            fours(),
            rest.data() + first[0] * 2 * kColumns,
            places.data() + first[0],
            {first[1] - first[0], first[2] - first[1]}};
  }
  Quantized::WidePanel wide_panel(int64_t i) const {
    return {static_cast<const int16_t*>(memory.get()) + i * pairs() * 2 * kColumns, pairs()};
  }
};
// `transposed`: the matrix lies as [n, k]; where there are `taps`, its k's lie as [k / taps][taps] and are
// wanted as [taps][k / taps]. In the first form that can hold the matrix, of those that are made in little
// time where `at_once`, as is right for matrices that are multiplied once.
Panels make_panels(const void* matrix, DType type, int64_t k, int64_t n, bool transposed,
                   bool at_once = false, int64_t taps = 1);
// The form of those.
const char* form_made_at_once();

// Rows of a matrix, as panels of either form want those of the other one: unsigned bytes or 16-bit numbers.
struct Rows {
  int64_t m = 0, stride = 0;
  bool wide = false;
  const void* data = nullptr;  // The matrix itself where it has the right form.
  std::vector<int32_t> sums;   // Of the rows less their zero points, if that was wanted.
  std::shared_ptr<void> memory;

  const uint8_t* row(int64_t i) const { return static_cast<const uint8_t*>(data) + i * stride; }
  const int16_t* wide_row(int64_t i) const { return static_cast<const int16_t*>(data) + i * stride; }
};
// What is added to a byte of this type for such a row.
inline int row_shift(DType type, bool wide) { return !wide && type == DType::kInt8 ? 128 : 0; }
// Writes one row of k elements; what fills it up to the stride is left as it is, since it meets weights of 0.
void make_row(const void* from, DType type, int64_t k, bool wide, void* row);
int32_t sum_of_row(const void* row, int64_t k, bool wide);
// Of a matrix [m, k] for a product with `b`; `step` is 1 where each row has a zero point of its own.
Rows make_rows(const void* matrix, DType type, int64_t m, const Panels& b, const void* zero, int step,
               bool with_sums);

// sums = start + rows * the columns of a panel; `row` and `stride` as in Rows.
inline void multiply_tile(const Panels& b, int64_t panel, const void* row, int64_t stride, int rows,
                          const int32_t* start, int32_t* sums) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  if (b.wide) {
    simd.wide_product(static_cast<const int16_t*>(row), stride, rows, b.wide_panel(panel), start, sums);
  } else {
    simd.product(static_cast<const uint8_t*>(row), stride, rows, b.panel(panel), start, sums);
  }
}
// The same with sums as bytes, for panels of which all columns are wanted.
inline void multiply_to_bytes(const Panels& b, int64_t panel, const void* row, int64_t stride, int64_t rows,
                              const int32_t* start, const Quantized::Bytes& as, uint8_t* y,
                              int64_t y_stride) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  if (b.wide) {
    simd.wide_product_to_bytes(static_cast<const int16_t*>(row), stride, rows, b.wide_panel(panel), start, as,
                               y, y_stride);
  } else {
    simd.product_to_bytes(static_cast<const uint8_t*>(row), stride, rows, b.panel(panel), start, as, y,
                          y_stride);
  }
}

// DynamicQuantizeLinear: the scale and the zero point of numbers whose least and largest these are, and all.
void scale_of_range(float low, float high, float* scale, uint8_t* zero);
void quantize_dynamically(const float* x, int64_t n, uint8_t* y, float* scale, uint8_t* zero);

// Calls body(row, column, n, sums) for all parts of the product, on several threads. Sums begin with `start`,
// a number for each column of all panels; zero points of the columns are not yet subtracted, and `sums` may
// be changed. Where `out` is not null it has room for all sums, [m, n], and some are written there without a
// call.
template <typename Body>
void multiply(const Rows& a, const Panels& b, const int32_t* start, int32_t* out, const Body& body) {
  // A task keeps its part of a in the second cache while it goes through panels: two at a time, of bytes.
  constexpr int64_t kTall = 2 * kRows;
  const int64_t block = std::max<int64_t>(kRows, std::min<int64_t>(a.m, 48)),
                blocks = (a.m + block - 1) / block, pairs = (b.count() + 1) / 2;
  const int64_t work = block * 2 * kColumns * b.k;
  // All of a, if the cache holds it, passes by each pair of panels: the pairs are read once, and threads
  // share them evenly.
  const bool keeps_a = a.m * a.stride * (b.wide ? 2 : 1) <= (256 << 10);
  parallel_for(blocks * pairs, std::max<int64_t>(1, 8 * kGrain / (work + 1)), [&](int64_t i, int64_t end) {
    alignas(64) int32_t sums[kTall * 2 * kColumns];
    for (; i < end; ++i) {
      const int64_t first = (keeps_a ? i % blocks : i / pairs) * block, last = std::min(a.m, first + block);
      const int64_t panel = (keeps_a ? i / blocks : i % pairs) * 2,
                    panels = std::min<int64_t>(2, b.count() - panel);
      const bool together = panels == 2 && !b.wide;
      for (int64_t row = first; row < last; row += kTall) {
        const int rows = static_cast<int>(std::min(kTall, last - row));
        const auto tell = [&](int64_t column, int64_t width) {
          const int64_t columns = std::min(width, b.n - column);
          for (int r = 0; r < rows; ++r) body(row + r, column, columns, sums + r * width);
        };
        if (together) {
          const int64_t column = panel * kColumns;
          const bool there = out != nullptr && column + 2 * kColumns <= b.n;
          simd().quantized.pair_product(a.row(row), a.stride, rows, b.panel(panel), b.panel(panel + 1),
                                        start + column, there ? out + row * b.n + column : sums,
                                        there ? b.n : 2 * kColumns);
          if (!there) tell(panel * kColumns, 2 * kColumns);
          continue;
        }
        for (int64_t each = panel; each < panel + panels; ++each) {
          const void* from = b.wide ? static_cast<const void*>(a.wide_row(row)) : a.row(row);
          multiply_tile(b, each, from, a.stride, rows, start + each * kColumns, sums);
          tell(each * kColumns, kColumns);
        }
      }
    }
  });
}

}  // namespace ephost::cpu

#endif
