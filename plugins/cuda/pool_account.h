/* The books of a pool of memory: plain arithmetic, without a device. */
#ifndef EPHOST_CUDA_POOL_ACCOUNT_H_
#define EPHOST_CUDA_POOL_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace ephost::cuda {

struct PoolAccount {
  size_t limit = 0; /* 0: none */
  size_t in_use = 0, most_in_use = 0, largest = 0;
  uint64_t allocations = 0, refused = 0;

  /* What a request takes: whole units of 512 bytes, which is how the driver hands memory out. 0 if that
   * cannot be counted. */
  static size_t rounded(size_t bytes) {
    constexpr size_t kUnit = 512;
    const size_t wanted = bytes == 0 ? 1 : bytes;
    return wanted > SIZE_MAX - (kUnit - 1) ? 0 : (wanted + kUnit - 1) / kUnit * kUnit;
  }

  bool fits(size_t bytes) const { return limit == 0 || (bytes <= limit && in_use <= limit - bytes); }

  /* Of a request that the driver is yet to answer: it may be given back, and was never there then. */
  void reserve(size_t bytes) { in_use += bytes; }

  /* What was reserved is there. */
  void take(size_t bytes) {
    most_in_use = in_use > most_in_use ? in_use : most_in_use;
    largest = bytes > largest ? bytes : largest;
    ++allocations;
  }

  void give_back(size_t bytes) { in_use -= bytes; }
};

/* "1.5 MiB". */
std::string size_text(size_t bytes);

/* Reads "1073741824", "512M", "8G" (units of 1024, K to T). False when the text is none of these. */
bool parse_size(const std::string& text, size_t* bytes);

}  // namespace ephost::cuda

#endif
