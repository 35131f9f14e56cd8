#include "cuda/operators/windows.h"

#include <algorithm>

namespace ephost::cuda {

std::vector<Slide> slides_of(const Node& node, const Dims& dims, const std::vector<int64_t>& windows) {
  const size_t rank = dims.size() - 2;
  const std::vector<int64_t> ones(rank, 1), zeros(2 * rank, 0);
  const Ints strides = node.ints("strides", ones), dilations = node.ints("dilations", ones);
  const Ints pads = node.ints("pads", zeros);
  const std::string automatic = node.s("auto_pad", "NOTSET");
  const bool up = node.i("ceil_mode", 0) != 0;
  if (windows.size() != rank || strides.size() != rank || dilations.size() != rank ||
      pads.size() != 2 * rank) {
    invalid("attributes for another number of dimensions");
  }
  std::vector<Slide> slides(2);
  for (size_t i = 0; i < rank; ++i) {
    Slide& slide = slides[2 - rank + i];
    slide = {dims[2 + i], 0, windows[i], strides[i], dilations[i], pads[i], pads[rank + i]};
    const int64_t reach = (slide.window - 1) * slide.dilation + 1;
    if (slide.stride <= 0 || slide.dilation <= 0 || slide.window <= 0) {
      invalid("a stride, dilation or window that is not positive");
    }
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      slide.out = (slide.size + slide.stride - 1) / slide.stride;
      const int64_t missing = std::max<int64_t>((slide.out - 1) * slide.stride + reach - slide.size, 0);
      slide.before = automatic == "SAME_UPPER" ? missing / 2 : missing - missing / 2;
      slide.after = missing - slide.before;
      continue;
    }
    if (automatic == "VALID") {
      slide.before = slide.after = 0;
    }
    const int64_t room = slide.size + slide.before + slide.after - reach;
    slide.out = std::max<int64_t>(room / slide.stride + 1, 0);
    if (up && room > 0 && room % slide.stride != 0 && slide.out * slide.stride < slide.size + slide.before) {
      ++slide.out; /* a last window that starts inside the image */
    }
  }
  return slides;
}

}  // namespace ephost::cuda
