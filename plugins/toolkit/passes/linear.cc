// Passes around convolutions, batch normalisation and matrix products: see epilogue.h.
#include <algorithm>
#include <cmath>

#include "toolkit/passes/epilogue.h"

namespace ephost {
namespace {

bool convolution(const Node& node) {
  return (node.domain.empty() || node.domain == "ephost") &&
         (node.type == "Conv" || node.type == "ConvTranspose");
}

bool float_constant(const Value* value) {
  return value != nullptr && value->constant != nullptr && value->constant->type == DType::kFloat &&
         value->constant->data != nullptr;
}

// A constant that is the same all over a tensor of `rank` dimensions but for its dimension 1, of `channels`:
// one element for each channel. False if it is not that.
bool for_channels(const Value* value, size_t rank, int64_t channels, std::vector<float>* out) {
  if (!float_constant(value) || value->constant->dims.size() > rank) {
    return false;
  }
  const Dims& dims = value->constant->dims;
  int64_t own = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i + rank - dims.size() == 1) {
      own = dims[i];
    } else if (dims[i] != 1) {
      return false;
    }
  }
  if (own != 1 && own != channels) {
    return false;
  }
  out->resize(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    (*out)[static_cast<size_t>(c)] = value->constant->as<float>()[own == 1 ? 0 : c];
  }
  return true;
}

// y = x * factor + term in each channel.
struct Affine {
  std::vector<float> factor, term;
};

// Takes the node after `value` into the affine function, if it is one: the value that comes out of it then.
Value* take(Value* value, size_t rank, int64_t channels, Affine* affine) {
  Node* node = only_consumer(value);
  if (node == nullptr || node->out() == nullptr) {
    return nullptr;
  }
  const auto n = static_cast<size_t>(channels);
  std::vector<float> own;
  if (node->is("BatchNormalization") && node->in(0) == value && node->inputs.size() >= 5) {
    for (size_t i = 1; i < 5; ++i) {
      if (!float_constant(node->in(i)) || node->in(i)->constant->bytes() != n * sizeof(float)) return nullptr;
    }
    for (size_t o = 1; o < node->outputs.size(); ++o) {
      if (node->outputs[o] != nullptr) return nullptr;
    }
    if (node->i("training_mode", 0) != 0 || node->i("spatial", 1) == 0) {
      return nullptr;
    }
    const float *scale = node->in(1)->constant->as<float>(), *bias = node->in(2)->constant->as<float>();
    const float *mean = node->in(3)->constant->as<float>(), *variance = node->in(4)->constant->as<float>();
    const float epsilon = node->f("epsilon", 1e-5f);
    for (size_t c = 0; c < n; ++c) {
      const float factor = scale[c] / std::sqrt(variance[c] + epsilon);
      affine->factor[c] *= factor;
      affine->term[c] = (affine->term[c] - mean[c]) * factor + bias[c];
    }
    return node->out();
  }
  const bool first = node->in(0) == value;
  const Value* other = node->inputs.size() == 2 ? node->in(first ? 1 : 0) : nullptr;
  if (other == nullptr || other == value || !node->domain.empty() ||
      !for_channels(other, rank, channels, &own)) {
    return nullptr;
  }
  for (size_t c = 0; c < n; ++c) {
    float &factor = affine->factor[c], &term = affine->term[c];
    if (node->type == "Mul") {
      factor *= own[c];
      term *= own[c];
    } else if (node->type == "Div" && first) {
      factor /= own[c];
      term /= own[c];
    } else if (node->type == "Add") {
      term += own[c];
    } else if (node->type == "Sub") {
      factor = first ? factor : -factor;
      term = first ? term - own[c] : own[c] - term;
    } else {
      return nullptr;
    }
  }
  return node->out();
}

