// MatMul and Gemm, and "ephost.MatMul": what passes make of them, with transposed inputs, a bias, and the
// activations and additions of epilogue.h.
#include <cmath>
#include <numeric>

#include "cpu/engines/as_float.h"
#include "cpu/engines/epilogue_loops.h"
#include "cpu/engines/epilogue_rows.h"
#include "cpu/engines/product.h"
#include "cpu/operator.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// Inputs: a, b, bias (one element for each column), operands of the post-ops.
constexpr int kOperands = 3;

// The product of two stacks of matrices: out[s] = alpha * a[s] * b[s].
struct Product {
  Dims batch;             // Of the output.
  Dims a_batch, b_batch;  // With the rank of `batch`: 1 where they are broadcast.
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  Dims out;  // As ONNX has it.

  int64_t stacks() const { return count(batch); }
};

Product product_of(const Prepare& p, bool trans_a, bool trans_b) {
  Product product;
  Dims a = p.dims(0), b = p.dims(1);
  p.expect(!a.empty() && !b.empty(), "the inputs have at least one dimension");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  product.trans_a = trans_a && !row;
  product.trans_b = trans_b && !column;
  product.m = a[a.size() - (product.trans_a ? 1 : 2)];
  product.k = a[a.size() - (product.trans_a ? 2 : 1)];
  product.n = b[b.size() - (product.trans_b ? 2 : 1)];
  if (b[b.size() - (product.trans_b ? 1 : 2)] != product.k) {
    p.invalid("matrices of shapes " + to_string(p.dims(0)) + " and " + to_string(p.dims(1)) +
              " do not fit each other");
  }
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  a.insert(a.begin(), std::max(a.size(), b.size()) - a.size(), 1);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (size_t i = 0; i < a.size(); ++i) {
    p.expect(a[i] == b[i] || a[i] == 1 || b[i] == 1, "the stacks of matrices do not fit each other");
    product.batch.push_back(a[i] == 1 ? b[i] : a[i]);
  }
  // One matrix b for all of a's rows: a stack of one.
  if (count(b) == 1 && !product.trans_a) {
    product.m *= count(a);
    product.out = product.batch;
    if (!row) product.out.push_back(p.dims(0)[p.dims(0).size() - 2]);
    if (!column) product.out.push_back(product.n);
    product.batch = a = b = {};
  } else {
    product.out = product.batch;
    if (!row) product.out.push_back(product.m);
    if (!column) product.out.push_back(product.n);
  }
  product.a_batch = a;
  product.b_batch = b;
  return product;
}

// Where matrix s of the output finds its factors, counted in matrices. No table: a model may declare stacks
// of more matrices than memory has room for, and never be given them.
std::pair<int64_t, int64_t> factors(const Product& product, int64_t s) {
  int64_t a = 0, b = 0, a_step = 1, b_step = 1;
  for (size_t i = product.batch.size(); i-- > 0; s /= product.batch[i]) {
    const int64_t at = s % product.batch[i];
    a += product.a_batch[i] == 1 ? 0 : at * a_step;
    b += product.b_batch[i] == 1 ? 0 : at * b_step;
    a_step *= product.a_batch[i];
    b_step *= product.b_batch[i];
  }
  return {a, b};
}

// ---- float64 and integers, whose sums wrap around

template <typename T>
Kernel product_of_numbers(Prepare& p, const Product& product) {
  const int64_t m = product.m, n = product.n, k = product.k, stacks = product.stacks();
  const int64_t b_stacks = count(product.b_batch);
  // Rows of b side by side.
  if (product.trans_b) p.scratch(static_cast<size_t>(b_stacks * k * n) * sizeof(T));
  constexpr int64_t kRows = 32;  // At once.
  const int64_t tall = (m + kRows - 1) / kRows;
  return [=](const Args& args) {
    const T *a = args.in<T>(0), *b = args.in<T>(1);
    if (product.trans_b) {
      T* const turned = args.scratch<T>();
      parallel_for(b_stacks * k, std::max<int64_t>(1, kGrain / (n + 1)), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const T* from = b + i / k * k * n + i % k;
          for (int64_t j = 0; j < n; ++j) turned[i * n + j] = from[j * k];
        }
      });
      b = turned;
    }
    const int64_t work = std::min(m, kRows) * n * k;
    parallel_for(stacks * tall, std::max<int64_t>(1, kGrain / (work + 1)), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const auto [sa, sb] = factors(product, i / tall);
        const int64_t first = i % tall * kRows;
        NumberBlock<T> block{};
        block.m = std::min(kRows, m - first);
        block.n = n;
        block.k = k;
        block.a_row = product.trans_a ? 1 : k;
        block.a_step = product.trans_a ? m : 1;
        block.a = a + sa * m * k + first * block.a_row;
        block.b = b + sb * k * n;
        block.c = args.out<T>(0) + (i / tall * m + first) * n;
        number_gemm(block);
      }
    });
  };
}

