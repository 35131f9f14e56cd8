// A table from keys to their places in a list.
#ifndef EPHOST_CPU_ENGINES_PLACES_H_
#define EPHOST_CPU_ENGINES_PLACES_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ephost::cpu {

// A key as a number that is equal where keys are; strings are compared besides.
template <typename T>
inline uint64_t hash_of(const T& key) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return std::hash<std::string_view>()(key);
  } else {
    uint64_t bits = 0;
    const T plain = key == T{} ? T{} : key;  // -0 is 0.
    std::memcpy(&bits, &plain, sizeof plain);
    bits *= 0x9e3779b97f4a7c15;
    return bits ^ bits >> 32;
  }
}

// Places of keys in a list: of the first one of equal keys.
template <typename T>
class Places {
 public:
  explicit Places(const std::vector<T>& keys, bool nan_is_key) : keys_(keys) {
    size_t size = 4;
    while (size < 2 * keys.size()) size *= 2;
    slots_.assign(size, -1);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] != keys[i]) {
        nan_ = nan_is_key && nan_ < 0 ? static_cast<int64_t>(i) : nan_;
        continue;
      }
      size_t slot = hash_of(keys[i]) & (size - 1);
      while (slots_[slot] >= 0 && keys_[static_cast<size_t>(slots_[slot])] != keys[i]) {
        slot = (slot + 1) & (size - 1);
      }
      if (slots_[slot] < 0) slots_[slot] = static_cast<int64_t>(i);
    }
  }
  // -1 for a key that is not there.
  int64_t find(const T& key) const {
    if (key != key) {
      return nan_;
    }
    for (size_t slot = hash_of(key);; ++slot) {
      const int64_t at = slots_[slot & (slots_.size() - 1)];
      if (at < 0 || keys_[static_cast<size_t>(at)] == key) return at;
    }
  }

 private:
  std::vector<T> keys_;
  std::vector<int64_t> slots_;  // -1: free.
  int64_t nan_ = -1;
};

}  // namespace ephost::cpu

#endif
