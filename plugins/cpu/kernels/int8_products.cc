// Matrix products and convolutions of 8-bit integers. Sums are exact; see int8.h.
#include <cstring>

#include "int8.h"
#include "kernels.h"
#include "window.h"

namespace ephost::cpu {
namespace {

// ---- Matrices

// A stack of products [m, k] x [k, n].
struct Product {
  int64_t m = 1, n = 1, k = 1;
  std::vector<std::pair<int64_t, int64_t>> stacks;  // Where each finds its factors, counted in matrices.
  Dims out;
};

Product product_of(const Prepare& p, int a_input, int b_input, bool trans_b = false) {
  Product product;
  Dims a = p.dims(a_input), b = p.dims(b_input);
  p.expect(!a.empty() && !b.empty(), "the inputs have at least one dimension");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
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

// The two factors of a product by the numbers of their inputs, -1 for zero points that are not there.
struct Factors {
  Product product;
  int a = 0, b = 1, a_zero = -1, b_zero = -1;
  DType a_type = DType::kUint8, b_type = DType::kInt8;
  int64_t a_zeros = 1, b_zeros = 1;
  bool trans_b = false;
  std::shared_ptr<Panels> panels;  // Of b, if that is a constant.
};

Factors factors_of(Prepare& p, int a, int b, int a_zero, int b_zero, bool trans_b = false) {
  Factors f;
  f.product = product_of(p, a, b, trans_b);
  f.a = a;
  f.b = b;
  f.a_zero = a_zero < p.inputs() && a_zero >= 0 && p.has(a_zero) ? a_zero : -1;
  f.b_zero = b_zero < p.inputs() && b_zero >= 0 && p.has(b_zero) ? b_zero : -1;
  f.b_type = p.type(b);
  f.trans_b = trans_b;
  if (f.a_zero >= 0) {
    f.a_zeros = p.in(f.a_zero).count();
    p.expect(f.a_zeros == 1 || (f.product.stacks.size() == 1 && f.a_zeros == f.product.m),
             "there is not one zero point of a, or one for each row");
  }
  if (f.b_zero >= 0) {
    f.b_zeros = p.in(f.b_zero).count();
    p.expect(f.b_zeros == 1 || (f.product.stacks.size() == 1 && f.b_zeros == f.product.n),
             "there is not one zero point of b, or one for each column");
  }
  if (const TensorPtr constant = p.constant(b); constant != nullptr && f.product.stacks.size() == 1) {
    f.panels = Prepare::packed<Panels>(constant, trans_b ? "int8 panels, transposed" : "int8 panels", [&] {
      return std::make_shared<Panels>(
          make_panels(constant->data, f.b_type, f.product.k, f.product.n, trans_b));
    });
  }
  return f;
}

// Calls body(element, row, column, n, sums) for all parts of the product; `element` is the place in the
// output.
template <typename Body>
void run_product(const Factors& f, const void* a, DType a_type, const void* a_zero, const Args& args,
                 const Body& body) {
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
  for (size_t s = 0; s < product.stacks.size(); ++s) {
    const auto [at_a, at_b] = product.stacks[s];
    const Rows rows = make_rows(static_cast<const uint8_t*>(a) + at_a * product.m * product.k, a_type,
                                product.m, product.k, a_zero, f.a_zeros == 1 ? 0 : 1);
    Panels made;
    if (f.panels == nullptr) {
      made = make_panels(args.in<uint8_t>(f.b) + at_b * product.k * product.n, f.b_type, product.k, product.n,
                         f.trans_b);
    }
    const int64_t begin = static_cast<int64_t>(s) * product.m * product.n;
    multiply(rows, f.panels == nullptr ? made : *f.panels,
             [&](int64_t row, int64_t column, int64_t n, int32_t* sums) {
               if (subtract) {
                 simd.subtract(sums, n, zeros.data() + step * column, step,
                               rows.sums[static_cast<size_t>(row)]);
               }
               body(begin + row * product.n + column, row, column, n, sums);
             });
  }
}

Kernel matmul_integer(Prepare& p) {
  const Factors f = factors_of(p, 0, 1, 2, 3);
  p.out(0, DType::kInt32, f.product.out);
  return [f, a_type = p.type(0)](const Args& args) {
    int32_t* out = args.out<int32_t>(0);
    run_product(f, args.in<void>(0), a_type, f.a_zero < 0 ? nullptr : args.in<void>(f.a_zero), args,
                [&](int64_t element, int64_t, int64_t, int64_t n, const int32_t* sums) {
                  std::memcpy(out + element, sums, static_cast<size_t>(n) * sizeof(int32_t));
                });
  };
}

// a, scale, zero, b, scale, zero, scale of y, zero of y.
Kernel qlinear_matmul(Prepare& p) {
  const Factors f = factors_of(p, 0, 3, 2, 5);
  const DType to = p.type(7);
  const int64_t b_scales = p.in(4).count();
  p.expect(p.in(1).count() == 1 && p.in(6).count() == 1 && p.in(7).count() == 1,
           "the scales of a and y are single ones");
  p.expect(b_scales == 1 || (f.product.stacks.size() == 1 && b_scales == f.product.n),
           "there is not one scale of b, or one for each column");
  p.out(0, to, f.product.out);
  return [f, to, b_scales, a_type = p.type(0)](const Args& args) {
    const float a_scale = *args.in<float>(1), y_scale = *args.in<float>(6);
    const float* b_scale = args.in<float>(4);
    std::vector<float> scales(static_cast<size_t>(b_scales));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = a_scale * b_scale[i] / y_scale;
    const int zero = zero_of(to, args.in<void>(7)), step = b_scales == 1 ? 0 : 1;
    uint8_t* out = args.out<uint8_t>(0);
    run_product(f, args.in<void>(0), a_type, args.in<void>(2), args,
                [&](int64_t element, int64_t, int64_t column, int64_t n, int32_t* sums) {
                  simd().quantized.to_int8(sums, n, scales.data() + step * column, step, zero, lowest(to),
                                           highest(to), out + element);
                });
  };
}

// Writes a * b as float32: a's scale is one number.
void float_product(const Factors& f, const void* a, DType a_type, const void* a_zero, float a_scale,
                   const float* b_scale, int64_t b_scales, const float* bias, const Args& args) {
  float* out = args.out<float>(0);
  const int step = b_scales == 1 ? 0 : 1;
  run_product(f, a, a_type, a_zero, args,
              [&](int64_t element, int64_t, int64_t column, int64_t n, const int32_t* sums) {
                simd().quantized.to_float(sums, n, a_scale, b_scale + step * column, step,
                                          bias == nullptr ? nullptr : bias + column, out + element);
              });
}

void expect_float_factors(const Prepare& p, const Factors& f, int64_t b_scales, int bias) {
  p.expect(b_scales == 1 || (f.product.stacks.size() == 1 && b_scales == f.product.n),
           "there is not one scale of b, or one for each column");
  p.expect(bias >= p.inputs() || !p.has(bias) || p.in(bias).count() == f.product.n,
           "the bias has not one element for each column");
}

// a, b, scale of a, scale of b, zero of a, zero of b, bias.
Kernel matmul_integer_to_float(Prepare& p) {
  const Factors f = factors_of(p, 0, 1, 4, 5);
  const int64_t b_scales = p.in(3).count();
  p.expect(p.in(2).count() == 1, "a has one scale");
  expect_float_factors(p, f, b_scales, 6);
  p.out(0, DType::kFloat, f.product.out);
  const bool biased = p.inputs() > 6 && p.has(6);
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
  expect_float_factors(p, f, b_scales, 4);
  p.out(0, DType::kFloat, f.product.out);
  p.scratch(static_cast<size_t>(n));
  const bool biased = p.inputs() > 4 && p.has(4);
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
  p.expect(p.node.i("transA", 0) == 0 && p.node.f("alpha", 1) == 1, "alpha is 1 and a is not transposed");
  const Factors f = factors_of(p, 0, 3, 2, 5, p.node.i("transB", 0) != 0);
  const int64_t b_scales = p.in(4).count();
  const bool biased = p.inputs() > 6 && p.has(6), quantized = p.inputs() > 8 && p.has(7) && p.has(8);
  p.expect(p.in(1).count() == 1 && (b_scales == 1 || b_scales == f.product.n) &&
               (!biased || p.in(6).count() == f.product.n),
           "scales or bias do not fit the matrices");
  const DType to = quantized ? p.type(8) : DType::kFloat;
  p.out(0, to, f.product.out);
  return [=, a_type = p.type(0)](const Args& args) {
    const float a_scale = *args.in<float>(1), y_scale = quantized ? *args.in<float>(7) : 1;
    std::vector<float> scales(static_cast<size_t>(b_scales));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = a_scale * args.in<float>(4)[i] / y_scale;
    const int zero = quantized ? zero_of(to, args.in<void>(8)) : 0, step = b_scales == 1 ? 0 : 1;
    const int32_t* bias = biased ? args.in<int32_t>(6) : nullptr;
    run_product(f, args.in<void>(0), a_type, args.in<void>(2), args,
                [&](int64_t element, int64_t, int64_t column, int64_t n, int32_t* sums) {
                  for (int64_t i = 0; bias != nullptr && i < n; ++i) sums[i] += bias[column + i];
                  if (quantized) {
                    simd().quantized.to_int8(sums, n, scales.data() + step * column, step, zero, lowest(to),
                                             highest(to), args.out<uint8_t>(0) + element);
                  } else {
                    simd().quantized.to_float(sums, n, 1, scales.data() + step * column, step, nullptr,
                                              args.out<float>(0) + element);
                  }
                });
  };
}

// ---- Convolutions: weights by rows, the input by panels of output positions

struct Convolution {
  Window window;
  Dims out;
  int64_t batch = 1, channels = 1, outputs = 1, groups = 1, k = 1;
  int64_t in_size = 1, out_size = 1;
  bool padded = false;
  Dims dims;                  // Spatial ones of the input as it is read, pads included.
  int64_t size = 1;           // Their product.
  std::vector<int32_t> base;  // Of each output position: where its window begins.
  std::vector<int32_t> taps;  // Of each k: where it is from there.
  int x = 0, w = 1, x_zero = -1, w_zero = -1;
  DType x_type = DType::kUint8, w_type = DType::kInt8;
  int64_t w_zeros = 1;
  std::shared_ptr<Rows> weights;  // If they are constant.
  int64_t together = 1;           // Panels that a task packs before it takes all channels over them.

  int64_t panels() const { return (out_size + kColumns - 1) / kColumns; }
  int64_t panel_bytes() const { return (k + 1) / 2 * 2 * kColumns; }
  // Scratch memory: the padded input, then what each thread packs.
  int64_t padded_bytes() const { return padded ? (batch * channels * size + 63) / 64 * 64 : 0; }
};

Convolution convolution_of(Prepare& p, int x, int w, int x_zero, int w_zero) {
  Convolution c;
  const Dims &from = p.dims(x), &weights = p.dims(w);
  c.groups = p.node.i("group", 1);
  p.expect(weights.size() >= 3 && from.size() == weights.size(),
           "input and weights have the same rank, at least 3");
  p.expect(c.groups > 0 && from[1] == weights[1] * c.groups && weights[0] % c.groups == 0,
           "the channels of input, weights and groups do not fit each other");
  c.window = window_of(p.node, from, Dims(weights.begin() + 2, weights.end()));
  const Window& win = c.window;
  c.batch = from[0];
  c.channels = from[1];
  c.outputs = weights[0];
  c.k = count(weights, 1, weights.size());
  c.in_size = count(win.in);
  c.out_size = count(win.out);
  c.out = {c.batch, c.outputs};
  c.out.insert(c.out.end(), win.out.begin(), win.out.end());
  const size_t rank = win.rank();
  for (size_t i = 0; i < rank; ++i) {
    c.dims.push_back((win.out[i] - 1) * win.strides[i] + win.span(i));
    c.padded = c.padded || win.begin[i] != 0 || c.dims[i] > win.in[i];
  }
  if (!c.padded) c.dims = win.in;
  c.size = count(c.dims);
  const int64_t group_channels = weights[1], taps = count(win.kernel);
  p.expect(c.size * group_channels < (int64_t{1} << 31), "the input is too large");
  for (int64_t i = 0; i < c.out_size; ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (size_t d = rank; d-- > 0; rest /= win.out[d]) {
      at += rest % win.out[d] * win.strides[d] * step;
      step *= c.dims[d];
    }
    c.base.push_back(static_cast<int32_t>(at));
  }
  for (int64_t i = 0; i < c.k; ++i) {
    int64_t rest = i % taps, at = i / taps * c.size, step = 1;
    for (size_t d = rank; d-- > 0; rest /= win.kernel[d]) {
      at += rest % win.kernel[d] * win.dilations[d] * step;
      step *= c.dims[d];
    }
    c.taps.push_back(static_cast<int32_t>(at));
  }
  c.x = x;
  c.w = w;
  c.x_zero = x_zero < p.inputs() && p.has(x_zero) ? x_zero : -1;
  c.w_zero = w_zero < p.inputs() && p.has(w_zero) ? w_zero : -1;
  c.x_type = p.type(x);
  c.w_type = p.type(w);
  p.expect(c.x_zero < 0 || p.in(c.x_zero).count() == 1, "the input has one zero point");
  std::string key = "int8 rows";
  bool constant = p.constant(w) != nullptr;
  const void* zero = nullptr;
  if (c.w_zero >= 0) {
    c.w_zeros = p.in(c.w_zero).count();
    p.expect(c.w_zeros == 1 || c.w_zeros == c.outputs,
             "there is not one zero point of the weights, or one for each channel");
    constant = constant && p.constant(c.w_zero) != nullptr;
    if (constant) {
      zero = p.constant(c.w_zero)->data;
      key.append(static_cast<const char*>(zero), static_cast<size_t>(c.w_zeros));
    }
  }
  if (constant) {
    const TensorPtr tensor = p.constant(w);
    c.weights = Prepare::packed<Rows>(tensor, key, [&] {
      return std::make_shared<Rows>(
          make_rows(tensor->data, c.w_type, c.outputs, c.k, zero, c.w_zeros == 1 ? 0 : 1));
    });
  }
  c.together = std::clamp<int64_t>((128 << 10) / c.panel_bytes(), 1, std::max<int64_t>(1, c.panels() / 4));
  p.scratch(static_cast<size_t>(c.padded_bytes() + p.threads() * c.together * c.panel_bytes()));
  return c;
}

// Copies planes into larger ones, with the zero point around them.
void pad(const Convolution& c, const uint8_t* x, uint8_t zero, uint8_t* out) {
  const size_t rank = c.dims.size();
  const int64_t length = c.dims[rank - 1], rows = c.size / std::max<int64_t>(1, length);
  const int64_t before = c.window.begin[rank - 1], in_length = c.window.in[rank - 1];
  const int64_t copied = std::clamp<int64_t>(length - before, 0, in_length);
  parallel_for(
      c.batch * c.channels, std::max<int64_t>(1, kGrain / (c.size + 1)), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          for (int64_t r = 0; r < rows; ++r) {
            uint8_t* row = out + i * c.size + r * length;
            int64_t rest = r, from = 0, step = 1;
            bool inside = true;
            for (size_t d = rank - 1; d-- > 0; rest /= c.dims[d]) {
              const int64_t at = rest % c.dims[d] - c.window.begin[d];
              inside = inside && at >= 0 && at < c.window.in[d];
              from += at * step;
              step *= c.window.in[d];
            }
            if (!inside) {
              std::memset(row, zero, static_cast<size_t>(length));
              continue;
            }
            std::memset(row, zero, static_cast<size_t>(std::min(before, length)));
            std::memcpy(row + before, x + i * c.in_size + from * in_length, static_cast<size_t>(copied));
            std::memset(row + before + copied, zero, static_cast<size_t>(length - before - copied));
          }
        }
      });
}

// Calls body(element, channel, n, sums) for all parts of the output.
template <typename Body>
void run_convolution(const Convolution& c, const Args& args, const Body& body) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  const void* x_zero = c.x_zero < 0 ? nullptr : args.in<void>(c.x_zero);
  const int zero = zero_of(c.x_type, x_zero);
  const uint8_t* x = args.in<uint8_t>(c.x);
  if (c.padded) {
    pad(c, x, static_cast<uint8_t>(zero), args.scratch<uint8_t>());
    x = args.scratch<uint8_t>();
  }
  Rows made;
  if (c.weights == nullptr) {
    made = make_rows(args.in<void>(c.w), c.w_type, c.outputs, c.k,
                     c.w_zero < 0 ? nullptr : args.in<void>(c.w_zero), c.w_zeros == 1 ? 0 : 1);
  }
  const Rows& weights = c.weights == nullptr ? made : *c.weights;
  const int32_t left = zero - shift_of(c.x_type);
  const uint8_t flip = static_cast<uint8_t>(shift_of(c.x_type));
  const int64_t pairs = (c.k + 1) / 2, panel_bytes = c.panel_bytes();
  const int64_t group_out = c.outputs / c.groups, group_in = c.channels / c.groups;
  const int64_t panels = c.panels(), together = c.together;
  int8_t* const buffers = args.scratch<int8_t>() + c.padded_bytes();
  const int64_t chunks = (panels + together - 1) / together;
  const int64_t work = together * kColumns * c.k * group_out;
  parallel_for(
      c.batch * c.groups * chunks, std::max<int64_t>(1, 8 * kGrain / (work + 1)),
      [&](int64_t i, int64_t end) {
        int8_t* packed = buffers + thread_rank() * together * panel_bytes;
        alignas(64) int32_t sums[kRows * kColumns];
        for (; i < end; ++i) {
          const int64_t chunk = i % chunks, group = i / chunks % c.groups, n = i / chunks / c.groups;
          const uint8_t* plane = x + (n * c.channels + group * group_in) * c.size;
          const int64_t first = chunk * together, last = std::min(panels, first + together);
          for (int64_t panel = first; panel < last; ++panel) {
            int8_t* to = packed + (panel - first) * panel_bytes;
            const int32_t* base = c.base.data() + panel * kColumns;
            const int64_t columns = std::min<int64_t>(kColumns, c.out_size - panel * kColumns);
            const bool straight = columns == kColumns && base[kColumns - 1] - base[0] == kColumns - 1;
            for (int64_t pair = 0; pair < pairs; ++pair) {
              const int64_t k = pair * 2;
              const int32_t tap0 = c.taps[static_cast<size_t>(k)];
              // What fills up the last pair is multiplied by zero.
              const int32_t tap1 = k + 1 < c.k ? c.taps[static_cast<size_t>(k) + 1] : tap0;
              if (straight) {
                simd.interleave(plane + base[0] + tap0, plane + base[0] + tap1, flip, to + k * kColumns);
                continue;
              }
              uint8_t rows[2][kColumns] = {};
              for (int64_t j = 0; j < columns; ++j) {
                rows[0][j] = plane[base[j] + tap0];
                rows[1][j] = plane[base[j] + tap1];
              }
              simd.interleave(rows[0], rows[1], flip, to + k * kColumns);
            }
          }
          for (int64_t row = 0; row < group_out; row += kRows) {
            const int rows = static_cast<int>(std::min<int64_t>(kRows, group_out - row));
            const int64_t channel = group * group_out + row;
            for (int64_t panel = first; panel < last; ++panel) {
              simd.product(weights.row(channel), weights.stride, rows, packed + (panel - first) * panel_bytes,
                           pairs, sums);
              const int64_t column = panel * kColumns,
                            columns = std::min<int64_t>(kColumns, c.out_size - column);
              for (int r = 0; r < rows; ++r) {
                if (left != 0) {
                  simd.subtract(sums + r * kColumns, columns, &left, 0,
                                weights.sums[static_cast<size_t>(channel + r)]);
                }
                body((n * c.outputs + channel + r) * c.out_size + column, channel + r, columns,
                     sums + r * kColumns);
              }
            }
          }
        }
      });
}

