// Pooling. Windows over float32 in layouts that keep channels together run on oneDNN; those over plain
// tensors, which oneDNN takes 30 times as long for, dimension by dimension; indices, and norms, by plain
// loops.
#include <cmath>
#include <limits>

#include "cpu/engines/as_float.h"
#include "cpu/engines/conv/window.h"
#include "cpu/engines/int8/int8.h"
#include "cpu/engines/onednn_operators.h"
#include "cpu/operator.h"
#include "cpu/runtime/careful.h"
#include "cpu/simd/simd.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

// ---- Windows

// The taps of one dimension of a window.
struct Taps {
  int64_t first = 0, inside = 0;  // Where the first one inside of the input reads, and how many there are.
  int64_t padded = 0;             // How many lie inside of the padded input.
};

// For each place of output dimension d.
std::vector<Taps> taps_of(const Window& w, size_t d) {
  std::vector<Taps> all(static_cast<size_t>(w.out[d]));
  for (size_t o = 0; o < all.size(); ++o) {
    const int64_t origin = static_cast<int64_t>(o) * w.strides[d] - w.begin[d];
    // How many taps lie before this place.
    const auto before = [&](int64_t end) {
      const int64_t room = std::max<int64_t>(0, end - origin);
      return std::min(w.kernel[d], (room + w.dilations[d] - 1) / w.dilations[d]);
    };
    const int64_t outside = before(0);
    all[o] = {origin + outside * w.dilations[d], before(w.in[d]) - outside, before(w.in[d] + w.end[d])};
    if (all[o].inside == 0) all[o].first = 0;
  }
  return all;
}

// Calls visit(output, where its channel begins, taps inside of the input, their number) for each output.
template <typename Visit>
void for_windows(const Dims& dims, const Window& w, const Visit& visit) {
  const size_t rank = w.rank();
  const int64_t out_size = count(w.out), in_size = count(w.in);
  std::vector<std::vector<Taps>> taps;
  for (size_t d = 0; d < rank; ++d) taps.push_back(taps_of(w, d));
  parallel_for(dims[0] * dims[1] * out_size, 256, [&](int64_t i, int64_t end) {
    std::vector<int64_t> inside;
    for (; i < end; ++i) {
      const Taps* at[8];
      int64_t rest = i % out_size, n = 1;
      for (size_t d = rank; d-- > 0; rest /= w.out[d]) {
        at[d] = &taps[d][static_cast<size_t>(rest % w.out[d])];
        n *= at[d]->inside;
      }
      inside.resize(static_cast<size_t>(n));
      for (int64_t k = 0; k < n; ++k) {
        int64_t from = 0, step = 1;
        rest = k;
        for (size_t d = rank; d-- > 0; rest /= at[d]->inside, step *= w.in[d]) {
          from += (at[d]->first + rest % at[d]->inside * w.dilations[d]) * step;
        }
        inside[static_cast<size_t>(k)] = from;
      }
      visit(i, i / out_size * in_size, inside.data(), n);
    }
  });
}

// What is done to the elements of a window.
template <typename T>
struct Largest {
  static T none() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  static T add(T a, T b) {
    // One instruction, which takes b where either is not a number; the branch is hardly ever taken.
    const T larger = a > b ? a : b;
    return a != a ? a : larger;
  }
  static T finish(T a, int64_t) { return a; }
  // Of `count` rows, if there is a better way than one by one.
  static bool rows(const T* const* rows, int64_t count, int64_t n, T* y) {
    if constexpr (sizeof(T) == 1) {
      const Bytewise& simd = ephost::cpu::simd().bytes;
      const auto largest = std::is_signed_v<T> ? simd.largest_signed : simd.largest_unsigned;
      largest(reinterpret_cast<const uint8_t* const*>(rows), count, n, reinterpret_cast<uint8_t*>(y));
      return true;
    }
    return false;
  }
};

