#include "cpu/engines/regex.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

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

// ---- The automaton that may be in several states

// A node takes a byte in [first, last], or none, and goes on to `next`, or to `other` as well.
struct Node {
  enum Kind : uint8_t { kBytes, kFork, kBegin, kEnd, kMatch } kind;
  uint8_t first = 0, last = 0;
  int32_t next = -1, other = -1;
};

// What has been read, as a tree.
struct Tree {
  enum Kind : uint8_t { kClass, kSequence, kChoice, kRepeat, kBegin, kEnd } kind;
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
      if (text_[at_] == '[' && at_ + 1 < text_.size() && text_[at_ + 1] == ':')
        throw Unsupported{"a named class"};
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
    const unsigned char first = static_cast<unsigned char>(text_[at_]);
    if (first == '\\') return escaped();
    const size_t more = first < 0x80   ? 0
                        : first < 0xc2 ? 4
                        : first < 0xe0 ? 1
                        : first < 0xf0 ? 2
                        : first < 0xf5 ? 3
                                       : 4;
    if (more == 4 || at_ + more >= text_.size()) throw Unsupported{"bytes that are no UTF-8"};
    char32_t code = more == 0 ? first : first & (0x3fU >> more);
    for (size_t k = 1; k <= more; ++k) {
      const unsigned char byte = static_cast<unsigned char>(text_[at_ + k]);
      if ((byte & 0xc0) != 0x80) throw Unsupported{"bytes that are no UTF-8"};
      code = code << 6 | (byte & 0x3f);
    }
    at_ += more + 1;
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
      default:
        break;
    }
    const bool is_word = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                         letter == '_' || (letter >= 'a' && letter <= 'z') ||
                         static_cast<unsigned char>(letter) >= 0x80;
    if (is_word) throw Unsupported{std::string("\\") + letter};
    return static_cast<unsigned char>(letter);
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

// The nodes that take bytes, match, or wait for the end, which are reached from `from` without a byte.
std::vector<int32_t> reached(const std::vector<Node>& nodes, std::vector<int32_t> from, bool begins,
                             bool ends) {
  std::vector<bool> seen(nodes.size());
  std::vector<int32_t> all;
  while (!from.empty()) {
    const int32_t at = from.back();
    from.pop_back();
    if (at < 0 || seen[static_cast<size_t>(at)]) continue;
    seen[static_cast<size_t>(at)] = true;
    const Node& node = nodes[static_cast<size_t>(at)];
    if (node.kind == Node::kFork) {
      from.insert(from.end(), {node.next, node.other});
    } else if ((node.kind == Node::kBegin && begins) || (node.kind == Node::kEnd && ends)) {
      from.push_back(node.next);
    } else if (node.kind != Node::kBegin) {
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

    std::array<bool, 257> cuts{};  // Where a kind begins.
    for (const Node& node : nodes) {
      if (node.kind == Node::kBytes && node.first <= node.last)
        cuts[node.first] = cuts[node.last + 1u] = true;
    }
    std::vector<uint8_t> samples(1, 0);  // A byte of each kind.
    for (int byte = 1; byte < 256; ++byte) {
      if (cuts[static_cast<size_t>(byte)]) samples.push_back(static_cast<uint8_t>(byte));
      kind_of_[byte] = static_cast<uint8_t>(samples.size() - 1);
    }
    kinds_ = samples.size();

    std::map<std::vector<int32_t>, int32_t> known;
    std::vector<std::vector<int32_t>> states;
    const auto state_of = [&](const std::vector<int32_t>& set) {
      const auto [place, made] = known.emplace(set, static_cast<int32_t>(states.size()));
      if (made) {
        if (states.size() >= kMostStates) throw Unsupported{"too many states"};
        states.push_back(set);
        const std::vector<int32_t> end = reached(nodes, set, false, true);
        accepts_.push_back(std::binary_search(end.begin(), end.end(), match));
      }
      return place->second;
    };
    state_of({});
    // Where the text begins is a state of its own, even where other texts lead to the same nodes: in an empty
    // text what stands for the beginning may follow what stands for the end.
    states.push_back(reached(nodes, {start}, true, false));
    const std::vector<int32_t> end = reached(nodes, {start}, true, true);
    accepts_.push_back(std::binary_search(end.begin(), end.end(), match));
    for (size_t s = 0; s < states.size(); ++s) {
      for (uint8_t sample : samples) {
        std::vector<int32_t> to;
        for (int32_t at : states[s]) {
          const Node& node = nodes[static_cast<size_t>(at)];
          if (node.kind == Node::kBytes && node.first <= sample && sample <= node.last)
            to.push_back(node.next);
        }
        next_.push_back(to.empty() ? 0 : state_of(reached(nodes, std::move(to), false, false)));
      }
    }
  } catch (const Unsupported& unsupported) {
    why = unsupported.why;
  }
}

}  // namespace ephost::cpu
