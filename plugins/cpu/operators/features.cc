// Operators of ai.onnx.ml that prepare features for models.
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "cpu/engines/scores.h"

namespace ephost::cpu {
namespace {

constexpr const char* kDomain = "ai.onnx.ml";

// How many features a row has, as these operators count: a vector is one row.
int64_t features_of(const Prepare& p) {
  const Dims& dims = p.dims(0);
  p.expect(!dims.empty(), "its input is a single number, not rows of features");
  return dims.size() == 1 ? dims[0] : dims[1];
}

template <typename Function>
auto with_feature(DType type, Function&& function) {
  return with_one_of<float, double, int64_t, int32_t>(type, function);
}

// ---- Scaler

struct Scaling {
  explicit Scaling(const Node& node) : offset(node.floats("offset")), scale(node.floats("scale")) {
    expect(node, !scale.empty() && scale.size() == offset.size(),
           "it has " + std::to_string(offset.size()) + " offsets and " + std::to_string(scale.size()) +
               " scales");
  }
  std::vector<float> offset, scale;
};

Kernel scaler(Prepare& p) {
  Scaling by(p.node);
  const int64_t columns = features_of(p), n = p.in(0).count();
  const DType type = p.type(0);
  if (static_cast<int64_t>(by.scale.size()) != columns && by.scale.size() != 1) {
    p.invalid(std::to_string(by.scale.size()) + " scales for " + std::to_string(columns) + " features");
  }
  p.out(0, DType::kFloat, p.dims(0));
  if (type == DType::kFloat) p.in_place(0, 0);
  // Rows of one feature are written as longer ones.
  const size_t once = by.scale.size(), repeated = std::max<size_t>(1, 256 / once) * once;
  for (size_t i = once; i < repeated; ++i) {
    by.offset.push_back(by.offset[i - once]);
    by.scale.push_back(by.scale[i - once]);
  }
  return [by, n, type](const Args& args) {
    with_feature(type, [&](auto zero) {
      using T = decltype(zero);
      const T* x = args.in<T>(0);
      float* y = args.out<float>();
      const int64_t width = static_cast<int64_t>(by.scale.size());
      parallel_for((n + width - 1) / width, 1 + kGrain / width, [&](int64_t row, int64_t end) {
        for (; row < end; ++row) {
          const int64_t first = row * width, many = std::min(width, n - first);
          const float *offset = by.offset.data(), *scale = by.scale.data();
          for (int64_t i = 0; i < many; ++i) {
            y[first + i] = (static_cast<float>(x[first + i]) - offset[i]) * scale[i];
          }
        }
      });
    });
  };
}

// ---- Normalizer

enum class Norm : uint8_t { kMax, kL1, kL2 };

Norm norm_of(const Node& node) {
  const std::string name = node.s("norm", "MAX");
  expect(node, name == "MAX" || name == "L1" || name == "L2", "the norm '" + name + "' is not known");
  return name == "MAX" ? Norm::kMax : name == "L1" ? Norm::kL1 : Norm::kL2;
}

Kernel normalizer(Prepare& p) {
  const Norm norm = norm_of(p.node);
  const Features features(p);
  const DType type = p.type(0);
  p.out(0, DType::kFloat, p.dims(0));
  if (type == DType::kFloat) p.in_place(0, 0);
  const int64_t columns = features.columns;
  return [=](const Args& args) {
    with_feature(type, [&](auto zero) {
      using T = decltype(zero);
      parallel_for(features.rows, 1 + kGrain / (4 * columns + 1), [&](int64_t row, int64_t end) {
        for (; row < end; ++row) {
          const T* x = args.in<T>(0) + row * columns;
          float* y = args.out<float>() + row * columns;
          const auto at = [&](int64_t i) { return static_cast<float>(x[i]); };
          float by = norm == Norm::kMax ? -std::numeric_limits<float>::infinity() : 0;
          for (int64_t i = 0; i < columns; ++i) {
            by = norm == Norm::kMax  ? std::max(by, at(i))
                 : norm == Norm::kL1 ? by + std::abs(at(i))
                                     : by + at(i) * at(i);
          }
          if (norm == Norm::kL2) by = std::sqrt(by);
          if (by == 0) by = 1;
          for (int64_t i = 0; i < columns; ++i) y[i] = at(i) / by;
        }
      });
    });
  };
}

// ---- Imputer

// What to put in the place of what, one for all features or one for each.
template <typename T>
struct Imputed {
  std::vector<T> values;
  T replaced{};
};

template <typename T>
Imputed<T> imputed_of(const Node& node) {
  Imputed<T> of;
  const std::vector<float> floats = node.floats("imputed_value_floats");
  const std::vector<int64_t> integers = node.ints("imputed_value_int64s");
  if constexpr (std::is_integral_v<T>) {
    for (int64_t value : integers) of.values.push_back(static_cast<T>(value));
    of.replaced = static_cast<T>(node.i("replaced_value_int64", 0));
  } else {
    for (float value : floats) of.values.push_back(static_cast<T>(value));
    of.replaced = static_cast<T>(node.f("replaced_value_float", 0));
  }
  expect(node, floats.empty() != integers.empty(),
         "it needs one of imputed_value_floats and imputed_value_int64s");
  expect(node, !of.values.empty(), "its imputed values are not of its input's type");
  return of;
}

std::string supports_imputer(const Node& node) {
  if (node.in(0)->type != DType::kUndefined) {
    with_feature(node.in(0)->type, [&](auto zero) { imputed_of<decltype(zero)>(node); });
  }
  return "";
}

Kernel imputer(Prepare& p) {
  const int64_t columns = features_of(p), n = p.in(0).count();
  const DType type = p.type(0);
  p.out(0, type, p.dims(0));
  p.in_place(0, 0);
  return with_feature(type, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    Imputed<T> by = imputed_of<T>(p.node);
    // One for each feature, or the first for all, as onnxruntime has it.
    const int64_t many = static_cast<int64_t>(by.values.size()) == columns ? columns : 1;
    return [by, n, many](const Args& args) {
      const T* x = args.in<T>(0);
      T* y = args.out<T>();
      const bool is_nan = by.replaced != by.replaced;
      parallel_for(n, kGrain, [&](int64_t i, int64_t end) {
        for (int64_t column = i % many; i < end; ++i) {
          const bool missing = is_nan ? x[i] != x[i] : x[i] == by.replaced;
          y[i] = missing ? by.values[static_cast<size_t>(column)] : x[i];
          if (++column == many) column = 0;
        }
      });
    };
  });
}

// ---- Binarizer

Kernel binarizer(Prepare& p) {
  const float threshold = p.node.f("threshold", 0);
  const DType type = p.type(0);
  const int64_t n = p.out(0, type, p.dims(0)).count();
  p.in_place(0, 0);
  return [=](const Args& args) {
    with_feature(type, [&](auto zero) {
      using T = decltype(zero);
      using Wide = std::conditional_t<std::is_same_v<T, float>, float, double>;
      const T* x = args.in<T>(0);
      T* y = args.out<T>();
      parallel_for(n, kGrain, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) y[i] = static_cast<T>(static_cast<Wide>(x[i]) > static_cast<Wide>(threshold));
      });
    });
  };
}

