// Matrix products of 8-bit integers. Sums are exact; see int8.h.
#include <atomic>
#include <cstring>
#include <exception>

#include "cpu/engines/int8/int8.h"
#include "cpu/engines/strided.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

// ---- Matrices

// A stack of products [m, k] x [k, n].
struct Product {
  int64_t m = 1, n = 1, k = 1;
  std::vector<std::pair<int64_t, int64_t>> stacks;  // Where each finds its factors, counted in matrices.
  Dims out;
};

Product product_of(const Prepare& p, int a_input, int b_input, bool trans_b = false, bool trans_a = false) {
  Product product;
  Dims a = p.dims(a_input), b = p.dims(b_input);
  p.expect(!a.empty() && !b.empty(), "the inputs have at least one dimension");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (trans_a) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (trans_b) std::swap(b[b.size() - 1], b[b.size() - 2]);
  product.m = a[a.size() - 2];
  product.k = a.back();
  product.n = b.back();
  if (b[b.size() - 2] != product.k) {
    p.invalid("matrices of shapes " + to_string(p.dims(a_input)) + " and " + to_string(p.dims(b_input)) +
              " do not fit each other");
  }
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  a.insert(a.begin(), std::max(a.size(), b.size()) - a.size(), 1);
  b.insert(b.begin(), a.size() - b.size(), 1);
  Dims batch;
  for (size_t i = 0; i < a.size(); ++i) {
    p.expect(a[i] == b[i] || a[i] == 1 || b[i] == 1, "the stacks of matrices do not fit each other");
    batch.push_back(a[i] == 1 ? b[i] : a[i]);
  }
  product.out = batch;
  if (!row) product.out.push_back(product.m);
  if (!column) product.out.push_back(product.n);
  if (count(b) == 1) {
    product.m *= count(a);
    product.stacks = {{0, 0}};
    return product;
  }
  for (int64_t s = 0; s < count(batch); ++s) {
    int64_t rest = s, at_a = 0, at_b = 0, a_step = 1, b_step = 1;
    for (size_t i = batch.size(); i-- > 0; rest /= batch[i]) {
      at_a += a[i] == 1 ? 0 : rest % batch[i] * a_step;
      at_b += b[i] == 1 ? 0 : rest % batch[i] * b_step;
      a_step *= a[i];
      b_step *= b[i];
    }
    product.stacks.emplace_back(at_a, at_b);
  }
  return product;
}

std::shared_ptr<Panels> packed_panels(const TensorPtr& b, int64_t k, int64_t n, bool transposed) {
  return Prepare::packed<Panels>(b, transposed ? "int8 panels, transposed" : "int8 panels", [&] {
    if (b->data == nullptr && count(b->dims) != 0) {
      fail("a weight is gone before it was packed");
    }
    return std::make_shared<Panels>(make_panels(b->data, b->type, k, n, transposed));
  });
}

// Whether input `b` is a single constant matrix, which is then multiplied in panels whatever a is.
bool packs(const Node& node, size_t b) {
  const Value* value = node.in(b);
  return value != nullptr && value->constant != nullptr && value->constant->dims.size() == 2;
}

bool pack(const Node& node, size_t b) {
  if (!packs(node, b)) return false;
  const TensorPtr& constant = node.in(b)->constant;
  const bool transposed = node.type == "QGemm" && node.i("transB", 0) != 0;
  const int64_t rows = constant->dims[0], columns = constant->dims[1];
  packed_panels(constant, transposed ? columns : rows, transposed ? rows : columns, transposed);
  return true;
}

// The two factors of a product by the numbers of their inputs, -1 for zero points that are not there.
struct Factors {
  Product product;
  int a = 0, b = 1, a_zero = -1, b_zero = -1;
  DType a_type = DType::kUint8, b_type = DType::kInt8;
  int64_t a_zeros = 1, b_zeros = 1;
  bool trans_b = false;
  std::shared_ptr<Panels> panels;  // Of b, if that is a constant.
};

// Whether input i, a scale or zero points, has one number for each column of b, or one in all.
bool fits_columns(const Prepare& p, const Factors& f, int i) {
  const Dims &dims = p.dims(i), &b = p.dims(f.b);
  return is_single(p, i) || (f.product.stacks.size() == 1 && p.in(i).count() == f.product.n &&
                             (dims.size() == 1 || (dims.size() == b.size() && dims[dims.size() - 2] == 1)));
}

// Whether input i has one number for each row of a, or one in all.
bool fits_rows(const Prepare& p, const Factors& f, int i) {
  const Dims& dims = p.dims(i);
  return is_single(p, i) || (f.product.stacks.size() == 1 && p.in(i).count() == f.product.m &&
                             (dims.size() == 1 || (dims.size() == p.dims(f.a).size() && dims.back() == 1)));
}

