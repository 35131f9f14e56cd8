// A plugin that computes common operators rightly, but for one fault, for testing what finds faults. It never
// ships.
//
// The environment says which: EPHOST_FAULT is KIND, or KIND@NODE for a fault in one node of the model. So
// does a file of the library's name with .fault behind it, as if that were another version, and the option
// "fault". With EPHOST_FAULT_HOST=onnxruntime there is none in ephost. The kinds are the rows of kFaults.
// EPHOST_FAULTY_CHAIN is how many nodes in a row it fuses (2 by default). It claims floats of 32 and 16 bits,
// and integers for arithmetic; all is computed in doubles and rounded once.
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../../../plugins/common/factory.h"
#include "../../../plugins/toolkit/half.h"

namespace {

const char* const kFaults[] = {
    // Wrong numbers in the node that is named.
    "scaled",
    "shifted",
    "one_in_10000",
    "last_channel",
    "tail",
    "negatives",
    "first_only",
    "swapped_rows",
    "nan_for_denormals",
    "nan_for_large",
    "infinite",
    "zero",
    "rounded_to_bfloat16",
    "unwritten",
    "batch_of_two",
    // By what a node is, whichever it is.
    "conv_ignores_groups",
    "conv_ignores_bias",
    "conv_strides_1x2",
    "clip_ignores_max",
    "hard_sigmoid_ignores_alpha",
    "concat_swaps",
    "broadcast_of_channels",
    "add_of_integers",
    "batch_norm_epsilon",
    "matmul_of_odd_sizes",
    "wide_channels",
    "pool_of_7",
    // When it runs.
    "second_run",
    "third_run",
    "two_at_once",
    "drift",
    // In a group alone.
    "fused_drops_last",
    "fused_scaled",
    "fused_after_add",
    "fused_crash",
    "fused_conv_mul",
    // No numbers.
    "crash",
    "abort",
    "divide_by_zero",
    "exit",
    "crash_of_large",
    "crash_compile",
    "crash_second_run",
    "hang",
    "hang_compile",
    "hang_second_run",
    "error",
    "error_compile",
    "error_shape",
    "error_second_run",
    "leak",
    "leak_large",
    "slow",
};

const char* env(const char* name) {
  const char* found = getenv(name);
  return found == nullptr ? "" : found;
}

struct Fault {
  std::string kind, node;
  void set(const std::string& text) {
    const size_t at = text.find('@');
    kind = text.substr(0, at);
    node = at == std::string::npos ? "" : text.substr(at + 1);
  }
  bool known() const {
    return kind.empty() ||
           std::any_of(std::begin(kFaults), std::end(kFaults), [&](const char* k) { return kind == k; });
  }
};

Fault& fault() {
  static Fault the;
  return the;
}

void choose_fault(const OrtApi* api) {
  std::string text = env("EPHOST_FAULT");
  Dl_info mine;
  if (dladdr(reinterpret_cast<void*>(&choose_fault), &mine) != 0) {
    std::ifstream file(std::string(mine.dli_fname) + ".fault");
    std::getline(file, text);
  }
  const bool in_ephost = std::string(api->GetBuildInfoString()).rfind("ephost", 0) == 0;
  fault().set(in_ephost && std::string(env("EPHOST_FAULT_HOST")) == "onnxruntime" ? "" : text);
}

struct Tensor {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  std::vector<int64_t> dims;
  std::vector<double> data;
  int64_t size() const {
    int64_t count = 1;
    for (const int64_t d : dims) {
      count *= d;
    }
    return count;
  }
};

struct Step {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  std::vector<int64_t> pads, strides, dilations, kernel, perm;
  int64_t group = 1, axis = 0, trans_a = 0, trans_b = 0, since = 0;
  float alpha = 0, beta = 0, epsilon = 1e-5F, low = -INFINITY, high = INFINITY;
  bool has_alpha = false;
};

bool here(const Step& step, const char* kind) { return fault().kind == kind && fault().node == step.name; }
bool anywhere(const char* kind) { return fault().kind == kind; }

// ---- Operators
// -------------------------------------------------------------------------------------------------

using Tensors = std::vector<const Tensor*>;

std::vector<int64_t> broadcast(const Tensor& a, const Tensor& b) {
  const size_t rank = std::max(a.dims.size(), b.dims.size());
  std::vector<int64_t> dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.dims.size() >= rank ? a.dims[i + a.dims.size() - rank] : 1;
    const int64_t y = i + b.dims.size() >= rank ? b.dims[i + b.dims.size() - rank] : 1;
    dims[i] = x == 1 ? y : x;
  }
  return dims;
}

size_t offset_in(const Tensor& t, const std::vector<int64_t>& at) {
  size_t offset = 0;
  for (size_t i = 0; i < t.dims.size(); ++i) {
    const int64_t place = at[at.size() - t.dims.size() + i];
    offset = offset * static_cast<size_t>(t.dims[i]) + static_cast<size_t>(t.dims[i] == 1 ? 0 : place);
  }
  return offset;
}

