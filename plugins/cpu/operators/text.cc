// Operators that look into texts: words are normalised, split, and counted.
#include <clocale>
#include <cwctype>
#include <deque>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#endif

#include "cpu/engines/characters.h"
#include "cpu/engines/places.h"
#include "cpu/engines/regex.h"
#include "cpu/engines/scores.h"

namespace ephost::cpu {
namespace {

// ---- Characters

void append(std::string* to, char32_t code) {
  if (code < 0x80) {
    *to += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  *to += static_cast<char>((0xff00 >> (more + 1) & 0xff) | code >> 6 * more);
  for (int k = more - 1; k >= 0; --k) *to += static_cast<char>(0x80 | (code >> 6 * k & 0x3f));
}

size_t characters_in(std::string_view text) {
  size_t n = 0;
  for (char byte : text) n += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  return n;
}

enum class Case : uint8_t { kNone, kLower, kUpper };

// The system's table of upper and lower case for all of Unicode.
#ifdef _WIN32
bool knows_case() { return true; }

// Windows' characters are of 16 bits. Of those beyond them these are the capital letters that have small
// ones, in Unicode 15: from the first to the last, and how far the small one of each is away.
constexpr struct {
  char32_t first, last, distance;
} kCapitals[] = {
    {0x10400, 0x10427, 40}, {0x104b0, 0x104d3, 40}, {0x10570, 0x1057a, 39}, {0x1057c, 0x1058a, 39},
    {0x1058c, 0x10592, 39}, {0x10594, 0x10595, 39}, {0x10c80, 0x10cb2, 64}, {0x118a0, 0x118bf, 32},
    {0x16e40, 0x16e5f, 32}, {0x1e900, 0x1e921, 34},
};

char32_t changed(char32_t code, Case to) {
  if (code > 0xffff) {
    for (const auto& range : kCapitals) {
      const char32_t shift = to == Case::kLower ? 0 : range.distance;
      if (code < range.first + shift || code > range.last + shift) continue;
      return to == Case::kLower ? code + range.distance : code - range.distance;
    }
    return code;
  }
  const wchar_t from = static_cast<wchar_t>(code);
  wchar_t made = from;
  LCMapStringEx(LOCALE_NAME_INVARIANT, to == Case::kLower ? LCMAP_LOWERCASE : LCMAP_UPPERCASE, &from, 1,
                &made, 1, nullptr, nullptr, 0);
  return made;
}
#else
locale_t unicode() {
  static const locale_t found = [] {
    for (const char* name : {"C.UTF-8", "en_US.UTF-8"}) {
      if (locale_t made = newlocale(LC_CTYPE_MASK, name, nullptr)) return made;
    }
    return static_cast<locale_t>(nullptr);
  }();
  return found;
}

bool knows_case() { return unicode() != nullptr; }

char32_t changed(char32_t code, Case to) {
  const wint_t wide = static_cast<wint_t>(code);
  return static_cast<char32_t>(to == Case::kLower ? towlower_l(wide, unicode())
                                                  : towupper_l(wide, unicode()));
}
#endif

// Each character by itself, as onnxruntime does it.
void change_case(std::string_view from, Case to, std::string* out) {
  out->clear();
  for (size_t at = 0; at < from.size();) {
    const size_t begin = at;
    bool bad = false;
    const char32_t code = next_character(from, &at, &bad);
    if (bad) {
      *out += from[begin];
    } else {
      append(out, changed(code, to));
    }
  }
}

// ---- StringNormalizer

struct Normalization {
  explicit Normalization(const Node& node) {
    const std::string name = node.s("case_change_action", "NONE");
    expect(node, name == "NONE" || name == "LOWER" || name == "UPPER",
           "the case_change_action '" + name + "' is not known");
    action = name == "NONE" ? Case::kNone : name == "LOWER" ? Case::kLower : Case::kUpper;
    case_matters = node.i("is_case_sensitive", 0) != 0;
    std::string word;
    for (const std::string& stop : node.strings("stopwords")) {
      if (case_matters) {
        stops.insert(stop);
      } else if (knows_case()) {
        change_case(stop, Case::kLower, &word);
        stops.insert(word);
      }
    }
  }
  bool needs_unicode() const { return action != Case::kNone || (!case_matters && !stops.empty()); }
  Case action = Case::kNone;
  bool case_matters = false;
  std::unordered_set<std::string> stops;
};

std::string supports_normalizer(const Node& node) {
  const Normalization how(node);
  return !knows_case() && (how.action != Case::kNone || !how.case_matters)
             ? "the system has no locale that knows upper and lower case"
             : "";
}

void check_words(const Node& node, const Dims& dims) {
  expect(node, dims.size() == 1 || (dims.size() == 2 && dims[0] == 1),
         "its input has the shape " + to_string(dims) + ", where [C] or [1, C] is expected");
}

void normalize(const Normalization& how, const Text* from, int64_t n, Text* to) {
  TextScope& texts = TextScope::current();
  std::string word;
  for (int64_t i = 0; i < n; ++i) {
    if (how.action == Case::kNone) {
      to[i] = from[i];
    } else {
      change_case(from[i].view(), how.action, &word);
      to[i] = texts.copy(word);
    }
  }
}

// Where words may be left out only a run knows how many stay.
Kernel normalizer(Prepare& p) {
  const Normalization how(p.node);
  check_words(p.node, p.dims(0));
  if (!how.stops.empty() || p.in(0).count() == 0) {
    throw NeedsContent{0};
  }
  const int64_t n = p.out(0, DType::kString, p.dims(0)).count();
  return [=](const Args& args) { normalize(how, args.in<Text>(0), n, args.out<Text>()); };
}

void run_normalizer(Run& run) {
  const Normalization how(run.node);
  const Dims& dims = run.in(0).dims;
  check_words(run.node, dims);
  std::vector<Text> kept;
  std::string word;
  const Text* from = run.as<Text>(0);
  const int64_t n = count(dims);
  for (int64_t i = 0; i < n; ++i) {
    if (how.case_matters) {
      word = from[i].view();
    } else {
      change_case(from[i].view(), Case::kLower, &word);
    }
    if (how.stops.count(word) == 0) kept.push_back(from[i]);
  }
  if (kept.empty()) kept.emplace_back();  // One empty string.
  Dims to = dims;
  to.back() = static_cast<int64_t>(kept.size());
  normalize(how, kept.data(), to.back(), static_cast<Text*>(run.out(0, DType::kString, to)));
}

// ---- Lists of words become tensors

// For each element a list of parts.
struct Parts {
  std::vector<std::string_view> all;
  std::vector<size_t> ends;  // Of each element's.

  void end() { ends.push_back(all.size()); }
  size_t begin_of(size_t i) const { return i == 0 ? 0 : ends[i - 1]; }
  size_t size_of(size_t i) const { return ends[i] - begin_of(i); }
  size_t most() const {
    size_t most = 0;
    for (size_t i = 0; i < ends.size(); ++i) most = std::max(most, size_of(i));
    return most;
  }
};

// Elements that show `texts`, which lie in characters that live as long as the run.
void point_at(const std::string_view* texts, size_t n, Text* to) {
  std::string_view* views = TextScope::current().views(n);
  std::copy(texts, texts + n, views);
  for (size_t i = 0; i < n; ++i) to[i].at = views + i;
}

// ---- StringSplit

void string_split(Run& run) {
  const std::string delimiter = run.node.s("delimiter", "");
  const int64_t limit = run.node.has("maxsplit") ? run.node.i("maxsplit", 0) : -1;
  const size_t most = limit < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(limit);
  const Dims dims = run.in(0).dims;
  const size_t n = static_cast<size_t>(count(dims));
  Parts parts;
  for (size_t i = 0; i < n; ++i) {
    std::string_view rest = run.as<Text>(0)[i].view();
    const auto trim = [&] { rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size())); };
    if (delimiter.empty()) trim();
    for (size_t cuts = 0; !rest.empty(); ++cuts) {
      const size_t found = cuts == most ? rest.npos : rest.find(delimiter.empty() ? " " : delimiter);
      parts.all.push_back(rest.substr(0, found));
      if (found == rest.npos) break;
      rest.remove_prefix(found + std::max<size_t>(1, delimiter.size()));
      if (delimiter.empty()) {
        trim();
      } else if (rest.empty()) {
        parts.all.push_back(rest);  // What lies behind the last delimiter.
      }
    }
    if (delimiter.empty() && !parts.all.empty() && parts.all.size() > parts.begin_of(i)) {
      std::string_view& last = parts.all.back();  // Cut short by the limit, it may end with spaces.
      last = last.substr(0, last.find_last_not_of(' ') + 1);
    }
    parts.end();
  }
  const size_t width = parts.most();
  Dims to = dims;
  to.push_back(static_cast<int64_t>(width));
  Text* y = static_cast<Text*>(run.out(0, DType::kString, to));
  int64_t* sizes = run.wants(1) ? static_cast<int64_t*>(run.out(1, DType::kInt64, dims)) : nullptr;
  std::fill(y, y + n * width, Text());
  for (size_t i = 0; i < n; ++i) {
    point_at(parts.all.data() + parts.begin_of(i), parts.size_of(i), y + i * width);
    if (sizes != nullptr) sizes[i] = static_cast<int64_t>(parts.size_of(i));
  }
}

// ---- Tokenizer

// An expression's automaton. The last ones of a thread are kept: to make one takes longer than to read most
// texts.
std::shared_ptr<const Regex> automaton_of(const std::string& expression) {
  constexpr size_t kKept = 16;
  static thread_local std::deque<std::pair<std::string, std::shared_ptr<const Regex>>> kept;
  for (const auto& [known, automaton] : kept) {
    if (known == expression) return automaton;
  }
  kept.emplace_front(expression, std::make_shared<const Regex>(expression));
  if (kept.size() > kKept) kept.pop_back();
  return kept.front().second;
}

struct Tokens {
  explicit Tokens(const Node& node) : separators(node.strings("separators")) {
    const std::string expression = node.s("tokenexp", "");
    expect(node, separators.empty() == node.has("tokenexp"), "it needs either separators or tokenexp");
    expect(node, node.has("pad_value"), "it has no pad_value");
    const int64_t least_characters = node.i("mincharnum", 0);
    expect(node, least_characters > 0, "mincharnum is not positive");
    least = static_cast<size_t>(least_characters);
    mark = node.i("mark", 0) != 0;
    pad = node.s("pad_value", "");
    // A "." alone is any character, also one that ends a line, as onnxruntime has it.
    by_character = separators.empty() ? expression == "." : separators.size() == 1 && separators[0].empty();
    if (separators.empty() && !by_character) add("tokenexp", expression);
    for (const std::string& separator : separators) {
      expect(node, by_character || !separator.empty(), "an empty separator among others");
      if (!by_character) add("separator", separator);
    }
  }
  std::vector<std::string> separators;
  std::vector<std::shared_ptr<const Regex>> expressions;  // Of tokens, or of the separators.
  size_t least = 1;
  bool mark = false, by_character = false;
  std::string pad, why;  // Why it cannot be done; or "".

