#include "toolkit/activations.h"

#include <algorithm>
#include <limits>

namespace ephost {
namespace {

char lower(char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

std::optional<Activated> clip(const Node& node) {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  if (node.version < 11) {
    low = node.f("min", low);
    high = node.f("max", high);
  } else if ((node.in(1) != nullptr && !scalar(node.in(1), &low)) ||
             (node.in(2) != nullptr && !scalar(node.in(2), &high))) {
    return std::nullopt;
  }
  if (!(low <= high)) {
    return std::nullopt;
  }
  return Activated{Activation::kClip, low, high};
}

std::optional<Activated> gelu(const Node& node) {
  const std::string form = node.s("approximate", "none");
  if (form != "none" && form != "tanh") {
    return std::nullopt;
  }
  return Activated{form == "tanh" ? Activation::kGeluTanh : Activation::kGelu, 0, 0};
}

}  // namespace

const ActivationRow* activation_named(std::string_view name) {
  for (const ActivationRow& row : kActivations) {
    const std::string_view own = row.name;
    if (std::equal(name.begin(), name.end(), own.begin(), own.end(),
                   [](char x, char y) { return lower(x) == lower(y); })) {
      return &row;
    }
  }
  return nullptr;
}

std::optional<Activated> activation_of(const Node& node) {
  if (!node.domain.empty() || node.in(0) == nullptr) {
    return std::nullopt;
  }
  if (node.type == "Clip") return clip(node);
  if (node.type == "Gelu") return gelu(node);
  for (const ActivationRow& row : kActivations) {
    if (node.type == row.type) {
      const auto parameter = [&](const char* attribute, float otherwise) {
        return *attribute == '\0' ? otherwise : node.f(attribute, otherwise);
      };
      return Activated{row.activation, parameter(row.a, row.a_default), parameter(row.b, row.b_default)};
    }
  }
  return std::nullopt;
}

}  // namespace ephost
