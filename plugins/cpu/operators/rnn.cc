// RNN, GRU and LSTM: one matrix product for all inputs, then one for the state in each
// step, with packed weights if they are constant; what the cells do with it is here.
#include <cstring>
#include <initializer_list>

#include "cpu/engines/as_float.h"
#include "cpu/engines/onednn_operators.h"
#include "cpu/engines/product.h"
#include "cpu/engines/recurrent.h"
#include "cpu/engines/tiles.h"
#include "cpu/operator.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

// c[m, n] = beta * c + a[m, k] * b[n, k]^T; beta is 0 or 1.
void add_product(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float beta, float* c,
                 int64_t ldc) {
  if (m == 0 || n == 0 || k == 0) {
    for (int64_t i = 0; beta == 0 && i < m; ++i) std::fill(c + i * ldc, c + i * ldc + n, 0.0f);
    return;
  }
  if (onednn_product(m, n, k, a, b, beta, c, ldc)) {
    return;
  }
  // Some columns at a time, whose part of b a thread packs.
  constexpr int64_t kColumns = 64;
  const int64_t parts = (n + kColumns - 1) / kColumns, width = simd().panel, depth = simd().depth;
  const size_t own = static_cast<size_t>((kColumns + width - 1) / width * width * std::min(k, depth));
  const std::shared_ptr<void> rooms = allocate(own * static_cast<size_t>(max_threads()) * sizeof(float));
  parallel_for(parts, std::max<int64_t>(1, kGrain * 8 / (m * k * kColumns + 1)), [&](int64_t i, int64_t end) {
    float* const room = static_cast<float*>(rooms.get()) + own * static_cast<size_t>(thread_rank());
    for (; i < end; ++i) {
      const int64_t first = i * kColumns;
      for (int64_t p0 = 0; p0 < k; p0 += depth) {
        GemmBlock g{};
        g.m = m;
        g.n = std::min(kColumns, n - first);
        g.k = std::min(depth, k - p0);
        g.a = a + p0;
        g.a_row = k;
        g.a_step = 1;
        simd().gemm_pack(b + first * k + p0, 1, k, g.k, g.n, room);
        g.b = room;
        g.b_step = width;
        g.b_panel = width * g.k;
        g.c = c + first;
        g.c_row = ldc;
        g.accumulate = beta != 0 || p0 > 0;
        simd().gemm(g);
      }
    }
  });
}

// ---- What the three have in common

enum Input { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

// Weights in panels, of each direction.
struct Packed {
  std::shared_ptr<void> memory;
  size_t direction = 0;  // Floats of one.
  size_t last = 0;       // From a direction's first one to where the last gate of a GRU begins.

  const float* of(int64_t d) const {
    return static_cast<const float*>(memory.get()) + static_cast<size_t>(d) * direction;
  }
};

// Null if the weights are no constant. The last `apart` columns begin with a panel of their own.
std::shared_ptr<Packed> pack(const Prepare& p, Input input, int64_t apart) {
  const TensorPtr weights = p.constant(input);
  if (weights == nullptr || count(weights->dims) == 0) return nullptr;
  const auto make = [&] {
    if (weights->data == nullptr) fail("a weight is gone before it was packed");
    const Simd& table = simd();
    const int64_t width = weights->dims[1], k = weights->dims[2], first = width - apart;
    const auto size = [&](int64_t n) {
      return static_cast<size_t>((n + table.panel - 1) / table.panel * table.panel * k);
    };
    auto packed = std::make_shared<Packed>();
    packed->last = size(first);
    packed->direction = packed->last + size(apart);
    packed->memory =
        allocate_lasting(static_cast<size_t>(weights->dims[0]) * packed->direction * sizeof(float));
    float* const to = static_cast<float*>(packed->memory.get());
    const int64_t panels = static_cast<int64_t>(packed->direction) / (table.panel * k);
    const int64_t before = static_cast<int64_t>(packed->last) / (table.panel * k);
    parallel_for(weights->dims[0] * panels, 1 + kGrain / (table.panel * k), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const int64_t panel = i % panels;
        const int64_t column = panel < before ? panel * table.panel : first + (panel - before) * table.panel;
        const int64_t columns = std::min(table.panel, (panel < before ? first : width) - column);
        const float* from = weights->as<float>() + (i / panels * width + column) * k;
        table.gemm_pack(from, 1, k, k, columns, to + i * table.panel * k);
      }
    });
    return packed;
  };
  return Prepare::packed<Packed>(weights, "recurrent weights, " + std::to_string(apart) + " apart", make);
}

