// QuantizeLinear and DequantizeLinear by tensor, axis or block; DynamicQuantizeLinear; and com.microsoft's
// elementwise operators on bytes, by tables.
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/engines/as_float.h"
#include "cpu/engines/int8/int8.h"
#include "cpu/engines/tiles.h"
#include "cpu/operator.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

constexpr Types kHalves{DType::kFloat16, DType::kBFloat16};
constexpr Types kReals = kHalves | Types{DType::kFloat};
constexpr Types kSmall{DType::kUint8, DType::kInt8, DType::kUint16, DType::kInt16};

constexpr int64_t kChunk = 4096;  // Elements at a time.

// Where elements find their scale: the tensor is taken as rows of `length` elements, of which number i has
// the scale first[row] + i * step.
struct Scales {
  int64_t rows = 1, length = 1, step = 0;
  std::vector<int64_t> first;
};

// In which layout elements are taken in turn: any one that keeps them without filling where they have one
// scale.
Layout layout_of(Prepare& p) {
  const bool single = p.in(1).count() == 1 && p.node.i("block_size", 0) == 0;
  const Layout have = p.in(0).layout;
  const Layout layout = !single ? Layout::kPlain : block_of(have) == 1 ? have : Layout::kChannelsLast;
  p.require(0, layout);
  return layout;
}

Scales scales_of(const Prepare& p) {
  const Dims &dims = p.dims(0), &scale = p.dims(1);
  Scales out;
  out.length = count(dims);
  const int64_t block = p.node.i("block_size", 0);
  if (is_single(p, 1) && block == 0) {
    out.first = {0};
    return out;
  }
  const size_t axis = p.axis(p.node.i("axis", 1), dims.size());
  const int64_t inner = count(dims, axis + 1, dims.size()), outer = count(dims, 0, axis), n = dims[axis];
  if (block == 0) {
    p.expect(scale.size() == 1 && scale[0] == n, "there is not one scale for each index of the axis");
    if (inner == 1) {
      out.rows = outer;
      out.length = n;
      out.step = 1;
      out.first.assign(static_cast<size_t>(outer), 0);
    } else {
      out.rows = outer * n;
      out.length = inner;
      for (int64_t r = 0; r < out.rows; ++r) out.first.push_back(r % n);
    }
    return out;
  }
  Dims expected = dims;
  expected[axis] = n / block + (n % block != 0);  // A block may be of any size.
  p.expect(scale == expected, "there is not one scale for each block");
  if (inner == 1) {
    // Rows of one block each do not fit a shorter last block: one element at a time then.
    const bool even = n % block == 0;
    out.length = even ? block : 1;
    out.rows = outer * n / out.length;
    for (int64_t r = 0; r < out.rows; ++r) {
      const int64_t at = r * out.length;
      out.first.push_back(at / n * expected[axis] + at % n / block);
    }
    return out;
  }
  out.rows = outer * n;
  out.length = inner;
  out.step = 1;
  for (int64_t r = 0; r < out.rows; ++r) {
    out.first.push_back((r / n * expected[axis] + r % n / block) * inner);
  }
  return out;
}

// Whether the zero points are laid out as the scales are: one number may have one dimension or none.
bool fits_scale(const Prepare& p) { return p.dims(1) == p.dims(2) || (is_single(p, 1) && is_single(p, 2)); }

template <typename Function>
void with_quantized(DType type, const Function& function) {
  with_one_of<int8_t, uint8_t, int16_t, uint16_t, int32_t>(type, function);
}

std::string quantize_supports(const Node& node) {
  const Value *x = node.in(0), *y = node.out(0), *scale = node.in(1);
  if (x != nullptr && x->type != DType::kUndefined && !kReals.has(x->type) && x->type != DType::kInt32) {
    return "inputs of type " + std::string(name_of(x->type));
  }
  if (y != nullptr && y->type != DType::kUndefined && !kSmall.has(y->type)) {
    return "outputs of type " + std::string(name_of(y->type));
  }
  if (scale != nullptr && scale->type != DType::kUndefined && !kReals.has(scale->type)) {
    return "scales of type " + std::string(name_of(scale->type));
  }
  if (node.i("precision", 0) > 1) {
    return "a precision other than float32";
  }
  return "";
}

