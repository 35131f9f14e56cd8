#include "cpu/engines/regex.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <tuple>

#include "cpu/engines/characters.h"

namespace ephost::cpu {
namespace {

constexpr size_t kMostNodes = 5000, kMostStates = 500;
constexpr int kDeepest = 200;             // Groups in groups.
constexpr int kMostTimes = 1000;          // As in RE2.
constexpr char32_t kLastCode = 0x10ffff;  // Of characters.

struct Unsupported {
  std::string why;
};

// ---- Characters

struct Range {
  char32_t first, last;
};
using Class = std::vector<Range>;

Class complement(Class of) {
  std::sort(of.begin(), of.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  Class all;
  char32_t next = 0;
  for (const Range& range : of) {
    if (range.first > next) all.push_back({next, range.first - 1});
    next = std::max<char32_t>(next, range.last + 1);
  }
  if (next <= kLastCode) all.push_back({next, kLastCode});
  return all;
}

// What an escaped letter stands for; empty if for no class.
Class class_of(char letter) {
  switch (letter) {
    case 'd':
      return {{'0', '9'}};
    case 'w':
      return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 's':
      return {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    case 'D':
    case 'W':
    case 'S':
      return complement(class_of(static_cast<char>(letter + 'a' - 'A')));
    default:
      return {};
  }
}

constexpr std::string_view kBlank = " \t", kSpace = " \t\n\v\f\r";

// What "alpha" in "[[:alpha:]]" stands for, all of ASCII; empty if nothing.
Class named_class(std::string_view name) {
  const auto of = [](std::string_view characters) {
    Class all;
    for (const char c : characters) all.push_back({static_cast<char32_t>(c), static_cast<char32_t>(c)});
    return all;
  };
  if (name == "alnum") return {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
  if (name == "alpha") return {{'A', 'Z'}, {'a', 'z'}};
  if (name == "ascii") return {{0, 0x7f}};
  if (name == "blank") return of(kBlank);
  if (name == "cntrl") return {{0, 0x1f}, {0x7f, 0x7f}};
  if (name == "digit") return {{'0', '9'}};
  if (name == "graph") return {{'!', '~'}};
  if (name == "lower") return {{'a', 'z'}};
  if (name == "print") return {{' ', '~'}};
  if (name == "punct") return {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
  if (name == "space") return of(kSpace);
  if (name == "upper") return {{'A', 'Z'}};
  if (name == "word") return class_of('w');
  if (name == "xdigit") return {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  return {};
}

// ---- The automaton that may be in several states

// A node takes a byte in [first, last], or none, and goes on to `next`, or to `other` as well.
struct Node {
  enum Kind : uint8_t { kBytes, kFork, kBegin, kEnd, kWord, kNoWord, kMatch } kind;
  uint8_t first = 0, last = 0;
  int32_t next = -1, other = -1;
};

// What has been read, as a tree.
struct Tree {
  enum Kind : uint8_t { kClass, kSequence, kChoice, kRepeat, kBegin, kEnd, kWord, kNoWord } kind;
  Class characters{};
  std::vector<std::unique_ptr<Tree>> parts{};
  int least = 0, most = 0;  // Repetitions; -1: any number.
};
using TreePtr = std::unique_ptr<Tree>;

class Reader {
 public:
  explicit Reader(std::string_view pattern) : text_(pattern) {}

  TreePtr all() {
    TreePtr tree = choice(0);
    if (at_ < text_.size()) throw Unsupported{"a parenthesis closes no group"};
    return tree;
  }

 private:
  bool has(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }

  TreePtr choice(int depth) {
    if (depth > kDeepest) throw Unsupported{"its groups lie too deep in each other"};
    auto made = std::make_unique<Tree>(Tree{Tree::kChoice});
    do {
      made->parts.push_back(sequence(depth));
    } while (has("|"));
    return made;
  }

  TreePtr sequence(int depth) {
    auto made = std::make_unique<Tree>(Tree{Tree::kSequence});
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
      if (has("\\Q")) {  // As it is, up to \E or to the end.
        const size_t end = std::min(text_.find("\\E", at_), text_.size());
        std::vector<TreePtr> literals;
        while (at_ < end) {
          const char32_t code = text_[at_] == '\\' ? static_cast<char32_t>(text_[at_++]) : character();
          literals.push_back(std::make_unique<Tree>(Tree{Tree::kClass}));
          literals.back()->characters = {{code, code}};
        }
        has("\\E");
        if (!literals.empty()) literals.back() = repeated(std::move(literals.back()));
        std::move(literals.begin(), literals.end(), std::back_inserter(made->parts));
        continue;
      }
      TreePtr one = atom(depth);
      made->parts.push_back(repeated(std::move(one)));
    }
    return made;
  }

  TreePtr atom(int depth) {
    if (has("(")) {
      if (has("?P<") || has("?<")) {
        const size_t end = text_.find('>', at_);
        const auto of_name = [](char c) {
          return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        };
        if (end == text_.npos || end == at_ ||
            !std::all_of(text_.begin() + static_cast<ptrdiff_t>(at_),
                         text_.begin() + static_cast<ptrdiff_t>(end), of_name)) {
          throw Unsupported{"a group that is not only named"};
        }
        at_ = end + 1;
      } else if (!has("?:") && at_ < text_.size() && text_[at_] == '?') {
        throw Unsupported{"flags"};
      }
      TreePtr inner = choice(depth + 1);
      if (!has(")")) throw Unsupported{"a group that does not end"};
      return inner;
    }
    if (has("^") || has("\\A")) return std::make_unique<Tree>(Tree{Tree::kBegin});
    if (has("$") || has("\\z")) return std::make_unique<Tree>(Tree{Tree::kEnd});
    if (has("\\b")) return std::make_unique<Tree>(Tree{Tree::kWord});
    if (has("\\B")) return std::make_unique<Tree>(Tree{Tree::kNoWord});
    auto made = std::make_unique<Tree>(Tree{Tree::kClass});
    if (has(".")) {
      made->characters = complement({{'\n', '\n'}});
    } else if (has("[")) {
      made->characters = bracket();
    } else if (std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) {
      throw Unsupported{"a repetition of nothing, or a brace that means itself"};
    } else if (text_[at_] == '\\' && at_ + 1 < text_.size() && !class_of(text_[at_ + 1]).empty()) {
      made->characters = class_of(text_[at_ + 1]);
      at_ += 2;
    } else {
      const char32_t code = character();
      made->characters = {{code, code}};
    }
    return made;
  }

  TreePtr repeated(TreePtr of) {
    int least = 0, most = -1;
    if (has("*")) {
    } else if (has("+")) {
      least = 1;
    } else if (has("?")) {
      most = 1;
    } else if (has("{")) {
      least = number();
      most = has(",") ? (at_ < text_.size() && text_[at_] == '}' ? -1 : number()) : least;
      if (!has("}") || (most >= 0 && most < least)) throw Unsupported{"a brace that means itself"};
    } else {
      return of;
    }
    has("?");  // Which of several ways to match is taken does not matter.
    if (at_ < text_.size() && std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) {
      throw Unsupported{"a repetition of a repetition"};
    }
    auto made = std::make_unique<Tree>(Tree{Tree::kRepeat});
    made->least = least;
    made->most = most;
    made->parts.push_back(std::move(of));
    return made;
  }

  int number() {
    int value = -1;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = std::max(value, 0) * 10 + (text_[at_] - '0');
      if (value > kMostTimes) throw Unsupported{"more than a thousand repetitions"};
    }
    if (value < 0) throw Unsupported{"a brace that means itself"};
    return value;
  }

  Class bracket() {
    const bool negated = has("^");
    Class all;
    for (bool first = true; first || !has("]"); first = false) {
      if (at_ >= text_.size()) throw Unsupported{"a class that does not end"};
      if (has("[:")) {
        const bool others = has("^");
        const size_t end = text_.find(":]", at_);
        Class named = named_class(text_.substr(at_, std::min(end, text_.size()) - at_));
        if (named.empty()) throw Unsupported{"a class of a name that is not known"};
        if (others) named = complement(std::move(named));
        all.insert(all.end(), named.begin(), named.end());
        at_ = end + 2;
        continue;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && !class_of(text_[at_ + 1]).empty()) {
        const Class named = class_of(text_[at_ + 1]);
        all.insert(all.end(), named.begin(), named.end());
        at_ += 2;
        continue;
      }
      const char32_t from = character();
      char32_t to = from;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        to = character();
      }
      if (to < from) throw Unsupported{"a range of characters that runs backwards"};
      all.push_back({from, to});
    }
    return negated ? complement(all) : all;
  }

  // One character, which may be escaped.
  char32_t character() {
    if (text_[at_] == '\\') return escaped();
    bool bad = false;
    const char32_t code = next_character(text_, &at_, &bad);
    if (bad) throw Unsupported{"bytes that are no UTF-8"};
    return code;
  }

  char32_t escaped() {
    if (++at_ >= text_.size()) throw Unsupported{"a backslash at the end"};
    const char letter = text_[at_++];
    switch (letter) {
      case 'a':
        return '\a';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'v':
        return '\v';
      case 'x':
        return hexadecimal();
      default:
        break;
    }
    const bool is_word = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                         letter == '_' || (letter >= 'a' && letter <= 'z') ||
                         static_cast<unsigned char>(letter) >= 0x80;
    if (is_word) throw Unsupported{std::string("\\") + letter};
    return static_cast<unsigned char>(letter);
  }

  // Behind "\x": two digits, or as many as it takes in braces.
  char32_t hexadecimal() {
    const bool braces = has("{");
    const size_t begin = at_;
    char32_t code = 0;
    for (; at_ < text_.size() && (braces || at_ < begin + 2); ++at_) {
      const char digit = text_[at_];
      const int value = digit >= '0' && digit <= '9'   ? digit - '0'
                        : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                        : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                       : -1;
      if (value < 0) break;
      code = code * 16 + static_cast<char32_t>(value);
      if (code > kLastCode) throw Unsupported{"a code of no character"};
    }
    if (at_ == begin || (braces ? !has("}") : at_ != begin + 2)) throw Unsupported{"\\x without its digits"};
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Makes nodes from the end on: each part is given what comes behind it.
class Builder {
 public:
  std::vector<Node> nodes;

  int32_t add(const Node& node) {
    if (nodes.size() >= kMostNodes) throw Unsupported{"too many states"};
    nodes.push_back(node);
    return static_cast<int32_t>(nodes.size()) - 1;
  }

  int32_t make(const Tree& tree, int32_t next) {
    switch (tree.kind) {
      case Tree::kBegin:
        return add({Node::kBegin, 0, 0, next});
      case Tree::kEnd:
        return add({Node::kEnd, 0, 0, next});
      case Tree::kWord:
        return add({Node::kWord, 0, 0, next});
      case Tree::kNoWord:
        return add({Node::kNoWord, 0, 0, next});
      case Tree::kSequence:
        for (size_t i = tree.parts.size(); i-- > 0;) next = make(*tree.parts[i], next);
        return next;
      case Tree::kChoice: {
        int32_t first = make(*tree.parts.back(), next);
        for (size_t i = tree.parts.size() - 1; i-- > 0;) {
          const int32_t other = first, one = make(*tree.parts[i], next);
          first = add({Node::kFork, 0, 0, one, other});
        }
        return first;
      }
      case Tree::kRepeat: {
        const Tree& part = *tree.parts[0];
        if (tree.most < 0) {
          const int32_t fork = add({Node::kFork, 0, 0, -1, next});
          const int32_t inside = make(part, fork);
          nodes[static_cast<size_t>(fork)].next = inside;
          next = fork;
        }
        const int32_t behind = next;
        for (int i = tree.least; i < tree.most; ++i) {
          const int32_t inside = make(part, next);
          next = add({Node::kFork, 0, 0, inside, behind});
        }
        for (int i = 0; i < tree.least; ++i) next = make(part, next);
        return next;
      }
      case Tree::kClass: {
        int32_t first = -1;
        for (const Range& range : tree.characters) add_range(range, next, &first);
        return first >= 0 ? first : add({Node::kBytes, 1, 0, next});  // That no byte passes.
      }
    }
    return next;
  }

 private:
  void choose(int32_t node, int32_t* first) {
    *first = *first < 0 ? node : add({Node::kFork, 0, 0, node, *first});
  }

  // The range is cut where the number of bytes changes, and then so that each but the leading bytes that
  // differ takes all that may follow.
  void add_range(Range range, int32_t next, int32_t* first) {
    constexpr char32_t kLast[] = {0x7f, 0x7ff, 0xffff, kLastCode};
    for (char32_t last : kLast) {
      if (range.first <= last && last < range.last) {
        add_range({range.first, last}, next, first);
        add_range({last + 1, range.last}, next, first);
        return;
      }
    }
    if (range.last <= 0x7f) {
      choose(add({Node::kBytes, static_cast<uint8_t>(range.first), static_cast<uint8_t>(range.last), next}),
             first);
      return;
    }
    for (int bits = 6; bits <= 18; bits += 6) {
      const char32_t low = (char32_t{1} << bits) - 1;
      if ((range.first & ~low) == (range.last & ~low)) continue;
      if ((range.first & low) != 0) {
        add_range({range.first, range.first | low}, next, first);
        add_range({(range.first | low) + 1, range.last}, next, first);
        return;
      }
      if ((range.last & low) != low) {
        add_range({range.first, (range.last & ~low) - 1}, next, first);
        add_range({range.last & ~low, range.last}, next, first);
        return;
      }
    }
    std::array<uint8_t, 4> from, to;
    const size_t bytes = encode(range.first, &from);
    encode(range.last, &to);
    int32_t node = next;
    for (size_t k = bytes; k-- > 0;) node = add({Node::kBytes, from[k], to[k], node});
    choose(node, first);
  }

  static size_t encode(char32_t code, std::array<uint8_t, 4>* to) {
    const size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    if (more == 0) {
      (*to)[0] = static_cast<uint8_t>(code);
      return 1;
    }
    (*to)[0] = static_cast<uint8_t>((0xff00 >> (more + 1) & 0xff) | code >> 6 * more);
    for (size_t k = 1; k <= more; ++k) {
      (*to)[k] = static_cast<uint8_t>(0x80 | (code >> 6 * (more - k) & 0x3f));
    }
    return more + 1;
  }
};

// What is known of a place between bytes: whether the text begins or ends there, whether the byte before
// belongs to a word, and the one behind, if that is known already.
struct Place {
  bool begins = false, ends = false, word_before = false, known = false, word_behind = false;
};

// The nodes that take bytes, match, or wait for what is not known, which are reached from `from` without a
// byte.
std::vector<int32_t> reached(const std::vector<Node>& nodes, std::vector<int32_t> from, const Place& place) {
  std::vector<bool> seen(nodes.size());
  std::vector<int32_t> all;
  const bool border = place.word_before != place.word_behind;
  while (!from.empty()) {
    const int32_t at = from.back();
    from.pop_back();
    if (at < 0 || seen[static_cast<size_t>(at)]) continue;
    seen[static_cast<size_t>(at)] = true;
    const Node& node = nodes[static_cast<size_t>(at)];
    const bool of_words = node.kind == Node::kWord || node.kind == Node::kNoWord;
    if (node.kind == Node::kFork) {
      from.insert(from.end(), {node.next, node.other});
    } else if ((node.kind == Node::kBegin && place.begins) || (node.kind == Node::kEnd && place.ends) ||
               (of_words && place.known && border == (node.kind == Node::kWord))) {
      from.push_back(node.next);
    } else if (node.kind != Node::kBegin && !(of_words && place.known)) {
      all.push_back(at);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

Regex::Regex(std::string_view pattern) {
  try {
    const TreePtr tree = Reader(pattern).all();
    Builder builder;
    const int32_t match = builder.add({Node::kMatch});
    const int32_t start = builder.make(*tree, match);
    const std::vector<Node>& nodes = builder.nodes;
    const bool of_words = std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
      return node.kind == Node::kWord || node.kind == Node::kNoWord;
    });

    std::array<bool, 257> cuts{};  // Where a kind begins.
    for (const Node& node : nodes) {
      if (node.kind == Node::kBytes && node.first <= node.last)
        cuts[node.first] = cuts[node.last + 1u] = true;
    }
    for (unsigned byte = 1; of_words && byte < 256; ++byte) {
      if (is_of_word(static_cast<unsigned char>(byte)) != is_of_word(static_cast<unsigned char>(byte - 1)))
        cuts[byte] = true;
    }
    std::vector<uint8_t> samples(1, 0);  // A byte of each kind.
    for (int byte = 1; byte < 256; ++byte) {
      if (cuts[static_cast<size_t>(byte)]) samples.push_back(static_cast<uint8_t>(byte));
      kind_of_[byte] = static_cast<uint8_t>(samples.size() - 1);
    }
    kinds_ = samples.size();

    struct State {
      std::vector<int32_t> nodes;
      Place place;  // Without what lies behind.

      bool operator<(const State& other) const {
        return std::tie(place.begins, place.word_before, nodes) <
               std::tie(other.place.begins, other.place.word_before, other.nodes);
      }
    };
    std::map<State, int32_t> known;
    std::vector<State> states;
    const auto accepts = [&](const State& state, bool ends, bool word_behind) {
      const Place place{state.place.begins, ends, state.place.word_before, true, word_behind};
      const std::vector<int32_t> all = reached(nodes, state.nodes, place);
      return std::binary_search(all.begin(), all.end(), match);
    };
    const auto state_of = [&](std::vector<int32_t> from, const Place& place) {
      State state{reached(nodes, std::move(from), place), place};
      if (state.nodes.empty()) state.place = {};  // All that is dead is one.
      const auto [found, made] = known.emplace(state, static_cast<int32_t>(states.size()));
      if (made) {
        if (states.size() >= kMostStates) throw Unsupported{"too many states"};
        accepts_.push_back(accepts(state, true, false));
        for (const bool word : {false, true}) accepts_before_[word].push_back(accepts(state, false, word));
        states.push_back(std::move(state));
      }
      return found->second;
    };
    state_of({}, {});
    // Where the text begins is a state of its own, even where other texts lead to the same nodes: in an empty
    // text what stands for the beginning may follow what stands for the end.
    Place first;
    first.begins = true;
    if (state_of({start}, first) != 1) throw Unsupported{"nothing that matches"};
    for (const bool word : {false, true}) {
      Place inside;
      inside.word_before = word && of_words;
      inside_[word] = state_of({start}, inside);
    }
    for (size_t s = 0; s < states.size(); ++s) {
      for (uint8_t sample : samples) {
        const State state = states[s];
        Place place = state.place;
        place.known = true;
        place.word_behind = is_of_word(sample);
        std::vector<int32_t> to;
        for (int32_t at : of_words ? reached(nodes, state.nodes, place) : state.nodes) {
          const Node& node = nodes[static_cast<size_t>(at)];
          if (node.kind == Node::kBytes && node.first <= sample && sample <= node.last)
            to.push_back(node.next);
        }
        Place behind;
        behind.word_before = of_words && is_of_word(sample);
        next_.push_back(to.empty() ? 0 : state_of(std::move(to), behind));
      }
    }
  } catch (const Unsupported& unsupported) {
    why = unsupported.why;
  }
}

}  // namespace ephost::cpu
