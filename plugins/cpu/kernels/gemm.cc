// MatMul and Gemm, and "ephost.MatMul": what passes make of them, with transposed inputs, a bias, and the
// activations and additions of post.h.
#include <cmath>

#include "../../compiler/half.h"
#include "as_float.h"
#include "kernels.h"
#include "post.h"

namespace ephost::cpu {
namespace {

// Inputs: a, b, bias (one element for each column), operands of the posts.
constexpr int kOperands = 3;

// The product of two stacks of matrices: out[s] = alpha * a[s] * b[s].
struct Product {
  Dims batch;             // Of the output.
  Dims a_batch, b_batch;  // With the rank of `batch`: 1 where they are broadcast.
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  Dims out;  // As ONNX has it.

  int64_t stacks() const { return count(batch); }
};

Product product_of(const Prepare& p, bool trans_a, bool trans_b) {
  Product product;
  Dims a = p.dims(0), b = p.dims(1);
  p.expect(!a.empty() && !b.empty(), "the inputs have at least one dimension");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  product.trans_a = trans_a && !row;
  product.trans_b = trans_b && !column;
  product.m = a[a.size() - (product.trans_a ? 1 : 2)];
  product.k = a[a.size() - (product.trans_a ? 2 : 1)];
  product.n = b[b.size() - (product.trans_b ? 2 : 1)];
  if (b[b.size() - (product.trans_b ? 1 : 2)] != product.k) {
    p.invalid("matrices of shapes " + to_string(p.dims(0)) + " and " + to_string(p.dims(1)) +
              " do not fit each other");
  }
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  a.insert(a.begin(), std::max(a.size(), b.size()) - a.size(), 1);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (size_t i = 0; i < a.size(); ++i) {
    p.expect(a[i] == b[i] || a[i] == 1 || b[i] == 1, "the stacks of matrices do not fit each other");
    product.batch.push_back(a[i] == 1 ? b[i] : a[i]);
  }
  // One matrix b for all of a's rows: a stack of one.
  if (count(b) == 1 && !product.trans_a) {
    product.m *= count(a);
    product.out = product.batch;
    if (!row) product.out.push_back(p.dims(0)[p.dims(0).size() - 2]);
    if (!column) product.out.push_back(product.n);
    product.batch = a = b = {};
  } else {
    product.out = product.batch;
    if (!row) product.out.push_back(product.m);
    if (!column) product.out.push_back(product.n);
  }
  product.a_batch = a;
  product.b_batch = b;
  return product;
}

// Where matrix s of the output finds its factors, counted in matrices.
std::vector<std::pair<int64_t, int64_t>> factors(const Product& product) {
  std::vector<std::pair<int64_t, int64_t>> out(static_cast<size_t>(product.stacks()));
  for (int64_t s = 0; s < product.stacks(); ++s) {
    int64_t rest = s, a = 0, b = 0, a_step = 1, b_step = 1;
    for (size_t i = product.batch.size(); i-- > 0; rest /= product.batch[i]) {
      const int64_t at = rest % product.batch[i];
      a += product.a_batch[i] == 1 ? 0 : at * a_step;
      b += product.b_batch[i] == 1 ? 0 : at * b_step;
      a_step *= product.a_batch[i];
      b_step *= product.b_batch[i];
    }
    out[static_cast<size_t>(s)] = {a, b};
  }
  return out;
}

// ---- Plain loops, for all number types. Sums of integers wrap around.

template <typename T>
Kernel plain_loops(const Product& product) {
  using Sum = std::conditional_t<std::is_integral_v<T>,
                                 std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>, T>;
  return [product, where = factors(product)](const Args& args) {
    const T *a = args.in<T>(0), *b = args.in<T>(1);
    T* out = args.out<T>(0);
    const int64_t m = product.m, n = product.n, k = product.k;
    parallel_for(product.stacks() * m, std::max<int64_t>(1, kGrain / (n * k + 1)),
                 [&](int64_t i, int64_t end) {
                   std::vector<Sum> row(static_cast<size_t>(n));
                   for (; i < end; ++i) {
                     const auto [sa, sb] = where[static_cast<size_t>(i / m)];
                     const T *from_a = a + sa * m * k, *from_b = b + sb * k * n;
                     std::fill(row.begin(), row.end(), Sum{});
                     for (int64_t j = 0; j < k; ++j) {
                       const Sum factor =
                           static_cast<Sum>(product.trans_a ? from_a[j * m + i % m] : from_a[i % m * k + j]);
                       if (product.trans_b) {
                         for (int64_t c = 0; c < n; ++c) {
                           row[static_cast<size_t>(c)] += factor * static_cast<Sum>(from_b[c * k + j]);
                         }
                       } else {
                         for (int64_t c = 0; c < n; ++c) {
                           row[static_cast<size_t>(c)] += factor * static_cast<Sum>(from_b[j * n + c]);
                         }
                       }
                     }
                     for (int64_t c = 0; c < n; ++c)
                       out[i * n + c] = static_cast<T>(row[static_cast<size_t>(c)]);
                   }
                 });
  };
}

Kernel plain_product(Prepare& p, const Product& product) {
  switch (p.type(0)) {
    case DType::kDouble:
      return plain_loops<double>(product);
    case DType::kInt32:
    case DType::kUint32:
      return plain_loops<uint32_t>(product);
    case DType::kInt64:
    case DType::kUint64:
      return plain_loops<uint64_t>(product);
    default:
      return plain_loops<float>(product);
  }
}

// ---- float32

dnn::Md matrix(const Dims& batch, int64_t rows, int64_t columns, bool transposed) {
  Dims dims = batch;
  dims.push_back(rows);
  dims.push_back(columns);
  dnnl::memory::dims strides(dims.size());
  int64_t step = rows * columns;
  for (size_t i = batch.size(); i-- > 0; step *= batch[i]) strides[i] = step;
  strides[batch.size()] = transposed ? 1 : columns;
  strides[batch.size() + 1] = transposed ? rows : 1;
  return dnn::Md(dims, dnnl::memory::data_type::f32, strides);
}

Kernel float_product(Prepare& p, const Product& product, const std::vector<Post>& posts, float alpha) {
  std::vector<Dims> operand_dims;
  bool same_shape = true;
  for (int i = kOperands; i < p.inputs(); ++i) {
    operand_dims.push_back(p.dims(i));
    same_shape = same_shape && operand_dims.back() == product.out;
  }
  const bool biased = p.inputs() > 2 && p.has(2);
  p.expect(!biased || p.in(2).count() == product.n, "the bias has not one element for each column");
  const Dims dims = posted(operand_dims, product.out);
  p.out(0, DType::kFloat, dims);
  if (count(product.out) == 0 && dims == product.out) {
    return [](const Args&) {};
  }
  const dnn::Md a = matrix(product.a_batch, product.m, product.k, product.trans_a);
  const dnn::Md b = matrix(product.b_batch, product.k, product.n, product.trans_b);
  const dnn::Md y = matrix(product.batch, product.m, product.n, false);
  Dims bias_dims(product.batch.size() + 1, 1);
  bias_dims.push_back(product.n);
  const dnn::Md bias = biased ? dnn::plain(bias_dims) : dnn::Md();

  std::vector<Post> chain = posts;
  if (alpha != 1) {
    p.expect(!biased, "a bias comes after the factor");
    chain.insert(chain.begin(), {"linear", alpha, 0});
  }
  dnnl::primitive_attr attr = dnn::attributes();
  const bool fused = same_shape && product.k > 0;
  if (fused) {
    add_posts(chain, std::vector<dnn::Md>(operand_dims.size(), y), &attr);
  }
  if (product.k == 0) {
    return [=](const Args& args) {
      float* out = args.out<float>(0);
      std::fill(out, out + count(dims), 0.0f);
      std::vector<const float*> values;
      std::vector<Dims> all_dims = operand_dims;
      std::vector<Post> all = chain;
      for (size_t i = 0; i < operand_dims.size(); ++i)
        values.push_back(args.in<float>(kOperands + static_cast<int>(i)));
      if (biased) {
        all.insert(all.begin(), {"add", 0, 0});
        all_dims.insert(all_dims.begin(), Dims{count({dims.back()})});
        values.insert(values.begin(), args.in<float>(2));
      }
      apply_posts(all, all_dims, values, dims, out);
    };
  }
  return dnn::guarded([&]() -> Kernel {
    const dnnl::matmul::primitive_desc pd =
        biased ? dnnl::matmul::primitive_desc(dnn::engine(), a, b, bias, y, attr)
               : dnnl::matmul::primitive_desc(dnn::engine(), a, b, y, attr);
    std::vector<dnn::Primitive::Argument> arguments = {{DNNL_ARG_SRC, a},
                                                       {DNNL_ARG_WEIGHTS, b},
                                                       {DNNL_ARG_DST, y},
                                                       {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}};
    if (biased) {
      arguments.push_back({DNNL_ARG_BIAS, bias});
    }
    for (size_t i = 0; fused && i < chain.size(); ++i) {
      if (chain[i].binary()) {
        arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1, y});
      }
    }
    const auto primitive = std::make_shared<dnn::Primitive>(dnnl::matmul(pd), std::move(arguments));
    const size_t own = (pd.scratchpad_desc().get_size() + 63) & ~size_t{63};
    const bool in_scratch = dims != product.out;
    p.scratch(own + (in_scratch ? static_cast<size_t>(count(product.out)) * sizeof(float) : 0));
    return [=, inputs = p.inputs(), out_dims = product.out](const Args& args) {
      void* pointers[16];
      size_t n = 0;
      char* scratch = args.scratch<char>();
      float* out = args.out<float>(0);
      float* made_here = in_scratch ? reinterpret_cast<float*>(scratch + own) : out;
      pointers[n++] = const_cast<void*>(args.in<void>(0));
      pointers[n++] = const_cast<void*>(args.in<void>(1));
      pointers[n++] = made_here;
      pointers[n++] = scratch;
      if (biased) {
        pointers[n++] = const_cast<void*>(args.in<void>(2));
      }
      for (int i = kOperands; fused && i < inputs; ++i) {
        pointers[n++] = const_cast<void*>(args.in<void>(i));
      }
      primitive->run(pointers);
      if (fused) {
        return;
      }
      std::vector<const float*> values;
      for (int i = kOperands; i < inputs; ++i) values.push_back(args.in<float>(i));
      if (in_scratch) {
        std::fill(out, out + count(dims), 0.0f);
        apply_posts({{"add", 0, 0}}, {out_dims}, {made_here}, dims, out);
      }
      apply_posts(chain, operand_dims, values, dims, out);
    };
  });
}