 private:
  void add(const char* what, const std::string& expression) {
    expressions.push_back(automaton_of(expression));
    if (!expressions.back()->why.empty()) {
      why = std::string("the ") + what + " '" + expression + "' has " + expressions.back()->why;
    }
  }
};

// Calls found(begin, size) for the matches in a text from the left on, the longest at each place; of nothing
// there are none.
template <typename Found>
void for_matches(const Regex& expression, std::string_view text, const Found& found) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = expression.longest(text, at);
    if (size != text.npos && size > 0) {
      found(at, size);
      at += size;
    } else {
      ++at;
    }
  }
}

void tokenize(const Tokens& how, std::string_view text, Parts* parts) {
  const auto keep = [&](std::string_view token) {
    if (!token.empty() && characters_in(token) >= how.least) parts->all.push_back(token);
  };
  if (how.by_character) {
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      bool bad = false;
      next_character(text, &at, &bad);
      keep(text.substr(begin, at - begin));
    }
  } else if (how.separators.empty()) {
    for_matches(*how.expressions[0], text, [&](size_t at, size_t size) { keep(text.substr(at, size)); });
  } else {
    std::vector<std::string_view> pieces{text}, next;
    for (const std::shared_ptr<const Regex>& separator : how.expressions) {
      next.clear();
      for (std::string_view piece : pieces) {
        size_t begin = 0;
        for_matches(*separator, piece, [&](size_t at, size_t size) {
          next.push_back(piece.substr(begin, at - begin));
          begin = at + size;
        });
        next.push_back(piece.substr(begin));
      }
      std::swap(pieces, next);
    }
    for (std::string_view piece : pieces) keep(piece);
  }
  parts->end();
}

