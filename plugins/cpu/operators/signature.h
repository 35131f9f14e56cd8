// What the standard says about an operator's inputs, held against those of a node.
#ifndef EPHOST_CPU_OPERATORS_SIGNATURE_H_
#define EPHOST_CPU_OPERATORS_SIGNATURE_H_

#include <span>
#include <string>

#include "toolkit/graph.h"

namespace ephost::cpu {

struct Signature;

// The operator's, as of the node's version; null for operators that are not in the table.
const Signature* signature_of(const Node& node);

// Whether the node has the inputs that it needs, of types that go together: "" or what is wrong. `types` has
// the element type of each input, kUndefined where it is not known or there is no input. A host should have
// seen to this: kernels read memory as what they take it for, so that it is not left to the host.
std::string why_not_inputs(const Signature& signature, const Node& node, std::span<const DType> types);

}  // namespace ephost::cpu

#endif
