// com.microsoft's MatMulNBits: what exporters make of the weights of language models.
#include "cpu/engines/as_float.h"
#include "cpu/engines/nbits_order.h"
#include "cpu/engines/nbits_product.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

constexpr int kOrder = 4, kBias = 5;

NBitsSizes sizes_of(const Node& node) {
  return {node.i("K", 0), node.i("N", 0), node.i("block_size", 0), node.i("bits", 4)};
}

// Made once for all shapes; null where the weights lie in the order of their groups.
std::shared_ptr<const NBitsOrder> order_of(const Node& node) {
  if (node.in(kOrder) == nullptr) return nullptr;
  const TensorPtr& groups = node.in(kOrder)->constant;
  const NBitsSizes sizes = sizes_of(node);
  std::string key = "order of n bits";  // Models may share it between weights of other sizes.
  for (const int64_t size : {sizes.k, sizes.n, sizes.block, sizes.bits}) key += ' ' + std::to_string(size);
  return Prepare::packed<NBitsOrder>(groups, key,
                                     [&] { return NBitsOrder::of(sizes, groups->as<int32_t>()); });
}

std::shared_ptr<NBitsWeights> weights_of(const Node& node, const NBitsOrder* order) {
  const TensorPtr &codes = node.in(1)->constant, &scales = node.in(2)->constant;
  const TensorPtr zeros = node.in(3) == nullptr ? nullptr : node.in(3)->constant;
  if (order == nullptr) return NBitsWeights::of(sizes_of(node), codes, scales, zeros);
  std::string key = "n bits in order";
  for (const Tensor* with : {scales.get(), zeros.get(), node.in(kOrder)->constant.get()}) {
    key += ' ';
    key += std::to_string(reinterpret_cast<uintptr_t>(with));
  }
  return Prepare::packed<NBitsWeights>(codes, key, [&] {
    return std::make_shared<NBitsWeights>(order->arrange(*codes, *scales, zeros.get()));
  });
}

bool is_constant(const Node& node) {
  const auto is_known = [&](size_t i) { return node.in(i) == nullptr || node.in(i)->constant != nullptr; };
  return is_known(1) && is_known(2) && is_known(3);
}

// Whether codes, scales and zero points (no type: none) have the sizes that the node names; what they have
// bounds what it asks for, without products that could be too large.
std::string why_not_sizes(const NBitsSizes& sizes, DType codes_type, int64_t codes, DType scales_type,
                          int64_t scales, DType zeros_type, int64_t zeros) {
  if (codes_type != DType::kUint8 || sizes.n > codes / sizes.block_bytes() / sizes.blocks() ||
      codes != sizes.n * sizes.blocks() * sizes.block_bytes()) {
    return "weights that do not have the sizes it names";
  }
  const int64_t blocks = sizes.n * sizes.blocks();
  if (scales_type == DType::kUint8 || scales != blocks) return "scales that do not have the sizes it names";
  if (zeros_type != DType::kUndefined &&
      zeros != (zeros_type == DType::kUint8 ? sizes.n * sizes.zero_bytes() : blocks)) {
    return "zero points that do not have the sizes it names";
  }
  return "";
}

std::string supports(const Node& node) {
  const NBitsSizes sizes = sizes_of(node);
  if (sizes.bits != 2 && sizes.bits != 4 && sizes.bits != 8) return "weights of other than 2, 4 or 8 bits";
  if (sizes.k <= 0 || sizes.n <= 0 || sizes.block < 16 || sizes.block % 16 != 0 || sizes.k > INT32_MAX ||
      sizes.n > INT32_MAX || sizes.block > INT32_MAX) {
    return "sizes that cannot be";
  }
  if (node.i("weight_prepacked", 0) != 0) return "weights in a form of some other machine";
  if (const Value* order = node.in(kOrder); order != nullptr) {
    if (order->constant == nullptr || !is_constant(node))
      return "an order of groups that is known in runs alone";
    if (order->constant->type != DType::kInt32 || count(order->constant->dims) < sizes.k) {
      return "an order of groups of another size";
    }
  }
  for (size_t i : {0, 1, 2}) {
    if (node.in(i) == nullptr) return "an input that it needs is left out";
  }
  if (!is_constant(node)) return "";  // A run says.
  const Tensor &codes = *node.in(1)->constant, &scales = *node.in(2)->constant;
  const Tensor* const zeros = node.in(3) == nullptr ? nullptr : node.in(3)->constant.get();
  return why_not_sizes(sizes, codes.type, count(codes.dims), scales.type, count(scales.dims),
                       zeros == nullptr ? DType::kUndefined : zeros->type,
                       zeros == nullptr ? 0 : count(zeros->dims));
}

