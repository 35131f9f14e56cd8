// Losses of classification: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include <atomic>
#include <cmath>
#include <limits>

#include "cpu/engines/as_float.h"
#include "cpu/engines/tiles.h"
#include "cpu/operator.h"
#include "cpu/simd/simd.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kTogether = 256;  // Neighbours whose classes are looked at side by side.

// Scores [batch, classes, inner], and one target for each of [batch, inner].
struct Targets {
  int64_t batch = 0, classes = 0, inner = 0;
  bool wide = true;  // int64, not int32.
  bool ignores = false;
  int64_t ignored = 0;

  explicit Targets(Prepare& p) : wide(p.type(1) == DType::kInt64) {
    const Dims &scores = p.dims(0), &targets = p.dims(1);
    p.expect(scores.size() >= 2, "the scores have no axis of classes");
    Dims expected = scores;
    expected.erase(expected.begin() + 1);
    p.expect(targets == expected, "the targets do not fit the scores");
    p.expect(!p.has(2) || p.dims(2) == Dims{scores[1]}, "the weights are not one for each class");
    batch = scores[0];
    classes = scores[1];
    inner = count(scores, 2, scores.size());
    ignores = p.node.has("ignore_index");
    ignored = p.node.i("ignore_index", 0);
  }
  int64_t items() const { return batch * inner; }
  // The class of an item: -1 if it is ignored, -2 if there is none such. As in the functions' bodies, classes
  // may be counted from the end.
  int64_t at(const void* targets, int64_t item) const {
    int64_t target =
        wide ? static_cast<const int64_t*>(targets)[item] : static_cast<const int32_t*>(targets)[item];
    if (ignores && target == ignored) return -1;
    target += target < 0 ? classes : 0;
    return target >= 0 && target < classes ? target : -2;
  }
};

enum class Kept { kAll, kSum, kMean };

Kept kept_of(const Node& node) {
  const std::string name = node.s("reduction", "mean");
  return name == "none" ? Kept::kAll : name == "sum" ? Kept::kSum : Kept::kMean;
}

std::string supports(const Node& node) {
  const std::string name = node.s("reduction", "mean");
  return name == "none" || name == "sum" || name == "mean" ? "" : "reduction '" + name + "'";
}

// Declares the loss, and returns what makes it of logarithms of probabilities: pick(item, class), of items
// one after the other.
template <typename T>
auto loss_of(Prepare& p, const Targets& targets) {
  const Kept kept = kept_of(p.node);
  p.out(0, p.type(0), kept == Kept::kAll ? p.dims(1) : Dims{});
  return [=, label = p.node.label()](const Args& args, const auto& pick) {
    const void* const at = args.in(1);
    const T* const weights = args.in<T>(2);
    T* const y = args.out<T>(0);
    double sum = 0, divisor = 0;
    for (int64_t item = 0; item < targets.items(); ++item) {
      const int64_t target = targets.at(at, item);
      if (target == -2) invalid(label + ": a target is none of the classes");
      const T weight = target < 0 ? T{0} : weights == nullptr ? T{1} : weights[target];
      const T loss = target < 0 ? T{0} : -pick(item, target) * weight;
      if (kept == Kept::kAll) {
        y[item] = loss;
      } else {
        sum += static_cast<double>(loss);
        divisor += static_cast<double>(weight);
      }
    }
    if (kept != Kept::kAll) *y = static_cast<T>(kept == Kept::kMean ? sum / divisor : sum);
  };
}

// ---- NegativeLogLikelihoodLoss

template <typename T>
Kernel likelihood_of(Prepare& p) {
  const Targets targets(p);
  return [=, loss = loss_of<T>(p, targets)](const Args& args) {
    const T* const x = args.in<T>(0);
    if (targets.inner == 1) {
      loss(args, [&](int64_t item, int64_t target) { return x[item * targets.classes + target]; });
      return;
    }
    int64_t image = 0, next = targets.inner;  // Of the item, and the first item of the next image.
    loss(args, [&](int64_t item, int64_t target) {
      for (; item >= next; next += targets.inner) ++image;
      return x[(image * targets.classes + target - image) * targets.inner + item];
    });
  };
}

Kernel likelihood(Prepare& p) {
  return p.type(0) == DType::kDouble ? likelihood_of<double>(p) : likelihood_of<float>(p);
}

// ---- SoftmaxCrossEntropyLoss

