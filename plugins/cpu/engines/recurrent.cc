#include "cpu/engines/recurrent.h"

#include <algorithm>

#include "cpu/engines/tiles.h"
#include "cpu/operator.h"
#include "toolkit/activations.h"

namespace ephost::cpu {
namespace {

// Any of the table, but for Clip, whose bounds have no defaults here. Null if there is none.
const ActivationRow* gate_named(const std::string& name) {
  const ActivationRow* row = activation_named(name);
  return row == nullptr || row->activation == Activation::kClip ? nullptr : row;
}

}  // namespace

std::vector<Gate> gates_of(const Node& node, size_t directions, const std::vector<std::string>& each) {
  std::vector<std::string> names = node.strings("activations");
  if (names.empty()) {
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), each.begin(), each.end());
  }
  const std::vector<float> alphas = node.floats("activation_alpha"), betas = node.floats("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Gate> out;
  for (const std::string& name : names) {
    const ActivationRow* row = gate_named(name);
    if (row == nullptr) {
      invalid(node.label() + ": there is no activation '" + name + "'");
    }
    const auto next = [](const char* parameter, const std::vector<float>& given, size_t* i, float otherwise) {
      return *parameter != '\0' && *i < given.size() ? given[(*i)++] : otherwise;
    };
    Gate made;
    made.op = op_of(row->activation);
    made.params[0] = next(row->a, alphas, &alpha, row->a_default);
    made.params[1] = next(row->b, betas, &beta, row->b_default);
    out.push_back(made);
  }
  return out;
}

std::string known_activations(const Node& node) {
  for (const std::string& name : node.strings("activations")) {
    if (gate_named(name) == nullptr) {
      return "the activation " + name;
    }
  }
  return "";
}

void clip_gate(float bound, float* x, int64_t n) {
  if (bound > 0) {
    for (int64_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], -bound, bound);
  }
}

void LstmCell::update(float* gates, int64_t step, int64_t first, int64_t count, float* h, float* c) const {
  float *const in = gates, *const out = in + step, *const forget = out + step, *const cell = forget + step;
  h += first;
  c += first;
  const float* const own = peepholes == nullptr ? nullptr : peepholes + first;
  if (own != nullptr) {
    for (int64_t i = 0; i < count; ++i) in[i] += own[i] * c[i];
    for (int64_t i = 0; i < count; ++i) forget[i] += own[2 * hidden + i] * c[i];
  }
  for (float* gate : {in, forget, cell}) clip_gate(clip, gate, count);
  activations[0].apply(in, count);
  if (input_forget) {
    for (int64_t i = 0; i < count; ++i) forget[i] = 1 - in[i];
  } else {
    activations[0].apply(forget, count);
  }
  activations[1].apply(cell, count);
  for (int64_t i = 0; i < count; ++i) c[i] = forget[i] * c[i] + in[i] * cell[i];
  if (own != nullptr) {
    for (int64_t i = 0; i < count; ++i) out[i] += own[hidden + i] * c[i];
  }
  clip_gate(clip, out, count);
  activations[0].apply(out, count);
  std::copy_n(c, count, h);
  activations[2].apply(h, count);
  for (int64_t i = 0; i < count; ++i) h[i] *= out[i];
}

int64_t longest_sequence(const int32_t* lengths, int64_t batch, int64_t steps, const std::string& label) {
  int64_t longest = 0;
  for (int64_t b = 0; b < batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > steps) {
      invalid(label + ": sequence " + std::to_string(b) + " has the length " + std::to_string(lengths[b]) +
              ", and the input has " + std::to_string(steps) + " steps");
    }
    longest = std::max<int64_t>(longest, lengths[b]);
  }
  return longest;
}

}  // namespace ephost::cpu
