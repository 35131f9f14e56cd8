// Support vector machines of ai.onnx.ml.
#include <cmath>
#include <numeric>

#include "cpu/engines/scores.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

constexpr const char* kDomain = "ai.onnx.ml";

std::string quantity(int64_t n, const char* of) { return std::to_string(n) + " " + of; }

void apply(Op op, float* x, int64_t n, float a, float b) {
  const void* in[3] = {x, nullptr, nullptr};
  const float params[2] = {a, b};
  simd().ops[static_cast<size_t>(op)](in, x, n, params);
}

// In several strands, so that no addition waits for the last one.
double dot(const float* a, const float* b, int64_t n) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int k = 0; k < 4; ++k) sums[k] += static_cast<double>(a[i + k]) * static_cast<double>(b[i + k]);
  }
  for (; i < n; ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// ---- The kernel function of rows with vectors

class KernelFunction {
 public:
  // Checks the node's attributes.
  explicit KernelFunction(const Node& node) {
    constexpr const char* kNames[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
    const std::string name = node.s("kernel_type", "LINEAR");
    const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
    expect(node, found != std::end(kNames), "the kernel_type '" + name + "' is not known");
    kind_ = static_cast<Kind>(found - std::begin(kNames));
    const std::vector<float> params = node.floats("kernel_params");
    expect(node, params.empty() || params.size() >= 3, "kernel_params are not gamma, coef0 and degree");
    if (!params.empty()) {
      gamma_ = params[0];
      bias_ = params[1];
      degree_ = params[2];
    }
  }

  // Brings [count, features] vectors into the form that is computed with.
  void set_vectors(const std::vector<float>& vectors, int64_t count, int64_t features) {
    count_ = count;
    features_ = features;
    if (kind_ != kRbf) {
      matrix_ = PackedMatrix(vectors.data(), 1, features, features, count);
      return;
    }
    // |x - v|^2 as |x|^2 - 2 x v + |v|^2, which loses less where all is seen from the middle of the vectors.
    const size_t n = static_cast<size_t>(count), m = static_cast<size_t>(features);
    std::vector<double> sums(m, 0);
    for (size_t i = 0; i < n * m; ++i) sums[i % m] += static_cast<double>(vectors[i]);
    for (double sum : sums) middle_.push_back(static_cast<float>(sum / static_cast<double>(count)));
    std::vector<float> scaled(vectors.size());
    squares_.assign(n, 0);
    columns_.resize(n * m);
    for (size_t i = 0; i < n; ++i) {
      double square = 0;
      for (size_t k = 0; k < m; ++k) {
        const float moved = vectors[i * m + k] - middle_[k];
        square += static_cast<double>(moved) * static_cast<double>(moved);
        scaled[i * m + k] = -2 * moved;
        columns_[k * n + i] = vectors[i * m + k];
      }
      squares_[i] = static_cast<float>(square);
      most_ = std::max(most_, squares_[i]);
    }
    matrix_ = PackedMatrix(scaled.data(), 1, features, features, count);
  }

  int64_t count() const { return count_; }
  int64_t features() const { return features_; }
  // Floats of room that `of_rows` needs.
  int64_t room(int64_t rows) const { return kind_ == kRbf ? rows * (features_ + 1) : 0; }
  int64_t work() const { return count_ * (features_ + 8); }  // Of a row.

  // Of these rows with each vector: [rows, count].
  void of_rows(const float* x, int64_t rows, float* to, float* room) const {
    if (kind_ == kRbf) {
      radial(x, rows, to, room);
      return;
    }
    const int64_t n = rows * count_;
    matrix_.multiply(x, rows, nullptr, to);
    if (kind_ == kLinear) {
      return;
    }
    apply(Op::kAffine, to, n, gamma_, bias_);
    if (kind_ == kSigmoid) {
      apply(Op::kTanh, to, n, 0, 0);
    } else if (degree_ == 2) {
      for (int64_t i = 0; i < n; ++i) to[i] *= to[i];
    } else if (degree_ == 3) {
      for (int64_t i = 0; i < n; ++i) to[i] *= to[i] * to[i];
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = std::pow(to[i], degree_);
    }
  }

 private:
  enum Kind : uint8_t { kLinear, kPoly, kRbf, kSigmoid };

  void radial(const float* x, int64_t rows, float* to, float* room) const {
    // Exponents that the sum of products loses less than a millionth of.
    constexpr float kLargest = 8;
    float *moved = room, *squares = room + rows * features_;
    bool near = true;
    for (int64_t i = 0; i < rows; ++i) {
      float square = 0;
      for (int64_t k = 0; k < features_; ++k) {
        const float at = x[i * features_ + k] - middle_[static_cast<size_t>(k)];
        moved[i * features_ + k] = at;
        square += at * at;
      }
      squares[i] = square;
      near = near && std::abs(gamma_) * (square + most_) < kLargest;
    }
    if (near) {
      matrix_.multiply(moved, rows, squares_.data(), to);
      for (int64_t i = 0; i < rows; ++i) {
        apply(Op::kAffine, to + i * count_, count_, -gamma_, -gamma_ * squares[i]);
      }
    } else {
      std::fill(to, to + rows * count_, 0.0f);
      for (int64_t i = 0; i < rows; ++i) {
        float* const sums = to + i * count_;
        for (int64_t k = 0; k < features_; ++k) {
          const float at = x[i * features_ + k], *column = columns_.data() + k * count_;
          for (int64_t j = 0; j < count_; ++j) sums[j] += (at - column[j]) * (at - column[j]);
        }
      }
      apply(Op::kAffine, to, rows * count_, -gamma_, 0);
    }
    apply(Op::kExp, to, rows * count_, 0, 0);
  }

  Kind kind_ = kLinear;
  float gamma_ = 0, bias_ = 0, degree_ = 0;
  int64_t count_ = 0, features_ = 0;
  PackedMatrix matrix_;
  // Of the radial function: the vectors' mean, their squares from there, the largest; and the vectors, a
  // column for each.
  std::vector<float> middle_, squares_, columns_;
  float most_ = 0;
};

// What both machines have: rows are taken some at a time, each thread in memory of its own.
struct Blocks {
  int64_t rows = 1, floats = 0;  // At a time, and of room.

  Blocks(const KernelFunction& function, int64_t more) {
    rows = std::clamp<int64_t>((int64_t{1} << 15) / std::max<int64_t>(1, function.count()) / 6 * 6, 6, 96);
    floats = (rows * (function.count() + more) + function.room(rows) + 15) / 16 * 16;
  }
  // Calls body(first row, rows, room) for all.
  template <typename Body>
  void run(int64_t all, int64_t work, float* room, const Body& body) const {
    parallel_for(all, 1 + 4 * kGrain / (work + 1), [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += rows) {
        body(begin, std::min(rows, end - begin), room + thread_rank() * floats);
      }
    });
  }
};

void check_features(const Prepare& p, const Features& features, int64_t own) {
  if (features.columns != own) {
    p.invalid("rows of " + quantity(features.columns, "features, where the model has ") +
              std::to_string(own));
  }
}

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// ---- SVMRegressor

struct Regressor {
  explicit Regressor(const Node& node) : function(node), coefficients(node.floats("coefficients")) {
    const int64_t count = node.i("n_supports", 0);
    const std::vector<float> rho = node.floats("rho"), vectors = node.floats("support_vectors");
    expect(node, count >= 0, quantity(count, "support vectors"));
    expect(node, !rho.empty(), "it has no rho");
    expect(node, !coefficients.empty(), "it has no coefficients");
    bias = rho[0];
    one_class = node.i("one_class", 0) != 0;
    post_transform(node);
    if (count == 0) {  // One vector, which is the coefficients.
      Node plain;
      function = KernelFunction(plain);
      function.set_vectors(coefficients, 1, static_cast<int64_t>(coefficients.size()));
      coefficients = {1};
      return;
    }
    expect(node, count <= static_cast<int64_t>(coefficients.size()),
           quantity(static_cast<int64_t>(coefficients.size()), "coefficients for ") +
               quantity(count, "support vectors"));
    expect(
        node, !vectors.empty() && static_cast<int64_t>(vectors.size()) % count == 0,
        quantity(static_cast<int64_t>(vectors.size()), "numbers in ") + quantity(count, "support vectors"));
    function.set_vectors(vectors, count, static_cast<int64_t>(vectors.size()) / count);
  }
  KernelFunction function;
  std::vector<float> coefficients;
  float bias = 0;
  bool one_class = false;
};

Kernel svm_regressor(Prepare& p) {
  const auto of = std::make_shared<const Regressor>(p.node);
  const Features features(p);
  check_features(p, features, of->function.features());
  p.out(0, DType::kFloat, {features.rows, 1});
  const Blocks blocks(of->function, 0);
  const size_t room = aligned(features.room());
  p.scratch(room + static_cast<size_t>(p.threads() * blocks.floats) * sizeof(float));
  return [=](const Args& args) {
    const float* x = features.get(args.in(0), args.scratch());
    float* own = reinterpret_cast<float*>(args.scratch<char>() + room);
    const KernelFunction& function = of->function;
    const int64_t count = function.count();
    blocks.run(features.rows, function.work(), own, [&](int64_t begin, int64_t n, float* values) {
      function.of_rows(x + begin * features.columns, n, values, values + blocks.rows * count);
      for (int64_t i = 0; i < n; ++i) {
        const float sum = static_cast<float>(dot(values + i * count, of->coefficients.data(), count) +
                                             static_cast<double>(of->bias));
        args.out<float>()[begin + i] = of->one_class ? (sum > 0 ? 1.0f : -1.0f) : sum;
      }
    });
  };
}

// ---- SVMClassifier

struct Classifier {
  explicit Classifier(const Node& node);

  // The label and the scores of a row from what the kernel function gives for it. `room`: see `room_of_row`.
  void of_vectors(const float* values, void* labels, int64_t row, float* scores, float* room) const;
  // The same from the scores of classes, where there are no vectors.
  void of_scores(void* labels, int64_t row, float* scores) const;
  int64_t room_of_row() const { return pairs + classes + (has_probabilities() ? 2 * classes * classes : 0); }
  bool has_vectors() const { return !first.empty(); }
  bool has_probabilities() const { return !slopes.empty(); }
  int64_t columns() const {
    return !has_vectors() || has_probabilities() ? classes : classes > 2 ? pairs : 2;
  }

  KernelFunction function;
  ClassLabels labels;
  PostTransform how;
  std::vector<float> coefficients, rho, slopes, offsets;
  std::vector<int64_t> first;  // Of each class's vectors, and the end; empty where there are none.
  int64_t classes = 0, pairs = 0;
  bool all_positive = false;

 private:
  void couple(const float* pair_scores, float* to, float* room) const;
};

Classifier::Classifier(const Node& node)
    : function(node),
      labels(node, "classlabels_ints", "classlabels_strings"),
      how(post_transform(node)),
      coefficients(node.floats("coefficients")),
      rho(node.floats("rho")),
      slopes(node.floats("prob_a")),
      offsets(node.floats("prob_b")),
      classes(labels.size()) {
  const auto size = [](const std::vector<float>& list) { return static_cast<int64_t>(list.size()); };
  expect(node, !coefficients.empty(), "it has no coefficients");
  expect(node, !rho.empty(), "it has no rho");
  expect(node, slopes.size() == offsets.size(), "prob_a and prob_b are not equally long");
  expect(node, classes <= int64_t{1} << 15, quantity(classes, "classes"));
  all_positive = std::all_of(coefficients.begin(), coefficients.end(), [](float c) { return c >= 0; });
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = 0;
  const std::vector<int64_t> sizes = node.ints("vectors_per_class");
  for (int64_t each : sizes) {
    expect(node, 0 <= each && each < kMost && count < kMost, quantity(each, "vectors of a class"));
    count += each;
  }
  if (count == 0) {
    expect(node, size(coefficients) % classes == 0,
           quantity(size(coefficients), "coefficients for ") + quantity(classes, "classes"));
    Node plain;
    function = KernelFunction(plain);
    function.set_vectors(coefficients, classes, size(coefficients) / classes);
    slopes.clear();
    return;
  }
  expect(node, classes >= 2, "support vectors of a single class");
  expect(node, static_cast<int64_t>(sizes.size()) == classes,
         "vectors_per_class has " + quantity(static_cast<int64_t>(sizes.size()), "entries for ") +
             quantity(classes, "classes"));
  pairs = classes * (classes - 1) / 2;
  const std::vector<float> vectors = node.floats("support_vectors");
  expect(node, !vectors.empty() && size(vectors) % count == 0,
         quantity(size(vectors), "numbers in ") + quantity(count, "support vectors"));
  expect(node, size(coefficients) / (classes - 1) >= count,
         quantity(size(coefficients), "coefficients for ") + quantity(count, "support vectors and ") +
             quantity(classes, "classes"));
  expect(node, size(rho) >= pairs, "rho has fewer entries than there are pairs of classes");
  expect(node, slopes.empty() || size(slopes) >= pairs,
         "prob_a has fewer entries than there are pairs of classes");
  first.push_back(0);
  for (int64_t each : sizes) first.push_back(first.back() + each);
  function.set_vectors(vectors, count, size(vectors) / count);
}

// Probabilities of classes from those of pairs: algorithm 2 of Wu, Lin and Weng, Probability Estimates for
// Multi-class Classification by Pairwise Coupling (2004). `room`: 2 * classes^2 + classes floats.
void Classifier::couple(const float* pair_scores, float* to, float* room) const {
  const int64_t n = classes;
  float *r = room, *q = r + n * n, *qp = q + n * n;
  for (int64_t i = 0, at = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j, ++at) {
      const size_t pair = static_cast<size_t>(at);
      const float likely = 1 - logistic(pair_scores[at] * slopes[pair] + offsets[pair]);
      r[i * n + j] = std::min(std::max(likely, 1.0e-7f), 1 - 1.0e-7f);
      r[j * n + i] = 1 - r[i * n + j];
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    to[i] = 1 / static_cast<float>(n);
    q[i * n + i] = 0;
    for (int64_t j = 0; j < n; ++j) {
      if (j == i) continue;
      q[i * n + i] += r[j * n + i] * r[j * n + i];
      q[i * n + j] = -r[j * n + i] * r[i * n + j];
    }
  }
  const float enough = 0.005f / static_cast<float>(n);
  for (int step = 0; step < 100; ++step) {
    float pqp = 0, worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      qp[i] = std::inner_product(to, to + n, q + i * n, 0.0f);
      pqp += to[i] * qp[i];
    }
    for (int64_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(qp[i] - pqp));
    if (worst < enough) break;
    for (int64_t i = 0; i < n; ++i) {
      const float by = (pqp - qp[i]) / q[i * n + i], shrink = 1 + by;
      to[i] += by;
      pqp = (pqp + by * (by * q[i * n + i] + 2 * qp[i])) / shrink / shrink;
      for (int64_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + by * q[i * n + j]) / shrink;
        to[j] /= shrink;
      }
    }
  }
}