// The scales as float32, converted if they are stored in 16 bits.
class ScaleValues {
 public:
  ScaleValues(DType type, const void* data, int64_t n) {
    if (type == DType::kFloat) {
      values_ = static_cast<const float*>(data);
      return;
    }
    own_.resize(static_cast<size_t>(n));
    to_float(type, data, own_.data(), n);
    values_ = own_.data();
  }
  const float* get() const { return values_; }

 private:
  std::vector<float> own_;
  const float* values_ = nullptr;
};

Kernel quantize(Prepare& p) {
  const DType from = p.type(0), scale_type = p.type(1);
  const bool has_zero = p.has(2);
  DType to = has_zero ? p.type(2) : static_cast<DType>(p.node.i("output_dtype", 0));
  if (to == DType::kUndefined) to = DType::kUint8;
  p.expect(kSmall.has(to), "the output type is not one of 8 or 16 bits");
  p.expect(!has_zero || fits_scale(p), "there is not one zero point for each scale");
  p.out(0, to, p.dims(0), layout_of(p));
  const Scales scales = scales_of(p);
  const int64_t all_scales = p.in(1).count();
  return [=](const Args& args) {
    const ScaleValues scale(scale_type, args.in<void>(1), all_scales);
    const Quantized& simd = ephost::cpu::simd().quantized;
    with_quantized(to, [&](auto zero_value) {
      using T = decltype(zero_value);
      const T* zeros = has_zero ? args.in<T>(2) : nullptr;
      T* out = args.out<T>(0);
      constexpr int kLow = std::numeric_limits<T>::lowest(), kHigh = std::numeric_limits<T>::max();
      const int64_t chunk = std::min(scales.length, kChunk),
                    chunks = (scales.length + chunk - 1) / std::max<int64_t>(1, chunk);
      parallel_for(
          scales.rows * chunks, std::max<int64_t>(1, kGrain / (chunk + 1)), [&](int64_t r, int64_t end) {
            std::vector<float> converted;
            for (; r < end; ++r) {
              const int64_t row = r / chunks, begin = r % chunks * chunk;
              const int64_t n = std::min(chunk, scales.length - begin), at = row * scales.length + begin;
              const float* x = args.in<float>(0) + at;
              if (from != DType::kFloat) {
                converted.resize(static_cast<size_t>(n));
                if (from == DType::kInt32) {
                  for (int64_t i = 0; i < n; ++i)
                    converted[static_cast<size_t>(i)] = static_cast<float>(args.in<int32_t>(0)[at + i]);
                } else {
                  to_float(from, args.in<uint16_t>(0) + at, converted.data(), n);
                }
                x = converted.data();
              }
              const int64_t first = scales.first[static_cast<size_t>(row)];
              if constexpr (sizeof(T) == 1) {
                if (scales.step == 0) {
                  simd.quantize(x, n, scale.get()[first], zeros == nullptr ? 0 : zeros[first], kLow, kHigh,
                                reinterpret_cast<uint8_t*>(out) + at);
                  continue;
                }
              }
              const bool each = scales.step != 0;
              const int64_t s = first + (each ? begin : 0);
              quantizer(to)(x, n, scale.get() + s, zeros == nullptr ? nullptr : zeros + s, each, out + at);
            }
          });
    });
  };
}

std::string dequantize_supports(const Node& node) {
  const Value *x = node.in(0), *y = node.out(0);
  if (x != nullptr && x->type != DType::kUndefined && !kSmall.has(x->type) && x->type != DType::kInt32) {
    return "inputs of type " + std::string(name_of(x->type));
  }
  if (y != nullptr && y->type != DType::kUndefined && !kReals.has(y->type)) {
    return "outputs of type " + std::string(name_of(y->type));
  }
  return "";
}