struct Network {
  int64_t gates = 1, directions = 1, steps = 0, batch = 0, inputs = 0, hidden = 0;
  bool forward_first = true;  // False: the only direction is backwards.
  bool batch_first = false;
  bool biased = false, lengths = false, initial_h = false, initial_c = false, peepholes = false;
  bool wants_y = false, wants_h = false, wants_c = false;
  bool linear_before_reset = false, input_forget = false;
  float clip = 0;  // 0: none
  std::vector<Gate> activations;
  std::shared_ptr<Packed> packed_w, packed_r;  // Null where W or R is no constant.

  int64_t width() const { return gates * hidden; }
  // Memory that one direction needs, in floats: what the inputs give; a step's gates; h, c and one more of
  // that size; the sum of the biases.
  int64_t of_inputs() const { return steps * batch * width(); }
  int64_t state() const { return batch * hidden; }
  int64_t scratch() const { return (of_inputs() + batch * width() + 3 * state() + width() + 15) / 16 * 16; }
};

Network network_of(Prepare& p, int64_t gates, const std::vector<std::string>& activations) {
  Network n;
  n.gates = gates;
  const Dims &x = p.dims(kX), &w = p.dims(kW), &r = p.dims(kR);
  p.expect(x.size() == 3 && w.size() == 3 && r.size() == 3, "X, W and R have three dimensions");
  n.batch_first = p.node.i("layout", 0) != 0;
  n.steps = x[n.batch_first ? 1 : 0];
  n.batch = x[n.batch_first ? 0 : 1];
  n.inputs = x[2];
  const std::string direction = p.node.s("direction", "forward");
  p.expect(direction == "forward" || direction == "reverse" || direction == "bidirectional",
           "the direction is unknown");
  n.forward_first = direction != "reverse";
  n.directions = direction == "bidirectional" ? 2 : 1;
  n.hidden = r[2];
  p.expect(w == Dims{n.directions, n.width(), n.inputs} && r == Dims{n.directions, n.width(), n.hidden} &&
               p.node.i("hidden_size", n.hidden) == n.hidden,
           "the shapes of X, W and R do not fit each other");
  n.packed_w = pack(p, kW, 0);
  // What the last gate of a GRU multiplies is made of the others.
  n.packed_r = pack(p, kR, gates == 3 ? n.hidden : 0);
  const Dims state =
      n.batch_first ? Dims{n.batch, n.directions, n.hidden} : Dims{n.directions, n.batch, n.hidden};
  n.biased = p.has(kB);
  n.lengths = p.has(kLengths);
  n.initial_h = p.has(kInitialH);
  p.expect(!n.biased || p.dims(kB) == Dims{n.directions, 2 * n.width()}, "the shape of B is wrong");
  p.expect(!n.lengths || (p.dims(kLengths) == Dims{n.batch} && p.type(kLengths) == DType::kInt32),
           "there is not one length for each sequence");
  p.expect(!n.initial_h || p.dims(kInitialH) == state, "the shape of initial_h is wrong");
  n.clip = p.node.f("clip", 0);
  n.activations = gates_of(p.node, static_cast<size_t>(n.directions), activations);
  // The standard's default for RNN names two for one direction as well.
  const size_t needed = activations.size() * static_cast<size_t>(n.directions);
  p.expect(n.activations.size() >= needed, "there is not one activation for each place");
  n.activations.resize(needed);
  n.wants_y = p.wants(0);
  n.wants_h = p.wants(1);
  if (n.wants_y) {
    p.out(0, DType::kFloat,
          n.batch_first ? Dims{n.batch, n.steps, n.directions, n.hidden}
                        : Dims{n.steps, n.directions, n.batch, n.hidden});
  }
  if (n.wants_h) {
    p.out(1, DType::kFloat, state);
  }
  p.scratch(static_cast<size_t>(n.directions * n.scratch()) * sizeof(float));
  return n;
}

// The memory of one direction.
struct Memory {
  float *of_inputs, *gates, *h, *c, *extra, *bias;
  const float *r, *recurrent_bias, *peepholes;
  const float *w_panels, *r_panels;  // Null if W or R is not packed.
  const Gate* activations;
};

