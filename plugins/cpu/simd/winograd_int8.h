// Parts of the convolution of engines/int8/int8_winograd.h: tiles of 4x4 outputs with 3x3 kernels, in
// integers.
//
// One line of a tile, of outputs y, inputs d and weights g, is y = A ((G g) * (B d)) / 24, where
//
//       4  0 -5  0  1  0         6  0  0       1  1  1  1  1  0
//       0  4  4 -1 -1  0         4  4  4       0  1 -1  2 -2  0
//   B = 0 -4  4  1 -1  0    G =  4 -4  4   A = 0  1  1  4  4  0
//       0 -2 -1  2  1  0         1  2  4       0  1 -1  8 -8  2
//       0  2 -1 -2  1  0         1 -2  4
//       0  4  0 -5  0  1         0  0 12
//
// and a tile is that in both directions. Of bytes less a zero point, inputs become 25500 at most, and weights
// 144 times themselves: both fit into 16 bits. What follows need not fit into 32: additions are modulo 2^32,
// and so is the division by 24 * 24 = 64 * 9, a multiplication by the inverse of 9 and a shift by 6. The
// result is right if 64 times itself fits.
#ifndef EPHOST_CPU_SIMD_WINOGRAD_INT8_H_
#define EPHOST_CPU_SIMD_WINOGRAD_INT8_H_

#include <stddef.h>
#include <stdint.h>

namespace ephost::cpu {

inline constexpr int kWinogradTile = 4, kWinogradSide = 6, kWinogradPoints = 36;
// Points whose weights are made at a time: those of two lines. Lines (first, second) of each group are
// 0 and 5, 1 and 2, 3 and 4.
inline constexpr int kWinogradGroups = 3, kWinogradGroupPoints = 12;
inline constexpr int kWinogradChannels = 16;  // The fewest that an input has.
inline constexpr int kWinogradMostWeight = 32767 / 144;

struct Winograd8 {  // All of it null in an instruction set with which the method gains nothing.
  // Transforms a tile of inputs with `channels` (even, and kWinogradChannels at least) channels; `from` are
  // its 6x6 pixels, line by line. Point p goes to to[p * step]. `zero` is the zero point of the bytes; what
  // lies outside of the image is that, too.
  void (*input_unsigned)(const uint8_t* const* from, int64_t channels, int zero, int16_t* to, int64_t step);
  void (*input_signed)(const uint8_t* const* from, int64_t channels, int zero, int16_t* to, int64_t step);
  // Transforms the weights of a panel ([pairs of channels][9 taps][kColumns][2]) for a group of points, each
  // of which goes to to[point * step] as [pairs][kColumns][2]. `zeros`: of the columns, each twice; or null.
  void (*weights)(const int8_t* panel, int64_t pairs, const int16_t* zeros, int group, int16_t* to,
                  int64_t step);
  // For all points of a group: `sums` of a point = its rows, which are 2 * pairs numbers each, by its
  // weights. `rows_step` and `sums_step` are between all 36 points, `weights_step` between those of the
  // group.
  void (*products)(const int16_t* rows, int64_t rows_step, int64_t count, const int16_t* weights,
                   int64_t weights_step, int64_t pairs, int group, int32_t* sums, int64_t sums_step);
  // The 4x4 outputs with kColumns channels each of a tile whose point p is at sums[p * step], plus `bias`;
  // lines of pixels are `line` numbers apart, pixels kColumns.
  void (*output)(const int32_t* sums, int64_t step, const int32_t* bias, int32_t* to, int64_t line);
};

}  // namespace ephost::cpu

#endif
