// 8-bit integers as models quantise them: exact products of matrices of them.
#ifndef EPHOST_CPU_INT8_H_
#define EPHOST_CPU_INT8_H_

#include "../operator.h"
#include "../simd/simd.h"

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
// What is subtracted of a byte of this type to make it signed.
inline int shift_of(DType type) { return type == DType::kInt8 ? 0 : 128; }

// Rows of 16-bit numbers less their zero points, `stride` apart; and the sum of each row, if that was wanted.
struct Rows {
  int64_t m = 0, k = 0, stride = 0;
  std::vector<int32_t> sums;
  std::shared_ptr<void> memory;
  const int16_t* row(int64_t i) const { return static_cast<const int16_t*>(memory.get()) + i * stride; }
};
// Of a matrix [m, k]; `step` is 1 where each row has a zero point of its own.
Rows make_rows(const void* matrix, DType type, int64_t m, int64_t k, const void* zero, int step,
               bool with_sums);

// Panels of kColumns columns of a matrix [k, n], as simd/quantized.h wants them; bytes are made signed.
struct Panels {
  int64_t k = 0, n = 0;
  std::shared_ptr<void> memory;

  int64_t pairs() const { return (k + 1) / 2; }
  int64_t bytes() const { return pairs() * 2 * kColumns; }  // Of a panel.
  int64_t count() const { return (n + kColumns - 1) / kColumns; }
  const int8_t* panel(int64_t i) const { return static_cast<const int8_t*>(memory.get()) + i * bytes(); }
};
// `transposed`: the matrix lies as [n, k].
Panels make_panels(const void* matrix, DType type, int64_t k, int64_t n, bool transposed);

// DynamicQuantizeLinear.
void quantize_dynamically(const float* x, int64_t n, uint8_t* y, float* scale, uint8_t* zero);

// Calls body(row, column, n, sums) for all parts of the product, on several threads; zero points of the
// columns are not yet subtracted, and `sums` may be changed.
template <typename Body>
void multiply(const Rows& a, const Panels& b, const Body& body) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  // A task keeps its part of a in the second cache while it goes through panels.
  const int64_t block = std::max<int64_t>(kRows, std::min<int64_t>(a.m, 48)),
                blocks = (a.m + block - 1) / block;
  const int64_t work = block * kColumns * a.k;
  parallel_for(blocks * b.count(), std::max<int64_t>(1, 8 * kGrain / (work + 1)),
               [&](int64_t i, int64_t end) {
                 alignas(64) int32_t sums[kRows * kColumns];
                 for (; i < end; ++i) {
                   const int64_t panel = i % b.count(), first = i / b.count() * block;
                   const int64_t last = std::min(a.m, first + block), column = panel * kColumns;
                   const int64_t columns = std::min<int64_t>(kColumns, b.n - column);
                   for (int64_t row = first; row < last; row += kRows) {
                     const int rows = static_cast<int>(std::min<int64_t>(kRows, last - row));
                     simd.product(a.row(row), a.stride, rows, b.panel(panel), b.pairs(), sums);
                     for (int r = 0; r < rows; ++r) body(row + r, column, columns, sums + r * kColumns);
                   }
                 }
               });
}

}  // namespace ephost::cpu

#endif