// m.of_inputs += x * w^T, of all steps.
void add_inputs(const Network& n, const Memory& m, const float* x, const float* w) {
  const int64_t rows = n.steps * n.batch, width = n.width(), k = n.inputs;
  if (m.w_panels == nullptr) {
    add_product(rows, width, k, x, w, 1, m.of_inputs, width);
    return;
  }
  // Rows that a thread takes at a time.
  constexpr int64_t kRows = 192;
  const int64_t panel = simd().panel, panels = (width + panel - 1) / panel;
  const int64_t blocks = (rows + kRows - 1) / kRows;
  parallel_for(blocks * panels, 1 + 2 * kGrain / (std::min(rows, kRows) * k * panel + 1),
               [&](int64_t i, int64_t end) {
                 while (i < end) {
                   const int64_t row = i / panels * kRows, first = i % panels;
                   const int64_t stop = std::min(panels, first + end - i);
                   i += stop - first;
                   GemmBlock g{};
                   g.m = std::min(kRows, rows - row);
                   g.n = std::min(width, stop * panel) - first * panel;
                   g.a_row = k;
                   g.a_step = 1;
                   g.b_step = panel;
                   g.b_panel = panel * k;
                   g.c = m.of_inputs + row * width + first * panel;
                   g.c_row = width;
                   g.accumulate = true;
                   g.k = k;
                   g.a = x + row * k;
                   g.b = m.w_panels + first * panel * k;
                   gemm_in_blocks(g);
                 }
               });
}

// c = beta * c + a * R^T for all gates but the last of a GRU, or for that: c has rows `ldc` apart, beta is 0
// or 1.
struct Product {
  bool last;
  const float* a;
  int beta;
  float* c;
  int64_t ldc;
};

// Products with R that do not wait for each other, shared by the threads as one: a step has little work, and
// each thread finds the same part of R in its cache in the next one.
void add_recurrent(const Network& n, const Memory& m, std::initializer_list<Product> products) {
  const int64_t h = n.hidden;
  const auto columns = [&](const Product& each) { return each.last ? h : n.gates == 3 ? 2 * h : n.width(); };
  if (m.r_panels == nullptr) {
    for (const Product& each : products) {
      add_product(n.batch, columns(each), h, each.a, m.r + (each.last ? 2 * h * h : 0),
                  static_cast<float>(each.beta), each.c, each.ldc);
    }
    return;
  }
  const int64_t panel = simd().panel;
  int64_t all = 0;
  for (const Product& each : products) all += (columns(each) + panel - 1) / panel;
  parallel_for(all, 1 + 2 * kGrain / (n.batch * h * panel + 1), [&](int64_t i, int64_t end) {
    int64_t first = 0;  // Of this product's panels.
    for (const Product& each : products) {
      const int64_t width = columns(each), panels = (width + panel - 1) / panel;
      const int64_t begin = std::max<int64_t>(i - first, 0), stop = std::min(end - first, panels);
      first += panels;
      if (begin >= stop) continue;
      GemmBlock g{};
      g.m = n.batch;
      g.n = std::min(width, stop * panel) - begin * panel;
      g.k = h;
      g.a = each.a;
      g.a_row = h;
      g.a_step = 1;
      g.b = m.r_panels + (each.last ? n.packed_r->last : 0) + begin * panel * h;
      g.b_step = panel;
      g.b_panel = panel * h;
      g.c = each.c + begin * panel;
      g.c_row = each.ldc;
      g.accumulate = each.beta != 0;
      simd().gemm(g);
    }
  });
}

