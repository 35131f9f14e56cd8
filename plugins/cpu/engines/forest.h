// Trees of decisions, laid out for the cache: which leaves rows of features reach.
//
// A forest is made of Trees, which are as a model has them. Where all comparisons are of one kind and no node
// is shared, a node is small and its children lie side by side; a step is then an addition without a branch.
// Anything else is a general forest: any comparison, sets of members, nodes that several share.
//
// Rows are walked in tiles: kTile of them, with the elements of one feature side by side. Several walks are
// under way at a time, as each is a chain of loads that depend on each other. Where no tree has more leaves
// than an element has bits, a tile's leaves are found without a walk (simd/leaves.cc).
#ifndef EPHOST_CPU_ENGINES_FOREST_H_
#define EPHOST_CPU_ENGINES_FOREST_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/simd/leaves.h"

namespace ephost::cpu {

enum class Branch : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kLeaf };

template <typename T>
struct Trees {
  struct Node {
    Branch branch = Branch::kLeaf;
    bool missing = false;  // Whether NaN goes to `yes`, whatever the comparison says.
    uint32_t feature = 0;
    T value = 0;
    uint32_t yes = 0, no = 0;  // In `nodes`; of a leaf the first of its weights, and how many there are.
    uint32_t members = 0;      // In `sets`, of kMember.
  };
  struct Weight {
    uint32_t target;
    T value;
  };
  struct Set {
    std::vector<T> members;
    bool truncates = false;  // Whether what is looked for is first rounded towards 0.
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> roots;
  std::vector<Weight> weights;
  std::vector<Set> sets;
};

template <typename T>
class Forest {
 public:
  static constexpr int64_t kTile = kTreeRows<T>;

  // Throws Error where a path never ends; `label` says whose trees they are. `targets` is how many there are.
  Forest(Trees<T> trees, int64_t targets, const std::string& label);

  size_t trees() const { return starts_.size(); }
  // Columns that rows must have.
  int64_t columns() const { return used_.empty() ? 0 : static_cast<int64_t>(used_.back()) + 1; }
  // Elements of a tile.
  int64_t tile() const { return static_cast<int64_t>(slots_) * kTile; }
  // Steps that a row takes, about; and that a tile takes.
  int64_t work() const { return work_; }
  int64_t tile_work() const { return find_ == nullptr ? work_ * kTile : search_work(); }

  // What leaves hold: one weight, all of a tree for the same target (`target_of`); or one for each target; or
  // any number of them.
  enum class Leaves : uint8_t { kOne, kDense, kSparse };
  Leaves leaves() const { return leaves_; }
  uint32_t target_of(size_t tree) const { return targets_[tree]; }
  // Of a leaf that a walk found, unless it is the weight itself (kOne).
  const T* dense(T leaf) const { return dense_.data() + index(leaf) * static_cast<size_t>(count_); }
  struct Range {
    const typename Trees<T>::Weight *begin, *end;
  };
  Range sparse(T leaf) const {
    const size_t i = index(leaf);
    return {sparse_.data() + first_[i], sparse_.data() + first_[i + 1]};
  }

  // Brings `rows` rows, `stride` elements apart, into a tile; what it has more of stays as it is.
  template <typename X>
  void fill(const X* x, int64_t rows, int64_t stride, T* tile) const;
  // How many rows are best walked one by one, in several trees at a time.
  int64_t few_rows() const { return find_ == nullptr ? 6 : std::max<int64_t>(1, search_work() / work_); }
  // Whether leaves are searched for by bits.
  bool searches() const { return find_ != nullptr; }
  // The leaves that the first `rows` rows of a tile, or more, reach in trees [first, last).
  void find(size_t first, size_t last, const T* tile, int64_t rows, T* leaves) const;
  // The leaves that the first row of a tile reaches in trees [first, last).
  void walk_first(size_t first, size_t last, const T* tile, T* leaves) const;

 private:
  // Of two children side by side the first is where the comparison holds. A leaf compares with a slot that is
  // NaN, and its children begin one before itself: so a step from it goes nowhere.
  struct Narrow {
    T value;
    uint16_t feature;  // The place in a tile.
    int16_t child;     // From this node on.
  };
  struct Wide {
    T value;
    uint32_t feature;
    int32_t child;
  };
  // Whether it goes to `yes`: a bit for less, equal, greater, and not a number.
  struct General {
    T value;
    uint32_t feature;
    int32_t yes, no;  // From this node on; 0 for a leaf.
    uint32_t accepts;
    uint32_t members;
  };
  // Integers in a range, a bit for each; or sorted.
  struct Set {
    T low, high;
    bool truncates;
    std::vector<uint64_t> bits;
    std::vector<T> sorted;
    bool has(T x) const;
  };
  struct Start {
    uint32_t root;
    uint32_t depth;
  };

  template <typename>
  friend class Planting;  // What makes one.

  int64_t search_work() const;

  static size_t index(T leaf);

  template <int kWalks, bool kRows>
  void walks(const Start* starts, const T* tile, T* leaves) const;
  template <int kWalks, bool kRows, typename Node>
  void walks_of(const std::vector<Node>& nodes, const Start* starts, const T* tile, T* leaves) const;
  template <int kWalks, bool kRows>
  void general_walks(const Start* starts, const T* tile, T* leaves) const;

  int64_t count_;
  Branch branch_ = Branch::kLeaf;  // Of all nodes; kLeaf in a general forest.
  std::vector<Narrow> narrow_;
  std::vector<Wide> wide_;
  std::vector<General> general_;
  std::vector<Set> sets_;
  std::vector<Start> starts_;
  // What BitTrees has.
  struct Bits {
    std::vector<T> values, leaves;
    std::vector<uint32_t> places, nodes, firsts;
    std::vector<typename LeafBits<T>::type> clears;
  } bits_;
  FindLeaves<T> find_ = nullptr;
  int64_t work_ = 0;

  // The columns that are read, in order: each has a slot in a tile. Some have a second one, in which NaN is
  // what goes to `yes`. The last slot is NaN.
  std::vector<uint32_t> used_;
  std::vector<uint32_t> second_;  // In used_.
  uint32_t slots_ = 1;
  T missing_ = 0;

  Leaves leaves_ = Leaves::kOne;
  std::vector<uint32_t> targets_;
  std::vector<T> dense_;
  std::vector<uint32_t> first_;
  std::vector<typename Trees<T>::Weight> sparse_;
};

extern template class Forest<float>;
extern template class Forest<double>;

}  // namespace ephost::cpu

#endif
