// Softmax and the normalisations: all work on rows, in float32 or double.
#include <cmath>

#include "cpu/engines/expression.h"
#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

using std::sqrt;

template <typename T>
constexpr DType kTypeOf = std::is_same_v<T, float> ? DType::kFloat : DType::kDouble;

// Conversions between a tensor's rows and the type they are computed in. Buffers are the thread's own.
template <typename T>
class Rows {
 public:
  explicit Rows(DType type)
      : type_(type),
        size_(static_cast<int64_t>(size_of(type))),
        load_(cast_tile(type, kTypeOf<T>)),
        store_(cast_tile(kTypeOf<T>, type)) {}

  bool same() const { return type_ == kTypeOf<T>; }
  const T* load(const void* x, int64_t at, int64_t n, int which) const {
    const char* from = static_cast<const char*>(x) + at * size_;
    if (same() || x == nullptr) {
      return x == nullptr ? nullptr : reinterpret_cast<const T*>(from);
    }
    T* to = buffer(which, n);
    call(load_, from, to, n);
    return to;
  }
  void load_into(const void* x, int64_t at, int64_t n, T* to) const {
    if (same()) {
      std::copy_n(static_cast<const T*>(x) + at, n, to);
    } else {
      call(load_, static_cast<const char*>(x) + at * size_, to, n);
    }
  }
  void store_from(const T* from, void* y, int64_t at, int64_t n) const {
    if (same()) {
      std::copy_n(from, n, static_cast<T*>(y) + at);
    } else {
      call(store_, from, static_cast<char*>(y) + at * size_, n);
    }
  }
  // Where to write a row: `store` brings it to its place.
  T* place(void* y, int64_t at, int64_t n, int which) const {
    return same() ? static_cast<T*>(y) + at : buffer(which, n);
  }
  void store(const T* row, void* y, int64_t at, int64_t n) const {
    if (!same()) call(store_, row, static_cast<char*>(y) + at * size_, n);
  }

  static T* buffer(int which, int64_t n) {
    static thread_local std::vector<T> buffers[4];
    std::vector<T>& mine = buffers[which];
    if (mine.size() < static_cast<size_t>(n)) mine.resize(static_cast<size_t>(n));
    return mine.data();
  }

 private:
  static void call(TileFunction function, const void* from, void* to, int64_t n) {
    const void* in[3] = {from, nullptr, nullptr};
    const float params[2] = {0, 0};
    function(in, to, n, params);
  }
  DType type_;
  int64_t size_;
  TileFunction load_, store_;
};

template <typename Function>
Kernel by_type(DType type, const Function& make) {
  return type == DType::kDouble ? make(double{}) : make(float{});
}

int64_t row_grain(int64_t n, int64_t cost) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n * cost));
}

// ---- Softmax

void softmax_row(const float* x, float* y, int64_t n, bool log) { simd().softmax(x, nullptr, y, n, 1, log); }

void softmax_row(const double* x, double* y, int64_t n, bool log) {
  constexpr int64_t kPart = 512;
  alignas(64) double parts[kPart];
  double most = x[0], sum = 0;
  row_reduction(kGreatest, DType::kDouble)(x, n, &most);
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t size = std::min(kPart, n - i);
    double* const to = log ? parts : y + i;
    for (int64_t k = 0; k < size; ++k) to[k] = x[i + k] - most;
    const void* in[3] = {to, nullptr, nullptr};
    const float none[2] = {0, 0};
    op_tile(Op::kExp, DType::kDouble)(in, to, size, none);
    row_reduction(kSum, DType::kDouble)(to, size, &sum);
  }
  const double logarithm = std::log(sum);
  for (int64_t i = 0; i < n; ++i) y[i] = log ? x[i] - most - logarithm : y[i] / sum;
}

// Neighbours of what is normalised along an outer axis, from which on it is worth it to take them together.
constexpr int64_t kWorthColumns = 8;

