#include "cuda/pool_account.h"

#include <cstdio>

namespace ephost::cuda {

std::string size_text(size_t bytes) {
  static const char* const kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < sizeof kUnits / sizeof kUnits[0]) {
    amount /= 1024;
    ++unit;
  }
  char text[48];
  (void)std::snprintf(text, sizeof text, unit == 0 || amount >= 100 ? "%.0f %s" : "%.1f %s", amount,
                      kUnits[unit]);
  return text;
}

bool parse_size(const std::string& text, size_t* bytes) {
  size_t value = 0, i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    const size_t digit = static_cast<size_t>(text[i] - '0');
    if (value > (SIZE_MAX - digit) / 10) {
      return false;
    }
    value = value * 10 + digit;
  }
  if (i == 0 || text.size() > i + 1) {
    return false;
  }
  if (i < text.size()) {
    const std::string units = "KMGT";
    const size_t power = units.find(text[i]);
    if (power == std::string::npos) {
      return false;
    }
    for (size_t k = 0; k <= power; ++k) {
      if (value > SIZE_MAX / 1024) {
        return false;
      }
      value *= 1024;
    }
  }
  *bytes = value;
  return true;
}

}  // namespace ephost::cuda
