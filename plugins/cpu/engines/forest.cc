#include "cpu/engines/forest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/simd/simd.h"
#include "toolkit/half.h"
#include "toolkit/types.h"

namespace ephost::cpu {
namespace {

template <typename T>
using bits_t = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

enum Accepts : uint32_t { kLess = 1, kEqual = 2, kGreater = 4, kNotANumber = 8, kOfMembers = 16 };

uint32_t accepts_of(Branch branch) {
  switch (branch) {
    case Branch::kLeq:
      return kLess | kEqual;
    case Branch::kLt:
      return kLess;
    case Branch::kGte:
      return kGreater | kEqual;
    case Branch::kGt:
      return kGreater;
    case Branch::kEq:
      return kEqual;
    case Branch::kNeq:
      return kLess | kGreater | kNotANumber;
    default:
      return kOfMembers;
  }
}

template <Branch kBranch, typename T>
bool goes(T x, T value) {
  if constexpr (kBranch == Branch::kLeq) return x <= value;
  if constexpr (kBranch == Branch::kLt) return x < value;
  if constexpr (kBranch == Branch::kGte) return x >= value;
  return x > value;
}

constexpr size_t kMostCompared = 64;     // Nodes of two subtrees, when they are looked at for being equal.
constexpr int64_t kMostBits = 1 << 20;   // Of a set.
constexpr uint32_t kUncheckedSteps = 6;  // Trees as deep as that are walked without looking for leaves.

}  // namespace

// Makes a forest of trees.
template <typename T>
class Planting {
 public:
  using Node = typename Trees<T>::Node;

  Planting(Trees<T> trees, const std::string& label, Forest<T>* forest)
      : trees_(std::move(trees)), label_(label), out_(*forest) {
    merge_equals();
    measure();
    number_leaves();
    Branch branch = Branch::kLeaf;
    const bool plain = is_plain(&branch);
    number_features(plain);
    for (uint32_t root : trees_.roots) out_.starts_.push_back({0, heights_[root]});
    if (plain) {
      out_.branch_ = branch;
      out_.missing_ =
          (branch == Branch::kLeq || branch == Branch::kLt ? -1 : 1) * std::numeric_limits<T>::infinity();
      if (sizeof(T) != 4 || !lay_out(&out_.narrow_)) {
        out_.narrow_ = {};
        lay_out(&out_.wide_);
      }
    } else {
      lay_out_general();
    }
    for (uint32_t root : trees_.roots) out_.work_ += heights_[root] + 1;
    if (plain) lay_out_bits(branch);
  }

 private:
  // Whether two subtrees give the same, as far as a look at some nodes shows.
  bool equal(uint32_t a, uint32_t b) const {
    std::vector<std::pair<uint32_t, uint32_t>> todo = {{a, b}};
    for (size_t seen = 0; !todo.empty(); ++seen) {
      const auto [one, other] = todo.back();
      todo.pop_back();
      if (one == other) continue;
      const Node &x = trees_.nodes[one], &y = trees_.nodes[other];
      if (seen == kMostCompared || x.branch != y.branch) return false;
      if (x.branch == Branch::kLeaf) {
        const auto same = [](const auto& v, const auto& w) {
          return v.target == w.target && v.value == w.value;
        };
        const auto *v = trees_.weights.data() + x.yes, *w = trees_.weights.data() + y.yes;
        if (!std::equal(v, v + x.no, w, w + y.no, same)) return false;
        continue;
      }
      if (x.feature != y.feature || x.value != y.value || x.missing != y.missing || x.members != y.members) {
        return false;
      }
      todo.emplace_back(x.yes, y.yes);
      todo.emplace_back(x.no, y.no);
    }
    return true;
  }

  // How often each node is a root or a child.
  std::vector<uint32_t> uses(bool reached_only) const {
    std::vector<uint32_t> found(trees_.nodes.size(), 0);
    for (uint32_t root : trees_.roots) ++found[root];
    for (size_t i = 0; i < trees_.nodes.size(); ++i) {
      const Node& node = trees_.nodes[i];
      if (node.branch == Branch::kLeaf || (reached_only && !reached_[i])) continue;
      ++found[node.yes];
      ++found[node.no];
    }
    return found;
  }

