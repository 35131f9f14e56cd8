// The transformations of Winograd's convolutions (see engines/conv/winograd.h), on tensors
// whose channels lie side by side, all of them or by eight.
#include "cpu/simd/simd.h"
#include "cpu/simd/turned.h"
#include "cpu/simd/vectors.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

// One row or column of a tile of the input, kStep apart in both. Six points are 0, 1, -1, 2, -2 and infinity,
// four are 0, 1, -1 and infinity.
template <int kPoints, int kStep>
inline void input_line(const Vector* d, Vector* v) {
  if constexpr (kPoints == 6) {
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
    static_assert(kPoints == 4);
    const Vector d0 = d[0], d1 = d[kStep], d2 = d[2 * kStep], d3 = d[3 * kStep];
    v[0] = d0 - d2;
    v[kStep] = d1 + d2;
    v[2 * kStep] = d2 - d1;
    v[3 * kStep] = d1 - d3;
  }
}

// One row or column of a tile of the output.
template <int kPoints, int kOutputs, int kFrom, int kTo>
inline void output_line(const Vector* m, Vector* y) {
  if constexpr (kPoints == 6) {
    const Vector m0 = m[0], m1 = m[kFrom], m2 = m[2 * kFrom], m3 = m[3 * kFrom], m4 = m[4 * kFrom],
                 m5 = m[5 * kFrom];
    const Vector s1 = m1 + m2, d1 = m1 - m2, s2 = m3 + m4, d2 = m3 - m4;
    y[0] = m0 + s1 + s2;
    if constexpr (kOutputs == 4) {
      y[kTo] = d1 + 2.0f * d2;
      y[2 * kTo] = s1 + 4.0f * s2;
      y[3 * kTo] = d1 + 8.0f * d2 + m5;
    } else {
      static_assert(kOutputs == 2);
      y[kTo] = d1 + 2.0f * d2 + m5;
    }
  } else {
    static_assert(kPoints == 4 && kOutputs == 2);
    const Vector m0 = m[0], m1 = m[kFrom], m2 = m[2 * kFrom], m3 = m[3 * kFrom];
    y[0] = m0 + m1 + m2;
    y[kTo] = m1 - m2 - m3;
  }
}

// One row or column of a kernel: weights, kFrom apart, for the points of a line of a tile, kTo apart.
template <int kTaps, int kPoints, int kFrom, int kTo>
inline void weights_line(const Vector* g, Vector* u) {
  const Vector g0 = g[0], g1 = g[kFrom], g2 = g[2 * kFrom];
  if constexpr (kPoints == 6) {
    Vector even = g0 + g2, odd = g1, far_even = g0 + 4.0f * g2, far_odd = 2.0f * g1, last = g2;
    if constexpr (kTaps == 5) {
      const Vector g3 = g[3 * kFrom], g4 = g[4 * kFrom];
      even += g4;
      odd += g3;
      far_even += 16.0f * g4;
      far_odd += 8.0f * g3;
      last = g4;
    } else {
      static_assert(kTaps == 3);
    }
    const Vector ends = -1.0f / 6 * even, middle = 1.0f / 6 * odd;
    const Vector far = 1.0f / 24 * far_even, half = 1.0f / 24 * far_odd;
    u[0] = 0.25f * g0;
    u[kTo] = ends - middle;
    u[2 * kTo] = ends + middle;
    u[3 * kTo] = far + half;
    u[4 * kTo] = far - half;
    u[5 * kTo] = last;
  } else {
    static_assert(kPoints == 4 && kTaps == 3);
    const Vector ends = 0.5f * (g0 + g2), middle = 0.5f * g1;
    u[0] = g0;
    u[kTo] = ends + middle;
    u[2 * kTo] = ends - middle;
    u[3 * kTo] = g2;
  }
}

