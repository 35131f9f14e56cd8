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
  return !p.has(i) || (p.dims(i).size() <= 1 && p.in(i).count() == 1);
}

namespace {

// A matrix [k, n] of bytes, or [n, k] if it is transposed, whose k's then lie as [k / taps][taps] and are
// wanted as [taps][k / taps].
struct Matrix {
  const uint8_t* data;
  uint8_t flip;  // Of each byte, which makes it signed.
  int64_t k, n;
  bool transposed;
  int64_t taps;
};

// `per` whole rows, `stride` apart, of kColumns columns, as [kColumns][per]: loops that compilers turn into
// vectors.
template <int per, typename T>
void read_whole_step(const uint8_t* rows, int64_t stride, uint8_t flip, T* __restrict to) {
  for (int c = 0; c < kColumns; ++c) {
    for (int j = 0; j < per; ++j) to[c * per + j] = static_cast<int8_t>(rows[j * stride + c] ^ flip);
  }
}

// Columns [column, column + kColumns) of a matrix without taps: of the k's in `steps` steps from step `first`
// on, `per` in each, as [steps][kColumns][per]. What the matrix does not have is 0.
template <int per, typename T>
void read_steps(const Matrix& matrix, int64_t first, int64_t steps, int64_t column, T* to) {
  const auto [from, flip, k, n, transposed, taps] = matrix;
  const int64_t columns = std::min<int64_t>(kColumns, n - column);
  const int64_t begin = first * per, end = std::min(k, (first + steps) * per), whole = end / per;
  if (end < (first + steps) * per || columns < kColumns) {
    std::fill_n(to, steps * kColumns * per, T{});
  }
  const auto made = [flip = flip](uint8_t byte) { return static_cast<T>(static_cast<int8_t>(byte ^ flip)); };
  if (!transposed) {
    int64_t row = begin;
    for (; columns == kColumns && row + per <= end; row += per) {
      read_whole_step<per>(from + row * n + column, n, flip, to + (row - begin) * kColumns);
    }
    for (; row < end; ++row) {
      const uint8_t* const line = from + row * n + column;
      T* const at = to + (row / per - first) * kColumns * per + row % per;
      for (int64_t c = 0; c < columns; ++c) at[c * per] = made(line[c]);
    }
    return;
  }
  for (int64_t c = 0; c < columns; ++c) {
    const uint8_t* line = from + (column + c) * k + begin;
    T* at = to + c * per;
    for (int64_t step = first; step < whole; ++step, line += per, at += kColumns * per) {
      for (int j = 0; j < per; ++j) at[j] = made(line[j]);
    }
    for (int64_t j = 0; j < end - whole * per; ++j) at[j] = made(line[j]);
  }
}

// Calls body(first, steps, to) for all steps of a panel, which by then are read to `to`.
template <int per, typename T, typename Body>
void for_steps(const Matrix& matrix, int64_t panel, T* to, const Body& body) {
  constexpr int64_t kSteps = 16;  // That are read at once: lines of the cache, of a transposed matrix.
  const int64_t steps = (matrix.k + per - 1) / per, column = panel * kColumns;
  std::vector<uint8_t> turned;
  Matrix mine = matrix;
  int64_t at = column;
  if (matrix.taps > 1) {
    // Of these columns alone, which stay in the cache. In numbers that bytes which are written cannot change.
    const int64_t taps = matrix.taps, channels = matrix.k / taps;
    mine.n = std::min<int64_t>(kColumns, matrix.n - column);
    turned.resize(static_cast<size_t>(mine.n * mine.k));
    for (int64_t line = 0; line < mine.n * taps; ++line) {
      const uint8_t* const from = matrix.data + (column + line / taps) * matrix.k + line % taps;
      uint8_t* const into = turned.data() + line * channels;
      for (int64_t i = 0; i < channels; ++i) into[i] = from[i * taps];
    }
    mine.data = turned.data();
    at = 0;
  }
  for (int64_t first = 0; first < steps; first += kSteps) {
    const int64_t count = std::min(kSteps, steps - first);
    read_steps<per>(mine, first, count, at, to + first * kColumns * per);
    body(first, count, to + first * kColumns * per);
  }
}

bool make_wide(Panels* panels, const Matrix& matrix) {
  const int64_t size = panels->pairs() * 2 * kColumns;
  panels->wide = true;
  panels->memory = allocate(static_cast<size_t>(panels->count() * size) * sizeof(int16_t));
  int16_t* const memory = static_cast<int16_t*>(panels->memory.get());
  parallel_for(panels->count(), std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t p, int64_t end) {
    for (; p < end; ++p) {
      int32_t* const sums = panels->sums.data() + p * kColumns;
      for_steps<2>(matrix, p, memory + p * size, [&](int64_t, int64_t steps, const int16_t* to) {
        for (int64_t step = 0; step < steps; ++step) {
          const int16_t* const pair = to + step * 2 * kColumns;
          for (int c = 0; c < kColumns; ++c) sums[c] += pair[2 * c] + pair[2 * c + 1];
        }
      });
    }
  });
  return true;
}

