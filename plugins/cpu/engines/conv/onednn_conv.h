// Convolutions on oneDNN, with the epilogue inside of its primitives where it has that.
#ifndef EPHOST_CPU_ENGINES_CONV_ONEDNN_CONV_H_
#define EPHOST_CPU_ENGINES_CONV_ONEDNN_CONV_H_

#include <optional>

#include "cpu/engines/conv/problem.h"
#include "cpu/engines/onednn_epilogue.h"

namespace ephost::cpu {

// A primitive and what it reads and writes.
struct OnednnConv {
  dnnl::primitive primitive;  // Empty where it was only looked for: making it costs compilation.
  dnn::Md source, weights, bias, target, scratch;
  std::string implementation;
};

// What oneDNN does of the epilogue itself. What comes after is quicker on our own loops than in oneDNN's code
// for AVX2: the functions that take exponentials. Additions stay before.
size_t first_slow(const std::vector<PostOp>& post_ops, const ConvProblem& problem);

// A convolution that oneDNN is asked about: `problem` is turned.
struct OnednnChoice {
  ConvProblem problem;
  std::vector<PostOp> post_ops, later;  // What is done inside of the primitive, and after it.
  std::optional<OnednnConv> found;      // What it likes best, and nothing where it has nothing.
  bool fused = false;                   // Whether `post_ops` can be done inside of it.
  bool plain = false;                   // Whether it was asked for plain tensors, as nothing else was good.
};
OnednnChoice ask_onednn(const Prepare& p, const ConvProblem& problem, const std::vector<PostOp>& post_ops,
                        int operands);
// The same for weights alone, before anything is known of the rest. The problem is turned.
std::optional<OnednnConv> ask_onednn(const ConvProblem& problem);
// Whether the planner knows its layouts, and it is not the reference implementation.
bool is_good(const std::optional<OnednnConv>& found, const ConvProblem& problem);
// Whether it multiplies matrices of copied windows: its way where it has no kernel of its own.
bool is_by_matrices(const std::optional<OnednnConv>& made);

// The weights as oneDNN's primitives read them; `constant` need not have its content if they are there
// already.
bool has_onednn_weights(const TensorPtr& constant, const ConvProblem& problem);
void pack_onednn_weights(const TensorPtr& constant, const ConvProblem& problem);
// The weights as the model has them, whatever form of them is left.
std::shared_ptr<void> original_conv_weights(const TensorPtr& constant, const ConvProblem& problem);

// Reads input 0, weights 1, bias 2 if there is one, operands of the epilogue from input `operands` on. Null
// where oneDNN has nothing for it.
Kernel onednn_conv(Prepare& p, const ConvProblem& given, const std::vector<PostOp>& post_ops,
                   OnednnChoice choice, int operands);

}  // namespace ephost::cpu

#endif
