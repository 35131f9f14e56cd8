// Einsum for whatever is not a product of matrices (those are rewritten: see fuse.h), and determinants.
#include <cmath>
#include <cstring>
#include <map>

#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/dispatch.h"
#include "toolkit/passes/einsum.h"

namespace ephost::cpu {
namespace {

Kernel einsum(Prepare& p) {
  std::vector<size_t> ranks;
  for (int i = 0; i < p.inputs(); ++i) {
    ranks.push_back(p.in(i).rank());
  }
  Equation equation;
  p.expect(parse_equation(p.node.s("equation", ""), ranks, &equation),
           "the equation does not fit the inputs");
  // The length of each label: those of the output first, then those that are summed over.
  std::map<char, int64_t> length;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    const Dims& dims = p.dims(static_cast<int>(i));
    const std::string& own = equation.inputs[i];
    for (size_t d = 0; d < dims.size(); ++d) {
      // A diagonal is of squares: only what lies in different inputs is broadcast.
      p.expect(dims[own.find(own[d])] == dims[d], "a label has two lengths in one input");
      int64_t& n = length.emplace(equation.inputs[i][d], 1).first->second;
      p.expect(n == dims[d] || n == 1 || dims[d] == 1, "a label has two lengths");
      n = n == 1 ? dims[d] : n;
    }
  }
  std::string labels = equation.output;
  for (const auto& [label, n] : length) {
    if (labels.find(label) == std::string::npos) labels += label;
  }
  Dims to, loops;
  for (char label : labels) {
    loops.push_back(length[label]);
  }
  to.assign(loops.begin(), loops.begin() + static_cast<ptrdiff_t>(equation.output.size()));
  const Desc out = p.out(0, p.type(0), to);
  // How far each input goes along each label; twice as far where it has the label twice: its diagonal.
  std::vector<Dims> strides;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    const Dims& dims = p.dims(static_cast<int>(i));
    const Dims own = strides_of(dims);
    Dims along(labels.size(), 0);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] > 1) along[labels.find(equation.inputs[i][d])] += own[d];
    }
    strides.push_back(std::move(along));
  }
  const size_t free = to.size(), inputs = strides.size();
  const int64_t results = out.count(), terms = count(loops, free, loops.size());
  return [=](const Args& args) {
    with_type(out.type, [&](auto zero) {
      using T = decltype(zero);
      using A = arithmetic_t<T>;
      parallel_for(results, 1 + kGrain / (terms * 8 + 1), [&](int64_t r, int64_t end) {
        for (; r < end; ++r) {
          A sum{};
          for (int64_t t = 0; t < terms; ++t) {
            A product{1};
            for (size_t i = 0; i < inputs; ++i) {
              int64_t at = 0, rest = r;
              for (size_t d = free; d-- > 0; rest /= loops[d]) at += rest % loops[d] * strides[i][d];
              rest = t;
              for (size_t d = loops.size(); d-- > free; rest /= loops[d])
                at += rest % loops[d] * strides[i][d];
              product = static_cast<A>(product * static_cast<A>(args.in<T>(static_cast<int>(i))[at]));
            }
            sum = static_cast<A>(sum + product);
          }
          args.out<T>()[r] = static_cast<T>(sum);
        }
      });
    });
  };
}

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
  registry->add({.type = "Einsum",
                 .supports =
                     [](const Node& node) {
                       return node.s("equation", "").find_first_of("\"'") != std::string::npos
                                  ? "an equation that is none"
                                  : "";
                     },
                 .prepare = einsum,
                 .types = kNumbers});
  registry->add({.type = "Det", .prepare = det, .types = kFloats});
  registry->add({.domain = "com.microsoft", .type = "Inverse", .prepare = inverse, .types = kFloats});
});

}  // namespace ephost::cpu
