/* Windows that slide over images. */
#ifndef EPHOST_CUDA_OPERATORS_WINDOWS_H_
#define EPHOST_CUDA_OPERATORS_WINDOWS_H_

#include "cuda/operator.h"

namespace ephost::cuda {

/* One dimension of a window. */
struct Slide {
  int64_t size = 1, out = 1, window = 1, stride = 1, dilation = 1, before = 0, after = 0;
};

/* height and width; a single spatial dimension is the width of images of height 1. */
std::vector<Slide> slides_of(const Node& node, const Dims& dims, const std::vector<int64_t>& windows);

}  // namespace ephost::cuda

#endif
