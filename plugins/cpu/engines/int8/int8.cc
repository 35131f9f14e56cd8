#include "cpu/engines/int8/int8.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>

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

bool is_single(const Prepare& p, int i) {
  return i >= p.inputs() || !p.has(i) || (p.dims(i).size() <= 1 && p.in(i).count() == 1);
}

namespace {

// Columns [column, column + kColumns) of some rows of a matrix [k, n], or [n, k] if it is transposed, made
// signed. Those that it does not have are 0.
void read_signed(const uint8_t* from, uint8_t flip, int64_t k, int64_t n, bool transposed, int64_t row,
                 int rows, int64_t column, int8_t (*to)[kColumns]) {
  const int64_t columns = std::min<int64_t>(kColumns, n - column);
  const int64_t have = std::min<int64_t>(rows, k - row);
  if (have < rows || columns < kColumns) std::memset(to, 0, static_cast<size_t>(rows * kColumns));
  for (int64_t r = 0; r < have && !transposed; ++r) {
    const uint8_t* line = from + (row + r) * n + column;
    for (int64_t c = 0; c < columns; ++c) to[r][c] = static_cast<int8_t>(line[c] ^ flip);
  }
  for (int64_t c = 0; c < columns && transposed; ++c) {
    const uint8_t* line = from + (column + c) * k + row;
    for (int64_t r = 0; r < have; ++r) to[r][c] = static_cast<int8_t>(line[r] ^ flip);
  }
}

bool make_wide(Panels* panels, const uint8_t* from, uint8_t flip, bool transposed) {
  const int64_t k = panels->k, n = panels->n, pairs = panels->pairs(), size = pairs * 2 * kColumns;
  panels->wide = true;
  panels->memory = allocate(static_cast<size_t>(panels->count() * size) * sizeof(int16_t));
  int16_t* const memory = static_cast<int16_t*>(panels->memory.get());
  parallel_for(panels->count(), std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t p, int64_t end) {
    for (; p < end; ++p) {
      int16_t* to = memory + p * size;
      int32_t* const sums = panels->sums.data() + p * kColumns;
      for (int64_t pair = 0; pair < pairs; ++pair, to += 2 * kColumns) {
        int8_t rows[2][kColumns];
        read_signed(from, flip, k, n, transposed, pair * 2, 2, p * kColumns, rows);
        for (int c = 0; c < kColumns; ++c) {
          to[2 * c] = rows[0][c];
          to[2 * c + 1] = rows[1][c];
          sums[c] += rows[0][c] + rows[1][c];
        }
      }
    }
  });
  return true;
}

// False if bytes cannot hold too many of the fours.
bool make_bytes(Panels* panels, const uint8_t* from, uint8_t flip, bool transposed) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  constexpr int64_t kHalf = 2 * kColumns;  // Bytes of four k's of half of the columns.
  const int64_t k = panels->k, n = panels->n, fours = panels->fours(), size = fours * 2 * kHalf;
  // What is left over of half a panel takes half of the time of its fours, and wide ones a third longer than
  // bytes.
  const int64_t most = fours * panels->count() * 2 / 3;
  struct Rest {
    std::vector<int8_t> weights;
    std::vector<int32_t> places;
  };
  std::vector<Rest> rests(static_cast<size_t>(2 * panels->count()));
  std::atomic<int64_t> total{0};
  panels->memory = allocate(static_cast<size_t>(panels->count() * size));
  int8_t* const memory = static_cast<int8_t*>(panels->memory.get());
  parallel_for(panels->count(), std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t p, int64_t end) {
    for (; p < end && total.load(std::memory_order_relaxed) <= most; ++p) {
      int8_t* to = memory + p * size;
      int32_t* const sums = panels->sums.data() + p * kColumns;
      Rest* const mine = rests.data() + 2 * p;
      for (int64_t four = 0; four < fours; ++four, to += 2 * kHalf) {
        int8_t rows[4][kColumns], rest[2 * kHalf];
        read_signed(from, flip, k, n, transposed, four * 4, 4, p * kColumns, rows);
        for (int c = 0; c < kColumns; ++c) sums[c] += rows[0][c] + rows[1][c] + rows[2][c] + rows[3][c];
        const int halves = simd.interleave(rows, to, rest);
        for (int half = 0; half < 2; ++half) {
          if ((halves >> half & 1) == 0) continue;
          const int8_t* weights = rest + half * kHalf;
          mine[half].weights.insert(mine[half].weights.end(), weights, weights + kHalf);
          mine[half].places.push_back(static_cast<int32_t>(four));
        }
      }
      total.fetch_add(static_cast<int64_t>(mine[0].places.size() + mine[1].places.size()),
                      std::memory_order_relaxed);
    }
  });
  if (total.load() > most) return false;
  panels->first_rest.push_back(0);
  for (const Rest& each : rests) {
    panels->rest.insert(panels->rest.end(), each.weights.begin(), each.weights.end());
    panels->places.insert(panels->places.end(), each.places.begin(), each.places.end());
    panels->first_rest.push_back(static_cast<int32_t>(panels->places.size()));
  }
  return true;
}