// With the places where the largest elements are, of images.
template <typename T>
Kernel max_of_images(const Dims& dims, const Window& w, bool column_major) {
  return [=, down = taps_of(w, 0), along = taps_of(w, 1)](const Args& args) {
    const int64_t height = w.in[0], width = w.in[1], out_height = w.out[0], out_width = w.out[1];
    const int64_t row_step = w.dilations[0] * width, step = w.dilations[1];
    parallel_for(dims[0] * dims[1] * out_height,
                 std::max<int64_t>(1, kGrain / (out_width * count(w.kernel) + 1)),
                 [&](int64_t i, int64_t end) {
                   for (; i < end; ++i) {
                     const Taps& rows = down[static_cast<size_t>(i % out_height)];
                     const int64_t base = i / out_height * height * width;
                     const T* const x = args.in<T>(0) + base;
                     T* const y = args.out<T>(0) + i * out_width;
                     int64_t* const indices = args.out<int64_t>(1) + i * out_width;
                     for (int64_t o = 0; o < out_width; ++o) {
                       const Taps& columns = along[static_cast<size_t>(o)];
                       const bool is_outside = rows.inside * columns.inside == 0;
                       int64_t from = rows.first * width + columns.first, where = is_outside ? 0 : from;
                       T best = is_outside ? Largest<T>::none() : x[from];
                       for (int64_t r = 0; r < rows.inside; ++r, from += row_step) {
                         for (int64_t k = 0; k < columns.inside; ++k) {
                           const T value = x[from + k * step];
                           // Without a branch, which nobody could foretell.
                           const bool better = (value > best) | (value != value);
                           const T larger = value > best ? value : best;
                           best = value != value ? value : larger;
                           where += (from + k * step - where) & -static_cast<int64_t>(better);
                         }
                       }
                       y[o] = best;
                       indices[o] = base + (column_major ? where % width * height + where / width : where);
                     }
                   }
                 });
  };
}

// With the places where the largest elements are.
template <typename T>
Kernel max_loops(const Dims& dims, const Window& w, bool column_major) {
  if (w.rank() == 2) return max_of_images<T>(dims, w, column_major);
  if (w.rank() == 1) {  // Images of one line.
    Window image = w;
    for (Dims* each : {&image.in, &image.out, &image.kernel, &image.strides, &image.dilations}) {
      each->insert(each->begin(), 1);
    }
    for (Dims* pads : {&image.begin, &image.end}) pads->insert(pads->begin(), 0);
    return max_of_images<T>(dims, image, column_major);
  }
  return [=](const Args& args) {
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    int64_t* indices = args.out<int64_t>(1);
    for_windows(dims, w, [&](int64_t i, int64_t base, const int64_t* taps, int64_t n) {
      T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                    : std::numeric_limits<T>::lowest();
      int64_t where = 0;
      for (int64_t k = 0; k < n; ++k) {
        const T value = x[base + taps[k]];
        if (k == 0 || value > best || value != value) {
          best = value;
          where = taps[k];
        }
      }
      y[i] = best;
      if (indices != nullptr) {
        if (column_major) {
          // Steps grow from the first dimension on.
          int64_t rest = where, at = 0, step = count(w.in);
          for (size_t d = w.rank(); d-- > 0; rest /= w.in[d]) {
            step /= w.in[d];
            at += rest % w.in[d] * step;
          }
          where = at;
        }
        indices[i] = base + where;
      }
    });
  };
}

template <typename T>
struct Mean {
  static T none() { return 0; }
  static T add(T a, T b) { return a + b; }
  static T finish(T a, int64_t n) { return n == 0 ? T{} : a / static_cast<T>(n); }
  static bool rows(const T* const*, int64_t, int64_t, T*) { return false; }
};