Kernel plain_product(Prepare& p, const Product& product) {
  p.method("loops");
  return with_one_of<double, int32_t, uint32_t, int64_t, uint64_t>(
      p.type(0), [&](auto zero) { return product_of_numbers<wrapping_t<decltype(zero)>>(p, product); });
}

// ---- float32

// b in panels (see GemmBlock), with room for the last one to be full.
size_t packed_size(int64_t k, int64_t n) {
  const int64_t panel = simd().panel;
  return static_cast<size_t>((n + panel - 1) / panel * panel * k) * sizeof(float);
}

struct PackedMatrices {
  std::shared_ptr<void> memory;
};

// The matrices of a constant, each k x n, packed.
std::shared_ptr<PackedMatrices> packed_matrices(const TensorPtr& constant, int64_t k, int64_t n,
                                                bool transposed) {
  const char* key = transposed ? "panels of columns, transposed" : "panels of columns";
  return Prepare::packed<PackedMatrices>(constant, key, [&] {
    const int64_t width = simd().panel, panels = (n + width - 1) / width;
    const int64_t matrices = k * n == 0 ? 0 : count(constant->dims) / (k * n);
    const int64_t row = transposed ? 1 : n, column = transposed ? k : 1;
    auto made = std::make_shared<PackedMatrices>();
    made->memory = allocate_lasting(packed_size(k, n) * static_cast<size_t>(matrices));
    float* memory = static_cast<float*>(made->memory.get());
    parallel_for(matrices * panels, std::max<int64_t>(1, kGrain / (k * width + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const int64_t q = i % panels;
                     simd().gemm_pack(constant->as<float>() + i / panels * k * n + q * width * column, row,
                                      column, k, std::min(width, n - q * width), memory + i * k * width);
                   }
                 });
    return made;
  });
}

bool packs(const Node& node, size_t i) {
  const Value* b = node.in(1);
  return i == 1 && b->type == DType::kFloat && b->constant != nullptr && !b->constant->dims.empty();
}

bool pack(const Node& node) {
  const TensorPtr& b = node.in(1)->constant;
  Dims dims = b->dims;
  const bool transposed = node.i("transB", 0) != 0 && dims.size() > 1;
  if (dims.size() == 1) {
    dims.push_back(1);
  }
  const int64_t before = dims[dims.size() - 2], last = dims.back();
  packed_matrices(b, transposed ? last : before, transposed ? before : last, transposed);
  return true;
}

// What one thread does: some rows and panels of one matrix of the output.
struct Part {
  int64_t stack, row, rows, panel, panels;
};

// The work, cut into parts of about the same size: one or a few for each thread, or one for each matrix.
class Parts {
 public:
  Parts(const Product& product, int64_t panels, int64_t rows_by, int64_t panels_by)
      : m_(product.m), panels_(panels), rows_by_(rows_by), panels_by_(panels_by), stacks_(product.stacks()) {}

  int64_t size() const { return stacks_ * rows_by_ * panels_by_; }
  int64_t most_panels() const { return (panels_ + panels_by_ - 1) / panels_by_; }
  Part operator[](int64_t i) const {
    const int64_t q = i % panels_by_, r = i / panels_by_ % rows_by_;
    // Whole tiles of six rows, but for the last part.
    const int64_t tiles = (m_ + 5) / 6;
    const int64_t row = tiles * r / rows_by_ * 6, row_end = std::min(m_, tiles * (r + 1) / rows_by_ * 6);
    const int64_t first = panels_ * q / panels_by_, last = panels_ * (q + 1) / panels_by_;
    return {i / panels_by_ / rows_by_, row, row_end - row, first, last - first};
  }

 private:
  int64_t m_, panels_, rows_by_, panels_by_, stacks_;
};

// What is made of the output before the epilogue passes by it.
constexpr int64_t kBlockColumns = kProductColumns, kBlockRows = 192;

