/* The few things of an operating system that the C half needs: locks, conditions, threads, a clock. */
#ifndef EPHOST_PLATFORM_H_
#define EPHOST_PLATFORM_H_

#include <stdint.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <process.h>
#include <windows.h>

typedef SRWLOCK Mutex;
typedef CONDITION_VARIABLE Condition;
typedef HANDLE Thread;
#define MUTEX_INIT SRWLOCK_INIT
#ifdef _MSC_VER
#define THREAD_LOCAL __declspec(thread)
#else
#define THREAD_LOCAL _Thread_local
#endif
static inline void mutex_init(Mutex* mutex) { InitializeSRWLock(mutex); }
static inline void mutex_destroy(Mutex* mutex) { (void)mutex; }
static inline void mutex_lock(Mutex* mutex) { AcquireSRWLockExclusive(mutex); }
static inline void mutex_unlock(Mutex* mutex) { ReleaseSRWLockExclusive(mutex); }
static inline void condition_init(Condition* condition) { InitializeConditionVariable(condition); }
static inline void condition_destroy(Condition* condition) { (void)condition; }
static inline void condition_wait(Condition* condition, Mutex* mutex) {
  SleepConditionVariableSRW(condition, mutex, INFINITE, 0);
}
static inline void condition_signal(Condition* condition) { WakeConditionVariable(condition); }
static inline void condition_broadcast(Condition* condition) { WakeAllConditionVariable(condition); }
#define THREAD_RESULT unsigned __stdcall
#define THREAD_RETURN return 0
static inline int thread_start(Thread* thread, unsigned(__stdcall* body)(void*), void* argument) {
  *thread = (HANDLE)_beginthreadex(NULL, 0, body, argument, 0, NULL);
  return *thread ? 0 : 1;
}
static inline void thread_join(Thread thread) {
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
}
static inline int processor_count(void) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return (int)info.dwNumberOfProcessors;
}
static inline int64_t clock_ns(void) {
  LARGE_INTEGER ticks, frequency;
  QueryPerformanceCounter(&ticks);
  QueryPerformanceFrequency(&frequency);
  return (int64_t)((double)ticks.QuadPart * 1e9 / (double)frequency.QuadPart);
}
/* The number by which the system, and Python's threading.get_native_id, know the calling thread. */
static inline uint64_t thread_id(void) { return GetCurrentThreadId(); }
static inline int64_t coarse_clock_ns(void) { return (int64_t)GetTickCount64() * 1000000; }
#else
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#endif

typedef pthread_mutex_t Mutex;
typedef pthread_cond_t Condition;
typedef pthread_t Thread;
#define MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#define THREAD_LOCAL _Thread_local
static inline void mutex_init(Mutex* mutex) { pthread_mutex_init(mutex, NULL); }
static inline void mutex_destroy(Mutex* mutex) { pthread_mutex_destroy(mutex); }
static inline void mutex_lock(Mutex* mutex) { pthread_mutex_lock(mutex); }
static inline void mutex_unlock(Mutex* mutex) { pthread_mutex_unlock(mutex); }
static inline void condition_init(Condition* condition) { pthread_cond_init(condition, NULL); }
static inline void condition_destroy(Condition* condition) { pthread_cond_destroy(condition); }
static inline void condition_wait(Condition* condition, Mutex* mutex) { pthread_cond_wait(condition, mutex); }
static inline void condition_signal(Condition* condition) { pthread_cond_signal(condition); }
static inline void condition_broadcast(Condition* condition) { pthread_cond_broadcast(condition); }
#define THREAD_RESULT void*
#define THREAD_RETURN return NULL
static inline int thread_start(Thread* thread, void* (*body)(void*), void* argument) {
  return pthread_create(thread, NULL, body, argument);
}
static inline void thread_join(Thread thread) { pthread_join(thread, NULL); }
/* The processors this process may use, which a container's or taskset's limit can make fewer than exist. */
static inline int processor_count(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (int)count : 1;
}
static inline int64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
/* To a few milliseconds, for a fraction of the time. */
static inline int64_t coarse_clock_ns(void) {
#ifdef CLOCK_MONOTONIC_COARSE
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
#else
  return clock_ns();
#endif
}
static inline uint64_t thread_id(void) {
#if defined(__linux__)
  return (uint64_t)syscall(SYS_gettid);
#elif defined(__APPLE__)
  uint64_t number = 0;
  pthread_threadid_np(NULL, &number);
  return number;
#else
  return (uint64_t)(uintptr_t)pthread_self();
#endif
}
#endif

#endif
