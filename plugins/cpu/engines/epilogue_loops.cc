#include "cpu/engines/epilogue_loops.h"

#include "cpu/engines/epilogue_rows.h"

namespace ephost::cpu {

float apply_post_op(const PostOp& post_op, float x) {
  RowEpilogue(PostOps{post_op}).run(&x, nullptr, 0, 1);
  return x;
}

void apply_post_ops(const PostOps& post_ops, const std::vector<Dims>& operand_dims,
                    const std::vector<const float*>& operands, const Dims& dims, float* values) {
  const int64_t n = count(dims);
  size_t next = 0;
  for (const PostOp& post_op : post_ops) {
    if (!post_op.binary()) {
      const RowEpilogue epilogue(PostOps{post_op});
      parallel_for(n, kGrain / 16,
                   [&](int64_t i, int64_t end) { epilogue.run(values, nullptr, i, end - i); });
      continue;
    }
    // The operand's step along each dimension of the output: 0 where it is broadcast.
    const Dims& from = operand_dims[next];
    const float* data = operands[next++];
    Dims steps(dims.size(), 0);
    int64_t step = 1;
    for (size_t i = from.size(); i-- > 0;) {
      steps[i + dims.size() - from.size()] = from[i] == 1 ? 0 : step;
      step *= from[i];
    }
    parallel_for(n, kGrain / 8, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        int64_t rest = i, at = 0;
        for (size_t d = dims.size(); d-- > 0;) {
          at += rest % dims[d] * steps[d];
          rest /= dims[d];
        }
        values[i] += data[at];
      }
    });
  }
}

Dims posted(const std::vector<Dims>& operand_dims, const Dims& dims) {
  Dims out = dims;
  for (const Dims& operand : operand_dims) {
    if (operand.size() > out.size()) {
      out.insert(out.begin(), operand.size() - out.size(), 1);
    }
    for (size_t i = 0; i < operand.size(); ++i) {
      int64_t& dim = out[i + out.size() - operand.size()];
      if (dim != operand[i] && dim != 1 && operand[i] != 1) {
        invalid("shapes " + to_string(dims) + " and " + to_string(operand) + " do not fit each other");
      }
      dim = dim == 1 ? operand[i] : dim;
    }
  }
  return out;
}

}  // namespace ephost::cpu