// A block of float32 whose columns are what is normalised: n rows of m elements.
struct Columns {
  float* rows;
  int64_t n, m;

  float* row(int64_t k) const { return rows + k * m; }
  // to = to op other, for each row; or all rows combined.
  void each(Op op, const float* other) const {
    for (int64_t k = 0; k < n; ++k) apply(op, row(k), other, row(k));
  }
  void combined(Op op, float* to) const {
    std::copy_n(rows, m, to);
    for (int64_t k = 1; k < n; ++k) apply(op, to, row(k), to);
  }
  void all(Op op) const { call(op, rows, nullptr, rows, n * m); }
  void apply(Op op, const float* a, const float* b, float* to) const { call(op, a, b, to, m); }

 private:
  static void call(Op op, const float* a, const float* b, float* to, int64_t size) {
    const void* in[3] = {a, b, nullptr};
    const float params[2] = {0, 0};
    simd().ops[static_cast<size_t>(op)](in, to, size, params);
  }
};

// Calls normalize(columns, line of room, another one) for blocks of input 0 as [outer, n, inner], and writes
// what becomes of them. Columns have room for `copies` of theirs, one behind the other.
template <typename Normalize>
Kernel by_columns(DType type, int64_t outer, int64_t n, int64_t inner, int64_t copies,
                  const Normalize& normalize) {
  const Rows<float> rows(type);
  return [=](const Args& args) {
    // As many as fit the nearest cache, but whole registers.
    const int64_t most = std::min(inner, std::max<int64_t>(16, 4096 / n / 16 * 16));
    const int64_t parts = (inner + most - 1) / most;
    parallel_for(outer * parts, row_grain(n * most, 6), [&](int64_t item, int64_t end) {
      float* const room = Rows<float>::buffer(1, (copies * n + 2) * most);
      for (; item < end; ++item) {
        const int64_t first = item % parts * most, m = std::min(most, inner - first);
        const int64_t base = item / parts * n * inner + first;
        const Columns block{room, n, m};
        for (int64_t k = 0; k < n; ++k) {
          std::copy_n(rows.load(args.in(0), base + k * inner, m, 0), m, block.row(k));
        }
        float* const lines = room + copies * n * most;
        normalize(block, lines, lines + most);
        for (int64_t k = 0; k < n; ++k) {
          float* const y = rows.place(args.out(0), base + k * inner, m, 0);
          std::copy_n(block.row(k), m, y);
          rows.store(y, args.out(0), base + k * inner, m);
        }
      }
    });
  };
}