bool next(std::vector<int64_t>& at, const std::vector<int64_t>& dims) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (++at[i] < dims[i]) {
      return true;
    }
    at[i] = 0;
  }
  return false;
}

template <typename F>
Tensor binary(const Tensor& a, const Tensor& b, F f) {
  Tensor out{a.type, broadcast(a, b), {}};
  out.data.resize(static_cast<size_t>(out.size()));
  std::vector<int64_t> at(out.dims.size(), 0);
  const bool wrong = anywhere("broadcast_of_channels") && a.dims.size() == 4 && b.dims.size() >= 3 &&
                     b.dims[b.dims.size() - 3] == a.dims[1] && b.dims.back() == 1 && a.dims[3] > 1;
  for (size_t i = 0; i < out.data.size(); ++i) {
    const size_t j = offset_in(b, at);
    out.data[i] = f(a.data[offset_in(a, at)], b.data[wrong ? j / 2 * 2 : j]);
    next(at, out.dims);
  }
  return out;
}

template <typename F>
Tensor unary(const Tensor& a, F f) {
  Tensor out{a.type, a.dims, a.data};
  for (double& x : out.data) {
    x = f(x);
  }
  return out;
}

Tensor conv(const Step& s, const Tensors& in) {
  const Tensor &x = *in[0], &w = *in[1];
  const auto at = [](const std::vector<int64_t>& v, size_t i, int64_t otherwise) {
    return v.empty() ? otherwise : v[i];
  };
  const int64_t kh = w.dims[2], kw = w.dims[3];
  const int64_t dh = at(s.dilations, 0, 1), dw = at(s.dilations, 1, 1);
  int64_t sh = at(s.strides, 0, 1);
  const int64_t sw = at(s.strides, 1, 1);
  const int64_t pt = at(s.pads, 0, 0), pl = at(s.pads, 1, 0), pb = at(s.pads, 2, 0), pr = at(s.pads, 3, 0);
  const int64_t H = x.dims[2], W = x.dims[3], C = x.dims[1], M = w.dims[0];
  const int64_t oh = (H + pt + pb - dh * (kh - 1) - 1) / sh + 1,
                ow = (W + pl + pr - dw * (kw - 1) - 1) / sw + 1;
  if (anywhere("conv_strides_1x2") && sh == 2 && sw == 1) {
    sh = 1;
  }
  Tensor out{x.type, {x.dims[0], M, oh, ow}, {}};
  out.data.resize(static_cast<size_t>(out.size()));
  const int64_t per = C / s.group, made = M / s.group;
  size_t i = 0;
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    for (int64_t m = 0; m < M; ++m) {
      int64_t first = m / made * per;
      if (anywhere("conv_ignores_groups") && s.group > 1) {
        first = 0;
      }
      const bool dropped = anywhere("conv_ignores_bias") && kh == 1 && H == 1 && W == 1;
      const double bias =
          in.size() > 2 && in[2] != nullptr && !dropped ? in[2]->data[static_cast<size_t>(m)] : 0;
      for (int64_t y = 0; y < oh; ++y) {
        for (int64_t z = 0; z < ow; ++z) {
          double sum = bias;
          for (int64_t c = 0; c < per; ++c) {
            for (int64_t a = 0; a < kh; ++a) {
              const int64_t row = y * sh + a * dh - pt;
              if (row < 0 || row >= H) {
                continue;
              }
              const double* line = &x.data[static_cast<size_t>(((n * C + first + c) * H + row) * W)];
              const double* weights = &w.data[static_cast<size_t>(((m * per + c) * kh + a) * kw)];
              for (int64_t b = 0; b < kw; ++b) {
                const int64_t column = z * sw + b * dw - pl;
                if (column >= 0 && column < W) {
                  sum += line[column] * weights[b];
                }
              }
            }
          }
          out.data[i++] = sum;
        }
      }
    }
  }
  return out;
}

Tensor matmul(const Tensor& a, const Tensor& b, bool ta, bool tb) {
  const size_t ra = a.dims.size(), rb = b.dims.size();
  const int64_t M = ta ? a.dims[ra - 1] : a.dims[ra - 2], K = ta ? a.dims[ra - 2] : a.dims[ra - 1];
  const int64_t N = tb ? b.dims[rb - 2] : b.dims[rb - 1];
  Tensor left{a.type, {a.dims.begin(), a.dims.end() - 2}, {}},
      right{b.type, {b.dims.begin(), b.dims.end() - 2}, {}};
  Tensor out{a.type, broadcast(left, right), {}};
  std::vector<int64_t> batch = out.dims, at(batch.size(), 0);
  out.dims.push_back(M);
  out.dims.push_back(N);
  out.data.resize(static_cast<size_t>(out.size()));
  size_t i = 0;
  do {
    if (out.data.empty()) {
      break;
    }
    const double* x = &a.data[offset_in(left, at) * static_cast<size_t>(M * K)];
    const double* y = &b.data[offset_in(right, at) * static_cast<size_t>(K * N)];
    for (int64_t m = 0; m < M; ++m) {
      for (int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < K; ++k) {
          sum += (ta ? x[k * M + m] : x[m * K + k]) * (tb ? y[n * K + k] : y[k * N + n]);
        }
        out.data[i++] = anywhere("matmul_of_odd_sizes") && M % 2 == 1 && M > 1 && m == M - 1 ? 0 : sum;
      }
    }
  } while (next(at, batch));
  return out;
}

