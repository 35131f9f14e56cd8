// Fourier transforms of any length, and what belongs to them: DFT, STFT, MelWeightMatrix.
#include <cmath>
#include <numbers>

#include "cpu/operator.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

template <typename R>
struct Complex {
  R re = 0, im = 0;
};
template <typename R>
Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename R>
Complex<R> operator-(Complex<R> a, Complex<R> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename R>
Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename R>
Complex<R> operator*(R a, Complex<R> b) {
  return {a * b.re, a * b.im};
}
template <typename R>
Complex<R> conjugate(Complex<R> a) {
  return {a.re, -a.im};
}
template <typename R>
Complex<R> turned(Complex<R> a) {  // Times -j.
  return {a.im, -a.re};
}

// exp(-2 pi j i / n)
template <typename R>
Complex<R> root(int64_t i, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
  return {static_cast<R>(std::cos(angle)), static_cast<R>(std::sin(angle))};
}

// Of a transform, which takes up to seven times as many complex numbers.
constexpr int64_t kLongest = int64_t{1} << 28;
constexpr int64_t kLargest = 61;  // Of the factors that are worked on directly.

// The factors of n, the first ones first to be worked on; the last one is greater than kLargest where they
// cannot all be worked on directly.
std::vector<int64_t> factors_of(int64_t n) {
  std::vector<int64_t> factors;
  for (; n % 4 == 0; n /= 4) factors.push_back(4);
  if (n % 2 == 0) {
    factors.insert(factors.begin(), 2);
    n /= 2;
  }
  for (int64_t factor = 3; factor <= kLargest && n > 1; factor += 2) {
    for (; n % factor == 0; n /= factor) factors.push_back(factor);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

bool is_direct(int64_t n) {
  const std::vector<int64_t> factors = factors_of(n);
  return factors.empty() || factors.back() <= kLargest;
}

// The transform of n complex numbers: by the factors of n where they are small, else as a convolution of a
// length whose factors are (Bluestein's method).
template <typename R>
class Fourier {
 public:
  explicit Fourier(int64_t n) : n_(n), factors_(factors_of(n)) {
    if (!is_direct(n)) {
      prepare_convolution();
      return;
    }
    roots_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) roots_[static_cast<size_t>(i)] = root<R>(i, n);
  }

  // Complex numbers of memory that `run` needs.
  int64_t scratch() const { return inner_ == nullptr ? n_ + kLargest : 2 * inner_->n_ + inner_->scratch(); }

  // `in` is not kept.
  void run(Complex<R>* in, Complex<R>* out, Complex<R>* scratch) const {
    if (inner_ == nullptr) {
      transform(in, out, scratch);
      return;
    }
    const int64_t m = inner_->n_;
    Complex<R>*a = scratch, *b = scratch + m, *rest = scratch + 2 * m;
    for (int64_t i = 0; i < m; ++i) a[i] = i < n_ ? in[i] * roots_[static_cast<size_t>(i)] : Complex<R>{};
    inner_->run(a, b, rest);
    // The inverse transform is that of the conjugate numbers, conjugate.
    for (int64_t i = 0; i < m; ++i) b[i] = conjugate(b[i] * filter_[static_cast<size_t>(i)]);
    inner_->run(b, a, rest);
    for (int64_t i = 0; i < n_; ++i) out[i] = conjugate(a[i]) * roots_[static_cast<size_t>(i)];
  }

 private:
  void prepare_convolution() {
    int64_t m = 1;
    while (m < 2 * n_ - 1) m *= 2;
    inner_ = std::make_unique<Fourier>(m);
    roots_.resize(static_cast<size_t>(n_));
    std::vector<Complex<R>> chirp(static_cast<size_t>(m)), room(static_cast<size_t>(inner_->scratch()));
    for (int64_t i = 0; i < n_; ++i) {
      // exp(-pi j i^2 / n), of an angle brought near to zero.
      const Complex<R> value = root<R>(static_cast<int64_t>(static_cast<__int128>(i) * i % (2 * n_)), 2 * n_);
      roots_[static_cast<size_t>(i)] = value;
      chirp[static_cast<size_t>(i)] = conjugate(value);
      if (i > 0) chirp[static_cast<size_t>(m - i)] = conjugate(value);
    }
    filter_.resize(static_cast<size_t>(m));
    inner_->run(chirp.data(), filter_.data(), room.data());
    for (Complex<R>& value : filter_) value = (1 / static_cast<R>(m)) * value;
  }

  // Stockham's form: each pass takes a factor out of the transforms that are left, `length` numbers each, and
  // puts those of the same remainder next to each other; `done` is the product of the factors before.
  void transform(Complex<R>* x, Complex<R>* out, Complex<R>* room) const {
    Complex<R>*from = x, *to = room, *few = room + n_;
    int64_t done = 1;
    for (int64_t factor : factors_) {
      const int64_t m = n_ / done / factor;
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t k = 0; k < done; ++k) {
          const Complex<R>* in = from + i * done + k;
          Complex<R>* result = to + i * factor * done + k;
          butterfly(factor, in, m * done, few);
          result[0] = few[0];
          for (int64_t q = 1; q < factor; ++q) {
            result[q * done] = i == 0 ? few[q] : few[q] * roots_[static_cast<size_t>(q * i * done)];
          }
        }
      }
      std::swap(from, to);
      done *= factor;
    }
    std::copy(from, from + n_, out);
  }

  // The transform of a few numbers at every `step`-th place.
  void butterfly(int64_t n, const Complex<R>* in, int64_t step, Complex<R>* out) const {
    if (n == 2) {
      out[0] = in[0] + in[step];
      out[1] = in[0] - in[step];
    } else if (n == 4) {
      const Complex<R> even = in[0] + in[2 * step], odd = in[0] - in[2 * step], sum = in[step] + in[3 * step],
                       difference = turned(in[step] - in[3 * step]);
      out[0] = even + sum;
      out[1] = odd + difference;
      out[2] = even - sum;
      out[3] = odd - difference;
    } else {
      // Pairs of numbers as far from the first as from the last: sums have cosines, differences have sines.
      const int64_t half = n / 2;
      out[0] = in[0];
      for (int64_t r = 1; r <= half; ++r) {
        const Complex<R> a = in[r * step], b = in[(n - r) * step];
        out[r] = a + b;
        out[n - r] = a - b;
      }
      Complex<R> sums[kLargest], differences[kLargest];
      for (int64_t q = 1; q <= half; ++q) {
        Complex<R> even = out[0], odd;
        for (int64_t r = 1; r <= half; ++r) {
          const Complex<R> turn = roots_[static_cast<size_t>(q * r % n * (n_ / n))];
          even = even + turn.re * out[r];
          odd = r == 1 ? turn.im * out[n - r] : odd + turn.im * out[n - r];
        }
        sums[q] = even;
        differences[q] = {-odd.im, odd.re};  // Times j.
      }
      for (int64_t r = 1; r <= half; ++r) out[0] = out[0] + out[r];
      for (int64_t q = 1; q <= half; ++q) {
        out[q] = sums[q] + differences[q];
        out[n - q] = sums[q] - differences[q];
      }
    }
  }

  int64_t n_;
  std::vector<int64_t> factors_;
  std::vector<Complex<R>> roots_;   // Of one; or the chirp.
  std::vector<Complex<R>> filter_;  // The transform of the chirp.
  std::unique_ptr<Fourier> inner_;
};

