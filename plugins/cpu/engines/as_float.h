// float16 and bfloat16 for operators that compute in float32: their inputs are converted before the kernel
// runs, their outputs after.
#ifndef EPHOST_CPU_ENGINES_AS_FLOAT_H_
#define EPHOST_CPU_ENGINES_AS_FLOAT_H_

#include "cpu/operator.h"

namespace ephost::cpu {

// What `prepare` makes for the node as if 16-bit floats in it were float32. For operators whose outputs have
// the type of an input, and that ask for no other layout than the plain one where the types are not float32.
// These outputs are float32 all the same.
Kernel as_float(Prepare& p, const std::function<Kernel(Prepare&)>& prepare,
                const std::vector<int>& wide_outputs = {});

// For Operator::prepare.
inline std::function<Kernel(Prepare&)> with_halves(std::function<Kernel(Prepare&)> prepare,
                                                   std::vector<int> wide_outputs = {}) {
  return [prepare = std::move(prepare), outputs = std::move(wide_outputs)](Prepare& p) {
    return as_float(p, prepare, outputs);
  };
}

// "" where these inputs of a node, as far as they are there, have one type, and one of these that are
// computed in float32; else why not.
std::string one_float_type(const Node& node, std::initializer_list<size_t> inputs);

// Conversions between the floating types of storage, on all threads.
void to_float(DType type, const void* from, float* to, int64_t n);
void from_float(DType type, const float* from, void* to, int64_t n);

}  // namespace ephost::cpu

#endif
