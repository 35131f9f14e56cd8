// Operators that make tensors from little: constants, ranges, patterns, random numbers.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

// The numbers of the ABI are those of ONNX.
DType type_attribute(const Node& node, const char* name, DType otherwise) {
  const int64_t number = node.i(name, 0);
  const DType type = number == 0                 ? otherwise
                     : number > 0 && number < 64 ? static_cast<DType>(number)
                                                 : DType::kUndefined;
  return kAny.has(type) ? type : DType::kUndefined;
}

std::string type_is_known(const Node& node) {
  return type_attribute(node, "dtype", DType::kFloat) == DType::kUndefined
             ? "a dtype that is not one of plain numbers"
             : "";
}

// ---- Constant, ConstantOfShape, Range

TensorPtr constant_of(const Node& node) {
  if (node.has("value")) {
    return node.t("value");
  }
  if (node.has("value_float")) {
    return make_tensor<float>(DType::kFloat, {}, {node.f("value_float", 0)});
  }
  if (node.has("value_int")) {
    return make_tensor<int64_t>(DType::kInt64, {}, {node.i("value_int", 0)});
  }
  if (node.has("value_floats")) {
    const std::vector<float> all = node.floats("value_floats");
    return make_tensor<float>(DType::kFloat, {static_cast<int64_t>(all.size())}, all);
  }
  if (node.has("value_ints")) {
    const std::vector<int64_t> all = node.ints("value_ints");
    return make_tensor<int64_t>(DType::kInt64, {static_cast<int64_t>(all.size())}, all);
  }
  if (node.has("value_string")) {
    return make_texts({}, std::vector<std::string>{node.s("value_string", "")});
  }
  if (node.has("value_strings")) {
    const std::vector<std::string> all = node.strings("value_strings");
    return make_texts({static_cast<int64_t>(all.size())}, all);
  }
  return nullptr;
}

Kernel constant(Prepare& p) {
  p.give(0, constant_of(p.node));
  return nullptr;
}

Kernel constant_of_shape(Prepare& p) {
  p.expect(p.dims(0).size() == 1, "the shape is not a list");
  const Ints dims = p.ints(0);
  const TensorPtr value = p.node.t("value");
  const DType type = value == nullptr ? DType::kFloat : value->type;
  p.expect(value == nullptr || count(value->dims) == 1, "the value is not one element");
  const Desc out = p.out(0, type, dims);
  uint64_t bits = 0;
  if (value != nullptr) {
    std::memcpy(&bits, value->data, size_of(type));
  }
  return [bits, size = size_of(type), n = out.count()](const Args& args) {
    with_size(size, [&](auto zero) {
      using T = decltype(zero);
      T one;
      std::memcpy(&one, &bits, sizeof one);
      parallel_for(n, kGrain,
                   [&](int64_t i, int64_t end) { std::fill(args.out<T>() + i, args.out<T>() + end, one); });
    });
  };
}

void range(Run& run) {
  const bool by_one = !run.has(2);  // As com.microsoft's may be.
  for (int i = 0; i < (by_one ? 2 : 3); ++i) {
    if (run.in(i).rank() > 1 || run.in(i).count() != 1)
      run.invalid("start, limit and step have to be single numbers");
  }
  with_type(run.in(0).type, [&](auto zero) {
    using T = decltype(zero);
    using A = arithmetic_t<T>;
    const A start = static_cast<A>(*run.as<T>(0)), limit = static_cast<A>(*run.as<T>(1)),
            delta = by_one ? A{1} : static_cast<A>(*run.as<T>(2));
    if (delta == A{0}) {
      run.invalid("the step is 0");
    }
    int64_t n = 0;
    if constexpr (std::is_floating_point_v<A>) {
      const double steps =
          std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
      if (!(steps < 1e15)) {
        run.invalid("the range has no end");
      }
      n = std::max<int64_t>(0, static_cast<int64_t>(steps));
    } else {
      // Whole numbers, whose distance may not fit their type.
      const __int128 distance = static_cast<__int128>(limit) - static_cast<__int128>(start);
      const __int128 step = static_cast<__int128>(delta);
      const __int128 steps = (distance + step + (step > 0 ? -1 : 1)) / step;
      n = (distance > 0) == (step > 0) && distance != 0 ? static_cast<int64_t>(steps) : 0;
    }
    T* y = static_cast<T*>(run.out(0, run.in(0).type, {n}));
    parallel_for(n, kGrain, [&](int64_t i, int64_t end) {
      if constexpr (std::is_floating_point_v<A>) {
        const auto fill = [&](auto at) {  // Of numbers of 32 bits processors convert several at once.
          for (const auto stop = static_cast<decltype(at)>(end); at < stop; ++at) {
            y[at] = static_cast<T>(static_cast<A>(start + static_cast<A>(static_cast<A>(at) * delta)));
          }
        };
        n <= INT32_MAX ? fill(static_cast<int32_t>(i)) : fill(i);
      } else {
        // As unsigned numbers, which may leave their type behind the last element.
        using U = std::make_unsigned_t<A>;
        const U step = static_cast<U>(delta);
        U value = static_cast<U>(static_cast<U>(start) + static_cast<U>(static_cast<U>(i) * step));
        for (; i < end; ++i, value = static_cast<U>(value + step)) y[i] = static_cast<T>(value);
      }
    });
  });
}