  // Exporters write membership of a set as a chain of comparisons for equality: each such chain becomes one
  // node.
  void merge_equals() {
    std::vector<Node>& nodes = trees_.nodes;
    const std::vector<uint32_t> used = uses(false);
    std::vector<bool> continues(nodes.size()), is_continued(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = nodes[i];
      if (node.branch != Branch::kEq) continue;
      const Node& next = nodes[node.no];
      continues[i] = node.no != i && next.branch == Branch::kEq && next.feature == node.feature &&
                     next.missing == node.missing && used[node.no] == 1 && equal(next.yes, node.yes);
      if (continues[i]) is_continued[node.no] = true;
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!continues[i] || is_continued[i]) continue;
      std::vector<T> members = {nodes[i].value};
      uint32_t last = static_cast<uint32_t>(i);
      while (continues[last]) {
        last = nodes[last].no;
        members.push_back(nodes[last].value);
      }
      nodes[i].branch = Branch::kMember;
      nodes[i].no = nodes[last].no;
      nodes[i].members = static_cast<uint32_t>(trees_.sets.size());
      trees_.sets.push_back({std::move(members), false});
    }
  }

  // The heights of all nodes that roots lead to, and whether some is led to in two ways.
  void measure() {
    constexpr uint32_t kUnknown = UINT32_MAX, kOpen = UINT32_MAX - 1;
    const std::vector<Node>& nodes = trees_.nodes;
    heights_.assign(nodes.size(), kUnknown);
    std::vector<uint32_t> path;
    for (uint32_t root : trees_.roots) {
      path.assign(1, root);
      while (!path.empty()) {
        const uint32_t at = path.back();
        const Node& node = nodes[at];
        if (node.branch == Branch::kLeaf) {
          heights_[at] = 0;
          path.pop_back();
          continue;
        }
        if (heights_[at] == kUnknown) {
          heights_[at] = kOpen;
          for (uint32_t child : {node.yes, node.no}) {
            if (heights_[child] == kOpen) {
              invalid(label_ + ": a path from the root of a tree comes back to a node that it has passed");
            }
            if (heights_[child] == kUnknown) path.push_back(child);
          }
        } else {
          if (heights_[at] == kOpen) {
            heights_[at] = 1 + std::max(heights_[node.yes], heights_[node.no]);
          }
          path.pop_back();
        }
      }
    }
    for (uint32_t& height : heights_) {
      reached_.push_back(height != kUnknown);
      if (height == kUnknown) height = 0;
    }
    const std::vector<uint32_t> used = uses(true);
    for (size_t i = 0; i < nodes.size(); ++i) {
      shared_ = shared_ || (used[i] > 1 && nodes[i].branch != Branch::kLeaf);
    }
  }

  // Whether one comparison does for all nodes, and each has a place of its own.
  bool is_plain(Branch* branch) const {
    *branch = Branch::kLeq;
    bool first = true;
    for (size_t i = 0; i < trees_.nodes.size(); ++i) {
      const Node& node = trees_.nodes[i];
      if (!reached_[i] || node.branch == Branch::kLeaf) continue;
      if (first) *branch = node.branch;
      first = false;
      // What stands for NaN has to go to `yes`.
      const T strange = *branch == Branch::kLt   ? -std::numeric_limits<T>::infinity()
                        : *branch == Branch::kGt ? std::numeric_limits<T>::infinity()
                                                 : std::numeric_limits<T>::quiet_NaN();
      if (node.branch != *branch || (node.missing && (std::isnan(node.value) || node.value == strange))) {
        return false;
      }
    }
    return !shared_ && *branch <= Branch::kGt;
  }

