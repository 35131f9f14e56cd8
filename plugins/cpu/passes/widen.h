// 16-bit floats are for storage: between operators they stay float32.
#ifndef EPHOST_CPU_PASSES_WIDEN_H_
#define EPHOST_CPU_PASSES_WIDEN_H_

#include "toolkit/graph.h"

namespace ephost::cpu {

// Makes operators that compute with float16 or bfloat16 ones that compute with float32, with a Cast where
// such a value comes into the graph and where one leaves it. So nothing is rounded between operators, sums
// and intermediate results may leave the range of 16-bit floats, and all other passes and kernels see float32
// alone. Stored in 16 bits remain what only moves elements of inputs (caches, tables that rows are gathered
// from), what asks how a value is stored (Cast of a Cast, IsInf), and subgraphs' inputs and outputs.
void widen_halves(Graph* graph);

}  // namespace ephost::cpu

#endif