void Classifier::of_vectors(const float* values, void* to, int64_t row, float* scores, float* room) const {
  const int64_t count = function.count();
  float *of_pairs = room, *votes = room + pairs;
  std::fill(votes, votes + classes, 0.0f);
  for (int64_t i = 0, at = 0; i < classes; ++i) {
    const int64_t a = first[static_cast<size_t>(i)], a_end = first[static_cast<size_t>(i) + 1];
    for (int64_t j = i + 1; j < classes; ++j, ++at) {
      const int64_t b = first[static_cast<size_t>(j)], b_end = first[static_cast<size_t>(j) + 1];
      const float *of_a = coefficients.data() + (j - 1) * count, *of_b = coefficients.data() + i * count;
      of_pairs[at] =
          static_cast<float>(dot(of_a + a, values + a, a_end - a) + dot(of_b + b, values + b, b_end - b) +
                             static_cast<double>(rho[static_cast<size_t>(at)]));
      ++votes[of_pairs[at] > 0 ? i : j];
    }
  }
  labels.write(to, row, largest_of(votes, classes));
  if (has_probabilities()) {
    couple(of_pairs, scores, room + pairs);  // The votes are counted.
    transform(how, scores, 1, classes);
  } else if (classes == 2) {
    both_classes(how, how == PostTransform::kNone, of_pairs[0], scores);
  } else {
    std::copy(of_pairs, of_pairs + pairs, scores);
    transform(how, scores, 1, pairs);
  }
}