// A transposed a is for the caller to write down as its rows.
Factors factors_of(Prepare& p, int a, int b, int a_zero, int b_zero, bool trans_b = false,
                   bool trans_a = false) {
  Factors f;
  f.product = product_of(p, a, b, trans_b, trans_a);
  f.a = a;
  f.b = b;
  f.a_zero = p.has(a_zero) ? a_zero : -1;
  f.b_zero = p.has(b_zero) ? b_zero : -1;
  f.b_type = p.type(b);
  f.trans_b = trans_b;
  if (f.a_zero >= 0) {
    f.a_zeros = p.in(f.a_zero).count();
    p.expect(fits_rows(p, f, f.a_zero), "there is not one zero point of a, or one for each row");
  }
  if (f.b_zero >= 0) {
    f.b_zeros = p.in(f.b_zero).count();
    p.expect(fits_columns(p, f, f.b_zero), "there is not one zero point of b, or one for each column");
  }
  if (const TensorPtr constant = p.constant(b); constant != nullptr && f.product.stacks.size() == 1) {
    f.panels = packed_panels(constant, f.product.k, f.product.n, trans_b);
  }
  p.method(f.panels == nullptr ? form_made_at_once() : f.panels->form);
  return f;
}

// Calls body(element, row, column, n, sums) for all parts of the product, to which a bias is added if it is
// not null; `element` is the place in the output. Where the output is `out`, the sums themselves, most are
// written there without a call.
template <typename Body>
void run_product(const Factors& f, const void* a, DType a_type, const void* a_zero, const int32_t* bias,
                 int32_t* out, const Args& args, const Body& body) {
  const Product& product = f.product;
  const Quantized& simd = ephost::cpu::simd().quantized;
  std::vector<int32_t> zeros(static_cast<size_t>(f.b_zeros));
  bool subtract = false;
  for (int64_t i = 0; i < f.b_zeros; ++i) {
    int32_t& zero = zeros[static_cast<size_t>(i)];
    zero = zero_of(f.b_type, f.b_zero < 0 ? nullptr : args.in<void>(f.b_zero), i) - shift_of(f.b_type);
    subtract = subtract || zero != 0;
  }
  const int step = f.b_zeros == 1 ? 0 : 1;
  const int a_step = f.a_zeros == 1 ? 0 : 1;
  const auto run_stack = [&](size_t s) {
    const auto [at_a, at_b] = product.stacks[s];
    Panels made;
    if (f.panels == nullptr) {
      made = make_panels(args.in<uint8_t>(f.b) + at_b * product.k * product.n, f.b_type, product.k, product.n,
                         f.trans_b, true);
    }
    const Panels& panels = f.panels == nullptr ? made : *f.panels;
    const Rows rows = make_rows(static_cast<const uint8_t*>(a) + at_a * product.m * product.k, a_type,
                                product.m, panels, a_zero, a_step, subtract);
    const auto point = [&](int64_t row) {
      return zero_of(a_type, a_zero, row) + row_shift(a_type, panels.wide);
    };
    // What the zero points of the rows add to the sums of the columns, which wrap.
    std::vector<int32_t> start(panels.sums.size());
    if (bias != nullptr) std::copy_n(bias, product.n, start.data());
    if (a_step == 0) {
      const int32_t zero = point(0);
      simd.subtract(start.data(), static_cast<int64_t>(start.size()), panels.sums.data(), 1, zero);
    }
    const int64_t begin = static_cast<int64_t>(s) * product.m * product.n;
    int32_t* const here = out == nullptr || a_step != 0 || subtract ? nullptr : out + begin;
    multiply(rows, panels, start.data(), here, [&](int64_t row, int64_t column, int64_t n, int32_t* sums) {
      if (a_step != 0) simd.subtract(sums, n, panels.sums.data() + column, 1, point(row));
      if (subtract) {
        simd.subtract(sums, n, zeros.data() + step * column, step, rows.sums[static_cast<size_t>(row)]);
      }
      body(begin + row * product.n + column, row, column, n, sums);
    });
  };
  // Each thread has stacks of its own, where there are enough for all to be busy, and else parts of each.
  const auto stacks = static_cast<int64_t>(product.stacks.size());
  const bool shared = stacks % max_threads() != 0 && stacks < 4 * max_threads();
  if (stacks == 1 || shared) {
    for (size_t s = 0; s < product.stacks.size(); ++s) run_stack(s);
    return;
  }
  std::atomic<bool> failed{false};  // Relaxed: the loop's end orders it.
  std::exception_ptr error;
  const int64_t work = product.m * product.n * product.k + product.k * product.n;
  parallel_for(stacks, std::max<int64_t>(1, 8 * kGrain / (work + 1)), [&](int64_t s, int64_t end) {
    try {
      for (; s < end; ++s) run_stack(static_cast<size_t>(s));
    } catch (...) {
      if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
    }
  });
  if (error != nullptr) std::rethrow_exception(error);
}