// Plain tensors: for each row of the output, the rows of its windows are combined first, side by side, and
// then what lies in each window along the row.
template <typename T, typename Of>
Kernel by_rows(const Dims& dims, const Window& w, bool with_pads) {
  const size_t last = w.rank() - 1;
  std::vector<std::vector<Taps>> taps;
  for (size_t d = 0; d <= last; ++d) taps.push_back(taps_of(w, d));
  return [=](const Args& args) {
    const int64_t width = w.in[last], out_width = w.out[last], step = w.dilations[last];
    const int64_t out_rows = count(w.out, 0, last), in_rows = count(w.in, 0, last);
    parallel_for(dims[0] * dims[1] * out_rows,
                 std::max<int64_t>(1, kGrain / (2 * width * count(w.kernel) + 1)),
                 [&](int64_t i, int64_t end) {
                   std::vector<T> row(static_cast<size_t>(width));
                   for (; i < end; ++i) {
                     const T* const x = args.in<T>(0) + i / out_rows * in_rows * width;
                     T* const y = args.out<T>(0) + i * out_width;
                     // The window's taps of the dimensions before the last: how many of them, and their rows
                     // in turn.
                     const Taps* at[8];
                     int64_t rest = i % out_rows, rows = 1, padded = 1;
                     for (size_t d = last; d-- > 0; rest /= w.out[d]) {
                       at[d] = &taps[d][static_cast<size_t>(rest % w.out[d])];
                       rows *= at[d]->inside;
                       padded *= at[d]->padded;
                     }
                     std::fill(row.begin(), row.end(), Of::none());
                     for (int64_t r = 0; r < rows; ++r) {
                       int64_t from = 0, number = r, in_step = 1;
                       for (size_t d = last; d-- > 0; number /= at[d]->inside, in_step *= w.in[d]) {
                         from += (at[d]->first + number % at[d]->inside * w.dilations[d]) * in_step;
                       }
                       const T* source = x + from * width;
                       T* const sums = row.data();
                       for (int64_t k = 0; k < width; ++k) sums[k] = Of::add(sums[k], source[k]);
                     }
                     for (int64_t o = 0; o < out_width; ++o) {
                       const Taps& here = taps[last][static_cast<size_t>(o)];
                       T sum = Of::none();
                       for (int64_t k = 0; k < here.inside; ++k) {
                         sum = Of::add(sum, row[static_cast<size_t>(here.first + k * step)]);
                       }
                       y[o] = Of::finish(sum, with_pads ? padded * here.padded : rows * here.inside);
                     }
                   }
                 });
  };
}

// The rows of the input under each row of the output, of so many channels.
struct Lines {
  std::vector<int64_t> from;  // Of all lines.
  std::vector<PoolLine> all;

  Lines(const Window& w, bool with_pads, int64_t channels) {
    struct Line {
      std::vector<int64_t> from;
      float taps;
    };
    const size_t last = w.rank() - 1;
    std::vector<Line> lines(1, {{0}, 1});
    for (size_t d = 0; d < last; ++d) {
      const int64_t step = count(w.in, d + 1, w.in.size());
      std::vector<Line> next;
      for (const Line& line : lines) {
        for (const Taps& at : taps_of(w, d)) {
          Line& made = next.emplace_back();
          made.taps = line.taps * static_cast<float>(with_pads ? at.padded : at.inside);
          for (int64_t begin : line.from) {
            for (int64_t tap = 0; tap < at.inside; ++tap) {
              made.from.push_back(begin + (at.first + tap * w.dilations[d]) * step);
            }
          }
        }
      }
      lines = std::move(next);
    }
    for (int64_t c = 0; c < channels; ++c) {
      for (const Line& line : lines) {
        for (int64_t begin : line.from) from.push_back(c * count(w.in) + begin);
      }
    }
    const int64_t* at = from.data();
    for (int64_t c = 0; c < channels; ++c) {
      for (const Line& line : lines) {
        all.push_back({at, static_cast<int64_t>(line.from.size()), std::max(1.0f, line.taps)});
        at += line.from.size();
      }
    }
  }
  Lines(const Lines&) = delete;  // `all` points to what `from` has.
  Lines& operator=(const Lines&) = delete;
};

