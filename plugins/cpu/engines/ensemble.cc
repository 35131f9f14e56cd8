#include "cpu/engines/ensemble.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/engines/scores.h"
#include "cpu/runtime/parallel.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// Steps of walks that are worth a thread of their own.
constexpr int64_t kSteps = 1 << 14;
// Elements of tiles, and of sums, that stay in the cache while trees pass by.
constexpr int64_t kInCache = 6144;
constexpr size_t kTrees = 16;  // That pass by a tile at a time where they are searched.

// A sum, or what else becomes of weights. It counts as 0 until there is one: but transformations set it.
template <typename T>
struct Score {
  T value = 0;
  bool has = false;
  T get() const { return has ? value : 0; }
  void set(T to) {
    value = to;
    has = true;
  }
};

template <typename T>
float greatest(const std::vector<Score<T>>& scores) {
  float most = -std::numeric_limits<float>::max();
  for (const Score<T>& score : scores) most = std::max(most, static_cast<float>(score.get()));
  return most;
}

template <typename T>
void softmax(std::vector<Score<T>>* scores) {
  const float most = greatest(*scores);
  float sum = 0;
  for (Score<T>& score : *scores) {
    score.set(static_cast<T>(std::exp(static_cast<float>(score.get()) - most)));
    sum += static_cast<float>(score.value);
  }
  for (Score<T>& score : *scores) score.value = static_cast<T>(static_cast<float>(score.value) / sum);
}

// The same, but what is nearly 0 stays that.
template <typename T>
void softmax_zero(std::vector<Score<T>>* scores) {
  constexpr float kNearlyZero = 0.0000001f;
  const float most = greatest(*scores), factor = std::exp(-most);
  float sum = 0;
  for (Score<T>& score : *scores) {
    const float x = static_cast<float>(score.get());
    if (x > kNearlyZero || x < -kNearlyZero) {
      score.set(static_cast<T>(std::exp(x - most)));
      sum += static_cast<float>(score.value);
    } else {
      score.set(score.get() * static_cast<T>(factor));
    }
  }
  for (Score<T>& score : *scores) score.value = score.value / sum;
}

// What becomes of the only score of two classes: that of the positive one, which also gives the other's.
enum class Second : uint8_t { kNone, kComplement, kOpposite };

template <typename T, typename Y>
void write_scores(std::vector<Score<T>>* all, Transform transform, Second second, Y* y) {
  std::vector<Score<T>>& scores = *all;
  if (scores.size() > 1) {
    if (transform == Transform::kSoftmax) softmax(all);
    if (transform == Transform::kSoftmaxZero) softmax_zero(all);
    for (const Score<T>& score : scores) {
      const T value = score.get();
      *y++ = static_cast<Y>(transform == Transform::kProbit     ? probit(static_cast<float>(value))
                            : transform == Transform::kLogistic ? logistic(static_cast<float>(value))
                                                                : value);
    }
    return;
  }
  const T value = scores[0].get();
  if (transform == Transform::kProbit) {
    y[0] = static_cast<Y>(probit(static_cast<float>(value)));
  } else if (second == Second::kNone) {
    y[0] = static_cast<Y>(value);
  } else if (transform == Transform::kLogistic) {
    y[0] = static_cast<Y>(logistic(static_cast<float>(-value)));
    y[1] = static_cast<Y>(logistic(static_cast<float>(value)));
  } else if (second == Second::kComplement) {
    y[0] = static_cast<Y>(1 - value);
    y[1] = static_cast<Y>(value);
  } else {
    y[0] = static_cast<Y>(-value);
    y[1] = static_cast<Y>(value);
  }
}

template <typename T>
class EnsembleOf final : public Ensemble {
 public:
  EnsembleOf(Trees<T> trees, EnsembleRules rules, const std::string& label)
      : Ensemble(std::move(rules)), forest_(std::move(trees), rules_.targets, label) {
    for (double value : rules_.base) base_.push_back(static_cast<T>(value));
  }

  int64_t columns() const override { return forest_.columns(); }

