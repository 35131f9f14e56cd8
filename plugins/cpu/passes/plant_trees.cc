#include "cpu/passes/plant_trees.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "cpu/engines/ensemble.h"
#include "cpu/engines/scores.h"
#include "toolkit/dispatch.h"

namespace ephost::cpu {
namespace {

constexpr const char* kMl = "ai.onnx.ml";
constexpr int64_t kMostTargets = 1 << 24;
constexpr size_t kMostNodes = 1 << 30;

// The numbers of a tensor that is an attribute; none if it is not there.
std::vector<double> numbers(const Node& node, const std::string& attribute) {
  const TensorPtr tensor = node.t(attribute);
  if (tensor == nullptr) return {};
  if (!kAny.has(tensor->type)) {
    invalid(node.label() + ": its attribute '" + attribute + "' has a type that has no numbers");
  }
  std::vector<double> all(static_cast<size_t>(count(tensor->dims)));
  with_type(tensor->type, [&](auto zero) {
    using From = decltype(zero);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<double>(static_cast<arithmetic_t<From>>(tensor->as<From>()[i]));
    }
  });
  return all;
}

// The same of one that may be a list of float32 instead.
std::vector<double> numbers_of_either(const Node& node, const std::string& attribute) {
  const std::string as_tensor = attribute + "_as_tensor";
  const std::vector<float>& list = node.floats(attribute);
  std::vector<double> all = numbers(node, as_tensor);
  if (!list.empty() && !all.empty()) {
    invalid(node.label() + ": it has both '" + attribute + "' and '" + as_tensor + "'");
  }
  if (all.empty()) all.assign(list.begin(), list.end());
  return all;
}

// What is wrong with a node's attributes, in terms of these.
class Checks {
 public:
  explicit Checks(const Node& node) : node_(node) {}

  [[noreturn]] void wrong(const std::string& what) const { invalid(node_.label() + ": " + what); }
  // Lists of one entry for each node, or for each weight.
  void same_length(const std::string& a, size_t size_a, const std::string& b, size_t size_b) const {
    if (size_a != size_b) {
      wrong("'" + a + "' has " + std::to_string(size_a) + " elements and '" + b + "' has " +
            std::to_string(size_b));
    }
  }
  uint32_t within(const std::string& attribute, size_t place, int64_t value, int64_t limit,
                  const std::string& of_what) const {
    if (value < 0 || value >= limit) {
      wrong("'" + attribute + "' has " + std::to_string(value) + " at " + std::to_string(place) +
            ", and there are " + std::to_string(limit) + " " + of_what);
    }
    return static_cast<uint32_t>(value);
  }
  uint32_t feature(size_t place, int64_t value) const {
    if (value < 0 || value > INT32_MAX) {
      wrong("'nodes_featureids' has " + std::to_string(value) + " at " + std::to_string(place));
    }
    return static_cast<uint32_t>(value);
  }
  void targets(const std::string& of, int64_t count) const {
    if (count < 1) wrong(of + " is " + std::to_string(count));
    if (count > kMostTargets) wrong(of + " is " + std::to_string(count) + ", which is more than can be");
  }
  void base_values(size_t count, int64_t targets, bool classifies) const {
    const size_t all = static_cast<size_t>(targets);
    if (count != 0 && count != all && !(classifies && targets <= 2 && count <= 2)) {
      wrong("it has " + std::to_string(count) + " base values for " + std::to_string(targets) +
            (classifies ? " classes" : " targets"));
    }
  }

