// Attention as one operator.
#ifndef EPHOST_TOOLKIT_PASSES_ATTENTION_H_
#define EPHOST_TOOLKIT_PASSES_ATTENTION_H_

#include "toolkit/graph.h"

namespace ephost {

// Makes "ephost.Attention" of softmax(scale * Q K^T + mask) V as exporters write it: with factors on either
// side of the first product, transpositions before and behind, and a Where that clears rows without a number,
// or that is known to clear nothing.
// Inputs: q, k, v, mask (may be missing). Attributes:
//   scale                     a float
//   q_perm, k_perm, v_perm    the input with its dimensions in this order is [batch.., sequence, channels]
//   out_perm                  the result of the last product, its dimensions in this order, is the output
//   clear                     1 where rows of the softmax that are not numbers count as zeros
// Of float32, float16 or bfloat16; of three or four dimensions. Run it before products are fused with what
// follows them.
void fuse_attention(Graph* graph);

}  // namespace ephost

#endif
