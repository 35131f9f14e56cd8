#include "fuse.h"

namespace ephost::cpu {

void fuse(Graph* graph) {
  graph->remove_unused();
  graph->sort();
}

}  // namespace ephost::cpu