// Weights that a run brings, which are brought into their form for it alone.
std::function<std::shared_ptr<NBitsWeights>(const Args&)> weights_of_runs(Prepare& p,
                                                                          const NBitsSizes& sizes) {
  const bool with_zeros = p.has(3);
  const DType zeros_type = with_zeros ? p.type(3) : DType::kUndefined;
  const std::string why = why_not_sizes(sizes, p.type(1), p.in(1).count(), p.type(2), p.in(2).count(),
                                        zeros_type, with_zeros ? p.in(3).count() : 0);
  p.expect(why.empty(), why.c_str());
  std::vector<Desc> descs = {p.in(1), p.in(2)};
  if (with_zeros) descs.push_back(p.in(3));
  return [=](const Args& args) {
    Tensor tensors[3];
    for (size_t i = 0; i < descs.size(); ++i) {
      tensors[i].type = descs[i].type;
      tensors[i].dims = descs[i].dims;
      tensors[i].data = args.in(static_cast<int>(i) + 1);
    }
    return std::make_shared<NBitsWeights>(sizes, tensors[0], tensors[1], with_zeros ? tensors + 2 : nullptr);
  };
}

Kernel n_bits(Prepare& p) {
  const NBitsSizes sizes = sizes_of(p.node);
  Dims dims = p.dims(0);
  p.expect(!dims.empty() && dims.back() == sizes.k, "an input that does not fit the weights");
  const int64_t rows = count(dims, 0, dims.size() - 1);
  dims.back() = sizes.n;
  p.out(0, DType::kFloat, dims);
  std::function<std::shared_ptr<NBitsWeights>(const Args&)> weights;
  const std::shared_ptr<const NBitsOrder> order = order_of(p.node);
  if (is_constant(p.node)) {
    weights = [made = weights_of(p.node, order.get())](const Args&) { return made; };
  } else {
    weights = weights_of_runs(p, sizes);
  }
  const bool biased = p.has(kBias);
  p.expect(!biased || p.in(kBias).count() == sizes.n, "the bias has not one element for each column");
  if (rows == 0) return [](const Args&) {};
  const NBitsSizes& multiplied = order == nullptr ? sizes : order->sizes();
  const NBitsMethod method = nbits_method(multiplied, rows, p.node.i("accuracy_level", 0));
  p.method(name_of(method));
  const size_t gathered = order == nullptr ? 0 : static_cast<size_t>(rows * multiplied.k) * sizeof(float);
  p.scratch(gathered + nbits_scratch(multiplied, rows));
  return [=](const Args& args) {
    const float* x = args.in<float>(0);
    if (order != nullptr) {
      order->gather(x, rows, args.scratch<float>());
      x = args.scratch<float>();
    }
    nbits_product(method, *weights(args), x, rows, biased ? args.in<float>(kBias) : nullptr,
                  args.out<float>(0), args.scratch<char>() + gathered);
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "MatMulNBits",
                 .supports = supports,
                 .prepare = with_halves(n_bits),
                 .packs = [](const Node& node, size_t i) { return i == 1 && is_constant(node); },
                 .pack =
                     [](const Node& node) {
                       if (!is_constant(node)) return false;
                       weights_of(node, order_of(node).get());
                       return true;
                     },
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kUint8, DType::kInt32}});
});

}  // namespace ephost::cpu
