// What models of ai.onnx.ml share: rows of features, labels of classes, and what is made of scores.
#ifndef EPHOST_CPU_ENGINES_SCORES_H_
#define EPHOST_CPU_ENGINES_SCORES_H_

#include "cpu/operator.h"
#include "toolkit/text.h"

namespace ephost::cpu {

inline constexpr Types kFeatures{DType::kFloat, DType::kDouble, DType::kInt64, DType::kInt32};

// Error(ORT_INVALID_ARGUMENT) that names the node, unless the condition holds.
void expect(const Node& node, bool condition, const std::string& message);

// Rows of features, read as float32: a vector is one row.
struct Features {
  DType type;
  int64_t rows, columns;

  // `flattened`: of more than two dimensions all but the first are a row.
  explicit Features(const Prepare& p, int input = 0, bool flattened = false);
  // Bytes of the room that `get` needs.
  size_t room() const;
  // The input as float32: itself, or in `room` what it is converted to.
  const float* get(const void* input, void* room) const;
};

// A constant k x n matrix for products with rows.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Element (p, j) is at from[p * row + j * column].
  PackedMatrix(const float* from, int64_t row, int64_t column, int64_t k, int64_t n);
  // `to` [m, n] = a [m, k] times it, plus a bias for each column unless that is null. On the calling thread.
  void multiply(const float* a, int64_t m, const float* bias, float* to) const;

 private:
  int64_t k_ = 0, n_ = 0;
  std::shared_ptr<float> panels_;  // A single column lies as it is.
};

enum class PostTransform : uint8_t { kNone, kLogistic, kSoftmax, kSoftmaxZero, kProbit };
// The node's attribute post_transform; an Error for what is none.
PostTransform post_transform(const Node& node);

float logistic(float score);
// The inverse of the normal distribution, by Winitzki's approximation of the inverse error function.
float probit(float score);
// Scores [rows, classes] in place. Of a single class only the probit is taken.
void transform(PostTransform how, float* scores, int64_t rows, int64_t classes);
// The scores of two classes from the one of the second. `mirrored`: the first one's is that with the other
// sign, not what it lacks to 1.
void both_classes(PostTransform how, bool mirrored, float score, float* to);

// The labels of classes, strings or integers, as two attributes of the node have them.
class ClassLabels {
 public:
  ClassLabels(const Node& node, const char* integers, const char* strings);
  DType type() const { return texts_ == nullptr ? DType::kInt64 : DType::kString; }
  int64_t size() const { return size_; }
  // Puts label `label` at place i of an output; nowhere, if the node leaves that out.
  void write(void* to, int64_t i, int64_t label) const {
    if (to == nullptr) return;
    if (texts_ == nullptr) {
      static_cast<int64_t*>(to)[i] = integers_[static_cast<size_t>(label)];
    } else {
      static_cast<Text*>(to)[i] = texts_->as<Text>()[label];
    }
  }

 private:
  int64_t size_ = 0;
  std::vector<int64_t> integers_;
  TensorPtr texts_;
};

// The first of the largest.
inline int64_t largest_of(const float* scores, int64_t n) {
  return std::max_element(scores, scores + n) - scores;
}

}  // namespace ephost::cpu

#endif
