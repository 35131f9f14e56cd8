// com.microsoft's operators around models that write text: DynamicTimeWarping and UnfoldTensor, which find
// the times of words, and NGramRepeatBlock.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

// ---- DynamicTimeWarping

enum Move : uint8_t { kBoth, kDown, kRight };

// The path from the first to the last element of a matrix of costs, a step down, right or both at a time,
// whose costs have the lowest sum.
void time_warping(Run& run) {
  const Dims dims = run.in(0).dims;
  if ((dims.size() != 2 && dims.size() != 3) || (dims.size() == 3 && dims[0] != 1))
    run.invalid("the costs are no matrix");
  const int64_t rows = dims[dims.size() - 2], columns = dims.back();
  if (rows == 0 || columns == 0) run.invalid("there are no costs");
  const float* const cost = run.as<float>(0);
  std::vector<float> above(static_cast<size_t>(columns)), sums(above);
  std::vector<Move> moves(static_cast<size_t>(rows * columns), kDown);  // By which a place is reached.
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const size_t at = static_cast<size_t>(c);
      Move& move = moves[static_cast<size_t>(r * columns + c)];
      float before = 0;
      if (r == 0) {
        move = kRight;
        if (c > 0) before = sums[at - 1];
      } else if (c == 0) {
        before = above[at];
      } else {
        const float both = above[at - 1], down = above[at], right = sums[at - 1];
        move = both < down && both < right ? kBoth : down < both && down < right ? kDown : kRight;
        before = move == kBoth ? both : move == kDown ? down : right;
      }
      sums[at] = cost[r * columns + c] + before;
    }
    std::swap(above, sums);
  }
  std::vector<int32_t> path;  // Rows and columns, from the end on.
  for (int64_t r = rows - 1, c = columns - 1;;) {
    path.push_back(static_cast<int32_t>(r));
    path.push_back(static_cast<int32_t>(c));
    if (r == 0 && c == 0) break;
    const Move move = moves[static_cast<size_t>(r * columns + c)];
    r -= move == kRight ? 0 : 1;
    c -= move == kDown ? 0 : 1;
  }
  const int64_t n = static_cast<int64_t>(path.size()) / 2;
  int32_t* const y = static_cast<int32_t*>(run.out(0, DType::kInt32, {2, n}));
  for (int64_t i = 0; i < n; ++i) {
    y[n - 1 - i] = path[static_cast<size_t>(2 * i)];
    y[2 * n - 1 - i] = path[static_cast<size_t>(2 * i + 1)];
  }
}

// ---- UnfoldTensor

Kernel unfold(Prepare& p) {
  const Dims dims = p.dims(0), strides = strides_of(dims);
  p.expect(!dims.empty(), "the input has no dimension to unfold");
  const size_t axis = p.axis(p.node.i("dim", -1), dims.size());
  const int64_t size = p.node.i("size", 0), step = p.node.i("step", 1);
  p.expect(size > 0 && size <= dims[axis], "the size of a slice is from 1 to that of the dimension");
  p.expect(step > 0, "the step is not positive");
  Dims to = dims, from = strides;
  to[axis] = (dims[axis] - size) / step + 1;
  from[axis] *= to[axis] > 1 ? step : 1;
  to.push_back(size);
  from.push_back(strides[axis]);
  p.out(0, p.type(0), to);
  return copy_or_alias(p, StridedCopy(size_of(p.type(0)), to, from, strides_of(to)));
}

// ---- NGramRepeatBlock

// A token is forbidden that would repeat, behind the last ones, a row of so many tokens.
Kernel block_repeats(Prepare& p) {
  const Dims tokens = p.dims(0), scores = p.dims(1);
  p.expect(tokens.size() == 2 && scores.size() == 2 && tokens[0] == scores[0],
           "tokens and scores have not one row for each sequence");
  const int64_t n = p.node.i("ngram_size", 0);
  p.expect(n > 0, "ngram_size is not positive");
  const int64_t length = tokens[1], words = scores[1];
  p.out(0, p.type(1), scores);
  p.in_place(0, 1);
  return [=, label = p.node.label()](const Args& args) {
    const int64_t* ids = args.in<int64_t>(0);
    float* y = args.out<float>(0);
    if (y != args.in<float>(1)) std::copy_n(args.in<float>(1), scores[0] * words, y);
    for (int64_t b = 0; b < scores[0]; ++b, ids += length, y += words) {
      for (int64_t i = 0; n <= length && i + n <= length; ++i) {
        if (!std::equal(ids + i, ids + i + n - 1, ids + length - (n - 1))) continue;
        const int64_t last = ids[i + n - 1];
        if (last < 0 || last >= words) invalid(label + ": a token that has no score");
        y[last] = -INFINITY;
      }
    }
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr const char* kMs = "com.microsoft";
  registry->add({.domain = kMs,
                 .type = "DynamicTimeWarping",
                 .run = time_warping,
                 .types = {DType::kFloat, DType::kInt32}});
  registry->add({.domain = kMs, .type = "UnfoldTensor", .prepare = unfold, .types = kAny | kText});
  registry->add({.domain = kMs,
                 .type = "NGramRepeatBlock",
                 .prepare = block_repeats,
                 .types = {DType::kInt64, DType::kFloat}});
});

}  // namespace ephost::cpu