// ---- Patterns

Kernel eye_like(Prepare& p) {
  const Dims dims = p.dims(0);
  p.expect(dims.size() == 2, "the input is not a matrix");
  const DType type = type_attribute(p.node, "dtype", p.type(0));
  p.out(0, type, dims);
  const int64_t k = p.node.i("k", 0);
  return [=](const Args& args) {
    with_type(type, [&](auto zero) {
      using T = decltype(zero);
      T* y = args.out<T>();
      std::fill_n(y, dims[0] * dims[1], static_cast<T>(0.0f));
      if (k > dims[1] || k < -dims[0]) return;
      for (int64_t i = std::max<int64_t>(0, -k); i < dims[0] && i + k < dims[1]; ++i) {
        y[i * dims[1] + i + k] = static_cast<T>(1.0f);
      }
    });
  };
}

Kernel one_hot(Prepare& p) {
  const Dims from = p.dims(0);
  p.expect(p.in(1).count() == 1, "the depth is not one number");
  const int64_t depth = p.integer(1);
  p.expect(depth > 0, "the depth is not positive");
  p.expect(p.in(2).count() == 2, "values are not two elements");
  const size_t axis = p.axis(p.node.i("axis", -1), from.size() + 1);
  Dims to = from;
  to.insert(to.begin() + static_cast<ptrdiff_t>(axis), depth);
  p.out(0, p.type(2), to);
  const int64_t outer = count(from, 0, axis), inner = count(from, axis, from.size());
  const DType index_type = p.type(0);
  const size_t size = size_of(p.type(2));
  return [=](const Args& args) {
    with_size(size, [&](auto bits) {
      using T = decltype(bits);
      const T off = args.in<T>(2)[0], on = args.in<T>(2)[1];
      T* y = args.out<T>();
      std::fill_n(y, outer * depth * inner, off);
      with_type(index_type, [&](auto zero) {
        using I = decltype(zero);
        const I* indices = args.in<I>(0);
        for (int64_t i = 0; i < outer * inner; ++i) {
          int64_t index = static_cast<int64_t>(static_cast<arithmetic_t<I>>(indices[i]));
          index += index < 0 ? depth : 0;
          if (index >= 0 && index < depth) {
            y[(i / inner * depth + index) * inner + i % inner] = on;
          }
        }
      });
    });
  };
}

// Windows of signals: a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n).
Kernel window(Prepare& p, double a0, double a1, double a2) {
  p.expect(p.in(0).count() == 1, "the size is not one number");
  const int64_t n = p.integer(0);
  p.expect(n >= 0, "the size is negative");
  const DType type = type_attribute(p.node, "output_datatype", DType::kFloat);
  const double period = static_cast<double>(p.node.i("periodic", 1) != 0 ? n : n - 1);
  p.out(0, type, {n});
  return [=](const Args& args) {
    // Some at a time: their angle is that of the first and one of these together.
    constexpr int64_t kBlock = 512;
    const auto angle = [=](int64_t i) { return 2 * std::numbers::pi * static_cast<double>(i) / period; };
    std::array<double, kBlock> cosines, sines;
    for (int64_t i = 0; i < std::min(n, kBlock); ++i) {
      cosines[static_cast<size_t>(i)] = std::cos(angle(i));
      sines[static_cast<size_t>(i)] = std::sin(angle(i));
    }
    with_type(type, [&](auto zero) {
      using T = decltype(zero);
      T* const y = args.out<T>();
      parallel_for((n + kBlock - 1) / kBlock, kGrain / kBlock, [&](int64_t block, int64_t end) {
        for (; block < end; ++block) {
          const int64_t first = block * kBlock, size = std::min(kBlock, n - first);
          const double cosine = std::cos(angle(first)), sine = std::sin(angle(first));
          for (int64_t i = 0; i < size; ++i) {
            const size_t at = static_cast<size_t>(i);
            const double once = cosine * cosines[at] - sine * sines[at], twice = 2 * once * once - 1;
            const double made = a0 - a1 * once + a2 * twice;
            if constexpr (std::is_floating_point_v<arithmetic_t<T>>) {
              y[first + i] = static_cast<T>(static_cast<arithmetic_t<T>>(made));
            } else {
              y[first + i] = static_cast<T>(static_cast<float>(made));  // Nearly 1 is 1.
            }
          }
        }
      });
    });
  };
}