  void run(DType type, const void* x, int64_t rows, int64_t stride, DType to, void* y,
           int64_t* labels) const override {
    const auto with_types = [&](auto from, auto out) {
      using X = decltype(from);
      using Y = decltype(out);
      some_rows(static_cast<const X*>(x), rows, stride, static_cast<Y*>(y), labels);
    };
    if constexpr (std::is_same_v<T, double>) {
      with_one_of<float, double, int32_t, int64_t>(
          type, [&](auto from) { with_one_of<float, double>(to, [&](auto out) { with_types(from, out); }); });
    } else if (type == DType::kFloat16) {
      with_one_of<Half>(to, [&](auto out) { with_types(Half{}, out); });
    } else {
      with_one_of<float, int32_t, int64_t>(
          type, [&](auto from) { with_one_of<float>(to, [&](auto out) { with_types(from, out); }); });
    }
  }

 private:
  // Memory of one thread, kept for the next run.
  struct Room {
    std::vector<T> sums, leaves;
    std::vector<uint8_t> has;
    std::vector<Score<T>> scores;
    // Where so many elements of tiles lie: a line of the cache for the rows of a feature.
    T* tiles(int64_t elements) {
      constexpr size_t kLine = 64;
      kept_tiles.resize(static_cast<size_t>(elements) + kLine / sizeof(T));
      const size_t over = reinterpret_cast<uintptr_t>(kept_tiles.data()) % kLine;
      return kept_tiles.data() + (over == 0 ? 0 : (kLine - over) / sizeof(T));
    }
    std::vector<T> kept_tiles;
  };
  static Room& room() {
    static thread_local Room kept;
    return kept;
  }

  template <typename X, typename Y>
  void some_rows(const X* x, int64_t rows, int64_t stride, Y* y, int64_t* labels) const {
    constexpr int64_t kTile = Forest<T>::kTile;
    const int64_t targets = rules_.targets;
    if (rows <= forest_.few_rows()) {
      for (int64_t r = 0; r < rows; ++r) {
        one_row(x + r * stride, stride, y + r * targets, labels == nullptr ? nullptr : labels + r);
      }
      return;
    }
    const int64_t tiles = (rows + kTile - 1) / kTile;
    const int64_t together = std::max<int64_t>(1, kInCache / (std::max(forest_.tile(), targets * kTile)));
    const int64_t steps = forest_.tile_work() + forest_.tile() + 4 * targets * kTile;
    const int64_t grain = std::max<int64_t>(1, kSteps / steps);
    parallel_for(tiles, grain, [&](int64_t tile, int64_t end) {
      for (; tile < end; tile += together) {
        const int64_t first = tile * kTile, last = std::min(rows, std::min(end, tile + together) * kTile);
        block(x + first * stride, last - first, stride, y + first * targets,
              labels == nullptr ? nullptr : labels + first);
      }
    });
  }

  template <typename X, typename Y>
  void block(const X* x, int64_t rows, int64_t stride, Y* y, int64_t* labels) const {
    constexpr int64_t kTile = Forest<T>::kTile;
    Room& all = room();
    const int64_t targets = rules_.targets, tiles = (rows + kTile - 1) / kTile, size = forest_.tile();
    T* const tile = all.tiles(tiles * size);
    all.sums.assign(static_cast<size_t>(tiles * kTile * targets), 0);
    all.has.assign(static_cast<size_t>(tiles * kTile * targets), 0);
    for (int64_t t = 0; t < tiles; ++t) {
      forest_.fill(x + t * kTile * stride, std::min(kTile, rows - t * kTile), stride, tile + t * size);
    }
    T leaves[kTrees * kTile];
    const size_t step = forest_.searches() ? kTrees : 1;  // What is walked has the cache for itself.
    for (size_t first = 0; first < forest_.trees(); first += step) {
      const size_t last = std::min(forest_.trees(), first + step);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t at = t * kTile * targets, some = std::min(kTile, rows - t * kTile);
        forest_.find(first, last, tile + t * size, some, leaves);
        for (size_t tree = first; tree < last; ++tree) {
          const T* const found = leaves + (tree - first) * kTile;
          if (some == kTile) {  // The compiler knows how many then.
            add(tree, found, kTile, all.sums.data() + at, all.has.data() + at);
          } else {
            add(tree, found, some, all.sums.data() + at, all.has.data() + at);
          }
        }
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      finish(all.sums.data() + r * targets, all.has.data() + r * targets, y + r * targets,
             labels == nullptr ? nullptr : labels + r);
    }
  }