Kernel softmax(Prepare& p) {
  const Dims dims = p.dims(0);
  const DType type = p.type(0);
  const bool log = p.node.type == "LogSoftmax";
  p.out(0, type, dims);
  p.in_place(0, 0);
  int64_t outer = 1, n = 1, inner = 1;
  if (p.node.version < 13) {  // Everything from the axis on is one row.
    const int64_t rank = static_cast<int64_t>(dims.size());
    int64_t axis = p.node.i("axis", 1);
    axis += axis < 0 ? rank : 0;
    p.expect(axis >= 0 && axis <= rank, "the axis is not one of the input");
    outer = count(dims, 0, static_cast<size_t>(axis));
    n = count(dims, static_cast<size_t>(axis), dims.size());
  } else if (!dims.empty()) {
    const size_t axis = p.axis(p.node.i("axis", -1), dims.size());
    outer = count(dims, 0, axis);
    n = dims[axis];
    inner = count(dims, axis + 1, dims.size());
  }
  if (n == 0) {
    return [](const Args&) {};
  }
  if (inner >= kWorthColumns && type != DType::kDouble) {
    return by_columns(type, outer, n, inner, log ? 2 : 1, [log](const Columns& x, float* line, float* sums) {
      x.combined(Op::kMax, line);
      x.each(Op::kSub, line);
      if (!log) {
        x.all(Op::kExp);
        x.combined(Op::kAdd, sums);
        x.each(Op::kDiv, sums);
        return;
      }
      const Columns powers{x.rows + x.n * x.m, x.n, x.m};
      std::copy_n(x.rows, x.n * x.m, powers.rows);
      powers.all(Op::kExp);
      powers.combined(Op::kAdd, sums);
      const Columns one{sums, 1, x.m};
      one.all(Op::kLog);
      x.each(Op::kSub, sums);
    });
  }
  return by_type(type, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    const Rows<T> rows(type);
    if (inner == 1) {
      return [=](const Args& args) {
        parallel_for(outer, row_grain(n, 10), [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            T* y = rows.place(args.out(0), i * n, n, 0);
            softmax_row(rows.load(args.in(0), i * n, n, 0), y, n, log);
            rows.store(y, args.out(0), i * n, n);
          }
        });
      };
    }
    // Along an outer axis: some columns at a time are brought together, so that each is a row.
    return [=](const Args& args) {
      constexpr int64_t kColumns = 16;
      const int64_t parts = (inner + kColumns - 1) / kColumns;
      parallel_for(outer * parts, row_grain(n * kColumns, 12), [&](int64_t item, int64_t end) {
        for (; item < end; ++item) {
          const int64_t first = item % parts * kColumns, m = std::min(kColumns, inner - first);
          const int64_t base = item / parts * n * inner + first;
          T* columns = Rows<T>::buffer(1, n * kColumns);
          for (int64_t k = 0; k < n; ++k) {
            const T* x = rows.load(args.in(0), base + k * inner, m, 0);
            for (int64_t j = 0; j < m; ++j) columns[j * n + k] = x[j];
          }
          for (int64_t j = 0; j < m; ++j) softmax_row(columns + j * n, columns + j * n, n, log);
          for (int64_t k = 0; k < n; ++k) {
            T* y = rows.place(args.out(0), base + k * inner, m, 0);
            for (int64_t j = 0; j < m; ++j) y[j] = columns[j * n + k];
            rows.store(y, args.out(0), base + k * inner, m);
          }
        }
      });
    };
  });
}

// ---- Normalisation of rows

double sum_row(const double* x, int64_t n) {
  double sum = 0;
  row_reduction(kSum, DType::kDouble)(x, n, &sum);
  return sum;
}
float sum_row(const float* x, int64_t n) { return simd().reduce[kSum](x, n, 0); }

double squares_row(const double* x, int64_t n, double mean) {
  constexpr int64_t kPart = 512;
  alignas(64) double squares[kPart];
  double sum = 0;
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t size = std::min(kPart, n - i);
    for (int64_t k = 0; k < size; ++k) squares[k] = (x[i + k] - mean) * (x[i + k] - mean);
    row_reduction(kSum, DType::kDouble)(squares, size, &sum);
  }
  return sum;
}
float squares_row(const float* x, int64_t n, float mean) { return simd().sum_of_squares(x, n, mean); }

void normalize_row(const float* x, float* y, int64_t n, float mean, float factor, const float* scale,
                   const float* bias) {
  simd().normalize(x, y, n, mean, factor, scale, bias);
}
void normalize_row(const double* x, double* y, int64_t n, double mean, double factor, const double* scale,
                   const double* bias) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = (x[i] - mean) * factor * (scale == nullptr ? 1 : scale[i]) + (bias == nullptr ? 0 : bias[i]);
  }
}

void affine_row(const float* x, float* y, int64_t n, float a, float b) {
  const void* in[3] = {x, nullptr, nullptr};
  const float params[2] = {a, b};
  op_tile(Op::kAffine, DType::kFloat)(in, y, n, params);
}
void affine_row(const double* x, double* y, int64_t n, double a, double b) {
  for (int64_t i = 0; i < n; ++i) y[i] = a * x[i] + b;
}