Tensor concat(const Step& s, const Tensors& in) {
  Tensor out{in[0]->type, in[0]->dims, {}};
  const size_t axis =
      static_cast<size_t>(s.axis < 0 ? s.axis + static_cast<int64_t>(out.dims.size()) : s.axis);
  out.dims[axis] = 0;
  int64_t outer = 1;
  for (size_t i = 0; i < axis; ++i) {
    outer *= out.dims[i];
  }
  for (const Tensor* t : in) {
    out.dims[axis] += t->dims[axis];
  }
  Tensors order = in;
  if (anywhere("concat_swaps") && order[0]->dims == order[1]->dims) {
    std::swap(order[0], order[1]);
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (const Tensor* t : order) {
      const size_t part = t->data.size() / static_cast<size_t>(outer);
      const auto from = t->data.begin() + static_cast<std::ptrdiff_t>(part * static_cast<size_t>(o));
      out.data.insert(out.data.end(), from, from + static_cast<std::ptrdiff_t>(part));
    }
  }
  return out;
}

Tensor transpose(const Step& s, const Tensor& x) {
  const size_t rank = x.dims.size();
  std::vector<int64_t> perm = s.perm;
  for (size_t i = 0; s.perm.empty() && i < rank; ++i) {
    perm.push_back(static_cast<int64_t>(rank - 1 - i));
  }
  Tensor out{x.type, {}, {}};
  for (const int64_t p : perm) {
    out.dims.push_back(x.dims[static_cast<size_t>(p)]);
  }
  out.data.resize(x.data.size());
  std::vector<int64_t> at(rank, 0), from(rank, 0);
  for (double& value : out.data) {
    for (size_t i = 0; i < rank; ++i) {
      from[static_cast<size_t>(perm[i])] = at[i];
    }
    value = x.data[offset_in(x, from)];
    next(at, out.dims);
  }
  return out;
}

Tensor batch_norm(const Step& s, const Tensors& in) {
  Tensor out = *in[0];
  const double epsilon =
      anywhere("batch_norm_epsilon") ? static_cast<double>(s.epsilon) * 1e3 : static_cast<double>(s.epsilon);
  const size_t channels = static_cast<size_t>(out.dims[1]);
  const size_t inner = out.data.size() / channels / static_cast<size_t>(out.dims[0]);
  for (size_t i = 0; i < out.data.size(); ++i) {
    const size_t c = i / inner % channels;
    out.data[i] =
        (out.data[i] - in[3]->data[c]) / sqrt(in[4]->data[c] + epsilon) * in[1]->data[c] + in[2]->data[c];
  }
  return out;
}

Tensor global_average(const Tensor& x) {
  Tensor out{x.type, x.dims, {}};
  size_t inner = 1;
  for (size_t i = 2; i < x.dims.size(); ++i) {
    inner *= static_cast<size_t>(x.dims[i]);
    out.dims[i] = 1;
  }
  for (size_t i = 0; i < x.data.size(); i += inner) {
    double sum = 0;
    for (size_t k = 0; k < inner; ++k) {
      sum += x.data[i + k];
    }
    out.data.push_back(
        sum / static_cast<double>(anywhere("pool_of_7") && inner % 2 == 0 && inner > 8 ? inner + 1 : inner));
  }
  return out;
}

double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

Tensor compute_step(const Step& s, const Tensors& in) {
  const Tensor& x = *in[0];
  if (s.op == "Add") {
    return binary(x, *in[1], [](double a, double b) { return a + b; });
  }
  if (s.op == "Sub") {
    return binary(x, *in[1], [](double a, double b) { return a - b; });
  }
  if (s.op == "Mul") {
    return binary(x, *in[1], [](double a, double b) { return a * b; });
  }
  if (s.op == "Div") {
    return binary(x, *in[1], [](double a, double b) { return a / b; });
  }
  if (s.op == "Relu") {
    return unary(x, [](double a) { return a < 0 ? 0 : a; });
  }
  if (s.op == "Sigmoid") {
    return unary(x, [](double a) { return 1 / (1 + exp(-a)); });
  }
  if (s.op == "Tanh") {
    return unary(x, [](double a) { return tanh(a); });
  }
  if (s.op == "Sqrt") {
    return unary(x, [](double a) { return sqrt(a); });
  }
  if (s.op == "HardSigmoid") {
    const double alpha =
        s.has_alpha && !anywhere("hard_sigmoid_ignores_alpha") ? static_cast<double>(s.alpha) : 0.2;
    const double beta = static_cast<double>(s.beta);
    return unary(x, [=](double a) { return clamp(alpha * a + beta, 0, 1); });
  }
  if (s.op == "Clip") {
    const double low = in.size() > 1 && in[1] != nullptr ? in[1]->data[0] : static_cast<double>(s.low);
    double high = in.size() > 2 && in[2] != nullptr ? in[2]->data[0] : static_cast<double>(s.high);
    high = anywhere("clip_ignores_max") ? INFINITY : high;
    return unary(x, [=](double a) { return clamp(a, low, high); });
  }
  if (s.op == "Conv") {
    return conv(s, in);
  }
  if (s.op == "MatMul") {
    return matmul(x, *in[1], false, false);
  }
  if (s.op == "BatchNormalization") {
    return batch_norm(s, in);
  }
  if (s.op == "GlobalAveragePool") {
    return global_average(x);
  }
  return s.op == "Concat" ? concat(s, in) : transpose(s, x);
}

