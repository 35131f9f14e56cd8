// oneDNN for kernels: descriptors of tensors, primitives that any thread may run, and activations that are
// done while the output is still in registers.
#ifndef EPHOST_CPU_ENGINES_ONEDNN_H_
#define EPHOST_CPU_ENGINES_ONEDNN_H_

#include <optional>

#include "cpu/engines/onednn_library.h"
#include "cpu/operator.h"
#include "toolkit/mutex.h"

namespace ephost::cpu::dnn {

using Md = dnnl::memory::desc;

const dnnl::engine& engine();

// As oneDNN takes them.
inline dnnl::memory::dims dims_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

// A float32 tensor of these dimensions, at least two, in this layout.
Md describe(const Dims& dims, Layout layout);
inline Md describe(const Desc& desc) { return describe(desc.dims, desc.layout); }
// A float32 tensor whose layout oneDNN is to choose.
Md any(const Dims& dims);
Md plain(const Dims& dims);
// Which of our layouts this is; nothing if it is none of them.
std::optional<Layout> layout_of(const Md& md, const Dims& dims);

// Calls make(), which creates primitives; what oneDNN throws becomes Error(ORT_FAIL).
template <typename Make>
auto guarded(const Make& make) -> decltype(make()) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    fail(std::string("oneDNN: ") + error.what());
  }
}

// A primitive and what it works on. Runs with pointers in the order of `arguments`; several threads may.
class Primitive {
 public:
  struct Argument {
    int number;  // DNNL_ARG_...
    Md desc;
  };
  Primitive(dnnl::primitive primitive, std::vector<Argument> arguments);
  void run(void* const* pointers) const;

 private:
  // Memory objects hold the pointers of one call: each running thread needs a set of its own.
  struct Set {
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
    dnnl::stream stream;
  };
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Set>> free_;
};

// A constant in a form that oneDNN chose.
struct Packed {
  Md desc;
  std::shared_ptr<void> memory;
};
// Brings float32 data from one form into another.
void reorder(const Md& from, const void* data, const Md& to, void* out);
// The constant in the form `to`; `from` is the form that it has in the model (or in `data`, a form of it that
// the caller made). Made once per session; if the original is gone it is made from the form that is there.
std::shared_ptr<Packed> packed(const TensorPtr& constant, const std::string& key, const Md& from,
                               const void* data, const Md& to);
// The form in which `packed` made it first, if it did.
std::optional<Md> packed_form(const TensorPtr& constant, const std::string& key);

// Writes a constant that is packed, and whose original is gone, as `to`.
void unpack(const TensorPtr& constant, const std::string& key, const Md& to, void* out);

// Attributes that all primitives have: scratch memory comes from the plan.
dnnl::primitive_attr attributes();

}  // namespace ephost::cpu::dnn

#endif
