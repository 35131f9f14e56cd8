// com.microsoft's MatMulNBits: what exporters make of the weights of language models.
#include "cpu/engines/as_float.h"
#include "cpu/engines/nbits_product.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

constexpr int kBias = 5;

NBitsSizes sizes_of(const Node& node) {
  return {node.i("K", 0), node.i("N", 0), node.i("block_size", 0), node.i("bits", 4)};
}

std::shared_ptr<NBitsWeights> weights_of(const Node& node) {
  const TensorPtr zeros = node.in(3) == nullptr ? nullptr : node.in(3)->constant;
  return NBitsWeights::of(sizes_of(node), node.in(1)->constant, node.in(2)->constant, zeros);
}

std::string supports(const Node& node) {
  const NBitsSizes sizes = sizes_of(node);
  if (sizes.bits != 2 && sizes.bits != 4 && sizes.bits != 8) return "weights of other than 2, 4 or 8 bits";
  if (sizes.k <= 0 || sizes.n <= 0 || sizes.block < 16 || sizes.block % 16 != 0)
    return "sizes that cannot be";
  if (node.i("weight_prepacked", 0) != 0) return "weights in a form of some other machine";
  if (node.in(4) != nullptr) return "an order of groups";
  for (size_t i : {0, 1, 2}) {
    if (node.in(i) == nullptr) return "an input that it needs is left out";
  }
  for (size_t i : {1, 2, 3}) {
    if (node.in(i) != nullptr && node.in(i)->constant == nullptr) return "weights that are not constant";
  }
  // What the constants have bounds what is asked for, without products that could be too large.
  const TensorPtr codes = node.in(1)->constant, scales = node.in(2)->constant;
  if (codes->type != DType::kUint8 || sizes.k > INT32_MAX || sizes.n > INT32_MAX || sizes.block > INT32_MAX ||
      sizes.n > count(codes->dims) / sizes.block_bytes() / sizes.blocks() ||
      count(codes->dims) != sizes.n * sizes.blocks() * sizes.block_bytes()) {
    return "weights that do not have the sizes it names";
  }
  const int64_t blocks = sizes.n * sizes.blocks();
  if (scales->type == DType::kUint8 || count(scales->dims) != blocks) {
    return "scales that do not have the sizes it names";
  }
  if (node.in(3) != nullptr) {
    const TensorPtr zeros = node.in(3)->constant;
    if (count(zeros->dims) != (zeros->type == DType::kUint8 ? sizes.n * sizes.zero_bytes() : blocks)) {
      return "zero points that do not have the sizes it names";
    }
  }
  return "";
}

Kernel n_bits(Prepare& p) {
  const NBitsSizes sizes = sizes_of(p.node);
  Dims dims = p.dims(0);
  p.expect(!dims.empty() && dims.back() == sizes.k, "an input that does not fit the weights");
  const int64_t rows = count(dims, 0, dims.size() - 1);
  dims.back() = sizes.n;
  p.out(0, DType::kFloat, dims);
  const std::shared_ptr<NBitsWeights> weights = weights_of(p.node);
  const bool biased = p.has(kBias);
  p.expect(!biased || p.in(kBias).count() == sizes.n, "the bias has not one element for each column");
  if (rows == 0) return [](const Args&) {};
  const NBitsMethod method = nbits_method(sizes, rows, p.node.i("accuracy_level", 0));
  p.method(name_of(method));
  p.scratch(nbits_scratch(sizes, rows));
  return [=](const Args& args) {
    nbits_product(method, *weights, args.in<float>(0), rows, biased ? args.in<float>(kBias) : nullptr,
                  args.out<float>(0), args.scratch());
  };
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "MatMulNBits",
                 .supports = supports,
                 .prepare = with_halves(n_bits),
                 .packs = [](const Node&, size_t i) { return i == 1; },
                 .pack = [](const Node& node) { weights_of(node); },
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kUint8, DType::kInt32}});
});

}  // namespace ephost::cpu
