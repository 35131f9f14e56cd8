#include "cpu/passes/widen.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "cpu/engines/as_float.h"
#include "cpu/operator.h"
#include "cpu/passes/fuse.h"

namespace ephost::cpu {
namespace {

using Names = std::unordered_set<std::string_view>;

// What moves elements, chooses among them, or looks at them alone. It follows its inputs.
const Names& movers() {
  static const Names names{
      "ArgMax",         "ArgMin",          "Compress",
      "Concat",         "DepthToSpace",    "DequantizeLinear",
      "Dropout",        "Equal",           "Expand",
      "Flatten",        "Gather",          "GatherElements",
      "GatherND",       "Greater",         "GreaterOrEqual",
      "Identity",       "IsNaN",           "Less",
      "LessOrEqual",    "NonZero",         "Pad",
      "QuantizeLinear", "Reshape",         "ReverseSequence",
      "Scatter",        "ScatterElements", "ScatterND",
      "Slice",          "SpaceToDepth",    "Split",
      "Squeeze",        "TensorScatter",   "Tile",
      "TopK",           "Transpose",       "Trilu",
      "Unique",         "Unsqueeze",       "Where",
  };
  return names;
}

// What has the elements of its input, or repeats them. It is wide if all who read it are, so that the passes
// behind find it beside them: what it moves is converted before instead of after.
const Names& rearranged() {
  static const Names names{
      "Concat", "DequantizeLinear", "Expand",    "Flatten",   "Identity", "Reshape",
      "Split",  "Squeeze",          "Transpose", "Unsqueeze", "Where",
  };
  return names;
}

// What asks how its input is stored, or whose output's type is its own choice.
const Names& kept() {
  static const Names names{
      "Bernoulli",        "BitCast",           "Cast",  "CastLike", "EyeLike", "IsInf",
      "RandomNormalLike", "RandomUniformLike", "Shape", "Size",
  };
  return names;
}

// com.microsoft's operators that compute, and have no state in 16 bits that comes in and goes out.
const Names& contributed() {
  static const Names names{
      "BiasGelu",
      "EmbedLayerNormalization",
      "FastGelu",
      "FusedConv",
      "FusedGemm",
      "FusedMatMul",
      "GatedAdd",
      "GatedRMSNorm",
      "Gelu",
      "LinearAttentionGate",
      "MatMulNBits",
      "MRotaryEmbedding",
      "QuickGelu",
      "RotaryEmbedding",
      "ScaledSiLU",
      "SkipLayerNormalization",
      "TransposeMatMul",
      "SkipSimplifiedLayerNormalization",
  };
  return names;
}

bool is_narrow(const Value* value) { return value != nullptr && value->tensor && is_half(value->type); }

// Attention with keys and values from earlier calls, which stay as they are stored.
bool has_past(const Node& node) {
  return node.is("Attention") && (node.in(4) != nullptr || node.in(5) != nullptr);
}

// Whether an attribute says which type the node computes with or makes.
bool names_a_type(const Node& node) { return node.has("output_dtype") || node.has("precision"); }

// A Cast to 16 bits from what holds more.
bool narrows(const Node* node) {
  return node != nullptr && node->is("Cast") && is_narrow(node->out()) && node->in(0)->tensor &&
         node->in(0)->type != DType::kUndefined && !is_half(node->in(0)->type);
}

class Widening {
 public:
  explicit Widening(Graph* graph) : graph_(*graph) {}

  void run() {
    if (!is_worth_it()) return;
    make_casts_of_casts_like(&graph_);
    look_at_readers();
    for (Node* node : std::vector<Node*>(graph_.nodes)) {
      if (node->is("Cast")) {
        read_wide_cast(node);
      } else if (node->is("Shape") || node->is("Size")) {
        if (const auto found = wide_.find(node->in(0)); found != wide_.end()) {
          graph_.set_input(node, 0, found->second);
        }
      } else if (seen_.at(node).kind == Kind::kComputes || follows(*node)) {
        widen(node);
      }
    }
    for (const auto& [narrow, wide] : made_) {
      if (narrow->consumers.empty() && !narrow->is_output) continue;
      graph_.steal_output(cast(wide, graph_.add_like(narrow), narrow->type), 0, narrow);
    }
    graph_.sort();
    forget_constants();
  }

 private:
  enum class Kind { kKept, kMoves, kComputes };

  // One operator alone converts for itself.
  bool is_worth_it() const {
    int count = 0;
    for (const Node* node : graph_.nodes) {
      const bool any = std::any_of(node->inputs.begin(), node->inputs.end(), is_narrow);
      if (narrows(node) || (any && kind(*node) == Kind::kComputes)) ++count;
      if (count == 2) return true;
    }
    return false;
  }

  Kind kind(const Node& node) const {
    const bool own = node.domain.empty();
    if (!own && (node.domain != "com.microsoft" || contributed().count(node.type) == 0)) return Kind::kKept;
    if (!node.subgraphs.empty() || has_past(node) || names_a_type(node) ||
        (own && kept().count(node.type) != 0)) {
      return Kind::kKept;
    }
    const bool tensors = std::all_of(node.outputs.begin(), node.outputs.end(), [](const Value* value) {
      return value == nullptr || (value->tensor && value->type != DType::kUndefined);
    });
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), is_narrow);
    if (!tensors || !any || !is_supported_wide(node)) return Kind::kKept;
    return own && movers().count(node.type) != 0 ? Kind::kMoves : Kind::kComputes;
  }