void run_tokenizer(Run& run) {
  const Tokens how(run.node);
  const Dims dims = run.in(0).dims;
  expect(run.node, dims.size() == 1 || dims.size() == 2, "its input is no vector or matrix of strings");
  const size_t n = static_cast<size_t>(count(dims));
  Parts parts;
  for (size_t i = 0; i < n; ++i) tokenize(how, run.as<Text>(0)[i].view(), &parts);
  const size_t marks = how.mark && parts.most() > 0 ? 1 : 0, width = parts.most() + 2 * marks;
  Dims to = dims;
  to.push_back(static_cast<int64_t>(width));
  Text* y = static_cast<Text*>(run.out(0, DType::kString, to));
  TextScope& texts = TextScope::current();
  const Text pad = texts.copy(how.pad), begin = texts.copy("\x02"), end = texts.copy("\x03");
  for (size_t i = 0; i < n; ++i, y += width) {
    std::fill(y, y + width, pad);
    if (marks > 0) y[0] = begin;
    point_at(parts.all.data() + parts.begin_of(i), parts.size_of(i), y + marks);
    if (marks > 0) y[parts.size_of(i) + 1] = end;
  }
}

// ---- TfIdfVectorizer

// The n-grams of a pool as a tree, whose edges are items by their numbers.
class Grams {
 public:
  explicit Grams(const Node& node);

