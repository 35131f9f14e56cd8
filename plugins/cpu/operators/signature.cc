#include "cpu/operators/signature.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace ephost::cpu {

// A row of signatures.inc: tools/operator_signatures.py says what it means.
struct Signature {
  const char* type;
  int since;
  const char* inputs;
  uint32_t types[8];
};

namespace {

constexpr Signature kSignatures[] = {
#include "cpu/operators/signatures.inc"
};

}  // namespace

const Signature* signature_of(const Node& node) {
  // The rows of an operator lie together, in the order of their versions.
  static const auto* const rows = [] {
    auto* made = new std::unordered_map<std::string_view, std::span<const Signature>>;
    for (const Signature& row : kSignatures) {
      const auto [found, is_new] = made->try_emplace(row.type, &row, 1);
      if (!is_new) found->second = {found->second.data(), &row + 1};
    }
    return made;
  }();
  const auto found = node.domain.empty() ? rows->find(node.type) : rows->find(node.domain + "." + node.type);
  // One that is older than ONNX's is onnxruntime's.
  if (found == rows->end() || node.version < found->second.front().since) {
    return nullptr;
  }
  const Signature* best = nullptr;
  for (const Signature& row : found->second) {
    if (row.since <= node.version) best = &row;
  }
  return best;
}

std::string why_not_inputs(const Signature& signature, const Node& node, std::span<const DType> types) {
  const std::string_view inputs = signature.inputs;
  const bool open = !inputs.empty() && inputs.back() == '*';
  const size_t fixed = inputs.size() - (open ? 1 : 0);
  for (size_t i = 0; i < fixed; ++i) {
    if (std::isupper(static_cast<unsigned char>(inputs[i])) && node.in(i) == nullptr) {
      return "its input " + std::to_string(i) + " is missing";
    }
  }
  DType of_letter[8] = {};
  for (size_t i = 0; i < node.inputs.size() && (i < fixed || open); ++i) {
    const char input = inputs[std::min(i, fixed - 1)];
    const size_t letter = static_cast<size_t>(std::toupper(static_cast<unsigned char>(input)) - 'A');
    const DType type = types[i];
    if (node.inputs[i] == nullptr || type == DType::kUndefined) {
      continue;
    }
    if (signature.types[letter] != 0 && (signature.types[letter] >> static_cast<unsigned>(type) & 1) == 0) {
      return "its input " + std::to_string(i) + " has the type " + name_of(type);
    }
    if (of_letter[letter] != DType::kUndefined && of_letter[letter] != type) {
      return "its inputs are of the types " + std::string(name_of(of_letter[letter])) + " and " +
             name_of(type);
    }
    of_letter[letter] = type;
  }
  return "";
}

}  // namespace ephost::cpu
