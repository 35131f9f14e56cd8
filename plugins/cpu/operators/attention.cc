// "ephost.Attention": what the passes of the toolkit make of products around a softmax.
#include "cpu/engines/as_float.h"
#include "cpu/engines/attention_core.h"

namespace ephost::cpu {
namespace {

Kernel attention(Prepare& p) {
  AttentionCore a;
  const std::vector<int64_t> out_perm = p.node.ints("out_perm");
  a.q = heads_view(p.dims(0), p.node.ints("q_perm"));
  a.k = heads_view(p.dims(1), p.node.ints("k_perm"));
  a.v = heads_view(p.dims(2), p.node.ints("v_perm"));
  a.scale = p.node.f("scale", 1);
  a.clear = p.node.i("clear", 0) != 0;
  int64_t common[2] = {1, 1};  // Batches and heads.
  for (int d : {0, 1}) {
    int64_t& size = common[d];
    size = std::max({a.q.sizes[d], a.k.sizes[d], a.v.sizes[d]});
    for (const HeadsView* view : {&a.q, &a.k, &a.v}) {
      if (view->sizes[d] == 0) size = 0;
      p.expect(view->sizes[d] == size || view->sizes[d] == 1 || size == 0,
               "batches that do not fit each other");
    }
  }
  const size_t rank = out_perm.size();
  const int64_t sizes[4] = {common[0], common[1], a.q.sizes[2], a.v.sizes[3]};
  const Dims product(sizes + 4 - rank, sizes + 4);
  Dims dims;
  for (int64_t d : out_perm) dims.push_back(product[static_cast<size_t>(d)]);
  p.out(0, DType::kFloat, dims);
  std::vector<int64_t> back(rank);  // The product's dimensions among the output's.
  for (size_t d = 0; d < rank; ++d) back[static_cast<size_t>(out_perm[d])] = static_cast<int64_t>(d);
  a.out = heads_view(dims, back);

  if (p.has(3)) {
    a.mask = AttentionCore::kFloatMask;
    a.mask_columns = a.k.sizes[2];
    const Dims& mask = p.dims(3);
    const int64_t all[4] = {common[0], common[1], a.q.sizes[2], a.k.sizes[2]};
    int64_t step = 1;
    p.expect(mask.size() <= 4, "a mask with too many dimensions");
    for (size_t k = 0; k < mask.size(); ++k) {
      const int64_t size = mask[mask.size() - 1 - k];
      p.expect(size == all[3 - k] || size == 1, "a mask that does not fit the scores");
      a.mask_strides[3 - k] = size == 1 ? 0 : step;
      step *= size;
    }
  }
  p.scratch(static_cast<size_t>(a.plan(p)) * sizeof(float));
  return [=](const Args& args) {
    AttentionOperands operands{args.in<float>(0), args.in<float>(1), args.in<float>(2), args.out<float>(0)};
    if (a.mask != AttentionCore::kNoMask) operands.mask = args.in(3);
    a.run(operands, args.scratch<float>());
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "ephost",
                 .type = "Attention",
                 .prepare = with_halves(attention),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16}});
});

}  // namespace ephost::cpu
