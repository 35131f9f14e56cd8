#include "cpu/engines/conv/transposed.h"

#include <algorithm>
#include <cstring>

#include "cpu/engines/conv/depthwise.h"
#include "cpu/engines/product.h"

namespace ephost::cpu {
namespace {

// One dimension: output o is the sum of taps r + step * t of inputs q - t, where q * step + r = o + begin.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, step = 1, begin = 0;

  int64_t taps(int64_t r = 0) const { return r >= kernel ? 0 : (kernel - r + step - 1) / step; }
  int64_t first() const { return begin / step; }  // The least q; begin is not negative.
  int64_t count() const { return (begin + out - 1) / step - first() + 1; }
};

// Weights by places: those of one line of the kernel are a matrix [taps * inputs][step * outputs], in panels.
struct Form {
  int64_t inputs, outputs, lines, kernel, step;

  Form(const Dims& weights, const Dims& strides)
      : inputs(weights[0]),
        outputs(weights[1]),
        lines(weights.size() == 4 ? weights[2] : 1),
        kernel(weights.back()),
        step(strides.back()) {}
  int64_t taps() const { return (kernel + step - 1) / step; }
  int64_t depth() const { return taps() * inputs; }
  int64_t columns() const { return step * outputs; }
  int64_t panel() const { return simd().panel; }
  size_t line() const { return static_cast<size_t>((columns() + panel() - 1) / panel() * panel() * depth()); }
  // Calls move(i, j) for each weight: i is its place in the model, j in the matrices.
  template <typename Move>
  void for_each(const Move& move) const {
    const int64_t wide = panel(), deep = depth(), size = static_cast<int64_t>(line());
    for (int64_t l = 0; l < lines; ++l) {
      for (int64_t k = 0; k < kernel; ++k) {
        // The last tap is that of the first input.
        const int64_t row = (taps() - 1 - k / step) * inputs, column = k % step * outputs;
        for (int64_t i = 0; i < inputs; ++i) {
          for (int64_t o = 0; o < outputs; ++o) {
            const int64_t at = column + o;
            move(((i * outputs + o) * lines + l) * kernel + k,
                 l * size + at / wide * wide * deep + (row + i) * wide + at % wide);
          }
        }
      }
    }
  }
};

struct Packed {
  std::shared_ptr<void> memory;
};

std::string key_of(const Dims& strides) { return "deconvolution in steps of " + to_string(strides); }

}  // namespace

bool is_deconv(const Dims& weights, const Dims& strides, const Dims& dilations, int64_t groups) {
  const auto all_one = [](const Dims& dims) {
    return std::all_of(dims.begin(), dims.end(), [](int64_t d) { return d == 1; });
  };
  return groups == 1 && (weights.size() == 3 || weights.size() == 4) && !all_one(strides) &&
         all_one(dilations) && weights[0] >= 4 && strides.back() * weights[1] >= simd().panel;
}

bool has_deconv_weights(const TensorPtr& constant, const Dims& strides) {
  const std::lock_guard lock(constant->packed_mutex);
  return constant->packed.count(key_of(strides)) != 0;
}

std::shared_ptr<void> deconv_weights(const TensorPtr& constant, const Dims& strides) {
  const auto make = [&] {
    if (constant->data == nullptr) fail("a weight is gone before it was packed");
    const Form form(constant->dims, strides);
    auto made = std::make_shared<Packed>();
    const size_t size = form.line() * static_cast<size_t>(form.lines);
    made->memory = allocate_lasting(size * sizeof(float));
    float* const to = static_cast<float*>(made->memory.get());
    std::fill(to, to + size, 0.0f);
    const float* const from = constant->as<float>();
    form.for_each([&](int64_t i, int64_t j) { to[j] = from[i]; });
    return made;
  };
  return Prepare::packed<Packed>(constant, key_of(strides), make)->memory;
}

TensorPtr deconv_original(const TensorPtr& constant, const Dims& strides) {
  const float* const from = static_cast<const float*>(deconv_weights(constant, strides).get());
  TensorPtr made = make_tensor(DType::kFloat, constant->dims);
  float* const to = static_cast<float*>(mutable_data(made));
  Form(constant->dims, strides).for_each([&](int64_t i, int64_t j) { to[i] = from[j]; });
  return made;
}

