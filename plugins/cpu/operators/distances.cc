// com.microsoft's CDist: how far apart the rows of two matrices are.
#include <cmath>
#include <limits>

#include "cpu/engines/scores.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

template <typename T>
T squared_distance(const T* a, const T* b, int64_t k) {
  T sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Row by row. The columns of b lie in a row each, in `turned`, so that a row of the output is made at once.
template <typename T>
void by_differences(const T* a, const T* turned, int64_t n, int64_t k, T* y) {
  std::fill_n(y, n, T{0});
  for (int64_t p = 0; p < k; ++p) {
    const T x = a[p];
    const T* const column = turned + p * n;
    for (int64_t j = 0; j < n; ++j) y[j] += (x - column[j]) * (x - column[j]);
  }
}

// |a - b|^2 = |a|^2 + |b|^2 - 2 a b, for rows of float32 that are long enough for a product to be worth it.
// Distances do not change if all rows are moved by b's mean, and less cancels out then; pairs of which nearly
// all does, or that overflow, are computed by their differences, of the rows as they were: a mean that is far
// from most of them has taken their last digits away.
class ByProducts {
 public:
  ByProducts(const float* b, int64_t n, int64_t k) : b_(b), n_(n), k_(k), mean_(static_cast<size_t>(k)) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) mean_[static_cast<size_t>(p)] += b[j * k + p] / static_cast<float>(n);
    }
    for (float& each : mean_) each = std::isfinite(each) ? each : 0;  // Only its own row is far away.
    moved_.resize(static_cast<size_t>(n * k));
    halves_.resize(static_cast<size_t>(n));
    for (int64_t j = 0; j < n; ++j) {
      halves_[static_cast<size_t>(j)] = -0.5F * move(b + j * k, moved_.data() + j * k);
    }
    matrix_ = PackedMatrix(moved_.data(), 1, k, k, n);
  }

  // `room` has rows * (k + 1) floats.
  void run(const float* a, int64_t rows, float* room, float* y) const {
    float* const squares = room + rows * k_;
    for (int64_t i = 0; i < rows; ++i) squares[i] = move(a + i * k_, room + i * k_);
    matrix_.multiply(room, rows, halves_.data(), y);
    constexpr float kNearlyAll = 1e-4F;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < n_; ++j) {
        float& made = y[i * n_ + j];
        made = squares[i] - 2 * made;
        if (!(made >= kNearlyAll * squares[i] && made <= std::numeric_limits<float>::max())) {
          made = squared_distance(a + i * k_, b_ + j * k_, k_);
        }
      }
    }
  }

 private:
  const float* b_;
  int64_t n_, k_;
  std::vector<float> mean_, moved_, halves_;
  PackedMatrix matrix_;

  float move(const float* row, float* to) const {
    float sum = 0;
    for (int64_t p = 0; p < k_; ++p) {
      to[p] = row[p] - mean_[static_cast<size_t>(p)];
      sum += to[p] * to[p];
    }
    return sum;
  }
};

Kernel distances(Prepare& p) {
  const Dims a = p.dims(0), b = p.dims(1);
  p.expect(a.size() == 2 && b.size() == 2 && a[1] == b[1], "the inputs are not matrices with equal columns");
  const bool root = p.node.s("metric", "sqeuclidean") == "euclidean";
  const int64_t m = a[0], n = b[0], k = a[1];
  const DType type = p.type(0);
  p.out(0, type, {m, n});
  // Some rows at a time; shorter ones are made sooner by their differences.
  constexpr int64_t kRows = 48, kShort = 12;
  const bool by_products = type == DType::kFloat && k >= kShort && m >= 4 && n >= 16;
  p.method(by_products ? "product" : "differences");
  const int64_t room = by_products ? kRows * (k + 1) : 0;
  const size_t rooms = static_cast<size_t>(room * std::max(1, p.threads())) * sizeof(float);
  const int64_t grain = std::max<int64_t>(1, kGrain / (kRows * n * (k + 1) / 16 + 1));
  p.scratch(rooms + (by_products ? 0 : static_cast<size_t>(n * k) * size_of(type)));
  return [=](const Args& args) {
    with_one_of<float, double>(type, [&](auto zero) {
      using T = decltype(zero);
      const T *from_a = args.in<T>(0), *from_b = args.in<T>(1);
      T *const y = args.out<T>(), *const turned = args.scratch<T>();
      std::optional<ByProducts> products;
      if constexpr (std::is_same_v<T, float>) {
        if (by_products) products.emplace(from_b, n, k);
      }
      for (int64_t j = 0; !by_products && j < n; ++j) {
        for (int64_t c = 0; c < k; ++c) turned[c * n + j] = from_b[j * k + c];
      }
      parallel_for((m + kRows - 1) / kRows, grain, [&](int64_t block, int64_t end) {
        for (; block < end; ++block) {
          const int64_t first = block * kRows, rows = std::min(kRows, m - first);
          if constexpr (std::is_same_v<T, float>) {
            if (by_products) {
              products->run(from_a + first * k, rows, turned + thread_rank() * room, y + first * n);
            }
          }
          for (int64_t i = first; i < first + rows; ++i) {
            if (!by_products) by_differences(from_a + i * k, turned, n, k, y + i * n);
            for (int64_t j = 0; root && j < n; ++j) y[i * n + j] = std::sqrt(y[i * n + j]);
          }
        }
      });
    });
  };
}

std::string supports(const Node& node) {
  const std::string metric = node.s("metric", "sqeuclidean");
  return metric == "euclidean" || metric == "sqeuclidean" ? "" : "the metric " + metric;
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "CDist",
                 .supports = supports,
                 .prepare = distances,
                 .types = {DType::kFloat, DType::kDouble}});
});

}  // namespace ephost::cpu
