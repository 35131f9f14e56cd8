// The chains of epilogue.h on rows of an output that was just computed and is still in the cache.
#ifndef EPHOST_CPU_ENGINES_EPILOGUE_ROWS_H_
#define EPHOST_CPU_ENGINES_EPILOGUE_ROWS_H_

#include "cpu/simd/simd.h"
#include "toolkit/passes/epilogue.h"

namespace ephost::cpu {

class RowEpilogue {
 public:
  RowEpilogue() = default;
  explicit RowEpilogue(const PostOps& post_ops);
  bool empty() const { return steps_.empty(); }
  // Works on n elements from `offset` on, of the output and of the operands of additions.
  void run(float* out, const float* const* operands, int64_t offset, int64_t n) const;

 private:
  struct Step {
    TileFunction function;
    float params[2];
    bool binary;
  };
  SmallVector<Step, 2> steps_;
};

}  // namespace ephost::cpu

#endif
