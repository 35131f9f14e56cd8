/* The compiled kernels, which the build embeds: one image for each file in kernels/. */
#ifndef EPHOST_CUDA_IMAGES_H_
#define EPHOST_CUDA_IMAGES_H_

#include <cstddef>
#include <vector>

namespace ephost::cuda {

struct Image {
  const char* name;
  const void* data;
};

const std::vector<Image>& images();

}  // namespace ephost::cuda

#endif
