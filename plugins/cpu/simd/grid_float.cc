// Images of float32 at places between their pixels; see operators/grid_sample.cc.
#include "cpu/simd/simd.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

// Where the points read along one axis: `first` and the pixel behind it, each with its weight. Without
// `pairs` what is behind is clamped, and `second` says where it is; with them `first` is never the last
// pixel.
struct Along {
  int32_t first[kGridPoints], second[kGridPoints];
  float weights[2][kGridPoints];
};

void place(const GridPoints& grid, int64_t axis, bool pairs, Along& to) {
  const double size = static_cast<double>(grid.sizes[axis]);
  const int32_t n = static_cast<int32_t>(grid.sizes[axis]), last = pairs ? n - 2 : n - 1;
  // (normal + 1) / 2 * (size - 1), or ((normal + 1) * size - 1) / 2.
  const double scale = grid.corners ? (size - 1) / 2 : size / 2, shift = grid.corners ? 0.0 : -0.5;
  // Whatever the grid holds, what is made of it fits into 32 bits.
  const double low = grid.border ? 0.0 : -1e9, high = grid.border ? size - 1 : 1e9;
  // The grid names the innermost axis first.
  const float* from = grid.places + (grid.axes - 1 - axis);
  double normal[kGridPoints] = {};
  for (int64_t k = 0; k < grid.count; ++k) normal[k] = from[k * grid.axes];
  for (int64_t k = 0; k < kGridPoints; ++k) {
    double x = (normal[k] + 1) * scale + shift;
    x = x > low ? x : low;  // Also what is no number.
    x = x < high ? x : high;
    int32_t i = static_cast<int32_t>(x);
    i -= static_cast<double>(i) > x ? 1 : 0;
    const float t = static_cast<float>(x - i);
    // Outside there are zeros; at a border x is inside.
    const float at_first = static_cast<uint32_t>(i) < static_cast<uint32_t>(n) ? 1.0f - t : 0.0f;
    const float at_second = static_cast<uint32_t>(i + 1) < static_cast<uint32_t>(n) ? t : 0.0f;
    int32_t first = i < 0 ? 0 : i, second = i + 1 < 0 ? 0 : i + 1;
    first = first < last ? first : last;
    second = second < last ? second : last;
    to.first[k] = first;
    to.second[k] = second;
    const int32_t moved = i - first;
    const float one = moved == 0 ? at_first : moved == -1 ? at_second : 0.0f;
    const float two = moved == 0 ? at_second : moved == 1 ? at_first : 0.0f;
    to.weights[0][k] = pairs ? one : at_first;
    to.weights[1][k] = pairs ? two : at_second;
  }
}

// The innermost axis gives pairs; each axis around it doubles the lines that they are read from.
void grid_pairs(const GridPoints& grid, GridPairs& pairs) {
  Along along;
  place(grid, grid.axes - 1, true, along);
  for (int64_t k = 0; k < kGridPoints; ++k) {
    pairs.at[0][k] = along.first[k];
    pairs.weights[0][2 * k] = along.weights[0][k];
    pairs.weights[0][2 * k + 1] = along.weights[1][k];
  }
  pairs.lines = 1;
  int32_t stride = static_cast<int32_t>(grid.sizes[grid.axes - 1]);
  for (int64_t axis = grid.axes - 1; axis-- > 0;) {
    place(grid, axis, false, along);
    for (int64_t line = 0; line < pairs.lines; ++line) {
      int32_t *near = pairs.at[line], *far = pairs.at[line + pairs.lines];
      float *of_near = pairs.weights[line], *of_far = pairs.weights[line + pairs.lines];
      for (int64_t k = 0; k < kGridPoints; ++k) {
        far[k] = near[k] + along.second[k] * stride;
        near[k] += along.first[k] * stride;
        for (int64_t side = 2 * k; side < 2 * k + 2; ++side) {
          of_far[side] = of_near[side] * along.weights[1][k];
          of_near[side] *= along.weights[0][k];
        }
      }
    }
    pairs.lines *= 2;
    stride *= static_cast<int32_t>(grid.sizes[axis]);
  }
  for (int64_t line = 0; line < pairs.lines; ++line) {
    for (int64_t k = 0; k < 2 * kGridPoints; ++k) {
      pairs.masks[line][k] = pairs.weights[line][k] != 0 ? ~0u : 0u;
    }
  }
}

void grid_sums(const GridPairs& pairs, const float* x, float* y, int64_t count) {
  typedef uint64_t Pair __attribute__((aligned(4), may_alias));
  alignas(64) uint64_t read[kGridPoints] = {};
  alignas(64) float sums[2 * kGridPoints];
  for (int64_t line = 0; line < pairs.lines; ++line) {
    const int32_t* at = pairs.at[line];
    const float* weights = pairs.weights[line];
    const uint32_t* masks = pairs.masks[line];
    for (int64_t k = 0; k < count; ++k) read[k] = *reinterpret_cast<const Pair*>(x + at[k]);
    typedef float Value __attribute__((may_alias));
    const Value* values = reinterpret_cast<const Value*>(read);
    for (int64_t k = 0; k < 2 * kGridPoints; ++k) {
      const float product = values[k] * weights[k];
      const float kept = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, product) & masks[k]);
      sums[k] = line == 0 ? kept : sums[k] + kept;
    }
  }
  for (int64_t k = 0; k < count; ++k) y[k] = sums[2 * k] + sums[2 * k + 1];
}

}  // namespace

void fill_grid_float(Simd* table) {
  table->grid_pairs = grid_pairs;
  table->grid_sums = grid_sums;
}

}  // namespace ephost::cpu::EPHOST_ISA