// The same for float32, by vectors. Pads are not negative.
Kernel by_vectors(const Dims& dims, const Window& w, Pooling what, bool with_pads) {
  const size_t last = w.rank() - 1;
  std::vector<float> along;  // Of each window along a row, how many taps count.
  for (const Taps& here : taps_of(w, last)) {
    along.push_back(static_cast<float>(std::max<int64_t>(1, with_pads ? here.padded : here.inside)));
  }
  const int64_t width = w.in[last], out_width = w.out[last], begin = w.begin[last];
  const int64_t padded =
      std::max(begin + width, std::max<int64_t>(8, out_width) * w.strides[last] + w.span(last));
  // Several short rows, of several channels if those are small, are combined before they are read again: what
  // has just been stored is slow to read at another offset.
  const int64_t at_once = std::clamp<int64_t>(4096 / padded, 1, 32), of_channel = count(w.out, 0, last);
  const int64_t channels = std::max<int64_t>(1, at_once / std::max<int64_t>(1, of_channel));
  return [=, lines = std::make_shared<const Lines>(w, with_pads, channels)](const Args& args) {
    const auto pool = simd().pool[what];
    const int64_t out_rows = static_cast<int64_t>(lines->all.size()), size = channels * count(w.in);
    parallel_for(dims[0] * dims[1] * of_channel,
                 std::max<int64_t>(1, kGrain / (out_width * count(w.kernel) / 4 + 1)),
                 [&](int64_t i, int64_t end) {
                   std::vector<float> room(static_cast<size_t>(at_once * padded),
                                           what == kPoolMean ? 0 : -std::numeric_limits<float>::infinity());
                   for (int64_t now = 0; i < end; i += now) {
                     now = std::min({at_once, end - i, out_rows - i % out_rows});  // Of as many channels.
                     PoolRows rows{};
                     rows.x = args.in<float>(0) + i / out_rows * size;
                     rows.lines = lines->all.data() + i % out_rows;
                     rows.count = now;
                     rows.width = width;
                     rows.room = room.data();
                     rows.step = padded;
                     rows.begin = begin;
                     rows.kernel = w.kernel[last];
                     rows.dilation = w.dilations[last];
                     rows.stride = w.strides[last];
                     rows.n = out_width;
                     rows.taps = what == kPoolMean ? along.data() : nullptr;
                     rows.y = args.out<float>(0) + i * out_width;
                     pool(rows);
                   }
                 });
  };
}

// Channels last: the pixels of a window are combined, all channels side by side.
template <typename T, typename Of>
Kernel by_pixels(const Dims& dims, const Window& w, bool with_pads) {
  std::vector<std::vector<Taps>> taps;
  for (size_t d = 0; d < w.rank(); ++d) taps.push_back(taps_of(w, d));
  return [=](const Args& args) {
    const int64_t channels = dims[1], in_size = count(w.in), out_size = count(w.out);
    parallel_for(dims[0] * out_size, std::max<int64_t>(1, kGrain / (channels * count(w.kernel) + 1)),
                 [&](int64_t i, int64_t end) {
                   std::vector<const T*> pixels;
                   for (; i < end; ++i) {
                     const T* const x = args.in<T>(0) + i / out_size * in_size * channels;
                     T* const y = args.out<T>(0) + i * channels;
                     const Taps* at[8];
                     int64_t rest = i % out_size, inside = 1, padded = 1;
                     for (size_t d = w.rank(); d-- > 0; rest /= w.out[d]) {
                       at[d] = &taps[d][static_cast<size_t>(rest % w.out[d])];
                       inside *= at[d]->inside;
                       padded *= at[d]->padded;
                     }
                     // Where the taps read, the last dimension's first.
                     pixels.assign(1, x);
                     int64_t in_step = channels;
                     for (size_t d = w.rank(); d-- > 0; in_step *= w.in[d]) {
                       const size_t known = pixels.size();
                       for (size_t k = 0; k < known; ++k) pixels[k] += at[d]->first * in_step;
                       for (int64_t tap = 1; tap < at[d]->inside; ++tap) {
                         for (size_t k = 0; k < known; ++k) {
                           pixels.push_back(pixels[k] + tap * w.dilations[d] * in_step);
                         }
                       }
                     }
                     if (inside > 0 && Of::rows(pixels.data(), inside, channels, y)) continue;
                     std::fill(y, y + channels, Of::none());
                     for (int64_t tap = 0; tap < inside; ++tap) {
                       const T* pixel = pixels[static_cast<size_t>(tap)];
                       for (int64_t c = 0; c < channels; ++c) y[c] = Of::add(y[c], pixel[c]);
                     }
                     for (int64_t c = 0; c < channels; ++c) {
                       y[c] = Of::finish(y[c], with_pads ? padded : inside);
                     }
                   }
                 });
  };
}