Kernel dequantize(Prepare& p) {
  const DType from = p.type(0), scale_type = p.type(1);
  const bool has_zero = p.has(2);
  const int64_t wanted = p.node.i("output_dtype", 0);
  const DType to = wanted != 0 ? static_cast<DType>(wanted) : scale_type;
  p.expect(kReals.has(to), "the output type is not a float of 16 or 32 bits");
  p.expect(!has_zero || (p.type(2) == from && fits_scale(p)),
           "zero points do not fit the scales or the input");
  p.out(0, to, p.dims(0), layout_of(p));
  const Scales scales = scales_of(p);
  const int64_t all_scales = p.in(1).count();
  return [=](const Args& args) {
    const ScaleValues scale(scale_type, args.in<void>(1), all_scales);
    with_quantized(from, [&](auto zero_value) {
      using T = decltype(zero_value);
      using Wide = std::conditional_t<sizeof(T) < sizeof(int32_t), int32_t, int64_t>;  // For a difference.
      const T *x = args.in<T>(0), *zeros = has_zero ? args.in<T>(2) : nullptr;
      const int64_t chunk = std::min(scales.length, kChunk),
                    chunks = (scales.length + chunk - 1) / std::max<int64_t>(1, chunk);
      parallel_for(
          scales.rows * chunks, std::max<int64_t>(1, kGrain / (chunk + 1)), [&](int64_t r, int64_t end) {
            float converted[kChunk];
            for (; r < end; ++r) {
              const int64_t row = r / chunks, begin = r % chunks * chunk;
              const int64_t n = std::min(chunk, scales.length - begin), at = row * scales.length + begin;
              float* y = to == DType::kFloat ? args.out<float>(0) + at : converted;
              const int64_t first = scales.first[static_cast<size_t>(row)];
              if (scales.step == 0) {
                const float one = scale.get()[first];
                const Wide zero = zeros == nullptr ? 0 : static_cast<Wide>(zeros[first]);
                if (zero == 0) {  // No number needs more digits than it has then.
                  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[at + i]) * one;
                }
                for (int64_t i = 0; i < n && zero != 0; ++i) {
                  y[i] = static_cast<float>(static_cast<Wide>(x[at + i]) - zero) * one;
                }
              } else {
                for (int64_t i = 0; i < n; ++i) {
                  const int64_t s = first + begin + i;
                  const Wide zero = zeros == nullptr ? 0 : static_cast<Wide>(zeros[s]);
                  y[i] = static_cast<float>(static_cast<Wide>(x[at + i]) - zero) * scale.get()[s];
                }
              }
              if (to != DType::kFloat) from_float(to, y, args.out<uint16_t>(0) + at, n);
            }
          });
    });
  };
}

Kernel dynamic_quantize(Prepare& p) {
  const int64_t n = p.in(0).count();
  p.out(0, DType::kUint8, p.dims(0));
  p.out(1, DType::kFloat, {});
  p.out(2, DType::kUint8, {});
  return [=](const Args& args) {
    quantize_dynamically(args.in<float>(0), n, args.out<uint8_t>(0), args.out<float>(1),
                         args.out<uint8_t>(2));
  };
}

// ---- com.microsoft's operators on bytes of one scale each

// A quantised input's values: by byte.
struct Table {
  float values[256];
  Table(DType type, float scale, int zero) {
    for (int i = 0; i < 256; ++i) {
      const int value = type == DType::kInt8 ? static_cast<int8_t>(i) : i;
      values[i] = static_cast<float>(value - zero) * scale;
    }
  }
};

// One element: inputs scale and zero point are single numbers. What passes made of an operator that takes
// them in any shape does so too.
void expect_single(const Prepare& p, std::initializer_list<int> inputs) {
  for (int i : inputs) {
    const bool any_shape = p.node.domain == "ephost" && p.has(i);
    p.expect(is_single(p, i) || (any_shape && p.in(i).count() == 1),
             "a scale or zero point is not a single one");
  }
}