  void number_features(bool plain) {
    std::vector<uint32_t> doubled;
    for (size_t i = 0; i < trees_.nodes.size(); ++i) {
      const Node& node = trees_.nodes[i];
      if (!reached_[i] || node.branch == Branch::kLeaf) continue;
      out_.used_.push_back(node.feature);
      if (plain && node.missing) doubled.push_back(node.feature);
    }
    const auto make_unique = [](std::vector<uint32_t>* list) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    };
    make_unique(&out_.used_);
    make_unique(&doubled);
    for (uint32_t feature : doubled) out_.second_.push_back(place_in(out_.used_, feature));
    out_.slots_ = static_cast<uint32_t>(out_.used_.size() + out_.second_.size()) + 1;
  }

  static uint32_t place_in(const std::vector<uint32_t>& list, uint32_t value) {
    return static_cast<uint32_t>(std::lower_bound(list.begin(), list.end(), value) - list.begin());
  }

  // Where a node's feature begins in a tile.
  uint32_t place_of(const Node& node, bool plain) const {
    uint32_t slot = place_in(out_.used_, node.feature);
    if (plain && node.missing) {
      slot = static_cast<uint32_t>(out_.used_.size()) + place_in(out_.second_, slot);
    }
    return slot * static_cast<uint32_t>(Forest<T>::kTile);
  }

  // What leaves hold is one of three things, and each gets a number to be found by, or its only weight.
  void number_leaves() {
    using Leaves = typename Forest<T>::Leaves;
    const std::vector<Node>& nodes = trees_.nodes;
    const int64_t targets = out_.count_;
    const auto weights = [&](const Node& node) { return trees_.weights.data() + node.yes; };
    bool dense = true;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!reached_[i] || nodes[i].branch != Branch::kLeaf) continue;
      dense = dense && nodes[i].no == static_cast<size_t>(targets);
      for (uint32_t w = 0; dense && w < nodes[i].no; ++w) dense = weights(nodes[i])[w].target == w;
    }
    if (targets == 1 || one_target_each()) {
      out_.leaves_ = Leaves::kOne;
      out_.targets_.resize(trees_.roots.size(), 0);
    } else {
      out_.leaves_ = dense ? Leaves::kDense : Leaves::kSparse;
    }
    leaves_.resize(nodes.size(), 0);
    uint32_t number = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!reached_[i] || nodes[i].branch != Branch::kLeaf) continue;
      if (out_.leaves_ == Leaves::kOne) {
        leaves_[i] = nodes[i].no == 0 ? nodes[i].value : weights(nodes[i])->value;
        continue;
      }
      leaves_[i] = std::bit_cast<T>(static_cast<bits_t<T>>(number++));
      for (uint32_t w = 0; w < nodes[i].no; ++w) {
        if (dense) {
          out_.dense_.push_back(weights(nodes[i])[w].value);
        } else {
          out_.sparse_.push_back(weights(nodes[i])[w]);
        }
      }
      if (!dense) {
        if (out_.first_.empty()) out_.first_.push_back(0);
        out_.first_.push_back(static_cast<uint32_t>(out_.sparse_.size()));
      }
    }
  }

  // Whether each leaf has one weight, and all leaves of a tree have it for the same target.
  bool one_target_each() {
    if (shared_) return false;
    std::vector<uint32_t> found;
    std::vector<uint32_t> todo;
    for (uint32_t root : trees_.roots) {
      int64_t target = -1;
      todo.assign(1, root);
      while (!todo.empty()) {
        const Node& node = trees_.nodes[todo.back()];
        todo.pop_back();
        if (node.branch != Branch::kLeaf) {
          todo.push_back(node.yes);
          todo.push_back(node.no);
          continue;
        }
        const int64_t own = node.no == 1 ? int64_t{trees_.weights[node.yes].target} : -1;
        if (own < 0 || (target >= 0 && own != target)) return false;
        target = own;
      }
      found.push_back(static_cast<uint32_t>(target));
    }
    out_.targets_ = std::move(found);
    return true;
  }

  // False where a number does not fit into the node.
  template <typename Out>
  bool lay_out(std::vector<Out>* out) {
    using Place = decltype(Out::feature);
    using Step = decltype(Out::child);
    const uint32_t nan = (out_.slots_ - 1) * static_cast<uint32_t>(Forest<T>::kTile);
    if (nan > std::numeric_limits<Place>::max()) return false;
    std::vector<std::pair<uint32_t, size_t>> todo;  // Nodes, and where they come to lie.
    for (size_t tree = 0; tree < trees_.roots.size(); ++tree) {
      out_.starts_[tree].root = static_cast<uint32_t>(out->size());
      todo.emplace_back(trees_.roots[tree], out->size());
      out->emplace_back();
      while (!todo.empty()) {
        const auto [at, place] = todo.back();
        todo.pop_back();
        const Node& node = trees_.nodes[at];
        if (node.branch == Branch::kLeaf) {
          (*out)[place] = {leaves_[at], static_cast<Place>(nan), -1};
          continue;
        }
        const size_t child = out->size() - place;
        if (child > static_cast<size_t>(std::numeric_limits<Step>::max())) return false;
        (*out)[place] = {node.value, static_cast<Place>(place_of(node, true)), static_cast<Step>(child)};
        todo.emplace_back(node.no, out->size() + 1);
        todo.emplace_back(node.yes, out->size());
        out->resize(out->size() + 2);
      }
    }
    return true;
  }

  // Where trees are small enough, and it is faster.
  void lay_out_bits(Branch branch) {
    const Treewise& simd = ephost::cpu::simd().trees;
    FindLeaves<T> find = nullptr;
    if constexpr (sizeof(T) == 4) {
      find = simd.floats[static_cast<size_t>(branch)];
    } else {
      find = simd.doubles[static_cast<size_t>(branch)];
    }
    if (find == nullptr) return;
    std::vector<uint32_t> todo;
    for (uint32_t root : trees_.roots) {
      size_t leaves = 0;
      todo.assign(1, root);
      while (!todo.empty()) {
        const Node& node = trees_.nodes[todo.back()];
        todo.pop_back();
        if (node.branch == Branch::kLeaf) {
          if (++leaves > kMostLeaves) return;
          continue;
        }
        todo.push_back(node.yes);
        todo.push_back(node.no);
      }
    }
    auto& bits = out_.bits_;
    for (uint32_t root : trees_.roots) {
      bits.nodes.push_back(static_cast<uint32_t>(bits.values.size()));
      bits.firsts.push_back(static_cast<uint32_t>(bits.leaves.size()));
      bits_under(root);
    }
    bits.nodes.push_back(static_cast<uint32_t>(bits.values.size()));
    bits.firsts.push_back(static_cast<uint32_t>(bits.leaves.size()));
    bits.leaves.resize(bits.leaves.size() + kMostLeaves);
    if (out_.search_work() < out_.work_ * Forest<T>::kTile) {
      out_.find_ = find;
    } else {
      bits = {};
    }
  }

  // Lays out what is under a node; the bits of its leaves.
  bits_t<T> bits_under(uint32_t at) {
    auto& bits = out_.bits_;
    const Node& node = trees_.nodes[at];
    if (node.branch == Branch::kLeaf) {
      const size_t number = bits.leaves.size() - bits.firsts.back();
      bits.leaves.push_back(leaves_[at]);
      return static_cast<bits_t<T>>(bits_t<T>{1} << (kMostLeaves - 1 - number));
    }
    const size_t place = bits.values.size();
    bits.values.push_back(node.value);
    bits.places.push_back(place_of(node, true));
    bits.clears.push_back(0);
    const bits_t<T> yes = bits_under(node.yes);
    bits.clears[place] = yes;
    return yes | bits_under(node.no);
  }

  void lay_out_general() {
    constexpr uint32_t kNowhere = UINT32_MAX;
    std::vector<uint32_t> places(trees_.nodes.size(), kNowhere), todo, order;
    for (size_t tree = 0; tree < trees_.roots.size(); ++tree) {
      todo.assign(1, trees_.roots[tree]);
      while (!todo.empty()) {
        const uint32_t at = todo.back();
        todo.pop_back();
        if (places[at] != kNowhere) continue;
        places[at] = static_cast<uint32_t>(order.size());
        order.push_back(at);
        if (trees_.nodes[at].branch == Branch::kLeaf) continue;
        todo.push_back(trees_.nodes[at].no);
        todo.push_back(trees_.nodes[at].yes);
      }
      out_.starts_[tree].root = places[trees_.roots[tree]];
    }
    for (const auto& set : trees_.sets) out_.sets_.push_back(set_of(set));
    for (uint32_t at : order) {
      const Node& node = trees_.nodes[at];
      if (node.branch == Branch::kLeaf) {
        out_.general_.push_back({leaves_[at], 0, 0, 0, 0, 0});
        continue;
      }
      const int32_t here = static_cast<int32_t>(places[at]);
      uint32_t accepts = accepts_of(node.branch);
      T value = node.value;
      if (std::isnan(value) && accepts != kOfMembers) {  // Only "not equal" holds of any x then.
        value = 0;
        accepts = node.branch == Branch::kNeq ? kLess | kEqual | kGreater | kNotANumber : 0;
      }
      out_.general_.push_back({value, place_of(node, false), static_cast<int32_t>(places[node.yes]) - here,
                               static_cast<int32_t>(places[node.no]) - here,
                               accepts | (node.missing ? kNotANumber : 0u), node.members});
    }
  }

  static typename Forest<T>::Set set_of(const typename Trees<T>::Set& source) {
    std::vector<T> members = source.members;
    std::erase_if(members, [](T x) { return std::isnan(x); });
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    typename Forest<T>::Set set;
    set.truncates = source.truncates;
    set.low = members.empty() ? 1 : members.front();
    set.high = members.empty() ? 0 : members.back();
    const auto is_integer = [](T x) { return std::abs(x) < T{1 << 24} && x == std::floor(x); };
    if (!members.empty() && std::all_of(members.begin(), members.end(), is_integer) &&
        set.high - set.low < kMostBits) {
      const int64_t low = static_cast<int64_t>(set.low);
      set.bits.resize(static_cast<size_t>(static_cast<int64_t>(set.high) - low) / 64 + 1);
      for (T x : members) {
        const uint64_t bit = static_cast<uint64_t>(static_cast<int64_t>(x) - low);
        set.bits[bit / 64] |= uint64_t{1} << bit % 64;
      }
    } else {
      set.sorted = std::move(members);
    }
    return set;
  }

  static constexpr size_t kMostLeaves = 8 * sizeof(T);

  Trees<T> trees_;
  const std::string& label_;
  Forest<T>& out_;
  std::vector<uint32_t> heights_;
  std::vector<bool> reached_;
  std::vector<T> leaves_;  // Of the source's leaves.
  bool shared_ = false;
};