// ---- OneHotEncoder

struct Categories {
  explicit Categories(const Node& node)
      : integers(node.ints("cats_int64s")), strings(node.strings("cats_strings")) {
    expect(node, integers.empty() != strings.empty(), "it needs one of cats_int64s and cats_strings");
    zeros = node.i("zeros", 1) != 0;
    for (size_t i = 0; i < integers.size(); ++i) of_integer[integers[i]] = static_cast<int64_t>(i);
    for (size_t i = 0; i < strings.size(); ++i) of_string[strings[i]] = static_cast<int64_t>(i);
  }
  Categories(const Categories&) = delete;  // The keys of `of_string` lie in `strings`.

  template <typename Key, typename Map>
  static int64_t find(const Map& map, const Key& key) {
    const auto found = map.find(key);
    return found == map.end() ? -1 : found->second;
  }
  int64_t size() const { return static_cast<int64_t>(strings.empty() ? integers.size() : strings.size()); }

  std::vector<int64_t> integers;
  std::vector<std::string> strings;
  std::unordered_map<int64_t, int64_t> of_integer;
  std::unordered_map<std::string_view, int64_t> of_string;
  bool zeros = true;
};

std::string supports_one_hot(const Node& node) {
  const Categories categories(node);
  const DType type = node.in(0)->type;
  return type != DType::kUndefined && (type == DType::kString) == categories.strings.empty()
             ? "its categories are not of its input's type"
             : "";
}

Kernel one_hot_encoder(Prepare& p) {
  const auto categories = std::make_shared<const Categories>(p.node);
  const DType type = p.type(0);
  p.expect((type == DType::kString) != categories->strings.empty(),
           "its categories are not of its input's type");
  const int64_t n = p.in(0).count(), width = categories->size();
  Dims to = p.dims(0);
  to.push_back(width);
  p.out(0, DType::kFloat, to);
  return [=, label = p.node.label()](const Args& args) {
    std::atomic<bool> unknown{false};  // Relaxed: read behind the loop, whose end orders it.
    const auto encode = [&](auto zero) {
      using T = decltype(zero);
      const T* x = args.in<T>(0);
      float* y = args.out<float>();
      parallel_for(n, 1 + kGrain / (width + 32), [&](int64_t i, int64_t end) {
        std::fill(y + i * width, y + end * width, 0.0f);
        for (; i < end; ++i) {
          int64_t at = -1;
          if constexpr (std::is_same_v<T, Text>) {
            at = Categories::find(categories->of_string, x[i].view());
          } else {
            const bool fits = static_cast<double>(x[i]) >= -0x1p63 && static_cast<double>(x[i]) < 0x1p63;
            if (std::is_integral_v<T> || fits) {
              at = Categories::find(categories->of_integer, static_cast<int64_t>(x[i]));
            }
          }
          if (at >= 0) {
            y[i * width + at] = 1;
          } else {
            unknown.store(true, std::memory_order_relaxed);
          }
        }
      });
    };
    if (type == DType::kString) {
      encode(Text{});
    } else {
      with_feature(type, encode);
    }
    if (unknown && !categories->zeros) {
      invalid(label + ": an element is in no category, and zeros is 0");
    }
  };
}

