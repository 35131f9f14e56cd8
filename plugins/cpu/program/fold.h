// Constant folding.
#ifndef EPHOST_CPU_PROGRAM_FOLD_H_
#define EPHOST_CPU_PROGRAM_FOLD_H_

#include "toolkit/graph.h"

namespace ephost::cpu {

// Evaluates what can be evaluated without any input; removes those nodes. Before `fuse`, which joins them to
// products, their transposed matrices are left alone.
enum class Fold { kAll, kBeforeFusion };
void fold_constants(Graph* graph, Fold what);

}  // namespace ephost::cpu

#endif