// Tiles of kHigh x kWide points; those of one line are transformed along it alone.
template <int kHigh, int kWide>
void input(const WinogradInput& w) {
  const bool inside = w.y >= 0 && w.x >= 0 && w.y + kHigh <= w.height && w.x + kWide <= w.width;
  for (int64_t block = 0; block < w.blocks; ++block) {
    const float* from = w.from + block * w.block_step;
    Vector d[kHigh * kWide], t[kHigh * kWide];
    for (int i = 0; i < kHigh; ++i) {
      const int64_t y = w.y + i;
      for (int j = 0; j < kWide; ++j) {
        const int64_t x = w.x + j;
        const bool there = inside || (y >= 0 && x >= 0 && y < w.height && x < w.width);
        d[i * kWide + j] = there ? load(from + y * w.row_step + x * w.pixel_step) : Vector{};
      }
    }
    const Vector* lines = d;
    if constexpr (kHigh > 1) {
      for (int j = 0; j < kWide; ++j) input_line<kHigh, kWide>(d + j, t + j);
      lines = t;
    }
    Vector v[kHigh * kWide];
    for (int i = 0; i < kHigh; ++i) input_line<kWide, 1>(lines + i * kWide, v + i * kWide);
    float* to = w.to + block * 8;
    for (int p = 0; p < kHigh * kWide; ++p) store(to + p * w.step, v[p]);
  }
}

template <int kHigh, int kWide, int kRows, int kColumns>
void output(const WinogradOutput& w) {
  const int64_t rows = w.height - w.y < kRows ? w.height - w.y : kRows;
  const int64_t columns = w.width - w.x < kColumns ? w.width - w.x : kColumns;
  for (int64_t block = 0; block < w.blocks; ++block) {
    const float* from = w.from + block * 8;
    Vector m[kHigh * kWide], t[kRows * kWide], y[kRows * kColumns];
    for (int p = 0; p < kHigh * kWide; ++p) m[p] = load(from + p * w.step);
    const Vector* lines = m;
    if constexpr (kHigh > 1) {
      for (int j = 0; j < kWide; ++j) output_line<kHigh, kRows, kWide, kWide>(m + j, t + j);
      lines = t;
    }
    for (int i = 0; i < kRows; ++i) {
      output_line<kWide, kColumns, 1, 1>(lines + i * kWide, y + i * kColumns);
    }
    const Vector bias = w.bias == nullptr ? Vector{} : load(w.bias + block * 8);
    float* to = w.to + block * w.block_step + w.y * w.row_step + w.x * w.pixel_step;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j)
        store(to + i * w.row_step + j * w.pixel_step, y[i * kColumns + j] + bias);
    }
  }
}

template <int kHigh, int kWide, int kRows, int kColumns>
void weights(const WinogradWeights& w) {
  constexpr int kTall = kHigh - kRows + 1, kBroad = kWide - kColumns + 1, kTaps = kTall * kBroad;
  for (int64_t i = 0; i < w.inputs; i += 8) {
    float turned[kTaps * 8 * 8];  // Of eight inputs: the weights one after another, of eight outputs each.
    for (int64_t j = 0; j < kTaps * 8; j += 8) {
      turn_eight(w.from + i * kTaps + j, w.output_step, turned + j * 8, 8);
    }
    for (int64_t each = 0; each < 8; ++each) {
      Vector g[kTaps], tall[kHigh * kBroad], u[kWide];
      for (int k = 0; k < kTaps; ++k) g[k] = load(turned + (each * kTaps + k) * 8);
      const Vector* lines = g;
      if constexpr (kHigh > 1) {
        for (int c = 0; c < kBroad; ++c) weights_line<kTall, kHigh, kBroad, kBroad>(g + c, tall + c);
        lines = tall;
      }
      float* to = w.to + (i + each) * w.input_step;
      for (int r = 0; r < kHigh; ++r) {
        weights_line<kBroad, kWide, 1, 1>(lines + r * kBroad, u);
        for (int c = 0; c < kWide; ++c, to += w.step) store(to, u[c]);
      }
    }
  }
}

template <int kHigh, int kWide, int kRows, int kColumns>
constexpr WinogradTransforms kTransforms = {input<kHigh, kWide>, output<kHigh, kWide, kRows, kColumns>,
                                            weights<kHigh, kWide, kRows, kColumns>};

}  // namespace

void fill_winograd(Simd* table) {
  table->winograd[kTiles2x2Of3x3] = kTransforms<4, 4, 2, 2>;
  table->winograd[kTiles4x4Of3x3] = kTransforms<6, 6, 4, 4>;
  table->winograd[kTiles2x2Of5x5] = kTransforms<6, 6, 2, 2>;
  table->winograd[kTiles1x4Of1x3] = kTransforms<1, 6, 1, 4>;
  table->winograd[kTiles1x2Of1x5] = kTransforms<1, 6, 1, 2>;
}

}  // namespace ephost::cpu::EPHOST_ISA