// What LayerNormalization and its kin have in common: rows, each (x + skip + skip_bias) brought to mean zero
// (if centered) and length one, times scale, plus bias. Numbers are those of inputs and outputs; -1: none.
struct RowNorm {
  bool centered = true;
  float epsilon = 1e-5f;
  int scale = -1, bias = -1, skip = -1, skip_bias = -1;
  int mean = -1, factor = -1, sum = -1;
  int64_t rows = 1, n = 1;
  int64_t skip_rows = 1;  // Skip may be shared by several batches.
  // A scale or bias that is smaller than a row, or another one for each row, is brought to that size first.
  struct Spread {
    StridedCopy copy;
    int64_t at = -1;  // In scratch, in bytes; -1: it is read where it is.
    bool each = false;
  };
  Spread spread_scale, spread_bias;
};

// How input i, which is broadcast to `dims`, becomes one row of what is normalised from the axis on, or all
// of them. `bytes` is what scratch has so far.
RowNorm::Spread spread_of(const Prepare& p, int i, const Dims& dims, size_t axis, size_t* bytes) {
  RowNorm::Spread spread;
  const Dims& own = p.dims(i);
  const int64_t n = count(dims, axis, dims.size());
  const size_t before = dims.size() - std::min(own.size(), dims.size());
  bool fits = own.size() <= dims.size();
  for (size_t d = 0; fits && d < own.size(); ++d) {
    fits = own[d] == 1 || own[d] == dims[before + d];
    spread.each = spread.each || (own[d] != 1 && before + d < axis);
  }
  p.expect(fits,
           "a scale or bias does not have the shape of what is normalised, and cannot be broadcast to it");
  if (p.in(i).count() == n && !spread.each) return spread;  // As it is.
  const Dims own_strides = strides_of(own);
  const size_t first = spread.each ? 0 : axis;
  const Dims to(dims.begin() + static_cast<ptrdiff_t>(first), dims.end());
  Dims from(to.size(), 0);
  for (size_t d = std::max(first, before); d < dims.size(); ++d) {
    from[d - first] = own[d - before] == 1 ? 0 : own_strides[d - before];
  }
  const size_t size = size_of(p.type(i));
  spread.copy = StridedCopy(size, to, from, strides_of(to));
  spread.at = static_cast<int64_t>(*bytes);
  *bytes += (static_cast<size_t>(count(to)) * size + 63) & ~size_t{63};
  return spread;
}

