#include "toolkit/text.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace ephost {
namespace {

thread_local TextScope* current_scope = nullptr;

constexpr size_t kLargestBlock = size_t{1} << 20;

// Elements, views and characters in one piece of memory. `text(i)` is string i.
template <typename GetText>
TensorPtr held(const Dims& dims, const GetText& text) {
  const size_t n = static_cast<size_t>(count(dims));
  size_t characters = 0;
  for (size_t i = 0; i < n; ++i) characters += text(i).size();
  auto tensor = std::make_shared<Tensor>();
  tensor->type = DType::kString;
  tensor->dims = dims;
  tensor->owner = allocate(n * (sizeof(Text) + sizeof(std::string_view)) + characters);
  tensor->data = tensor->owner.get();
  Text* elements = static_cast<Text*>(tensor->owner.get());
  auto* views = reinterpret_cast<std::string_view*>(elements + n);
  char* to = reinterpret_cast<char*>(views + n);
  for (size_t i = 0; i < n; ++i) {
    const std::string_view from = text(i);
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    elements[i] = {new (views + i) std::string_view(to, from.size())};
    to += from.size();
  }
  return tensor;
}

}  // namespace

TensorPtr make_texts(const Dims& dims, const std::vector<std::string_view>& texts) {
  return held(dims, [&](size_t i) { return texts[i]; });
}

TensorPtr make_texts(const Dims& dims, const std::vector<std::string>& texts) {
  return held(dims, [&](size_t i) { return std::string_view(texts[i]); });
}

TensorPtr own_texts(TensorPtr tensor) {
  if (tensor == nullptr || tensor->type != DType::kString) {
    return tensor;
  }
  return held(tensor->dims, [&](size_t i) { return tensor->as<Text>()[i].view(); });
}

TextScope::TextScope() {
  if (current_scope == nullptr) {
    current_scope = this;
    first_ = true;
  }
}

TextScope::~TextScope() {
  if (first_) current_scope = nullptr;
}

TextScope& TextScope::current() {
  if (current_scope == nullptr) {
    fail("strings are made where nobody keeps them");
  }
  return *current_scope;
}

void* TextScope::take(size_t bytes) {
  bytes = (bytes + alignof(std::string_view) - 1) & ~(alignof(std::string_view) - 1);
  if (bytes > left_) {
    const size_t size = std::max(bytes, block_);
    blocks_.emplace_back(new char[size]);
    block_ = std::min(2 * block_, kLargestBlock);
    if (size - bytes < left_) {  // The rest of the block before it is worth more.
      return blocks_.back().get();
    }
    next_ = blocks_.back().get();
    left_ = size;
  }
  void* taken = next_;
  next_ += bytes;
  left_ -= bytes;
  return taken;
}

std::string_view* TextScope::views(size_t count) {
  auto* all = static_cast<std::string_view*>(take(count * sizeof(std::string_view)));
  std::uninitialized_value_construct_n(all, count);
  return all;
}

Text TextScope::copy(std::string_view text) {
  char* to = characters(text.size());
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  std::string_view* view = views(1);
  *view = {to, text.size()};
  return {view};
}

}  // namespace ephost
