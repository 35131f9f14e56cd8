// What ai.onnx.ml makes of a forest: the sums of its leaves for each row, and scores and labels of those.
//
// The numbers are onnxruntime's with one thread, to the last digit: weights are added in the order of the
// trees however many threads there are.
#ifndef EPHOST_CPU_ENGINES_ENSEMBLE_H_
#define EPHOST_CPU_ENGINES_ENSEMBLE_H_

#include <memory>
#include <string>
#include <vector>

#include "cpu/engines/forest.h"
#include "toolkit/types.h"

namespace ephost::cpu {

// In the order of TreeEnsemble's numbers for it.
enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };
enum class Transform : uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

struct EnsembleRules {
  Aggregate aggregate = Aggregate::kSum;
  Transform transform = Transform::kNone;
  int64_t targets = 1;  // Or classes.
  std::vector<double> base;
  bool classifies = false;
  // Of classifiers.
  bool one_class = false;       // Two classes, and all weights are one's.
  bool all_positive = false;    // No weight is below 0.
  std::vector<int64_t> labels;  // None where they are strings: their places are given then.
};

class Ensemble {
 public:
  virtual ~Ensemble() = default;
  virtual int64_t columns() const = 0;
  // Rows of elements of type `type`, `stride` apart, to [rows, targets] of type `to`. `labels`, of
  // classifiers only, may be null.
  virtual void run(DType type, const void* x, int64_t rows, int64_t stride, DType to, void* y,
                   int64_t* labels) const = 0;

  const EnsembleRules& rules() const { return rules_; }

 protected:
  explicit Ensemble(EnsembleRules rules) : rules_(std::move(rules)) {}
  EnsembleRules rules_;
};

template <typename T>
std::shared_ptr<Ensemble> make_ensemble(Trees<T> trees, EnsembleRules rules, const std::string& label);

}  // namespace ephost::cpu

#endif