// Output 0 is of the scale's type, which is the input's own unless ONNX lets them differ.
Kernel row_norm(Prepare& p, const RowNorm& norm) {
  const DType type = p.type(0);
  const DType scale_type = norm.scale >= 0 ? p.type(norm.scale) : type;
  p.expect(norm.bias < 0 || p.type(norm.bias) == scale_type, "scale and bias are of different types");
  for (int i : {norm.skip, norm.skip_bias}) {
    p.expect(i < 0 || p.type(i) == type, "what is added is of another type than the input");
  }
  if (norm.skip < 0 && scale_type == type) p.in_place(0, 0);
  return by_type(type, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    const Rows<T> rows(type), scales(scale_type), results(scale_type);
    return [=](const Args& args) {
      const auto optional = [&](int i) { return i < 0 ? nullptr : args.in(i); };
      const auto output = [&](int o) { return o < 0 ? nullptr : args.out(o); };
      const int64_t n = norm.n;
      const auto spread = [&](const RowNorm::Spread& how, int input) -> const void* {
        if (how.at < 0) return optional(input);
        char* to = args.scratch<char>() + how.at;
        how.copy(args.in(input), to);
        return to;
      };
      const void *scale_from = spread(norm.spread_scale, norm.scale),
                 *bias_from = spread(norm.spread_bias, norm.bias);
      parallel_for(norm.rows, row_grain(n, 4), [&](int64_t i, int64_t end) {
        const T* scale = scales.load(scale_from, 0, n, 2);
        const T* bias = scales.load(bias_from, 0, n, 3);
        for (; i < end; ++i) {
          if (norm.spread_scale.each) scale = scales.load(scale_from, i * n, n, 2);
          if (norm.spread_bias.each) bias = scales.load(bias_from, i * n, n, 3);
          const T* x = rows.load(args.in(0), i * n, n, 0);
          T* y = results.place(args.out(0), i * n, n, 1);
          if (norm.skip >= 0) {
            // The sum is an output of its own, or stays in the place of the result.
            T* sum =
                output(norm.sum) != nullptr && rows.same() ? static_cast<T*>(output(norm.sum)) + i * n : y;
            const char* from = args.in<char>(norm.skip);
            const auto add = [&](const void* other, int64_t at) {
              for (int64_t start = 0; start < n; start += 1024) {  // In tiles, for the conversion's sake.
                const int64_t m = std::min<int64_t>(1024, n - start);
                T part[1024];
                const T* b = static_cast<const T*>(other) + at + start;
                if (!rows.same()) {
                  rows.load_into(other, at + start, m, part);
                  b = part;
                }
                for (int64_t k = 0; k < m; ++k) sum[start + k] = x[start + k] + b[k];
              }
              x = sum;
            };
            add(from, i % norm.skip_rows * n);
            if (norm.skip_bias >= 0) add(args.in(norm.skip_bias), 0);
            if (output(norm.sum) != nullptr) rows.store(sum, output(norm.sum), i * n, n);
          }
          const T count = static_cast<T>(n);
          const T mean = norm.centered ? sum_row(x, n) / count : T{0};
          const T factor = 1 / sqrt(squares_row(x, n, mean) / count + static_cast<T>(norm.epsilon));
          normalize_row(x, y, n, mean, factor, scale, bias);
          results.store(y, args.out(0), i * n, n);
          if (void* out = output(norm.mean)) static_cast<float*>(out)[i] = static_cast<float>(mean);
          if (void* out = output(norm.factor)) static_cast<float*>(out)[i] = static_cast<float>(factor);
        }
      });
    };
  });
}

Kernel layer_norm(Prepare& p) {
  const Dims dims = p.dims(0);
  RowNorm norm;
  norm.centered = p.node.type == "LayerNormalization";
  norm.epsilon = p.node.f("epsilon", 1e-5f);
  const size_t axis = p.axis(p.node.i("axis", -1), dims.size());
  norm.rows = count(dims, 0, axis);
  norm.n = count(dims, axis, dims.size());
  norm.scale = 1;
  norm.bias = norm.centered && p.has(2) ? 2 : -1;
  size_t bytes = 0;
  norm.spread_scale = spread_of(p, norm.scale, dims, axis, &bytes);
  if (norm.bias >= 0) norm.spread_bias = spread_of(p, norm.bias, dims, axis, &bytes);
  p.scratch(bytes);
  p.out(0, p.type(norm.scale), dims);
  Dims stats = dims;
  std::fill(stats.begin() + static_cast<ptrdiff_t>(axis), stats.end(), 1);
  for (int o = 1; o < p.outputs(); ++o) {
    if (p.wants(o)) {
      p.out(o, DType::kFloat, stats);
      (o == 1 && norm.centered ? norm.mean : norm.factor) = o;
    }
  }
  return row_norm(p, norm);
}

std::string supports_layer_norm(const Node& node) {
  const Value *x = node.in(0), *scale = node.in(1), *bias = node.in(2);
  if (scale != nullptr && bias != nullptr && scale->type != bias->type) {
    return "its scale and bias have different types";
  }
  if (x != nullptr && scale != nullptr && (x->type == DType::kDouble) != (scale->type == DType::kDouble)) {
    return "its scale has another type than its input";
  }
  if (node.out() != nullptr && scale != nullptr && node.out()->type != DType::kUndefined &&
      node.out()->type != scale->type) {
    return "its output has another type than its scale";
  }
  for (size_t o = 1; o < node.outputs.size(); ++o) {
    const Value* stat = node.out(o);
    if (stat != nullptr && stat->type != DType::kUndefined && stat->type != DType::kFloat) {
      return "its means and factors are not float32";
    }
  }
  return "";
}

