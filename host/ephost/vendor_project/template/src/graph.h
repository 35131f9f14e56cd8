// Reading the host's graph: what claiming and compiling both need.
//
// All of it is the host's, and valid only during the call in which we got it. Values are known by their
// names: the pointer to one differs between a group and the graph that it was taken from.
#ifndef GRAPH_H_
#define GRAPH_H_

#include <string>
#include <vector>

#include "host.h"
#include "operators.h"

namespace plugin {

// A graph's nodes, each after those that it depends on.
std::vector<const OrtNode*> nodes_of(const Host& host, const OrtGraph* graph);

// The values of a node. One that is left out (an optional input) is NULL.
std::vector<const OrtValueInfo*> inputs_of(const Host& host, const OrtNode* node);
std::vector<const OrtValueInfo*> outputs_of(const Host& host, const OrtNode* node);
// What the subgraphs of an If, Loop or Scan read from outside of them: the node depends on these as on its
// inputs.
std::vector<const OrtValueInfo*> implicit_inputs_of(const Host& host, const OrtNode* node);

std::string name_of(const Host& host, const OrtValueInfo* value);
// A node's name and operator, for messages.
std::string describe(const Host& host, const OrtNode* node);

const Operator* operator_of(const Host& host, const OrtNode* node);

// Whether a value is known to be a float32 tensor. Its shape may be open: we look at it in each run.
bool is_float_tensor(const Host& host, const OrtValueInfo* value);

}  // namespace plugin

#endif
