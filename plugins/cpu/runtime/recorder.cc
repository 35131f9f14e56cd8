#include "cpu/runtime/recorder.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#endif

namespace ephost::cpu {

int32_t Recorder::thread_number() {
#if defined(__linux__)
  return static_cast<int32_t>(syscall(SYS_gettid));
#elif defined(_WIN32)
  return static_cast<int32_t>(GetCurrentThreadId());
#else
  return -1;
#endif
}

}  // namespace ephost::cpu
