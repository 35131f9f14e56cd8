// From the host's graph to ours.
#ifndef EPHOST_TOOLKIT_IMPORT_H_
#define EPHOST_TOOLKIT_IMPORT_H_

#include "toolkit/api.h"
#include "toolkit/graph.h"

namespace ephost {

// Imports a graph with its subgraphs. Constants are not copied: their `owner` is null, their memory the
// host's. `parent` is null or the imported graph around it. Throws Error where the host fails or says what
// cannot be.
std::unique_ptr<Graph> import_graph(const Api& api, const OrtGraph* graph, Graph* parent = nullptr);

// An OrtValue that holds a tensor, not copied unless of strings. Null where the element type has no whole
// number of bytes.
TensorPtr import_tensor(const Api& api, const OrtValue* value);

}  // namespace ephost

#endif
