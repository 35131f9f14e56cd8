// com.microsoft's DynamicQuantizeLSTM: an LSTM whose products are those of bytes. It rounds what onnxruntime
// rounds together with one thread: X with one scale, and in each step the states of the whole batch.
#include <cstring>

#include "cpu/engines/int8/int8.h"
#include "cpu/engines/recurrent.h"
#include "cpu/operator.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

enum Input { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes, kScaleW, kZeroW, kScaleR, kZeroR };

// Units of the state; what they have of a gate fills panels of its own.
int64_t padded(int64_t hidden) { return (hidden + kColumns - 1) / kColumns * kColumns; }

// W or R of a direction each, [k, 4 * hidden], as [k, 4 * padded(hidden)].
using Weights = std::vector<Panels>;

std::shared_ptr<Weights> pack(const TensorPtr& weights) {
  return Prepare::packed<Weights>(weights, "int8 gates", [&] {
    const int64_t k = weights->dims[1], width = weights->dims[2], hidden = width / 4, each = padded(hidden);
    if (weights->data == nullptr && count(weights->dims) != 0) fail("a weight is gone before it was packed");
    auto made = std::make_shared<Weights>();
    std::vector<uint8_t> apart(static_cast<size_t>(each == hidden ? 0 : k * 4 * each));
    for (int64_t d = 0; d < weights->dims[0]; ++d) {
      const uint8_t* from = static_cast<const uint8_t*>(weights->data) + d * k * width;
      if (each != hidden) {
        std::fill(apart.begin(), apart.end(), static_cast<uint8_t>(shift_of(weights->type)));
        for (int64_t i = 0; i < 4 * k; ++i) std::copy_n(from + i * hidden, hidden, apart.data() + i * each);
        from = apart.data();
      }
      made->push_back(make_panels(from, weights->type, k, 4 * each, false));
    }
    return made;
  });
}

// The scales and zero points of all columns of the panels, of each direction.
struct Steps {
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  bool subtract = false;
};

Steps steps_of(const Tensor& weights, const Tensor& scales, const Tensor& zeros) {
  const int64_t directions = weights.dims[0], hidden = weights.dims[2] / 4, each = padded(hidden);
  const bool many_scales = count(scales.dims) != directions, many_zeros = count(zeros.dims) != directions;
  Steps made;
  made.scales.resize(static_cast<size_t>(directions * 4 * each));
  made.zeros.resize(made.scales.size());
  for (int64_t gate = 0; gate < directions * 4; ++gate) {
    for (int64_t i = 0; i < hidden; ++i) {
      const int64_t column = gate * hidden + i;
      const auto at = static_cast<size_t>(gate * each + i);
      made.scales[at] = scales.as<float>()[many_scales ? column : gate / 4];
      made.zeros[at] =
          zero_of(weights.type, zeros.data, many_zeros ? column : gate / 4) - shift_of(weights.type);
      made.subtract = made.subtract || made.zeros[at] != 0;
    }
  }
  return made;
}

struct Network {
  int64_t directions = 1, steps = 0, batch = 0, inputs = 0, hidden = 0, units = 0;
  bool forward_first = true;
  bool biased = false, lengths = false, initial_h = false, initial_c = false, peepholes = false;
  bool wants_y = false, wants_h = false, wants_c = false, input_forget = false;
  float clip = 0;  // 0: none
  std::vector<Gate> activations;
  std::shared_ptr<Weights> w, r;
  Steps w_steps, r_steps;

  int64_t width() const { return 4 * units; }
  int64_t state() const { return batch * hidden; }
  // Rows of the state as bytes, or as 16-bit numbers.
  int64_t row() const { return (hidden + 3) / 4 * 8; }
  // Memory that a direction needs, in floats: what the inputs give, h and c, the biases, what sums begin
  // with, sums of the rows, the rows, and one of them more.
  int64_t scratch() const {
    return (steps * batch * width() + 2 * state() + 2 * width() + batch + (batch + 1) * row() / 4 + 15) / 16 *
           16;
  }
};

