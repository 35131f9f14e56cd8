// Trees of few leaves, searched without following their branches: simd/leaves.cc says how.
#ifndef EPHOST_CPU_SIMD_LEAVES_H_
#define EPHOST_CPU_SIMD_LEAVES_H_

#include <stdint.h>

namespace ephost::cpu {

// A bit for each leaf of a tree, the highest one for the first.
template <typename T>
struct LeafBits;
template <>
struct LeafBits<float> {
  using type = uint32_t;
};
template <>
struct LeafBits<double> {
  using type = uint64_t;
};

// All trees' nodes in one list, and all leaves in another, which has as many behind the last as a tree may
// have. Tree t has nodes [nodes[t], nodes[t + 1]), and leaves from firsts[t] on.
template <typename T>
struct BitTrees {
  const T* values;         // What a node compares with,
  const uint32_t* places;  // where in a tile what it compares lies,
  const typename LeafBits<T>::type*
      clears;  // and the leaves that are out where its comparison does not hold.
  const uint32_t* nodes;
  const T* leaves;
  const uint32_t* firsts;
};

// Elements of a tile's rows that lie side by side.
template <typename T>
inline constexpr int64_t kTreeRows = 64 / sizeof(T);

// What the first `rows` rows of a tile find in trees [first, last): to[tree - first][row]. Rows behind those
// are written, too.
template <typename T>
using FindLeaves = void (*)(const BitTrees<T>& trees, int64_t first, int64_t last, const T* tile,
                            int64_t rows, T* to);

// By the comparison: <=, <, >=, >. Null where walks are faster.
struct Treewise {
  FindLeaves<float> floats[4] = {};
  FindLeaves<double> doubles[4] = {};
};

}  // namespace ephost::cpu

#endif
