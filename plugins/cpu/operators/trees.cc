// The tree ensembles of ai.onnx.ml, as passes/plant_trees.cc leaves them: the second input stands for the
// trees.
#include "cpu/engines/ensemble.h"
#include "cpu/engines/scores.h"

namespace ephost::cpu {
namespace {

Kernel ensemble(Prepare& p) {
  const std::shared_ptr<Ensemble> trees = Prepare::packed<Ensemble>(
      p.constant(1), "ensemble",
      []() -> std::shared_ptr<Ensemble> { fail("a tree ensemble has lost its trees"); });
  const Features features(p);
  if (features.columns < trees->columns()) {
    p.invalid("a tree asks for column " + std::to_string(trees->columns() - 1) + " of an input with " +
              std::to_string(features.columns));
  }
  const bool classifies = trees->rules().classifies;
  const int scores = classifies ? 1 : 0;
  const bool labelled = classifies && p.wants(0), scored = p.wants(scores);
  const DType to = p.node.type == "TreeEnsemble" ? features.type : DType::kFloat;
  const Dims shape = {features.rows, trees->rules().targets};
  const size_t room = scored ? 0 : static_cast<size_t>(count(shape)) * size_of(to);  // Labels need scores.
  if (scored) p.out(scores, to, shape);
  if (!labelled) {
    return [=](const Args& args) {
      trees->run(features.type, args.in(0), features.rows, features.columns, to, args.out(scores), nullptr);
    };
  }
  const ClassLabels labels(p.node, "classlabels_int64s", "classlabels_strings");
  const bool texts = labels.type() == DType::kString;
  p.out(0, labels.type(), {features.rows});
  p.scratch(room + (texts ? static_cast<size_t>(features.rows) * sizeof(int64_t) : 0));
  return [=](const Args& args) {
    int64_t* const found = texts ? args.scratch<int64_t>() : args.out<int64_t>(0);
    void* const y = scored ? args.out(scores) : args.scratch<int64_t>() + (texts ? features.rows : 0);
    trees->run(features.type, args.in(0), features.rows, features.columns, to, y, found);
    for (int64_t i = 0; texts && i < features.rows; ++i) {
      labels.write(args.out(0), i, std::min(found[i], labels.size() - 1));  // A single class is always found.
    }
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  for (const char* type : {"TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"}) {
    registry->add({.domain = "ephost",
                   .type = type,
                   .prepare = ensemble,
                   .types = kNumbers | kText,
                   .foldable = false});
  }
});

}  // namespace ephost::cpu