// A direction's memory.
struct Memory {
  float *of_inputs, *h, *c, *bias;
  int32_t *start, *row_sums;
  char* rows;
  LstmCell cell;
};

// The numbers that X was rounded to.
struct Rounded {
  const uint8_t* x;
  float scale;
  uint8_t zero;
};

// What the inputs add to the gates, of `steps` steps, biases included.
void multiply_inputs(const Network& n, const Memory& m, int64_t d, int64_t steps, const Rounded& inputs) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  const Panels& panels = (*n.w)[static_cast<size_t>(d)];
  const Rows rows =
      make_rows(inputs.x, DType::kUint8, steps * n.batch, panels, &inputs.zero, 0, n.w_steps.subtract);
  const int64_t width = n.width();
  const float* const scales = n.w_steps.scales.data() + d * width;
  const int32_t* const zeros = n.w_steps.zeros.data() + d * width;
  std::fill_n(m.start, width, 0);
  simd.subtract(m.start, width, panels.sums.data(), 1, inputs.zero);
  multiply(rows, panels, m.start, nullptr, [&](int64_t row, int64_t column, int64_t count, int32_t* sums) {
    if (n.w_steps.subtract) {
      simd.subtract(sums, count, zeros + column, 1, rows.sums[static_cast<size_t>(row)]);
    }
    simd.to_float(sums, count, inputs.scale, scales + column, 1, m.bias + column,
                  m.of_inputs + row * width + column);
  });
}

// A step: `row_of(b)` is the row of what the inputs give for sequence b, or -1 where that has ended.
// `m.rows` has the state.
template <typename RowOf>
void run_step(const Network& n, const Memory& m, int64_t d, float scale, uint8_t zero, const RowOf& row_of) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  const Panels& panels = (*n.r)[static_cast<size_t>(d)];
  const int64_t width = n.width(), blocks = n.units / kColumns, stride = panels.stride();
  const int64_t row_bytes = stride * (panels.wide ? 2 : 1);
  const float* const scales = n.r_steps.scales.data() + d * width;
  const int32_t* const zeros = n.r_steps.zeros.data() + d * width;
  // Pairs of panels are shared by the threads: each has all gates of its units.
  const int64_t work = n.batch * n.hidden * 8 * kColumns;
  parallel_for((blocks + 1) / 2, 1 + 4 * kGrain / (work + 1), [&](int64_t pair, int64_t end) {
    constexpr int64_t kBlocks = 8, kStep = kBlocks * kColumns, kTall = 2 * kRows;
    alignas(64) int32_t sums[kTall * kStep];
    alignas(64) float gates[kTall][4 * kStep];
    const int64_t last = std::min(2 * end, blocks);
    for (int64_t block = 2 * pair; block < last; block += kBlocks) {
      const int64_t here = std::min(kBlocks, last - block), first = block * kColumns;
      const int64_t count = std::min(here * kColumns, n.hidden - first);
      for (int64_t gate = 0; gate < 4; ++gate) {
        const int64_t column = gate * n.units + first;
        std::fill_n(m.start + column, here * kColumns, 0);
        simd.subtract(m.start + column, here * kColumns, panels.sums.data() + column, 1, zero);
      }
      for (int64_t b = 0; b < n.batch; b += kTall) {
        const int64_t rows = std::min(kTall, n.batch - b);
        const char* const from = m.rows + b * row_bytes;
        for (int64_t gate = 0; gate < 4; ++gate) {
          const int64_t column = gate * n.units + first, panel = column / kColumns;
          // Of wide panels and of one that is alone the rows of sums lie closer.
          for (int64_t i = 0; i < here;) {
            int32_t* const to = sums + i * kColumns;
            const int32_t* const start = m.start + column + i * kColumns;
            if (!panels.wide && i + 2 <= here) {
              simd.pair_product(reinterpret_cast<const uint8_t*>(from), stride, rows, panels.panel(panel + i),
                                panels.panel(panel + i + 1), start, to, kStep);
              i += 2;
              continue;
            }
            alignas(64) int32_t few[kTall * kColumns];
            multiply_tile(panels, panel + i, from, stride, static_cast<int>(rows), start, few);
            for (int64_t r = 0; r < rows; ++r) {
              std::copy_n(few + r * kColumns, kColumns, to + r * kStep);
            }
            ++i;
          }
          for (int64_t r = 0; r < rows; ++r) {
            const int64_t row = row_of(b + r);
            if (row < 0) continue;
            if (n.r_steps.subtract) {
              simd.subtract(sums + r * kStep, count, zeros + column, 1, m.row_sums[b + r]);
            }
            simd.to_float(sums + r * kStep, count, scale, scales + column, 1,
                          m.of_inputs + row * width + column, gates[r] + gate * kStep);
          }
        }
        for (int64_t r = 0; r < rows; ++r) {
          if (row_of(b + r) >= 0)
            m.cell.update(gates[r], kStep, first, count, m.h + (b + r) * n.hidden, m.c + (b + r) * n.hidden);
        }
      }
    }
  });
}