template <typename T>
Kernel norm_loops(const Dims& dims, const Window& w, T power) {
  return [=](const Args& args) {
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    for_windows(dims, w, [&](int64_t i, int64_t base, const int64_t* taps, int64_t n) {
      T sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const T value = std::abs(x[base + taps[k]]);
        sum += power == 1 ? value : power == 2 ? value * value : std::pow(value, power);
      }
      y[i] = power == 1 ? sum : power == 2 ? std::sqrt(sum) : std::pow(sum, 1 / power);
    });
  };
}

struct Pool {
  Dims in, out;
  Window window;
};

Pool pool_of(const Prepare& p) {
  Pool pool;
  pool.in = p.dims(0);
  const Dims kernel = p.node.ints("kernel_shape");
  p.expect(!kernel.empty() && kernel.size() <= 8, "the kernel has one to eight dimensions");
  pool.window = window_of(p.node, pool.in, kernel, true);
  const Window& w = pool.window;
  for (size_t i = 0; i < w.rank(); ++i) {
    p.expect(w.begin[i] < w.span(i) && w.end[i] < w.span(i), "pads are as large as the kernel");
  }
  pool.out = {pool.in[0], pool.in[1]};
  pool.out.insert(pool.out.end(), pool.window.out.begin(), pool.window.out.end());
  return pool;
}

bool fits_onednn(const Prepare& p, const Pool& pool) {
  return p.type(0) == DType::kFloat && pool.in.size() <= 5 && count(pool.out) > 0 && count(pool.in) > 0;
}

enum class Whole { kAverage, kMax, kNorm };

// The largest or the mean of each channel, which lies in one piece.
Kernel whole_rows(const Desc& in, Whole what) {
  const int64_t rows = in.dims[0] * in.dims[1], size = count(in.dims, 2, in.dims.size());
  return [=](const Args& args) {
    const float* x = args.in<float>(0);
    float* y = args.out<float>(0);
    const bool max = what == Whole::kMax;
    const auto reduce = simd().reduce[max ? kGreatest : kSum];
    const float start = max ? -std::numeric_limits<float>::infinity() : 0;
    const float divisor = max ? 1 : static_cast<float>(size);
    parallel_for(rows, std::max<int64_t>(1, kGrain / (size + 1)), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) y[i] = reduce(x + i * size, size, start) / divisor;
    });
  };
}

// Whether the only window of each channel is all of it.
bool is_whole(const Window& w) {
  const auto zero = [](int64_t pad) { return pad == 0; };
  return w.kernel == w.in && count(w.out) == 1 && std::all_of(w.begin.begin(), w.begin.end(), zero) &&
         std::all_of(w.end.begin(), w.end.end(), zero) &&
         std::all_of(w.dilations.begin(), w.dilations.end(), [](int64_t step) { return step == 1; });
}

