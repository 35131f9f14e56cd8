// The chains of post.h on rows of an output that was just computed and is still in the cache.
#ifndef EPHOST_CPU_TAIL_H_
#define EPHOST_CPU_TAIL_H_

#include "../../compiler/post.h"
#include "../simd/simd.h"

namespace ephost::cpu {

class Tail {
 public:
  Tail() = default;
  explicit Tail(const std::vector<Post>& posts);
  bool empty() const { return steps_.empty(); }
  // Works on n elements from `offset` on, of the output and of the operands of additions.
  void run(float* out, const float* const* operands, int64_t offset, int64_t n) const;

 private:
  struct Step {
    TileFunction function;
    float params[2];
    bool binary;
  };
  std::vector<Step> steps_;
};

}  // namespace ephost::cpu

#endif