// Whether `skip` has the shape of x but for the batch, which it may leave out or have one of.
bool is_shared(const Dims& skip, const Dims& x) {
  if (skip.size() > x.size() || skip.size() < std::min<size_t>(2, x.size())) return false;
  const size_t before = x.size() - skip.size();
  bool same = true, ones = true;
  for (size_t d = 0; d < skip.size(); ++d) {
    const bool equal = skip[d] == x[before + d];
    if (d + 2 >= skip.size() && !equal) return false;
    same = same && equal;
    ones = ones && (skip[d] == 1 || d + 2 >= skip.size());
  }
  return same || ones;
}

// com.microsoft's: x, skip, scale, (bias,) bias of the sum -> y, mean, factor, sum.
Kernel skip_layer_norm(Prepare& p) {
  const Dims dims = p.dims(0);
  const bool simplified = p.node.type == "SkipSimplifiedLayerNormalization";
  p.expect(!dims.empty(), "a scalar cannot be normalised");
  RowNorm norm;
  norm.centered = !simplified;
  norm.epsilon = p.node.f("epsilon", 1e-12f);
  norm.n = dims.back();
  norm.rows = count(dims, 0, dims.size() - 1);
  norm.skip = 1;
  norm.scale = 2;
  const int extra = simplified ? 3 : 4;
  norm.bias = !simplified && p.has(3) ? 3 : -1;
  norm.skip_bias = p.has(extra) ? extra : -1;
  for (int i : {norm.scale, norm.bias, norm.skip_bias}) {
    p.expect(i < 0 || p.dims(i) == Dims{norm.n}, "a scale or bias is not one number for each channel");
  }
  p.expect(norm.n > 0 && is_shared(p.dims(1), dims), "the skip input does not have the shape of the other");
  norm.skip_rows = p.in(1).count() / norm.n;
  p.out(0, p.type(0), dims);
  Dims stats = dims;
  stats.back() = 1;
  for (int o = 1; o < p.outputs(); ++o) {
    if (p.wants(o)) {
      p.out(o, o == 3 ? p.type(0) : DType::kFloat, o == 3 ? dims : stats);
      (o == 1 ? norm.mean : o == 2 ? norm.factor : norm.sum) = o;
    }
  }
  return row_norm(p, norm);
}

// ---- Normalisation of channels: every (image, group) is a row whose channels have factors of their own.

Kernel group_norm(Prepare& p) {
  const Dims dims = p.dims(0);
  p.expect(dims.size() >= 2, "channels need two dimensions");
  const DType type = p.type(0);
  const int64_t channels = dims[1], spatial = count(dims, 2, dims.size());
  const int64_t groups = p.node.type == "GroupNormalization" ? p.node.i("num_groups", 0) : channels;
  p.expect(groups > 0 && channels % groups == 0, "the channels cannot be divided into its groups");
  const int64_t each = channels / groups, n = each * spatial;
  const bool by_group = p.node.type == "GroupNormalization" && p.node.version < 21;  // Scales of groups.
  const int64_t scales = by_group ? groups : channels;
  for (int i : {1, 2}) {
    p.expect(p.dims(i) == Dims{scales}, "a scale or bias is not one number for each channel or group");
  }
  const float epsilon = p.node.f("epsilon", 1e-5f);
  p.out(0, type, dims);
  p.in_place(0, 0);
  const int64_t batch = dims[0];
  return by_type(type, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    const Rows<T> rows(type);
    return [=](const Args& args) {
      parallel_for(batch * groups, row_grain(n, 4), [&](int64_t i, int64_t end) {
        const T* scale = rows.load(args.in(1), 0, scales, 2);
        const T* bias = rows.load(args.in(2), 0, scales, 3);
        for (; i < end; ++i) {
          const T* x = rows.load(args.in(0), i * n, n, 0);
          T* y = rows.place(args.out(0), i * n, n, 1);
          const T mean = sum_row(x, n) / static_cast<T>(n);
          const T factor = 1 / sqrt(squares_row(x, n, mean) / static_cast<T>(n) + static_cast<T>(epsilon));
          for (int64_t c = 0; c < each; ++c) {
            const int64_t at = by_group ? i % groups : i % groups * each + c;
            const T a = scale[at] * factor;
            affine_row(x + c * spatial, y + c * spatial, spatial, a, bias[at] - mean * a);
          }
          rows.store(y, args.out(0), i * n, n);
        }
      });
    };
  });
}

