// Operators of com.microsoft that are several of ONNX's in one.
#ifndef EPHOST_CPU_PASSES_CONTRIB_H_
#define EPHOST_CPU_PASSES_CONTRIB_H_

#include "toolkit/graph.h"

namespace ephost::cpu {

// Writes Attention, QAttention, EmbedLayerNormalization, FusedConv, FusedGemm, and FusedMatMul of batches
// that lie between rows and columns, which onnxruntime's optimizers and quantizers make, out in operators
// that have kernels: they have none of their own.
void expand_contrib(Graph* graph);

}  // namespace ephost::cpu

#endif