// ---- ArrayFeatureExtractor

Kernel array_feature_extractor(Prepare& p) {
  const Dims& from = p.dims(0);
  p.expect(!from.empty(), "its input is a single number");
  const int64_t width = from.back(), rows = count(from, 0, from.size() - 1), many = p.in(1).count();
  p.expect(many > 0, "it has no indices");
  Dims to(from.begin(), from.end() - 1);
  if (to.empty()) to.push_back(1);
  to.push_back(many);
  const size_t size = size_of(p.type(0));
  p.out(0, p.type(0), to);
  return [=, label = p.node.label()](const Args& args) {
    const int64_t* indices = args.in<int64_t>(1);
    for (int64_t k = 0; k < many; ++k) {
      if (indices[k] < 0 || indices[k] >= width) {
        invalid(label + ": index " + std::to_string(indices[k]) + " of " + std::to_string(width) +
                " features");
      }
    }
    with_size(size, [&](auto bits) {
      using T = decltype(bits);
      const T* x = args.in<T>(0);
      T* y = args.out<T>();
      parallel_for(rows, 1 + kGrain / (2 * many), [&](int64_t row, int64_t end) {
        for (; row < end; ++row) {
          for (int64_t k = 0; k < many; ++k) y[row * many + k] = x[row * width + indices[k]];
        }
      });
    });
  };
}

// ---- FeatureVectorizer

std::vector<int64_t> widths_of(const Node& node) {
  std::vector<int64_t> widths = node.ints("inputdimensions");
  constexpr int64_t kMost = int64_t{1} << 40;
  expect(node, widths.size() == node.inputs.size(),
         "inputdimensions has " + std::to_string(widths.size()) + " entries for " +
             std::to_string(node.inputs.size()) + " inputs");
  for (int64_t width : widths) {
    expect(node, 0 <= width && width < kMost, "an input of " + std::to_string(width) + " features");
  }
  return widths;
}

Kernel feature_vectorizer(Prepare& p) {
  struct Part {
    DType type;
    int64_t columns, width;  // Of the input, and in the output: what is missing is 0.
  };
  const std::vector<int64_t> widths = widths_of(p.node);
  std::vector<Part> parts;
  int64_t rows = 0, total = 0;
  for (int i = 0; i < p.inputs(); ++i) {
    const Features features(p, i, true);
    if (i == 0) rows = features.rows;
    if (features.rows != rows) {
      p.invalid("inputs of " + std::to_string(rows) + " and " + std::to_string(features.rows) + " rows");
    }
    parts.push_back({features.type, features.columns, widths[static_cast<size_t>(i)]});
    total += parts.back().width;
  }
  p.out(0, DType::kFloat, {rows, total});
  return [=](const Args& args) {
    int64_t at = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      const auto [type, columns, width] = parts[part];
      const int64_t copied = std::min(columns, width), step = columns;
      float* y = args.out<float>() + at;
      with_feature(type, [&](auto zero) {
        using T = decltype(zero);
        const T* x = args.in<T>(static_cast<int>(part));
        for (int64_t row = 0; row < rows; ++row) {
          float* to = y + row * total;
          for (int64_t k = 0; k < copied; ++k) to[k] = static_cast<float>(x[row * step + k]);
        }
      });
      for (int64_t row = 0; row < rows; ++row) {
        std::fill(y + row * total + copied, y + row * total + width, 0.0f);
      }
      at += width;
    }
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = kDomain,
                 .type = "Scaler",
                 .supports = [](const Node& node) { return Scaling(node), std::string(); },
                 .prepare = scaler,
                 .types = kFeatures});
  registry->add({.domain = kDomain,
                 .type = "Normalizer",
                 .supports = [](const Node& node) { return norm_of(node), std::string(); },
                 .prepare = normalizer,
                 .types = kFeatures});
  registry->add({.domain = kDomain,
                 .type = "Imputer",
                 .supports = supports_imputer,
                 .prepare = imputer,
                 .types = kFeatures});
  registry->add({.domain = kDomain, .type = "Binarizer", .prepare = binarizer, .types = kFeatures});
  registry->add({.domain = kDomain,
                 .type = "OneHotEncoder",
                 .supports = supports_one_hot,
                 .prepare = one_hot_encoder,
                 .types = kFeatures | kText});
  registry->add({.domain = kDomain,
                 .type = "ArrayFeatureExtractor",
                 .prepare = array_feature_extractor,
                 .types = kFeatures | kText});
  registry->add({.domain = kDomain,
                 .type = "FeatureVectorizer",
                 .supports = [](const Node& node) { return widths_of(node), std::string(); },
                 .prepare = feature_vectorizer,
                 .types = kFeatures});
});

}  // namespace ephost::cpu