// False if bytes cannot hold too many of the fours.
bool make_bytes(Panels* panels, const Matrix& matrix) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  constexpr int64_t kHalf = 2 * kColumns;  // Bytes of four k's of half of the columns.
  const int64_t fours = panels->fours(), size = fours * 2 * kHalf;
  // What is left over of half a panel takes half of the time of its fours, and wide ones a third longer than
  // bytes.
  const int64_t most = fours * panels->count() * 2 / 3;
  struct Rest {
    std::vector<int8_t> weights;
    std::vector<int32_t> places;
  };
  std::vector<Rest> rests(static_cast<size_t>(2 * panels->count()));
  std::atomic<int64_t> total{0};  // Relaxed: an old one costs time, and the loop's end orders the last.
  panels->memory = allocate(static_cast<size_t>(panels->count() * size));
  int8_t* const memory = static_cast<int8_t*>(panels->memory.get());
  parallel_for(panels->count(), std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t p, int64_t end) {
    for (; p < end && total.load(std::memory_order_relaxed) <= most; ++p) {
      int32_t* const sums = panels->sums.data() + p * kColumns;
      Rest* const mine = rests.data() + 2 * p;
      for_steps<4>(matrix, p, memory + p * size, [&](int64_t first, int64_t steps, int8_t* to) {
        for (int64_t step = 0; step < steps; ++step) {
          int8_t rest[2 * kHalf];
          const int halves = simd.settle(to + step * 2 * kHalf, sums, rest);
          for (int half = 0; half < 2; ++half) {
            if ((halves >> half & 1) == 0) continue;
            const int8_t* weights = rest + half * kHalf;
            mine[half].weights.insert(mine[half].weights.end(), weights, weights + kHalf);
            mine[half].places.push_back(static_cast<int32_t>(first + step));
          }
        }
      });
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
  bool (*at_once)();  // Whether it is made in little time, as is right for matrices that are multiplied once.
  // False where another form should have the matrix.
  bool (*make)(Panels* panels, const Matrix& matrix);
};
constexpr PanelForm kForms[] = {{"bytes", [] { return !simd().quantized.settles; }, make_bytes},
                                {"16-bit", [] { return true; }, make_wide}};

}  // namespace

const char* form_made_at_once() {
  return std::find_if(std::begin(kForms), std::end(kForms),
                      [](const PanelForm& form) { return form.at_once(); })
      ->name;
}

Panels make_panels(const void* matrix, DType type, int64_t k, int64_t n, bool transposed, bool at_once,
                   int64_t taps) {
  Panels panels;
  panels.k = k;
  panels.n = n;
  const Matrix from{
      static_cast<const uint8_t*>(matrix), static_cast<uint8_t>(shift_of(type)), k, n, transposed, taps};
  for (const PanelForm& form : kForms) {
    if (at_once && !form.at_once()) continue;
    panels.form = form.name;
    panels.sums.assign(static_cast<size_t>(panels.count() * kColumns), 0);
    if (form.make(&panels, from)) return panels;
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

void scale_of_range(float low, float high, float* scale, uint8_t* zero) {
  const float step = high == low ? 1.0f : (high - low) / 255.0f;
  const float middle = std::nearbyint(std::clamp(0.0f - low / step, 0.0f, 255.0f));
  *scale = step;
  *zero = std::isnan(middle) ? 255 : static_cast<uint8_t>(middle);  // Where an input is -infinity.
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
  scale_of_range(low, high, scale, zero);
  parallel_for(n, kGrain, [&](int64_t i, int64_t end) {
    simd().quantized.quantize(x + i, end - i, *scale, *zero, 0, 255, y + i);
  });
}

}  // namespace ephost::cpu