void run_direction(const Network& n, int64_t d, int64_t longest, const Rounded& inputs, const Args& args) {
  const Quantized& simd = ephost::cpu::simd().quantized;
  const int64_t width = n.width(), batch = n.batch, hidden = n.hidden;
  Memory m;
  m.of_inputs = args.scratch<float>() + d * n.scratch();
  m.h = m.of_inputs + n.steps * batch * width;
  m.c = m.h + n.state();
  m.bias = m.c + n.state();
  m.start = reinterpret_cast<int32_t*>(m.bias + width);
  m.row_sums = m.start + width;
  m.rows = reinterpret_cast<char*>(m.row_sums + batch);
  m.cell = {.activations = n.activations.data() + d * 3,
            .peepholes = n.peepholes ? args.in<float>(kPeepholes) + d * 3 * hidden : nullptr,
            .hidden = hidden,
            .clip = n.clip,
            .input_forget = n.input_forget};
  const bool backwards = d == 1 || !n.forward_first;
  const Panels& panels = (*n.r)[static_cast<size_t>(d)];
  const int64_t row_bytes = panels.stride() * (panels.wide ? 2 : 1);
  std::fill_n(m.rows, (batch + 1) * n.row(), char{0});

  std::fill_n(m.bias, width, 0.0f);
  for (int64_t gate = 0; n.biased && gate < 4; ++gate) {
    const float* const of_x = args.in<float>(kB) + (d * 8 + gate) * hidden;
    for (int64_t i = 0; i < hidden; ++i) m.bias[gate * n.units + i] = of_x[i] + of_x[4 * hidden + i];
  }
  const auto load = [&](bool given, int input, float* state) {
    if (given) {
      std::copy_n(args.in<float>(input) + d * n.state(), n.state(), state);
    } else {
      std::fill_n(state, n.state(), 0.0f);
    }
  };
  load(n.initial_h, kInitialH, m.h);
  load(n.initial_c, kInitialC, m.c);
  multiply_inputs(n, m, d, longest, inputs);

  const auto length_of = [&](int64_t b) { return n.lengths ? args.in<int32_t>(kLengths)[b] : n.steps; };
  const auto y_at = [&](int64_t t, int64_t b) {
    return args.out<float>(0) + ((t * n.directions + d) * batch + b) * hidden;
  };
  for (int64_t step = 0; step < longest; ++step) {
    // The last state of a sequence is rounded with the others once more; from then on its place is empty.
    float low = 0, high = 0;
    for (int64_t b = 0; b < batch; ++b) {
      if (step > length_of(b)) continue;
      float least = 0, most = 0;
      simd.range(m.h + b * hidden, hidden, &least, &most);
      low = std::min(low, least);
      high = std::max(high, most);
    }
    float scale = 1;
    uint8_t zero = 0;
    scale_of_range(low, high, &scale, &zero);
    for (int64_t b = 0; b < batch; ++b) {
      if (step >= length_of(b)) continue;
      char* const row = m.rows + b * row_bytes;
      char* const bytes = panels.wide ? m.rows + batch * n.row() : row;
      simd.quantize(m.h + b * hidden, hidden, scale, zero, 0, 255, reinterpret_cast<uint8_t*>(bytes));
      if (panels.wide) make_row(bytes, DType::kUint8, hidden, true, row);
      if (n.r_steps.subtract) {
        m.row_sums[b] = sum_of_row(row, hidden, panels.wide) - static_cast<int32_t>(hidden) * zero;
      }
    }
    const auto row_of = [&](int64_t b) {
      const int64_t length = length_of(b);
      return step >= length ? -1 : (backwards ? length - 1 - step : step) * batch + b;
    };
    run_step(n, m, d, scale, zero, row_of);
    for (int64_t b = 0; n.wants_y && b < batch; ++b) {
      const int64_t row = row_of(b);
      if (row >= 0) std::copy_n(m.h + b * hidden, hidden, y_at(row / batch, b));
    }
  }
  for (int64_t b = 0; n.wants_y && b < batch; ++b) {
    for (int64_t t = length_of(b); t < n.steps; ++t) std::fill_n(y_at(t, b), hidden, 0.0f);
  }
  for (int64_t b = 0; b < batch; ++b) {
    if (length_of(b) > 0) continue;
    std::fill_n(m.h + b * hidden, hidden, 0.0f);  // As onnxruntime has it: see rnn.cc.
    std::fill_n(m.c + b * hidden, hidden, 0.0f);
  }
  if (n.wants_h) std::copy_n(m.h, n.state(), args.out<float>(1) + d * n.state());
  if (n.wants_c) std::copy_n(m.c, n.state(), args.out<float>(2) + d * n.state());
}