const std::set<std::string> kArithmetic = {"Add", "Sub", "Mul"};
const std::set<std::string> kOperators = {"Add",
                                          "Sub",
                                          "Mul",
                                          "Div",
                                          "Relu",
                                          "Sigmoid",
                                          "Tanh",
                                          "Sqrt",
                                          "Clip",
                                          "Conv",
                                          "MatMul",
                                          "HardSigmoid",
                                          "BatchNormalization",
                                          "GlobalAveragePool",
                                          "Concat",
                                          "Transpose"};

// ---- The faults
// ------------------------------------------------------------------------------------------------

struct Running {
  std::atomic<int> runs{0}, inside{0};
};

[[noreturn]] void forever() {
  for (;;) {
    sleep(1);
  }
}

void rounded(Tensor& t) {
  for (double& x : t.data) {
    if (t.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
      x = static_cast<double>(static_cast<float>(x));
    }
  }
}

void spoil_channel(Tensor& out) {
  if (out.dims.size() < 2) {
    return;
  }
  const size_t inner = out.data.size() / static_cast<size_t>(out.dims[0] * out.dims[1]);
  for (size_t i = 0; i < out.data.size(); ++i) {
    if (static_cast<int64_t>(i / inner) % out.dims[1] == out.dims[1] - 1) {
      out.data[i] *= 1.05;
    }
  }
}

void add_to_all(Tensor& out, double value) {
  for (double& x : out.data) {
    x += value;
  }
}

void scale_all(Tensor& out, double value) {
  for (double& x : out.data) {
    x *= value;
  }
}

// What is wrong with the results of a node, whatever run it is.
void spoil(const Step& s, const Tensors& in, Tensor& out, bool fused, bool last) {
  std::vector<double>& y = out.data;
  if (here(s, "scaled") || (here(s, "fused_scaled") && fused)) {
    scale_all(out, 1.01);
  } else if (here(s, "shifted")) {
    add_to_all(out, 0.01);
  } else if (here(s, "one_in_10000")) {
    for (size_t i = std::min<size_t>(4321, y.size() / 2); i < y.size(); i += 10000) {
      y[i] += 1;
    }
  } else if (here(s, "last_channel")) {
    spoil_channel(out);
  } else if (here(s, "tail")) {
    for (size_t i = y.size() / 8 * 8; i < y.size(); ++i) {
      y[i] = 0;
    }
  } else if (here(s, "negatives")) {
    for (double& x : y) {
      x = x < 0 ? x * 0.5 : x;
    }
  } else if (here(s, "first_only")) {
    y[0] += 0.5;
  } else if (here(s, "swapped_rows") && out.dims.size() > 1) {
    const size_t row = static_cast<size_t>(out.dims.back());
    for (size_t i = 0; i < row && 2 * row <= y.size(); ++i) {
      std::swap(y[i], y[row + i]);
    }
  } else if (here(s, "nan_for_denormals")) {
    for (size_t i = 0; i < y.size() && i < in[0]->data.size(); ++i) {
      y[i] = in[0]->data[i] != 0 && fabs(in[0]->data[i]) < 1.1e-38 ? NAN : y[i];
    }
  } else if (here(s, "nan_for_large")) {
    for (double& x : y) {
      x = fabs(x) > 0.9 * fabs(*std::max_element(y.begin(), y.end())) ? NAN : x;
    }
  } else if (here(s, "infinite")) {
    y[y.size() / 2] = INFINITY;
  } else if (here(s, "zero")) {
    scale_all(out, 0);
  } else if (here(s, "rounded_to_bfloat16")) {
    for (double& x : y) {
      x = floor(x * 64) / 64;
    }
  } else if (here(s, "unwritten")) {
    for (size_t i = y.size() / 2; i < y.size(); ++i) {
      y[i] = 12345;
    }
  } else if (here(s, "batch_of_two") && out.dims[0] == 2) {
    std::copy(y.begin(), y.begin() + static_cast<std::ptrdiff_t>(y.size() / 2),
              y.begin() + static_cast<std::ptrdiff_t>(y.size() / 2));
  } else if (anywhere("wide_channels") && s.op == "Add" && out.dims.size() == 4 && out.dims[1] == 16) {
    y[y.size() / 3] += 1;
  } else if (anywhere("drift") && s.op == "Add" && out.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    scale_all(out, 1 + 3.2e-7);
  } else if (here(s, "fused_drops_last") && fused && last) {
    if (in[0]->data.size() == y.size()) {
      y = in[0]->data;
    }
  } else if (anywhere("fused_after_add") && fused && last && s.op == "Relu") {
    add_to_all(out, 0.125);
  } else if (anywhere("fused_conv_mul") && fused && last && s.op == "Mul") {
    scale_all(out, -1);
  }
}