// QLinearAdd, QLinearMul: a, scale, zero, b, scale, zero, scale of y, zero of y. Channels lie last in the
// output where they do in an input.
Kernel bytewise(Prepare& p, bool product) {
  const DType type = p.type(0);
  expect_single(p, {1, 2, 4, 5, 6, 7});
  p.expect(p.type(3) == type, "the inputs have different types");
  Dims a = p.dims(0), b = p.dims(3), dims;
  const size_t rank = std::max(a.size(), b.size());
  // An input of fewer dimensions has no channels of its own, unless it is a single number.
  const auto fits = [&](int i) { return p.dims(i).size() == rank || p.in(i).count() == 1; };
  bool last = fits(0) && fits(3);
  bool wanted = false;
  for (int i : {0, 3}) wanted = wanted || (p.in(i).layout != Layout::kPlain && p.dims(i).size() == rank);
  last = last && wanted;
  for (int i : {0, 3}) {
    // Blocks are filled up with what would not stay 0.
    p.require(i, last && p.dims(i).size() == rank ? Layout::kChannelsLast : Layout::kPlain);
  }
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  for (size_t i = 0; i < rank; ++i) {
    p.expect(a[i] == b[i] || a[i] == 1 || b[i] == 1, "the inputs do not fit each other");
    dims.push_back(a[i] == 1 ? b[i] : a[i]);
  }
  p.out(0, type, dims, last ? Layout::kChannelsLast : Layout::kPlain);
  if (last) {
    // From here on as they lie.
    for (Dims* each : {&a, &b, &dims}) std::rotate(each->begin() + 1, each->begin() + 2, each->end());
  }
  // Rows along which neither input changes from being broadcast to not being so.
  size_t from = dims.size();
  while (from > 0 &&
         (dims[from - 1] == 1 || ((a[from - 1] == dims[from - 1]) == (a.back() == dims.back()) &&
                                  (b[from - 1] == dims[from - 1]) == (b.back() == dims.back())))) {
    --from;
  }
  // Rows that follow each other are cut again, into parts for the threads.
  constexpr int64_t kPart = 2048;
  const int64_t length = count(dims, from, dims.size()), rows = count(dims, 0, from);
  const int64_t parts = (length + kPart - 1) / kPart;
  const bool a_moves = count(a, from, a.size()) == length, b_moves = count(b, from, b.size()) == length;
  return [=](const Args& args) {
    const auto combine = product ? simd().bytes.multiply : simd().bytes.add;
    const auto scale = [&](int i) { return *args.in<float>(i); };
    const auto zero = [&](int i) { return zero_of(type, args.in<void>(i)); };
    const BytePair as = {.a_scale = scale(1),
                         .b_scale = scale(4),
                         .scale = scale(6),
                         .a_zero = zero(2),
                         .b_zero = zero(5),
                         .zero = zero(7),
                         .is_signed = type == DType::kInt8};
    parallel_for(rows * parts, std::max<int64_t>(1, 2 * kGrain / std::min(kPart, length + 1)),
                 [&](int64_t i, int64_t end) {
                   uint8_t repeated[2][kPart];
                   for (; i < end; ++i) {
                     const int64_t r = i / parts, begin = i % parts * kPart,
                                   n = std::min(kPart, length - begin);
                     int64_t rest = r, at_a = 0, at_b = 0, step_a = count(a, from, a.size()),
                             step_b = count(b, from, b.size());
                     for (size_t d = from; d-- > 0; rest /= dims[d]) {
                       at_a += a[d] == 1 ? 0 : rest % dims[d] * step_a;
                       at_b += b[d] == 1 ? 0 : rest % dims[d] * step_b;
                       step_a *= a[d];
                       step_b *= b[d];
                     }
                     const uint8_t* left = args.in<uint8_t>(0) + at_a + (a_moves ? begin : 0);
                     const uint8_t* right = args.in<uint8_t>(3) + at_b + (b_moves ? begin : 0);
                     if (!a_moves) {
                       std::memset(repeated[0], *left, static_cast<size_t>(n));
                       left = repeated[0];
                     }
                     if (!b_moves) {
                       std::memset(repeated[1], *right, static_cast<size_t>(n));
                       right = repeated[1];
                     }
                     combine(left, right, n, as, args.out<uint8_t>(0) + r * length + begin);
                   }
                 });
  };
}