Network network_of(Prepare& p) {
  Network n;
  const TensorPtr w = p.constant(kW), r = p.constant(kR);
  const Dims& x = p.dims(kX);
  p.expect(x.size() == 3, "X has three dimensions");
  n.steps = x[0];
  n.batch = x[1];
  n.inputs = x[2];
  const std::string direction = p.node.s("direction", "forward");
  p.expect(direction == "forward" || direction == "reverse" || direction == "bidirectional",
           "the direction is unknown");
  n.forward_first = direction != "reverse";
  n.directions = direction == "bidirectional" ? 2 : 1;
  n.hidden = r->dims[1];
  n.units = padded(n.hidden);
  p.expect(w->dims == Dims{n.directions, n.inputs, 4 * n.hidden} &&
               r->dims == Dims{n.directions, n.hidden, 4 * n.hidden} &&
               p.node.i("hidden_size", n.hidden) == n.hidden,
           "the shapes of X, W and R do not fit each other");
  const Dims state{n.directions, n.batch, n.hidden};
  n.biased = p.has(kB);
  n.lengths = p.has(kLengths);
  n.initial_h = p.has(kInitialH);
  n.initial_c = p.has(kInitialC);
  n.peepholes = p.has(kPeepholes);
  p.expect(!n.biased || p.dims(kB) == Dims{n.directions, 8 * n.hidden}, "the shape of B is wrong");
  p.expect(!n.lengths || (p.dims(kLengths) == Dims{n.batch} && p.type(kLengths) == DType::kInt32),
           "there is not one length for each sequence");
  p.expect(!n.initial_h || p.dims(kInitialH) == state, "the shape of initial_h is wrong");
  p.expect(!n.initial_c || p.dims(kInitialC) == state, "the shape of initial_c is wrong");
  p.expect(!n.peepholes || p.dims(kPeepholes) == Dims{n.directions, 3 * n.hidden}, "the shape of P is wrong");
  n.clip = p.node.f("clip", 0);
  n.input_forget = p.node.i("input_forget", 0) != 0;
  n.activations = gates_of(p.node, static_cast<size_t>(n.directions), {"Sigmoid", "Tanh", "Tanh"});
  p.expect(n.activations.size() >= 3 * static_cast<size_t>(n.directions),
           "there is not one activation for each place");
  n.w = pack(w);
  n.r = pack(r);
  n.w_steps = steps_of(*w, *p.constant(kScaleW), *p.constant(kZeroW));
  n.r_steps = steps_of(*r, *p.constant(kScaleR), *p.constant(kZeroR));
  const auto wants = [&](int o) { return p.wants(o); };
  n.wants_y = wants(0);
  n.wants_h = wants(1);
  n.wants_c = wants(2);
  if (n.wants_y) p.out(0, DType::kFloat, {n.steps, n.directions, n.batch, n.hidden});
  if (n.wants_h) p.out(1, DType::kFloat, state);
  if (n.wants_c) p.out(2, DType::kFloat, state);
  return n;
}