// ---- Along any axes: gathered into rows, one at a time.

// Of runs of a row, or rows: 2 GiB of them.
constexpr int64_t kMostPlaces = int64_t{1} << 28;

// The distances of the runs of a row from its first element, and of the rows' first elements. A run is of
// elements that lie one after the other.
struct Gathered {
  std::vector<int64_t> rows{0}, runs{0};
  int64_t run = 1;
  Gathered(const Dims& dims, const std::vector<bool>& inside) {
    size_t end = dims.size();
    while (end > 0 && inside[end - 1]) run *= dims[--end];
    int64_t stride = run;
    std::vector<int64_t> strides(end);
    for (size_t d = end; d-- > 0;) {
      strides[d] = stride;
      stride *= dims[d];
    }
    for (size_t d = 0; d < end; ++d) {
      std::vector<int64_t>& list = inside[d] ? runs : rows;
      if (static_cast<int64_t>(list.size()) > kMostPlaces / std::max<int64_t>(1, dims[d])) {
        invalid("a tensor of shape " + to_string(dims) + " is too large for a norm over these axes");
      }
      std::vector<int64_t> longer;
      longer.reserve(list.size() * static_cast<size_t>(dims[d]));
      for (int64_t start : list) {
        for (int64_t i = 0; i < dims[d]; ++i) longer.push_back(start + i * strides[d]);
      }
      list = std::move(longer);
    }
  }
  int64_t size() const { return static_cast<int64_t>(runs.size()) * run; }
};

template <typename Body>
Kernel over_rows(Prepare& p, const std::vector<bool>& inside, const Body& body) {
  const Dims dims = p.dims(0);
  const DType type = p.type(0);
  p.out(0, type, dims);
  p.in_place(0, 0);
  const auto places = std::make_shared<Gathered>(dims, inside);
  return by_type(type, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    const Rows<T> rows(type);
    return [=](const Args& args) {
      const int64_t n = places->size(), run = places->run;
      parallel_for(static_cast<int64_t>(places->rows.size()), row_grain(n, 8), [&](int64_t i, int64_t end) {
        T* const row = Rows<T>::buffer(0, n);
        for (; i < end; ++i) {
          const int64_t base = places->rows[static_cast<size_t>(i)];
          T* to = row;
          for (const int64_t start : places->runs) {
            rows.load_into(args.in(0), base + start, run, to);
            to += run;
          }
          body(row, n);
          const T* from = row;
          for (const int64_t start : places->runs) {
            rows.store_from(from, args.out(0), base + start, run);
            from += run;
          }
        }
      });
    };
  });
}