// The forms of panels, best first: packing and running ask the same list.
struct PanelForm {
  const char* name;
  bool at_once;  // Made in little time, as is right for matrices that are multiplied once.
  // False where another form should have the matrix.
  bool (*make)(Panels* panels, const uint8_t* from, uint8_t flip, bool transposed);
};
constexpr PanelForm kForms[] = {{"bytes", false, make_bytes}, {"16-bit", true, make_wide}};

}  // namespace

const char* form_made_at_once() {
  return std::find_if(std::begin(kForms), std::end(kForms),
                      [](const PanelForm& form) { return form.at_once; })
      ->name;
}

Panels make_panels(const void* matrix, DType type, int64_t k, int64_t n, bool transposed, bool at_once) {
  Panels panels;
  panels.k = k;
  panels.n = n;
  const uint8_t flip = static_cast<uint8_t>(shift_of(type));
  for (const PanelForm& form : kForms) {
    if (at_once && !form.at_once) continue;
    panels.form = form.name;
    panels.sums.assign(static_cast<size_t>(panels.count() * kColumns), 0);
    if (form.make(&panels, static_cast<const uint8_t*>(matrix), flip, transposed)) return panels;
  }
  fail("no form of panels holds the matrix");
}

void make_row(const void* from, DType type, int64_t k, bool wide, void* row) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  if (!wide && type == DType::kUint8) {
    std::memcpy(row, from, static_cast<size_t>(k));
  } else if (!wide) {
    const uint8_t* x = static_cast<const uint8_t*>(from);
    uint8_t* to = static_cast<uint8_t*>(row);
    for (int64_t i = 0; i < k; ++i) to[i] = x[i] ^ 0x80;
  } else if (type == DType::kInt8) {
    simd.widen_signed(static_cast<const int8_t*>(from), k, static_cast<int16_t*>(row));
  } else {
    simd.widen_unsigned(static_cast<const uint8_t*>(from), k, static_cast<int16_t*>(row));
  }
}

int32_t sum_of_row(const void* row, int64_t k, bool wide) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  return wide ? simd.total_wide(static_cast<const int16_t*>(row), k)
              : simd.total_bytes(static_cast<const uint8_t*>(row), k);
}

Rows make_rows(const void* matrix, DType type, int64_t m, const Panels& b, const void* zero, int step,
               bool with_sums) {
  Rows rows;
  const int64_t k = b.k;
  rows.m = m;
  rows.wide = b.wide;
  rows.stride = b.stride();
  if (with_sums) rows.sums.resize(static_cast<size_t>(m));
  const bool as_it_is = !b.wide && type == DType::kUint8 && rows.stride == k;
  rows.data = matrix;
  const int64_t size = rows.stride * (b.wide ? 2 : 1);
  if (!as_it_is) {
    rows.memory = allocate(static_cast<size_t>(m * size));
    rows.data = rows.memory.get();
  }
  if (as_it_is && !with_sums) return rows;
  parallel_for(m, std::max<int64_t>(1, kGrain / (k + 1)), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      char* row = static_cast<char*>(const_cast<void*>(rows.data)) + i * size;
      if (!as_it_is) make_row(static_cast<const uint8_t*>(matrix) + i * k, type, k, b.wide, row);
      if (with_sums) {
        const int32_t point = zero_of(type, zero, i * step) + row_shift(type, b.wide);
        rows.sums[static_cast<size_t>(i)] = sum_of_row(row, k, b.wide) - static_cast<int32_t>(k) * point;
      }
    }
  });
  return rows;
}

void quantize_dynamically(const float* x, int64_t n, uint8_t* y, float* scale, uint8_t* zero) {
  constexpr int64_t kMost = 64;
  const int64_t parts = std::clamp<int64_t>(n / kGrain, 1, kMost);
  float limits[2 * kMost];
  parallel_for(parts, 1, [&](int64_t part, int64_t end) {
    for (; part < end; ++part) {
      const int64_t first = n * part / parts;
      simd().quantized.range(x + first, n * (part + 1) / parts - first, limits + 2 * part,
                             limits + 2 * part + 1);
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
