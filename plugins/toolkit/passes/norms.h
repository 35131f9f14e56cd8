// Normalisations that exporters write out in single steps.
#ifndef EPHOST_TOOLKIT_PASSES_NORMS_H_
#define EPHOST_TOOLKIT_PASSES_NORMS_H_

#include "toolkit/graph.h"

namespace ephost {

// Makes LayerNormalization of (x - mean) / sqrt(mean((x - mean)^2) + epsilon), and RMSNormalization of
// x / sqrt(mean(x^2) + epsilon), over the last dimension, with the constant scale and bias behind them.
// In float32, or in 16-bit floats, of which the steps in between would leave the range.
void fuse_norms(Graph* graph);

}  // namespace ephost

#endif
