#include "cpu/operators/signature.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
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
  static const auto* const first = [] {
    auto* made = new std::unordered_map<std::string_view, const Signature*>;
    for (const Signature& row : kSignatures) made->emplace(row.type, &row);
    return made;
  }();
  const std::string name = node.domain.empty() ? node.type : node.domain + "." + node.type;
  const auto found = first->find(name);
  // One that is older than ONNX's is onnxruntime's.
  if (found == first->end() || node.version < found->second->since) {
    return nullptr;
  }
  const Signature* best = found->second;  // The rows of an operator are in the order of their versions.
  for (const Signature* row = best; row != std::end(kSignatures) && name == row->type; ++row) {
    if (row->since <= node.version) best = row;
  }
  return best;
}

std::string why_not_inputs(const Signature& signature, const Node& node, const std::vector<DType>& types) {
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