 private:
  const Node& node_;
};

Branch branch_named(const Checks& checks, const std::string& name) {
  static constexpr std::pair<std::string_view, Branch> kAll[] = {
      {"BRANCH_LEQ", Branch::kLeq}, {"LEAF", Branch::kLeaf},    {"BRANCH_LT", Branch::kLt},
      {"BRANCH_GTE", Branch::kGte}, {"BRANCH_GT", Branch::kGt}, {"BRANCH_EQ", Branch::kEq},
      {"BRANCH_NEQ", Branch::kNeq}};
  for (const auto& [known, branch] : kAll) {
    if (known == name) return branch;
  }
  checks.wrong("no mode of a node is called '" + name + "'");
}

Transform transform_named(const Checks& checks, const std::string& name) {
  static const std::unordered_map<std::string, Transform> all = {{"NONE", Transform::kNone},
                                                                 {"SOFTMAX", Transform::kSoftmax},
                                                                 {"LOGISTIC", Transform::kLogistic},
                                                                 {"SOFTMAX_ZERO", Transform::kSoftmaxZero},
                                                                 {"PROBIT", Transform::kProbit}};
  const auto found = all.find(name);
  if (found == all.end()) checks.wrong("no transformation is called '" + name + "'");
  return found->second;
}

Aggregate aggregate_named(const Checks& checks, const std::string& name) {
  static const std::unordered_map<std::string, Aggregate> all = {{"AVERAGE", Aggregate::kAverage},
                                                                 {"SUM", Aggregate::kSum},
                                                                 {"MIN", Aggregate::kMin},
                                                                 {"MAX", Aggregate::kMax}};
  const auto found = all.find(name);
  if (found == all.end()) checks.wrong("no aggregate is called '" + name + "'");
  return found->second;
}

// A node of a tree by the numbers that attributes of versions before 5 give both.
struct Place {
  int64_t tree, node;
  auto operator<=>(const Place&) const = default;
};

std::string name_of(const Place& at) {
  return "node " + std::to_string(at.node) + " of tree " + std::to_string(at.tree);
}

// Where in the lists a place is. Converters write places in order, and mostly without gaps.
class Places {
 public:
  Places(const Checks& checks, const std::vector<int64_t>& trees, const std::vector<int64_t>& nodes)
      : trees_(trees), nodes_(nodes) {
    const size_t n = trees.size();
    size_t sorted = 1;
    while (sorted < n && at(sorted - 1) < at(sorted)) ++sorted;
    if (sorted >= n) return;
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) { return at(a) < at(b); });
    for (size_t i = 1; i < n; ++i) {
      if (at(order_[i - 1]) == at(order_[i])) checks.wrong("it has " + name_of(at(order_[i])) + " twice");
    }
  }

  Place at(size_t i) const { return {trees_[i], nodes_[i]}; }

  // None if there is no such place. `near`: where one of the same tree is, if any.
  std::optional<uint32_t> find(const Place& place, size_t near = 0) const {
    const size_t n = trees_.size();
    const uint64_t guess = static_cast<uint64_t>(near) + static_cast<uint64_t>(place.node) -
                           (near < n ? static_cast<uint64_t>(nodes_[near]) : 0);
    if (guess < n && at(guess) == place) return static_cast<uint32_t>(guess);
    size_t first = 0, last = n;
    while (first < last) {
      const size_t middle = first + (last - first) / 2;
      if (at(number(middle)) < place) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    if (first == n || at(number(first)) != place) return std::nullopt;
    return static_cast<uint32_t>(number(first));
  }

 private:
  size_t number(size_t i) const { return order_.empty() ? i : order_[i]; }
  const std::vector<int64_t>&trees_, &nodes_;
  std::vector<uint32_t> order_;  // Of places by their numbers; empty where that is how they lie.
};