// QLinearSigmoid, QLinearLeakyRelu: x, scale, zero, scale of y, zero of y.
template <typename Function>
Kernel by_table(Prepare& p, const Function& function) {
  const DType type = p.type(0);
  expect_single(p, {1, 2, 3, 4});
  const Layout layout = block_of(p.in(0).layout) == 1 ? p.in(0).layout : Layout::kPlain;
  p.require(0, layout);
  p.out(0, type, p.dims(0), layout);
  const int64_t n = p.in(0).count();
  return [=](const Args& args) {
    Table table(type, *args.in<float>(1), zero_of(type, args.in<void>(2)));
    for (float& value : table.values) value = function(value);
    uint8_t bytes[256];
    simd().quantized.quantize(table.values, 256, *args.in<float>(3), zero_of(type, args.in<void>(4)),
                              lowest(type), highest(type), bytes);
    const uint8_t* x = args.in<uint8_t>(0);
    uint8_t* y = args.out<uint8_t>(0);
    parallel_for(n, kGrain,
                 [&](int64_t i, int64_t end) { simd().bytes.look_up(x + i, end - i, bytes, y + i); });
  };
}

// Bytes of a table: x, the table.
Kernel look_up(Prepare& p) {
  p.expect(p.in(1).count() == 256, "the table does not have one element for each byte");
  const Layout layout = block_of(p.in(0).layout) == 1 ? p.in(0).layout : Layout::kPlain;
  p.require(0, layout);
  p.require(1, Layout::kPlain);
  p.out(0, p.type(1), p.dims(0), layout);
  p.in_place(0, 0);
  const int64_t n = p.in(0).count();
  return [=](const Args& args) {
    const uint8_t *x = args.in<uint8_t>(0), *table = args.in<uint8_t>(1);
    uint8_t* y = args.out<uint8_t>(0);
    parallel_for(n, 2 * kGrain,
                 [&](int64_t i, int64_t end) { simd().bytes.look_up(x + i, end - i, table, y + i); });
  };
}

// What ONNX's operator of this name computes of each element, with the node's attributes; nothing without a
// name, and null for what is not known here.
std::function<float(float)> function_of(const Node& node, const std::string& name) {
  if (name.empty()) return [](float x) { return x; };
  if (name == "Sigmoid") return [](float x) { return 1 / (1 + std::exp(-x)); };
  if (name == "Tanh") return [](float x) { return std::tanh(x); };
  if (name == "Relu") return [](float x) { return x > 0 ? x : 0; };
  if (name == "Sqrt") return [](float x) { return std::sqrt(x); };
  if (name == "Abs") return [](float x) { return std::abs(x); };
  if (name == "Softplus") return [](float x) { return std::log1p(std::exp(x)); };
  if (name == "LeakyRelu") {
    return [alpha = node.f("alpha", 0.01f)](float x) { return x >= 0 ? x : alpha * x; };
  }
  if (name == "Elu") {
    return [alpha = node.f("alpha", 1)](float x) { return x >= 0 ? x : alpha * std::expm1(x); };
  }
  const auto hard = [](float x, float alpha, float beta) { return std::clamp(alpha * x + beta, 0.0f, 1.0f); };
  if (name == "HardSigmoid") {
    return [=, alpha = node.f("alpha", 0.2f), beta = node.f("beta", 0.5f)](float x) {
      return hard(x, alpha, beta);
    };
  }
  if (name == "HardSwish") return [=](float x) { return x * hard(x, 1.0f / 6, 0.5f); };
  return nullptr;
}

