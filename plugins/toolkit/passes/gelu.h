// GELU as exporters write it out, before opset 20.
#ifndef EPHOST_TOOLKIT_PASSES_GELU_H_
#define EPHOST_TOOLKIT_PASSES_GELU_H_

#include "toolkit/graph.h"

namespace ephost {

// Makes Gelu of x / 2 * (1 + erf(x / sqrt(2))), and of
// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), in whichever order they are multiplied. float32
// only.
void fuse_gelus(Graph* graph);

}  // namespace ephost

#endif
