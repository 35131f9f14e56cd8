// Linear attention, token by token: simd/recurrence.cc says how.
#ifndef EPHOST_CPU_SIMD_RECURRENCE_H_
#define EPHOST_CPU_SIMD_RECURRENCE_H_

#include <stdint.h>

namespace ephost::cpu {

// What a token does to the state of one head, and what its queries, one at least, read there.
struct RecurrentStep {
  float* state;  // keys x values.
  int64_t keys, values, queries;
  const float *key, *value;
  const float* fade;  // Factors of rows, fade_step apart, or null.
  int64_t fade_step;
  bool corrects;  // Adds `rate` times what the state lacks of the value, in place of the value.
  float rate;
  const float* query;  // queries x keys.
  float scale;         // Of what is read,
  float* out;          // queries x values.
};

}  // namespace ephost::cpu

#endif
