// Regular expressions in RE2's syntax, as deterministic automata over bytes: whether a text as a whole
// matches, and how much of it from some place on.
#ifndef EPHOST_CPU_ENGINES_REGEX_H_
#define EPHOST_CPU_ENGINES_REGEX_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ephost::cpu {

class Regex {
 public:
  // `why` says why not, if it is more than this takes: characters, classes of them, groups, alternatives and
  // repetitions are taken, and assertions of where a text and words begin and end; flags and classes of
  // Unicode are not, nor what has too many states.
  explicit Regex(std::string_view pattern);
  std::string why;

  // Whether all of the text is one match.
  bool matches(std::string_view text) const {
    int32_t state = 1;  // 0: nothing that follows makes it a match.
    for (size_t i = 0; i < text.size() && state != 0; ++i) {
      state = next_[static_cast<size_t>(state) * kinds_ + kind_of_[static_cast<unsigned char>(text[i])]];
    }
    return accepts_[static_cast<size_t>(state)];
  }

  // The length of the longest match that begins at text[from], or npos.
  size_t longest(std::string_view text, size_t from) const {
    int32_t state = from == 0 ? 1 : inside_[is_of_word(static_cast<unsigned char>(text[from - 1]))];
    size_t found = std::string_view::npos;
    for (size_t i = from;; ++i) {
      const bool accepts =
          i == text.size()
              ? accepts_[static_cast<size_t>(state)]
              : accepts_before_[is_of_word(static_cast<unsigned char>(text[i]))][static_cast<size_t>(state)];
      if (accepts) found = i - from;
      if (i == text.size() || state == 0) return found;
      state = next_[static_cast<size_t>(state) * kinds_ + kind_of_[static_cast<unsigned char>(text[i])]];
    }
  }

  // What \w is.
  static bool is_of_word(unsigned char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (byte >= 'a' && byte <= 'z');
  }

 private:
  uint8_t kind_of_[256] = {};  // Bytes that all states take alike are of one kind.
  size_t kinds_ = 1;
  std::vector<int32_t> next_;  // Of each state and kind.
  std::vector<bool> accepts_;  // Of each state, whether the text may end there.
  // The same of a match that is followed by a byte of no word, or of one.
  std::vector<bool> accepts_before_[2];
  int32_t inside_[2] = {0, 0};  // Where a match begins behind a byte of no word, or of one.
};

}  // namespace ephost::cpu

#endif
