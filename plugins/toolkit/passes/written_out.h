// Activations that exporters write out in single steps.
#ifndef EPHOST_TOOLKIT_PASSES_WRITTEN_OUT_H_
#define EPHOST_TOOLKIT_PASSES_WRITTEN_OUT_H_

#include "toolkit/graph.h"

namespace ephost {

// Makes one node of each, in whichever order its factors are multiplied:
//   Gelu       x / 2 * (1 + erf(x / sqrt(2)))
//   Gelu       x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), which approximates it
//   Swish      x * sigmoid(a * x)
//   HardSwish  x * clip(x + 3, 0, 6) / 6, or x * hardsigmoid(x), whose slope and height at 0 are the
//              attributes alpha and beta, which the standard's operator does not have
//   Mish       x * tanh(softplus(x))
// float32, and where types are not known.
void fuse_written_out(Graph* graph);

}  // namespace ephost

#endif
