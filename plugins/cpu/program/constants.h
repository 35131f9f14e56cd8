// Weights whose own form the plugin keeps.
#ifndef EPHOST_CPU_PROGRAM_CONSTANTS_H_
#define EPHOST_CPU_PROGRAM_CONSTANTS_H_

#include "toolkit/graph.h"

namespace ephost::cpu {

// What a node has packed of constants in a mapped file is not read there again soon: their pages leave
// memory, so that the file and the packed forms of a whole model are never in memory together.
void let_go_of_packed(const Node& node);

}  // namespace ephost::cpu

#endif