// In the input's layout if that is channels last, else plain.
template <typename T, template <typename> typename Of>
Kernel on_loops(Prepare& p, const Pool& pool, bool with_pads) {
  const bool pixels = p.in(0).layout == Layout::kChannelsLast;
  const Layout layout = pixels ? Layout::kChannelsLast : Layout::kPlain;
  p.require(0, layout);
  p.out(0, p.type(0), pool.out, layout);
  const Window& w = pool.window;
  if (pixels) {
    return by_pixels<T, Of<T>>(pool.in, w, with_pads);
  }
  if constexpr (std::is_same_v<T, float>) {
    if (is_whole(w))
      return whole_rows(p.in(0), std::is_same_v<Of<T>, Mean<T>> ? Whole::kAverage : Whole::kMax);
    const auto negative = [](int64_t pad) { return pad < 0; };
    const bool wide =
        w.span(w.rank() - 1) * w.strides.back() > 1 << 20;  // More than what a row is copied into.
    if (!wide && std::none_of(w.begin.begin(), w.begin.end(), negative) &&
        std::none_of(w.end.begin(), w.end.end(), negative)) {
      return by_vectors(pool.in, w, std::is_same_v<Of<T>, Mean<T>> ? kPoolMean : kPoolMax, with_pads);
    }
  }
  return by_rows<T, Of<T>>(pool.in, w, with_pads);
}

// oneDNN's maximum, which leaves NaN out, but in careful runs: there blocks of channels are images.
Kernel kept_nan(Kernel fast, const Desc& in, const Window& w) {
  Dims images = in.dims;
  if (const int64_t block = block_of(in.layout); block > 1) {
    images[0] *= (images[1] + block - 1) / block;
    images[1] = block;
  }
  return [fast = std::move(fast), careful = by_pixels<float, Largest<float>>(images, w, false)](
             const Args& args) { (is_careful() ? careful : fast)(args); };
}

Kernel max_pool(Prepare& p) {
  const Pool pool = pool_of(p);
  if (p.wants(1)) {
    p.require(0, Layout::kPlain);
    p.out(0, p.type(0), pool.out);
    p.out(1, DType::kInt64, pool.out);
    const bool columns = p.node.i("storage_order", 0) != 0;
    return with_one_of<float, double, int8_t, uint8_t>(
        p.type(0), [&](auto zero) { return max_loops<decltype(zero)>(pool.in, pool.window, columns); });
  }
  if (fits_onednn(p, pool)) {
    if (Kernel kernel = onednn_pool(p, pool.window, pool.out, OnednnPooling::kMax)) {
      return kept_nan(std::move(kernel), p.in(0), pool.window);
    }
  }
  return with_one_of<float, double, int8_t, uint8_t>(
      p.type(0), [&](auto zero) { return on_loops<decltype(zero), Largest>(p, pool, false); });
}

Kernel average_pool(Prepare& p) {
  const Pool pool = pool_of(p);
  const bool with_pads = p.node.i("count_include_pad", 0) != 0;
  bool exact = true;  // Whether the last windows stay within the pads.
  for (size_t i = 0; i < pool.window.rank(); ++i) {
    exact = exact && reach(pool.window, i) <= pool.window.end[i];
  }
  if (fits_onednn(p, pool) && (exact || !with_pads)) {
    const auto of = with_pads ? OnednnPooling::kMeanWithPads : OnednnPooling::kMean;
    if (Kernel kernel = onednn_pool(p, pool.window, pool.out, of)) {
      return kernel;
    }
  }
  return p.type(0) == DType::kDouble ? on_loops<double, Mean>(p, pool, with_pads)
                                     : on_loops<float, Mean>(p, pool, with_pads);
}

