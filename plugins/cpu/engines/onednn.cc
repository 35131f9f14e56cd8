#include "cpu/engines/onednn.h"

#include "cpu/runtime/threads.h"

namespace ephost::cpu::dnn {

using dnnl::memory;

const dnnl::engine& engine() {
  // Never destroyed: the library may be gone before this one's destructors run.
  static const dnnl::engine* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

namespace {

memory::format_tag tag_of(size_t rank, Layout layout) {
  using Tag = memory::format_tag;
  static constexpr Tag kTags[4][4] = {
      {Tag::ab, Tag::abc, Tag::abcd, Tag::abcde},
      {Tag::ab, Tag::acb, Tag::acdb, Tag::acdeb},
      {Tag::undef, Tag::aBc8b, Tag::aBcd8b, Tag::aBcde8b},
      {Tag::undef, Tag::aBc16b, Tag::aBcd16b, Tag::aBcde16b},
  };
  return rank < 2 || rank > 5 ? Tag::undef : kTags[static_cast<size_t>(layout)][rank - 2];
}

}  // namespace

Md describe(const Dims& dims, Layout layout) {
  if (layout == Layout::kPlain) {
    return plain(dims);
  }
  return Md(dims_of(dims), memory::data_type::f32, tag_of(dims.size(), layout));
}

Md any(const Dims& dims) { return Md(dims_of(dims), memory::data_type::f32, memory::format_tag::any); }

Md plain(const Dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<int64_t>(1, dims[i]);
  }
  return Md(dims_of(dims), memory::data_type::f32, strides);
}

std::optional<Layout> layout_of(const Md& md, const Dims& dims) {
  for (Layout layout : {Layout::kPlain, Layout::kBlock8, Layout::kBlock16, Layout::kChannelsLast}) {
    if (tag_of(dims.size(), layout) != memory::format_tag::undef && md == describe(dims, layout)) {
      return layout;
    }
  }
  return std::nullopt;
}

Primitive::Primitive(dnnl::primitive primitive, std::vector<Argument> arguments)
    : primitive_(std::move(primitive)), arguments_(std::move(arguments)) {}

void Primitive::run(void* const* pointers) const {
  std::unique_ptr<Set> set;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      set = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (set == nullptr) {
    set = std::make_unique<Set>();
    set->stream = dnnl::stream(engine());
    for (const Argument& argument : arguments_) {
      set->memories.emplace_back(argument.desc, engine(), static_cast<void*>(DNNL_MEMORY_NONE));
      set->arguments.push_back({argument.number, set->memories.back().get()});
    }
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    dnnl_memory_set_data_handle(set->memories[i].get(), pointers[i]);
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), set->stream.get(), static_cast<int>(arguments_.size()), set->arguments.data());
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(set));
  }
  if (status != dnnl_success) {
    fail("oneDNN: a primitive could not be run, status " + std::to_string(status));
  }
}

void reorder(const Md& from, const void* data, const Md& to, void* out) {
  // A network has many small weights: to wake a thread takes longer than to bring one into its form.
  constexpr size_t kSmall = size_t{1} << 18;
  std::optional<OneRank> alone;
  if (to.get_size() < kSmall) alone.emplace();
  guarded([&] {
    const dnnl::reorder primitive(dnnl::reorder::primitive_desc(engine(), from, engine(), to));
    dnnl::stream stream(engine());
    memory source(from, engine(), const_cast<void*>(data)), target(to, engine(), out);
    primitive.execute(stream, source, target);
    stream.wait();
  });
}

namespace {

// All forms of one constant under one key.
struct Forms {
  Mutex mutex;
  std::vector<std::shared_ptr<Packed>> forms;
};

std::shared_ptr<Forms> forms_of(const TensorPtr& constant, const std::string& key) {
  return Prepare::packed<Forms>(constant, "onednn " + key, [] { return std::make_shared<Forms>(); });
}

}  // namespace

std::shared_ptr<Packed> packed(const TensorPtr& constant, const std::string& key, const Md& from,
                               const void* data, const Md& to) {
  const std::shared_ptr<Forms> all = forms_of(constant, key);
  const std::lock_guard lock(all->mutex);
  for (const std::shared_ptr<Packed>& form : all->forms) {
    if (form->desc == to) {
      return form;
    }
  }
  auto form = std::make_shared<Packed>();
  form->desc = to;
  form->memory = allocate_lasting(to.get_size());
  if (data != nullptr) {
    reorder(from, data, to, form->memory.get());
  } else if (!all->forms.empty()) {
    reorder(all->forms[0]->desc, all->forms[0]->memory.get(), to, form->memory.get());
  } else {
    fail("a weight is gone before it was packed");
  }
  all->forms.push_back(form);
  return form;
}

std::optional<Md> packed_form(const TensorPtr& constant, const std::string& key) {
  const std::shared_ptr<Forms> all = forms_of(constant, key);
  const std::lock_guard lock(all->mutex);
  return all->forms.empty() ? std::nullopt : std::optional<Md>(all->forms[0]->desc);
}

void unpack(const TensorPtr& constant, const std::string& key, const Md& to, void* out) {
  const std::shared_ptr<Forms> all = forms_of(constant, key);
  const std::lock_guard lock(all->mutex);
  if (all->forms.empty()) {
    fail("a weight is gone before it was packed");
  }
  reorder(all->forms[0]->desc, all->forms[0]->memory.get(), to, out);
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

}  // namespace ephost::cpu::dnn
