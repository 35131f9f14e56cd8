// Activation functions: which there are, and which one a node is.
#ifndef EPHOST_TOOLKIT_ACTIVATIONS_H_
#define EPHOST_TOOLKIT_ACTIVATIONS_H_

#include <optional>
#include <string_view>

#include "toolkit/activation_table.h"
#include "toolkit/graph.h"

namespace ephost {

enum class Activation : uint8_t {
#define X(name, ...) k##name,
  EPHOST_ACTIVATIONS(X)
#undef X
};

// A row of activation_table.h.
struct ActivationRow {
  Activation activation;
  const char* name;
  const char* type;  // "" where there is no operator for it alone.
  int since;
  const char* a;
  float a_default;
  const char* b;
  float b_default;
  bool exponential, epilogue;
};
inline constexpr ActivationRow kActivations[] = {
#define X(name, ...) {Activation::k##name, #name, __VA_ARGS__},
    EPHOST_ACTIVATIONS(X)
#undef X
};
inline const ActivationRow& row_of(Activation activation) {
  return kActivations[static_cast<size_t>(activation)];
}
// By its name, in whatever case. Null if there is none.
const ActivationRow* activation_named(std::string_view name);

// An activation with its parameters.
struct Activated {
  Activation activation;
  float a, b;
};
// What a node of ONNX's computes of its first input, if it is an activation whose parameters are known.
std::optional<Activated> activation_of(const Node& node);

}  // namespace ephost

#endif