template <typename T>
Forest<T>::Forest(Trees<T> trees, int64_t targets, const std::string& label) : count_(targets) {
  Planting<T>(std::move(trees), label, this);
}

template <typename T>
bool Forest<T>::Set::has(T x) const {
  if (truncates) x = std::trunc(x);
  if (!(x >= low && x <= high)) return false;
  if (bits.empty()) return std::binary_search(sorted.begin(), sorted.end(), x);
  const int64_t whole = static_cast<int64_t>(x);
  if (static_cast<T>(whole) != x) return false;
  const uint64_t bit = static_cast<uint64_t>(whole - static_cast<int64_t>(low));
  return (bits[bit / 64] >> bit % 64 & 1) != 0;
}

template <typename T>
size_t Forest<T>::index(T leaf) {
  return std::bit_cast<bits_t<T>>(leaf);
}

template <typename T>
template <typename X>
void Forest<T>::fill(const X* x, int64_t rows, int64_t stride, T* tile) const {
  const size_t used = used_.size(), second = second_.size();
  const auto copy = [&](auto n) {
    for (size_t i = 0; i < used; ++i) {
      const X* const column = x + used_[i];
      for (int64_t r = 0; r < n; ++r) tile[i * kTile + r] = static_cast<T>(column[r * stride]);
    }
  };
  if (rows == kTile) {
    copy(std::integral_constant<int64_t, kTile>{});
  } else if (rows == 1) {
    copy(std::integral_constant<int64_t, 1>{});
  } else {
    copy(rows);
  }
  for (size_t i = 0; i < second; ++i) {
    const T* const from = tile + second_[i] * kTile;
    T* const to = tile + (used + i) * kTile;
    for (int64_t r = 0; r < kTile; ++r) to[r] = std::isnan(from[r]) ? missing_ : from[r];
  }
  std::fill_n(tile + (used + second) * kTile, kTile, std::numeric_limits<T>::quiet_NaN());
}