// The trees of TreeEnsembleClassifier and TreeEnsembleRegressor. `weights` is "class" or "target", what the
// names of attributes of weights begin with.
template <typename T>
Trees<T> trees_of_lists(const Node& node, const std::string& weights, int64_t targets) {
  const Checks checks(node);
  const std::vector<std::string>& modes = node.strings("nodes_modes");
  const std::vector<int64_t>&tree_ids = node.ints("nodes_treeids"), &node_ids = node.ints("nodes_nodeids"),
        &features = node.ints("nodes_featureids"), &yes = node.ints("nodes_truenodeids"),
        &no = node.ints("nodes_falsenodeids"), &missing = node.ints("nodes_missing_value_tracks_true");
  const std::vector<double> values = numbers_of_either(node, "nodes_values");
  const size_t n = modes.size();
  checks.same_length("nodes_modes", n, "nodes_treeids", tree_ids.size());
  checks.same_length("nodes_modes", n, "nodes_nodeids", node_ids.size());
  checks.same_length("nodes_modes", n, "nodes_featureids", features.size());
  checks.same_length("nodes_modes", n, "nodes_truenodeids", yes.size());
  checks.same_length("nodes_modes", n, "nodes_falsenodeids", no.size());
  checks.same_length("nodes_modes", n, "nodes_values", values.size());
  if (n > kMostNodes) checks.wrong("it has " + std::to_string(n) + " nodes, which is more than can be");

  Trees<T> trees;
  trees.nodes.resize(n);
  const Places places(checks, tree_ids, node_ids);
  for (size_t i = 0; i < n; ++i) {
    if (i == 0 || tree_ids[i] != tree_ids[i - 1]) trees.roots.push_back(static_cast<uint32_t>(i));
  }
  const auto child = [&](const char* attribute, size_t i, int64_t id) {
    const auto found = places.find({tree_ids[i], id}, i);
    if (!found) {
      checks.wrong("'" + std::string(attribute) + "' of " + name_of(places.at(i)) + " names " +
                   name_of({tree_ids[i], id}) + ", which is not there");
    }
    return *found;
  };
  for (size_t i = 0; i < n; ++i) {
    auto& made = trees.nodes[i];
    made.branch = branch_named(checks, modes[i]);
    made.value = static_cast<T>(values[i]);
    if (made.branch == Branch::kLeaf) {
      made.value = 0;
      continue;
    }
    made.feature = checks.feature(i, features[i]);
    made.missing = i < missing.size() && missing[i] == 1;
    made.yes = child("nodes_truenodeids", i, yes[i]);
    made.no = child("nodes_falsenodeids", i, no[i]);
  }

  const std::string ids = weights + "_ids", of_trees = weights + "_treeids", of_nodes = weights + "_nodeids";
  const std::vector<int64_t>&weight_ids = node.ints(ids), &weight_trees = node.ints(of_trees),
        &weight_nodes = node.ints(of_nodes);
  const std::vector<double> weight_values = numbers_of_either(node, weights + "_weights");
  checks.same_length(ids, weight_ids.size(), of_trees, weight_trees.size());
  checks.same_length(ids, weight_ids.size(), of_nodes, weight_nodes.size());
  checks.same_length(ids, weight_ids.size(), weights + "_weights", weight_values.size());
  std::vector<std::pair<uint32_t, uint32_t>> order;  // Of weights, by the leaf that has them.
  order.reserve(weight_ids.size());
  uint32_t last = 0;
  for (size_t i = 0; i < weight_ids.size(); ++i) {
    checks.within(ids, i, weight_ids[i], targets, weights == "class" ? "classes" : "targets");
    const Place place = {weight_trees[i], weight_nodes[i]};
    const auto found = places.find(place, last);  // Weights follow each other as leaves do.
    if (!found) checks.wrong("a weight is for " + name_of(place) + ", which is not there");
    last = *found;
    if (trees.nodes[last].branch != Branch::kLeaf) continue;  // As older converters left them.
    order.emplace_back(last, static_cast<uint32_t>(i));
  }
  if (!std::is_sorted(order.begin(), order.end())) std::sort(order.begin(), order.end());
  for (const auto& [leaf, i] : order) {
    auto& made = trees.nodes[leaf];
    if (made.no++ == 0) made.yes = static_cast<uint32_t>(trees.weights.size());
    trees.weights.push_back({static_cast<uint32_t>(weight_ids[i]), static_cast<T>(weight_values[i])});
  }
  return trees;
}

// onnxruntime looks up integers in sets of integers that have some number of members, or one that is larger;
// in others it compares.
template <typename T>
bool truncates(const std::vector<T>& members) {
  constexpr size_t kMany = 31;
  const auto is_small = [](T x) { return x >= 0 && x < static_cast<T>(kMany); };
  const auto is_integer = [](T x) { return x == std::trunc(x); };
  return (members.size() >= kMany || !std::all_of(members.begin(), members.end(), is_small)) &&
         std::all_of(members.begin(), members.end(), is_integer);
}

