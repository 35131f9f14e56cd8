// The tree ensembles of ai.onnx.ml.
#ifndef EPHOST_CPU_PASSES_PLANT_TREES_H_
#define EPHOST_CPU_PASSES_PLANT_TREES_H_

#include "toolkit/graph.h"

namespace ephost::cpu {

// Makes forests (engines/ensemble.h) of the attributes of TreeEnsembleClassifier, TreeEnsembleRegressor and
// TreeEnsemble, once for all shapes. The nodes become such of the domain `ephost`, whose second input stands
// for the forest: an empty constant that has it as its packed form. Error where attributes make no trees.
void plant_trees(Graph* graph);

}  // namespace ephost::cpu

#endif
