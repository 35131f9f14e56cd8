#include "cuda/operators/checks.h"

namespace ephost::cuda {

namespace {

std::string castable(const Node& node) {
  static constexpr Types kTypes{DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kInt32,
                                DType::kInt64, DType::kUint8,   DType::kInt8,     DType::kBool};
  return all_are(node, kTypes);
}

void plan_cast(Planner& planner, const Node& node) {
  const Value *in = node.in(0), *out = node.out();
  if (kInteger.has(planner.type(in)) && kInteger.has(out->type) && planner.has_content(in)) {
    planner.give(out, planner.dims(in), planner.content(in));
    return;
  }
  if (planner.type(in) == out->type) {
    planner.alias(out, in, planner.dims(in));
    return;
  }
  const auto element = [](DType type) {
    switch (type) {
      case DType::kFloat16:
        return Element::kHalf;
      case DType::kBFloat16:
        return Element::kBfloat;
      case DType::kInt32:
        return Element::kInt32;
      case DType::kInt64:
        return Element::kInt64;
      case DType::kUint8:
        return Element::kUint8;
      case DType::kInt8:
        return Element::kInt8;
      case DType::kBool:
        return Element::kBool;
      default:
        return Element::kFloat;
    }
  };
  const Place from = planner.read(in);
  const Dims dims = planner.dims(in);
  const Place to = planner.write(out, dims);
  CastArguments args = {nullptr, nullptr, ephost::count(dims), element(planner.type(in)), element(out->type)};
  const CUfunction function = planner.kernel("cast_elements");
  if (args.count > 0) {
    planner.step([=](const Launch& launch) {
      CastArguments now = args;
      now.from = launch.address(from);
      now.to = launch.address(to);
      launch.kernel(function, {blocks_for(now.count), 1, 1}, {kBlock, 1, 1}, &now);
    });
  }
}

const Registered kRegistered({{.type = "Cast", .since = 6, .supports = castable, .plan = plan_cast}});

}  // namespace

}  // namespace ephost::cuda