// The trees of TreeEnsemble.
template <typename T>
Trees<T> trees_of_arrays(const Node& node, int64_t targets) {
  const Checks checks(node);
  const std::vector<int64_t>&roots = node.ints("tree_roots"), &features = node.ints("nodes_featureids"),
        &yes = node.ints("nodes_truenodeids"), &no = node.ints("nodes_falsenodeids"),
        &yes_leaf = node.ints("nodes_trueleafs"), &no_leaf = node.ints("nodes_falseleafs"),
        &missing = node.ints("nodes_missing_value_tracks_true"), &leaf_targets = node.ints("leaf_targetids");
  const std::vector<double> modes = numbers(node, "nodes_modes"), splits = numbers(node, "nodes_splits"),
                            weights = numbers(node, "leaf_weights"),
                            members = numbers(node, "membership_values");
  const size_t n = modes.size();
  checks.same_length("nodes_modes", n, "nodes_splits", splits.size());
  checks.same_length("nodes_modes", n, "nodes_featureids", features.size());
  checks.same_length("nodes_modes", n, "nodes_truenodeids", yes.size());
  checks.same_length("nodes_modes", n, "nodes_falsenodeids", no.size());
  checks.same_length("nodes_modes", n, "nodes_trueleafs", yes_leaf.size());
  checks.same_length("nodes_modes", n, "nodes_falseleafs", no_leaf.size());
  if (!missing.empty()) {
    checks.same_length("nodes_modes", n, "nodes_missing_value_tracks_true", missing.size());
  }
  checks.same_length("leaf_targetids", leaf_targets.size(), "leaf_weights", weights.size());
  if (roots.empty()) checks.wrong("it has no trees: 'tree_roots' is empty");
  if (n + weights.size() > kMostNodes) checks.wrong("it has more nodes than can be");

  // Leaves lie behind the other nodes.
  Trees<T> trees;
  trees.nodes.resize(n + weights.size());
  const auto child = [&](const char* attribute, size_t i, int64_t place, bool leaf) {
    const size_t limit = leaf ? weights.size() : n;
    const uint32_t at =
        checks.within(attribute, i, place, static_cast<int64_t>(limit), leaf ? "leaves" : "nodes");
    return at + (leaf ? static_cast<uint32_t>(n) : 0);
  };
  size_t next_member = 0;
  for (size_t i = 0; i < n; ++i) {
    auto& made = trees.nodes[i];
    if (!(modes[i] >= 0 && modes[i] <= 6))
      checks.wrong("no mode of a node has the number " + std::to_string(modes[i]));
    made.branch = static_cast<Branch>(static_cast<int>(modes[i]));
    made.feature = checks.feature(i, features[i]);
    made.value = static_cast<T>(splits[i]);
    made.missing = !missing.empty() && missing[i] != 0;
    made.yes = child("nodes_truenodeids", i, yes[i], yes_leaf[i] != 0);
    made.no = child("nodes_falsenodeids", i, no[i], no_leaf[i] != 0);
    if (made.branch != Branch::kMember) continue;
    // The members of one node after the other's, each list ended by a NaN.
    if (next_member >= members.size()) {
      checks.wrong("'membership_values' has fewer sets than there are nodes with one");
    }
    made.members = static_cast<uint32_t>(trees.sets.size());
    typename Trees<T>::Set set;
    for (; next_member < members.size() && !std::isnan(members[next_member]); ++next_member) {
      set.members.push_back(static_cast<T>(members[next_member]));
    }
    set.truncates = truncates(set.members);
    trees.sets.push_back(std::move(set));
    ++next_member;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint32_t target = checks.within("leaf_targetids", i, leaf_targets[i], targets, "targets");
    auto& made = trees.nodes[n + i];
    made.yes = static_cast<uint32_t>(trees.weights.size());
    made.no = 1;
    trees.weights.push_back({target, static_cast<T>(weights[i])});
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    // A tree of nothing but a leaf is a node both of whose children are that leaf.
    const uint32_t root = checks.within("tree_roots", i, roots[i], static_cast<int64_t>(n), "nodes");
    const auto& made = trees.nodes[root];
    trees.roots.push_back(made.yes == made.no && made.yes >= n ? made.yes : root);
  }
  return trees;
}

bool is_double(const Node& node, const char* attribute) {
  const TensorPtr tensor = node.t(attribute);
  return tensor != nullptr && tensor->type == DType::kDouble;
}

// By TreeEnsemble's numbers, as onnxruntime reads them: the standard has 1 and 2 the other way round.
constexpr Transform kTransforms[] = {Transform::kNone, Transform::kLogistic, Transform::kSoftmax,
                                     Transform::kSoftmaxZero, Transform::kProbit};