  // Counts, into `to`, what a row holds; `room` is for as many numbers as the row has items.
  template <typename T>
  void count_row(const T* row, int64_t n, int64_t* room, float* to) const {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, Text>) {
        room[i] = texts_->find(row[i].view());
      } else {
        room[i] = numbers_->find(static_cast<int64_t>(row[i]));
      }
    }
    // No two items lie further apart than the first and the last one.
    const int64_t steps = std::min(skips_, std::max<int64_t>(n - 2, 0)) + 1;
    for (int64_t step = 1; step <= steps; ++step) {
      // Single items have nothing between them, and are counted once.
      const int64_t least = step == 1 ? least_ : std::max<int64_t>(least_, 2);
      for (int64_t begin = 0; begin < n && least <= most_; ++begin) {
        int64_t gram = 0;
        for (int64_t k = 0, at = begin; k < most_ && at < n; ++k, at += step) {
          if (room[at] < 0) break;
          gram = k == 0 ? starts_[static_cast<size_t>(room[at])] : longer(gram, room[at]);
          if (gram < 0) break;
          const int64_t column = columns_[static_cast<size_t>(gram)];
          if (k + 1 >= least && column >= 0) ++to[column];
        }
      }
    }
    if (mode_ != kTf) {
      for (int64_t c = 0; c < width; ++c) {
        const float weight = weights_.empty() ? 1 : weights_[static_cast<size_t>(c)];
        to[c] = mode_ == kIdf ? (to[c] > 0 ? weight : 0) : to[c] * weight;
      }
    }
  }

  bool of_texts() const { return texts_ != nullptr; }
  int64_t width = 0;

 private:
  // The gram that is longer by this item; -1: there is none.
  int64_t longer(int64_t gram, int64_t item) const {
    const int64_t edge = edges_->find(gram * items_ + item);
    return edge < 0 ? -1 : behind_[static_cast<size_t>(edge)];
  }

  enum Mode : uint8_t { kTf, kIdf, kTfIdf };
  Mode mode_ = kTf;
  int64_t least_ = 1, most_ = 1, skips_ = 0, items_ = 0;
  std::vector<float> weights_;  // Of columns.
  std::vector<std::string> pool_;
  std::unique_ptr<Places<std::string_view>> texts_;
  std::unique_ptr<Places<int64_t>> numbers_;
  std::vector<int64_t> starts_;             // The gram of each item alone; -1: none begins with it.
  std::unique_ptr<Places<int64_t>> edges_;  // From a gram and an item, to the place in:
  std::vector<int64_t> behind_;             // the gram that is longer by the item.
  std::vector<int64_t> columns_;            // Of each gram; -1: it is only the start of others.
};