Parts divide(const Product& product, int threads, bool b_is_packed) {
  const int64_t width = simd().panel, panels = (product.n + width - 1) / width, stacks = product.stacks();
  const double work =
      static_cast<double>(product.m) * static_cast<double>(product.n) * static_cast<double>(product.k);
  int64_t rows_by = 1, panels_by = 1;
  // A thread is worth waking for some microseconds of work, and so is a part worth being taken.
  const double worth = 5e5;
  if (threads == 1 || work * static_cast<double>(stacks) <= worth) {
    return {product, panels, rows_by, panels_by};
  }
  const auto parts_worth = [&](int64_t most) {
    return std::clamp<int64_t>(static_cast<int64_t>(work * static_cast<double>(stacks) / worth), 2, most);
  };
  if (b_is_packed) {
    // Some for each thread, which takes them as it comes to them: one that computes more slowly than the
    // others, or has been woken late, is waited for by as little as a part. At most the blocks that are
    // computed at a time anyway.
    constexpr int64_t kForEachThread = 4;
    const int64_t want = parts_worth(kForEachThread * threads);
    rows_by = (product.m + kBlockRows - 1) / kBlockRows;
    const auto missing = [&](int64_t there) { return (want + stacks * there - 1) / (stacks * there); };
    panels_by = std::min(panels, std::max((product.n + kBlockColumns - 1) / kBlockColumns, missing(rows_by)));
    rows_by = std::min((product.m + 5) / 6, std::max(rows_by, missing(panels_by)));
    // As many for each thread, where they are few and alike.
    const int64_t step = threads / std::gcd(stacks * rows_by, static_cast<int64_t>(threads));
    const int64_t even = (panels_by + step - 1) / step * step;
    if (even <= panels) panels_by = even;
  } else if (stacks < threads) {
    const int64_t want = std::min<int64_t>((threads + stacks - 1) / stacks, parts_worth(threads));
    if (panels >= want) {
      panels_by = want;
    } else {
      rows_by = std::min<int64_t>(want, (product.m + 5) / 6);
    }
  }
  return {product, panels, rows_by, panels_by};
}

// How the innermost loops read b, best first: the first that fits is taken, and profiles show its name.
enum class Way { kPacked, kDots, kPackedInRun, kInPlace };
struct ProductWay {
  Way way;
  const char* name;
  bool (*fits)(const Product& product, bool constant);
};
constexpr ProductWay kWays[] = {
    {Way::kPacked, "packed", [](const Product&, bool constant) { return constant; }},
    // A few rows are not worth packing b for.
    {Way::kDots, "dots", [](const Product& p, bool) { return p.trans_b && p.m < 4 && !p.trans_a; }},
    {Way::kPackedInRun, "packed in the run", [](const Product& p, bool) { return p.trans_b || p.m >= 32; }},
    {Way::kInPlace, "in place", [](const Product&, bool) { return true; }},
};

// A column on the right as a row on the left: the same numbers, where b's one column would fill a tile's
// first lane alone.
Product turned(Product product) {
  std::swap(product.m, product.n);
  std::swap(product.a_batch, product.b_batch);
  product.trans_a = false;
  product.trans_b = true;
  return product;
}

