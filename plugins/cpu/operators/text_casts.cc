// Cast between numbers and texts, which are written and read as onnxruntime does it: the standard says
// little.
#include <atomic>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "cpu/operator.h"
#include "cpu/runtime/parallel.h"
#include "toolkit/text.h"

namespace ephost::cpu {
namespace {

constexpr int64_t kTextGrain = kGrain / 64;  // To write or to read one takes as long as so many additions.
constexpr size_t kLongest = 24;              // Characters of a number that is written.

// Eight digits at most, and no more than it takes.
size_t write(double value, char* to) {
  const std::string_view named = std::isnan(value) ? "NaN" : value > 0 ? "INF" : "-INF";
  if (!std::isfinite(value)) return named.copy(to, named.size());
  return static_cast<size_t>(std::to_chars(to, to + kLongest, value, std::chars_format::general, 8).ptr - to);
}
size_t write(int64_t value, char* to) {
  return static_cast<size_t>(std::to_chars(to, to + kLongest, value).ptr - to);
}
size_t write(uint64_t value, char* to) {
  return static_cast<size_t>(std::to_chars(to, to + kLongest, value).ptr - to);
}

// The text behind white space and the sign, which is told.
std::string_view behind_sign(std::string_view text, bool* negative) {
  const size_t first = text.find_first_not_of(" \t\n\v\f\r");
  text.remove_prefix(std::min(first, text.size()));
  *negative = !text.empty() && text[0] == '-';
  if (*negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  return text;
}

enum class Read : uint8_t { kDone, kNone, kTooLarge };

// What comes behind a number does not matter.
Read read(std::string_view text, double* value) {
  bool negative;
  text = behind_sign(text, &negative);
  if (text.empty() || text[0] == '-') return Read::kNone;
  const char* const end = text.data() + text.size();
  const auto parse = [&](auto* number) {
    const bool hexadecimal = text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == 'x';
    if (hexadecimal) {
      const auto found = std::from_chars(text.data() + 2, end, *number, std::chars_format::hex);
      // "0x" without digits is a zero, and "0xinf" as well.
      if (found.ec != std::errc::invalid_argument && std::isfinite(*number)) return found.ec;
    }
    return std::from_chars(text.data(), end, *number).ec;
  };
  double number = 0;
  std::errc error = parse(&number);
  if (error == std::errc::result_out_of_range) {
    long double wide = 0;  // Which has room for what is too large or too small.
    error = parse(&wide);
    number = static_cast<double>(wide);
    if (error == std::errc::result_out_of_range) {
      const size_t exponent = text.find_first_of("eEpP");
      const bool small = exponent + 1 < text.size() && text[exponent + 1] == '-';
      number = small ? 0 : std::numeric_limits<double>::infinity();
      error = {};
    }
  }
  *value = negative ? -number : number;
  return error == std::errc() ? Read::kDone : Read::kNone;
}

template <typename Wide>
Read read(std::string_view text, Wide* value) {
  bool negative;
  text = behind_sign(text, &negative);
  uint64_t magnitude = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return Read::kNone;
  if (std::from_chars(text.data(), text.data() + text.size(), magnitude).ec != std::errc()) {
    return Read::kTooLarge;
  }
  constexpr uint64_t kMost = static_cast<uint64_t>(std::numeric_limits<Wide>::max());
  if (magnitude > kMost + (negative && std::is_signed_v<Wide> ? 1 : 0)) return Read::kTooLarge;
  *value = static_cast<Wide>(negative ? -magnitude : magnitude);
  return Read::kDone;
}

// The type in which a number is written and read.
template <typename T>
using Wide = std::conditional_t<!std::is_integral_v<T>, double,
                                std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <typename T>
Kernel to_texts(Prepare& p) {
  const int64_t n = p.out(0, DType::kString, p.dims(0)).count();
  return [n](const Args& args) {
    TextScope& texts = TextScope::current();
    const T* const x = args.in<T>(0);
    Text* const y = args.out<Text>();
    char* const characters = texts.characters(static_cast<size_t>(n) * kLongest);
    std::string_view* const views = texts.views(static_cast<size_t>(n));
    parallel_for(n, kTextGrain, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        char* const to = characters + static_cast<size_t>(i) * kLongest;
        const auto value = static_cast<Wide<T>>(
            static_cast<std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, double>, T, float>>(
                x[i]));
        y[i].at = new (views + i) std::string_view(to, write(value, to));
      }
    });
  };
}

template <typename T, typename Out>
Kernel to_numbers(Prepare& p, DType type) {
  const int64_t n = p.out(0, type, p.dims(0)).count();
  return [n, label = p.node.label()](const Args& args) {
    const Text* const x = args.in<Text>(0);
    Out* const y = static_cast<Out*>(args.out(0));
    std::atomic<int64_t> bad{-1};  // Any of them.
    parallel_for(n, kTextGrain, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        Wide<T> value = 0;
        if (read(x[i].view(), &value) != Read::kDone) bad.store(i, std::memory_order_relaxed);
        if constexpr (std::is_same_v<T, bool>) {
          y[i] = static_cast<Out>(value != 0);
        } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) {
          y[i] = static_cast<Out>(value);
        } else {
          y[i] = Out(static_cast<float>(value));
        }
      }
    });
    if (const int64_t i = bad.load(); i >= 0) {
      const std::string text(x[i].view());
      Wide<T> value = 0;
      const bool none = read(text, &value) == Read::kNone;
      invalid(label + ": '" + text +
              (none ? "' does not begin with a number" : "' is a number beyond 64 bits"));
    }
  };
}

Kernel cast(Prepare& p) {
  const DType from = p.type(0), to = static_cast<DType>(p.node.i("to", 0));
  const bool writes = to == DType::kString;
  if ((writes ? from : to) == DType::kBool) {
    return writes ? to_texts<uint8_t>(p) : to_numbers<bool, uint8_t>(p, to);
  }
  return with_type(writes ? from : to, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return writes ? to_texts<T>(p) : to_numbers<T, T>(p, to);
  });
}

std::string supports_cast(const Node& node) {
  const DType to = static_cast<DType>(node.i("to", 0));
  const bool reads = node.in(0) != nullptr && node.in(0)->type == DType::kString;
  if (reads == (to == DType::kString)) return reads ? "it leaves texts as they are" : "neither end is text";
  return "";
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "Cast",
                 .supports = supports_cast,
                 .prepare = cast,
                 .types = kAny | kText | Types{DType::kBool},
                 .min_version = 6});
});

}  // namespace ephost::cpu
