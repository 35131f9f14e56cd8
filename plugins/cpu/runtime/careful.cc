#include "cpu/runtime/careful.h"

#include <utility>

namespace ephost::cpu {
namespace {

thread_local CarefulScope* current = nullptr;

}  // namespace

bool is_careful() { return current != nullptr && current->is_careful_now(); }

CarefulScope::CarefulScope(std::function<bool()> find)
    : find_(std::move(find)), around_(std::exchange(current, this)) {}
CarefulScope::~CarefulScope() { current = around_; }

bool CarefulScope::is_careful_now() {
  if (find_ != nullptr) {
    careful_ = (around_ != nullptr && around_->is_careful_now()) || find_();
    find_ = nullptr;
  }
  return careful_;
}

}  // namespace ephost::cpu