// Input 2 is a bias where `biased`.
Kernel float_product(Prepare& p, const Product& given, const PostOps& post_ops, bool biased) {
  const bool turns = given.n == 1 && given.m > 1 && !given.trans_a && !biased && p.constant(1) == nullptr;
  const Product product = turns ? turned(given) : given;
  std::vector<Dims> operand_dims;
  bool same_shape = true;
  for (int i = kOperands; i < p.inputs(); ++i) {
    operand_dims.push_back(p.dims(i));
    same_shape = same_shape && operand_dims.back() == product.out;
  }
  p.expect(!biased || p.in(2).count() == product.n, "the bias has not one element for each column");
  const Dims dims = posted(operand_dims, product.out);
  p.out(0, DType::kFloat, dims);
  if (count(dims) == 0) {
    return [](const Args&) {};
  }
  const int64_t m = product.m, n = product.n, k = product.k, width = simd().panel;
  const TensorPtr constant = p.constant(1);
  const size_t packed_bytes = packed_size(k, n);
  const ProductWay& chosen = *std::find_if(std::begin(kWays), std::end(kWays), [&](const ProductWay& each) {
    return each.fits(product, constant != nullptr);
  });
  p.method(chosen.name);
  const std::shared_ptr<PackedMatrices> weights =
      chosen.way == Way::kPacked ? packed_matrices(constant, k, n, product.trans_b) : nullptr;
  const bool dots = chosen.way == Way::kDots;
  const Parts parts = divide(product, p.threads(), weights != nullptr);
  const int64_t part_panels = parts.most_panels();
  // Memory for what a thread packs of b: a block at a time, of the last panel alone where the others lie as
  // they are needed.
  const int threads = std::max(1, p.threads());
  const bool packs = chosen.way == Way::kPackedInRun;
  const int64_t packed = packs ? std::min(part_panels * width, kBlockColumns) * std::min(k, simd().depth)
                         : chosen.way == Way::kInPlace ? width * std::min(k, simd().depth)
                                                       : 0;
  const size_t own = (static_cast<size_t>(packed) * sizeof(float) + 63) & ~size_t{63};
  const bool fused = same_shape;
  const bool in_scratch = dims != product.out;
  const size_t packing = own * static_cast<size_t>(threads);
  p.scratch(packing + (in_scratch ? static_cast<size_t>(count(product.out)) * sizeof(float) : 0));
  const RowEpilogue epilogue = fused ? RowEpilogue(post_ops) : RowEpilogue();
  const auto stacked = product.batch.empty() ? nullptr : std::make_shared<const Product>(product);
  struct Apart {
    PostOps post_ops;
    std::vector<Dims> operands;
    Dims product, out;
  };
  const auto apart =
      fused ? nullptr
            : std::make_shared<const Apart>(Apart{post_ops, std::move(operand_dims), product.out, dims});
  return [=, stacks = product.stacks(), trans_a = product.trans_a, trans_b = product.trans_b,
          inputs = p.inputs()](const Args& args) {
    const float *a = args.in<float>(turns ? 1 : 0), *b = args.in<float>(turns ? 0 : 1),
                *bias = biased ? args.in<float>(2) : nullptr;
    char* scratch = args.scratch<char>();
    float* y = args.out<float>(0);
    float* out = in_scratch ? reinterpret_cast<float*>(scratch + packing) : y;
    const float* operands[8] = {};
    for (int i = kOperands; i < inputs; ++i) operands[i - kOperands] = args.in<float>(i);
    const Simd& table = simd();
    const float* packed_b = weights == nullptr ? nullptr : static_cast<const float*>(weights->memory.get());

    const auto run = [&](const Part& part, float* room) {
      const auto [sa, sb] =
          stacked == nullptr ? std::pair<int64_t, int64_t>() : factors(*stacked, part.stack);
      GemmBlock g{};
      g.a_row = trans_a ? 1 : k;
      g.a_step = trans_a ? m : 1;
      g.c_row = n;
      const float* from_a = a + sa * m * k;
      float* to = out + part.stack * m * n;
      const int64_t first = part.panel * width, end = std::min(n, first + part.panels * width);
      const auto finish = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
        if (epilogue.empty()) {
          return;
        }
        const int64_t start = part.stack * m * n + row * n + column;
        if (columns == n) {
          epilogue.run(out, operands, start, rows * n);
          return;
        }
        for (int64_t r = 0; r < rows; ++r) epilogue.run(out, operands, start + r * n, columns);
      };
      if (dots) {
        g.m = part.rows;
        g.n = end - first;
        g.k = k;
        g.a = from_a + part.row * k;
        g.b = b + sb * k * n + first * k;
        g.b_panel = k;
        g.c = to + part.row * n + first;
        g.bias = bias == nullptr ? nullptr : bias + first;
        table.gemm_dots(g);
        finish(part.row, part.rows, first, g.n);
        return;
      }
      // Null where the weights are packed: nothing keeps the original then.
      const float* from_b = b == nullptr ? nullptr : b + sb * k * n;
      // Adds the products of `depth` of b's rows from p0 on; `panels` are those of the first of them and of
      // these columns.
      const auto multiply = [&](int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t p0,
                                int64_t depth, const float* panels, int64_t step, int64_t panel) {
        GemmBlock block = g;
        block.m = rows;
        block.n = columns;
        block.k = depth;
        block.a = from_a + row * g.a_row + p0 * g.a_step;
        block.b = panels;
        block.b_step = step;
        block.b_panel = panel;
        block.c = to + row * n + column;
        block.bias = bias == nullptr ? nullptr : bias + column;
        block.accumulate = p0 > 0;
        gemm_in_blocks(block);
      };
      const int64_t row_end = part.row + part.rows;
      // Of columns that do not lie as they are needed, some rows of b at a time, from one on.
      const auto pack_and_multiply = [&](int64_t column, int64_t columns, int64_t begin) {
        const int64_t deep = k - begin, depths = std::max<int64_t>(1, (deep + table.depth - 1) / table.depth);
        for (int64_t d = 0; d < depths; ++d) {
          const int64_t p0 = begin + deep * d / depths, depth = begin + deep * (d + 1) / depths - p0;
          const int64_t b_row = trans_b ? 1 : n, b_column = trans_b ? k : 1;
          table.gemm_pack(from_b + p0 * b_row + column * b_column, b_row, b_column, depth, columns, room);
          for (int64_t row = part.row; row < row_end; row += kBlockRows) {
            const int64_t rows = std::min(kBlockRows, row_end - row);
            multiply(row, rows, column, columns, p0, depth, room, width, width * depth);
            if (d + 1 == depths) finish(row, rows, column, columns);
          }
        }
      };
      if (packs) {
        for (int64_t column = first; column < end; column += kBlockColumns) {
          pack_and_multiply(column, std::min(kBlockColumns, end - column), 0);
        }
        return;
      }
      // Panels are multiplied where they lie, but for the last one if it is not full.
      const float* panels = nullptr;
      int64_t full = end, step = n, panel = width;
      if (packed_b != nullptr) {
        panels = packed_b + sb * static_cast<int64_t>(packed_bytes / sizeof(float)) + part.panel * width * k;
        step = width;
        panel = width * k;
      } else {
        panels = from_b + first;
        full = first + (end - first) / width * width;
      }
      for (int64_t column = first; column < full; column += kBlockColumns) {
        const int64_t columns = std::min(kBlockColumns, full - column);
        for (int64_t row = part.row; row < row_end; row += kBlockRows) {
          const int64_t rows = std::min(kBlockRows, row_end - row);
          multiply(row, rows, column, columns, 0, k, panels + (column - first) / width * panel, step, panel);
          finish(row, rows, column, columns);
        }
      }
      if (full < end) {
        // A panel of some columns reaches into the next rows of b, and can be read of all but the last ones.
        const int64_t behind = k * n - full - width, readable = behind < 0 ? 0 : behind / n + 1;
        if (readable > 0) {
          multiply(part.row, part.rows, full, end - full, 0, readable, from_b + full, n, 0);
        }
        pack_and_multiply(full, end - full, readable);
      }
    };
    const int64_t total = parts.size();
    // A few rows take as long as reading b does.
    const double work =
        static_cast<double>(std::max<int64_t>(m, 4)) * static_cast<double>(n) * static_cast<double>(k);
    const int64_t grain = std::max<int64_t>(
        1,
        static_cast<int64_t>(2.5e5 / (work * static_cast<double>(stacks) / static_cast<double>(total) + 1)));
    if (own == 0) {
      parallel_for(total, grain, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) run(parts[i], nullptr);
      });
    } else {
      // Shares, each with memory of its own.
      const int64_t shares = std::clamp<int64_t>(total / grain, 1, threads);
      parallel_for(shares, 1, [&](int64_t share, int64_t end) {
        for (; share < end; ++share) {
          float* room = reinterpret_cast<float*>(scratch + own * static_cast<size_t>(share));
          for (int64_t i = total * share / shares; i < total * (share + 1) / shares; ++i) {
            run(parts[i], room);
          }
        }
      });
    }
    if (apart == nullptr) {
      return;
    }
    const std::vector<const float*> values(operands, operands + apart->operands.size());
    if (in_scratch) {
      std::fill(y, y + count(apart->out), 0.0f);
      apply_post_ops({PostOp::add()}, {apart->product}, {out}, apart->out, y);
    }
    apply_post_ops(apart->post_ops, apart->operands, values, apart->out, y);
  };
}