// Transforms of one length, in float32 where that is enough: a convolution adds larger numbers than it is
// made of.
struct Either {
  std::shared_ptr<const Fourier<float>> narrow;
  std::shared_ptr<const Fourier<double>> wide;

  Either(int64_t n, DType type) {
    if (type == DType::kDouble || !is_direct(n)) {
      wide = std::make_shared<const Fourier<double>>(n);
    } else {
      narrow = std::make_shared<const Fourier<float>>(n);
    }
  }
};

// Many transforms of one length: how their numbers lie in memory.
struct Transforms {
  int64_t n = 1;                // Of each.
  int64_t given = 0, made = 0;  // Numbers that come in, and that go out.
  int64_t in_step = 1, out_step = 1;
  bool in_complex = false, out_complex = true;
  bool inverse = false, mirrored = false;  // Mirrored: of the numbers that come in the rest are conjugates.

  // Transform i reads from in + in_of(i) and writes to out + out_of(i); `factor(k)` is what number k is
  // multiplied with first.
  template <typename T, typename Places, typename Factor>
  void run(const Either& fourier, int64_t count, const T* in, T* out, const Places& places,
           const Factor& factor) const {
    if (fourier.narrow != nullptr) {
      run_in(*fourier.narrow, count, in, out, places, factor);
    } else {
      run_in(*fourier.wide, count, in, out, places, factor);
    }
  }