// com.microsoft's QLinearAveragePool: x, scale, zero, scale of y, zero of y. Sums are exact.
Kernel average_of_bytes(Prepare& p) {
  const DType type = p.type(0);
  for (int i : {1, 2, 3, 4}) {
    p.expect(is_single(p, i), "a scale or zero point is not a single one");
  }
  const Pool pool = pool_of(p);
  const Window& w = pool.window;
  const size_t last = w.rank() - 1;
  const bool with_pads = p.node.i("count_include_pad", 0) != 0;
  p.require(0, Layout::kChannelsLast);
  p.out(0, type, pool.out, Layout::kChannelsLast);
  std::vector<std::vector<Taps>> taps;
  for (size_t d = 0; d < w.rank(); ++d) taps.push_back(taps_of(w, d));
  const int64_t batch = pool.in[0], channels = pool.in[1];
  return [=](const Args& args) {
    const Simd& simd = ephost::cpu::simd();
    const auto add_rows = type == DType::kInt8 ? simd.bytes.add_rows_signed : simd.bytes.add_rows_unsigned;
    const int zero = zero_of(type, args.in<void>(2)), to = zero_of(type, args.in<void>(4));
    const float from_scale = *args.in<float>(1), to_scale = *args.in<float>(3);
    const int64_t in_size = count(w.in), out_size = count(w.out);
    parallel_for(batch * out_size, std::max<int64_t>(1, kGrain / (channels * count(w.kernel) + 1)),
                 [&](int64_t i, int64_t end) {
                   std::vector<int32_t> sums(static_cast<size_t>(channels));
                   std::vector<float> means(static_cast<size_t>(channels));
                   for (; i < end; ++i) {
                     const uint8_t* x = args.in<uint8_t>(0) + i / out_size * in_size * channels;
                     const Taps* at[8];
                     int64_t rest = i % out_size, lines = 1, inside = 1, padded = 1;
                     for (size_t d = w.rank(); d-- > 0; rest /= w.out[d]) {
                       at[d] = &taps[d][static_cast<size_t>(rest % w.out[d])];
                       inside *= at[d]->inside;
                       padded *= at[d]->padded;
                       if (d != last) lines *= at[d]->inside;
                     }
                     std::fill(sums.begin(), sums.end(), 0);
                     for (int64_t line = 0; line < lines; ++line) {
                       int64_t from = at[last]->first, number = line, in_step = w.in[last];
                       for (size_t d = last; d-- > 0; number /= at[d]->inside, in_step *= w.in[d]) {
                         from += (at[d]->first + number % at[d]->inside * w.dilations[d]) * in_step;
                       }
                       add_rows(x + from * channels, at[last]->inside, w.dilations[last] * channels, channels,
                                sums.data());
                     }
                     const float n = static_cast<float>(std::max<int64_t>(1, with_pads ? padded : inside));
                     for (size_t c = 0; c < means.size(); ++c) {
                       means[c] = static_cast<float>(sums[c] - inside * zero) * from_scale / n;
                     }
                     simd.quantized.quantize(means.data(), channels, to_scale, to, lowest(type),
                                             highest(type), args.out<uint8_t>(0) + i * channels);
                   }
                 });
  };
}

Kernel lp_pool(Prepare& p) {
  const Pool pool = pool_of(p);
  p.require(0, Layout::kPlain);
  p.out(0, p.type(0), pool.out);
  const int64_t power = p.node.i("p", 2);
  return p.type(0) == DType::kDouble ? norm_loops<double>(pool.in, pool.window, static_cast<double>(power))
                                     : norm_loops<float>(pool.in, pool.window, static_cast<float>(power));
}

// ---- The whole of each channel, in any layout

