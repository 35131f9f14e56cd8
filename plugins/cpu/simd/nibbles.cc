// Products with weights of four bits. See NibbleBlock in simd.h.
#include "simd/simd.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

constexpr int kColumns = 16;
constexpr int kRows = 4;

typedef float Vector __attribute__((vector_size(32)));
typedef float Unaligned __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(8)));
typedef uint8_t UnalignedBytes __attribute__((vector_size(8), aligned(1), may_alias));

inline Vector load(const float* x) { return *reinterpret_cast<const Unaligned*>(x); }
inline void store(float* to, const Vector& v) { *reinterpret_cast<Unaligned*>(to) = v; }

// The weights of one p, less their zero points.
inline void weights(const uint8_t* b, const Vector (&zeros)[2], Vector (&w)[2]) {
  const Integers both =
      __builtin_convertvector(static_cast<Bytes>(*reinterpret_cast<const UnalignedBytes*>(b)), Integers);
  w[0] = __builtin_convertvector(both & 15, Vector) - zeros[0];
  w[1] = __builtin_convertvector(both >> 4, Vector) - zeros[1];
}

template <int kCount>
void tile(const NibbleBlock& g, const float* a, float* c) {
  Vector sums[kCount][2];
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) sums[i][0] = sums[i][1] = Vector{};
  const uint8_t* b = g.b;
  for (int64_t start = 0, block = 0; start < g.k; start += g.block, ++block) {
    const int64_t end = start + g.block < g.k ? start + g.block : g.k;
    const Vector zeros[2] = {load(g.zeros + block * kColumns), load(g.zeros + block * kColumns + 8)};
    Vector part[kCount][2];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) part[i][0] = part[i][1] = Vector{};
    for (int64_t p = start; p < end; ++p, b += kColumns / 2) {
      Vector w[2];
      weights(b, zeros, w);
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) {
        const float x = a[i * g.a_row + p];
        part[i][0] += x * w[0];
        part[i][1] += x * w[1];
      }
    }
    const Vector scales[2] = {load(g.scales + block * kColumns), load(g.scales + block * kColumns + 8)};
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      sums[i][0] += part[i][0] * scales[0];
      sums[i][1] += part[i][1] * scales[1];
    }
  }
  for (int i = 0; i < kCount; ++i) {
    float row[kColumns];
    store(row, sums[i][0]);
    store(row + 8, sums[i][1]);
    for (int j = 0; j < g.columns; ++j) {
      c[i * g.c_row + j] = row[j] + (g.bias == nullptr ? 0 : g.bias[j]);
    }
  }
}

void product(const NibbleBlock& g) {
  using Tile = void (*)(const NibbleBlock&, const float*, float*);
  constexpr Tile kTiles[kRows] = {tile<1>, tile<2>, tile<3>, tile<4>};
  for (int64_t i = 0; i < g.m;) {
    const int64_t rows = g.m - i < kRows ? g.m - i : kRows;
    kTiles[rows - 1](g, g.a + i * g.a_row, g.c + i * g.c_row);
    i += rows;
  }
}

void unpack(const NibbleBlock& g, int64_t first, int64_t last, float* to, int64_t step) {
  for (int64_t p = first; p < last;) {
    const int64_t block = p / g.block, end = (block + 1) * g.block < last ? (block + 1) * g.block : last;
    const Vector zeros[2] = {load(g.zeros + block * kColumns), load(g.zeros + block * kColumns + 8)};
    const Vector scales[2] = {load(g.scales + block * kColumns), load(g.scales + block * kColumns + 8)};
    for (; p < end; ++p, to += step) {
      Vector w[2];
      weights(g.b + p * (kColumns / 2), zeros, w);
      store(to, w[0] * scales[0]);
      store(to + 8, w[1] * scales[1]);
    }
  }
}

}  // namespace

void fill_nibbles(Simd* table) {
  table->nibble_product = product;
  table->nibble_unpack = unpack;
}

}  // namespace ephost::cpu::EPHOST_ISA
