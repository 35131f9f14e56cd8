// The ways in which a convolution of float32 is computed, best first: packing and running ask the same list.
#ifndef EPHOST_CPU_ENGINES_CONV_IMPLEMENTATIONS_H_
#define EPHOST_CPU_ENGINES_CONV_IMPLEMENTATIONS_H_

#include <optional>

#include "cpu/engines/conv/onednn_conv.h"

namespace ephost::cpu {

// What is done where no special method fits, in the words in which the methods compare themselves with it.
#ifdef EPHOST_ONEDNN
using OtherWay = OnednnChoice;
#else
struct OtherWay {
  ConvProblem problem;  // Turned.
  bool fused = true;    // Whether it does the epilogue pixel by pixel.
  static constexpr bool good = true, by_matrices = true;
  static constexpr std::optional<Layout> source = Layout::kChannelsLast, target = Layout::kChannelsLast;
};
#endif

// A convolution that is about to be planned. Inputs: x, weights, bias, operands of the epilogue.
class ConvTask {
 public:
  static constexpr int kOperands = 3;
  ConvTask(Prepare* of, const ConvProblem& asked, const PostOps& after)
      : p(*of), problem(asked), post_ops(after) {}
  // Asked once.
  const OtherWay& other();
  // Whether a kernel of oneDNN, which is compiled for its shapes, takes longer to make than it may save:
  // those below are all made at once.
  bool at_once() const;

  Prepare& p;
  const ConvProblem& problem;
  const PostOps& post_ops;

 private:
  std::optional<OtherWay> other_;
};

struct ConvImplementation {
  const char* name;  // In profiles.
  // Whether it is one for these weights and attributes; nothing that only shapes of inputs say counts.
  bool (*fits)(const ConvProblem& problem, const PostOps& post_ops);
  // Packs the weights for it. False where another implementation should have them.
  bool (*pack)(const TensorPtr& weights, const ConvProblem& problem);
  // Null where it does not fit the shapes, the layouts or the operands.
  Kernel (*make)(ConvTask& task);
};

// The first one that fits makes the kernel; the last one always does.
Kernel make_convolution(Prepare& p, const ConvProblem& problem, const PostOps& post_ops);
// Brings the weights into the form in which the first one that fits wants them. What the problem says of
// inputs' shapes is a guess.
bool pack_convolution(const TensorPtr& weights, const ConvProblem& problem, const PostOps& post_ops);

}  // namespace ephost::cpu

#endif
