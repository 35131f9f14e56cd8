// com.microsoft.QMoE: mixtures of experts whose weights have two, three, four or eight bits.
#include <algorithm>
#include <string>
#include <vector>

#include "cpu/engines/as_float.h"
#include "cpu/engines/experts.h"
#include "cpu/engines/nbits_product.h"
#include "cpu/operator.h"

namespace ephost::cpu {
namespace {

constexpr int kWeights = 14;  // Of what experts say, where they are not the router's.
constexpr int kFirstOfFloats = 15;

// The inputs of one of an expert's matrices.
struct Projection {
  int codes, scales, bias, zeros;
  const char *name, *bits;
};
constexpr Projection kUp{2, 3, 4, 11, "first", "fc1_expert_weight_bits"};
constexpr Projection kDown{5, 6, 7, 12, "second", "fc2_expert_weight_bits"};
constexpr Projection kGate{8, 9, 10, 13, "third", "fc3_expert_weight_bits"};

TensorPtr constant(const Node& node, int i) {
  const Value* const value = node.in(static_cast<size_t>(i));
  return value == nullptr ? nullptr : value->constant;
}

int64_t bits_of(const Node& node, const Projection& of) {
  return node.i(of.bits, node.i("expert_weight_bits", 4));
}

// Of three bits, which lie across the borders of bytes.
int three_bits(const uint8_t* from, int64_t i) {
  const int64_t at = i * 3 / 8, shift = i * 3 % 8;
  const int high = shift > 5 ? from[at + 1] << 8 : 0;
  return (from[at] | high) >> shift & 7;
}

// Of one expert. Without blocks a row has one scale. What has three bits is kept in four.
NBitsSizes sizes_of(const Node& node, const Projection& of) {
  const Dims dims = constant(node, of.codes)->dims;
  const int64_t bits = bits_of(node, of), k = dims[2] * 8 / bits, block = node.i("block_size", 0);
  return {k, dims[1], block > 0 ? block : k, bits == 3 ? 4 : bits};
}

std::string why_not_three_bits(const Node& node, const TensorPtr& codes, const TensorPtr& zeros) {
  const int64_t block = node.i("block_size", 0), row = codes->dims[2];
  if (node.s("activation_type", "relu") != "swiglu" || node.i("swiglu_fusion", 0) != 1 ||
      node.i("weights_prepacked", -1) != 0 || (block != 32 && block != 64 && block != 128)) {
    return "three bits, but not in blocks of 32, 64 or 128 for SwiGLU of one matrix whose rows take turns";
  }
  if (row % 3 != 0 || row * 8 / 3 % block != 0) return "rows that are no multiple of the block's";
  if (zeros == nullptr) return "";
  const int64_t blocks = row * 8 / 3 / block, bytes = (3 * blocks + 7) / 8;
  if (zeros->dims != Dims({codes->dims[0], codes->dims[1], bytes})) return "zero points of another shape";
  for (int64_t i = 0; i < codes->dims[0] * codes->dims[1]; ++i) {
    for (int64_t j = 0; j < blocks; ++j) {
      if (three_bits(zeros->as<uint8_t>() + i * bytes, j) != 4) return "three bits, and zero points but 4";
    }
  }
  return "";
}

std::string why_not(const Node& node, const Projection& of) {
  const auto of_matrix = [&](const char* what) {
    return "the " + std::string(of.name) + " matrix has " + what;
  };
  const TensorPtr codes = constant(node, of.codes), scales = constant(node, of.scales);
  const TensorPtr zeros = constant(node, of.zeros);
  const bool has_zeros = node.in(static_cast<size_t>(of.zeros)) != nullptr;
  if (codes == nullptr || scales == nullptr || (has_zeros && zeros == nullptr))
    return of_matrix("weights, scales or zero points that are not constant");
  if (codes->type != DType::kUint8 || (has_zeros && zeros->type != DType::kUint8))
    return of_matrix("weights or zero points that are not bytes");
  const int64_t bits = bits_of(node, of), block = node.i("block_size", 0);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    return of_matrix("weights of other than 2, 3, 4 or 8 bits");
  if (codes->dims.size() != 3) return of_matrix("weights of other than three dimensions");
  const int64_t experts = codes->dims[0], n = codes->dims[1];
  // Of an empty tensor a dimension may be anything.
  if (std::any_of(codes->dims.begin(), codes->dims.end(), [](int64_t d) { return d <= 0 || d > INT32_MAX; }))
    return of_matrix("weights of a shape that cannot be");
  if (bits == 3) {
    if (const std::string reason = why_not_three_bits(node, codes, zeros); !reason.empty())
      return of_matrix(reason.c_str());
  }
  if (bits != 8 && node.i("weights_prepacked", -1) == 1)
    return of_matrix("weights in a form of some other machine");
  const NBitsSizes sizes = sizes_of(node, of);
  if (sizes.k <= 0 || sizes.n <= 0 || sizes.block < 16 || sizes.block % 16 != 0 || sizes.k % sizes.block != 0)
    return of_matrix("rows that are no multiple of 16 elements and of the block's");
  if (!(block > 0 ? scales->dims == Dims({experts, n, sizes.blocks()}) : scales->dims == Dims({experts, n})))
    return of_matrix("scales of another shape");
  if (has_zeros && bits != 3 &&
      !(block > 0 ? zeros->dims == Dims({experts, n, sizes.zero_bytes()})
                  : zeros->dims == Dims({experts, (n * bits + 7) / 8})))
    return of_matrix("zero points of another shape");
  return "";
}

std::string supports(const Node& node) {
  const Activation activation(node);
  if (const std::string reason = activation.supports(); !reason.empty()) return reason;
  if (node.i("use_sparse_mixer", 0) != 0) return "a sparse mixer";
  if (node.s("quant_type", "int") != "int") return "weights that are not integers";
  for (int i = kFirstOfFloats; i < static_cast<int>(node.inputs.size()); ++i) {
    if (node.in(static_cast<size_t>(i)) != nullptr) return "scales of weights that are not integers";
  }
  if ((node.in(static_cast<size_t>(kGate.codes)) != nullptr) != activation.takes_two())
    return "a third matrix where SwiGLU has one, or none";
  for (const Projection& of : {kUp, kDown, kGate}) {
    if (of.codes == kGate.codes && !activation.takes_two()) continue;
    if (const std::string reason = why_not(node, of); !reason.empty()) return reason;
  }
  return one_float_type(node, {0, 1, 3, 4, 6, 7, 9, 10, kWeights});
}

// Of three bits, in four: 4, their zero point, becomes 8.
std::vector<uint8_t> in_four_bits(const uint8_t* from, int64_t n) {
  std::vector<uint8_t> made(static_cast<size_t>(n / 2));
  for (int64_t i = 0; i < n; i += 2) {
    made[static_cast<size_t>(i / 2)] =
        static_cast<uint8_t>(three_bits(from, i) + 4 + ((three_bits(from, i + 1) + 4) << 4));
  }
  return made;
}

// Without blocks the zero points of an expert's rows lie side by side.
std::vector<float> zeros_of_rows(const uint8_t* from, int64_t n, int64_t bits) {
  std::vector<float> made(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    made[static_cast<size_t>(i)] = static_cast<float>(nbits_code(from, i, bits));
  }
  return made;
}

using Experts = std::vector<NBitsWeights>;

// The weights of all experts, made once of a session's constants.
std::shared_ptr<Experts> experts_of(const Node& node, const Projection& of) {
  const TensorPtr codes = constant(node, of.codes), scales = constant(node, of.scales);
  const bool three = bits_of(node, of) == 3;
  const TensorPtr zeros = three ? nullptr : constant(node, of.zeros);
  const NBitsSizes sizes = sizes_of(node, of);
  const bool blocks = node.i("block_size", 0) > 0;
  const auto named = [](const TensorPtr& tensor) {
    return std::to_string(reinterpret_cast<uintptr_t>(tensor.get()));
  };
  const std::string key = "experts of " + std::to_string(bits_of(node, of)) + " bits by " +
                          std::to_string(sizes.block) + ", " + named(scales) + " and " + named(zeros);
  return Prepare::packed<Experts>(codes, key, [&] {
    auto made = std::make_shared<Experts>();
    const int64_t experts = codes->dims[0];
    made->reserve(static_cast<size_t>(experts));
    for (int64_t e = 0; e < experts; ++e) {
      const auto part = [&](const Tensor& all, Tensor* one) {
        one->type = all.type;
        one->dims = Dims(all.dims.begin() + 1, all.dims.end());
        one->data = all.as<char>() + static_cast<size_t>(e) * (all.bytes() / static_cast<size_t>(experts));
      };
      Tensor of_codes, of_scales, of_zeros;
      part(*codes, &of_codes);
      std::vector<uint8_t> widened;
      if (three) {
        widened = in_four_bits(of_codes.as<uint8_t>(), sizes.n * sizes.k);
        of_codes.dims = {sizes.n, sizes.k / 2};
        of_codes.data = widened.data();
      }
      part(*scales, &of_scales);
      std::vector<float> numbers;
      if (zeros != nullptr) part(*zeros, &of_zeros);
      if (zeros != nullptr && !blocks) {
        numbers = zeros_of_rows(of_zeros.as<uint8_t>(), sizes.n, sizes.bits);
        of_zeros.type = DType::kFloat;
        of_zeros.dims = {sizes.n};
        of_zeros.data = numbers.data();
      }
      made->emplace_back(sizes, of_codes, of_scales, zeros == nullptr ? nullptr : &of_zeros);
    }
    return made;
  });
}

class QuantizedMatrix final : public ExpertMatrix {
 public:
  QuantizedMatrix(const Prepare& p, const Projection& of)
      : weights_(experts_of(p.node, of)),
        sizes_(sizes_of(p.node, of)),
        level_(p.node.i("accuracy_level", 0)),
        bias_(p.has(of.bias) ? of.bias : -1) {
    if (bias_ >= 0) {
      expect_bias(p, of.name, p.dims(bias_), {static_cast<int64_t>(weights_->size()), sizes_.n});
    }
  }
  size_t scratch(int64_t rows) const override { return nbits_scratch(sizes_, rows); }
  void multiply(const Args& args, int64_t expert, const float* x, int64_t m, float* y,
                void* scratch) const override {
    const float* const bias = bias_ < 0 ? nullptr : args.in<float>(bias_) + expert * sizes_.n;
    nbits_product(nbits_method(sizes_, m, level_), (*weights_)[static_cast<size_t>(expert)], x, m, bias, y,
                  scratch);
  }

