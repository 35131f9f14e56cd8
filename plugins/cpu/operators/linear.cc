// Linear models of ai.onnx.ml.
#include "cpu/engines/scores.h"
#include "cpu/simd/simd.h"

namespace ephost::cpu {
namespace {

constexpr const char* kDomain = "ai.onnx.ml";

// Coefficients [targets, features], one intercept for each target or none.
struct Linear {
  std::vector<float> coefficients, intercepts;
  int64_t targets = 1;
  PostTransform how = PostTransform::kNone;

  int64_t features() const { return static_cast<int64_t>(coefficients.size()) / targets; }

  // The scores [rows, targets] of rows of features, some rows at a time.
  std::function<void(const float* x, int64_t rows, float* scores)> scorer(const Prepare& p,
                                                                          int64_t columns) const {
    // onnxruntime takes the first coefficients where there are more than features.
    if (columns > features()) {
      p.invalid("rows of " + std::to_string(columns) + " features for " + std::to_string(features()) +
                " coefficients of each target");
    }
    const PackedMatrix matrix(coefficients.data(), 1, columns, columns, targets);
    return [matrix, bias = intercepts](const float* x, int64_t rows, float* scores) {
      matrix.multiply(x, rows, bias.empty() ? nullptr : bias.data(), scores);
    };
  }
  // Rows that are worth a thread. Several targets are computed in panels.
  int64_t grain() const {
    const int64_t panel = targets == 1 ? 1 : simd().panel,
                  computed = (targets + panel - 1) / panel * panel * features();
    return 1 + 8 * kGrain / (computed + 1);
  }
};

void check(const Node& node, const Linear& model) {
  expect(node, !model.coefficients.empty(), "it has no coefficients");
  expect(node, model.targets > 0 && static_cast<int64_t>(model.coefficients.size()) % model.targets == 0,
         std::to_string(model.coefficients.size()) + " coefficients for " + std::to_string(model.targets) +
             " targets");
}

// ---- LinearRegressor

Linear regressor_of(const Node& node) {
  Linear model;
  model.coefficients = node.floats("coefficients");
  model.targets = node.i("targets", 1);
  model.how = post_transform(node);
  check(node, model);
  model.intercepts = node.floats("intercepts");
  if (static_cast<int64_t>(model.intercepts.size()) != model.targets) {
    expect(node, model.intercepts.empty(),
           std::to_string(model.intercepts.size()) + " intercepts for " + std::to_string(model.targets) +
               " targets");
  }
  return model;
}

Kernel linear_regressor(Prepare& p) {
  const Linear model = regressor_of(p.node);
  const Features features(p);
  const auto score = model.scorer(p, features.columns);
  p.out(0, DType::kFloat, {features.rows, model.targets});
  p.scratch(features.room());
  return [=, targets = model.targets, how = model.how, grain = model.grain()](const Args& args) {
    const float* x = features.get(args.in(0), args.scratch());
    parallel_for(features.rows, grain, [&](int64_t i, int64_t end) {
      float* to = args.out<float>() + i * targets;
      score(x + i * features.columns, end - i, to);
      transform(how, to, end - i, targets);
    });
  };
}

// ---- LinearClassifier

struct Classifier {
  explicit Classifier(const Node& node) : labels(node, "classlabels_ints", "classlabels_strings") {
    model.coefficients = node.floats("coefficients");
    model.intercepts = node.floats("intercepts");
    model.targets = std::max<int64_t>(1, static_cast<int64_t>(model.intercepts.size()));
    model.how = post_transform(node);
    check(node, model);
    if (model.targets > 1) {
      expect(node, labels.size() >= model.targets,
             std::to_string(labels.size()) + " labels for the scores of " + std::to_string(model.targets) +
                 " classes");
    } else {
      expect(node, labels.size() == 2,
             std::to_string(labels.size()) + " labels for one score of two classes");
    }
  }
  Linear model;
  ClassLabels labels;
  // Whether one score tells two classes apart; then both get one.
  bool two() const { return model.targets == 1; }
};

Kernel linear_classifier(Prepare& p) {
  const Classifier of(p.node);
  const Features features(p);
  const auto score = of.model.scorer(p, features.columns);
  p.out(0, of.labels.type(), {features.rows});
  const bool wanted = p.wants(1);
  if (wanted) p.out(1, DType::kFloat, {features.rows, of.two() ? 2 : of.model.targets});
  const size_t room = (features.room() + 63) / 64 * 64;
  const bool apart = of.two() || !wanted;  // Whether scores are computed elsewhere than in the output.
  p.scratch(room + (apart ? static_cast<size_t>(features.rows * of.model.targets) * sizeof(float) : 0));
  return [=, labels = of.labels, two = of.two(), targets = of.model.targets, how = of.model.how,
          grain = of.model.grain()](const Args& args) {
    const float* x = features.get(args.in(0), args.scratch());
    float* all = apart ? reinterpret_cast<float*>(args.scratch<char>() + room) : args.out<float>(1);
    parallel_for(features.rows, grain, [&](int64_t begin, int64_t end) {
      float* scores = all + begin * targets;
      score(x + begin * features.columns, end - begin, scores);
      for (int64_t i = begin; i < end; ++i) {
        const float* row = scores + (i - begin) * targets;
        labels.write(args.out(0), i, targets == 1 ? row[0] > 0 : largest_of(row, targets));
        if (two && wanted) both_classes(how, false, row[0], args.out<float>(1) + 2 * i);
      }
      if (!two) transform(how, scores, end - begin, targets);
    });
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = kDomain,
                 .type = "LinearRegressor",
                 .supports = [](const Node& node) { return regressor_of(node), std::string(); },
                 .prepare = linear_regressor,
                 .types = kFeatures});
  registry->add({.domain = kDomain,
                 .type = "LinearClassifier",
                 .supports = [](const Node& node) { return Classifier(node), std::string(); },
                 .prepare = linear_classifier,
                 .types = kFeatures | kText});
});

}  // namespace ephost::cpu
