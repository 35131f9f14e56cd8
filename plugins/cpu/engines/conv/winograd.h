// Convolutions with kernels of 3x3, 5x5, and 3 or 5 in a line, in steps of one, by Winograd's method: tiles
// of the input are transformed, multiplied by transformed weights in each of their points, which is one
// matrix product for all tiles, and transformed back. Of 3x3, tiles of 4x4 outputs need a quarter of the
// multiplications and four times the memory for weights, tiles of 2x2 less than half and less than twice; of
// 5x5, about a third and half as much more; in a line, half of three taps' and three fifths of five's.
#ifndef EPHOST_CPU_ENGINES_CONV_WINOGRAD_H_
#define EPHOST_CPU_ENGINES_CONV_WINOGRAD_H_

#include "cpu/engines/conv/problem.h"
#include "cpu/engines/epilogue_rows.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {

struct WinogradForm {
  WinogradTiles tiles;
  const char* name;
  int outputs[2], taps[2];  // Of a tile's sides, and of the kernel's.

  constexpr int points(size_t side) const { return outputs[side] + taps[side] - 1; }
  constexpr int points() const { return points(0) * points(1); }
};
// Best first.
inline constexpr WinogradForm kWinogradForms[] = {
    {kTiles4x4Of3x3, "4x4 of 3x3", {4, 4}, {3, 3}}, {kTiles2x2Of3x3, "2x2 of 3x3", {2, 2}, {3, 3}},
    {kTiles2x2Of5x5, "2x2 of 5x5", {2, 2}, {5, 5}}, {kTiles1x4Of1x3, "4 of 3", {1, 4}, {1, 3}},
    {kTiles1x2Of1x5, "2 of 5", {1, 2}, {1, 5}},
};

// The form for these weights, or null where the method does not fit. Depends on nothing that only shapes of
// inputs say.
const WinogradForm* winograd_form(const ConvProblem& problem);
// Whether an output of this size is worth it.
bool winograd_worth(const ConvProblem& problem, const WinogradForm& form);
// The transformed weights; `constant` must have its content, unless they are there already.
std::shared_ptr<void> winograd_weights(const TensorPtr& constant, const WinogradForm& form);
bool has_winograd_weights(const TensorPtr& constant, const WinogradForm& form);
// The original made from them, to the last bits but one or two: for shapes that the method does not fit.
TensorPtr winograd_original(const TensorPtr& constant, const WinogradForm& form);
// Reads input 0, bias 2 if `biased`, operands from input `operands` on; all in this layout:
// channels last, or in blocks of eight.
Kernel winograd(Prepare& p, const ConvProblem& problem, const WinogradForm& form, Layout layout, bool biased,
                const PostOps& post_ops, int operands);

}  // namespace ephost::cpu

#endif
