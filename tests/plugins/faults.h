/* Faults on request, for plugins of the tests: EPHOST_FAULT="segv:Compute" in the environment has the
 * function Compute end its process. After a colon more, as in "exit:Compute:3", it is the third call that
 * does. */
#ifndef EPHOST_TESTS_FAULTS_H_
#define EPHOST_TESTS_FAULTS_H_

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
static inline bool fork_child(void) { return false; } /* there are no such children */
static inline void leave_session(void) {}
static inline void wait_for_ever(void) { Sleep(INFINITE); }
#else
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
static inline bool fork_child(void) { return fork() == 0; }
static inline void leave_session(void) { (void)setsid(); }
static inline void wait_for_ever(void) { (void)pause(); }
#endif

static inline int overflow_stack(int depth) {
  volatile char here[4096];
  here[0] = (char)depth;
  return depth < 1 << 30 ? overflow_stack(depth + 1) + here[0] : 0;
}

static inline void fault(const char* where) {
  static int calls;
  char kind[16] = "", function[64] = "";
  int call = 1;
  const char* wanted = getenv("EPHOST_FAULT");
  if (wanted == NULL || sscanf(wanted, "%15[^:]:%63[^:]:%d", kind, function, &call) < 2) return;
  if (strcmp(function, where) != 0 || ++calls < call) return;
  if (strcmp(kind, "segv") == 0) *(volatile int*)(size_t)(calls > 0 ? 8 : 0) = 1;
  if (strcmp(kind, "abort") == 0) abort();
  if (strcmp(kind, "ill") == 0) __builtin_trap();
  if (strcmp(kind, "exit") == 0) exit(7);
  if (strcmp(kind, "kill") == 0) (void)raise(9);
  if (strcmp(kind, "twice") == 0) {
    void* volatile memory = malloc(64); /* volatile: a compiler may not know that it is freed twice */
    free(memory);
    free(memory);
  }
  if (strcmp(kind, "overflow") == 0) (void)overflow_stack(0);
  /* A child that goes on and has all descriptors, in a session of its own or not, and the end or not of who
   * made it. */
  if (strcmp(kind, "child") == 0 || strcmp(kind, "daemon") == 0 || strcmp(kind, "orphan") == 0) {
    bool is_child = fork_child();
    if (is_child && strcmp(kind, "daemon") == 0) leave_session();
    while (is_child) wait_for_ever();
  }
  if (strcmp(kind, "orphan") == 0) (void)raise(9);
#ifndef _WIN32                                 /* What concerns the process, without being its end. */
  if (strcmp(kind, "fork") == 0) (void)fork(); /* and returns in both */
  if (strcmp(kind, "alarm") == 0) (void)alarm(1000);
  if (strcmp(kind, "end_parent") == 0) (void)kill(getppid(), SIGKILL);
  while (strcmp(kind, "print") == 0) (void)!write(1, function, sizeof function);
  if (strcmp(kind, "thread_end") == 0) pthread_exit(NULL);
  if (strcmp(kind, "lock_memory") == 0) (void)mlockall(MCL_CURRENT | MCL_FUTURE);
  for (int file = 3; strcmp(kind, "close_all") == 0 && file < 1024; ++file) (void)close(file);
#endif
#ifndef _WIN32 /* What belongs to the process, and not to the plugin. */
  if (strcmp(kind, "no_stdin") == 0) (void)close(0);
  if (strcmp(kind, "no_stdout") == 0) (void)close(1);
  if (strcmp(kind, "nonblocking") == 0) (void)fcntl(2, F_SETFL, fcntl(2, F_GETFL) | O_NONBLOCK);
  if (strcmp(kind, "default_segv") == 0) (void)signal(SIGSEGV, SIG_DFL);
  if (strcmp(kind, "nice") == 0) (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 1);
#endif
  while (strcmp(kind, "hang") == 0) wait_for_ever();
}

#endif