Kernel deconv(Prepare& p, const Window& window, const Dims& target, bool biased, const PostOps& post_ops,
              int operands) {
  p.require(0, Layout::kChannelsLast);
  for (int i = operands; i < p.inputs(); ++i) p.require(i, Layout::kChannelsLast);
  p.out(0, DType::kFloat, target, Layout::kChannelsLast);
  const Form form(p.dims(1), window.strides);
  const std::shared_ptr<void> weights = deconv_weights(p.constant(1), window.strides);
  const auto axis = [&](size_t d) -> Axis {
    return {window.in[d], window.out[d], window.kernel[d], window.strides[d], window.begin[d]};
  };
  const Axis down = window.rank() == 2 ? axis(0) : Axis{}, across = axis(window.rank() - 1);
  const int64_t inputs = form.inputs, outputs = form.outputs, columns = form.columns(), depth = form.depth();
  // A line of the input with zeros around it, so that every product has all of its taps: line pixel j is
  // input pixel j + shift.
  const int64_t taps = across.taps(), wide = across.count(), padded = wide + taps - 1,
                shift = across.first() - (taps - 1);
  // What a task makes: some pixels of a line of the output.
  constexpr int64_t kRows = 192;
  const int64_t parts = (wide + kRows - 1) / kRows, lines = target[0] * down.out;
  const size_t own = static_cast<size_t>(std::min(wide, kRows) * columns) * sizeof(float);
  const size_t line_bytes = static_cast<size_t>(target[0] * down.in * padded * inputs) * sizeof(float);
  const size_t bias_bytes = (static_cast<size_t>(columns) * sizeof(float) + 63) & ~size_t{63};
  const size_t room = (own + 63) & ~size_t{63};
  p.scratch(bias_bytes + room * static_cast<size_t>(std::max(1, p.threads())) + line_bytes);
  const size_t rooms = room * static_cast<size_t>(std::max(1, p.threads()));
  const RowEpilogue epilogue(post_ops);
  const int ends = p.inputs();
  return [=](const Args& args) {
    const Simd& table = simd();
    const float *x = args.in<float>(0), *bias = biased ? args.in<float>(2) : nullptr;
    float* const y = args.out<float>(0);
    const float* others[16] = {};
    for (int i = operands; i < ends; ++i) others[i - operands] = args.in<float>(i);
    char* const scratch = args.scratch<char>();
    float* const start = reinterpret_cast<float*>(scratch);
    for (int64_t r = 0; bias != nullptr && r < form.step; ++r) {
      std::copy(bias, bias + outputs, start + r * outputs);
    }
    float* const from = reinterpret_cast<float*>(scratch + bias_bytes + rooms);
    parallel_for(target[0] * down.in, std::max<int64_t>(1, kGrain / (padded * inputs + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     float* const line = from + i * padded * inputs;
                     const int64_t begin = std::clamp<int64_t>(-shift, 0, padded);
                     const int64_t stop = std::clamp<int64_t>(across.in - shift, begin, padded);
                     std::fill(line, line + begin * inputs, 0.0f);
                     std::memcpy(line + begin * inputs, x + (i * across.in + begin + shift) * inputs,
                                 static_cast<size_t>((stop - begin) * inputs) * sizeof(float));
                     std::fill(line + stop * inputs, line + padded * inputs, 0.0f);
                   }
                 });
    const int64_t work = std::min(wide, kRows) * columns * depth;
    parallel_for(lines * parts, std::max<int64_t>(1, 8 * kGrain / (work + 1)), [&](int64_t i, int64_t end) {
      float* const mine =
          reinterpret_cast<float*>(scratch + bias_bytes + room * static_cast<size_t>(thread_rank()));
      for (; i < end; ++i) {
        const int64_t n = i / parts / down.out, row = i / parts % down.out;
        const int64_t begin = wide * (i % parts) / parts, stop = wide * (i % parts + 1) / parts;
        // The pixels of the output: those of the first and the last input may be outside.
        const int64_t first = (across.first() + begin) * across.step - across.begin,
                      last = (across.first() + stop) * across.step - across.begin;
        float* const line = y + (n * down.out + row) * across.out * outputs;
        const bool inside = first >= 0 && last <= across.out;
        float* const to = inside ? line + first * outputs : mine;
        const int64_t at = row + down.begin, r = at % down.step;
        bool any = false;
        for (int64_t t = 0; t < down.taps(r); ++t) {
          const int64_t in_row = at / down.step - t;
          if (in_row < 0 || in_row >= down.in) continue;
          GemmBlock g{};
          g.m = stop - begin;
          g.a_row = inputs;
          g.a_step = 1;
          g.b_step = table.panel;
          g.b_panel = table.panel * depth;
          g.c_row = columns;
          g.n = columns;
          g.k = depth;
          g.a = from + ((n * down.in + in_row) * padded + begin) * inputs;
          g.b =
              static_cast<const float*>(weights.get()) + static_cast<size_t>(r + t * down.step) * form.line();
          g.c = to;
          g.bias = bias == nullptr ? nullptr : start;
          g.accumulate = any;
          gemm_in_blocks(g);
          any = true;
        }
        for (int64_t pixel = 0; !any && pixel < stop - begin; ++pixel) {
          if (bias != nullptr) {
            std::copy(start, start + columns, to + pixel * columns);
          } else {
            std::fill(to + pixel * columns, to + (pixel + 1) * columns, 0.0f);
          }
        }
        const int64_t left = std::max<int64_t>(first, 0), right = std::min(last, across.out);
        if (!inside) {
          std::copy(mine + (left - first) * outputs, mine + (right - first) * outputs, line + left * outputs);
        }
        if (!epilogue.empty()) epilogue.run(y, others, line - y + left * outputs, (right - left) * outputs);
      }
    });
  };
}