Kernel matmul(Prepare& p) {
  const Product product = product_of(p, p.node.i("transA", 0) != 0, p.node.i("transB", 0) != 0);
  p.expect(p.type(0) == p.type(1), "the matrices have different types");
  if (p.type(0) == DType::kFloat) {
    return float_product(p, product, posts_of(p.node), 1);
  }
  p.out(0, p.type(0), product.out);
  return plain_product(p, product);
}

template <typename T>
Kernel plain_gemm(const Kernel& loops, T alpha, T beta, const Dims& dims, const std::optional<Dims>& c_dims) {
  return [=](const Args& args) {
    loops(args);
    T* out = args.out<T>(0);
    const T* c = c_dims.has_value() ? args.in<T>(2) : nullptr;
    const Dims from = c_dims.value_or(Dims{});
    const int64_t rows = from.size() < 2 || from[0] == 1 ? 0 : from[1],
                  columns = from.empty() || from.back() == 1 ? 0 : 1;
    for (int64_t i = 0; i < dims[0]; ++i) {
      for (int64_t j = 0; j < dims[1]; ++j) {
        T& value = out[i * dims[1] + j];
        value = value * alpha + (c == nullptr ? T{} : beta * c[i * rows + j * columns]);
      }
    }
  };
}

Kernel gemm(Prepare& p) {
  const bool trans_a = p.node.i("transA", 0) != 0, trans_b = p.node.i("transB", 0) != 0;
  p.expect(p.dims(0).size() == 2 && p.dims(1).size() == 2, "Gemm multiplies matrices");
  const Product product = product_of(p, trans_a, trans_b);
  const float alpha = p.node.f("alpha", 1), beta = p.node.f("beta", 1);
  const bool has_c = p.inputs() > 2 && p.has(2);
  std::optional<Dims> c_dims;
  if (has_c) {
    c_dims = p.dims(2);
    p.expect(posted({*c_dims}, product.out) == product.out, "C does not fit the product");
    p.expect(p.type(2) == p.type(0), "C has another type than the matrices");
  }
  p.expect(p.type(0) == p.type(1), "the matrices have different types");
  const bool bias = has_c && !c_dims->empty() && alpha == 1 && beta == 1 && p.in(2).count() == product.n &&
                    c_dims->back() == product.n;
  if (p.type(0) == DType::kFloat && (!has_c || bias)) {
    return float_product(p, product, {}, alpha);
  }
  if (p.type(0) == DType::kFloat) {
    // alpha * (a b) + beta * c, where c is any tensor that can be broadcast.
    dnnl::primitive_attr attr = dnn::attributes();
    p.out(0, DType::kFloat, product.out);
    if (count(product.out) == 0) {
      return [](const Args&) {};
    }
    const Kernel loops = dnn::guarded([&]() -> Kernel {
      if (product.k == 0) {
        return [n = count(product.out)](const Args& args) {
          std::fill(args.out<float>(0), args.out<float>(0) + n, 0.0f);
        };
      }
      const dnn::Md a = matrix({}, product.m, product.k, trans_a),
                    b = matrix({}, product.k, product.n, trans_b),
                    y = matrix({}, product.m, product.n, false);
      const dnnl::matmul::primitive_desc pd(dnn::engine(), a, b, y, attr);
      const auto primitive = std::make_shared<dnn::Primitive>(
          dnnl::matmul(pd),
          std::vector<dnn::Primitive::Argument>{{DNNL_ARG_SRC, a},
                                                {DNNL_ARG_WEIGHTS, b},
                                                {DNNL_ARG_DST, y},
                                                {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
      p.scratch(pd.scratchpad_desc().get_size());
      return [primitive](const Args& args) {
        void* pointers[] = {const_cast<void*>(args.in<void>(0)), const_cast<void*>(args.in<void>(1)),
                            args.out<void>(0), args.scratch<void>()};
        primitive->run(pointers);
      };
    });
    return plain_gemm<float>(loops, alpha, beta, product.out, c_dims);
  }
  p.out(0, p.type(0), product.out);
  const Kernel loops = plain_product(p, product);
  switch (p.type(0)) {
    case DType::kDouble:
      return plain_gemm<double>(loops, alpha, beta, product.out, c_dims);
    case DType::kInt32:
      return plain_gemm<int32_t>(loops, static_cast<int32_t>(alpha), static_cast<int32_t>(beta), product.out,
                                 c_dims);
    case DType::kUint32:
      return plain_gemm<uint32_t>(loops, static_cast<uint32_t>(alpha), static_cast<uint32_t>(beta),
                                  product.out, c_dims);
    case DType::kInt64:
      return plain_gemm<int64_t>(loops, static_cast<int64_t>(alpha), static_cast<int64_t>(beta), product.out,
                                 c_dims);
    default:
      return plain_gemm<uint64_t>(loops, static_cast<uint64_t>(alpha), static_cast<uint64_t>(beta),
                                  product.out, c_dims);
  }
}

}  // namespace

void add_gemm(Registry* registry) {
  constexpr Types kProducts = kFloats | Types{DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64};
  registry->add({.type = "MatMul", .prepare = with_halves(matmul), .types = kProducts});
  registry->add({.type = "Gemm",
                 .supports = [](const Node& node) -> std::string {
                   const float alpha = node.f("alpha", 1), beta = node.f("beta", 1);
                   const Value* a = node.in(0);
                   const bool whole = alpha == std::floor(alpha) && beta == std::floor(beta);
                   return a == nullptr || kFloats.has(a->type) || whole
                              ? ""
                              : "integers with a factor that is none";
                 },
                 .prepare = with_halves(gemm),
                 .types = kProducts});
  registry->add({.domain = "ephost",
                 .type = "MatMul",
                 .prepare = with_halves(matmul),
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16}});
}

}  // namespace ephost::cpu