 private:
  template <typename R, typename T, typename Places, typename Factor>
  void run_in(const Fourier<R>& fourier, int64_t count, const T* in, T* out, const Places& places,
              const Factor& factor) const {
    const int64_t cost = n * 8;
    parallel_for(count, std::max<int64_t>(1, kGrain / (cost + 1)), [&](int64_t i, int64_t end) {
      using A = arithmetic_t<T>;
      std::vector<Complex<R>> room(static_cast<size_t>(2 * n + fourier.scratch()));
      Complex<R>*from = room.data(), *to = from + n, *rest = to + n;
      for (; i < end; ++i) {
        const auto [source, target] = places(i);
        for (int64_t k = 0; k < n; ++k) {
          const bool mirror = mirrored && k >= n / 2 + 1;
          const int64_t at = mirror ? n - k : k;
          Complex<R> value;
          if (at < given) {
            const T* x = in + source + at * in_step;
            const R f = static_cast<R>(factor(at));
            value.re = static_cast<R>(static_cast<A>(x[0])) * f;
            value.im = in_complex ? static_cast<R>(static_cast<A>(x[1])) * f : 0;
            // Numbers that are their own mirror images are real.
            if (mirrored && (k == 0 || 2 * k == n)) value.im = 0;
          }
          from[k] = mirror != inverse ? conjugate(value) : value;
        }
        fourier.run(from, to, rest);
        if (!in_complex) {  // Numbers that are their own mirror images, again.
          to[0].im = 0;
          if (n % 2 == 0) to[n / 2].im = 0;
        }
        const R scale = inverse ? 1 / static_cast<R>(n) : 1;
        for (int64_t k = 0; k < made; ++k) {
          T* y = out + target + k * out_step;
          y[0] = static_cast<T>(static_cast<A>(to[k].re * scale));
          if (out_complex) y[1] = static_cast<T>(static_cast<A>((inverse ? -to[k].im : to[k].im) * scale));
        }
      }
    });
  }
};

Kernel dft(Prepare& p) {
  const Dims from = p.dims(0);
  const DType type = p.type(0);
  p.expect(from.size() >= 2, "the input has at least two dimensions");
  p.expect(from.back() == 1 || from.back() == 2, "the last dimension is neither 1 nor 2");
  const int64_t wanted = p.node.version < 20 ? p.node.i("axis", 1) : p.has(2) ? p.integer(2) : -2;
  const size_t axis = p.axis(wanted, from.size());
  p.expect(axis + 1 < from.size(), "the axis is that of real and imaginary parts");
  Transforms t;
  t.inverse = p.node.i("inverse", 0) != 0;
  const bool onesided = p.node.i("onesided", 0) != 0;
  t.n = p.has(1) ? p.integer(1) : onesided && t.inverse ? 2 * (from[axis] - 1) : from[axis];
  p.expect(t.n > 0, "the length is not positive");
  t.mirrored = onesided && t.inverse;
  t.in_complex = from.back() == 2;
  t.out_complex = !t.mirrored;
  t.made = onesided && !t.inverse ? t.n / 2 + 1 : t.n;
  t.given = std::min(from[axis], t.n);
  Dims to = from;
  to[axis] = t.made;
  to.back() = t.out_complex ? 2 : 1;
  p.out(0, type, to);
  const int64_t outer = count(from, 0, axis), inner = count(from, axis + 1, from.size() - 1);
  t.in_step = inner * from.back();
  t.out_step = inner * to.back();
  const int64_t axis_size = from[axis], in_last = from.back(), out_last = to.back();
  p.expect(t.n <= kLongest, "the transform is too long");
  const Either fourier(t.n, type);
  return [=](const Args& args) {
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      t.run<T>(
          fourier, outer * inner, args.in<T>(0), args.out<T>(),
          [=](int64_t i) {
            const int64_t o = i / inner, k = i % inner;
            return std::pair(o * axis_size * inner * in_last + k * in_last,
                             o * t.made * inner * out_last + k * out_last);
          },
          [](int64_t) { return 1.0; });
    });
  };
}

