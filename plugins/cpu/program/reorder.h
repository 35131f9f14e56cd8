// Brings tensors from one layout into another.
#ifndef EPHOST_CPU_PROGRAM_REORDER_H_
#define EPHOST_CPU_PROGRAM_REORDER_H_

#include "cpu/operator.h"

namespace ephost::cpu {

// A kernel of one input and one output. At most one of the two layouts is blocked.
Kernel make_reorder(const Desc& from, Layout to);

}  // namespace ephost::cpu

#endif