// x, scale, zero, scale of y, zero of y.
Kernel global_average(Prepare& p) {
  const DType type = p.type(0);
  expect_single(p, {1, 2, 3, 4});
  Dims dims = p.dims(0);
  p.expect(dims.size() >= 3, "the input has at least three dimensions");
  // By the model, or by where the tensor comes from.
  const bool by_model = p.node.i("channels_last", 0) != 0;
  const bool last = by_model || p.in(0).layout == Layout::kChannelsLast;
  p.require(0, last && !by_model ? Layout::kChannelsLast : Layout::kPlain);
  const int64_t channels = by_model ? dims.back() : dims[1];
  const int64_t inner = count(dims) / std::max<int64_t>(1, dims[0] * channels), batch = dims[0];
  for (size_t i = 1; i < dims.size(); ++i) {
    if (i != (by_model ? dims.size() - 1 : 1)) dims[i] = 1;
  }
  p.out(0, type, dims);
  p.expect(inner < 1 << 23, "a channel is too large");
  return [=](const Args& args) {
    const int zero = zero_of(type, args.in<void>(2)), to = zero_of(type, args.in<void>(4));
    const float from_scale = *args.in<float>(1), to_scale = *args.in<float>(3);
    const Simd& simd = ephost::cpu::simd();
    const auto add_rows = type == DType::kInt8 ? simd.bytes.add_rows_signed : simd.bytes.add_rows_unsigned;
    // Some channels at a time.
    constexpr int64_t kSome = 64;
    const int64_t blocks = (channels + kSome - 1) / kSome;
    parallel_for(batch * blocks, std::max<int64_t>(1, 2 * kGrain / (inner * kSome + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const int64_t first = i % blocks * kSome, n = std::min(kSome, channels - first);
                     const uint8_t* image = args.in<uint8_t>(0) + i / blocks * channels * inner;
                     int32_t sums[kSome] = {};
                     if (last) {
                       add_rows(image + first, inner, channels, n, sums);
                     } else {
                       for (int64_t c = 0; c < n; ++c) {
                         const uint8_t* bytes = image + (first + c) * inner;
                         int32_t sum = 0;
                         if (type == DType::kInt8) {
                           for (int64_t s = 0; s < inner; ++s) sum += static_cast<int8_t>(bytes[s]);
                         } else {
                           for (int64_t s = 0; s < inner; ++s) sum += bytes[s];
                         }
                         sums[c] = sum;
                       }
                     }
                     float means[kSome];
                     for (int64_t c = 0; c < n; ++c) {
                       const int64_t sum = sums[c] - inner * zero;
                       means[c] = static_cast<float>(sum) * from_scale / static_cast<float>(inner);
                     }
                     simd.quantized.quantize(means, n, to_scale, to, lowest(type), highest(type),
                                             args.out<uint8_t>(0) + i / blocks * channels + first);
                   }
                 });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr Types kLinear = kReals | kSmall | Types{DType::kInt32};
  for (const char* domain : {"", "com.microsoft"}) {
    registry->add({.domain = domain,
                   .type = "QuantizeLinear",
                   .supports = quantize_supports,
                   .prepare = quantize,
                   .types = kLinear,
                   .any_layout = true});
    // Dequantised weights are larger than they were; kernels for bytes want them as they are.
    registry->add({.domain = domain,
                   .type = "DequantizeLinear",
                   .supports = dequantize_supports,
                   .prepare = dequantize,
                   .types = kLinear,
                   .any_layout = true,
                   .foldable = false});
  }
  registry->add({.domain = "ephost",
                 .type = "DequantizeLinear",
                 .supports = dequantize_supports,
                 .prepare = dequantize,
                 .types = kLinear,
                 .any_layout = true});
  registry->add({.type = "DynamicQuantizeLinear",
                 .prepare = dynamic_quantize,
                 .types = {DType::kFloat, DType::kUint8}});
  constexpr Types kBytewise = kBytes | Types{DType::kFloat};
  const auto add = [&](const char* type, std::function<Kernel(Prepare&)> prepare) {
    registry->add({.domain = "com.microsoft",
                   .type = type,
                   .prepare = std::move(prepare),
                   .types = kBytewise,
                   .any_layout = true});
  };
  add("QLinearAdd", [](Prepare& p) { return bytewise(p, false); });
  add("QLinearMul", [](Prepare& p) { return bytewise(p, true); });
  add("QLinearSigmoid", [](Prepare& p) { return by_table(p, function_of(p.node, "Sigmoid")); });
  add("QLinearLeakyRelu", [](Prepare& p) { return by_table(p, function_of(p.node, "LeakyRelu")); });
  add("QLinearGlobalAveragePool", global_average);
  registry->add(
      {.domain = "ephost",
       .type = "QLinearTable",
       .supports =
           [](const Node& node) {
             return function_of(node, node.s("function", "")) == nullptr ? "an unknown function" : "";
           },
       .prepare = [](Prepare& p) { return by_table(p, function_of(p.node, p.node.s("function", ""))); },
       .types = kBytewise,
       .any_layout = true});
  registry->add(
      {.domain = "ephost", .type = "LookUp", .prepare = look_up, .types = kBytes, .any_layout = true});
});

}  // namespace ephost::cpu
