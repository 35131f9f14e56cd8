// Keys and values of earlier runs beside the new ones, for the operators of attention that keep them.
#ifndef EPHOST_CPU_ENGINES_ATTENTION_CACHE_H_
#define EPHOST_CPU_ENGINES_ATTENTION_CACHE_H_

#include <algorithm>
#include <cstring>

#include "cpu/engines/attention_core.h"

namespace ephost::cpu {

// Keys or values with the ones of earlier runs in front of them, [batch, heads, sequence, channels].
struct Cache {
  HeadsView now;
  int64_t past = 0, length = 0;  // Of what was, and of the result.
  int64_t rows() const { return now.sizes[2]; }
  int64_t count() const { return now.sizes[0] * now.sizes[1] * length * now.sizes[3]; }
  HeadsView view() const { return heads_view({now.sizes[0], now.sizes[1], length, now.sizes[3]}, 0); }
  Dims dims() const { return {now.sizes[0], now.sizes[1], length, now.sizes[3]}; }

  // Each row of `from` goes through `place(row, to, batch, i)`, to where its batch's `starts` are, or behind
  // the past.
  template <typename Place>
  void fill(const float* before, const float* from, const int64_t* starts, float* to,
            const Place& place) const {
    const int64_t heads = now.sizes[1], d = now.sizes[3];
    parallel_for(
        now.sizes[0] * heads, std::max<int64_t>(1, kGrain / (length * d + 1)), [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            const int64_t b = i / heads, start = starts == nullptr ? past : starts[b];
            float* target = to + i * length * d;
            if (before != nullptr && past > 0) {
              std::memcpy(target, before + i * past * d, static_cast<size_t>(past * d) * sizeof(float));
            }
            for (int64_t r = 0; r < rows() && start + r < length; ++r) {
              place(from + now.head(b, i % heads) + r * now.strides[2], target + (start + r) * d, b, r);
            }
            // What nobody wrote is not read, but should not be left over from something else.
            const int64_t written = std::max(before != nullptr ? past : 0, start + rows());
            if (written < length) std::fill(target + written * d, target + length * d, 0.0f);
          }
        });
  }
  void fill(const float* before, const float* from, float* to) const {
    const int64_t d = now.sizes[3], step = now.strides[3];
    fill(before, from, nullptr, to, [=](const float* row, float* target, int64_t, int64_t) {
      for (int64_t c = 0; c < d; ++c) target[c] = row[c * step];
    });
  }
};

// Memory of one run, in floats, handed out piece by piece while a node is prepared.
struct Pieces {
  int64_t size = 0;
  int64_t take(int64_t n) {
    const int64_t at = size;
    size += (n + 15) / 16 * 16;
    return at;
  }
};

// Where keys and values come from: the input, or a cache that is an output or scratch memory.
struct Source {
  Cache cache;
  int input = 0, past = -1, output = -1;
  int64_t scratch = -1;

  static Source of(Prepare& p, int input, int past, int output, const HeadsView& now, Pieces* pieces) {
    Source source;
    source.input = input;
    source.cache.now = now;
    if (p.has(past)) {
      const Dims& dims = p.dims(past);
      p.expect(
          dims.size() == 4 && dims[0] == now.sizes[0] && dims[1] == now.sizes[1] && dims[3] == now.sizes[3],
          "past keys or values that do not fit the new ones");
      source.past = past;
      source.cache.past = dims[2];
    }
    source.cache.length = source.cache.past + now.sizes[2];
    if (p.wants(output)) {
      source.output = output;
      p.out(output, p.type(input), source.cache.dims());
    } else if (source.past >= 0) {
      source.scratch = pieces->take(source.cache.count());
    }
    return source;
  }
  HeadsView view() const { return past >= 0 ? cache.view() : cache.now; }
  const float* fill(const Args& args, float* memory) const {
    const float* from = args.in<float>(input);
    if (output < 0 && past < 0) return from;
    float* to = output >= 0 ? args.out<float>(output) : memory + scratch;
    cache.fill(past >= 0 ? args.in<float>(past) : nullptr, from, to);
    return past >= 0 ? to : from;
  }
};

}  // namespace ephost::cpu

#endif