// Makes `node` give `value`, in place of the nodes between: they are left unused.
void end_at(Graph* graph, Node* node, Value* value) {
  Value* before = node->out();
  if (before == value) {
    return;
  }
  Node* last = value->producer;
  graph->steal_output(node, 0, value);
  // What lies between consumes its own inputs no longer.
  std::vector<Node*> dead = {last};
  while (!dead.empty()) {
    Node* next = dead.back();
    dead.pop_back();
    if (next == nullptr || next == node || next->removed) {
      continue;
    }
    const bool used = std::any_of(next->outputs.begin(), next->outputs.end(), [](const Value* v) {
      return v != nullptr && (v->is_output || !v->consumers.empty());
    });
    if (used) {
      continue;
    }
    std::vector<Node*> producers;
    for (Value* input : next->inputs) {
      if (input != nullptr) producers.push_back(input->producer);
    }
    graph->remove(next);
    dead.insert(dead.end(), producers.begin(), producers.end());
  }
}

Value* make_constant(Graph* graph, const Dims& dims, const std::vector<float>& values,
                     const std::string& name) {
  return graph->add_constant(make_tensor<float>(DType::kFloat, dims, values), name);
}

void fold_affine(Graph* graph, Node* conv) {
  const TensorPtr weights = conv->in(1)->constant;
  const int64_t groups = conv->i("group", 1);
  const bool transposed = conv->type == "ConvTranspose";
  const size_t rank = weights->dims.size();
  if (rank < 3 || groups < 1 || weights->dims[0] % groups != 0 || conv->has("post") ||
      (conv->in(2) != nullptr && !float_constant(conv->in(2)))) {
    return;
  }
  const int64_t channels = transposed ? weights->dims[1] * groups : weights->dims[0];
  Affine affine;
  affine.factor.assign(static_cast<size_t>(channels), 1.0f);
  affine.term.assign(static_cast<size_t>(channels), 0.0f);
  if (conv->in(2) != nullptr) {
    if (conv->in(2)->constant->bytes() != affine.term.size() * sizeof(float)) {
      return;
    }
    const float* bias = conv->in(2)->constant->as<float>();
    affine.term.assign(bias, bias + channels);
  }
  Value* end = conv->out();
  for (Value* next = end; (next = take(end, rank, channels, &affine)) != nullptr;) {
    end = next;
  }
  if (end == conv->out()) {
    return;
  }
  const bool scaled = std::any_of(affine.factor.begin(), affine.factor.end(), [](float f) { return f != 1; });
  if (scaled) {
    const TensorPtr folded = make_tensor(DType::kFloat, weights->dims);
    const float* from = weights->as<float>();
    float* to = static_cast<float*>(mutable_data(folded));
    // Rows of weights that belong to one output channel.
    const int64_t row = count(weights->dims, transposed ? 2 : 1, rank),
                  rows = count(weights->dims) / std::max<int64_t>(1, row);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t channel = r;
      if (transposed) {
        const int64_t in = r / weights->dims[1], group = in / (weights->dims[0] / groups);
        channel = group * weights->dims[1] + r % weights->dims[1];
      }
      const float factor = affine.factor[static_cast<size_t>(channel)];
      for (int64_t i = 0; i < row; ++i) to[r * row + i] = from[r * row + i] * factor;
    }
    graph->set_input(conv, 1, graph->add_constant(folded, conv->in(1)->name));
  }
  graph->set_input(conv, 2, make_constant(graph, {channels}, affine.term, conv->name + " bias"));
  end_at(graph, conv, end);
}

// Whether two values have the same shape as far as is known, and nothing speaks for broadcasting.
bool same_shape(const Value* a, const Value* b) {
  if (!a->has_shape || !b->has_shape || a->dims.size() != b->dims.size()) {
    return false;
  }
  for (size_t i = 0; i < a->dims.size(); ++i) {
    if (a->dims[i] != b->dims[i]) return false;
  }
  return true;
}