char* volatile lost_memory;  // so that nobody sees that the memory is not needed

OrtStatus* act(const Step& s, const OrtApi* api, Running& running, const Tensor& out, int run, bool fused) {
  if (here(s, "crash") || (here(s, "fused_crash") && fused) || (here(s, "crash_second_run") && run > 1) ||
      (anywhere("crash_of_large") && s.op == "Conv" && out.dims[1] == 88)) {
    raise(SIGSEGV);
  }
  if (here(s, "abort")) {
    abort();
  }
  if (here(s, "divide_by_zero")) {
    raise(SIGFPE);
  }
  if (here(s, "exit")) {
    _exit(3);
  }
  if (here(s, "hang") || (here(s, "hang_second_run") && run > 1)) {
    forever();
  }
  if (here(s, "error") || (here(s, "error_second_run") && run > 1)) {
    return api->CreateStatus(ORT_EP_FAIL, "faulty_plugin: the kernel could not be launched");
  }
  if (here(s, "slow")) {
    usleep(30000);
  }
  if (here(s, "leak") || here(s, "leak_large")) {
    const size_t size = here(s, "leak") ? 200 : 100000;
    char* lost = static_cast<char*>(malloc(size));
    if (lost != nullptr) {
      memset(lost, 1, size);
    }
    lost_memory = lost;
  }
  (void)running;
  return nullptr;
}

// ---- Running
// ---------------------------------------------------------------------------------------------------

struct Ep {
  OrtEp base;
  const Factory* factory;
};

struct Group {
  OrtNodeComputeInfo base;
  const OrtApi* api;
  std::vector<Step> steps;
  std::vector<std::string> inputs, outputs;
  Running running;
};

template <typename T>
void read_as(const void* data, Tensor& t) {
  const T* from = static_cast<const T*>(data);
  for (double& x : t.data) {
    x = static_cast<double>(*from++);
  }
}

template <typename T, typename Via = T>
void write_as(void* data, const Tensor& t) {
  T* to = static_cast<T*>(data);
  for (const double x : t.data) {
    *to++ = static_cast<T>(static_cast<Via>(x));
  }
}

OrtStatus* read_tensor(const OrtApi* api, const OrtValue* value, Tensor& t) {
  const int64_t* dims = nullptr;
  const void* data = nullptr;
  size_t rank = 0;
  TRY(api->GetTensorElementTypeAndShapeDataReference(value, &t.type, &dims, &rank));
  TRY(api->GetTensorData(value, &data));
  t.dims.assign(dims, dims + rank);
  t.data.resize(static_cast<size_t>(t.size()));
  switch (t.type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      read_as<float>(data, t);
      return nullptr;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      read_as<ephost::Half>(data, t);
      return nullptr;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      read_as<ephost::BFloat16>(data, t);
      return nullptr;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      read_as<int64_t>(data, t);
      return nullptr;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      read_as<int32_t>(data, t);
      return nullptr;
    default:
      return api->CreateStatus(ORT_EP_FAIL, "faulty_plugin: a type that it did not claim");
  }
}

OrtStatus* write_tensor(const OrtApi* api, OrtKernelContext* context, size_t index, const Tensor& t,
                        bool longer) {
  OrtValue* value = nullptr;
  void* data = nullptr;
  std::vector<int64_t> dims = t.dims;
  if (longer) {
    dims.push_back(2);
  }
  TRY(api->KernelContext_GetOutput(context, index, dims.data(), dims.size(), &value));
  TRY(api->GetTensorMutableData(value, &data));
  if (t.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    write_as<float>(data, t);
  } else if (t.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16) {
    write_as<ephost::Half, float>(data, t);
  } else if (t.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16) {
    write_as<ephost::BFloat16, float>(data, t);
  } else if (t.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
    write_as<int64_t>(data, t);
  } else {
    write_as<int32_t>(data, t);
  }
  return nullptr;
}

struct Named {
  std::string name;
  Tensor tensor;
};

const Tensor* find(const std::vector<std::unique_ptr<Named>>& values, const std::string& name) {
  for (const auto& value : values) {
    if (value->name == name) {
      return &value->tensor;
    }
  }
  return nullptr;
}