Grams::Grams(const Node& node) : pool_(node.strings("pool_strings")) {
  const std::string mode = node.s("mode", "");
  expect(node, mode == "TF" || mode == "IDF" || mode == "TFIDF", "the mode '" + mode + "' is not known");
  mode_ = mode == "TF" ? kTf : mode == "IDF" ? kIdf : kTfIdf;
  least_ = node.i("min_gram_length", 0);
  most_ = node.i("max_gram_length", 0);
  skips_ = node.i("max_skip_count", 0);
  expect(node, 1 <= least_ && least_ <= most_, "min_gram_length and max_gram_length are no range of lengths");
  expect(node, 0 <= skips_, "max_skip_count is negative");
  const std::vector<int64_t> starts = node.ints("ngram_counts"), columns = node.ints("ngram_indexes"),
                             numbers = node.ints("pool_int64s");
  weights_ = node.floats("weights");
  expect(node, pool_.empty() != numbers.empty(), "it needs one of pool_strings and pool_int64s");
  expect(node, most_ <= static_cast<int64_t>(starts.size()), "ngram_counts is shorter than max_gram_length");
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int64_t column : columns) {
    expect(node, 0 <= column && column < kMost, "ngram_indexes has the column " + std::to_string(column));
    width = std::max(width, column + 1);
  }
  expect(
      node, weights_.empty() || weights_.size() == columns.size(),
      std::to_string(weights_.size()) + " weights for " + std::to_string(columns.size()) + " ngram_indexes");
  const int64_t size = static_cast<int64_t>(pool_.empty() ? numbers.size() : pool_.size());
  std::vector<int64_t> items(static_cast<size_t>(size));
  if (pool_.empty()) {
    numbers_ = std::make_unique<Places<int64_t>>(numbers, false);
    for (size_t i = 0; i < items.size(); ++i) items[i] = numbers_->find(numbers[i]);
  } else {
    texts_ = std::make_unique<Places<std::string_view>>(
        std::vector<std::string_view>(pool_.begin(), pool_.end()), false);
    for (size_t i = 0; i < items.size(); ++i) items[i] = texts_->find(pool_[i]);
  }
  items_ = size;
  columns_.push_back(-1);
  std::unordered_map<int64_t, int64_t> edges;  // The first gram is empty.
  size_t gram = 0;                             // The number of the one that comes, of all lengths.
  for (size_t k = 0; k < starts.size(); ++k) {
    const int64_t length = static_cast<int64_t>(k) + 1, begin = starts[k];
    const int64_t end = k + 1 < starts.size() ? starts[k + 1] : size;
    expect(node, 0 <= begin && begin <= end && end <= size && (end - begin) % length == 0,
           "ngram_counts does not cut the pool into grams of " + std::to_string(length));
    for (int64_t at = begin; at < end; at += length, ++gram) {
      expect(node, gram < columns.size(), "ngram_indexes is shorter than the pool has grams");
      if (length < least_ || length > most_) continue;
      int64_t place = 0;
      for (int64_t i = at; i < at + length; ++i) {
        const auto [edge, made] = edges.emplace(place * items_ + items[static_cast<size_t>(i)],
                                                static_cast<int64_t>(columns_.size()));
        if (made) columns_.push_back(-1);
        place = edge->second;
      }
      columns_[static_cast<size_t>(place)] = columns[gram];
    }
  }
  starts_.assign(items.size(), -1);
  std::vector<int64_t> keys;
  for (const auto& [key, longer] : edges) {
    if (key < items_) {
      starts_[static_cast<size_t>(key)] = longer;
    } else {
      keys.push_back(key);
      behind_.push_back(longer);
    }
  }
  edges_ = std::make_unique<Places<int64_t>>(keys, false);
  // A weight goes with the gram of its place, and so to that one's column.
  if (!weights_.empty()) {
    std::vector<float> of_columns(static_cast<size_t>(width), 0);
    for (size_t i = 0; i < weights_.size(); ++i) of_columns[static_cast<size_t>(columns[i])] = weights_[i];
    weights_ = std::move(of_columns);
  }
}

