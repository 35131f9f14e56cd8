// GetCapability: which nodes we take, and in which groups.
#ifndef CLAIMS_H_
#define CLAIMS_H_

#include "graph.h"
#include "options.h"

namespace plugin {

// Claims groups of nodes that we can compile. Says in the log why it leaves others.
void claim(const Host& host, const Options& options, const OrtLogger* logger, const OrtGraph* graph,
           OrtEpGraphSupportInfo* support);

}  // namespace plugin

#endif