std::shared_ptr<Ensemble> ensemble_of(const Node& node) {
  const Checks checks(node);
  const bool doubles = node.in(0)->type == DType::kDouble;
  EnsembleRules rules;
  const auto make = [&](const std::string& weights) -> std::shared_ptr<Ensemble> {
    const bool as_doubles = doubles || is_double(node, "nodes_values_as_tensor") ||
                            is_double(node, (weights + "_weights_as_tensor").c_str());
    const int64_t targets = rules.targets;
    if (as_doubles) {
      return make_ensemble(trees_of_lists<double>(node, weights, targets), std::move(rules), node.label());
    }
    return make_ensemble(trees_of_lists<float>(node, weights, targets), std::move(rules), node.label());
  };
  if (node.type == "TreeEnsemble") {
    const int64_t aggregate = node.i("aggregate_function", 1), transform = node.i("post_transform", 0);
    rules.targets = node.i("n_targets", 0);
    checks.targets("'n_targets'", rules.targets);
    for (const char* name : {"nodes_splits", "leaf_weights", "membership_values"}) {
      const TensorPtr tensor = node.t(name);
      if (tensor != nullptr && tensor->type != node.in(0)->type) {
        checks.wrong(std::string("'") + name + "' is of type " + name_of(tensor->type) + ", its input of " +
                     name_of(node.in(0)->type));
      }
    }
    if (aggregate < 0 || aggregate > 3)
      checks.wrong("no aggregate has the number " + std::to_string(aggregate));
    if (transform < 0 || transform > 4) {
      checks.wrong("no transformation has the number " + std::to_string(transform));
    }
    rules.aggregate = static_cast<Aggregate>(aggregate);
    rules.transform = kTransforms[transform];
    const int64_t targets = rules.targets;
    if (doubles) return make_ensemble(trees_of_arrays<double>(node, targets), std::move(rules), node.label());
    return make_ensemble(trees_of_arrays<float>(node, targets), std::move(rules), node.label());
  }
  rules.transform = transform_named(checks, node.s("post_transform", "NONE"));
  rules.base = numbers_of_either(node, "base_values");
  rules.classifies = node.type == "TreeEnsembleClassifier";
  if (!rules.classifies) {
    rules.targets = node.i("n_targets", 0);
    rules.aggregate = aggregate_named(checks, node.s("aggregate_function", "SUM"));
    checks.targets("'n_targets'", rules.targets);
    checks.base_values(rules.base.size(), rules.targets, false);
    return make("target");
  }
  const ClassLabels labels(node, "classlabels_int64s", "classlabels_strings");
  rules.labels = node.ints("classlabels_int64s");
  rules.targets = labels.size();
  checks.targets("the number of classes", rules.targets);
  checks.base_values(rules.base.size(), rules.targets, true);
  const std::vector<int64_t>& ids = node.ints("class_ids");
  const std::vector<double> weights = numbers_of_either(node, "class_weights");
  rules.one_class = rules.targets == 2 && !ids.empty() &&
                    std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  rules.all_positive = std::none_of(weights.begin(), weights.end(), [](double w) { return w < 0; });
  return make("class");
}

}  // namespace

void plant_trees(Graph* graph) {
  bool found = false;
  for (Node* node : std::vector<Node*>(graph->nodes)) {
    if (node->domain != kMl || node->type.rfind("TreeEnsemble", 0) != 0) continue;
    const TensorPtr constant = make_tensor(DType::kUint8, {0});
    constant->packed["ensemble"] = ensemble_of(*node);
    std::vector<Value*> outputs;
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      outputs.push_back(node->out(i) == nullptr ? nullptr : graph->add_like(node->out(i)));
    }
    Node* made = graph->add_node("ephost", node->type, {node->in(0), graph->add_constant(constant)}, outputs,
                                 node->name);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] != nullptr) graph->steal_output(made, i, node->out(i));
    }
    for (const char* labels : {"classlabels_int64s", "classlabels_strings"}) {
      const auto given = node->attributes.find(labels);
      if (given != node->attributes.end()) made->attributes[labels] = given->second;
    }
    graph->remove(node);
    found = true;
  }
  if (found) graph->sort();
}

const Registration registration([](Registry* registry) {
  registry->add({.domain = kMl,
                 .type = "TreeEnsembleClassifier",
                 .types = kFeatures | kText,
                 .max_version = 4,
                 .foldable = false});
  registry->add({.domain = kMl,
                 .type = "TreeEnsembleRegressor",
                 .types = kFeatures,
                 .max_version = 4,
                 .foldable = false});
  registry->add({.domain = kMl,
                 .type = "TreeEnsemble",
                 .types = {DType::kFloat, DType::kDouble, DType::kFloat16},
                 .foldable = false});
});

}  // namespace ephost::cpu