// `cell(memory, rows)` turns the products of a step into the new state: memory.gates holds those of the
// inputs and, but for GRUs, of the state; rows[b] is false for sequences that have ended, whose state is to
// stay.
template <typename Cell>
void run_direction(const Network& n, int64_t d, const Args& args, const Cell& cell) {
  const int64_t width = n.width(), batch = n.batch, hidden = n.hidden;
  Memory m;
  m.of_inputs = args.scratch<float>() + d * n.scratch();
  m.gates = m.of_inputs + n.of_inputs();
  m.h = m.gates + batch * width;
  m.c = m.h + n.state();
  m.extra = m.c + n.state();
  m.bias = m.extra + n.state();
  m.r = args.in<float>(kR) + d * width * hidden;
  m.w_panels = n.packed_w == nullptr ? nullptr : n.packed_w->of(d);
  m.r_panels = n.packed_r == nullptr ? nullptr : n.packed_r->of(d);
  m.recurrent_bias = n.biased ? args.in<float>(kB) + (2 * d + 1) * width : nullptr;
  m.peepholes = n.peepholes ? args.in<float>(kPeepholes) + d * 3 * hidden : nullptr;
  m.activations = n.activations.data() + d * static_cast<int64_t>(n.activations.size()) / n.directions;
  const bool backwards = d == 1 || !n.forward_first;

  const auto state_at = [&](int64_t b) {
    return n.batch_first ? (b * n.directions + d) * hidden : (d * batch + b) * hidden;
  };
  const auto load = [&](bool given, int input, float* state) {
    for (int64_t b = 0; b < batch; ++b) {
      if (given) {
        std::copy_n(args.in<float>(input) + state_at(b), hidden, state + b * hidden);
      } else {
        std::fill_n(state + b * hidden, hidden, 0.0f);
      }
    }
  };
  load(n.initial_h, kInitialH, m.h);
  load(n.initial_c, kInitialC, m.c);

  for (int64_t i = 0; i < width; ++i) {
    // In a GRU that is linear before its reset the last gate's own recurrent bias is part of what is reset.
    const bool apart = n.linear_before_reset && i >= 2 * hidden;
    m.bias[i] = !n.biased ? 0.0f : m.recurrent_bias[i - width] + (apart ? 0.0f : m.recurrent_bias[i]);
  }
  for (int64_t i = 0; i < n.steps * batch; ++i) std::copy_n(m.bias, width, m.of_inputs + i * width);
  add_inputs(n, m, args.in<float>(kX), args.in<float>(kW) + d * width * n.inputs);

  std::vector<int64_t> lengths(static_cast<size_t>(batch), n.steps);
  for (int64_t b = 0; n.lengths && b < batch; ++b) {
    lengths[static_cast<size_t>(b)] = args.in<int32_t>(kLengths)[b];
  }
  const auto y_at = [&](int64_t t, int64_t b) {
    return args.out<float>(0) +
           (n.batch_first ? (b * n.steps + t) * n.directions + d : (t * n.directions + d) * batch + b) *
               hidden;
  };
  std::vector<char> rows(static_cast<size_t>(batch), 1);
  for (int64_t step = 0; step < n.steps; ++step) {
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      rows[static_cast<size_t>(b)] = step < length;
      const int64_t t = step < length && backwards ? length - 1 - step : step;
      const int64_t row = n.batch_first ? b * n.steps + t : t * batch + b;
      std::copy_n(m.of_inputs + row * width, width, m.gates + b * width);
    }
    cell(m, rows);
    for (int64_t b = 0; n.wants_y && b < batch; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      if (step < length) {
        std::copy_n(m.h + b * hidden, hidden, y_at(backwards ? length - 1 - step : step, b));
      } else {
        std::fill_n(y_at(step, b), hidden, 0.0f);
      }
    }
  }
  for (int64_t b = 0; b < batch; ++b) {
    if (lengths[static_cast<size_t>(b)] ==
        0) {  // As onnxruntime has it: no initial state, which none has left.
      std::fill_n(m.h + b * hidden, hidden, 0.0f);
      if (n.wants_c) std::fill_n(m.c + b * hidden, hidden, 0.0f);
    }
    if (n.wants_h) std::copy_n(m.h + b * hidden, hidden, args.out<float>(1) + state_at(b));
    if (n.wants_c) std::copy_n(m.c + b * hidden, hidden, args.out<float>(2) + state_at(b));
  }
}

// Both directions, at once if there are few threads: a step's product is often too small to be shared.
template <typename Cell>
Kernel run_network(const Prepare& p, const Network& n, const Cell& cell) {
  const bool together = n.directions == 2 && p.threads() <= 4;
  const std::string label = p.node.label();
  return [=](const Args& args) {
    if (n.lengths) longest_sequence(args.in<int32_t>(kLengths), n.batch, n.steps, label);
    if (together) {
      parallel_for(2, 1, [&](int64_t d, int64_t end) {
        for (; d < end; ++d)
          run_direction(n, d, args,
                        [&](const Memory& m, const std::vector<char>& rows) { cell(n, m, rows); });
      });
      return;
    }
    for (int64_t d = 0; d < n.directions; ++d) {
      run_direction(n, d, args, [&](const Memory& m, const std::vector<char>& rows) { cell(n, m, rows); });
    }
  };
}

// ---- The cells

