// Weights whose own form the plugin keeps.
#ifndef EPHOST_CPU_PROGRAM_CONSTANTS_H_
#define EPHOST_CPU_PROGRAM_CONSTANTS_H_

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cpu/operator.h"

namespace ephost::cpu {

class Program;

// The constants of a program and its bodies while they are loaded. Those that kernels pack stay where the
// host has them until their last reader has packed them, and go then; the others are copied. So hardly more
// than one constant is there in both forms at a time.
class Originals {
 public:
  // Copies those that not every reader packs.
  explicit Originals(const std::vector<Program*>& programs);
  // Has the node pack what it reads, once; where a plan was made of it, most is packed already.
  void pack(const Node& node, const Operator& op);
  // Has the nodes pack that no plan was made of.
  void pack_rest();

 private:
  struct Reading {
    size_t left = 0;       // Inputs whose nodes have not packed it.
    bool all_pack = true;  // So far; a run may need the original otherwise.
  };
  const std::vector<Program*> programs_;  // With the same tensors where bodies read what is around them.
  std::vector<TensorPtr> packable_;
  std::unordered_map<const Tensor*, Reading> readers_;  // Of each of those.
  std::unordered_set<const Node*> done_;
};

}  // namespace ephost::cpu

#endif
