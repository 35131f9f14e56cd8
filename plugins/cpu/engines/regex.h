// Regular expressions in RE2's syntax, as deterministic automata over bytes: whether a text as a whole
// matches.
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
  // repetitions are taken, and assertions of where a text begins and ends; flags, assertions of words, and
  // classes of Unicode are not, nor what has too many states.
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

 private:
  uint8_t kind_of_[256] = {};  // Bytes that all states take alike are of one kind.
  size_t kinds_ = 1;
  std::vector<int32_t> next_;  // Of each state and kind.
  std::vector<bool> accepts_;  // Of each state, whether the text may end there.
};

}  // namespace ephost::cpu

#endif
