// States of loops that never change.
#ifndef EPHOST_TOOLKIT_PASSES_INVARIANTS_H_
#define EPHOST_TOOLKIT_PASSES_INVARIANTS_H_

#include "toolkit/graph.h"

namespace ephost {

// Has the bodies of Loop and Scan read a state that they hand on as it is from the graph around them, where
// it is what it was before the first iteration. Exporters of TensorFlow write all that a loop reads as
// states, its weights too: those need not be copied in each iteration then, and are constants in the body
// where they are outside of it. Run it before constants are folded. It goes through the subgraphs, too.
void read_invariants_from_outside(Graph* graph);

}  // namespace ephost

#endif
