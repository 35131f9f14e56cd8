// Operators that take strings element by element. The operators that only move elements do that themselves.
#include "cpu/engines/regex.h"
#include "cpu/engines/strided.h"
#include "cpu/operator.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

// The output's shape, and for each of some inputs the strides with which it is read.
struct Broadcast {
  Dims dims;
  std::vector<Dims> strides;

  explicit Broadcast(const Prepare& p) {
    for (int i = 0; i < p.inputs(); ++i) {
      const Dims& own = p.dims(i);
      dims.insert(dims.begin(), own.size() > dims.size() ? own.size() - dims.size() : 0, 1);
      for (size_t k = 0; k < own.size(); ++k) {
        int64_t& dim = dims[dims.size() - own.size() + k];
        p.expect(dim == own[k] || dim == 1 || own[k] == 1, "the inputs' shapes cannot be broadcast together");
        dim = dim == 1 ? own[k] : dim;
      }
    }
    for (int i = 0; i < p.inputs(); ++i) {
      const Dims &own = p.dims(i), steps = strides_of(own);
      Dims all(dims.size(), 0);
      for (size_t k = 0; k < own.size(); ++k) {
        all[dims.size() - own.size() + k] = own[k] == 1 ? 0 : steps[k];
      }
      strides.push_back(std::move(all));
    }
  }

  // Calls visit(element of the output, elements of the inputs) for each.
  template <typename Visit>
  void operator()(const Visit& visit) const {
    const int64_t total = count(dims);
    Dims at(dims.size(), 0);
    std::vector<int64_t> from(strides.size(), 0);
    for (int64_t i = 0; i < total; ++i) {
      visit(i, from.data());
      for (size_t k = dims.size(); k-- > 0;) {
        const bool turns = ++at[k] == dims[k];
        for (size_t s = 0; s < from.size(); ++s) from[s] += strides[s][k] * (turns ? 1 - dims[k] : 1);
        if (!turns) break;
        at[k] = 0;
      }
    }
  }
};

std::string of_texts(const Node& node, size_t input) {
  const Value* value = node.in(input);
  return value != nullptr && value->type == DType::kString ? "" : "its inputs are not strings";
}

Kernel equal(Prepare& p) {
  const Broadcast broadcast(p);
  p.out(0, DType::kBool, broadcast.dims);
  return [broadcast](const Args& args) {
    broadcast([a = args.in<Text>(0), b = args.in<Text>(1), y = args.out<bool>()](
                  int64_t i, const int64_t* at) { y[i] = a[at[0]].view() == b[at[1]].view(); });
  };
}

Kernel where(Prepare& p) {
  const Broadcast broadcast(p);
  p.out(0, DType::kString, broadcast.dims);
  return [broadcast](const Args& args) {
    broadcast([c = args.in<bool>(0), a = args.in<Text>(1), b = args.in<Text>(2), y = args.out<Text>()](
                  int64_t i, const int64_t* at) { y[i] = c[at[0]] ? a[at[1]] : b[at[2]]; });
  };
}

Kernel concat(Prepare& p) {
  const Broadcast broadcast(p);
  p.out(0, DType::kString, broadcast.dims);
  return [broadcast](const Args& args) {
    const Text *a = args.in<Text>(0), *b = args.in<Text>(1);
    Text* y = args.out<Text>();
    TextScope& texts = TextScope::current();
    broadcast([&](int64_t i, const int64_t* at) {
      const std::string_view head = a[at[0]].view(), tail = b[at[1]].view();
      char* to = texts.characters(head.size() + tail.size());
      std::copy(head.begin(), head.end(), to);
      std::copy(tail.begin(), tail.end(), to + head.size());
      y[i].at = new (texts.views(1)) std::string_view(to, head.size() + tail.size());
    });
  };
}

Kernel full_match(Prepare& p) {
  const auto regex = std::make_shared<const Regex>(p.node.s("pattern", ""));
  p.expect(regex->why.empty(), "its pattern is not known here");
  const int64_t n = p.out(0, DType::kBool, p.dims(0)).count();
  return [=](const Args& args) {
    constexpr int64_t kTextGrain = kGrain / 64;  // Of a text of usual length.
    parallel_for(n, kTextGrain, [&, x = args.in<Text>(0), y = args.out<bool>()](int64_t i, int64_t end) {
      for (; i < end; ++i) y[i] = regex->matches(x[i].view());
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Equal",
                 .supports = [](const Node& node) { return of_texts(node, 0); },
                 .prepare = equal,
                 .types = kText | Types{DType::kBool},
                 .min_version = 19});
  registry->add({.type = "Where",
                 .supports = [](const Node& node) { return of_texts(node, 1); },
                 .prepare = where,
                 .types = kText | Types{DType::kBool},
                 .min_version = 9});
  registry->add({.type = "RegexFullMatch",
                 .supports =
                     [](const Node& node) {
                       if (!node.has("pattern")) return std::string("it has no pattern");
                       const Regex regex(node.s("pattern", ""));
                       return regex.why.empty() ? "" : "its pattern has " + regex.why;
                     },
                 .prepare = full_match,
                 .types = kText | Types{DType::kBool},
                 .min_version = 20});
  registry->add({.type = "StringConcat", .prepare = concat, .types = kText, .min_version = 20});
});

}  // namespace ephost::cpu