  // Trees are shared out between threads only where there are so many that it is worth to wake one.
  template <typename X, typename Y>
  void one_row(const X* x, int64_t stride, Y* y, int64_t* label) const {
    Room& all = room();
    const size_t targets = static_cast<size_t>(rules_.targets), trees = forest_.trees();
    T* const tile = all.tiles(forest_.tile());
    all.leaves.resize(trees);
    all.sums.assign(targets, 0);
    all.has.assign(targets, 0);
    forest_.fill(x, 1, stride, tile);
    const int64_t n = static_cast<int64_t>(trees);
    const int64_t grain = std::max<int64_t>(1, kSteps * n / std::max<int64_t>(1, forest_.work()));
    parallel_for(n, grain, [&](int64_t first, int64_t last) {
      forest_.walk_first(static_cast<size_t>(first), static_cast<size_t>(last), tile,
                         all.leaves.data() + first);
    });
    for (size_t tree = 0; tree < trees; ++tree) {
      add(tree, all.leaves.data() + tree, 1, all.sums.data(), all.has.data());
    }
    finish(all.sums.data(), all.has.data(), y, label);
  }

  // Adds what is in the leaves that rows reached in a tree to their sums.
  void add(size_t tree, const T* leaves, int64_t rows, T* sums, uint8_t* has) const {
    using Leaves = typename Forest<T>::Leaves;
    const size_t targets = static_cast<size_t>(rules_.targets);
    const bool adds = rules_.aggregate == Aggregate::kSum || rules_.aggregate == Aggregate::kAverage;
    if (adds && forest_.leaves() == Leaves::kOne) {
      const size_t target = forest_.target_of(tree);
      if (targets == 1) {
        for (int64_t r = 0; r < rows; ++r) sums[r] += leaves[r];
        return;
      }
      for (int64_t r = 0; r < rows; ++r) {
        sums[static_cast<size_t>(r) * targets + target] += leaves[r];
        has[static_cast<size_t>(r) * targets + target] = 1;
      }
      return;
    }
    for (int64_t r = 0; r < rows; ++r, sums += targets, has += targets) {
      if (adds && forest_.leaves() == Leaves::kDense) {
        const T* const weights = forest_.dense(leaves[r]);
        for (size_t target = 0; target < targets; ++target) sums[target] += weights[target];
        std::fill_n(has, targets, uint8_t{1});
        continue;
      }
      const auto combine = [&](size_t target, T weight) {
        T& sum = sums[target];
        const bool first = has[target] == 0;
        if (adds) {
          sum += weight;
        } else if (rules_.aggregate == Aggregate::kMin) {
          sum = first || weight < sum ? weight : sum;
        } else {
          sum = first || weight > sum ? weight : sum;
        }
        has[target] = 1;
      };
      if (forest_.leaves() == Leaves::kOne) {
        combine(forest_.target_of(tree), leaves[r]);
      } else if (forest_.leaves() == Leaves::kDense) {
        const T* const weights = forest_.dense(leaves[r]);
        for (size_t target = 0; target < targets; ++target) combine(target, weights[target]);
      } else {
        const auto range = forest_.sparse(leaves[r]);
        for (const auto* w = range.begin; w != range.end; ++w) combine(w->target, w->value);
      }
    }
  }

  template <typename Y>
  void finish(const T* sums, const uint8_t* has, Y* y, int64_t* label) const {
    const size_t targets = static_cast<size_t>(rules_.targets);
    if (targets == 1 && !rules_.classifies) {
      const T value = regress(sums[0], has[0] != 0);
      *y = static_cast<Y>(rules_.transform == Transform::kProbit ? probit(static_cast<float>(value)) : value);
      return;
    }
    if (rules_.transform == Transform::kNone && targets > 2 &&
        forest_.leaves() == Forest<T>::Leaves::kDense && rules_.classifies) {
      const size_t best = plain_scores(sums, y);
      if (label != nullptr) *label = this->label(best);
      return;
    }
    std::vector<Score<T>>& scores = room().scores;
    scores.resize(targets);
    for (size_t i = 0; i < targets; ++i) scores[i] = {sums[i], has[i] != 0};
    if (!rules_.classifies) {
      add_base(&scores);
      write_scores(&scores, rules_.transform, Second::kNone, y);
      return;
    }
    Second second = Second::kNone;
    const int64_t found = targets == 1  ? of_one_class(&scores, &second)
                          : targets > 2 ? of_many_classes(&scores)
                                        : of_two_classes(&scores, &second);
    if (label != nullptr) *label = found;
    if (scores.size() > targets) {  // More scores than there is room for.
      Y both[2];
      write_scores(&scores, rules_.transform, second, both);
      y[0] = both[0];
      return;
    }
    std::fill_n(y, targets, Y{});
    write_scores(&scores, rules_.transform, second, y);
  }

