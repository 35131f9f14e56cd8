#include "cpu/engines/epilogue_rows.h"

#include "cpu/engines/tiles.h"

namespace ephost::cpu {

RowEpilogue::RowEpilogue(const PostOps& post_ops) {
  for (const PostOp& post_op : post_ops) {
    const Op op = post_op.binary() ? Op::kAdd : op_of(*post_op.activation);
    steps_.push_back({simd().ops[static_cast<int>(op)], {post_op.alpha, post_op.beta}, post_op.binary()});
  }
}

void RowEpilogue::run(float* out, const float* const* operands, int64_t offset, int64_t n) const {
  for (const Step& step : steps_) {
    const void* in[2] = {out + offset, nullptr};
    if (step.binary) {
      in[1] = *operands++ + offset;
    }
    step.function(in, out + offset, n, step.params);
  }
}

}  // namespace ephost::cpu