Kernel conv_integer(Prepare& p) {
  const Convolution c = convolution_of(p, 0, 1, 2, 3);
  p.out(0, DType::kInt32, c.out);
  return [c](const Args& args) {
    int32_t* out = args.out<int32_t>(0);
    run_convolution(c, args, [&](int64_t element, int64_t, int64_t n, const int32_t* sums) {
      std::memcpy(out + element, sums, static_cast<size_t>(n) * sizeof(int32_t));
    });
  };
}

// x, scale, zero, w, scale, zero, scale of y, zero of y, bias as int32.
Kernel qlinear_conv(Prepare& p) {
  p.expect(p.node.i("channels_last", 0) == 0, "channels come first");
  const Convolution c = convolution_of(p, 0, 3, 2, 5);
  const DType to = p.type(7);
  const int64_t w_scales = p.in(4).count();
  const bool biased = p.inputs() > 8 && p.has(8);
  p.expect(p.in(1).count() == 1 && p.in(6).count() == 1 && p.in(7).count() == 1 &&
               (w_scales == 1 || w_scales == c.outputs) && (!biased || p.in(8).count() == c.outputs),
           "scales or bias do not fit the channels");
  p.out(0, to, c.out);
  return [c, to, w_scales, biased](const Args& args) {
    const float x_scale = *args.in<float>(1), y_scale = *args.in<float>(6);
    std::vector<float> scales(static_cast<size_t>(w_scales));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = x_scale * args.in<float>(4)[i] / y_scale;
    const int zero = zero_of(to, args.in<void>(7));
    const int32_t* bias = biased ? args.in<int32_t>(8) : nullptr;
    uint8_t* out = args.out<uint8_t>(0);
    run_convolution(c, args, [&](int64_t element, int64_t channel, int64_t n, int32_t* sums) {
      if (bias != nullptr) {
        for (int64_t i = 0; i < n; ++i) sums[i] += bias[channel];
      }
      simd().quantized.to_int8(sums, n, scales.data() + (w_scales == 1 ? 0 : channel), 0, zero, lowest(to),
                               highest(to), out + element);
    });
  };
}