// ---- Random numbers

// The finalizer of splitmix64.
uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Some numbers of a stream, for one run.
class Numbers {
 public:
  explicit Numbers(uint64_t start) : start_(start) {}
  uint64_t bits(int64_t i) const { return mix(start_ + static_cast<uint64_t>(i) * kStep); }
  // In (0, 1), with 53 random bits.
  static double unit(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }
  double uniform(int64_t i) const { return unit(bits(i)); }

  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;  // That of splitmix64.

 private:
  uint64_t start_;
};

// Numbers for one node of one plan: number i of a stream is a mix of the seed and i, so that parts of a
// tensor can be filled by any thread, and runs at the same time take different ones.
class Stream {
 public:
  explicit Stream(const Node& node) {
    if (node.has("seed")) {
      uint32_t bits = 0;
      const float seed = node.f("seed", 0);
      std::memcpy(&bits, &seed, sizeof bits);
      seed_ = mix(mix(bits + Numbers::kStep));  // So that streams of seeds nearby are far from each other.
    } else {
      std::random_device device;
      seed_ = uint64_t{device()} << 32 | device();
    }
  }
  Numbers take(int64_t n) {
    return Numbers(seed_ + next_.fetch_add(static_cast<uint64_t>(n)) * Numbers::kStep);
  }

 private:
  uint64_t seed_ = 0;
  std::atomic<uint64_t> next_{0};
};

// Normal numbers by Marsaglia and Tsang's ziggurat. What lies under exp(-x^2 / 2) for x >= 0 is cut into
// layers of the same area. The lowest one is what lies below the density at kEnd, with all that is beyond it;
// of each other one most is a rectangle that is wholly under the curve.
class Ziggurat {
 public:
  static const Ziggurat& get() {
    static const Ziggurat made;
    return made;
  }

  // Made of a random number, of which others are made if one does not do.
  double operator()(uint64_t bits) const {
    for (;; bits = next(bits)) {
      const size_t layer = bits % kLayers;
      const double x = (static_cast<double>(static_cast<int64_t>(bits) >> 11) + 0.5) * 0x1p-52 * ends_[layer];
      if (std::abs(x) < ends_[layer + 1]) return x;
      if (layer == 0) return std::copysign(tail(bits), x);
      bits = next(bits);
      const double y = heights_[layer] + Numbers::unit(bits) * (heights_[layer + 1] - heights_[layer]);
      if (y < density(x)) return x;
    }
  }

 private:
  static constexpr size_t kLayers = 256;
  static constexpr double kEnd = 3.6541528853610088;  // With which the last layer ends at the top.

  Ziggurat() {
    const double area =
        kEnd * density(kEnd) + std::sqrt(std::numbers::pi / 2) * std::erfc(kEnd / std::numbers::sqrt2);
    ends_[0] = area / density(kEnd);  // Of a rectangle that is as large as the lowest layer.
    ends_[1] = kEnd;
    for (size_t i = 1; i < kLayers; ++i) {
      heights_[i] = density(ends_[i]);
      ends_[i + 1] = std::sqrt(-2 * std::log(std::min(1.0, heights_[i] + area / ends_[i])));
    }
    ends_[kLayers] = 0;
    heights_[kLayers] = 1;
  }

  static double density(double x) { return std::exp(-0.5 * x * x); }
  static uint64_t next(uint64_t bits) { return mix(bits + Numbers::kStep); }

  // Marsaglia's numbers beyond kEnd.
  static double tail(uint64_t bits) {
    for (;;) {
      bits = next(bits);
      const double x = -std::log(Numbers::unit(bits)) / kEnd;
      bits = next(bits);
      if (-2 * std::log(Numbers::unit(bits)) > x * x) return kEnd + x;
    }
  }

  double ends_[kLayers + 1], heights_[kLayers + 1];  // Of layers, from the lowest one on.
};

Kernel random(Prepare& p, bool like, bool normal) {
  const DType type = type_attribute(p.node, "dtype", like ? p.type(0) : DType::kFloat);
  const Desc out = p.out(0, type, like ? p.dims(0) : p.node.ints("shape"));
  const int64_t n = out.count();
  const double a = normal ? p.node.f("mean", 0) : p.node.f("low", 0);
  const double b = normal ? p.node.f("scale", 1) : static_cast<double>(p.node.f("high", 1)) - a;
  const auto stream = std::make_shared<Stream>(p.node);
  return [=](const Args& args) {
    const Numbers numbers = stream->take(n);
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      T* y = args.out<T>();
      const auto fill = [&](const auto& number) {
        parallel_for(n, kGrain / 8, [&](int64_t i, int64_t end) {
          for (; i < end; ++i) y[i] = static_cast<T>(static_cast<arithmetic_t<T>>(a + b * number(i)));
        });
      };
      if (normal) {
        fill([numbers, &normals = Ziggurat::get()](int64_t i) { return normals(numbers.bits(i)); });
      } else {
        fill([numbers](int64_t i) { return numbers.uniform(i); });
      }
    });
  };
}

