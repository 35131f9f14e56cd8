// One token of linear attention: a state, of as many rows as a key has elements and as many columns as a
// value, fades, is corrected towards the value, and is read by queries. Columns do not know of each other:
// some are taken at a time, which stay in the first cache from pass to pass.
#include "cpu/simd/recurrence.h"

#include "cpu/simd/simd.h"
#include "cpu/simd/vectors.h"

namespace ephost::cpu::EPHOST_ISA {
namespace {

inline void read(const float* from, Vector* to) { *to = load(from); }
inline void read(const float* from, float* to) { *to = *from; }
inline void write(float* to, const Vector& from) { store(to, from); }
inline void write(float* to, float from) { *to = from; }

// Of kMany vectors of columns, or of kMany single ones.
template <typename V, int kMany>
inline void columns(const RecurrentStep& s, int64_t first) {
  constexpr int64_t kStep = sizeof(V) / sizeof(float);
  float* const state = s.state + first;
  V change[kMany], row[kMany];
  for (int c = 0; c < kMany; ++c) read(s.value + first + c * kStep, &change[c]);
  if (s.fade != nullptr || s.corrects) {
    V known[kMany] = {};
    for (int64_t i = 0; i < s.keys; ++i) {
      const float fade = s.fade == nullptr ? 1 : s.fade[i * s.fade_step], key = s.key[i];
      for (int c = 0; c < kMany; ++c) {
        read(state + i * s.values + c * kStep, &row[c]);
        row[c] *= fade;
        known[c] += row[c] * key;
        write(state + i * s.values + c * kStep, row[c]);
      }
    }
    for (int c = 0; c < kMany && s.corrects; ++c) change[c] = (change[c] - known[c]) * s.rate;
  }
  for (int64_t q = 0; q < s.queries; ++q) {
    const float* const query = s.query + q * s.keys;
    V sum[kMany] = {};
    for (int64_t i = 0; i < s.keys; ++i) {
      for (int c = 0; c < kMany; ++c) {
        read(state + i * s.values + c * kStep, &row[c]);
        if (q == 0) {
          row[c] += change[c] * s.key[i];
          write(state + i * s.values + c * kStep, row[c]);
        }
        sum[c] += row[c] * query[i];
      }
    }
    for (int c = 0; c < kMany; ++c) write(s.out + q * s.values + first + c * kStep, sum[c] * s.scale);
  }
}

void recurrent_step(const RecurrentStep& s) {
  constexpr int kMany = 4;
  int64_t at = 0;
  for (; at + kMany * kLanes <= s.values; at += kMany * kLanes) columns<Vector, kMany>(s, at);
  for (; at + kLanes <= s.values; at += kLanes) columns<Vector, 1>(s, at);
  for (; at < s.values; ++at) columns<float, 1>(s, at);
}

}  // namespace

void fill_recurrence(Simd* table) { table->recurrent_step = recurrent_step; }

}  // namespace ephost::cpu::EPHOST_ISA