Kernel matmul(Prepare& p) {
  const Product product = product_of(p, p.node.i("transA", 0) != 0, p.node.i("transB", 0) != 0);
  p.expect(p.type(0) == p.type(1), "the matrices have different types");
  if (p.type(0) == DType::kFloat) {
    return float_product(p, product, post_ops_of(p.node), p.has(2));
  }
  p.out(0, p.type(0), product.out);
  return plain_product(p, product);
}

// com.microsoft's FusedMatMul.
Kernel fused_matmul(Prepare& p) {
  const Product product = product_of(p, p.node.i("transA", 0) != 0, p.node.i("transB", 0) != 0);
  const float alpha = p.node.f("alpha", 1);
  return float_product(p, product, alpha == 1 ? PostOps{} : PostOps{{Activation::kAffine, alpha, 0}}, false);
}

template <typename T>
Kernel plain_gemm(const Kernel& loops, T alpha, T beta, const Dims& dims, const std::optional<Dims>& c_dims) {
  return [=](const Args& args) {
    loops(args);
    T* out = args.out<T>(0);
    const T* c = c_dims.has_value() ? args.in<T>(2) : nullptr;
    const Dims from = c_dims.value_or(Dims{});
    const int64_t rows = from.size() < 2 || from[0] == 1 ? 0 : from[1],
                  columns = from.empty() || from.back() == 1 ? 0 : 1;
    parallel_for(dims[0], std::max<int64_t>(1, kGrain / (dims[1] + 1)), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        for (int64_t j = 0; j < dims[1]; ++j) {
          T& value = out[i * dims[1] + j];
          value = value * alpha + (c == nullptr ? T{} : beta * c[i * rows + j * columns]);
        }
      }
    });
  };
}

