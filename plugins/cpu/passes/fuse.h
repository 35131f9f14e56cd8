// Rewrites that make fewer and larger operators of a graph, before it is planned.
#ifndef EPHOST_CPU_PASSES_FUSE_H_
#define EPHOST_CPU_PASSES_FUSE_H_

#include "toolkit/graph.h"

namespace ephost::cpu {

// Runs all passes. What they make has the domain "ephost", and operators of it in operators/.
void fuse(Graph* graph);

// CastLike of a known type is Cast: what it took the type from has one reader less.
void make_casts_of_casts_like(Graph* graph);
// Makes "ephost.Elementwise" of trees of elementwise nodes: see engines/expression.h.
void fuse_elementwise(Graph* graph);
// Makes operators on bytes of those on floats in quantised models, and one operator of each dynamically
// quantised matrix product.
void fuse_quantized(Graph* graph);

}  // namespace ephost::cpu

#endif
