// What can be computed: a table of elementwise operators on float32. It knows nothing of the host.
#ifndef OPERATORS_H_
#define OPERATORS_H_

#include <cstddef>
#include <string>

namespace plugin {

// out[i] = f(a[i], b[i]) for i < n; an operator of one input ignores b. out may be a or b itself.
using Row = void (*)(const float* a, const float* b, float* out, size_t n);

// An operator of the default ONNX domain. A node's "since version" is the opset in which its operator last
// changed. Whether a later change matters can only be said by who reads it, so the range of versions is
// closed.
struct Operator {
  const char* type;
  size_t inputs;
  int since_first;
  int since_last;
  Row row;
};

// NULL where there is none for this domain, type and version: it takes all three to know an operator.
const Operator* find_operator(const std::string& domain, const std::string& type, int since_version);

}  // namespace plugin

#endif
