#include "fuse.h"

#include "../compiler/attention.h"
#include "../compiler/einsum.h"
#include "../compiler/norms.h"
#include "../compiler/post.h"

namespace ephost::cpu {

void fuse(Graph* graph) {
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
