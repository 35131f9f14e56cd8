#include "cpu/runtime/careful.h"

namespace ephost::cpu {
namespace {

thread_local bool careful = false;

}  // namespace

bool is_careful() { return careful; }

CarefulScope::CarefulScope(bool is) : before_(careful) { careful = before_ || is; }
CarefulScope::~CarefulScope() { careful = before_; }

}  // namespace ephost::cpu
