#include "cpu/engines/scores.h"

#include <cmath>
#include <numeric>

#include "cpu/engines/product.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {

void expect(const Node& node, bool condition, const std::string& message) {
  if (!condition) {
    invalid(node.label() + ": " + message);
  }
}

Features::Features(const Prepare& p, int input, bool flattened) : type(p.type(input)) {
  const Dims& dims = p.dims(input);
  if (flattened && dims.size() > 2) {
    rows = dims[0];
    columns = count(dims, 1, dims.size());
    return;
  }
  if (dims.size() != 1 && dims.size() != 2) {
    p.invalid("features of shape " + to_string(dims) + ", where a row or rows of them are expected");
  }
  rows = dims.size() == 1 ? 1 : dims[0];
  columns = dims.back();
}

size_t Features::room() const {
  return type == DType::kFloat ? 0 : static_cast<size_t>(rows * columns) * sizeof(float);
}

const float* Features::get(const void* input, void* room) const {
  if (type == DType::kFloat) {
    return static_cast<const float*>(input);
  }
  float* to = static_cast<float*>(room);
  with_one_of<double, int64_t, int32_t>(type, [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(input);
    parallel_for(rows * columns, kGrain, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) to[i] = static_cast<float>(from[i]);
    });
  });
  return to;
}

namespace {

// Sums of few products: of several rows at a time, as each is a chain.
void short_dots(const float* a, int64_t m, int64_t k, const float* b, float start, float* to) {
  constexpr int64_t kRows = 8;
  for (; m >= kRows; m -= kRows, a += kRows * k, to += kRows) {
    float sums[kRows];
    std::fill_n(sums, kRows, start);
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t r = 0; r < kRows; ++r) sums[r] += a[r * k + p] * b[p];
    }
    std::copy_n(sums, kRows, to);
  }
  for (; m > 0; --m, a += k) *to++ = std::inner_product(a, a + k, b, start);
}

}  // namespace

PackedMatrix::PackedMatrix(const float* from, int64_t row, int64_t column, int64_t k, int64_t n)
    : k_(k), n_(n) {
  const int64_t panel = n == 1 ? 1 : simd().panel, panels = (n + panel - 1) / panel;
  std::shared_ptr<void> memory = allocate(static_cast<size_t>(panels * panel * k) * sizeof(float));
  panels_ = {memory, static_cast<float*>(memory.get())};
  if (n == 1) {
    for (int64_t p = 0; p < k; ++p) panels_.get()[p] = from[p * row];
  } else if (k > 0 && n > 0) {
    simd().gemm_pack(from, row, column, k, n, panels_.get());
  }
}

void PackedMatrix::multiply(const float* a, int64_t m, const float* bias, float* to) const {
  if (m == 0 || n_ == 0) {
    return;
  }
  constexpr int64_t kShort = 64;
  if (n_ == 1 && k_ < kShort) {
    return short_dots(a, m, k_, panels_.get(), bias == nullptr ? 0 : *bias, to);
  }
  if (n_ == 1) {
    GemmBlock block{};
    block.m = m;
    block.n = 1;
    block.k = k_;
    block.a = a;
    block.a_row = k_;
    block.a_step = 1;
    block.b = panels_.get();
    block.b_step = 1;
    block.b_panel = k_;
    block.c = to;
    block.c_row = 1;
    block.bias = bias;
    simd().gemm_dots(block);
    return;
  }
  GemmBlock whole{};
  whole.m = m;
  whole.n = n_;
  whole.k = k_;
  whole.a = a;
  whole.a_row = k_;
  whole.a_step = 1;
  whole.b = panels_.get();
  whole.b_step = simd().panel;
  whole.b_panel = k_ * simd().panel;
  whole.c = to;
  whole.c_row = n_;
  whole.bias = bias;
  gemm_in_blocks(whole);
}

PostTransform post_transform(const Node& node) {
  const std::string name = node.s("post_transform", "NONE");
  constexpr const char* kNames[] = {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  expect(node, found != std::end(kNames), "the post_transform '" + name + "' is not known");
  return static_cast<PostTransform>(found - std::begin(kNames));
}

float logistic(float score) {
  const float wide = 1 / (1 + std::exp(-std::abs(score)));
  return score < 0 ? 1 - wide : wide;
}

float probit(float score) {
  constexpr float kPi = 3.14159265358979323846f, kRoot2 = 1.41421356237309504880f, kA = 0.147f;
  const float x = 2 * score - 1, log = std::log((1 - x) * (1 + x));
  const float v = 2 / (kPi * kA) + 0.5f * log, w = 1 / kA * log;
  return kRoot2 * ((x < 0 ? -1.0f : 1.0f) * std::sqrt(-v + std::sqrt(v * v - w)));
}

namespace {

// A softmax in which scores of about 0 stay so.
void softmax_zero(float* scores, int64_t n) {
  const float most = *std::max_element(scores, scores + n), least = std::exp(-most);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (std::abs(scores[i]) > 1e-7f) {
      scores[i] = std::exp(scores[i] - most);
      sum += scores[i];
    } else {
      scores[i] *= least;
    }
  }
  for (int64_t i = 0; i < n; ++i) scores[i] /= sum;
}

}  // namespace

void transform(PostTransform how, float* scores, int64_t rows, int64_t classes) {
  const int64_t n = rows * classes;
  if (n == 0 || how == PostTransform::kNone || (classes == 1 && how != PostTransform::kProbit)) {
    return;
  }
  switch (how) {
    case PostTransform::kLogistic: {
      const void* in[3] = {scores, nullptr, nullptr};
      const float none[2] = {};
      simd().ops[static_cast<size_t>(Op::kSigmoid)](in, scores, n, none);
      break;
    }
    case PostTransform::kSoftmax:
      for (int64_t i = 0; i < rows; ++i) {
        simd().softmax(scores + i * classes, nullptr, scores + i * classes, classes, 1, false);
      }
      break;
    case PostTransform::kSoftmaxZero:
      for (int64_t i = 0; i < rows; ++i) softmax_zero(scores + i * classes, classes);
      break;
    default:
      for (int64_t i = 0; i < n; ++i) scores[i] = probit(scores[i]);
  }
}

void both_classes(PostTransform how, bool mirrored, float score, float* to) {
  if (how == PostTransform::kLogistic) {
    to[0] = logistic(-score);
    to[1] = logistic(score);
    return;
  }
  if (how == PostTransform::kProbit) {
    score = probit(score);
  }
  to[0] = mirrored ? -score : 1 - score;
  to[1] = score;
}

ClassLabels::ClassLabels(const Node& node, const char* integers, const char* strings) {
  const std::vector<std::string> texts = node.strings(strings);
  const std::vector<int64_t> numbers = node.ints(integers);
  expect(node, texts.empty() != numbers.empty(),
         std::string("it needs the labels of classes in one of '") + integers + "' and '" + strings + "'");
  integers_ = numbers;
  size_ = static_cast<int64_t>(texts.empty() ? numbers.size() : texts.size());
  texts_ = texts.empty() ? nullptr : make_texts({size_}, texts);
}

}  // namespace ephost::cpu