// `kRows`: the walks are of the rows of a tile in the first tree; else of its first row in several trees.
template <typename T>
template <int kWalks, bool kRows, typename Node>
void Forest<T>::walks_of(const std::vector<Node>& nodes, const Start* starts, const T* tile,
                         T* leaves) const {
  const auto with = [&](auto branch) {
    const Node* at[kWalks];
    uint32_t depth = 0;
#pragma GCC unroll 16
    for (int i = 0; i < kWalks; ++i) {
      at[i] = nodes.data() + starts[kRows ? 0 : i].root;
      depth = std::max(depth, starts[kRows ? 0 : i].depth);
    }
    const auto step = [&] {
      int moved = 0;
#pragma GCC unroll 16
      for (int i = 0; i < kWalks; ++i) {
        const int by = at[i]->child +
                       !goes<decltype(branch)::value>(tile[at[i]->feature + (kRows ? i : 0)], at[i]->value);
        at[i] += by;
        moved |= by;
      }
      return moved;
    };
    if (depth <= kUncheckedSteps) {
      for (; depth > 0; --depth) step();
    } else {
      do {
        step();
      } while (step() != 0);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWalks; ++i) leaves[i] = at[i]->value;
  };
  switch (branch_) {
    case Branch::kLeq:
      return with(std::integral_constant<Branch, Branch::kLeq>{});
    case Branch::kLt:
      return with(std::integral_constant<Branch, Branch::kLt>{});
    case Branch::kGte:
      return with(std::integral_constant<Branch, Branch::kGte>{});
    default:
      return with(std::integral_constant<Branch, Branch::kGt>{});
  }
}

