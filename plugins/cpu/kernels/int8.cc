#include "int8.h"

#include <cmath>
#include <cstring>

namespace ephost::cpu {

std::string not_single(const Node& node, const std::vector<size_t>& inputs) {
  for (size_t i : inputs) {
    const Value* value = node.in(i);
    if (value != nullptr && value->has_shape && !value->is_scalar()) {
      return "input " + std::to_string(i) + " is not a single number";
    }
  }
  return "";
}

Rows make_rows(const void* matrix, DType type, int64_t m, int64_t k, const void* zero, int step,
               bool with_sums) {
  Rows rows;
  rows.m = m;
  rows.k = k;
  rows.stride = (k + 1) / 2 * 2;
  if (with_sums) rows.sums.resize(static_cast<size_t>(m));
  rows.memory = allocate(static_cast<size_t>(m * rows.stride) * sizeof(int16_t));
  int16_t* out = static_cast<int16_t*>(rows.memory.get());
  const Quantized& simd = ephost::cpu::simd().quantized;
  parallel_for(m, std::max<int64_t>(1, kGrain / (k + 1)), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      int16_t* row = out + i * rows.stride;
      const int point = zero_of(type, zero, i * step);
      if (type == DType::kInt8) {
        simd.widen_signed(static_cast<const int8_t*>(matrix) + i * k, k, point, row);
      } else {
        simd.widen_unsigned(static_cast<const uint8_t*>(matrix) + i * k, k, point, row);
      }
      if (with_sums) rows.sums[static_cast<size_t>(i)] = simd.total(row, k);
      if (rows.stride != k) row[k] = 0;
    }
  });
  return rows;
}

Panels make_panels(const void* matrix, DType type, int64_t k, int64_t n, bool transposed) {
  Panels panels;
  panels.k = k;
  panels.n = n;
  panels.memory = allocate(static_cast<size_t>(panels.count() * panels.bytes()));
  const uint8_t flip = static_cast<uint8_t>(shift_of(type));
  const uint8_t* from = static_cast<const uint8_t*>(matrix);
  int8_t* to = static_cast<int8_t*>(panels.memory.get());
  const Quantized& simd = ephost::cpu::simd().quantized;
  parallel_for(panels.count(), std::max<int64_t>(1, kGrain / (panels.bytes() + 1)),
               [&](int64_t p, int64_t end) {
                 for (; p < end; ++p) {
                   const int64_t column = p * kColumns, columns = std::min<int64_t>(kColumns, n - column);
                   for (int64_t pair = 0; pair < panels.pairs(); ++pair) {
                     uint8_t rows[2][kColumns];
                     // What fills up the last pair is multiplied by the zeros that fill up the other matrix.
                     std::memset(rows, flip, sizeof rows);
                     for (int64_t r = 0; r < 2 && pair * 2 + r < k; ++r) {
                       const int64_t at = pair * 2 + r;
                       if (!transposed) {
                         std::memcpy(rows[r], from + at * n + column, static_cast<size_t>(columns));
                       } else {
                         for (int64_t c = 0; c < columns; ++c) rows[r][c] = from[(column + c) * k + at];
                       }
                     }
                     simd.interleave(rows[0], rows[1], flip, to + p * panels.bytes() + pair * 2 * kColumns);
                   }
                 }
               });
  return panels;
}

void quantize_dynamically(const float* x, int64_t n, uint8_t* y, float* scale, uint8_t* zero) {
  constexpr int64_t kMost = 64;
  const int64_t parts = std::clamp<int64_t>(n / kGrain, 1, kMost);
  float limits[2 * kMost];
  parallel_for(parts, 1, [&](int64_t part, int64_t end) {
    for (; part < end; ++part) {
      // Zero is always in the range. Eight at once, so that the compiler can use vectors.
      float low[8] = {}, high[8] = {};
      int64_t i = n * part / parts;
      const int64_t last = n * (part + 1) / parts;
      for (; i + 8 <= last; i += 8) {
        for (int j = 0; j < 8; ++j) {
          low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
          high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
        }
      }
      for (; i < last; ++i) {
        low[0] = std::min(low[0], x[i]);
        high[0] = std::max(high[0], x[i]);
      }
      limits[2 * part] = *std::min_element(low, low + 8);
      limits[2 * part + 1] = *std::max_element(high, high + 8);
    }
  });
  float low = 0, high = 0;
  for (int64_t part = 0; part < parts; ++part) {
    low = std::min(low, limits[2 * part]);
    high = std::max(high, limits[2 * part + 1]);
  }
  const float step = high == low ? 1.0f : (high - low) / 255.0f;
  const float middle = std::nearbyint(std::clamp(0.0f - low / step, 0.0f, 255.0f));
  const int point = std::isfinite(middle) ? static_cast<int>(middle) : 0;  // Where an input is infinite.
  *scale = step;
  *zero = static_cast<uint8_t>(point);
  parallel_for(n, kGrain, [&](int64_t i, int64_t end) {
    simd().quantized.quantize(x + i, end - i, step, point, 0, 255, y + i);
  });
}

}  // namespace ephost::cpu
