#include "fuse.h"

#include "../compiler/attention.h"
#include "../compiler/einsum.h"
#include "../compiler/norms.h"
#include "../compiler/post.h"

namespace ephost::cpu {

namespace {

// CastLike of a known type is Cast: what it took the type from has one reader less.
void forget_examples(Graph* graph) {
  for (Node* node : graph->nodes) {
    if (node->is("CastLike") && node->in(1) != nullptr && node->in(1)->type != DType::kUndefined) {
      node->attributes["to"] = static_cast<int64_t>(node->in(1)->type);
      graph->set_input(node, 1, nullptr);
      node->inputs.resize(1);
      node->type = "Cast";
    }
  }
}

}  // namespace

void fuse(Graph* graph) {
  forget_examples(graph);
  rewrite_einsum(graph);
  fuse_quantized(graph);
  fuse_attention(graph);
  fuse_norms(graph);
  fold_into_convolutions(graph);
  fuse_convolutions(graph);
  fuse_batch_norms(graph);
  fuse_products(graph);
  fuse_elementwise(graph);
  graph->remove_unused();
  graph->sort();
}

}  // namespace ephost::cpu
