// Sums of neighbours along some axes of a tensor, one axis after the other: what changes the size of an image
// by weights.
#ifndef EPHOST_CPU_ENGINES_RESAMPLE_H_
#define EPHOST_CPU_ENGINES_RESAMPLE_H_

#include "cpu/operator.h"

namespace ephost::cpu {

// Along an axis: output i is the sum of count[i] inputs from first[i] on, which is at least one, times
// weight[i * width], ... Where `outside` says so, which may be empty, it is the value of extrapolation.
struct Taps {
  int64_t in = 1, out = 1, width = 1;
  std::vector<int64_t> first, count;
  std::vector<double> weight;
  std::vector<bool> outside;
};

// Of input 0, whose axes are given as they lie in memory. In float, or in double for what floats do not hold.
// Integers drop what they do not hold of a result; or, if `stepwise`, sums along each axis are rounded to the
// nearest, those along the last one first.
Kernel resample(Prepare& p, const Desc& in, const std::vector<std::pair<size_t, Taps>>& axes,
                double extrapolation, bool stepwise);

}  // namespace ephost::cpu

#endif
