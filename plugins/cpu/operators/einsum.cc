// Einsum for what is no product of two matrices, or of stacks of them: those are rewritten (see fuse.h).
//
// Inputs are taken one after the other: each is multiplied with what came of the ones before, and labels that
// nobody asks for any more are summed over at once. Such a product of two is a stack of products of matrices,
// whose rows, columns and depth are several labels each.
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "cpu/engines/as_float.h"
#include "cpu/engines/product.h"
#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/dispatch.h"
#include "toolkit/passes/einsum.h"

namespace ephost::cpu {
namespace {

bool has(const std::string& labels, char c) { return labels.find(c) != std::string::npos; }

template <typename Keep>
std::string filtered(const std::string& labels, const Keep& keep) {
  std::string made;
  std::copy_if(labels.begin(), labels.end(), std::back_inserter(made), keep);
  return made;
}

// Where a tensor of a run is.
struct Place {
  enum { kInput, kScratch, kOutput } kind = kInput;
  int input = 0;
  size_t offset = 0;  // In bytes.
};

// Labels with more than one element, each of which is there once, and the distance of neighbours.
struct Term {
  std::string labels;
  Dims strides;
  Place place;

  int64_t stride(char label) const { return strides[labels.find(label)]; }
};

// Steps of a run, of numbers of type T.
template <typename T>
class Contraction {
 public:
  using Step = std::function<void(const Args&)>;

  Contraction(Prepare& p, const Equation& equation) : output_(equation.output) {
    length_.fill(1);
    for (size_t i = 0; i < equation.inputs.size(); ++i) {
      const Dims& dims = p.dims(static_cast<int>(i));
      const std::string& own = equation.inputs[i];
      for (size_t d = 0; d < dims.size(); ++d) {
        // A diagonal is of squares: only what lies in different inputs is broadcast.
        p.expect(dims[own.find(own[d])] == dims[d], "a label has two lengths in one input");
        int64_t& n = length_[static_cast<size_t>(own[d])];
        p.expect(n == dims[d] || n == 1 || dims[d] == 1, "a label has two lengths");
        n = n == 1 ? dims[d] : n;
      }
    }
    Dims out;
    for (const char label : output_) out.push_back(length(label));
    results_ = p.out(0, p.type(0), out).count();
    is_empty_ = std::any_of(length_.begin(), length_.end(), [](int64_t n) { return n == 0; });
    if (is_empty_) return;
    std::vector<Term> terms;
    for (size_t i = 0; i < equation.inputs.size(); ++i) {
      terms.push_back(term_of(equation.inputs[i], p.dims(static_cast<int>(i)), static_cast<int>(i)));
    }
    output_ = filtered(output_, [&](char c) { return length(c) > 1; });
    Term made = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      made = product(made, terms[i], [&](char c) {
        return has(output_, c) || std::any_of(terms.begin() + static_cast<ptrdiff_t>(i) + 1, terms.end(),
                                              [c](const Term& later) { return has(later.labels, c); });
      });
    }
    arranged(made, output_, sums_of(made, output_), true);
    p.scratch(scratch_);
  }

  void operator()(const Args& args) const {
    if (is_empty_) {
      std::fill_n(args.out<T>(0), results_, T{});
      return;
    }
    for (const Step& step : steps_) step(args);
  }

 private:
  int64_t length(char label) const { return length_[static_cast<size_t>(label)]; }
  // Error(ORT_FAIL) where no memory has so many elements: what comes of some inputs may be larger than all of
  // them, and the output.
  int64_t size(const std::string& labels) const {
    constexpr int64_t kMost = int64_t{1} << 48;
    int64_t n = 1;
    for (const char label : labels) {
      if (n > kMost / length(label)) fail("labels '" + labels + "' of more elements than memory has");
      n *= length(label);
    }
    return n;
  }
  Dims sizes(const std::string& labels) const {
    Dims dims;
    for (const char label : labels) dims.push_back(length(label));
    return dims;
  }

  static T* at(const Args& args, const Place& place) {
    switch (place.kind) {
      case Place::kInput:  // Nobody writes there.
        return const_cast<T*>(args.in<T>(place.input)) + place.offset / sizeof(T);
      case Place::kScratch:
        return reinterpret_cast<T*>(args.scratch<char>() + place.offset);
      default:
        return args.out<T>(0);
    }
  }
  Place take(int64_t elements) {
    const Place place{Place::kScratch, 0, scratch_};
    scratch_ += (static_cast<size_t>(elements) * sizeof(T) + 63) / 64 * 64;
    return place;
  }

