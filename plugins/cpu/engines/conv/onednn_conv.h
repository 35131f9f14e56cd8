// Convolutions on oneDNN, with the epilogue inside of its primitives where it has that.
#ifndef EPHOST_CPU_ENGINES_CONV_ONEDNN_CONV_H_
#define EPHOST_CPU_ENGINES_CONV_ONEDNN_CONV_H_

#include <optional>

#include "cpu/engines/conv/problem.h"
#include "cpu/engines/epilogue_loops.h"

namespace ephost::cpu {

#ifdef EPHOST_ONEDNN

// What oneDNN does of the epilogue itself. What comes after is quicker on our own loops than in oneDNN's code
// for AVX2: the functions that take exponentials. Additions stay before.
size_t first_slow(const PostOps& post_ops, const ConvProblem& problem);

// A primitive and what it reads and writes.
struct OnednnConv;

// A convolution that oneDNN is asked about: `problem` is turned.
struct OnednnChoice {
  ConvProblem problem;
  PostOps post_ops, later;                  // What is done inside of the primitive, and after it.
  std::shared_ptr<const OnednnConv> found;  // What it likes best, and nothing where it has nothing.
  bool fused = false;                       // Whether `post_ops` can be done inside of it.
  bool plain = false;  // Whether it was asked for plain tensors, as nothing else was good.
  // Whether the planner knows its layouts, and it is not the reference implementation.
  bool good = false;
  // Whether matrices of copied windows are multiplied: its way where it has no kernel of its own, and ours
  // where it has but loops for reference.
  bool by_matrices = false;
  std::optional<Layout> source, target;  // Where they are layouts that the planner knows.
};
OnednnChoice ask_onednn(const Prepare& p, const ConvProblem& problem, const PostOps& post_ops, int operands);
// The same for weights alone, before anything is known of the rest. The problem is turned.
OnednnChoice ask_onednn(const ConvProblem& problem);

// The weights as oneDNN's primitives read them; `constant` need not have its content if they are there
// already.
bool has_onednn_weights(const TensorPtr& constant, const ConvProblem& problem);
void pack_onednn_weights(const TensorPtr& constant, const ConvProblem& problem);
// The original made from them; null where they are not there.
TensorPtr onednn_original(const TensorPtr& constant, const ConvProblem& problem);

// Reads input 0, weights 1, bias 2 if there is one, operands of the epilogue from input `operands` on. Null
// where oneDNN has nothing for it.
Kernel onednn_conv(Prepare& p, const ConvProblem& given, const PostOps& post_ops, OnednnChoice choice,
                   int operands);

#endif

}  // namespace ephost::cpu

#endif
