// A lock that no thread holds while the process forks. A child has the locks of its parent as they were, but
// only one of the threads: what another one held nobody would ever give back.
#ifndef EPHOST_TOOLKIT_MUTEX_H_
#define EPHOST_TOOLKIT_MUTEX_H_

#include <mutex>

namespace ephost {

class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Waits while the process forks, unless this thread holds another such lock: that one the fork waits for.
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

}  // namespace ephost

#endif