  Term term_of(const std::string& labels, const Dims& dims, int input) const {
    const Dims own = strides_of(dims);
    Term term;
    term.place.input = input;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == 1) continue;
      const size_t known = term.labels.find(labels[d]);
      if (known == std::string::npos) {
        term.labels += labels[d];
        term.strides.push_back(own[d]);
      } else {
        term.strides[known] += own[d];  // A diagonal.
      }
    }
    return term;
  }

  static std::string sums_of(const Term& term, const std::string& kept) {
    return filtered(term.labels, [&](char c) { return !has(kept, c); });
  }

  Term contiguous(const std::string& labels, const Place& place) const {
    return {labels, strides_of(sizes(labels)), place};
  }

  // The term with the labels `order`, in which neighbours lie side by side, summed over the labels `sums`; in
  // the output, or where there is room.
  Term arranged(const Term& term, const std::string& order, const std::string& sums, bool in_output = false) {
    const std::string all = order + sums;
    Dims from;
    // A label that the term does not have is broadcast.
    for (const char label : all) from.push_back(has(term.labels, label) ? term.stride(label) : 0);
    const StridedCopy copy(sizeof(T), sizes(all), from, strides_of(sizes(all)));
    Place place = term.place;
    if (in_output && sums.empty()) {
      if (place.kind != Place::kOutput || !copy.is_run()) {
        add_copy(copy, place, {Place::kOutput, 0, 0});
      }
      return contiguous(order, {Place::kOutput, 0, 0});
    }
    if (copy.is_run()) {
      place.offset += copy.in_offset();
    } else {
      place = take(size(all));
      add_copy(copy, term.place, place);
    }
    if (sums.empty()) return contiguous(order, place);
    const Place to = in_output ? Place{Place::kOutput, 0, 0} : take(size(order));
    const int64_t rows = size(order), n = size(sums);
    steps_.push_back([=](const Args& args) {
      const T* const x = at(args, place);
      T* const y = at(args, to);
      parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) y[i] = total(x + i * n, n);
      });
    });
    return contiguous(order, to);
  }

  void add_copy(const StridedCopy& copy, const Place& from, const Place& to) {
    steps_.push_back([=](const Args& args) { copy(at(args, from), at(args, to)); });
  }

  static T total(const T* x, int64_t n) {
    if constexpr (std::is_same_v<T, float>) {
      return simd().reduce[kSum](x, n, 0);
    } else {
      T sum{};
      for (int64_t i = 0; i < n; ++i) sum = static_cast<T>(sum + x[i]);
      return sum;
    }
  }

  // Of two terms, summed over the labels that are not kept.
  template <typename Keep>
  Term product(Term a, Term b, const Keep& keep) {
    for (Term* term : {&a, &b}) {
      const std::string& others = (term == &a ? b : a).labels;
      const auto is_left = [&](char c) { return has(others, c) || keep(c); };
      const std::string left = filtered(term->labels, is_left);
      if (left != term->labels) *term = arranged(*term, left, sums_of(*term, left));
    }
    Parts parts;
    parts.batch = filtered(a.labels, [&](char c) { return has(b.labels, c) && keep(c); });
    parts.sums = filtered(a.labels, [&](char c) { return has(b.labels, c) && !keep(c); });
    parts.rows = filtered(a.labels, [&](char c) { return !has(b.labels, c); });
    parts.columns = filtered(b.labels, [&](char c) { return !has(a.labels, c); });
    for (std::string* labels : {&parts.batch, &parts.rows, &parts.columns}) {
      std::stable_sort(labels->begin(), labels->end(),
                       [&](char x, char y) { return output_.find(x) < output_.find(y); });
    }
    if constexpr (std::is_same_v<T, float>) {
      if (!parts.sums.empty()) return matrices(a, b, parts);
    }
    return plainly(a, b, parts);
  }

  struct Parts {
    std::string batch, rows, columns, sums;
    std::string made() const { return batch + rows + columns; }
  };

  Term plainly(const Term& a, const Term& b, const Parts& parts) {
    const Place left = arranged(a, parts.batch + parts.rows + parts.sums, "").place;
    const Place right = arranged(b, parts.batch + parts.sums + parts.columns, "").place;
    const int64_t stack = size(parts.batch), m = size(parts.rows), n = size(parts.columns),
                  k = size(parts.sums);
    const Term made = contiguous(parts.made(), take(stack * m * n));
    steps_.push_back([=, to = made.place](const Args& args) {
      using Sum = std::conditional_t<std::is_integral_v<T>, wrapping_t<T>, T>;
      const T *const x = at(args, left), *const y = at(args, right);
      T* const z = at(args, to);
      if (m == 1 && n == 1 && k == 1) {
        parallel_for(stack, kGrain, [&](int64_t i, int64_t end) {
          for (; i < end; ++i) z[i] = static_cast<T>(static_cast<Sum>(x[i]) * static_cast<Sum>(y[i]));
        });
        return;
      }
      if constexpr (sizeof(T) >= 4 && !std::is_same_v<T, float>) {
        constexpr int64_t kRowsAtOnce = 32;
        const int64_t tall = (m + kRowsAtOnce - 1) / kRowsAtOnce, work = std::min(m, kRowsAtOnce) * n * k;
        parallel_for(stack * tall, std::max<int64_t>(1, kGrain / work), [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            const int64_t item = i / tall, first = i % tall * kRowsAtOnce;
            NumberBlock<Sum> block{};
            block.m = std::min(kRowsAtOnce, m - first);
            block.n = n;
            block.k = k;
            block.a = reinterpret_cast<const Sum*>(x) + (item * m + first) * k;
            block.a_row = k;
            block.a_step = 1;
            block.b = reinterpret_cast<const Sum*>(y) + item * k * n;
            block.c = reinterpret_cast<Sum*>(z) + (item * m + first) * n;
            number_gemm(block);
          }
        });
        return;
      }
      parallel_for(stack * m, std::max<int64_t>(1, kGrain / (n * k)), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          T* const row = z + i * n;
          std::fill_n(row, n, T{});
          for (int64_t p = 0; p < k; ++p) {
            const T *const from = y + (i / m * k + p) * n, factor = x[i * k + p];
            for (int64_t j = 0; j < n; ++j) {
              row[j] = static_cast<T>(static_cast<Sum>(row[j]) +
                                      static_cast<Sum>(factor) * static_cast<Sum>(from[j]));
            }
          }
        }
      });
    });
    return made;
  }

  // The distance of neighbours if labels, one inside of the other, are like one dimension; else 0.
  int64_t merged(const Term& term, const std::string& labels) const {
    if (labels.empty()) return 1;
    for (size_t i = 0; i + 1 < labels.size(); ++i) {
      if (term.stride(labels[i]) != term.stride(labels[i + 1]) * length(labels[i + 1])) return 0;
    }
    return term.stride(labels.back());
  }

  // Matrices of a stack, which lie as the labels of a batch say.
  struct Stack {
    Place place;
    std::vector<std::pair<int64_t, int64_t>> dims;  // How many, and how far apart; the innermost first.

    const T* item(const Args& args, int64_t i) const {
      const T* from = at(args, place);
      for (const auto& [n, stride] : dims) {
        from += i % n * stride;
        i /= n;
      }
      return from;
    }
  };
  Stack stack_of(const Term& term, const std::string& batch) const {
    Stack stack{term.place, {}};
    for (size_t i = batch.size(); i-- > 0;) {
      const int64_t n = length(batch[i]), stride = term.stride(batch[i]);
      if (!stack.dims.empty() && stride == stack.dims.back().first * stack.dims.back().second) {
        stack.dims.back().first *= n;
      } else {
        stack.dims.emplace_back(n, stride);
      }
    }
    return stack;
  }

  // Rows up to which dot products with columns that lie in one piece are quicker than panels of columns, and
  // up to which it is not worth it to pack the columns.
  static constexpr int64_t kFewRows = 8;

  Term matrices(Term a, Term b, Parts parts) {
    const auto is_long = [&](const Term& one, const std::string& own, const std::string& others) {
      return size(own) >= size(others) && size(others) <= kFewRows && merged(one, parts.sums) == 1;
    };
    bool dots = is_long(b, parts.columns, parts.rows);
    if (!dots && is_long(a, parts.rows, parts.columns)) {
      dots = true;
      std::swap(a, b);
      std::swap(parts.rows, parts.columns);
    }
    GemmBlock g{};
    g.m = size(parts.rows);
    g.n = size(parts.columns);
    g.k = size(parts.sums);
    if (merged(a, parts.rows) == 0 || merged(a, parts.sums) == 0 || (dots && merged(a, parts.sums) != 1)) {
      a = arranged(a, parts.batch + parts.rows + parts.sums, "");
    }
    if (dots && (merged(b, parts.sums) != 1 || merged(b, parts.columns) == 0)) {
      b = arranged(b, parts.batch + parts.columns + parts.sums, "");
    } else if (!dots && (merged(b, parts.sums) == 0 || merged(b, parts.columns) == 0)) {
      b = arranged(b, parts.batch + parts.sums + parts.columns, "");
    }
    g.a_row = merged(a, parts.rows);
    g.a_step = merged(a, parts.sums);
    g.c_row = g.n;
    const int64_t stack = size(parts.batch);
    const Term made = contiguous(parts.made(), take(stack * g.m * g.n));
    const Stack left = stack_of(a, parts.batch), right = stack_of(b, parts.batch);
    if (dots) {
      g.b_step = 1;
      g.b_panel = merged(b, parts.columns);
      steps_.push_back([=, to = made.place](const Args& args) {
        constexpr int64_t kColumns = 64;  // At once.
        const int64_t wide = (g.n + kColumns - 1) / kColumns;
        const int64_t work = g.m * g.k * std::min(g.n, kColumns);
        parallel_for(stack * wide, std::max<int64_t>(1, kGrain / work), [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            const int64_t first = i % wide * kColumns;
            GemmBlock block = g;
            block.n = std::min(kColumns, g.n - first);
            block.a = left.item(args, i / wide);
            block.b = right.item(args, i / wide) + first * g.b_panel;
            block.c = at(args, to) + i / wide * g.m * g.n + first;
            simd().gemm_dots(block);
          }
        });
      });
      return made;
    }
    add_panels(g, stack, left, right, made.place, merged(b, parts.sums), merged(b, parts.columns));
    return made;
  }

  void add_panels(const GemmBlock& g, int64_t stack, const Stack& a, const Stack& b, const Place& to,
                  int64_t row, int64_t column) {
    const int64_t panel = simd().panel;
    // Whole panels of rows that lie as they are needed; the columns behind them are packed.
    const int64_t plain = column == 1 && (g.m <= kFewRows || g.n % panel == 0) ? g.n / panel * panel : 0;
    const int64_t rest = g.n - plain, packed_size = (rest + panel - 1) / panel * panel * g.k;
    const Place packed = take(stack * packed_size);
    if (rest > 0) {
      steps_.push_back([=](const Args& args) {
        parallel_for(stack, std::max<int64_t>(1, kGrain / packed_size), [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            simd().gemm_pack(b.item(args, i) + plain * column, row, column, g.k, rest,
                             at(args, packed) + i * packed_size);
          }
        });
      });
    }
    constexpr int64_t kRowsAtOnce = 48;
    const int64_t tall = (g.m + kRowsAtOnce - 1) / kRowsAtOnce,
                  wide = (g.n + kProductColumns - 1) / kProductColumns;
    const int64_t work = std::min(g.m, kRowsAtOnce) * std::min(g.n, kProductColumns) * g.k;
    steps_.push_back([=](const Args& args) {
      parallel_for(stack * tall * wide, std::max<int64_t>(1, 4 * kGrain / work), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const int64_t item = i / (tall * wide), first = i / wide % tall * kRowsAtOnce;
          const int64_t left = i % wide * kProductColumns, right = std::min(g.n, left + kProductColumns);
          GemmBlock block = g;
          block.m = std::min(kRowsAtOnce, g.m - first);
          block.a = a.item(args, item) + first * g.a_row;
          float* const c = at(args, to) + (item * g.m + first) * g.n;
          if (left < plain) {
            block.n = std::min(right, plain) - left;
            block.b = b.item(args, item) + left;
            block.b_step = row;
            block.b_panel = panel;
            block.c = c + left;
            gemm_in_blocks(block);
          }
          if (right > plain) {
            const int64_t begin = std::max(left, plain);
            block.n = right - begin;
            block.b = at(args, packed) + item * packed_size + (begin - plain) * g.k;
            block.b_step = panel;
            block.b_panel = panel * g.k;
            block.c = c + begin;
            gemm_in_blocks(block);
          }
        }
      });
    });
  }

  std::array<int64_t, 128> length_{};
  std::string output_;
  int64_t results_ = 0;
  bool is_empty_ = false;
  size_t scratch_ = 0;
  std::vector<Step> steps_;
};

Kernel einsum(Prepare& p) {
  std::vector<size_t> ranks;
  for (int i = 0; i < p.inputs(); ++i) ranks.push_back(p.in(i).rank());
  Equation equation;
  p.expect(parse_equation(p.node.s("equation", ""), ranks, &equation),
           "the equation does not fit the inputs");
  return with_type(p.type(0), [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      return Contraction<T>(p, equation);
    } else {
      p.invalid("numbers that it does not sum");
    }
  });
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Einsum",
                 .supports =
                     [](const Node& node) {
                       return node.s("equation", "").find_first_of("\"'") != std::string::npos
                                  ? "an equation that is none"
                                  : "";
                     },
                 .prepare = with_halves(einsum),
                 .types = kNumbers});
});

}  // namespace ephost::cpu
