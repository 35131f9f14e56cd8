// Determinants and inverses of square matrices.
#include <cmath>
#include <cstring>
#include <map>

#include "cpu/operator.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// ---- Det

Kernel det(Prepare& p) {
  const Dims& dims = p.dims(0);
  p.expect(dims.size() >= 2 && dims.back() == dims[dims.size() - 2], "the input is not of square matrices");
  const int64_t n = dims.back();
  const DType type = p.type(0);
  const int64_t all = p.out(0, type, Dims(dims.begin(), dims.end() - 2)).count();
  p.scratch(static_cast<size_t>(n * n) * sizeof(double));
  return [=](const Args& args) {
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      double* a = args.scratch<double>();
      for (int64_t m = 0; m < all; ++m) {
        for (int64_t i = 0; i < n * n; ++i) {
          a[i] = static_cast<double>(static_cast<arithmetic_t<T>>(args.in<T>(0)[m * n * n + i]));
        }
        double result = 1;
        for (int64_t k = 0; k < n && result != 0; ++k) {  // Elimination with row pivots.
          int64_t pivot = k;
          for (int64_t i = k + 1; i < n; ++i) {
            if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
          }
          if (pivot != k) {
            std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
            result = -result;
          }
          result *= a[k * n + k];
          for (int64_t i = k + 1; i < n && result != 0; ++i) {
            const double factor = a[i * n + k] / a[k * n + k];
            for (int64_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
          }
        }
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