// The other input of a node with two, of which `value` is one (once).
Value* other_input(const Node* node, const Value* value) {
  if (node->inputs.size() != 2 || node->inputs[0] == node->inputs[1]) {
    return nullptr;
  }
  return node->inputs[0] == value ? node->inputs[1] : node->inputs[1] == value ? node->inputs[0] : nullptr;
}

// Takes activations and at most `additions` sums that follow `node` into its chain.
void take_post_ops(Graph* graph, Node* node, size_t operands, size_t additions) {
  for (;;) {
    Value* value = node->out();
    Node* next = only_consumer(value);
    if (next == nullptr || next->out() == nullptr || next->out()->type != value->type) {
      return;
    }
    if (const std::optional<PostOp> found = activation(*next); found.has_value() && next->in(0) == value) {
      append_post_op(node, *found);
      end_at(graph, node, next->out());
      continue;
    }
    Value* other = next->is("Add") || next->is("Sum") ? other_input(next, value) : nullptr;
    if (other != nullptr && additions > 0 && same_shape(other, value) && other->constant == nullptr &&
        node->type != "ConvTranspose") {
      if (node->inputs.size() < operands) {
        node->inputs.resize(operands, nullptr);
      }
      append_post_op(node, PostOp::add());
      graph->set_input(node, node->inputs.size(), other);
      end_at(graph, node, next->out());
      --additions;
      continue;
    }
    return;
  }
}

}  // namespace

void fold_into_convolutions(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  for (Node* node : nodes) {
    if (node->removed || !convolution(*node) || !float_constant(node->in(1)) || node->in(0) == nullptr ||
        node->in(1)->constant->dims.size() < 3) {
      continue;
    }
    fold_affine(graph, node);
  }
  graph->remove_unused();
  graph->sort();
}

void fuse_convolutions(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  for (Node* node : nodes) {
    if (node->removed || !convolution(*node) || node->out() == nullptr ||
        (node->out()->type != DType::kFloat && node->out()->type != DType::kUndefined)) {
      continue;
    }
    take_post_ops(graph, node, 3, node->has("post") ? 0 : 1);
    if (node->has("post")) {
      node->domain = "ephost";
    }
  }
  graph->remove_unused();
  graph->sort();
}

void fuse_batch_norms(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  for (Node* node : nodes) {
    if (node->removed || !node->is("BatchNormalization") || node->out() == nullptr ||
        !float_constant(node->in(1)) || node->in(0) == nullptr || !node->in(0)->has_shape ||
        node->in(0)->type != DType::kFloat) {
      continue;
    }
    const int64_t channels = count(node->in(1)->constant->dims);
    const size_t rank = node->in(0)->dims.size();
    Affine affine;
    affine.factor.assign(static_cast<size_t>(channels), 1.0f);
    affine.term.assign(static_cast<size_t>(channels), 0.0f);
    // As if a node in front of it gave its input.
    Value* start = graph->add_like(node->in(0));
    Value* input = node->in(0);
    graph->set_input(node, 0, start);
    Value* end = nullptr;
    for (Value* next = start; (next = take(next, rank, channels, &affine)) != nullptr;) {
      end = next;
    }
    graph->set_input(node, 0, input);
    if (end == nullptr) {
      continue;
    }
    Node* made = graph->add_node("ephost", "ChannelAffine",
                                 {input, make_constant(graph, {channels}, affine.factor, ""),
                                  make_constant(graph, {channels}, affine.term, "")},
                                 {}, node->name);
    made->outputs.push_back(nullptr);
    graph->steal_output(made, 0, end);
    Node* next = only_consumer(end);
    const std::optional<PostOp> post_op = next == nullptr ? std::nullopt : activation(*next);
    if (post_op.has_value() && next->in(0) == end &&
        (post_op->is(Activation::kRelu) || post_op->is(Activation::kClip))) {
      append_post_op(made, *post_op);
      end_at(graph, made, next->out());
    }
    // The nodes that it replaces go in remove_unused.
  }
  graph->sort();
  graph->remove_unused();
}

