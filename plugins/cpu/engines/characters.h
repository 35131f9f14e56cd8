// Characters of texts in UTF-8.
#ifndef EPHOST_CPU_ENGINES_CHARACTERS_H_
#define EPHOST_CPU_ENGINES_CHARACTERS_H_

#include <cstddef>
#include <string_view>

namespace ephost::cpu {

// The code point at `at`, which moves on; a byte that begins none stands for itself, as `bad` says.
inline char32_t next_character(std::string_view text, size_t* at, bool* bad) {
  const unsigned char first = static_cast<unsigned char>(text[*at]);
  const size_t more = first < 0x80   ? 0
                      : first < 0xc2 ? 4
                      : first < 0xe0 ? 1
                      : first < 0xf0 ? 2
                      : first < 0xf5 ? 3
                                     : 4;
  *bad = more == 4 || *at + more >= text.size();
  char32_t code = more == 0 ? first : first & (0x3fU >> more);
  for (size_t k = 1; !*bad && k <= more; ++k) {
    const unsigned char byte = static_cast<unsigned char>(text[*at + k]);
    *bad = (byte & 0xc0) != 0x80;
    code = code << 6 | (byte & 0x3f);
  }
  *at += *bad ? 1 : more + 1;
  return *bad ? first : code;
}

}  // namespace ephost::cpu

#endif