bool is_dots(const Dims& weights, const Dims& strides, const Dims& dilations, int64_t groups) {
  const bool has_gaps = std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; });
  constexpr int64_t kMostColumns = 8;
  return groups == 1 && (weights.size() == 3 || weights.size() == 4) && !has_gaps &&
         std::equal(strides.begin(), strides.end(), weights.begin() + 2, weights.end()) && weights[0] >= 8 &&
         count(weights, 1, weights.size()) <= kMostColumns;
}

Kernel deconv_by_dots(Prepare& p, const Window& window, const Dims& target, bool biased,
                      const PostOps& post_ops, int operands) {
  p.require(0, Layout::kChannelsLast);
  for (int i = operands; i < p.inputs(); ++i) p.require(i, Layout::kChannelsLast);
  p.out(0, DType::kFloat, target, Layout::kChannelsLast);
  const Dims& dims = p.dims(1);
  const std::shared_ptr<void> weights = depthwise_weights(p.constant(1));
  const int64_t inputs = dims[0], outputs = dims[1], columns = count(dims, 1, dims.size());
  const int64_t tall = window.rank() == 2 ? dims[2] : 1, together = columns / tall;  // Neighbours in a line.
  const int64_t width = window.in.back(), lines = target[0] * (window.rank() == 2 ? window.in[0] : 1);
  const size_t room = (static_cast<size_t>(width * columns) * sizeof(float) + 63) & ~size_t{63};
  p.scratch(room * static_cast<size_t>(std::max(1, p.threads())));
  const RowEpilogue epilogue(post_ops);
  const int ends = p.inputs();
  return [=](const Args& args) {
    const float *x = args.in<float>(0), *bias = biased ? args.in<float>(2) : nullptr;
    float* const y = args.out<float>(0);
    const float* others[16] = {};
    for (int i = operands; i < ends; ++i) others[i - operands] = args.in<float>(i);
    float start[8] = {};
    for (int64_t c = 0; c < columns && bias != nullptr; ++c) start[c] = bias[c % outputs];
    char* const scratch = args.scratch<char>();
    parallel_for(lines, std::max<int64_t>(1, kGrain / (width * columns * inputs / 8 + 1)),
                 [&](int64_t i, int64_t end) {
                   float* const mine =
                       reinterpret_cast<float*>(scratch + room * static_cast<size_t>(thread_rank()));
                   for (; i < end; ++i) {
                     GemmBlock g{};
                     g.m = width;
                     g.n = columns;
                     g.k = inputs;
                     g.a = x + i * width * inputs;
                     g.a_row = inputs;
                     g.b = static_cast<const float*>(weights.get());
                     g.b_panel = inputs;
                     g.c = mine;
                     g.c_row = columns;
                     g.bias = start;
                     simd().gemm_dots(g);
                     const int64_t offset = i * width * columns;
                     float* to = y + offset;
                     for (int64_t line = 0; line < tall; ++line) {
                       const float* from = mine + line * together;
                       for (int64_t pixel = 0; pixel < width; ++pixel, from += columns) {
                         for (int64_t c = 0; c < together; ++c) *to++ = from[c];
                       }
                     }
                     if (!epilogue.empty()) epilogue.run(y, others, offset, width * columns);
                   }
                 });
  };
}

}  // namespace ephost::cpu
