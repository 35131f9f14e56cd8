// LabelEncoder and CategoryMapper: each element by a table.
#include <cstring>

#include "cpu/engines/places.h"
#include "cpu/engines/scores.h"

namespace ephost::cpu {
namespace {

constexpr const char* kDomain = "ai.onnx.ml";
constexpr Types kLabels = kFloats | kSigned | kUnsigned | kText;

// ---- Tables

// Values of keys, and what all others become: the last value.
struct Table {
  TensorPtr keys, values;
};

// One list or the other: "keys_strings", "keys_tensor", ... Null where there is none of them.
TensorPtr list_of(const Node& node, const std::string& prefix) {
  TensorPtr found = node.t(prefix + "_tensor");
  int lists = found != nullptr;
  const auto length = [](const auto& list) { return Dims{static_cast<int64_t>(list.size())}; };
  if (const std::vector<std::string> texts = node.strings(prefix + "_strings"); !texts.empty()) {
    found = make_texts(length(texts), texts);
    ++lists;
  }
  if (const std::vector<int64_t> numbers = node.ints(prefix + "_int64s"); !numbers.empty()) {
    found = make_tensor(DType::kInt64, length(numbers), numbers);
    ++lists;
  }
  if (const std::vector<float> numbers = node.floats(prefix + "_floats"); !numbers.empty()) {
    found = make_tensor(DType::kFloat, length(numbers), numbers);
    ++lists;
  }
  expect(node, lists == 1, "it needs one list of " + prefix + ", and has " + std::to_string(lists));
  return found;
}

// A default as a tensor of one element of the type.
TensorPtr default_of(const Node& node, DType type) {
  if (const TensorPtr given = node.t("default_tensor")) {
    expect(node, given->type == type && count(given->dims) == 1,
           "default_tensor is not one element of the type " + std::string(name_of(type)));
    return given;
  }
  if (type == DType::kString) {
    return make_texts({1}, std::vector<std::string>{node.s("default_string", "_Unused")});
  }
  TensorPtr made = make_tensor(type, {1});
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using A = arithmetic_t<T>;
    *static_cast<T*>(mutable_data(made)) =
        std::is_floating_point_v<A> ? static_cast<T>(static_cast<A>(node.f("default_float", -0.0f)))
                                    : static_cast<T>(static_cast<A>(node.i("default_int64", -1)));
  });
  return made;
}

// `values` with the default behind them.
Table with_default(const Node& node, TensorPtr keys, const TensorPtr& values, const TensorPtr& otherwise) {
  const int64_t n = count(keys->dims);
  expect(node, count(values->dims) == n,
         "it has " + std::to_string(n) + " keys and " + std::to_string(count(values->dims)) + " values");
  TensorPtr all;
  if (values->type == DType::kString) {
    std::vector<std::string_view> texts;
    for (int64_t i = 0; i < n; ++i) texts.push_back(values->as<Text>()[i].view());
    texts.push_back(otherwise->as<Text>()->view());
    all = make_texts({n + 1}, texts);
  } else {
    all = make_tensor(values->type, {n + 1});
    char* to = static_cast<char*>(mutable_data(all));
    if (n > 0) std::memcpy(to, values->data, values->bytes());
    std::memcpy(to + values->bytes(), otherwise->data, otherwise->bytes());
  }
  return {std::move(keys), std::move(all)};
}

// From a list of names to their places in it or back; `of_strings` says which.
Table names_to_places(const Node& node, const std::vector<std::string>& names,
                      const std::vector<int64_t>& places, bool of_strings) {
  const TensorPtr texts = make_texts({static_cast<int64_t>(names.size())}, names);
  const TensorPtr numbers = make_tensor(DType::kInt64, {static_cast<int64_t>(places.size())}, places);
  return of_strings ? with_default(node, texts, numbers, default_of(node, DType::kInt64))
                    : with_default(node, numbers, texts, default_of(node, DType::kString));
}

Table table_of(const Node& node, bool of_strings) {
  if (node.type == "CategoryMapper") {
    return names_to_places(node, node.strings("cats_strings"), node.ints("cats_int64s"), of_strings);
  }
  if (node.version < 2) {
    const std::vector<std::string> names = node.strings("classes_strings");
    std::vector<int64_t> places;
    for (size_t i = 0; i < names.size(); ++i) places.push_back(static_cast<int64_t>(i));
    return names_to_places(node, names, places, of_strings);
  }
  const TensorPtr values = list_of(node, "values");
  return with_default(node, list_of(node, "keys"), values, default_of(node, values->type));
}

template <typename Function>
auto with_key(DType type, Function&& function) {
  return type == DType::kString ? function(Text{})
                                : with_one_of<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t,
                                              uint16_t, uint32_t, uint64_t>(type, function);
}

template <typename T>
struct KeyOf {
  using type = T;
  static T get(const T& element) { return element; }
};
template <>
struct KeyOf<Text> {
  using type = std::string_view;
  static std::string_view get(const Text& element) { return element.view(); }
};

std::string supports(const Node& node) {
  const Value* x = node.in(0);
  const Table table = table_of(node, x->type == DType::kString);
  if (!kLabels.has(table.keys->type) || is_half(table.keys->type)) {
    return "keys of the type " + std::string(name_of(table.keys->type));
  }
  if (x->type != DType::kUndefined && x->type != table.keys->type) {
    return "its keys are not of its input's type";
  }
  return "";
}

Kernel encode(Prepare& p) {
  const DType type = p.type(0);
  const Table table = table_of(p.node, type == DType::kString);
  p.expect(table.keys->type == type, "its keys are not of its input's type");
  const int64_t n = p.in(0).count(), last = count(table.values->dims) - 1;
  p.out(0, table.values->type, p.dims(0));
  const TensorPtr values = table.values;
  return with_key(type, [&](auto element) -> Kernel {
    using T = decltype(element);
    using Key = typename KeyOf<T>::type;
    std::vector<Key> keys;
    const int64_t many = count(table.keys->dims);
    for (int64_t i = 0; i < many; ++i) keys.push_back(KeyOf<T>::get(table.keys->as<T>()[i]));
    const auto places = std::make_shared<const Places<Key>>(keys, p.node.version >= 4);
    return [=, held = table.keys](const Args& args) {
      const T* x = args.in<T>(0);
      with_size(size_of(values->type), [&](auto bits) {
        using V = decltype(bits);
        const V* from = values->as<V>();
        V* y = args.out<V>();
        parallel_for(n, kGrain / 16, [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            const int64_t at = places->find(KeyOf<T>::get(x[i]));
            y[i] = from[at < 0 ? last : at];
          }
        });
      });
    };
  });
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add(
      {.domain = kDomain, .type = "LabelEncoder", .supports = supports, .prepare = encode, .types = kLabels});
  registry->add({.domain = kDomain,
                 .type = "CategoryMapper",
                 .supports = supports,
                 .prepare = encode,
                 .types = kLabels});
});

}  // namespace ephost::cpu