Kernel quantized_lstm(Prepare& p) {
  const Network n = network_of(p);
  const size_t floats = static_cast<size_t>(n.directions * n.scratch()) * sizeof(float);
  p.scratch(floats + static_cast<size_t>(n.steps * n.batch * n.inputs));
  p.method(n.r->front().form);
  // As in rnn.cc.
  const bool together = n.directions == 2 && p.threads() <= 4;
  const std::string label = p.node.label();
  return [=](const Args& args) {
    // Steps behind the end of all sequences are not rounded with the others.
    const int64_t longest =
        n.lengths ? longest_sequence(args.in<int32_t>(kLengths), n.batch, n.steps, label) : n.steps;
    uint8_t* const x = args.scratch<uint8_t>() + floats;
    Rounded inputs{x, 1, 0};
    quantize_dynamically(args.in<float>(kX), longest * n.batch * n.inputs, x, &inputs.scale, &inputs.zero);
    if (together) {
      parallel_for(2, 1, [&](int64_t d, int64_t end) {
        for (; d < end; ++d) run_direction(n, d, longest, inputs, args);
      });
      return;
    }
    for (int64_t d = 0; d < n.directions; ++d) run_direction(n, d, longest, inputs, args);
  };
}

std::string supports(const Node& node) {
  for (size_t i : {kW, kR, kScaleW, kZeroW, kScaleR, kZeroR}) {
    if (node.in(i) == nullptr || node.in(i)->constant == nullptr) return "weights that are no constants";
  }
  for (size_t i : {kW, kR}) {
    const Tensor& weights = *node.in(i)->constant;
    const Tensor& scales = *node.in(i == kW ? kScaleW : kScaleR)->constant;
    const Tensor& zeros = *node.in(i == kW ? kZeroW : kZeroR)->constant;
    if (weights.dims.size() != 3 || zeros.type != weights.type || scales.type != DType::kFloat ||
        (weights.type != DType::kInt8 && weights.type != DType::kUint8)) {
      return "weights that are no bytes with a scale";
    }
    for (const Tensor* each : {&scales, &zeros}) {
      const int64_t n = count(each->dims);
      if (n != weights.dims[0] && n != weights.dims[0] * weights.dims[2]) return "scales of blocks";
    }
  }
  if (node.i("layout", 0) != 0) return "the batch before the steps";
  return known_activations(node);
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "DynamicQuantizeLSTM",
                 .supports = supports,
                 .prepare = quantized_lstm,
                 .packs = [](const Node&, size_t i) { return i == kW || i == kR; },
                 .pack =
                     [](const Node& node) {
                       for (size_t i : {kW, kR}) pack(node.in(i)->constant);
                       return true;
                     },
                 .types = kBytesAndSums});
});

}  // namespace ephost::cpu