Kernel stft(Prepare& p) {
  Dims from = p.dims(0);
  if (from.size() == 2) from.push_back(1);  // Real, without a dimension that says so.
  const DType type = p.type(0);
  p.expect(from.size() == 3 && (from[2] == 1 || from[2] == 2), "the signal is not [batch, length, 1 or 2]");
  const int64_t step = p.integer(1);
  const bool windowed = p.has(2);
  Transforms t;
  t.n = p.has(3) ? p.integer(3) : windowed ? p.in(2).count() : from[1];
  p.expect(step > 0 && t.n > 0 && t.n <= from[1], "a step or a length that the signal does not have");
  p.expect(!windowed || (p.in(2).count() == t.n && p.type(2) == type), "a window of another length or type");
  const bool onesided = p.node.i("onesided", 1) != 0;
  t.in_complex = from[2] == 2;
  p.expect(!onesided || !t.in_complex, "half of the spectrum of a signal that is not real");
  t.given = t.n;
  t.made = onesided ? t.n / 2 + 1 : t.n;
  t.in_step = from[2];
  t.out_step = 2;
  const int64_t frames = (from[1] - t.n) / step + 1;
  p.out(0, type, {from[0], frames, t.made, 2});
  p.expect(t.n <= kLongest, "the transform is too long");
  const Either fourier(t.n, type);
  return [=](const Args& args) {
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      const T* window = windowed ? args.in<T>(2) : nullptr;
      t.run<T>(
          fourier, from[0] * frames, args.in<T>(0), args.out<T>(),
          [=](int64_t i) {
            return std::pair((i / frames * from[1] + i % frames * step) * from[2], i * t.made * 2);
          },
          [=](int64_t k) {
            return window == nullptr ? 1.0 : static_cast<double>(static_cast<arithmetic_t<T>>(window[k]));
          });
    });
  };
}

// Triangles between neighbours of points that lie evenly on the mel scale, each rounded to a bin.
Kernel mel_weights(Prepare& p) {
  const int64_t bins = p.integer(0), length = p.integer(1), rate = p.integer(2);
  const double low = p.floats(3).at(0), high = p.floats(4).at(0);
  p.expect(bins > 0 && length > 0 && rate > 0, "sizes that are not positive");
  const int64_t rows = length / 2 + 1;
  const DType type = static_cast<DType>(p.node.i("output_datatype", static_cast<int64_t>(DType::kFloat)));
  TensorPtr made = make_tensor(type, {rows, bins});  // First: sizes that no memory holds end here.
  std::vector<double> weights(static_cast<size_t>(rows * bins));
  const auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); };
  const double first = mel(low), step = (mel(high) - first) / static_cast<double>(bins + 2);
  std::vector<int64_t> points;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * std::expm1((static_cast<double>(i) * step + first) / 2595 * std::log(10.0));
    points.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
    p.expect(points.back() >= 0 && points.back() < rows, "a frequency that the spectrum does not have");
  }
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t a = points[static_cast<size_t>(i)], b = points[static_cast<size_t>(i + 1)],
                  c = points[static_cast<size_t>(i + 2)];
    const auto weight = [&](int64_t row) -> double& { return weights[static_cast<size_t>(row * bins + i)]; };
    for (int64_t j = a; j <= b; ++j) {
      weight(j) = a == b ? 1 : static_cast<double>(j - a) / static_cast<double>(b - a);
    }
    for (int64_t j = b; j < c; ++j) weight(j) = static_cast<double>(c - j) / static_cast<double>(c - b);
  }
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(mutable_data(made));
    for (double value : weights) *to++ = static_cast<T>(static_cast<arithmetic_t<T>>(value));
  });
  p.give(0, std::move(made));
  return nullptr;
}

std::string supports_mel_weights(const Node& node) {
  const int64_t type = node.i("output_datatype", static_cast<int64_t>(DType::kFloat));
  return type > 0 && type < 64 && kNumbers.has(static_cast<DType>(type)) ? ""
                                                                         : "a type that is not a number's";
}

}  // namespace

const Registration registration([](Registry* registry) {
  constexpr Types kSignals = kFloats | Types{DType::kInt32, DType::kInt64};
  registry->add({.type = "DFT", .prepare = dft, .types = kSignals, .min_version = 17});
  registry->add({.type = "STFT", .prepare = stft, .types = kSignals, .min_version = 17});
  registry->add({.type = "MelWeightMatrix",
                 .supports = supports_mel_weights,
                 .prepare = mel_weights,
                 .types = kNumbers});
});

}  // namespace ephost::cpu