  // Scores of several classes, each of which every leaf has a weight for, as they are; the first of the
  // largest.
  template <typename Y>
  size_t plain_scores(const T* sums, Y* y) const {
    const size_t targets = static_cast<size_t>(rules_.targets);
    const bool based = !base_.empty();
    size_t best = 0;
    T most = 0;
    for (size_t i = 0; i < targets; ++i) {
      const T score = based ? sums[i] + base_[i] : sums[i];
      y[i] = static_cast<Y>(score);
      if (i == 0 || score > most) {
        best = i;
        most = score;
      }
    }
    return best;
  }

  // One target, with the base value.
  T regress(T sum, bool has) const {
    const T base = base_.size() == 1 ? base_[0] : 0;
    switch (rules_.aggregate) {
      case Aggregate::kSum:
        return sum + base;
      case Aggregate::kAverage:
        return sum / static_cast<T>(forest_.trees()) + base;
      default:
        return has ? sum + base : base;
    }
  }

  // Several: where no leaf had a weight for a target, its base value does not count either.
  void add_base(std::vector<Score<T>>* scores) const {
    const bool based = base_.size() == scores->size();
    for (size_t i = 0; i < scores->size(); ++i) {
      Score<T>& score = (*scores)[i];
      if (rules_.aggregate == Aggregate::kAverage) score.value /= static_cast<T>(forest_.trees());
      if (based) score.value += base_[i];
    }
  }

  int64_t of_many_classes(std::vector<Score<T>>* scores) const {
    for (size_t i = 0; i < base_.size(); ++i) (*scores)[i].set((*scores)[i].get() + base_[i]);
    size_t best = scores->size();
    for (size_t i = 0; i < scores->size(); ++i) {
      const Score<T>& score = (*scores)[i];
      if (score.has && (best == scores->size() || score.value > (*scores)[best].value)) best = i;
    }
    return label(best == scores->size() ? 0 : best);
  }

  int64_t of_two_classes(std::vector<Score<T>>* scores, Second* second) const {
    Score<T>&zero = (*scores)[0], &one = (*scores)[1];
    if (base_.size() == 2) {
      if (one.has) {  // The first base value does not count.
        one.value = base_[1] + zero.value;
        zero.value = -one.value;
      } else {
        one.value += base_[1];
        zero.value += base_[0];
      }
    } else {
      if (base_.size() == 1) zero.value += base_[0];
      if (base_.empty()) *second = Second::kOpposite;
      if (!one.has) scores->pop_back();
    }
    return of_binary(*scores, second);
  }

  int64_t of_one_class(std::vector<Score<T>>* scores, Second* second) const {
    (*scores)[0].has = true;
    Score<T>& score = (*scores)[0];
    if (base_.size() == 2) {
      const T sum = score.value + base_[1];
      *scores = {{-sum, true}, {sum, true}};
    } else if (base_.size() == 1) {
      score.value += base_[0];
    }
    return of_binary(*scores, second);
  }

  int64_t label(size_t place) const {
    return rules_.labels.empty() ? static_cast<int64_t>(place) : rules_.labels[place];
  }

  // The label of two classes, and what the score of the negative one is if there is none.
  int64_t of_binary(const std::vector<Score<T>>& scores, Second* second) const {
    const T weight = scores.size() == 2 && scores[1].has ? scores[1].value : scores[0].get();
    if (!rules_.one_class) return weight > 0 ? 1 : 0;  // Whatever the labels are.
    *second = rules_.all_positive ? Second::kComplement : Second::kOpposite;
    return label(weight > (rules_.all_positive ? T{0.5} : T{0}) ? 1 : 0);
  }

  Forest<T> forest_;
  std::vector<T> base_;
};

}  // namespace

template <typename T>
std::shared_ptr<Ensemble> make_ensemble(Trees<T> trees, EnsembleRules rules, const std::string& label) {
  return std::make_shared<EnsembleOf<T>>(std::move(trees), std::move(rules), label);
}

template std::shared_ptr<Ensemble> make_ensemble(Trees<float>, EnsembleRules, const std::string&);
template std::shared_ptr<Ensemble> make_ensemble(Trees<double>, EnsembleRules, const std::string&);

}  // namespace ephost::cpu
