// Keys or values of earlier runs that operators of attention do not read where they lie: in codes, or those
// of a window, from which the oldest go.
#ifndef EPHOST_CPU_ENGINES_STAGED_CACHE_H_
#define EPHOST_CPU_ENGINES_STAGED_CACHE_H_

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/engines/attention_core.h"
#include "cpu/engines/cache_codes.h"

namespace ephost::cpu {

// How many of `total` tokens a cache of a window of `window` tokens keeps, with room for `capacity`. Some go
// at once when it is full: what is left depends on the total alone, not on the runs that it came in.
inline int64_t kept_of_window(int64_t total, int64_t capacity, int64_t window) {
  if (total <= capacity) return total;
  const int64_t at_once = capacity - window + 1;
  return total - at_once * ((total - capacity + at_once - 1) / at_once);
}

struct StagedCache {
  HeadsView now;        // The new ones, whose channels lie side by side.
  CacheCodes codes;     // Of both caches.
  int64_t past = 0;     // Rows of each head in the cache that comes in,
  int64_t present = 0;  // and in the one that goes out.
  int64_t length = 0;   // Of what is made here: float32 [batch, heads, length, channels].

  // Of each batch.
  struct Rows {
    const int64_t* kept;   // How many there were, which lie first in the cache,
    const int64_t* fresh;  // how many of the new ones go into the cache that goes out,
    const int64_t* left;   // and how many of both are in it: the last ones.
  };

  int64_t count() const { return now.sizes[0] * now.sizes[1] * length * now.sizes[3]; }
  HeadsView view() const { return heads_view({now.sizes[0], now.sizes[1], length, now.sizes[3]}, 0); }
  // Of the cache that goes out.
  int64_t bytes(const CacheCodes& as) const {
    return now.sizes[0] * now.sizes[1] * present * as.bytes(now.sizes[3]);
  }

  // Old ones and, behind them, all new ones, each of which goes through `place(row, to, batch, i)`. `after`,
  // the cache that goes out, may be `before`, or null.
  template <typename Place>
  void fill(const uint8_t* before, const float* from, const float* scales, const Rows& rows, float* to,
            uint8_t* after, const Place& place) const {
    const int64_t heads = now.sizes[1], d = now.sizes[3], bytes = codes.bytes(d);
    parallel_for(now.sizes[0] * heads, std::max<int64_t>(1, kGrain / (length * d + 1)),
                 [&](int64_t i, int64_t end) {
                   std::vector<uint8_t> code(static_cast<size_t>(bytes));
                   for (; i < end; ++i) {
                     const int64_t b = i / heads, h = i % heads, kept = rows.kept[b], count = now.sizes[2];
                     const float* const scale = codes.of_head(scales, h, d);
                     float* const target = to + i * length * d;
                     codes.decode(before + i * past * bytes, scale, kept, d, target);
                     uint8_t* const out = move(before, after, i, rows);
                     for (int64_t r = 0; r < count; ++r) {
                       float* const row = target + (kept + r) * d;
                       place(from + now.head(b, h) + r * now.strides[2], row, b, r);
                       codes.encode(row, scale, d, code.data());
                       if (codes.bits != 32) codes.decode(code.data(), scale, 1, d, row);
                       if (out != nullptr && r < rows.fresh[b] && kept + r >= gone(rows, b)) {
                         std::memcpy(out + (kept + r - gone(rows, b)) * bytes, code.data(), code.size());
                       }
                     }
                     // What nobody wrote is not read, but should not be left over from something else.
                     std::fill(target + (kept + count) * d, target + length * d, 0.0f);
                   }
                 });
  }

  // The cache that goes out alone.
  template <typename Place>
  void keep(const uint8_t* before, const float* from, const float* scales, const Rows& rows, uint8_t* after,
            const Place& place) const {
    const int64_t heads = now.sizes[1], d = now.sizes[3], bytes = codes.bytes(d);
    parallel_for(now.sizes[0] * heads, std::max<int64_t>(1, kGrain / (present * d + 1)),
                 [&](int64_t i, int64_t end) {
                   std::vector<float> row(static_cast<size_t>(d));
                   for (; i < end; ++i) {
                     const int64_t b = i / heads, h = i % heads, kept = rows.kept[b];
                     uint8_t* const out = move(before, after, i, rows);
                     for (int64_t r = std::max<int64_t>(0, gone(rows, b) - kept); r < rows.fresh[b]; ++r) {
                       place(from + now.head(b, h) + r * now.strides[2], row.data(), b, r);
                       codes.encode(row.data(), codes.of_head(scales, h, d), d,
                                    out + (kept + r - gone(rows, b)) * bytes);
                     }
                   }
                 });
  }

 private:
  // How many of old and new ones do not stay.
  static int64_t gone(const Rows& rows, int64_t b) { return rows.kept[b] + rows.fresh[b] - rows.left[b]; }

  // Brings the old ones of head i that stay to where they belong, and clears what is behind all that stay.
  // Returns where the head begins in the cache that goes out.
  uint8_t* move(const uint8_t* before, uint8_t* after, int64_t i, const Rows& rows) const {
    if (after == nullptr) return nullptr;
    const int64_t b = i / now.sizes[1], bytes = codes.bytes(now.sizes[3]);
    const uint8_t* const old = before + (i * past + gone(rows, b)) * bytes;
    uint8_t* const out = after + i * present * bytes;
    const int64_t moved = rows.kept[b] - gone(rows, b);
    if (moved > 0 && out != old) std::memmove(out, old, static_cast<size_t>(moved * bytes));
    std::fill(out + rows.left[b] * bytes, out + present * bytes, uint8_t{0});
    return out;
  }
};

}  // namespace ephost::cpu

#endif
