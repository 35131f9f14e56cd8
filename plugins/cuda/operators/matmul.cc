#include <algorithm>

#include "cuda/blas.h"
#include "cuda/operators/checks.h"
#include "cuda/operators/epilogue.h"
#include "cuda/operators/geometry.h"

namespace ephost::cuda {

namespace {

struct Product {
  DType type = DType::kUndefined;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false; /* stored as [k][m], [n][k] */
  Dims batch;                                    /* outermost first */
  std::vector<int64_t> a_batch, b_batch;         /* strides, 0 where it is repeated */
  Place a, b, c, out;
  int64_t c_row = 0, c_column = 0;
  float alpha = 1, beta = 1;
};

void plan_product(Planner& planner, const Product& product) {
  const Product p = product;
  if (p.m == 0 || p.n == 0 || ephost::count(p.batch) == 0) {
    return;
  }
  /* Batches as few dimensions as they have different strides in. */
  std::vector<int64_t> sizes, of_a, of_b, of_out;
  int64_t out_stride = p.m * p.n;
  for (size_t d = p.batch.size(); d-- > 0;) {
    if (p.batch[d] != 1) {
      if (!sizes.empty() && p.a_batch[d] == of_a.back() * sizes.back() &&
          p.b_batch[d] == of_b.back() * sizes.back()) {
        sizes.back() *= p.batch[d];
      } else {
        sizes.push_back(p.batch[d]);
        of_a.push_back(p.a_batch[d]);
        of_b.push_back(p.b_batch[d]);
        of_out.push_back(out_stride);
      }
    }
    out_stride *= p.batch[d];
  }
  const int64_t batches = ephost::count(p.batch);
  /* A bias along the columns is part of cuBLASLt's product; another C is not. */
  const bool vector =
      p.c.kind != Place::kNone && p.c_row == 0 && p.c_column == 1 && p.beta == 1 && batches == 1;
  Blas* blas = p.c.kind == Place::kNone || vector ? planner.libraries().blas() : nullptr;
  if (blas != nullptr && sizes.size() <= 1 && p.k > 0) {
    Blas::Shape shape;
    shape.type = p.type;
    shape.m = p.m, shape.n = p.n, shape.k = p.k;
    shape.transpose_a = p.transpose_a, shape.transpose_b = p.transpose_b;
    shape.batches = batches;
    shape.a_stride = of_a.empty() ? 0 : of_a[0];
    shape.b_stride = of_b.empty() ? 0 : of_b[0];
    shape.bias = vector;
    shape.tf32 = planner.options().use_tf32;
    const std::shared_ptr<Blas::Product> made = blas->product(shape);
    if (made != nullptr) {
      const Place room = planner.scratch(made->workspace());
      planner.step([=](const Launch& launch) {
        made->run(launch.stream, launch.address(p.a), launch.address(p.b), launch.address(p.c),
                  launch.address(p.out), launch.address(room), p.alpha);
      });
      return;
    }
  }
  if (sizes.size() > kMaxRank || batches > 65535) {
    unsupported("batches of too many dimensions or matrices");
  }
  MatmulArguments args = {};
  args.m = narrow(p.m), args.n = narrow(p.n), args.k = narrow(p.k);
  args.a_row = p.transpose_a ? 1 : p.k, args.a_column = p.transpose_a ? p.m : 1;
  args.b_row = p.transpose_b ? 1 : p.n, args.b_column = p.transpose_b ? p.k : 1;
  args.c_row = p.c_row, args.c_column = p.c_column;
  args.batch_rank = static_cast<int32_t>(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    args.batch[d] = divider(static_cast<uint32_t>(sizes[d]));
    args.a_batch[d] = of_a[d];
    args.b_batch[d] = of_b[d];
  }
  args.alpha = p.alpha, args.beta = p.beta;
  const uint32_t columns = static_cast<uint32_t>((p.n + 63) / 64),
                 rows = static_cast<uint32_t>((p.m + 63) / 64);
  if (rows > 65535) {
    unsupported("a matrix of too many rows");
  }
  const CUfunction function = planner.kernel(std::string("matmul_") + suffix(p.type));
  planner.step([=](const Launch& launch) {
    MatmulArguments now = args;
    now.a = launch.address(p.a);
    now.b = launch.address(p.b);
    now.c = launch.address(p.c);
    now.out = launch.address(p.out);
    launch.kernel(function, {columns, rows, static_cast<uint32_t>(batches)}, {256, 1, 1}, &now);
  });
}

void plan_matmul(Planner& planner, const Node& node) {
  Dims a = planner.dims(node.in(0)), b = planner.dims(node.in(1));
  if (a.empty() || b.empty()) {
    invalid("a product of a scalar");
  }
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  Product product;
  product.type = planner.type(node.in(0));
  product.transpose_a = node.i("transA", 0) != 0; /* of "ephost.MatMul" */
  product.transpose_b = node.i("transB", 0) != 0;
  if (product.transpose_a) std::swap(a[a.size() - 2], a.back());
  if (product.transpose_b) std::swap(b[b.size() - 2], b.back());
  product.m = a[a.size() - 2], product.k = a.back(), product.n = b.back();
  if (b[b.size() - 2] != product.k) {
    invalid("shapes " + to_string(planner.dims(node.in(0))) + " and " + to_string(planner.dims(node.in(1))) +
            " cannot be multiplied");
  }
  const Dims of_a(a.begin(), a.end() - 2), of_b(b.begin(), b.end() - 2);
  product.batch = broadcast(of_a, of_b);
  Dims out = product.batch;
  if (!row) out.push_back(product.m);
  if (!column) out.push_back(product.n);
  const auto strides = [&](const Dims& own, int64_t matrix) {
    std::vector<int64_t> list(product.batch.size(), 0);
    for (size_t d = own.size(); d-- > 0;) {
      list[product.batch.size() - own.size() + d] = own[d] == 1 ? 0 : matrix;
      matrix *= own[d];
    }
    return list;
  };
  product.a_batch = strides(of_a, product.m * product.k);
  product.b_batch = strides(of_b, product.k * product.n);
  if (ephost::count(of_b) == 1 && !of_a.empty() &&
      !product.transpose_a) { /* one matrix for all: rows of one large product */
    product.m *= ephost::count(of_a);
    product.batch.clear();
    product.a_batch.clear();
    product.b_batch.clear();
  }
  product.a = planner.read(node.in(0));
  product.b = planner.read(node.in(1));
  if (node.in(2) != nullptr) { /* of "ephost.MatMul": for each column */
    product.c = planner.read(node.in(2));
    product.c_column = 1;
  }
  const Value* target = before_posts(planner, node);
  product.out = planner.write(target, out);
  plan_product(planner, product);
  plan_posts(planner, node, target, 3);
}

void plan_gemm(Planner& planner, const Node& node) {
  const Dims a = planner.dims(node.in(0)), b = planner.dims(node.in(1));
  Product product;
  product.type = planner.type(node.in(0));
  product.transpose_a = node.i("transA", 0) != 0;
  product.transpose_b = node.i("transB", 0) != 0;
  if (a.size() != 2 || b.size() != 2) {
    invalid("operands that are no matrices");
  }
  product.m = a[product.transpose_a ? 1 : 0], product.k = a[product.transpose_a ? 0 : 1];
  product.n = b[product.transpose_b ? 0 : 1];
  if (b[product.transpose_b ? 1 : 0] != product.k) {
    invalid("shapes " + to_string(a) + " and " + to_string(b) + " cannot be multiplied");
  }
  product.alpha = node.f("alpha", 1);
  product.beta = node.f("beta", 1);
  const Value* c = node.in(2);
  if (c != nullptr && product.beta != 0) {
    Dims shape = planner.dims(c);
    shape.insert(shape.begin(), 2 - std::min<size_t>(shape.size(), 2), 1);
    if (broadcast(shape, {product.m, product.n}) != Dims{product.m, product.n}) {
      invalid("a C that does not fit");
    }
    product.c = planner.read(c);
    product.c_row = shape[0] == 1 ? 0 : shape[1];
    product.c_column = shape[1] == 1 ? 0 : 1;
  }
  product.a = planner.read(node.in(0));
  product.b = planner.read(node.in(1));
  product.out = planner.write(node.out(), {product.m, product.n});
  plan_product(planner, product);
}

const Registered kRegistered({
    {.type = "MatMul", .supports = two_reals, .plan = plan_matmul},
    {.domain = "ephost", .type = "MatMul", .supports = two_reals, .plan = plan_matmul},
    {.type = "Gemm", .since = 7, .supports = arithmetic, .plan = plan_gemm},
});

}  // namespace

}  // namespace ephost::cuda
