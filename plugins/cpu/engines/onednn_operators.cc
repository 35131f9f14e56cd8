#include "cpu/engines/onednn_operators.h"

#include "cpu/engines/onednn.h"

namespace ephost::cpu {

Kernel onednn_lrn(Prepare& p, int64_t size, float alpha, float beta, float bias) {
  const Desc in = p.in(0);
  if (in.count() == 0 || in.dims.size() != 4 || size % 2 != 1) {
    return nullptr;
  }
  try {
    const dnn::Md md = dnn::describe(in);
    const dnnl::lrn_forward::primitive_desc pd(dnn::engine(), dnnl::prop_kind::forward_inference,
                                               dnnl::algorithm::lrn_across_channels, md, md, size, alpha,
                                               beta, bias, dnn::attributes());
    const auto primitive = std::make_shared<dnn::Primitive>(
        dnnl::lrn_forward(pd),
        std::vector<dnn::Primitive::Argument>{
            {DNNL_ARG_SRC, md}, {DNNL_ARG_DST, md}, {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
    p.out(0, in.type, in.dims, in.layout);
    p.scratch(pd.scratchpad_desc().get_size());
    return [primitive](const Args& args) {
      void* pointers[] = {const_cast<void*>(args.in<void>(0)), args.out<void>(0), args.scratch<void>()};
      primitive->run(pointers);
    };
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

Kernel onednn_pool(Prepare& p, const Window& w, const Dims& out, OnednnPooling of) {
  const Desc in = p.in(0);
  if (in.layout == Layout::kPlain) {
    return nullptr;
  }
  Dims dilations = w.dilations, end;
  for (size_t i = 0; i < w.rank(); ++i) {
    --dilations[i];
    // Where the last window ends before the input does, oneDNN leaves the rest out by itself.
    end.push_back(std::max<int64_t>(0, reach(w, i)));
    // oneDNN wants pads smaller than the kernel: a window has an element of the input.
    if (w.begin[i] >= w.span(i) || end[i] >= w.span(i)) {
      return nullptr;
    }
  }
  const dnnl::algorithm algorithm = of == OnednnPooling::kMax ? dnnl::algorithm::pooling_max
                                    : of == OnednnPooling::kMean
                                        ? dnnl::algorithm::pooling_avg_exclude_padding
                                        : dnnl::algorithm::pooling_avg_include_padding;
  try {
    using dnn::dims_of;
    const dnn::Md source = dnn::describe(in.dims, in.layout), target = dnn::describe(out, in.layout);
    const dnnl::pooling_forward::primitive_desc pd(
        dnn::engine(), dnnl::prop_kind::forward_inference, algorithm, source, target, dims_of(w.strides),
        dims_of(w.kernel), dims_of(dilations), dims_of(w.begin), dims_of(end), dnn::attributes());
    const auto primitive = std::make_shared<dnn::Primitive>(
        dnnl::pooling_forward(pd),
        std::vector<dnn::Primitive::Argument>{
            {DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}, {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
    p.out(0, DType::kFloat, out, in.layout);
    p.scratch(pd.scratchpad_desc().get_size());
    return [primitive](const Args& args) {
      void* pointers[] = {const_cast<void*>(args.in<void>(0)), args.out<void>(0), args.scratch<void>()};
      primitive->run(pointers);
    };
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

bool onednn_product(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float beta, float* c,
                    int64_t ldc) {
  return dnnl_sgemm('N', 'T', m, n, k, 1.0f, a, k, b, k, beta, c, ldc) == dnnl_success;
}

}  // namespace ephost::cpu