  // Whether there is a kernel for the node as it would be.
  static bool is_supported_wide(const Node& node) {
    Node wide;
    wide.domain = node.domain;
    wide.type = node.type;
    wide.name = node.name;
    wide.version = node.version;
    wide.attributes = node.attributes;
    std::vector<std::unique_ptr<Value>> values;
    const auto widened = [&](const std::vector<Value*>& from, std::vector<Value*>* to) {
      for (Value* value : from) {
        if (is_narrow(value)) {
          auto as_wide = std::make_unique<Value>();  // Without its readers, which may be many.
          as_wide->name = value->name;
          as_wide->type = DType::kFloat;
          as_wide->has_shape = value->has_shape;
          as_wide->dims = value->dims;
          as_wide->constant = value->constant;
          as_wide->producer = value->producer;
          value = as_wide.get();
          values.push_back(std::move(as_wide));
        }
        to->push_back(value);
      }
    };
    widened(node.inputs, &wide.inputs);
    widened(node.outputs, &wide.outputs);
    return Registry::get().find(wide) != nullptr;
  }

  // From the end of the graph on: whether all who read what a node moves compute, or move it to such.
  void look_at_readers() {
    for (auto at = graph_.nodes.rbegin(); at != graph_.nodes.rend(); ++at) {
      const Node* node = *at;
      Seen& seen = seen_[node];
      seen.kind = kind(*node);
      if (seen.kind != Kind::kMoves || rearranged().count(node->type) == 0) continue;
      bool any = false, all = true;
      for (const Value* value : node->outputs) {
        if (!is_narrow(value)) continue;
        all = all && !value->is_output;
        for (const Node* reader : value->consumers) {
          const Seen& of = seen_.at(reader);
          any = true;
          all = all && (of.kind == Kind::kComputes || of.is_for_computation);
        }
      }
      seen.is_for_computation = any && all;
    }
  }

  // Whether a node that moves elements has wide ones to move, or only those who want them so.
  bool follows(const Node& node) const {
    const Seen& seen = seen_.at(&node);
    if (seen.kind != Kind::kMoves) return false;
    bool all = true, any = false;
    for (const Value* value : node.inputs) {
      if (!is_narrow(value) || is_known(*value)) continue;
      const bool wide = wide_.find(value) != wide_.end();
      all = all && wide;
      any = any || wide;
    }
    return (all && any) || seen.is_for_computation;
  }
  static bool is_known(const Value& value) {
    return value.constant != nullptr ||
           (narrows(value.producer) && value.producer->in(0)->constant != nullptr);
  }

  void widen(Node* node) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (is_narrow(node->in(i))) graph_.set_input(node, i, wide_form(node->in(i)));
    }
    for (size_t o = 0; o < node->outputs.size(); ++o) {
      Value* narrow = node->out(o);
      if (!is_narrow(narrow)) continue;
      Value* wide = graph_.add_like(narrow);
      wide->type = DType::kFloat;
      graph_.set_output(node, o, wide);
      wide_[narrow] = wide;
      made_.emplace_back(narrow, wide);
    }
  }

  // A Cast to a type with more digits, or to whole numbers, of what was not rounded.
  void read_wide_cast(Node* node) {
    const auto found = wide_.find(node->in(0));
    if (found == wide_.end() || narrows(node->in(0)->producer)) return;
    if (node->out()->type == DType::kFloat && !node->out()->is_output) {
      graph_.replace_uses(node->out(), found->second);
      graph_.remove(node);
    } else {
      graph_.set_input(node, 0, found->second);
    }
  }

  Value* wide_form(Value* narrow) {
    Value*& wide = wide_[narrow];
    if (wide != nullptr) return wide;
    if (narrow->constant != nullptr) {
      wide = graph_.add_constant(wide_constant(narrow->constant), narrow->name);
    } else if (narrows(narrow->producer)) {
      // What was made narrow for operators that are wide now.
      Value* source = narrow->producer->in(0);
      wide = source->type == DType::kFloat ? source : cast_to_wide(source, narrow);
    } else {
      wide = cast_to_wide(narrow, narrow);
    }
    return wide;
  }
  Value* cast_to_wide(Value* from, const Value* like) {
    return cast(from, graph_.add_like(like), DType::kFloat)->out();
  }
  Node* cast(Value* from, Value* to, DType type) {
    to->type = type;
    Node* node = graph_.add_node("", "Cast", {from}, {to}, to->name);
    node->version = 13;
    node->attributes["to"] = static_cast<int64_t>(type);
    return node;
  }

  // One for all graphs that read the constant. Not as_float's, whose readers nobody counts: this is freed
  // when all that read it have packed it.
  static TensorPtr wide_constant(const TensorPtr& narrow) {
    return Prepare::packed<Tensor>(narrow, "widened", [&] {
      TensorPtr wide = make_tensor(DType::kFloat, narrow->dims);
      to_float(narrow->type, narrow->data, static_cast<float*>(mutable_data(wide)), count(narrow->dims));
      narrow->let_go();
      return wide;
    });
  }
  void forget_constants() {
    for (const auto& [narrow, wide] : wide_) {
      if (narrow->constant != nullptr && narrow->consumers.empty() && !narrow->is_output) {
        const_cast<Value*>(narrow)->constant = nullptr;
      }
    }
  }

  struct Seen {
    Kind kind = Kind::kKept;
    bool is_for_computation = false;
  };

  Graph& graph_;
  std::unordered_map<const Node*, Seen> seen_;
  std::unordered_map<const Value*, Value*> wide_;
  std::vector<std::pair<Value*, Value*>> made_;  // What nodes of the graph had as outputs, and have.
};

}  // namespace

void widen_halves(Graph* graph) { Widening(graph).run(); }

}  // namespace ephost::cpu
