// Strings as elements of tensors.
//
// An element is a pointer to a view of the characters. So kernels that only move elements move strings like
// any number of 8 bytes, memory that held some may hold anything else afterwards, and nothing has to be
// constructed or destroyed. What is pointed to does not change, and belongs
//  - to the tensor, where that is a constant (`make_texts`, `own_texts`);
//  - to the run, where the host fed it or a kernel made it (`TextScope`);
//  - to the kernel, where it is known in advance (`make_texts` as well).
#ifndef EPHOST_TOOLKIT_TEXT_H_
#define EPHOST_TOOLKIT_TEXT_H_

#include <string_view>

#include "toolkit/dispatch.h"

namespace ephost {

struct Text {
  const std::string_view* at = nullptr;  // Null: empty, as in memory that was filled with zeros.

  std::string_view view() const { return at == nullptr ? std::string_view() : *at; }
};
template <>
inline constexpr DType dtype_of<Text> = DType::kString;

inline constexpr Types kText{DType::kString};

// A tensor that holds these strings.
TensorPtr make_texts(const Dims& dims, const std::vector<std::string_view>& texts);
TensorPtr make_texts(const Dims& dims, const std::vector<std::string>& texts);
// The tensor itself, or where its elements are strings one that holds them: nothing of it is the run's then.
TensorPtr own_texts(TensorPtr tensor);

// Memory for the strings that kernels make in a run: theirs until the scope on their thread ends that began
// first. Whoever runs kernels has one. A kernel asks for it on the thread that called the kernel.
class TextScope {
 public:
  TextScope();
  ~TextScope();
  TextScope(const TextScope&) = delete;
  TextScope& operator=(const TextScope&) = delete;

  static TextScope& current();

  char* characters(size_t count) { return static_cast<char*>(take(count)); }
  // Views to be pointed at, one for each element.
  std::string_view* views(size_t count);
  // An element with a copy of these characters.
  Text copy(std::string_view text);
  // What elements may point into, to live as long.
  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }

 private:
  void* take(size_t bytes);

  bool first_ = false;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::vector<std::shared_ptr<const void>> owners_;
  char* next_ = nullptr;
  size_t left_ = 0, block_ = 4096;
};

}  // namespace ephost

#endif