// Scales and zero points of a and y are single ones.
std::string single_scales(const Node& node, std::initializer_list<size_t> inputs) {
  for (size_t i : inputs) {
    const Value* value = node.in(i);
    if (value != nullptr && value->has_shape && !value->is_scalar()) {
      return "input " + std::to_string(i) + " is not a single number";
    }
  }
  return "";
}

}  // namespace

void add_int8_products(Registry* registry) {
  constexpr Types kTypes = kBytes | Types{DType::kFloat, DType::kInt32};
  const auto add = [&](const char* domain, const char* type, std::function<Kernel(Prepare&)> prepare,
                       std::vector<size_t> single = {}) {
    registry->add({.domain = domain,
                   .type = type,
                   .supports = [single](const Node& node) -> std::string {
                     for (size_t i : single) {
                       if (std::string why = single_scales(node, {i}); !why.empty()) return why;
                     }
                     return "";
                   },
                   .prepare = std::move(prepare),
                   .types = kTypes});
  };
  add("", "MatMulInteger", matmul_integer);
  add("", "QLinearMatMul", qlinear_matmul, {1, 2, 6, 7});
  add("", "ConvInteger", conv_integer, {2});
  add("", "QLinearConv", qlinear_conv, {1, 2, 6, 7});
  add("com.microsoft", "MatMulIntegerToFloat", matmul_integer_to_float, {2, 4});
  add("com.microsoft", "DynamicQuantizeMatMul", dynamic_quantize_matmul);
  add("com.microsoft", "QGemm", qgemm, {1, 2});
}

}  // namespace ephost::cpu