Kernel rnn(Prepare& p) {
  const Network n = network_of(p, 1, {"Tanh"});
  return run_network(p, n, [](const Network& net, const Memory& m, const std::vector<char>& rows) {
    const int64_t h = net.hidden;
    add_recurrent(net, m, {{false, m.h, 1, m.gates, h}});
    clip_gate(net.clip, m.gates, net.batch * h);
    m.activations[0].apply(m.gates, net.batch * h);
    for (int64_t b = 0; b < net.batch; ++b) {
      if (rows[static_cast<size_t>(b)]) std::copy_n(m.gates + b * h, h, m.h + b * h);
    }
  });
}

// Gates: update z, reset r, hidden.
Kernel gru(Prepare& p) {
  Network n = network_of(p, 3, {"Sigmoid", "Tanh"});
  n.linear_before_reset = p.node.i("linear_before_reset", 0) != 0;
  return run_network(p, n, [](const Network& net, const Memory& m, const std::vector<char>& rows) {
    const int64_t h = net.hidden, width = 3 * h;
    const Product others{false, m.h, 1, m.gates, width};
    if (net.linear_before_reset) {
      add_recurrent(net, m, {others, {true, m.h, 0, m.extra, h}});
    } else {
      add_recurrent(net, m, {others});
    }
    for (int64_t b = 0; b < net.batch; ++b) {
      clip_gate(net.clip, m.gates + b * width, 2 * h);
      m.activations[0].apply(m.gates + b * width, 2 * h);
    }
    if (net.linear_before_reset) {
      for (int64_t b = 0; b < net.batch; ++b) {
        float *gates = m.gates + b * width, *product = m.extra + b * h;
        for (int64_t i = 0; i < h; ++i) {
          const float bias = m.recurrent_bias == nullptr ? 0 : m.recurrent_bias[2 * h + i];
          gates[2 * h + i] += gates[h + i] * (product[i] + bias);
        }
      }
    } else {
      for (int64_t b = 0; b < net.batch; ++b) {
        for (int64_t i = 0; i < h; ++i) m.extra[b * h + i] = m.gates[b * width + h + i] * m.h[b * h + i];
      }
      add_recurrent(net, m, {{true, m.extra, 1, m.gates + 2 * h, width}});
    }
    for (int64_t b = 0; b < net.batch; ++b) {
      float *gates = m.gates + b * width, *made = gates + 2 * h, *state = m.h + b * h;
      clip_gate(net.clip, made, h);
      m.activations[1].apply(made, h);
      for (int64_t i = 0; rows[static_cast<size_t>(b)] && i < h; ++i) {
        state[i] = (1 - gates[i]) * made[i] + gates[i] * state[i];
      }
    }
  });
}

// Gates: input i, output o, forget f, cell c. Peepholes: i, o, f.
Kernel lstm(Prepare& p) {
  Network n = network_of(p, 4, {"Sigmoid", "Tanh", "Tanh"});
  n.initial_c = p.has(kInitialC);
  n.peepholes = p.has(kPeepholes);
  n.input_forget = p.node.i("input_forget", 0) != 0;
  n.wants_c = p.wants(2);
  const Dims state =
      n.batch_first ? Dims{n.batch, n.directions, n.hidden} : Dims{n.directions, n.batch, n.hidden};
  p.expect(!n.initial_c || p.dims(kInitialC) == state, "the shape of initial_c is wrong");
  p.expect(!n.peepholes || p.dims(kPeepholes) == Dims{n.directions, 3 * n.hidden}, "the shape of P is wrong");
  if (n.wants_c) {
    p.out(2, DType::kFloat, state);
  }
  return run_network(p, n, [](const Network& net, const Memory& m, const std::vector<char>& rows) {
    const int64_t h = net.hidden, width = 4 * h;
    add_recurrent(net, m, {{false, m.h, 1, m.gates, width}});
    const LstmCell cell{m.activations, m.peepholes, h, net.clip, net.input_forget};
    for (int64_t b = 0; b < net.batch; ++b) {
      if (rows[static_cast<size_t>(b)]) cell.update(m.gates + b * width, h, 0, h, m.h + b * h, m.c + b * h);
    }
  });
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr Types kTypes{DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt32};
  const auto add = [&](const char* type, Kernel (*prepare)(Prepare&)) {
    registry->add({.type = type,
                   .supports = known_activations,
                   .prepare = with_halves(prepare),
                   .types = kTypes,
                   .min_version = 7});
  };
  add("RNN", rnn);
  add("GRU", gru);
  add("LSTM", lstm);
});

}  // namespace ephost::cpu