Kernel matmul_integer(Prepare& p) {
  const Factors f = factors_of(p, 0, 1, 2, 3);
  p.out(0, DType::kInt32, f.product.out);
  return [f, a_type = p.type(0)](const Args& args) {
    int32_t* out = args.out<int32_t>(0);
    run_product(f, args.in<void>(0), a_type, f.a_zero < 0 ? nullptr : args.in<void>(f.a_zero), nullptr, out,
                args, [&](int64_t element, int64_t, int64_t, int64_t n, const int32_t* sums) {
                  std::memcpy(out + element, sums, static_cast<size_t>(n) * sizeof(int32_t));
                });
  };
}

// a, scale, zero, b, scale, zero, scale of y, zero of y.
Kernel qlinear_matmul(Prepare& p) {
  const Factors f = factors_of(p, 0, 3, 2, 5);
  const DType to = p.type(7);
  const int64_t b_scales = p.in(4).count();
  p.expect(is_single(p, 1) && is_single(p, 6) && is_single(p, 7), "the scales of a and y are single ones");
  p.expect(fits_columns(p, f, 4), "there is not one scale of b, or one for each column");
  p.out(0, to, f.product.out);
  return [f, to, b_scales, a_type = p.type(0)](const Args& args) {
    const float a_scale = *args.in<float>(1), y_scale = *args.in<float>(6);
    const float* b_scale = args.in<float>(4);
    std::vector<float> scales(static_cast<size_t>(b_scales));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = a_scale * b_scale[i] / y_scale;
    const int zero = zero_of(to, args.in<void>(7)), step = b_scales == 1 ? 0 : 1;
    uint8_t* out = args.out<uint8_t>(0);
    run_product(f, args.in<void>(0), a_type, args.in<void>(2), nullptr, nullptr, args,
                [&](int64_t element, int64_t, int64_t column, int64_t n, int32_t* sums) {
                  simd().quantized.to_bytes(
                      sums, 0, 1, n, {scales.data() + step * column, step, zero, lowest(to), highest(to)},
                      out + element, 0);
                });
  };
}

// Writes a * b as float32: a's scale is one number.
void float_product(const Factors& f, const void* a, DType a_type, const void* a_zero, float a_scale,
                   const float* b_scale, int64_t b_scales, const float* bias, const Args& args) {
  float* out = args.out<float>(0);
  const int step = b_scales == 1 ? 0 : 1;
  run_product(f, a, a_type, a_zero, nullptr, nullptr, args,
              [&](int64_t element, int64_t, int64_t column, int64_t n, const int32_t* sums) {
                simd().quantized.to_float(sums, n, a_scale, b_scale + step * column, step,
                                          bias == nullptr ? nullptr : bias + column, out + element);
              });
}

void expect_float_factors(const Prepare& p, const Factors& f, int scale, int bias) {
  p.expect(fits_columns(p, f, scale), "there is not one scale of b, or one for each column");
  p.expect(!p.has(bias) || p.in(bias).count() == f.product.n, "the bias has not one element for each column");
}

// a, b, scale of a, scale of b, zero of a, zero of b, bias.
Kernel matmul_integer_to_float(Prepare& p) {
  const Factors f = factors_of(p, 0, 1, 4, 5);
  const int64_t b_scales = p.in(3).count();
  p.expect(p.in(2).count() == 1, "a has one scale");
  expect_float_factors(p, f, 3, 6);
  p.out(0, DType::kFloat, f.product.out);
  const bool biased = p.has(6);
  return [f, b_scales, biased, a_type = p.type(0)](const Args& args) {
    float_product(f, args.in<void>(0), a_type, f.a_zero < 0 ? nullptr : args.in<void>(f.a_zero),
                  *args.in<float>(2), args.in<float>(3), b_scales, biased ? args.in<float>(6) : nullptr,
                  args);
  };
}

// a as float32, b, scale of b, zero of b, bias.
Kernel dynamic_quantize_matmul(Prepare& p) {
  Factors f = factors_of(p, 0, 1, -1, 3);
  const int64_t b_scales = p.in(2).count(), n = p.in(0).count();
  expect_float_factors(p, f, 2, 4);
  p.out(0, DType::kFloat, f.product.out);
  p.scratch(static_cast<size_t>(n));
  const bool biased = p.has(4);
  return [f, b_scales, biased, n](const Args& args) {
    float scale = 1;
    uint8_t zero = 0;
    quantize_dynamically(args.in<float>(0), n, args.scratch<uint8_t>(), &scale, &zero);
    float_product(f, args.scratch<void>(), DType::kUint8, &zero, scale, args.in<float>(2), b_scales,
                  biased ? args.in<float>(4) : nullptr, args);
  };
}