template <typename T>
template <int kWalks, bool kRows>
void Forest<T>::general_walks(const Start* starts, const T* tile, T* leaves) const {
  const General* at[kWalks];
  for (int i = 0; i < kWalks; ++i) at[i] = general_.data() + starts[kRows ? 0 : i].root;
  int moved = 1;
  while (moved != 0) {
    moved = 0;
    for (int i = 0; i < kWalks; ++i) {
      const General& node = *at[i];
      const T x = tile[node.feature + (kRows ? i : 0)];
      uint32_t found = (x < node.value ? kLess : 0u) | (x == node.value ? kEqual : 0u) |
                       (x > node.value ? kGreater : 0u) | (std::isnan(x) ? kNotANumber : 0u);
      if ((node.accepts & kOfMembers) != 0 && sets_[node.members].has(x)) found = kOfMembers;
      const int by = (node.accepts & found) != 0 ? node.yes : node.no;
      at[i] += by;
      moved |= by;
    }
  }
  for (int i = 0; i < kWalks; ++i) leaves[i] = at[i]->value;
}

template <typename T>
template <int kWalks, bool kRows>
void Forest<T>::walks(const Start* starts, const T* tile, T* leaves) const {
  if (!narrow_.empty()) return walks_of<kWalks, kRows>(narrow_, starts, tile, leaves);
  if (!wide_.empty()) return walks_of<kWalks, kRows>(wide_, starts, tile, leaves);
  general_walks<kWalks, kRows>(starts, tile, leaves);
}

template <typename T>
int64_t Forest<T>::search_work() const {
  // For all rows of a tile a node takes three quarters of a step of a walk; the leaf is then found in the
  // time of some nodes.
  constexpr int64_t kOfLeaf = 4;
  return (static_cast<int64_t>(bits_.values.size()) + kOfLeaf * static_cast<int64_t>(trees())) * 3 / 4;
}

template <typename T>
void Forest<T>::find(size_t first, size_t last, const T* tile, int64_t rows, T* leaves) const {
  if (find_ != nullptr) {
    const BitTrees<T> trees = {bits_.values.data(), bits_.places.data(), bits_.clears.data(),
                               bits_.nodes.data(),  bits_.leaves.data(), bits_.firsts.data()};
    return find_(trees, static_cast<int64_t>(first), static_cast<int64_t>(last), tile, rows, leaves);
  }
  constexpr int kTogether = 8;
  for (; first < last; ++first, leaves += kTile) {
    for (int64_t r = 0; r < rows; r += kTogether) {
      walks<kTogether, true>(&starts_[first], tile + r, leaves + r);
    }
  }
}

template <typename T>
void Forest<T>::walk_first(size_t first, size_t last, const T* tile, T* leaves) const {
  constexpr size_t kTogether = 8;
  for (; first + kTogether <= last; first += kTogether, leaves += kTogether) {
    walks<kTogether, false>(&starts_[first], tile, leaves);
  }
  for (; first < last; ++first, ++leaves) walks<1, false>(&starts_[first], tile, leaves);
}

template class Forest<float>;
template class Forest<double>;
#define X(T, From) template void Forest<T>::fill<From>(const From*, int64_t, int64_t, T*) const;
X(float, float)
X(float, int32_t)
X(float, int64_t)
X(float, Half)
X(double, float)
X(double, double)
X(double, int32_t)
X(double, int64_t)
#undef X

}  // namespace ephost::cpu
