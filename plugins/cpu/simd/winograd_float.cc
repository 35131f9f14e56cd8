// The transformations of Winograd's convolution with 3x3 kernels (see engines/conv/winograd.h), on tensors
// whose channels lie side by side, all of them or by eight.
#include "cpu/simd/simd.h"
#include "cpu/simd/turned.h"
#include "cpu/simd/vectors.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

// One row or column of a tile of the input; kStep apart in both.
template <int kTile, int kStep>
inline void input_line(const Vector* d, Vector* v) {
  if constexpr (kTile == 4) {
    const Vector d0 = d[0], d1 = d[kStep], d2 = d[2 * kStep], d3 = d[3 * kStep], d4 = d[4 * kStep],
                 d5 = d[5 * kStep];
    const Vector even = d4 - 4.0f * d2, odd = d3 - 4.0f * d1;
    const Vector near = d4 - d2, far = 2.0f * (d3 - d1);
    v[0] = 4.0f * d0 - 5.0f * d2 + d4;
    v[kStep] = even + odd;
    v[2 * kStep] = even - odd;
    v[3 * kStep] = near + far;
    v[4 * kStep] = near - far;
    v[5 * kStep] = 4.0f * d1 - 5.0f * d3 + d5;
  } else {
    const Vector d0 = d[0], d1 = d[kStep], d2 = d[2 * kStep], d3 = d[3 * kStep];
    v[0] = d0 - d2;
    v[kStep] = d1 + d2;
    v[2 * kStep] = d2 - d1;
    v[3 * kStep] = d1 - d3;
  }
}

// One row or column of a tile of the output.
template <int kTile, int kFrom, int kTo>
inline void output_line(const Vector* m, Vector* y) {
  if constexpr (kTile == 4) {
    const Vector m0 = m[0], m1 = m[kFrom], m2 = m[2 * kFrom], m3 = m[3 * kFrom], m4 = m[4 * kFrom],
                 m5 = m[5 * kFrom];
    const Vector s1 = m1 + m2, d1 = m1 - m2, s2 = m3 + m4, d2 = m3 - m4;
    y[0] = m0 + s1 + s2;
    y[kTo] = d1 + 2.0f * d2;
    y[2 * kTo] = s1 + 4.0f * s2;
    y[3 * kTo] = d1 + 8.0f * d2 + m5;
  } else {
    const Vector m0 = m[0], m1 = m[kFrom], m2 = m[2 * kFrom], m3 = m[3 * kFrom];
    y[0] = m0 + m1 + m2;
    y[kTo] = m1 - m2 - m3;
  }
}

// One row or column of a kernel: three weights, kFrom apart, for the points of a line of a tile, kTo apart.
template <int kTile, int kFrom, int kTo>
inline void weights_line(const Vector* g, Vector* u) {
  const Vector g0 = g[0], g1 = g[kFrom], g2 = g[2 * kFrom];
  if constexpr (kTile == 4) {
    const Vector ends = -1.0f / 6 * (g0 + g2), middle = 1.0f / 6 * g1;
    const Vector far = 1.0f / 24 * g0 + 1.0f / 6 * g2, half = 1.0f / 12 * g1;
    u[0] = 0.25f * g0;
    u[kTo] = ends - middle;
    u[2 * kTo] = ends + middle;
    u[3 * kTo] = far + half;
    u[4 * kTo] = far - half;
    u[5 * kTo] = g2;
  } else {
    const Vector ends = 0.5f * (g0 + g2), middle = 0.5f * g1;
    u[0] = g0;
    u[kTo] = ends + middle;
    u[2 * kTo] = ends - middle;
    u[3 * kTo] = g2;
  }
}

template <int kTile>
void input(const WinogradInput& w) {
  constexpr int kSide = kTile + 2;
  const bool inside = w.y >= 0 && w.x >= 0 && w.y + kSide <= w.height && w.x + kSide <= w.width;
  for (int64_t block = 0; block < w.blocks; ++block) {
    const float* from = w.from + block * w.block_step;
    Vector d[kSide * kSide], t[kSide * kSide];
    for (int i = 0; i < kSide; ++i) {
      const int64_t y = w.y + i;
      for (int j = 0; j < kSide; ++j) {
        const int64_t x = w.x + j;
        const bool there = inside || (y >= 0 && x >= 0 && y < w.height && x < w.width);
        d[i * kSide + j] = there ? load(from + y * w.row_step + x * w.pixel_step) : Vector{};
      }
    }
    for (int j = 0; j < kSide; ++j) input_line<kTile, kSide>(d + j, t + j);
    for (int i = 0; i < kSide; ++i) input_line<kTile, 1>(t + i * kSide, d + i * kSide);
    float* to = w.to + block * 8;
    for (int p = 0; p < kSide * kSide; ++p) store(to + p * w.step, d[p]);
  }
}

template <int kTile>
void output(const WinogradOutput& w) {
  constexpr int kSide = kTile + 2;
  const int64_t rows = w.height - w.y < kTile ? w.height - w.y : kTile;
  const int64_t columns = w.width - w.x < kTile ? w.width - w.x : kTile;
  for (int64_t block = 0; block < w.blocks; ++block) {
    const float* from = w.from + block * 8;
    Vector m[kSide * kSide], t[kTile * kSide], y[kTile * kTile];
    for (int p = 0; p < kSide * kSide; ++p) m[p] = load(from + p * w.step);
    for (int j = 0; j < kSide; ++j) output_line<kTile, kSide, kSide>(m + j, t + j);
    for (int i = 0; i < kTile; ++i) output_line<kTile, 1, 1>(t + i * kSide, y + i * kTile);
    const Vector bias = w.bias == nullptr ? Vector{} : load(w.bias + block * 8);
    float* to = w.to + block * w.block_step + w.y * w.row_step + w.x * w.pixel_step;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j)
        store(to + i * w.row_step + j * w.pixel_step, y[i * kTile + j] + bias);
    }
  }
}

template <int kTile>
void weights(const WinogradWeights& w) {
  constexpr int kSide = kTile + 2;
  for (int64_t i = 0; i < w.inputs; i += 8) {
    float turned[9 * 8 * 8];  // Of eight inputs: the weights one after another, of eight outputs each.
    for (int64_t j = 0; j < 9 * 8; j += 8) turn_eight(w.from + i * 9 + j, w.output_step, turned + j * 8, 8);
    for (int64_t each = 0; each < 8; ++each) {
      Vector g[9], rows[kSide * 3], u[kSide];
      for (int k = 0; k < 9; ++k) g[k] = load(turned + (each * 9 + k) * 8);
      for (int c = 0; c < 3; ++c) weights_line<kTile, 3, 3>(g + c, rows + c);
      float* to = w.to + (i + each) * w.input_step;
      for (int r = 0; r < kSide; ++r) {
        weights_line<kTile, 1, 1>(rows + r * 3, u);
        for (int c = 0; c < kSide; ++c, to += w.step) store(to, u[c]);
      }
    }
  }
}

}  // namespace

void fill_winograd(Simd* table) {
  table->winograd_input[0] = input<2>;
  table->winograd_input[1] = input<4>;
  table->winograd_output[0] = output<2>;
  table->winograd_output[1] = output<4>;
  table->winograd_weights[0] = weights<2>;
  table->winograd_weights[1] = weights<4>;
}

}  // namespace ephost::cpu::EPHOST_ISA