Kernel mean_variance_norm(Prepare& p) {
  std::vector<bool> inside(p.in(0).rank(), false);
  // By default all but the channels of an image: of what is none, those that it has.
  const Ints by_default = {0, 2, 3};
  Ints axes = p.node.ints("axes", by_default);
  // The form of opsets before 9.
  if (p.node.i("across_channels", 0) != 0) axes = {0, 1, 2, 3};
  const bool scaled = p.node.i("normalize_variance", 1) != 0;
  for (const int64_t axis : axes) {
    if (axes == by_default && static_cast<size_t>(axis) >= inside.size()) continue;
    inside[p.axis(axis, inside.size())] = true;
  }
  return over_rows(p, inside, [scaled](auto* row, int64_t n) {
    using T = std::remove_reference_t<decltype(*row)>;
    const T mean = sum_row(row, n) / static_cast<T>(n);
    const T deviation = scaled ? sqrt(squares_row(row, n, mean) / static_cast<T>(n)) : T{1};
    normalize_row(row, row, n, mean, 1 / (deviation + static_cast<T>(1e-9)), static_cast<const T*>(nullptr),
                  static_cast<const T*>(nullptr));
  });
}

Kernel lp_norm(Prepare& p) {
  const Dims& dims = p.dims(0);
  const size_t axis = p.axis(p.node.i("axis", -1), dims.size());
  const int64_t order = p.node.i("p", 2);
  p.expect(order == 1 || order == 2, "p is neither 1 nor 2");
  const int64_t inner = count(dims, axis + 1, dims.size());
  if (inner >= kWorthColumns && p.type(0) != DType::kDouble && count(dims) > 0) {
    p.out(0, p.type(0), dims);
    return by_columns(p.type(0), count(dims, 0, axis), dims[axis], inner, 1,
                      [order](const Columns& x, float* line, float* norms) {
                        std::fill_n(norms, x.m, 0.0f);
                        for (int64_t k = 0; k < x.n; ++k) {
                          const Columns one{line, 1, x.m};
                          std::copy_n(x.row(k), x.m, line);
                          one.all(order == 1 ? Op::kAbs : Op::kSquare);
                          x.apply(Op::kAdd, norms, line, norms);
                        }
                        const Columns one{norms, 1, x.m};
                        if (order == 2) one.all(Op::kSqrt);
                        std::replace(norms, norms + x.m, 0.0f, 1.0f);  // Of zeros, which stay zeros.
                        x.each(Op::kDiv, norms);
                      });
  }
  std::vector<bool> inside(dims.size(), false);
  inside[axis] = true;
  return over_rows(p, inside, [order](auto* row, int64_t n) {
    using T = std::remove_reference_t<decltype(*row)>;
    T norm = 0;
    if (order == 1) {
      T* const magnitudes = Rows<T>::buffer(1, n);
      for (int64_t k = 0; k < n; ++k) magnitudes[k] = std::abs(row[k]);
      norm = sum_row(magnitudes, n);
    } else {
      norm = sqrt(squares_row(row, n, T{0}));
    }
    if (norm == 0) {
      std::fill_n(row, n, T{0});
    } else {
      for (int64_t k = 0; k < n; ++k) row[k] /= norm;
    }
  });
}

}  // namespace

const Registration registration([](Registry* registry) {
  for (const char* type : {"Softmax", "LogSoftmax"}) {
    registry->add({.type = type, .prepare = softmax, .types = kFloats});
  }
  for (const char* type : {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}) {
    registry->add({.type = type, .supports = supports_layer_norm, .prepare = layer_norm, .types = kFloats});
  }
  for (const char* type : {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}) {
    registry->add({.domain = "com.microsoft",
                   .type = type,
                   .prepare = skip_layer_norm,
                   .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16}});
  }
  registry->add({.type = "GroupNormalization", .prepare = group_norm, .types = kFloats});
  registry->add({.type = "InstanceNormalization", .prepare = group_norm, .types = kFloats});
  registry->add({.type = "MeanVarianceNormalization", .prepare = mean_variance_norm, .types = kFloats});
  registry->add({.type = "LpNormalization", .prepare = lp_norm, .types = kFloats});
});

}  // namespace ephost::cpu
