// Determinants and inverses of square matrices.
#include <cmath>
#include <cstring>
#include <map>

#include "cpu/operator.h"
#include "cpu/simd/independent.h"
#include "cpu/simd/simd.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// ---- Det

constexpr int64_t kBlock = 32;  // Columns that are eliminated together, of larger matrices.
constexpr int64_t kLanes = 16;  // Products of matrices are quickest where their columns are a multiple of it.

int64_t padded(int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes; }
bool is_small(int64_t n) { return n <= 2 * kBlock; }

// What `determinant` needs for a matrix besides its numbers.
int64_t room_of(int64_t n) { return is_small(n) ? 0 : kBlock * n + 2 * kBlock * padded(n - kBlock); }

// Elimination with row pivots in `width` columns of `height` elements each, which lie one after the other.
// Calls swap(k, pivot) for rows that are exchanged. Returns the determinant's factor.
template <typename Swap>
double eliminate(double* columns, int64_t width, int64_t height, const Swap& swap) {
  double result = 1;
  for (int64_t k = 0; k < width; ++k) {
    double* const own = columns + k * height;
    int64_t pivot = k;
    double most = std::abs(own[k]);
    for (int64_t i = k + 1; i < height; ++i) {
      if (std::abs(own[i]) > most) {
        most = std::abs(own[i]);
        pivot = i;
      }
    }
    if (pivot != k) {
      for (int64_t c = 0; c < width; ++c) std::swap(columns[c * height + k], columns[c * height + pivot]);
      swap(k, pivot);
      result = -result;
    }
    const double divisor = own[k];
    result *= divisor;
    if (result == 0) return result;
    for (int64_t i = k + 1; i < height; ++i) own[i] /= divisor;
    for (int64_t c = k + 1; c < width; ++c) {
      double* const other = columns + c * height;
      const double factor = other[k];
      EPHOST_INDEPENDENT
      for (int64_t i = k + 1; i < height; ++i) other[i] -= factor * own[i];
    }
  }
  return result;
}

// `a` is overwritten.
double determinant(double* a, int64_t n, double* room) {
  if (is_small(n)) return eliminate(a, n, n, [](int64_t, int64_t) {});  // Of rows, which is the same.
  // A block of columns after the other: what each leaves of the columns behind it is a product of matrices.
  double result = 1;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t width = std::min(kBlock, n - begin), end = begin + width, height = n - begin;
    double* const own = room;
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t c = 0; c < width; ++c) own[c * height + i] = a[(begin + i) * n + begin + c];
    }
    result *= eliminate(own, width, height, [=](int64_t k, int64_t pivot) {
      double* const row = a + (begin + k) * n;
      std::swap_ranges(row + end, row + n, a + (begin + pivot) * n + end);
    });
    if (result == 0 || end == n) return result;
    const int64_t rest = n - end, columns = padded(rest);
    double *const upper = room + kBlock * n, *const product = upper + kBlock * columns;
    for (int64_t k = 0; k < width; ++k) {
      double* const row = upper + k * columns;
      const double* const from = a + (begin + k) * n;
      std::fill(std::copy(from + end, from + n, row), row + columns, 0.0);
      for (int64_t i = 0; i < k; ++i) {
        const double factor = own[i * height + k];
        const double* const other = upper + i * columns;
        EPHOST_INDEPENDENT
        for (int64_t j = 0; j < rest; ++j) row[j] -= factor * other[j];
      }
    }
    for (int64_t i = end; i < n; i += kBlock) {
      const int64_t rows = std::min(kBlock, n - i);
      simd().double_gemm({rows, columns, width, own + i - begin, 1, height, upper, product});
      for (int64_t r = 0; r < rows; ++r) {
        double* const to = a + (i + r) * n + end;
        EPHOST_INDEPENDENT
        for (int64_t j = 0; j < rest; ++j) to[j] -= product[r * columns + j];
      }
    }
  }
  return result;
}

Kernel det(Prepare& p) {
  const Dims& dims = p.dims(0);
  p.expect(dims.size() >= 2 && dims.back() == dims[dims.size() - 2], "the input is not of square matrices");
  const int64_t n = dims.back();
  const DType type = p.type(0);
  const int64_t all = p.out(0, type, Dims(dims.begin(), dims.end() - 2)).count();
  p.scratch(static_cast<size_t>(n * n + room_of(n)) * sizeof(double));
  return [=](const Args& args) {
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      double* a = args.scratch<double>();
      for (int64_t m = 0; m < all; ++m) {
        for (int64_t i = 0; i < n * n; ++i) {
          a[i] = static_cast<double>(static_cast<arithmetic_t<T>>(args.in<T>(0)[m * n * n + i]));
        }
        const double result = determinant(a, n, a + n * n);
        args.out<T>()[m] = static_cast<T>(static_cast<arithmetic_t<T>>(result));
      }
    });
  };
}

// ---- com.microsoft's Inverse

// Gauss and Jordan's elimination of [a | inverse], with row pivots. Rows of a matrix that has no inverse end
// as infinities or NaN.
void invert(double* a, double* inverse, int64_t n) {
  std::fill_n(inverse, n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) inverse[i * n + i] = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    }
    const double factor = 1 / a[pivot * n + k];
    for (double* matrix : {a, inverse}) {
      if (pivot != k) std::swap_ranges(matrix + k * n, matrix + (k + 1) * n, matrix + pivot * n);
      std::transform(matrix + k * n, matrix + (k + 1) * n, matrix + k * n,
                     [factor](double value) { return value * factor; });
    }
    for (int64_t i = 0; i < n; ++i) {
      const double times = a[i * n + k];
      if (i == k || times == 0) continue;
      for (double* matrix : {a, inverse}) {
        for (int64_t j = 0; j < n; ++j) matrix[i * n + j] -= times * matrix[k * n + j];
      }
    }
  }
}

Kernel inverse(Prepare& p) {
  const Dims dims = p.dims(0);
  p.expect(dims.size() >= 2 && dims.back() == dims[dims.size() - 2], "the input is not of square matrices");
  const int64_t n = dims.back(), all = count(dims, 0, dims.size() - 2);
  const DType type = p.type(0);
  p.out(0, type, dims);
  p.scratch(static_cast<size_t>(2 * n * n) * sizeof(double));
  return [=](const Args& args) {
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      double *a = args.scratch<double>(), *made = a + n * n;
      for (int64_t m = 0; m < all * n * n; m += n * n) {
        std::transform(args.in<T>(0) + m, args.in<T>(0) + m + n * n, a,
                       [](T value) { return static_cast<double>(static_cast<arithmetic_t<T>>(value)); });
        invert(a, made, n);
        std::transform(made, made + n * n, args.out<T>() + m,
                       [](double value) { return static_cast<T>(static_cast<arithmetic_t<T>>(value)); });
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Det", .prepare = det, .types = kFloats});
  registry->add({.domain = "com.microsoft", .type = "Inverse", .prepare = inverse, .types = kFloats});
});

}  // namespace ephost::cpu