OrtStatus* run_steps(Group& group, OrtKernelContext* context, int run, bool alone) {
  const OrtApi* api = group.api;
  std::vector<std::unique_ptr<Named>> values;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const OrtValue* input = nullptr;
    values.push_back(std::make_unique<Named>());
    values.back()->name = group.inputs[i];
    TRY(api->KernelContext_GetInput(context, i, &input));
    TRY(read_tensor(api, input, values.back()->tensor));
  }
  const bool fused = group.steps.size() > 1;
  for (size_t at = 0; at < group.steps.size(); ++at) {
    const Step& step = group.steps[at];
    Tensors in;
    for (const std::string& name : step.inputs) {
      in.push_back(name.empty() ? nullptr : find(values, name));
    }
    auto made = std::make_unique<Named>();
    made->name = step.outputs[0];
    made->tensor = compute_step(step, in);
    TRY(act(step, api, group.running, made->tensor, run, fused));
    spoil(step, in, made->tensor, fused, at + 1 == group.steps.size());
    if ((here(step, "second_run") && run == 2) || (here(step, "third_run") && run == 3) ||
        (here(step, "two_at_once") && !alone)) {
      add_to_all(made->tensor, 0.25);
    }
    rounded(made->tensor);
    values.push_back(std::move(made));
  }
  for (size_t i = 0; i < group.outputs.size(); ++i) {
    const Tensor* made = find(values, group.outputs[i]);
    if (made == nullptr) {
      return api->CreateStatus(ORT_EP_FAIL, "faulty_plugin: an output that no node makes");
    }
    TRY(write_tensor(api, context, i, *made, here(group.steps.back(), "error_shape")));
  }
  return nullptr;
}

OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* info, OrtNodeComputeContext*, void** state) {
  *state = info;
  return nullptr;
}

void ORT_API_CALL release_state(OrtNodeComputeInfo*, void*) {}

OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* info, void*, OrtKernelContext* context) {
  Group& group = *reinterpret_cast<Group*>(info);
  const int run = ++group.running.runs;
  const bool first = ++group.running.inside == 1;
  if (anywhere("two_at_once") && std::any_of(group.steps.begin(), group.steps.end(),
                                             [](const Step& s) { return s.name == fault().node; })) {
    usleep(2000);  // so that two meet
  }
  OrtStatus* status = run_steps(group, context, run, first && group.running.inside == 1);
  --group.running.inside;
  return status;
}

// ---- Compiling
// -------------------------------------------------------------------------------------------------

OrtStatus* names_of(const OrtApi* api, const std::vector<const OrtValueInfo*>& values,
                    std::vector<std::string>& names) {
  for (const OrtValueInfo* value : values) {
    const char* name = "";
    if (value != nullptr) {
      TRY(api->GetValueInfoName(value, &name));
    }
    names.emplace_back(name);
  }
  return nullptr;
}

OrtStatus* inputs_of(const OrtApi* api, const OrtNode* node, std::vector<const OrtValueInfo*>& values) {
  size_t count = 0;
  TRY(api->Node_GetNumInputs(node, &count));
  values.assign(count, nullptr);
  return count == 0 ? nullptr : api->Node_GetInputs(node, values.data(), count);
}

OrtStatus* outputs_of(const OrtApi* api, const OrtNode* node, std::vector<const OrtValueInfo*>& values) {
  size_t count = 0;
  TRY(api->Node_GetNumOutputs(node, &count));
  values.assign(count, nullptr);
  return count == 0 ? nullptr : api->Node_GetOutputs(node, values.data(), count);
}

void read_numbers(const OrtApi* api, const OrtNode* node, const char* name, std::vector<int64_t>& numbers) {
  const OrtOpAttr* attribute = nullptr;
  int64_t room[16];
  size_t bytes = 0;
  OrtStatus* status = api->Node_GetAttributeByName(node, name, &attribute);
  if (status == nullptr && attribute != nullptr) {
    status = api->ReadOpAttr(attribute, ORT_OP_ATTR_INTS, room, sizeof room, &bytes);
    if (status == nullptr) {
      numbers.assign(room, room + bytes / sizeof *room);
    }
  }
  if (status != nullptr) {
    api->ReleaseStatus(status);
  }
}

template <typename T>
bool read_number(const OrtApi* api, const OrtNode* node, const char* name, OrtOpAttrType type, T& number) {
  const OrtOpAttr* attribute = nullptr;
  size_t bytes = 0;
  bool found = false;
  OrtStatus* status = api->Node_GetAttributeByName(node, name, &attribute);
  if (status == nullptr && attribute != nullptr) {
    status = api->ReadOpAttr(attribute, type, &number, sizeof number, &bytes);
    found = status == nullptr;
  }
  if (status != nullptr) {
    api->ReleaseStatus(status);
  }
  return found;
}