std::string supports_vectorizer(const Node& node) {
  const Grams grams(node);
  const DType type = node.in(0)->type;
  return type != DType::kUndefined && (type == DType::kString) != grams.of_texts()
             ? "its pool is not of its input's type"
             : "";
}

Kernel vectorizer(Prepare& p) {
  const auto grams = std::make_shared<const Grams>(p.node);
  const DType type = p.type(0);
  p.expect((type == DType::kString) == grams->of_texts(), "its pool is not of its input's type");
  const Dims& dims = p.dims(0);
  p.expect(dims.size() <= 2, "its input has more than two dimensions");
  const int64_t n = dims.empty() ? 1 : dims.back(), rows = dims.size() == 2 ? dims[0] : 1,
                width = grams->width;
  p.out(0, DType::kFloat, dims.size() == 2 ? Dims{rows, width} : Dims{width});
  p.scratch(static_cast<size_t>(p.threads() * n) * sizeof(int64_t));
  return [=](const Args& args) {
    const auto count_all = [&](auto zero) {
      using T = decltype(zero);
      parallel_for(rows, 1 + kGrain / (16 * n + width + 1), [&](int64_t row, int64_t end) {
        for (; row < end; ++row) {
          float* to = args.out<float>() + row * width;
          std::fill(to, to + width, 0.0f);
          grams->count_row(args.in<T>(0) + row * n, n, args.scratch<int64_t>() + thread_rank() * n, to);
        }
      });
    };
    if (type == DType::kString) {
      count_all(Text{});
    } else {
      with_one_of<int64_t, int32_t>(type, count_all);
    }
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.type = "StringNormalizer",
                 .supports = supports_normalizer,
                 .prepare = normalizer,
                 .run = run_normalizer,
                 .types = kText,
                 .min_version = 10});
  registry->add(
      {.type = "StringSplit", .run = string_split, .types = kText | Types{DType::kInt64}, .min_version = 20});
  registry->add({.type = "TfIdfVectorizer",
                 .supports = supports_vectorizer,
                 .prepare = vectorizer,
                 .types = kText | Types{DType::kInt32, DType::kInt64, DType::kFloat},
                 .min_version = 9});
  registry->add({.domain = "com.microsoft",
                 .type = "Tokenizer",
                 .supports = [](const Node& node) { return Tokens(node).why; },
                 .run = run_tokenizer,
                 .types = kText});
});

}  // namespace ephost::cpu
