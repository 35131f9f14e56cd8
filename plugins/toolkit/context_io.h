// What a fused node reads and writes when the host runs it.
#ifndef EPHOST_TOOLKIT_CONTEXT_IO_H_
#define EPHOST_TOOLKIT_CONTEXT_IO_H_

#include "toolkit/api.h"
#include "toolkit/graph.h"
#include "toolkit/text.h"

namespace ephost {

// Where a graph's values stand among the inputs and outputs of the fused node that the host made of it: the
// host may order them differently, and leave out inputs that are constants.
class Binding {
 public:
  Binding() = default;
  // By name. `inputs` are the graph's own and then the outer values that it reads. Throws Error where the
  // fused node has not what is needed.
  Binding(const Api& api, const OrtNode* fused, std::vector<const Value*> inputs,
          std::vector<const Value*> outputs);

 private:
  friend class ContextIo;
  std::vector<const Value*> input_values_, output_values_;
  std::vector<size_t> inputs_, outputs_;
};

// The strings of a host's tensor.
struct HostTexts {
  HostTexts(const Api& api, const OrtValue* value, size_t count);
  HostTexts(HostTexts&&) = default;
  std::unique_ptr<char[]> characters;
  std::vector<std::string_view> views;
};

// One run of it. Nothing of the kernel context is held beyond the run. Strings are as in text.h: those of
// inputs are there as long as this is, those of outputs go to the host in `finish`.
class ContextIo {
 public:
  struct Input {
    DType type = DType::kUndefined;
    Dims dims;
    void* data = nullptr;  // Never written to. On a device where the EP's memory is there.
  };

  ContextIo(const Api& api, const Binding& binding, OrtKernelContext* context)
      : api_(api), binding_(binding), context_(context) {}

  size_t num_inputs() const { return binding_.inputs_.size(); }
  // Input i of the graph; nothing, if it is a constant. Throws Error where the host lacks it.
  Input input(size_t i);
  // Memory for output i. Throws Error where the graph declares it as another type.
  void* output(size_t i, DType type, const Dims& dims);
  // Gives the host the outputs that are strings, once all are written.
  void finish() const;

 private:
  const Api& api_;
  const Binding& binding_;
  OrtKernelContext* context_;
  std::vector<std::pair<HostTexts, std::vector<Text>>> texts_;       // Of inputs.
  std::vector<std::pair<OrtValue*, std::vector<Text>>> unfinished_;  // Of outputs.
};

}  // namespace ephost

#endif