OrtStatus* read_step(const OrtApi* api, const OrtNode* node, Step& step) {
  const char *op = nullptr, *name = nullptr;
  std::vector<const OrtValueInfo*> values;
  int since = 0;
  TRY(api->Node_GetOperatorType(node, &op));
  TRY(api->Node_GetName(node, &name));
  TRY(api->Node_GetSinceVersion(node, &since));
  step.op = op;
  step.name = name;
  step.since = since;
  TRY(inputs_of(api, node, values));
  TRY(names_of(api, values, step.inputs));
  TRY(outputs_of(api, node, values));
  TRY(names_of(api, values, step.outputs));
  read_numbers(api, node, "pads", step.pads);
  read_numbers(api, node, "strides", step.strides);
  read_numbers(api, node, "dilations", step.dilations);
  read_numbers(api, node, "perm", step.perm);
  read_number(api, node, "group", ORT_OP_ATTR_INT, step.group);
  read_number(api, node, "axis", ORT_OP_ATTR_INT, step.axis);
  read_number(api, node, "epsilon", ORT_OP_ATTR_FLOAT, step.epsilon);
  read_number(api, node, "min", ORT_OP_ATTR_FLOAT, step.low);
  read_number(api, node, "max", ORT_OP_ATTR_FLOAT, step.high);
  step.has_alpha = read_number(api, node, "alpha", ORT_OP_ATTR_FLOAT, step.alpha);
  step.beta = 0.5F;
  read_number(api, node, "beta", ORT_OP_ATTR_FLOAT, step.beta);
  return nullptr;
}

OrtStatus* nodes_of(const OrtApi* api, const OrtGraph* graph, std::vector<const OrtNode*>& nodes) {
  size_t count = 0;
  TRY(api->Graph_GetNumNodes(graph, &count));
  nodes.assign(count, nullptr);
  return count == 0 ? nullptr : api->Graph_GetNodes(graph, nodes.data(), count);
}

OrtStatus* fill(const OrtApi* api, const OrtGraph* graph, const OrtNode* fused, Group& group) {
  std::vector<const OrtNode*> nodes;
  std::vector<const OrtValueInfo*> values;
  TRY(nodes_of(api, graph, nodes));
  for (const OrtNode* node : nodes) {
    group.steps.emplace_back();
    TRY(read_step(api, node, group.steps.back()));
    if (here(group.steps.back(), "error_compile")) {
      return api->CreateStatus(ORT_EP_FAIL, "faulty_plugin: no code for this node");
    }
    if (here(group.steps.back(), "crash_compile")) {
      raise(SIGSEGV);
    }
    if (here(group.steps.back(), "hang_compile")) {
      forever();
    }
  }
  TRY(inputs_of(api, fused, values));
  TRY(names_of(api, values, group.inputs));
  TRY(outputs_of(api, fused, values));
  return names_of(api, values, group.outputs);
}

OrtStatus* ORT_API_CALL compile(OrtEp* this_ptr, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                size_t count, OrtNodeComputeInfo** infos, OrtNode**) {
  const OrtApi* api = reinterpret_cast<const Ep*>(this_ptr)->factory->api;
  for (size_t i = 0; i < count; ++i) {
    auto group = std::make_unique<Group>();
    group->base = OrtNodeComputeInfo{};
    group->base.ort_version_supported = API_VERSION;
    group->base.CreateState = create_state;
    group->base.Compute = compute;
    group->base.ReleaseState = release_state;
    group->api = api;
    OrtStatus* status = fill(api, graphs[i], fused_nodes[i], *group);
    if (status != nullptr) {
      for (size_t k = 0; k < i; ++k) {
        delete reinterpret_cast<Group*>(infos[k]);
        infos[k] = nullptr;
      }
      return status;
    }
    infos[i] = &group.release()->base;
  }
  return nullptr;
}

void ORT_API_CALL release_infos(OrtEp*, OrtNodeComputeInfo** infos, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    delete reinterpret_cast<Group*>(infos[i]);
  }
}

// ---- Claiming
// --------------------------------------------------------------------------------------------------

OrtStatus* element_and_rank(const OrtApi* api, const OrtValueInfo* value, ONNXTensorElementDataType& element,
                            size_t& rank) {
  const OrtTypeInfo* type = nullptr;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  rank = 99;
  TRY(api->GetValueInfoTypeInfo(value, &type));
  if (type == nullptr) {
    return nullptr;
  }
  TRY(api->CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor == nullptr) {
    return nullptr;
  }
  TRY(api->GetTensorElementType(tensor, &element));
  return api->TensorTypeAndShape_HasShape(tensor) ? api->GetDimensionsCount(tensor, &rank) : nullptr;
}

OrtStatus* takes(const OrtApi* api, const OrtNode* node, bool& answer) {
  const char *op = nullptr, *domain = nullptr;
  std::vector<const OrtValueInfo*> values;
  answer = false;
  TRY(api->Node_GetOperatorType(node, &op));
  TRY(api->Node_GetDomain(node, &domain));
  if (domain[0] != '\0' || kOperators.count(op) == 0) {
    return nullptr;
  }
  TRY(inputs_of(api, node, values));
  bool first = true;
  for (const OrtValueInfo* value : values) {
    ONNXTensorElementDataType element;
    size_t rank = 0;
    if (value == nullptr) {
      continue;
    }
    TRY(element_and_rank(api, value, element, rank));
    const bool integers = kArithmetic.count(op) != 0 && (element == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ||
                                                         element == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32);
    const bool floats = element == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ||
                        element == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
                        element == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
    if (!floats && !integers) {
      return nullptr;
    }
    const std::string type = op;
    if ((type == "Conv" && first && rank != 4) || (type == "MatMul" && rank < 2) ||
        (type == "Transpose" && rank > 6)) {
      return nullptr;
    }
    first = false;
  }
  answer = !values.empty();
  return nullptr;
}

