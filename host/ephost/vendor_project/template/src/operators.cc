#include "operators.h"

#include <cmath>

namespace plugin {
namespace {

template <float (*function)(float)>
void unary(const float* a, const float*, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = function(a[i]);
  }
}

template <float (*function)(float, float)>
void binary(const float* a, const float* b, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = function(a[i], b[i]);
  }
}

float add(float x, float y) { return x + y; }
float subtract(float x, float y) { return x - y; }
float multiply(float x, float y) { return x * y; }
float divide(float x, float y) { return x / y; }
float absolute(float x) { return std::fabs(x); }
float negate(float x) { return -x; }
float relu(float x) { return x < 0.0f ? 0.0f : x; }  // this way round NaN stays NaN
float square_root(float x) { return std::sqrt(x); }
float tangent(float x) { return std::tanh(x); }
float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

const Operator kOperators[] = {
    {"Abs", 1, 6, 13, unary<absolute>},    {"Add", 2, 7, 14, binary<add>},
    {"Div", 2, 7, 14, binary<divide>},     {"Mul", 2, 7, 14, binary<multiply>},
    {"Neg", 1, 6, 13, unary<negate>},      {"Relu", 1, 6, 14, unary<relu>},
    {"Sigmoid", 1, 6, 13, unary<sigmoid>}, {"Sqrt", 1, 6, 13, unary<square_root>},
    {"Sub", 2, 7, 14, binary<subtract>},   {"Tanh", 1, 6, 13, unary<tangent>},
};

}  // namespace

const Operator* find_operator(const std::string& domain, const std::string& type, int since_version) {
  for (const Operator& row : kOperators) {
    if (domain.empty() && type == row.type && since_version >= row.since_first &&
        since_version <= row.since_last) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace plugin