Kernel gemm(Prepare& p) {
  const bool trans_a = p.node.i("transA", 0) != 0, trans_b = p.node.i("transB", 0) != 0;
  p.expect(p.dims(0).size() == 2 && p.dims(1).size() == 2, "Gemm multiplies matrices");
  const Product product = product_of(p, trans_a, trans_b);
  const float alpha = p.node.f("alpha", 1), beta = p.node.f("beta", 1);
  const bool has_c = p.has(2);
  std::optional<Dims> c_dims;
  if (has_c) {
    c_dims = p.dims(2);
    p.expect(posted({*c_dims}, product.out) == product.out, "C does not fit the product");
    p.expect(p.type(2) == p.type(0), "C has another type than the matrices");
  }
  p.expect(p.type(0) == p.type(1), "the matrices have different types");
  const bool bias = has_c && !c_dims->empty() && alpha == 1 && beta == 1 && p.in(2).count() == product.n &&
                    c_dims->back() == product.n;
  if (p.type(0) == DType::kFloat && (!has_c || bias)) {
    return float_product(p, product, alpha == 1 ? PostOps{} : PostOps{{Activation::kAffine, alpha, 0}}, bias);
  }
  if (p.type(0) == DType::kFloat) {
    return plain_gemm<float>(float_product(p, product, {}, false), alpha, beta, product.out, c_dims);
  }
  p.out(0, p.type(0), product.out);
  const Kernel loops = plain_product(p, product);
  return with_one_of<double, int32_t, uint32_t, int64_t, uint64_t>(p.type(0), [&](auto zero) {
    using T = decltype(zero);
    return plain_gemm<T>(loops, static_cast<T>(alpha), static_cast<T>(beta), product.out, c_dims);
  });
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr Types kProducts = kFloats | Types{DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64};
  registry->add(
      {.type = "MatMul", .prepare = with_halves(matmul), .packs = packs, .pack = pack, .types = kProducts});
  registry->add({.type = "Gemm",
                 .supports = [](const Node& node) -> std::string {
                   const float alpha = node.f("alpha", 1), beta = node.f("beta", 1);
                   const Value* a = node.in(0);
                   const bool whole = alpha == std::floor(alpha) && beta == std::floor(beta);
                   return a == nullptr || kFloats.has(a->type) || whole
                              ? ""
                              : "integers with a factor that is none";
                 },
                 .prepare = with_halves(gemm),
                 .packs = packs,
                 .pack = pack,
                 .types = kProducts});
  for (const char* type : {"FusedMatMul", "TransposeMatMul"}) {  // The second is what the first was called.
    registry->add({.domain = "com.microsoft",
                   .type = type,
                   .supports = [](const Node& node) -> std::string {
                     const bool batches = node.i("transBatchA", 0) != 0 || node.i("transBatchB", 0) != 0;
                     return batches ? "batches that are no outer dimensions" : "";
                   },
                   .prepare = with_halves(fused_matmul),
                   .packs = packs,
                   .pack = pack,
                   .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16}});
  }
  registry->add({.domain = "ephost",
                 .type = "MatMul",
                 .prepare = with_halves(matmul),
                 .packs = packs,
                 .pack = pack,
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16}});
});

}  // namespace ephost::cpu