template <typename T>
void exponentials(const T* x, T* y, int64_t n) {
  const void* in[3] = {x, nullptr, nullptr};
  const float none[2] = {0, 0};
  op_tile(Op::kExp, dtype_of<T>)(in, y, n, none);
}

// Of n <= kTogether columns of a matrix with rows `step` elements apart: the greatest element of each, NaN
// where there is one, and the logarithm of the sum of exponentials of the differences to it.
template <typename T>
void log_sums(const T* x, int64_t rows, int64_t step, int64_t n, T* greatest, T* logarithm) {
  std::fill(greatest, greatest + n, -std::numeric_limits<T>::infinity());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      const T value = x[r * step + i], old = greatest[i];
      greatest[i] = ((value > old) | (value != value)) ? value : old;
    }
  }
  T room[kTogether], sums[kTogether] = {};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; ++i) room[i] = x[r * step + i] - greatest[i];
    exponentials(room, room, n);
    for (int64_t i = 0; i < n; ++i) sums[i] += room[i];
  }
  for (int64_t i = 0; i < n; ++i) logarithm[i] = std::log(sums[i]);
}

// The same of a row in one piece.
template <typename T>
void log_sum(const T* x, int64_t n, T* greatest, T* logarithm) {
  const T most = reduce_row(kGreatest, x, n, -std::numeric_limits<T>::infinity());
  T room[kTogether], sum = 0;
  for (int64_t begin = 0; begin < n; begin += kTogether) {
    const int64_t part = std::min(kTogether, n - begin);
    for (int64_t i = 0; i < part; ++i) room[i] = x[begin + i] - most;
    exponentials(room, room, part);
    sum = reduce_row(kSum, room, part, sum);
  }
  *greatest = most;
  *logarithm = std::log(sum);
}

template <typename T>
Kernel cross_entropy_of(Prepare& p) {
  const Targets targets(p);
  const auto loss = loss_of<T>(p, targets);
  if (p.wants(1)) p.out(1, p.type(0), p.dims(0));
  // Of each item, what log_sums gives.
  p.scratch(static_cast<size_t>(2 * targets.items()) * sizeof(T));
  const int64_t parts = (targets.inner + kTogether - 1) / kTogether;
  return [=](const Args& args) {
    const T* const x = args.in<T>(0);
    T *const greatest = args.scratch<T>(), *const logarithm = greatest + targets.items();
    T* const y = args.out<T>(1);
    const int64_t classes = targets.classes, inner = targets.inner;
    const int64_t width = std::min(kTogether, inner);
    parallel_for(targets.batch * parts, 1 + kGrain / (8 * classes * width + 1),
                 [&](int64_t part, int64_t end) {
                   for (; part < end; ++part) {
                     const int64_t image = part / parts, first = part % parts * kTogether;
                     const int64_t n = std::min(kTogether, inner - first), at = image * inner + first;
                     const T* const from = x + image * classes * inner + first;
                     if (inner == 1) {
                       log_sum(from, classes, greatest + at, logarithm + at);
                     } else {
                       log_sums(from, classes, inner, n, greatest + at, logarithm + at);
                     }
                     if (y == nullptr) continue;
                     T* const to = y + (from - x);
                     if (inner == 1) {
                       for (int64_t c = 0; c < classes; ++c) to[c] = from[c] - greatest[at] - logarithm[at];
                       continue;
                     }
                     for (int64_t c = 0; c < classes; ++c) {
                       for (int64_t i = 0; i < n; ++i) {
                         to[c * inner + i] = from[c * inner + i] - greatest[at + i] - logarithm[at + i];
                       }
                     }
                   }
                 });
    int64_t image = 0, next = inner;  // Of the item, and the first item of the next image.
    loss(args, [&](int64_t item, int64_t target) {
      for (; item >= next; next += inner) ++image;
      return x[(image * classes + target - image) * inner + item] - greatest[item] - logarithm[item];
    });
  };
}

Kernel cross_entropy(Prepare& p) {
  return p.type(0) == DType::kDouble ? cross_entropy_of<double>(p) : cross_entropy_of<float>(p);
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr Types kTaken = kFloats | Types{DType::kInt32, DType::kInt64};
  registry->add({.type = "NegativeLogLikelihoodLoss",
                 .supports = supports,
                 .prepare = with_halves(likelihood),
                 .types = kTaken,
                 .min_version = 12});
  registry->add({.type = "SoftmaxCrossEntropyLoss",
                 .supports = supports,
                 .prepare = with_halves(cross_entropy),
                 .types = kTaken,
                 .min_version = 12});
});

}  // namespace ephost::cpu