Kernel bernoulli(Prepare& p) {
  const DType from = p.type(0), type = type_attribute(p.node, "dtype", p.type(0));
  const int64_t n = p.out(0, type, p.dims(0)).count();
  const auto stream = std::make_shared<Stream>(p.node);
  return [=](const Args& args) {
    const Numbers numbers = stream->take(n);
    with_float(from, [&](auto in) {
      using From = decltype(in);
      with_type(type, [&](auto out) {
        using To = decltype(out);
        const From* const x = args.in<From>(0);
        To* const y = args.out<To>();
        const To results[] = {static_cast<To>(0.0f), static_cast<To>(1.0f)};
        parallel_for(n, kGrain / 8, [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            const double chance = static_cast<double>(static_cast<arithmetic_t<From>>(x[i]));
            y[i] = results[numbers.uniform(i) < chance];  // A branch would be foretold half of the time.
          }
        });
      });
    });
  };
}

Kernel multinomial(Prepare& p) {
  const Dims& from = p.dims(0);
  p.expect(from.size() == 2 && from[1] > 0, "the input is not a matrix with columns");
  const int64_t rows = from[0], classes = from[1], samples = p.node.i("sample_size", 1);
  const DType type = p.type(0), to = type_attribute(p.node, "dtype", DType::kInt32);
  p.out(0, to, {rows, samples});
  p.scratch(static_cast<size_t>(classes) * sizeof(double));
  const auto stream = std::make_shared<Stream>(p.node);
  return [=](const Args& args) {
    const Numbers numbers = stream->take(rows * samples);
    double* sums = args.scratch<double>();
    with_float(type, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t r = 0; r < rows; ++r) {
        // Logarithms of weights, known but for a factor.
        const T* row = args.in<T>(0) + r * classes;
        double most = -INFINITY, sum = 0;
        const auto at = [&](int64_t c) { return static_cast<double>(static_cast<arithmetic_t<T>>(row[c])); };
        for (int64_t c = 0; c < classes; ++c) most = std::max(most, at(c));
        for (int64_t c = 0; c < classes; ++c) sums[c] = sum += std::exp(at(c) - most);
        for (int64_t s = 0; s < samples; ++s) {
          const double dart = numbers.uniform(r * samples + s) * sum;
          const int64_t hit = std::min(classes - 1, std::upper_bound(sums, sums + classes, dart) - sums);
          if (to == DType::kInt64) {
            args.out<int64_t>()[r * samples + s] = hit;
          } else {
            args.out<int32_t>()[r * samples + s] = static_cast<int32_t>(hit);
          }
        }
      }
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Constant",
                 .supports =
                     [](const Node& node) {
                       return constant_of(node) == nullptr ? "its value is not a tensor that is known here"
                                                           : "";
                     },
                 .prepare = constant,
                 .types = kAny | kText});
  registry->add({.type = "ConstantOfShape",
                 .supports =
                     [](const Node& node) {
                       return node.has("value") || node.attributes.empty()
                                  ? ""
                                  : "its value is not a tensor of numbers";
                     },
                 .prepare = constant_of_shape});
  registry->add({.type = "Range", .run = range, .types = kNumbers});
  registry->add({.domain = "com.microsoft", .type = "Range", .run = range, .types = kNumbers});
  registry->add({.type = "EyeLike", .supports = type_is_known, .prepare = eye_like});
  registry->add({.type = "OneHot", .prepare = one_hot});
  registry->add({.type = "HannWindow", .prepare = [](Prepare& p) { return window(p, 0.5, 0.5, 0); }});
  registry->add({.type = "HammingWindow",
                 .prepare = [](Prepare& p) { return window(p, 25.0 / 46, 1 - 25.0 / 46, 0); }});
  registry->add({.type = "BlackmanWindow", .prepare = [](Prepare& p) { return window(p, 0.42, 0.5, 0.08); }});
  const auto add_random = [&](const char* type, auto make) {
    registry->add({.type = type, .supports = type_is_known, .prepare = make, .pure = false});
  };
  add_random("RandomUniform", [](Prepare& p) { return random(p, false, false); });
  add_random("RandomNormal", [](Prepare& p) { return random(p, false, true); });
  add_random("RandomUniformLike", [](Prepare& p) { return random(p, true, false); });
  add_random("RandomNormalLike", [](Prepare& p) { return random(p, true, true); });
  add_random("Bernoulli", bernoulli);
  add_random("Multinomial", multinomial);
});

}  // namespace ephost::cpu