void Classifier::of_scores(void* to, int64_t row, float* scores) const {
  for (int64_t i = 0; i < classes; ++i) scores[i] += rho[0];
  const int64_t best = largest_of(scores, classes);
  const float most = scores[best];
  // As onnxruntime has it: of two classes the second one, where the larger score says yes, whosever it is.
  const bool second = classes == 2 && offsets.empty() && (all_positive ? most >= 0.5f : most > 0);
  labels.write(to, row, second ? 1 : best);
  transform(how, scores, 1, classes);
}

Kernel svm_classifier(Prepare& p) {
  const auto of = std::make_shared<const Classifier>(p.node);
  const Features features(p);
  check_features(p, features, of->function.features());
  const int64_t columns = of->columns();
  p.out(0, of->labels.type(), {features.rows});
  const bool wanted = p.wants(1);
  if (wanted) p.out(1, DType::kFloat, {features.rows, columns});
  const Blocks blocks(of->function, 0);
  const int64_t each = (blocks.floats + of->room_of_row() + 15) / 16 * 16;
  Blocks with_room = blocks;
  with_room.floats = each;
  const size_t room = aligned(features.room());
  const int64_t threads = p.threads();
  p.scratch(room +
            static_cast<size_t>(threads * each + (wanted ? 0 : features.rows * columns)) * sizeof(float));
  return [=](const Args& args) {
    const float* x = features.get(args.in(0), args.scratch());
    float* own = reinterpret_cast<float*>(args.scratch<char>() + room);
    float* all = wanted ? args.out<float>(1) : own + threads * each;
    const KernelFunction& function = of->function;
    const int64_t count = function.count();
    const int64_t work = function.work() + of->pairs * 4 + count * of->classes;
    with_room.run(features.rows, work, own, [&](int64_t begin, int64_t n, float* values) {
      float* scores = all + begin * columns;
      float* more = values + blocks.rows * count;
      if (!of->has_vectors()) {
        function.of_rows(x + begin * features.columns, n, scores, more);
        for (int64_t i = 0; i < n; ++i) of->of_scores(args.out(0), begin + i, scores + i * columns);
        return;
      }
      function.of_rows(x + begin * features.columns, n, values, more);
      for (int64_t i = 0; i < n; ++i) {
        of->of_vectors(values + i * count, args.out(0), begin + i, scores + i * columns,
                       values + blocks.floats);
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = kDomain,
                 .type = "SVMRegressor",
                 .supports = [](const Node& node) { return Regressor(node), std::string(); },
                 .prepare = svm_regressor,
                 .types = kFeatures});
  registry->add({.domain = kDomain,
                 .type = "SVMClassifier",
                 .supports = [](const Node& node) { return Classifier(node), std::string(); },
                 .prepare = svm_classifier,
                 .types = kFeatures | kText});
});

}  // namespace ephost::cpu
