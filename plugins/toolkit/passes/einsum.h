// Equations of Einsum.
#ifndef EPHOST_TOOLKIT_PASSES_EINSUM_H_
#define EPHOST_TOOLKIT_PASSES_EINSUM_H_

#include <string>
#include <vector>

#include "toolkit/graph.h"

namespace ephost {

// One label for each dimension: letters, and from '0' on what "..." stands for, counted from the right.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

// Reads an equation for inputs of these ranks. False where it is none, or does not fit them.
bool parse_equation(const std::string& text, const std::vector<size_t>& ranks, Equation* out);

// Makes Transpose and MatMul of those Einsum nodes that are products of two matrices or of batches of them,
// each with one label for rows, columns and sums; the others stay.
void rewrite_einsum(Graph* graph);

}  // namespace ephost

#endif