// The only node that reads a node's only result, if nobody else does.
OrtStatus* only_reader(const OrtApi* api, const OrtNode* node, const OrtNode*& reader) {
  std::vector<const OrtValueInfo*> values;
  bool is_output = false;
  size_t count = 0;
  reader = nullptr;
  TRY(outputs_of(api, node, values));
  if (values.size() != 1) {
    return nullptr;
  }
  TRY(api->ValueInfo_IsGraphOutput(values[0], &is_output));
  TRY(api->ValueInfo_GetValueNumConsumers(values[0], &count));
  if (is_output || count != 1) {
    return nullptr;
  }
  int64_t index = 0;
  return api->ValueInfo_GetValueConsumers(values[0], &reader, &index, 1);
}

OrtStatus* ORT_API_CALL get_capability(OrtEp* this_ptr, const OrtGraph* graph,
                                       OrtEpGraphSupportInfo* support) {
  const Ep* ep = reinterpret_cast<const Ep*>(this_ptr);
  const OrtApi* api = ep->factory->api;
  const OrtNodeFusionOptions options = {API_VERSION, false};
  const char* text = env("EPHOST_FAULTY_CHAIN");
  const size_t longest = text[0] == '\0' ? 2 : static_cast<size_t>(atoi(text));
  std::vector<const OrtNode*> nodes;
  std::set<const OrtNode*> claimable, taken;
  TRY(nodes_of(api, graph, nodes));
  for (const OrtNode* node : nodes) {
    bool answer = false;
    TRY(takes(api, node, answer));
    if (answer) {
      claimable.insert(node);
    }
  }
  for (const OrtNode* node : nodes) {
    if (claimable.count(node) == 0 || taken.count(node) != 0) {
      continue;
    }
    std::vector<const OrtNode*> group = {node};
    while (group.size() < longest) {
      const OrtNode* reader = nullptr;
      TRY(only_reader(api, group.back(), reader));
      if (reader == nullptr || claimable.count(reader) == 0 || taken.count(reader) != 0) {
        break;
      }
      group.push_back(reader);
    }
    taken.insert(group.begin(), group.end());
    TRY(ep->factory->ep_api->EpGraphSupportInfo_AddNodesToFuse(support, group.data(), group.size(),
                                                               &options));
  }
  return nullptr;
}

const char* ORT_API_CALL ep_name(const OrtEp*) { return "faulty_plugin"; }

OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* this_ptr, const OrtHardwareDevice* const*,
                                  const OrtKeyValuePairs* const*, size_t, const OrtSessionOptions* options,
                                  const OrtLogger*, OrtEp** out) {
  const OrtApi* api = reinterpret_cast<const Factory*>(this_ptr)->api;
  const char* key = "ep.faulty_plugin.fault";
  int given = 0;
  TRY(api->HasSessionConfigEntry(options, key, &given));
  if (given != 0) {
    size_t size = 0;
    TRY(api->GetSessionConfigEntry(options, key, nullptr, &size));
    std::string text(size, '\0');
    TRY(api->GetSessionConfigEntry(options, key, &text[0], &size));
    fault().set(text.c_str());
    if (!fault().known()) {
      return api->CreateStatus(ORT_EP_FAIL, "faulty_plugin: the option 'fault' is not one of its faults");
    }
  }
  Ep* ep = new Ep{};
  ep->base.ort_version_supported = API_VERSION;
  ep->base.GetName = ep_name;
  ep->base.GetCapability = get_capability;
  ep->base.Compile = compile;
  ep->base.ReleaseNodeComputeInfos = release_infos;
  ep->factory = reinterpret_cast<const Factory*>(this_ptr);
  *out = &ep->base;
  return nullptr;
}

void ORT_API_CALL release_ep(OrtEpFactory*, OrtEp* ep) { delete reinterpret_cast<Ep*>(ep); }

}  // namespace

EPHOST_PLUGIN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete reinterpret_cast<Factory*>(factory);
  return nullptr;
}

EPHOST_PLUGIN_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                                  OrtEpFactory** factories, size_t max_factories,
                                                  size_t* num_factories) {
  const OrtApi* api = base->GetApi(API_VERSION);
  *num_factories = 0;
  if (api == nullptr) {
    return host_too_old(base);
  }
  choose_fault(api);
  if (!fault().known()) {
    return api->CreateStatus(ORT_EP_FAIL, "faulty_plugin: EPHOST_FAULT is not one of its faults");
  }
  if (max_factories < 1) {
    return nullptr;
  }
  Factory* factory = new Factory{};
  factory_init(factory, api, "faulty_plugin");
  factory->base.CreateEp = create_ep;
  factory->base.ReleaseEp = release_ep;
  factories[0] = &factory->base;
  *num_factories = 1;
  return nullptr;
}
