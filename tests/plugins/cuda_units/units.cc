/* The parts of plugins/cuda that need no device, as functions that ctypes can call. */
#include <cstdio>

#include "../../../plugins/cuda/pool_account.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using ephost::cuda::PoolAccount;

EXPORT size_t rounded(size_t bytes) { return PoolAccount::rounded(bytes); }

EXPORT bool fits(size_t limit, size_t in_use, size_t bytes) {
  PoolAccount account;
  account.limit = limit;
  account.in_use = in_use;
  return account.fits(bytes);
}

EXPORT bool size_of_text(const char* text, size_t* bytes) { return ephost::cuda::parse_size(text, bytes); }

EXPORT const char* text_of_size(size_t bytes) {
  static char text[64];
  (void)std::snprintf(text, sizeof text, "%s", ephost::cuda::size_text(bytes).c_str());
  return text;
}
