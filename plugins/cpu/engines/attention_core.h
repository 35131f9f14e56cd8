// Softmax(scale * Q K^T + mask) V in float32: what all operators of attention have in common.
#ifndef EPHOST_CPU_ENGINES_ATTENTION_CORE_H_
#define EPHOST_CPU_ENGINES_ATTENTION_CORE_H_

#include <functional>
#include <limits>

#include "cpu/operator.h"

namespace ephost::cpu {

// A tensor as [batch, heads, sequence, channels], with the distance of neighbours in its memory.
struct HeadsView {
  int64_t sizes[4] = {1, 1, 1, 1};
  int64_t strides[4] = {0, 0, 0, 0};

  int64_t head(int64_t b, int64_t h) const {  // One of several batches or heads may stand for all.
    return (sizes[0] == 1 ? 0 : b * strides[0]) + (sizes[1] == 1 ? 0 : h * strides[1]);
  }
};

// Of a tensor whose dimensions in the order `perm` are [batch.., sequence, channels]; with three of them
// those before the last two are heads.
HeadsView heads_view(const Dims& dims, const Ints& perm);
// Of [batch, heads, sequence, channels], or of [batch, sequence, heads * channels].
HeadsView heads_view(const Dims& dims, int64_t heads);

struct AttentionOperands {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  float* out = nullptr;
  const void* mask = nullptr;
  const int64_t* ends = nullptr;          // For each batch how many keys there are; null: all.
  const int64_t* offsets = nullptr;       // For each batch the place of the first query; null: `offset`.
  const int64_t* mask_offsets = nullptr;  // For each batch the mask's column of its first key; null: 0.
  const float* sinks = nullptr;           // For each head; null: 0.
  float* scores = nullptr;
  // Bring keys or values [from, to) of a head of theirs to memory, [to - from][channels], for a core that
  // `loads` them.
  using Load = std::function<void(int64_t b, int64_t head, int64_t from, int64_t to, float* memory)>;
  Load load_keys = nullptr, load_values = nullptr;
};

// Set what is above the line, call `plan`, then run it.
struct AttentionCore {
  HeadsView q, k, v, out;
  float scale = 1;
  float softcap = 0;  // Scores are at most so far from 0, by a tanh; 0: as they are.
  // Added to the scores; or true where a query looks at a key. Strides are 0 where it is broadcast; keys
  // behind its last column are looked at by none.
  enum Mask { kNoMask, kFloatMask, kBoolMask } mask = kNoMask;
  int64_t mask_strides[4] = {0, 0, 0, 0};
  int64_t mask_columns = 0;
  // Query i is at place i + offset, and looks at keys from `before` places before it to `after` behind it;
  // -1: at all.
  int64_t offset = 0, before = -1, after = -1;
  bool clear = false;        // Rows of the softmax that are not numbers count as zeros.
  bool clear_empty = false;  // So do those of queries that the mask lets look at no key.
  bool loads = false;        // Keys and values do not lie at k and v. See can_load.
  // Each query looks at one key more, which has no value: its score is that of the head's sink.
  bool sink = false;
  // What to write to `scores`, [batch, heads, queries, scores_columns].
  enum Scores { kNoScores, kProducts, kCapped, kMasked, kWeights } scores = kNoScores;
  int64_t scores_columns = -1;  // For the first so many keys; -1: for all.
  float unseen =
      -std::numeric_limits<float>::infinity();  // In kMasked, of keys that a query does not look at.

  // ----
  int64_t batch = 1, heads = 1, rows = 1, columns = 1, depth = 1, width = 1;
  int64_t group = 1;            // Heads of queries for one of keys.
  int64_t tile = 1, tiles = 1;  // Rows at a time.
  int64_t together = 1;         // Heads at a time: of one query each, and of one group.
  int64_t shares = 1;

  // Looks whether the operands fit each other; returns how many floats of scratch memory a run needs.
  int64_t plan(const Prepare& p);
  // Whether so many queries of so many channels each let operands bring keys and values.
  static bool can_load(int64_t queries, int64_t channels);
  void run(const AttentionOperands& operands, float* scratch) const;

 private:
  int64_t keys_size() const;
  int64_t values_size() const;
  int64_t scores_size() const;
  int64_t memory() const;
  int64_t items() const { return batch * heads / together * tiles; }
  int64_t step(const HeadsView& view) const;
  bool keys_as_they_are() const;
  bool values_as_they_are() const;
  void weigh(const AttentionOperands& operands, int64_t b, int64_t h, int64_t i, int64_t from, int64_t to,
             float* row, float* mask_row) const;
  void run_share(const AttentionOperands& operands, int64_t item, int64_t end, float* memory) const;
};

// Strides of a mask that is broadcast to these sizes; its last dimension may be shorter, also one of 1 if
// that is `short_of_one`.
void set_mask(const Prepare& p, int i, const int64_t (&sizes)[4], bool short_of_one, AttentionCore* core);

}  // namespace ephost::cpu

#endif