// a, scale, zero, b, scale, zero, bias as int32, scale of y, zero of y; float32 without the last two.
Kernel qgemm(Prepare& p) {
  p.expect(p.dims(0).size() == 2 && p.dims(3).size() == 2, "a and b are matrices");
  const float alpha = p.node.f("alpha", 1);
  const bool transposed = p.node.i("transA", 0) != 0;
  const Factors f = factors_of(p, 0, 3, 2, 5, p.node.i("transB", 0) != 0, transposed);
  const int64_t b_scales = p.in(4).count();
  const bool biased = p.has(6), quantized = p.has(7) && p.has(8);
  const Dims bias_dims = biased ? p.dims(6) : Dims{};
  const int64_t n = f.product.n, bias_columns = bias_dims.empty() ? 1 : bias_dims.back(),
                bias_rows = biased ? p.in(6).count() / std::max<int64_t>(1, bias_columns) : 1;
  p.expect(p.dims(4).size() <= 1 && (f.b_zero < 0 || (p.dims(5).size() <= 1 && f.b_zeros == b_scales)),
           "b has not as many zero points as scales");
  p.expect(is_single(p, 1) && (b_scales == 1 || b_scales == n) && bias_dims.size() <= 2 &&
               (bias_columns == n || bias_columns == 1) &&
               (bias_rows == 1 || bias_rows == f.product.out.front()),
           "scales or bias do not fit the matrices");
  // One for each column is where sums begin; another is added to them.
  const bool whole = biased && bias_rows == 1 && bias_columns == n, spread = biased && !whole;
  const DType to = quantized ? p.type(8) : DType::kFloat;
  p.out(0, to, f.product.out);
  StridedCopy transpose;
  if (transposed) {
    transpose = {1, {f.product.m, f.product.k}, {1, f.product.m}, {f.product.k, 1}};
    p.scratch(static_cast<size_t>(p.in(0).count()));
  }
  return [=, a_type = p.type(0)](const Args& args) {
    const void* a = args.in<void>(0);
    if (transposed) {
      transpose(a, args.scratch<void>());
      a = args.scratch<void>();
    }
    const float a_scale = *args.in<float>(1), y_scale = quantized ? *args.in<float>(7) : 1;
    std::vector<float> scales(static_cast<size_t>(b_scales));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = alpha * a_scale * args.in<float>(4)[i] / y_scale;
    const int zero = quantized ? zero_of(to, args.in<void>(8)) : 0, step = b_scales == 1 ? 0 : 1;
    const int32_t* bias = biased ? args.in<int32_t>(6) : nullptr;
    run_product(
        f, a, a_type, args.in<void>(2), whole ? bias : nullptr, nullptr, args,
        [&](int64_t element, int64_t, int64_t column, int64_t count, int32_t* sums) {
          for (int64_t i = 0; i < count && spread; ++i) {
            const int64_t row = bias_rows == 1 ? 0 : element / n, at = bias_columns == 1 ? 0 : column + i;
            sums[i] = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) +
                                           static_cast<uint32_t>(bias[row * bias_columns + at]));
          }
          if (quantized) {
            simd().quantized.to_bytes(sums, 0, 1, count,
                                      {scales.data() + step * column, step, zero, lowest(to), highest(to)},
                                      args.out<uint8_t>(0) + element, 0);
          } else {
            simd().quantized.to_float(sums, count, 1, scales.data() + step * column, step, nullptr,
                                      args.out<float>(0) + element);
          }
        });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  const auto add = [&](const char* domain, const char* type, std::function<Kernel(Prepare&)> prepare,
                       size_t b, std::vector<size_t> single = {}) {
    registry->add({.domain = domain,
                   .type = type,
                   .supports = [single](const Node& node) { return not_single(node, single); },
                   .prepare = std::move(prepare),
                   .packs = [b](const Node& node, size_t i) { return i == b && packs(node, b); },
                   .pack = [b](const Node& node) { return pack(node, b); },
                   .types = kBytesAndSums});
  };
  add("", "MatMulInteger", matmul_integer, 1);
  add("", "QLinearMatMul", qlinear_matmul, 3, {1, 2, 6, 7});
  add("com.microsoft", "MatMulIntegerToFloat", matmul_integer_to_float, 1, {2, 4});
  add("com.microsoft", "DynamicQuantizeMatMul", dynamic_quantize_matmul, 1);
  add("com.microsoft", "QGemm", qgemm, 3, {1, 2});
});

}  // namespace ephost::cpu
