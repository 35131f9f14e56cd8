// Convolutions of few input channels along rows of plain images; see engines/conv/planes.h.
#include "cpu/simd/simd.h"
#include "cpu/simd/vectors.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

#ifdef __AVX512F__
constexpr int kRowLanes = 16, kMostOutputs = 8;
#else
constexpr int kRowLanes = 8, kMostOutputs = 4;
#endif
typedef float Row __attribute__((vector_size(4 * kRowLanes)));
static_assert(kRowLanes <= kPlaneWidth);

// kRowLanes * vectors pixels of so many output channels, from pixel `at` of the row on.
template <int outputs, int vectors>
inline void block(const PlaneRow& r, int64_t channel, int64_t at) {
  const float* weights = r.weights + channel * r.lines * r.taps;
  const int64_t step = r.lines * r.taps;
  Row sums[outputs][vectors];
#pragma GCC unroll 8
  for (int o = 0; o < outputs; ++o) {
    const float start = r.bias == nullptr ? 0.0f : r.bias[channel + o];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[o][v] = Row{} + start;
  }
  for (int64_t line = 0; line < r.lines; ++line, weights += r.taps) {
    if (r.from[line] == nullptr) continue;
    const float* x = r.from[line] + at;
    for (int64_t t = 0; t < r.taps; ++t, x += r.dilation) {
      Row values[vectors];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) values[v] = load_as<Row>(x + v * kRowLanes);
#pragma GCC unroll 8
      for (int o = 0; o < outputs; ++o) {
        const float weight = weights[o * step + t];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sums[o][v] += values[v] * weight;
      }
    }
  }
#pragma GCC unroll 8
  for (int o = 0; o < outputs; ++o) {
    float* y = r.y + (channel + o) * r.plane + at;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) store_as(y + v * kRowLanes, sums[o][v]);
  }
}

// Where less than a block is left, some pixels before it are done once more.
template <int outputs, int vectors>
inline void row(const PlaneRow& r, int64_t channel) {
  constexpr int64_t kBlock = int64_t{kRowLanes} * vectors;
  int64_t at = 0;
  for (; at + kBlock <= r.width; at += kBlock) block<outputs, vectors>(r, channel, at);
  // Two vectors rather than one: a sum waits for the one before.
  if constexpr (vectors > 2) {
    for (; at + 2 * kRowLanes <= r.width; at += 2 * kRowLanes) block<outputs, 2>(r, channel, at);
  }
  for (; at < r.width; at += kRowLanes) {
    block<outputs, 1>(r, channel, at + kRowLanes <= r.width ? at : r.width - kRowLanes);
  }
}

// As many sums as keep both multipliers busy.
void plane_row(const PlaneRow& r) {
  int64_t channel = 0;
  for (; channel + kMostOutputs <= r.channels; channel += kMostOutputs) row<kMostOutputs, 2>(r, channel);
  if constexpr (kMostOutputs > 4) {
    for (; channel + 4 <= r.channels; channel += 4) row<4, 3>(r, channel);
  }
  if (channel + 3 == r.channels) return row<3, 3>(r, channel);
  for (; channel + 2 <= r.channels; channel += 2) row<2, 4>(r, channel);
  for (; channel < r.channels; ++channel) row<1, 8>(r, channel);
}

}  // namespace

void fill_planes_float(Simd* table) { table->plane_row = plane_row; }

}  // namespace ephost::cpu::EPHOST_ISA