 private:
  std::shared_ptr<Experts> weights_;
  NBitsSizes sizes_;
  int64_t level_;
  int bias_;
};

Kernel quantized_moe(Prepare& p) {
  Mixture mixture(p);

  const NBitsSizes up = sizes_of(p.node, kUp), down = sizes_of(p.node, kDown);
  mixture.inner = down.k;
  p.expect(p.dims(kUp.codes)[0] == mixture.experts && p.dims(kDown.codes)[0] == mixture.experts &&
               up.k == mixture.hidden && up.n == mixture.activation.width(mixture.inner) &&
               down.n == mixture.hidden,
           "the experts' matrices do not fit each other, the input or the router");
  // As onnxruntime has it: with weights of three bits it asks the node.
  const bool three = bits_of(p.node, kUp) == 3 || bits_of(p.node, kDown) == 3;
  mixture.normalize = !three || p.node.i("normalize_routing_weights", 0) != 0;
  mixture.up = std::make_shared<QuantizedMatrix>(p, kUp);
  mixture.down = std::make_shared<QuantizedMatrix>(p, kDown);
  if (p.has(kGate.codes)) {
    p.expect(p.dims(kGate.codes)[0] == mixture.experts && sizes_of(p.node, kGate).n == up.n &&
                 sizes_of(p.node, kGate).k == up.k,
             "the third matrix has the shape of the first");
    mixture.gate = std::make_shared<QuantizedMatrix>(p, kGate);
  }
  const bool weighted = p.has(kWeights);
  if (weighted) {
    p.expect(p.dims(kWeights) == p.dims(1),
             "the weights of the experts have the shape of the router's scores");
    mixture.normalize = p.node.i("normalize_routing_weights", 0) != 0;
  }
  mixture.reserve(p);
  return [mixture, weighted](const Args& args) {
    mixture.run(args, weighted ? args.in<float>(kWeights) : nullptr);
  };
}

bool pack(const Node& node) {
  for (const Projection& of : {kUp, kDown, kGate}) {
    if (constant(node, of.codes) != nullptr) experts_of(node, of);
  }
  return true;
}

}  // namespace

const Registration registration([](Registry* registry) {
  registry->add({.domain = "com.microsoft",
                 .type = "QMoE",
                 .supports = supports,
                 .prepare = with_halves(quantized_moe),
                 .packs =
                     [](const Node&, size_t i) {
                       const int at = static_cast<int>(i);
                       return at == kUp.codes || at == kDown.codes || at == kGate.codes;
                     },
                 .pack = pack,
                 .types = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kUint8}});
});

}  // namespace ephost::cpu