void fuse_products(Graph* graph) {
  const std::vector<Node*> nodes = graph->nodes;
  for (Node* node : nodes) {
    const bool gemm = node->is("Gemm");
    if (node->removed || !(gemm || node->is("MatMul")) || node->out() == nullptr || node->in(0) == nullptr ||
        node->in(1) == nullptr || node->out()->type != DType::kFloat) {
      continue;
    }
    // What it would be.
    int64_t trans[2] = {node->i("transA", 0), node->i("transB", 0)};
    if (gemm) {
      const Value* c = node->in(2);
      const bool bias =
          c == nullptr ||
          (c->has_shape && !c->dims.empty() && c->dims.back() > 1 &&
           std::all_of(c->dims.begin(), c->dims.end() - 1, [](int64_t d) { return d == 1; }) &&
           node->out()->has_shape && node->out()->dims.size() == 2 && node->out()->dims[1] == c->dims.back());
      if (node->f("alpha", 1) != 1 || (c != nullptr && node->f("beta", 1) != 1) || !bias) {
        continue;
      }
    }
    bool changed = gemm;
    // A transposition of the last two dimensions in front of it.
    for (size_t i = 0; i < 2; ++i) {
      Node* transpose = node->in(i)->producer;
      if (transpose == nullptr || !transpose->is("Transpose") || only_consumer(node->in(i)) != node) {
        continue;
      }
      std::vector<int64_t> perm = transpose->ints("perm");
      if (!transpose->has("perm") && transpose->in(0)->has_shape) {
        perm.resize(transpose->in(0)->dims.size());  // All dimensions the other way round.
        for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(perm.size() - 1 - d);
      }
      if (perm.size() < 2) {
        continue;
      }
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      bool last_two = true;
      for (size_t d = 0; d < perm.size(); ++d) last_two = last_two && perm[d] == static_cast<int64_t>(d);
      if (!last_two) {
        continue;
      }
      trans[i] = 1 - trans[i];
      graph->set_input(node, i, transpose->in(0));
      changed = true;
    }
    const auto become = [&] {
      node->domain = "ephost";
      node->type = "MatMul";
      node->attributes.erase("alpha");
      node->attributes.erase("beta");
      node->attributes["transA"] = trans[0];
      node->attributes["transB"] = trans[1];
    };
    // A factor for all of it, as attention has it.
    Node* next = only_consumer(node->out());
    float factor = 0;
    if (!gemm && next != nullptr && next->out() != nullptr &&
        ((next->is("Mul") && other_input(next, node->out()) != nullptr &&
          scalar(other_input(next, node->out()), &factor)) ||
         (next->is("Div") && next->in(0) == node->out() && scalar(next->in(1), &factor) && factor != 0))) {
      const Value* scale = other_input(next, node->out());
      if (scale->type == DType::kFloat && node->out()->has_shape &&
          node->out()->dims.size() >= scale->dims.size()) {
        append_post_op(node, {Activation::kAffine, next->is("Mul") ? factor : 1 / factor, 0});
        end_at(graph, node, next->out());
        changed = true;
      }
    }
    // A bias for each column.
    next = only_consumer(node->out());
    const Value* b = node->in(1);
    if (!gemm && !node->has("post") && next != nullptr && next->is("Add") && next->out() != nullptr &&
        b->has_shape && b->dims.size() >= 2) {
      Value* bias = other_input(next, node->out());
      const int64_t columns = b->dims[b->dims.size() - (trans[1] != 0 ? 2 : 1)];
      if (float_constant(bias) && columns > 1 && bias->dims == Dims{columns}) {
        node->inputs.resize(std::max<size_t>(node->inputs.size(), 2));
        graph->set_input(node, 2, bias);
        end_at(graph, node, next->out());
        changed = true;
      }
    }
    take_post_ops(graph, node, 3, 1);
    if (changed || node->has("post")) {
      become();
    }
  }
  graph->remove_unused();
  graph->sort();
}

}  // namespace ephost