template <typename T>
Kernel whole_loops(const Desc& in, Whole what, T power) {
  const int64_t batch = in.dims[0], channels = in.dims[1], size = count(in.dims, 2, in.dims.size());
  // Channels lie `lanes` at a time side by side: 1, a block, or all of them.
  const int64_t block = block_of(in.layout);
  const int64_t lanes = in.layout == Layout::kChannelsLast ? channels : block;
  const int64_t groups = (channels + lanes - 1) / lanes;
  return [=](const Args& args) {
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    parallel_for(
        batch * groups, std::max<int64_t>(1, kGrain / (size * lanes + 1)), [&](int64_t i, int64_t end) {
          std::vector<T> sums(static_cast<size_t>(std::max<int64_t>(lanes, 8)));
          for (; i < end; ++i) {
            const T* from = x + i * size * lanes;
            const int64_t n = i / groups, first = i % groups * lanes;
            const int64_t used = std::min(lanes, channels - first);
            T* to = y + n * channels + first;
            // A channel on its own is summed in eight parts, so that the additions do not wait for each
            // other.
            const int64_t width = lanes == 1 ? std::clamp<int64_t>(size, 1, 8) : lanes;
            const int64_t steps = lanes == 1 ? size / width : size;
            T* s = sums.data();
            std::fill(sums.begin(), sums.end(),
                      what == Whole::kMax ? -std::numeric_limits<T>::infinity() : T{});
            const auto add = [&](T& sum, T value) {
              switch (what) {
                case Whole::kAverage:
                  sum += value;
                  break;
                case Whole::kMax:
                  sum = value > sum || value != value ? value : sum;
                  break;
                case Whole::kNorm:
                  sum += power == 2 ? value * value : std::pow(std::abs(value), power);
                  break;
              }
            };
            if (what == Whole::kAverage && width == 8) {
              for (int64_t k = 0; k < steps; ++k) {
                for (int64_t l = 0; l < 8; ++l) s[l] += from[k * 8 + l];
              }
            } else if (what == Whole::kAverage) {
              for (int64_t k = 0; k < steps; ++k) {
                for (int64_t l = 0; l < width; ++l) s[l] += from[k * width + l];
              }
            } else {
              for (int64_t k = 0; k < steps; ++k) {
                for (int64_t l = 0; l < width; ++l) add(s[l], from[k * width + l]);
              }
            }
            if (lanes == 1) {
              for (int64_t k = steps * width; k < size; ++k) add(s[0], from[k]);
              for (int64_t l = 1; l < width; ++l) {
                s[0] = what == Whole::kMax ? (s[l] > s[0] || s[l] != s[l] ? s[l] : s[0]) : s[0] + s[l];
              }
            }
            for (int64_t l = 0; l < used; ++l) {
              to[l] = what == Whole::kAverage ? s[l] / static_cast<T>(size)
                      : what == Whole::kNorm  ? static_cast<T>(std::pow(s[l], 1 / power))
                                              : s[l];
            }
          }
        });
  };
}

Kernel whole(Prepare& p, Whole what) {
  const Desc in = p.in(0);
  p.expect(in.dims.size() >= 2, "the input has at least two dimensions");
  Dims dims(in.dims.size(), 1);
  dims[0] = in.dims[0];
  dims[1] = in.dims[1];
  p.out(0, in.type, dims);
  if (what != Whole::kNorm && in.type == DType::kFloat && in.layout == Layout::kPlain) {
    return whole_rows(in, what);
  }
  const int64_t power = p.node.i("p", 2);
  return in.type == DType::kDouble ? whole_loops<double>(in, what, static_cast<double>(power))
                                   : whole_loops<float>(in, what, static_cast<float>(power));
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr Types kMax = kFloats | Types{DType::kInt8, DType::kUint8, DType::kInt64};
  registry->add({.type = "MaxPool",
                 .supports =
                     [](const Node& node) {
                       return node.in(0) != nullptr && node.in(0)->type == DType::kInt64 ? "int64" : "";
                     },
                 .prepare = with_halves(max_pool),
                 .types = kMax,
                 .any_layout = true});
  registry->add(
      {.type = "AveragePool", .prepare = with_halves(average_pool), .types = kFloats, .any_layout = true});
  registry->add(
      {.domain = "com.microsoft",
       .type = "QLinearAveragePool",
       .supports = [](const Node& node) { return node.i("channels_last", 0) != 0 ? "channels last" : ""; },
       .prepare = average_of_bytes,
       .types = kBytes | Types{DType::kFloat},
       .any_layout = true});
  registry->add({.type = "LpPool", .prepare = with_halves(lp_pool), .types = kFloats, .any_layout = true});
  const auto global = [&](const char* type, Whole what) {
    registry->add({.type = type,
                   .prepare = with_halves([what](Prepare& p) { return whole(p, what); }),
                   .types = kFloats,
                   .any_layout = true});
  };
  global("GlobalAveragePool", Whole::kAverage);
  global("GlobalMaxPool", Whole::kMax);
  global("GlobalLpPool", Whole::kNorm);
});

}  // namespace ephost::cpu
