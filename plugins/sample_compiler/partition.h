#ifndef SAMPLE_COMPILER_PARTITION_H_
#define SAMPLE_COMPILER_PARTITION_H_

#include "../common/factory.h"

/* Claims each maximal group of neighbouring nodes that we can compile, so that no group depends on itself by
 * way of somebody else's node. A group may be a single node. */
OrtStatus* partition_graph(const Factory* factory, const OrtGraph* graph, OrtEpGraphSupportInfo* support);

#endif
